//! Connections, configuration, what the server tells of itself, and the protocol.

use crate::audit::script::Scenario;

/// The scenarios of this family. With 25 to a client, a size of 100,000 is 4,000 clients.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "many clients",
        "
        > connect/25 CLIENT SETNAME name{i}
        > rest
        > once CLIENT LIST
        > x5 PIPELINE DOCTOR
        > x5 CLIENT LIST TYPE normal
        > all/25 CLIENT LIST ID | {i+1}
        > x100 CLIENT INFO
        > x100 CLIENT ID
        > x20 INFO clients
        > x20 INFO everything
        > x20 CLIENT PAUSE 0
        > x20 CLIENT UNPAUSE
        > x20 CLIENT UNBLOCK 99999999
        > x20 CLIENT KILL ID 99999999
        > x20 CLIENT NO-EVICT ON
        > x20 MEMORY STATS
        > x20 MEMORY DOCTOR
        > once CLIENT KILL TYPE normal SKIPME yes
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients killed one by one",
        "
        connect/25 PING
        order CLIENT ID
        >? each/25 CLIENT KILL ID {i}
        >? once CLIENT KILL SKIPME yes
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients with long requests under way",
        "
        raw/25 *3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$100\\r\\nabc
        > x20 PING
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "clients that announce much and send nothing",
        "
        raw/1000 *3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$536870912\\r\\n
        > rest
        > vanish
        raw/1000 *1000000\\r\\n$3\\r\\nDEL\\r\\n
        > rest
        > vanish
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "long arguments",
        "
        > x5 ECHO {bytes*8}
        > x5 PING {bytes*8}
        > x5 CLIENT SETNAME {bytes}
        > x5 CLIENT INFO
        > x5 CLIENT SETNAME x
        >? x5 AUTH {bytes*8}
        >? x5 AUTH default {bytes*8}
        >? x5 {bytes*8}
        >? x5 CLIENT {bytes*8}
        >? x5 SELECT {bytes*8}
        >? x5 HELLO {bytes*8}
        >? x5 CONFIG SET {bytes*8} x
        >? x5 SET k v {bytes*8}
        >? x5 SET k v EX {bytes*8}
        >? x5 INCRBY k {bytes*8}
        >? x5 ZADD z {bytes*8} m
        >? x5 CONFIG GET {bytes}
        >? x5 COMMAND INFO {bytes*8}
        ",
    ),
    Scenario::new(
        "many arguments",
        "
        >? all PING | x
        >? all nothing | x
        >? all SET k v | x
        >? all EXPIRE k 1 | x
        > all CONFIG GET | p{i}
        > all COMMAND INFO | c{i}
        > all COMMAND INFO | get
        > all COMMAND DOCS | c{i}
        > all COMMAND GETKEYS MSET | k:{i} v
        > all COMMAND GETKEYSANDFLAGS MSET | k:{i} v
        > all COMMAND GETKEYS ZUNION {n} | k:{i}
        > all INFO | s{i}
        >? all CONFIG SET | hz 10
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "commands that are not there",
        "
        >? each/2 nothing{i}
        >? each/4 CONFIG nothing{i}
        >? each/4 HELLO 9
        > x20 INFO errorstats
        > x20 INFO commandstats
        > once CONFIG RESETSTAT
        ",
    ),
    Scenario::new(
        "a server that holds much",
        "
        fill MSET | k:{i} v
        fill SADD s | m:{i}
        > x20 INFO everything
        > x20 MEMORY STATS
        > x20 MEMORY DOCTOR
        > x5 MEMORY MALLOC-STATS
        > once MEMORY PURGE
        > x20 CONFIG GET *
        > x20 CONFIG SET maxmemory 0
        > x20 COMMAND COUNT
        > x5 COMMAND
        > x5 COMMAND LIST
        > x5 COMMAND DOCS
        > x100 DEBUG OBJECT k:{i}
        > x100 RESET
        > x100 TIME
        > x100 ROLE
        > x5 LOLWUT
        > x100 GET k:{r}
        ",
    ),
    Scenario::new(
        "a long slow log",
        "
        once CONFIG SET slowlog-max-len 1000000
        once CONFIG SET slowlog-log-slower-than 0
        > each/4 SET k:{i} v
        > each/4 LATENCY LATEST
        > all MSET | k:{i} v
        > x5 SET k {bytes*8}
        > x100 SLOWLOG GET
        > x20 SLOWLOG LEN
        > once SLOWLOG BATCHES -1
        > x100 SLOWLOG BATCHES
        > once SLOWLOG GET -1
        > once SLOWLOG RESET
        > once CONFIG SET slowlog-log-slower-than 10000
        > once CONFIG SET slowlog-max-len 128
        > x20 LATENCY HISTOGRAM
        > x20 LATENCY HISTOGRAM set
        > all LATENCY HISTOGRAM | c{i}
        > all LATENCY RESET | e{i}
        > x20 INFO latencystats
        ",
    ),
    Scenario::new(
        "a session that looks for hot keys",
        "
        once HOTKEYS START METRICS 2 CPU NET
        > each/4 SET k:{i} v
        > all MSET | k:{i} v
        > x20 HOTKEYS GET
        > once HOTKEYS STOP
        > once HOTKEYS RESET
        > once HOTKEYS START METRICS 1 CPU SAMPLE 100
        > each/4 GET k:{i}
        > once HOTKEYS STOP
        > once HOTKEYS RESET
        ",
    ),
    Scenario::new(
        "what clients probe",
        "
        > each/4 WAIT 0 0
        > each/4 WAITAOF 0 0 0
        > each/4 LASTSAVE
        > each/4 REPLICAOF NO ONE
        >? each/4 FAILOVER
        >? each/4 READONLY
        >? each/4 CLUSTER INFO
        >? all CLUSTER ADDSLOTS | {i}
        > each/4 MODULE LIST
        > each/4 ACL WHOAMI
        > each/4 ACL GETUSER default
        > x100 ACL LIST
        > x20 ACL CAT
        > x20 ACL CAT slow
        > x100 ACL GENPASS
        > all ACL DELUSER | u{i}
        > all ACL DRYRUN default MSET | k:{i} v
        >? x5 ACL DRYRUN {bytes*8} GET k
        >? x5 ACL CAT {bytes*8}
        >? each/4 AUTH u{i} x
        >? x5 AUTH {bytes*8} x
        > x20 ACL LOG -1
        > x20 ACL LOG 1000000
        > once ACL LOG RESET
        ",
    ),
    Scenario::new(
        "short commands in a long pipeline",
        "
        > each PING
        > each/4 ECHO x
        > each/4 SELECT 0
        > each/4 TIME
        > each/4 CLIENT ID
        > each/4 CLIENT GETNAME
        > each/4 CLIENT SETINFO lib-name x
        > each/4 CLIENT NO-TOUCH OFF
        > each/4 CLIENT DURABILITY no
        > each/4 OBJECT ENCODING k
        ",
    ),
    Scenario::new(
        "scripts and functions",
        r##"
        > each/4 EVAL return(redis.call('INCR',KEYS[1])) 1 k:{i}
        > each/10 EVAL return({i}) 0
        > each/4 EVAL_RO return(redis.call('GET',KEYS[1])) 1 k:{i}
        > each/10 SCRIPT LOAD return({i}+1)
        > each/4 SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        >? each/4 EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        >? each/4 EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
        > x100 FUNCTION LOAD REPLACE #!lua{space}name=l{line}redis.register_function('f',function(keys)return(redis.call('GET',keys[1]))end)
        > each/4 FCALL f 1 k:{i}
        >? each/4 FCALL_RO f 1 k:{i}
        > x100 FUNCTION LIST
        > x100 FUNCTION STATS
        > x100 FUNCTION DUMP
        >? x100 FUNCTION RESTORE x
        > once FUNCTION DELETE l
        > once FUNCTION FLUSH
        > once SCRIPT FLUSH
        "##,
    ),
];
