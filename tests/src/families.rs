//! The commands under differential test, by family.

mod bits;
mod data;
mod geo;
mod hashes;
mod hyperloglog;
mod lists;
mod probes;
mod pubsub;
mod scripts;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod timing;
mod tracking;

use crate::arguments::Arguments;
use crate::argv::Argv;
use crate::diff::{Action, Mode, Sequence, Step};
use crate::grammar::Syntax;
use crate::rng::Rng;
use crate::server::Oracle;

pub use bits::BITS;
pub use data::DataCommands;
pub use geo::GEO;
pub use hashes::HASHES;
pub use hyperloglog::HYPERLOGLOG;
pub use lists::LISTS;
pub use probes::PROBES;
pub use pubsub::PUBSUB;
pub use scripts::SCRIPTS;
pub use sets::SETS;
pub use sort::SORT;
pub use sorted_sets::{LEX, SORTED_SETS};
pub use streams::STREAMS;
pub use timing::TIMING;
pub use tracking::TRACKING;

/// A family of commands that are tried together.
pub struct Family {
    /// The name, as `onrush-diff` takes it.
    pub name: &'static str,
    /// Arguments for both servers.
    pub args: &'static [&'static str],
    /// Whether sequences are sent as pipelines, too.
    pub pipelined: bool,
    /// Commands that every sequence starts with.
    pub reset: &'static [&'static str],
    /// Lines that are tried with the newer oracle only: commands that the older one lacks, or has in another way than
    /// 7.2.
    pub newer_lines: &'static [(u32, &'static str)],
    /// How often a line is chosen, and its syntax.
    pub lines: &'static [(u32, &'static str)],
}

/// All families.
pub const FAMILIES: &[Family] = &[
    STRINGS,
    COUNTERS,
    KEYS,
    EXPIRY,
    CONNECTION,
    PUBSUB,
    TRACKING,
    AUTH,
    SERVER,
    PROBES,
    TIMING,
    LISTS,
    HASHES,
    SETS,
    SORTED_SETS,
    LEX,
    STREAMS,
    BITS,
    HYPERLOGLOG,
    GEO,
    SORT,
    TRANSACTIONS,
    SCRIPTS,
];

/// Transactions and what they watch. All other families are tried inside of transactions as well.
pub const TRANSACTIONS: Family = Family {
    name: "transactions",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (6, "MULTI"),
        (6, "EXEC"),
        (1, "DISCARD"),
        (5, "WATCH key..."),
        (1, "UNWATCH"),
        (6, "SET key value"),
        (4, "GET key"),
        (4, "INCR key"),
        (2, "MSET (key value)..."),
        (2, "DEL key..."),
        (2, "RPUSH key value..."),
        (2, "LPOP key"),
        (2, "SADD key member..."),
        (2, "HSET key (member value)..."),
        (1, "EXPIRE key seconds"),
        (1, "PERSIST key"),
        (1, "RENAME key key"),
        (1, "SELECT db"),
        (1, "FLUSHDB"),
        (1, "SWAPDB db db"),
        (1, "DBSIZE"),
        (1, "NOSUCH key"),
    ],
};

/// Values of all sizes and the commands on them.
pub const STRINGS: Family = Family {
    name: "strings",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (10, "SET key value [NX | XX] [GET] [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]"),
        (8, "GET key"),
        (3, "GETSET key value"),
        (3, "GETDEL key"),
        (4, "GETEX key [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST]"),
        (3, "SETNX key value"),
        (3, "SETEX key seconds value"),
        (3, "PSETEX key ms value"),
        (4, "MSET (key value)..."),
        (3, "MSETNX (key value)..."),
        (5, "MGET key..."),
        (6, "APPEND key value"),
        (4, "STRLEN key"),
        (5, "GETRANGE key offset offset"),
        (2, "SUBSTR key offset offset"),
        (6, "SETRANGE key offset value"),
        (3, "INCR key"),
        (4, "LCS key key [LEN] [IDX] [MINMATCHLEN int] [WITHMATCHLEN]"),
        (4, "OBJECT ENCODING key"),
        (2, "DEL key"),
        (2, "TYPE key"),
        (2, "PTTL key"),
    ],
};

/// Integers and floats: limits, formats, encodings.
pub const COUNTERS: Family = Family {
    name: "counters",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (8, "SET key number"),
        (4, "SET key value"),
        (8, "INCR key"),
        (8, "DECR key"),
        (8, "INCRBY key int"),
        (8, "DECRBY key int"),
        (12, "INCRBYFLOAT key float"),
        (4, "APPEND key number"),
        (3, "SETRANGE key offset number"),
        (4, "GET key"),
        (4, "OBJECT ENCODING key"),
        (2, "STRLEN key"),
        (2, "GETSET key number"),
        (1, "EXPIRE key seconds"),
        (1, "DEL key..."),
    ],
};

/// The keyspace: names, databases, scans.
pub const KEYS: Family = Family {
    name: "keys",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (12, "SET key value [EX seconds]"),
        (3, "MSET (key value)..."),
        (3, "DEL key..."),
        (3, "UNLINK key..."),
        (4, "EXISTS key..."),
        (3, "TOUCH key..."),
        (3, "TYPE key"),
        (5, "RENAME key key"),
        (5, "RENAMENX key key"),
        (8, "COPY key key [DB db] [REPLACE]"),
        (5, "MOVE key db"),
        (6, "RESTORE key 0 payload [REPLACE]"),
        (1, "RESTORE-ASKING key 0 payload [REPLACE]"),
        (2, "MIGRATE 127.0.0.1 1 key 0 100 [COPY] [REPLACE]"),
        (1, "MIGRATE 127.0.0.1 1 key 0 100 KEYS key..."),
        (2, "RANDOMKEY"),
        (4, "KEYS pattern"),
        (2, "SCAN cursor [MATCH pattern] [COUNT int] [TYPE type]"),
        (4, "SCANALL [MATCH pattern] [COUNT count] [TYPE type]"),
        (4, "DBSIZE"),
        (1, "FLUSHDB [ASYNC | SYNC]"),
        (1, "FLUSHALL [ASYNC | SYNC]"),
        (3, "SWAPDB db db"),
        (8, "SELECT db"),
        (3, "OBJECT ENCODING key"),
        (2, "OBJECT REFCOUNT key"),
        (2, "OBJECT IDLETIME key"),
        (1, "OBJECT FREQ key"),
        (1, "OBJECT HELP"),
        (1, "OBJECT name key"),
        (3, "GET key"),
        (2, "PTTL key"),
    ],
};

/// Times to live.
pub const EXPIRY: Family = Family {
    name: "expiry",
    args: &[],
    pipelined: true,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (10, "SET key value [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]"),
        (8, "EXPIRE key seconds [NX | XX | GT | LT]"),
        (8, "PEXPIRE key ms [NX | XX | GT | LT]"),
        (8, "EXPIREAT key unix-s [NX | XX | GT | LT]"),
        (8, "PEXPIREAT key unix-ms [NX | XX | GT | LT]"),
        (4, "TTL key"),
        (6, "PTTL key"),
        (3, "EXPIRETIME key"),
        (3, "PEXPIRETIME key"),
        (4, "PERSIST key"),
        (3, "GETEX key [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST]"),
        (2, "SETEX key seconds value"),
        (2, "PSETEX key ms value"),
        (3, "RENAME key key"),
        (3, "COPY key key [REPLACE]"),
        (4, "RESTORE key ms payload [REPLACE]"),
        (4, "RESTORE key unix-ms payload ABSTTL [REPLACE]"),
        (2, "GETSET key value"),
        (2, "GETDEL key"),
        (2, "APPEND key value"),
        (2, "SETRANGE key offset value"),
        (2, "INCRBY key int"),
        (2, "INCRBYFLOAT key float"),
        (2, "MSET (key value)..."),
        (3, "EXISTS key..."),
        // No DBSIZE: a key past its time counts until the background cycle has come by, which is a matter of chance.
        (1, "MOVE key db"),
    ],
};

/// The connection and its own state.
pub const CONNECTION: Family = Family {
    name: "connection",
    args: &[],
    pipelined: true,
    reset: &["CLIENT UNPAUSE"],
    newer_lines: &[
        (3, "CLIENT SETINFO (LIB-NAME | LIB-VER | name) name"),
        (2, "CLIENT NO-TOUCH (ON | OFF)"),
        (2, "!CLIENT KILL MAXAGE 100000 [SKIPME yes-no]"),
        (2, "!CLIENT KILL MAXAGE int"),
    ],
    lines: &[
        (6, "HELLO [proto] [AUTH user pass | SETNAME name]"),
        (3, "AUTH [user] pass"),
        (6, "PING [value]"),
        (4, "ECHO value"),
        (5, "SELECT db"),
        (1, "QUIT"),
        (2, "RESET"),
        (2, "CLIENT ID"),
        (4, "CLIENT INFO"),
        (3, "CLIENT LIST [TYPE client-type | ID id...]"),
        (4, "CLIENT GETNAME"),
        (5, "CLIENT SETNAME name"),
        (2, "!CLIENT KILL addr"),
        (3, "!CLIENT KILL (ID id | ADDR addr) [TYPE client-type-rare] [LADDR addr] [USER user-rare] [SKIPME yes-no]"),
        (2, "CLIENT UNPAUSE"),
        (2, "CLIENT NO-EVICT (ON | OFF)"),
        (2, "CLIENT GETREDIR"),
        (2, "CLIENT TRACKINGINFO"),
        (2, "CLIENT UNBLOCK id [TIMEOUT | ERROR]"),
        (1, "CLIENT HELP"),
        (2, "CLIENT name [value]"),
        (3, "GET key"),
        (3, "SET key value"),
        (2, "DBSIZE"),
    ],
};

/// What a server with a password says before and after the password.
pub const AUTH: Family = Family {
    name: "auth",
    args: &["--requirepass", "secret"],
    // The oracle closes clients that have no password but many unread replies.
    pipelined: false,
    reset: &[],
    newer_lines: &[],
    lines: &[
        (6, "AUTH [user] pass"),
        (6, "HELLO [proto] [AUTH user pass] [SETNAME name]"),
        (3, "RESET"),
        (4, "PING"),
        (4, "GET key"),
        (4, "SET key value"),
        (2, "CLIENT ID"),
        (2, "COMMAND COUNT"),
        (2, "name [value]"),
        (1, "QUIT"),
        (2, "SELECT db"),
        (2, "CONFIG GET param"),
    ],
};

/// Introspection, configuration, and commands that do not exist.
pub const SERVER: Family = Family {
    name: "server",
    args: &["--enable-debug-command", "yes"],
    pipelined: true,
    reset: &["CONFIG SET maxmemory 0 maxmemory-policy noeviction timeout 0 hz 10 lazyfree-lazy-user-del no \
         tcp-keepalive 300 slowlog-max-len 128 maxmemory-samples 5 appendfsync everysec"],
    newer_lines: &[],
    lines: &[
        (6, "CONFIG GET param..."),
        (2, "CONFIG GET =maxmem*"),
        (3, "CONFIG SET =maxmemory-policy policy"),
        (3, "CONFIG SET =hz int"),
        (3, "CONFIG SET =lazyfree-lazy-user-del yes-no"),
        (3, "CONFIG SET =timeout timeout"),
        (3, "CONFIG SET =tcp-keepalive timeout"),
        (3, "CONFIG SET =maxmemory-samples int"),
        (2, "CONFIG SET =appendfsync yes-no"),
        (3, "CONFIG SET (config-pair memory)... =databases int"),
        (3, "CONFIG SET =slowlog-max-len timeout =maxmemory-policy policy"),
        (2, "CONFIG SET =slowlog-max-len timeout =slowlog-max-len timeout"),
        (2, "CONFIG SET name value"),
        (1, "CONFIG RESETSTAT"),
        (1, "CONFIG HELP"),
        (1, "CONFIG name [value]"),
        (1, "COMMAND COUNT"),
        (1, "COMMAND"),
        (6, "COMMAND INFO command..."),
        (2, "COMMAND LIST [FILTERBY ACLCAT category | FILTERBY PATTERN pattern | FILTERBY MODULE name]"),
        (6, "COMMAND GETKEYS MSET (key value)..."),
        (6, "COMMAND GETKEYS command key [key] [value]"),
        (4, "COMMAND GETKEYSANDFLAGS command key [key] [value]"),
        (3, "COMMAND GETKEYSANDFLAGS SET key value [EX seconds] [GET] [NX]"),
        (2, "COMMAND DOCS command"),
        (1, "COMMAND HELP"),
        (1, "COMMAND name"),
        (2, "TIME"),
        (2, "ROLE"),
        (3, "MEMORY USAGE key [SAMPLES int]"),
        (1, "MEMORY HELP"),
        (1, "PUBSUB HELP"),
        (1, "MEMORY name"),
        (1, "!DEBUG SLEEP 0"),
        (1, "DEBUG name"),
        (4, "name [value]..."),
        (2, "INFO [section]"),
        (2, "SET key value"),
        (1, "GET key"),
    ],
};

impl Family {
    /// The protocol and the mode of travel that belong to a seed.
    pub fn travel(&self, seed: u64) -> (u8, Mode) {
        let protocol = if seed.is_multiple_of(2) { 3 } else { 2 };
        // In a pipeline the newer oracle holds back its reply to a failed AUTH.
        let is_held_back = self.name == CONNECTION.name && self.oracle(seed) == Oracle::Newer;
        let modes = if self.pipelined && !is_held_back { 3 } else { 1 };
        let mode = [Mode::Single, Mode::Pipeline, Mode::Pieces][(seed / 2 % modes) as usize];
        let others = [CONNECTION.name, PUBSUB.name, TRACKING.name, AUTH.name, SERVER.name, TRANSACTIONS.name];
        let is_about_data = !others.contains(&self.name);
        // Both oracles and both protocols within twelve seeds.
        let mode = match seed / 12 % 6 {
            2 | 5 if is_about_data => Mode::Transactions,
            1 if is_about_data && self.name != SCRIPTS.name => Mode::Scripts,
            _ => mode,
        };
        (protocol, mode)
    }

    /// The oracle that belongs to a seed.
    pub fn oracle(&self, seed: u64) -> Oracle {
        match self.name {
            // SORT takes hexadecimal numbers, as all of Redis did before 8.
            name if name == SORT.name => Oracle::Older,
            // 8.2 crashes when libraries of functions come and go.
            name if name == SCRIPTS.name => Oracle::Older,
            // Before 7.2 a client got its own message before the reply to PUBLISH.
            name if name == PUBSUB.name => Oracle::Newer,
            _ => Oracle::ALL[(seed / 6 % 2) as usize],
        }
    }
}

/// Finds a family by name.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.name == name)
}

/// Makes no number of what only C's `strtod` takes for one: 7.4 reads bounds of scores and what SORT sorts in that way, 8.2
/// does not.
fn spoil_c_number(arg: &mut Vec<u8>) {
    let number = arg.strip_prefix(b"(").unwrap_or(arg);
    if number.starts_with(b"0x") || number.starts_with(b" ") {
        arg.push(b'x');
    }
}

/// Takes from a damaged command what these tests are not about: servers elsewhere, numbers that wrap around in C or that
/// 7.0 does not check, and differences that docs/differences.md tells.
fn tame(argv: &mut Argv) {
    match argv.upper(0).as_str() {
        // 7.0 has no bounds there.
        "LPOS" => {
            let least = b"-9223372036854775808";
            argv.0.iter_mut().skip(3).filter(|arg| *arg == least).for_each(|arg| *arg = b"-7".to_vec());
        }
        "MIGRATE" => {
            argv.0.iter_mut().skip(1).take(1).for_each(|host| *host = b"127.0.0.1".to_vec());
            // One that does not fit 32 bits wraps around in C.
            argv.0.iter_mut().skip(2).take(1).filter(|port| port.len() > 9).for_each(|port| *port = b"1".to_vec());
        }
        "BITFIELD" if (1..argv.0.len()).any(|at| argv.upper(at) == "SAT") => {
            let is_least = |arg: &Vec<u8>| arg.starts_with(b"-92233720368547758");
            argv.0.iter_mut().filter(|arg| is_least(arg)).for_each(|arg| *arg = b"-7".to_vec());
        }
        name if name.starts_with('Z') => {
            for at in 1..argv.0.len() {
                if argv.upper(at) == "COUNT" && argv.upper(at - 1) == "AGGREGATE" {
                    argv.0[at] = b"SUM".to_vec();
                }
            }
        }
        _ => {}
    }
}

/// Makes random sequences of a family's commands.
pub struct Generator {
    lines: Vec<Syntax>,
    weights: Vec<u32>,
    words: Arguments,
    /// Whether 8.2 gets the commands too.
    is_newer: bool,
    /// Connections of a sequence that uses several.
    conns: usize,
}

impl Generator {
    /// A generator for one family, of commands that an oracle has.
    pub fn new(family: &Family, oracle: Oracle) -> Generator {
        let newer = if oracle == Oracle::Newer { family.newer_lines } else { &[] };
        let lines = || family.lines.iter().chain(newer);
        Generator {
            lines: lines().map(|(_, line)| Syntax::parse(line)).collect(),
            weights: lines().map(|(weight, _)| *weight).collect(),
            words: Arguments::new(),
            is_newer: oracle == Oracle::Newer,
            // With messages there are more replies than commands, so the end of another connection's command is
            // unknown.
            conns: if [PUBSUB.name, TRACKING.name].contains(&family.name) { 1 } else { 3 },
        }
    }

    /// A random sequence of `len` steps, the same for the same state of `rng` (but for Unix times). One in four
    /// uses several connections.
    pub fn sequence(&mut self, rng: &mut Rng, protocol: u8, len: usize) -> Sequence {
        let conns = if rng.percent(25) { self.conns } else { 1 };
        let step = |_| Step { conn: rng.below(conns), action: self.action(rng) };
        Sequence { protocol, steps: (0..len).map(step).collect() }
    }

    /// The fixed words each line of the family starts with, damaged lines aside.
    pub fn names(&self) -> Vec<Vec<&str>> {
        self.lines.iter().map(Syntax::names).collect()
    }

    fn action(&mut self, rng: &mut Rng) -> Action {
        let mut ticket = rng.below(self.weights.iter().sum::<u32>() as usize) as u32;
        let mut line = 0;
        while ticket >= self.weights[line] {
            ticket -= self.weights[line];
            line += 1;
        }
        let mut argv = self.lines[line].generate(rng, &mut self.words);
        tame(&mut argv);
        if self.is_newer {
            argv.0.iter_mut().for_each(spoil_c_number);
        } else if argv.upper(0) == "HELLO" && argv.0.len() > 2 {
            // Before 7.2 an option took effect before the next one was read: there is only one.
            argv.0.truncate(if argv.upper(2) == "AUTH" { 5 } else { 4 });
        }
        if argv.upper(0) == "SCANALL" {
            argv.0.remove(0);
            return Action::ScanAll(argv);
        }
        Action::Call { argv, expect: None }
    }
}

/// Every command and subcommand of the family with 0 to 6 senseless arguments.
pub fn arity_sweep(family: &Family) -> Vec<Argv> {
    let generator = Generator::new(family, Oracle::Newer);
    let mut names: Vec<Vec<&str>> = generator.names();
    names.retain(|n| !n.is_empty() && n[0] != "SCANALL");
    names.iter_mut().for_each(|n| n.truncate(2));
    names.sort();
    names.dedup();
    let mut sweep = Vec::new();
    for name in names {
        for args in 0..=6 {
            let mut argv = Argv::new(&name);
            argv.0.extend((0..args).map(|i| format!("arg{i}").into_bytes()));
            sweep.push(argv);
        }
    }
    sweep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_family_can_be_generated() {
        for family in FAMILIES {
            let mut generator = Generator::new(family, Oracle::Newer);
            let mut rng = Rng::new(5);
            let sequence = generator.sequence(&mut rng, 2, 5_000);
            assert_eq!(sequence.steps.len(), 5_000, "{}", family.name);
        }
    }
}
