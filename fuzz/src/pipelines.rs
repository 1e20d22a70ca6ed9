//! Whole pipelines of several connections against the engine.
//!
//! An input is a list of [`Step`]s ([`mod@format`]): commands of the command table with arguments that its syntax lines ask
//! for ([`vocabulary`]), or bytes as they stand, on a few connections with RESP2 or RESP3. All is executed by one thread, and
//! time passes when the input says so, so an input does the same each time.
//!
//! Afterwards each command has one reply, and each reply is well-formed ([`connection`]). The keyspace counts what it has,
//! and a snapshot of it, as well as its command log, make the same data in another engine ([`judge`]).
//!
//! The engines are made once: a process has each input begin with empty ones.

mod bounds;
mod connection;
mod format;
mod host;
mod judge;
mod node;
mod time;
mod vocabulary;
mod words;

use std::cell::RefCell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use onrush_engine::clients::local::State;
use onrush_engine::process::NoProcess;
use onrush_engine::settings::Pause;

use connection::Connection;
pub use format::{CONNECTIONS, Step, encode};
use host::Host;
use node::{Follower, Node};
use vocabulary::Vocabulary;

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Set by a panic, which an engine may catch: it ends one connection.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Runs the steps of an input and judges what has come of them.
pub fn pipelines(data: &[u8]) {
    watch_panics();
    // After a panic the next input has engines of its own.
    let mut bench = BENCH.take().unwrap_or_else(Bench::new);
    let state = bench.run(data);
    if is_one_in(16, data) {
        assert_eq!(bench.run(data), state, "an input does the same again");
    }
    // What other inputs have left in buffers that are kept is no fault of this one.
    if is_one_in(256, data) && bench.loses_memory(data) {
        bench = Bench::new();
        assert!(!bench.loses_memory(data), "memory is lost");
    }
    BENCH.set(Some(bench));
}

/// Chooses one input in so many, by its bytes: what takes several executions is not done with each.
fn is_one_in(count: u32, data: &[u8]) -> bool {
    let hash = data.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash >> 8).is_multiple_of(count)
}

/// Memory in use, in bytes.
fn held_bytes() -> u64 {
    onrush_alloc::settle();
    onrush_alloc::allocated_bytes()
}

/// The steps of an input, before those that would take long are bounded.
pub fn steps(data: &[u8]) -> Vec<Step> {
    let bench = BENCH.take().unwrap_or_else(Bench::new);
    let steps = format::decode(data, &bench.vocabulary);
    BENCH.set(Some(bench));
    steps
}

fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            HAS_PANICKED.store(true, Relaxed);
            before(panic);
        }));
    });
}

/// What inputs are tried on.
struct Bench {
    vocabulary: Vocabulary,
    host: &'static Host,
    node: Node,
    /// Where snapshots and logs are loaded.
    other: Node,
    log: Follower,
    /// Whether users may have changed.
    has_users: bool,
}

impl Bench {
    fn new() -> Self {
        HAS_PANICKED.store(false, Relaxed);
        time::reset();
        let host: &'static Host = Box::leak(Box::default());
        let node = Node::new(host);
        host.belong_to(node.engine);
        let other = Node::new(&NoProcess);
        let log = Follower::default();
        node.engine.log.follow(Box::new(log.clone()));
        let mut bench = Self { vocabulary: Vocabulary::new(), host, node, other, log, has_users: false };
        bench.learn();
        bench
    }

    /// Learns words that only an engine knows.
    fn learn(&mut self) {
        let bulk = |reply: Vec<u8>| {
            let begin = reply.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            reply[begin..reply.len() - 2].to_vec()
        };
        let scripts = words::SCRIPTS.iter().filter(|script| !script.contains('\n'));
        let loads: Vec<String> = scripts.map(|script| format!("SCRIPT LOAD \"{script}\"")).collect();
        let replies = loads.iter().map(|load| self.node.run(load)).filter(|reply| reply[0] == b'$');
        let mut known: Vec<Vec<u8>> = replies.map(bulk).collect();
        known.push(vec![b'0'; 40]);
        self.vocabulary.add("sha1", known);
        let mut payloads = Vec::new();
        for command in PAYLOADS {
            self.node.run(command);
            payloads.push(bulk(self.node.run("DUMP k")));
            self.node.run("DEL k");
        }
        self.node.run("FUNCTION LOAD \"#!lua name=dumped\\nredis.register_function('d', function() return 1 end)\"");
        payloads.push(bulk(self.node.run("FUNCTION DUMP")));
        self.vocabulary.add("serialized-value", payloads);
        self.reset();
    }

    /// An input finds nothing of the one before.
    fn reset(&mut self) {
        time::reset();
        self.host.reset();
        self.node.reset(std::mem::take(&mut self.has_users));
        self.other.reset(false);
        self.node.engine.log.flush();
        self.log.take();
        self.host.reset();
    }

    /// Executes an input and judges it; returns what is left of it as text.
    fn run(&mut self, data: &[u8]) -> String {
        self.execute(format::decode(data, &self.vocabulary));
        self.host.reset();
        let state = judge::judge(&mut self.node, &mut self.other, &self.log);
        check_panics();
        self.reset();
        state
    }

    /// Whether more memory is in use each time that an input is executed. There are buffers that are kept, and garbage of
    /// scripts that is not collected at once, so it may grow for a while.
    fn loses_memory(&mut self, data: &[u8]) -> bool {
        let mut grows = |times: u64| {
            let before = held_bytes();
            (0..times).for_each(|_| drop(self.run(data)));
            held_bytes() >= before + times
        };
        grows(1) && (0..4).all(|_| grows(16)) && (0..4).all(|_| grows(256))
    }

    /// Takes the steps, and ends the connections when they have all their replies.
    fn execute(&mut self, steps: Vec<Step>) {
        let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| Connection::new(self.node.engine)).collect();
        for step in steps {
            self.take(step, &mut connections);
            check_panics();
        }
        self.finish(&mut connections);
        connections.iter().for_each(Connection::check);
    }

    fn take(&mut self, step: Step, connections: &mut [Connection]) {
        match step {
            Step::Call { connection, mut argv } => {
                if argv[0].eq_ignore_ascii_case(b"client") {
                    argv.iter_mut().for_each(|argument| name_connection(argument, connections));
                }
                bounds::bound(&mut argv);
                self.has_users |= argv[0].eq_ignore_ascii_case(b"acl");
                connections[connection].call(&argv);
            }
            Step::Bytes { connection, bytes } => {
                self.has_users = true;
                connections[connection].add_bytes(&bytes);
            }
            Step::Send { connection } => connections[connection].send(&mut self.node.runner),
            Step::SendAll => self.send_all(connections),
            Step::Pass { ms } => {
                time::pass(ms);
                self.node.tend();
                self.go_on(connections);
            }
        }
    }

    fn send_all(&mut self, connections: &mut [Connection]) {
        connections.iter_mut().for_each(|connection| connection.send(&mut self.node.runner));
        self.go_on(connections);
    }

    fn go_on(&mut self, connections: &mut [Connection]) {
        connections.iter_mut().for_each(|connection| connection.go_on(&mut self.node.runner));
    }

    /// Sends what is left, and ends all waiting: at first what is held back by CLIENT PAUSE, then what waits for keys, by
    /// CLIENT UNBLOCK, and last what waits for a time.
    fn finish(&mut self, connections: &mut [Connection]) {
        /// Commands that wait, at most, and different waits.
        const ROUNDS_MAX: usize = 1000;
        self.send_all(connections);
        for _ in 0..ROUNDS_MAX {
            self.go_on(connections);
            let engine = self.node.engine;
            let now_ms = time::now_ms();
            let is_held = |connection: &Connection| connection.state() == State::IsHeldBack;
            if engine.pause(now_ms) != Pause::None || connections.iter().any(is_held) {
                time::pass((engine.pause_look_ms(now_ms) - now_ms).max(1));
                continue;
            }
            for (db, awaited) in connections.iter().filter_map(Connection::awaited) {
                let is_there = |key: &Vec<u8>| self.node.type_of(db, key) == Some(awaited.ty);
                assert!(!awaited.keys.iter().any(is_there), "somebody waits for a key that is there");
            }
            let waiting: Vec<u64> = connections
                .iter()
                .filter(|connection| connection.state() == State::Waits)
                .map(Connection::id)
                .collect();
            if waiting.is_empty() {
                return;
            }
            for id in waiting {
                if self.node.run(&format!("CLIENT UNBLOCK {id} ERROR")) != b":1\r\n" {
                    time::pass(1000);
                }
            }
        }
        let states: Vec<State> = connections.iter().map(Connection::state).collect();
        panic!("connections wait for ever: {states:?}");
    }
}

/// Values whose payloads RESTORE gets.
const PAYLOADS: &[&str] = &[
    "SET k 12",
    "SET k text",
    "RPUSH k a b 1",
    "SADD k 1 2 3",
    "SADD k a b",
    "ZADD k 1 a 2.5 b",
    "HSET k f v g 1",
    "XADD k 1-1 f v",
    "PFADD k a b c",
];

/// An argument such as `@id1` stands for the number of a connection.
fn name_connection(argument: &mut Vec<u8>, connections: &[Connection]) {
    if let [b'@', b'i', b'd', digit] = argument[..]
        && let Some(connection) = connections.get(usize::from(digit.wrapping_sub(b'0')))
    {
        *argument = connection.id().to_string().into_bytes();
    }
}

fn check_panics() {
    assert!(!HAS_PANICKED.load(Relaxed), "a command panicked");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(lines: &[(usize, &str)]) -> Vec<Step> {
        let call = |&(connection, line): &(usize, &str)| {
            let argv = line.split('|').map(|word| word.as_bytes().to_vec()).collect();
            [Step::Call { connection, argv }, Step::Send { connection }]
        };
        lines.iter().flat_map(call).collect()
    }

    #[test]
    fn steps_are_executed_and_leave_nothing() {
        let mut bench = Bench::new();
        let steps = [
            (0, "MULTI"),
            (0, "SET|s0|1"),
            (0, "EVAL|return redis.call(unpack(ARGV))|0|INCR|s0"),
            (0, "EXEC"),
            (1, "BLPOP|l0|0"),
            (2, "RPUSH|l0|a|b"),
            (2, "BLPOP|nothing|0"),
            (1, "HELLO|3"),
            (1, "CONFIG|SET|maxmemory|1"),
            (1, "CLIENT|PAUSE|1000|ALL"),
            (1, "SET|s1|x"),
        ];
        let input = encode(&calls(&steps));
        bench.execute(format::decode(&input, &bench.vocabulary));
        bench.host.reset();
        assert_eq!(bench.node.run("GET s0"), b"$1\r\n2\r\n");
        assert_eq!(bench.node.run("LRANGE l0 0 -1"), b"*1\r\n$1\r\nb\r\n");
        bench.reset();
        assert_eq!(bench.node.run("DBSIZE"), b":0\r\n");
        bench.run(&input);
    }

    #[test]
    fn a_log_that_lacks_a_change_is_found() {
        let mut bench = Bench::new();
        bench.execute(calls(&[(0, "SET|s0|1")]));
        bench.node.engine.log.flush();
        bench.log.take();
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judge::judge(&mut bench.node, &mut bench.other, &bench.log);
        }));
        assert!(judged.is_err());
    }

    #[test]
    fn arguments_fit_their_commands() {
        let vocabulary = Vocabulary::new();
        let inputs = (0..=u16::MAX).map(|number| [&number.to_le_bytes()[..], &[1; 40]].concat());
        let made: Vec<Vec<Vec<u8>>> = inputs.map(|input| vocabulary.call(&mut format::Choices::new(&input))).collect();
        for call in ["SET s1 b", "EVAL", "XADD x1", "ZUNION"] {
            let has = |argv: &Vec<Vec<u8>>| {
                argv.join(&b' ').to_ascii_uppercase().starts_with(&call.to_ascii_uppercase().into_bytes())
            };
            assert!(made.iter().any(has), "{call}");
        }
    }
}
