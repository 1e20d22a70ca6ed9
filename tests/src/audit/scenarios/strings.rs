//! Strings, bitmaps and HyperLogLogs.

use crate::audit::script::Scenario;

/// The scenarios of this family.
pub const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "many strings",
        "
        > each/10 SET k:{i} {i}
        > each/10 GET k:{r}
        > each/10 GETSET k:{i} {i}
        > each/10 INCR k:{i}
        > each/10 DECR k:{i}
        > each/10 INCRBY k:{i} 5
        > each/10 DECRBY k:{i} 5
        > each/10 INCRBYFLOAT k:{i} 1.5
        > each/10 APPEND k:{i} 0
        > each/10 STRLEN k:{i}
        > each/10 GETEX k:{i} EX 1000
        > each/10 SETEX k:{i} 1000 v
        > each/10 PSETEX k:{i} 1000000 v
        > each/10 SETNX k:{i} v
        > each/10 SETNX n:{i} v
        > each/10 GETDEL k:{i}
        ",
    ),
    Scenario::new(
        "a string of ten bytes for each of the size",
        "
        > once SET k {bytes*10}
        > x5 GET k
        > x100 STRLEN k
        > x100 GETRANGE k 0 9
        > x100 GETRANGE k -10 -1
        > x100 SUBSTR k -10 -1
        > x100 SETRANGE k {i} y
        > x100 SETRANGE k {n*10-1} y
        > x100 APPEND k x
        > x5 GET k ; APPEND k x
        > x5 GET k ; SETRANGE k 0 x
        > x5 GETSET k {bytes*10}
        > x5 SET k {bytes*10} GET
        > x5 COPY k c REPLACE
        > x5 SETNX m {bytes*10}
        > x5 MSET k {bytes*10}
        > x5 GETEX k PERSIST
        > x100 TYPE k
        > x100 OBJECT ENCODING k
        > x100 MEMORY USAGE k
        > x100 EXPIRE k 1000
        >? x5 INCR k
        >? x5 INCRBYFLOAT k 1
        > once GETDEL k
        ",
    ),
    Scenario::new(
        "conditions on strings",
        "
        > each/10 SET k:{i} v IFNE v
        > each/10 SET k:{i} w IFEQ v
        > each/10 DIGEST k:{i}
        > each/10 INCREX n:{i} UBOUND 5 EX 10000 ENX
        > each/10 INCREX n:{i} BYFLOAT 0.5 LBOUND 0 UBOUND 5 SATURATE PERSIST
        > each/10 DELEX k:{i} IFEQ w
        once SET k {bytes*10}
        > x5 DIGEST k
        > x5 SET k v IFDEQ 00006c38adf31777
        > x5 SET k v IFNE {bytes*10}
        > x5 SET k {bytes*10} IFEQ {bytes*10}
        > x5 DELEX k IFDEQ 00006c38adf31777
        > x5 DELEX k IFNE {bytes*10}
        > x100 SET k v IFEQ v
        > x100 DELEX k IFEQ v
        > once DELEX k IFEQ {bytes*10}
        ",
    ),
    Scenario::new(
        "a string that grows byte by byte",
        "
        > each APPEND a x
        > each SETRANGE b {i} x
        > each SETBIT c {i*8} 1
        > each/4 SET d v ; APPEND d x
        > each/4 APPEND e x ; STRLEN e ; GETRANGE e -1 -1
        > once SETRANGE f {n*20} x
        > once SET f x
        > once SETBIT g {n*100} 1
        > x100 SETRANGE g 0 x
        > once SET g 1
        ",
    ),
    Scenario::new(
        "bits",
        "
        once SETBIT b {n*8} 1
        once SETBIT ones {n*8} 0
        > once BITCOUNT b
        > once BITCOUNT b 1 -1
        > once BITCOUNT b 3 -3 BIT
        > once BITPOS b 1
        > once BITPOS b 1 1 -1
        > once BITPOS b 1 3 -1 BIT
        > once BITPOS b 0
        > x100 BITPOS b 1 -1
        > x100 BITCOUNT b -1 -1
        > x100 GETBIT b {r}
        > x100 SETBIT b {r} 1
        > x100 BITFIELD b GET u8 {r}
        > x100 BITFIELD_RO b GET u8 {r}
        > all BITFIELD b | SET u8 #{i} 1
        > all BITFIELD b | OVERFLOW SAT INCRBY u8 #{j} 200
        > all BITFIELD_RO b | GET i64 {i}
        > once BITOP NOT d b
        > once BITOP AND d b ones
        > once BITOP XOR d b missing
        > all BITOP OR d | missing:{i}
        > all BITOP AND d | b2
        > once BITOP OR b b b
        ",
    ),
    Scenario::new(
        "bits of many keys",
        "
        fill MSET | k:{i} abc
        > all BITOP OR d | k:{i}
        > all BITOP AND d | k:{j}
        > all BITOP XOR d | k:0
        ",
    ),
    Scenario::new(
        "common subsequences",
        "
        once MSET a {bytes/50} b {bytes/50} c y{bytes/50}y
        > once LCS a b
        > once LCS a c IDX
        > once LCS a b LEN
        > once LCS a missing
        ",
    )
    .up_to(100_000),
    Scenario::new(
        "HyperLogLogs",
        "
        > each PFADD h e:{i}
        > all PFADD one | e:{i}
        > all PFADD one | same
        > x100 PFCOUNT h
        > x20 PFADD h x:{i} ; PFCOUNT h
        > x20 PFMERGE d h one
        > each/100 PFADD p:{i} e:{i}
        > all/100 PFCOUNT | p:{i}
        > all/100 PFMERGE d | p:{i}
        > all/10 PFCOUNT | missing:{i}
        > all/10 PFMERGE d | missing:{i}
        > x20 PFDEBUG ENCODING h
        ",
    ),
];
