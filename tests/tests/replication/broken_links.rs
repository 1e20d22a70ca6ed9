//! Links that break: cut, stalled or garbled at any byte of the handshake and of the data. What follows is a clean retry.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use onrush_tests::argv;
use onrush_tests::process::open_files;
use onrush_tests::resp::Value;
use onrush_tests::rng::Rng;
use onrush_tests::server::{Oracle, Server, wait_until};

use crate::follows::{fill, info, is_same, start_primary, start_replica, wait_for_link};

/// Which bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Primary,
    Replica,
}

/// What happens behind them.
#[derive(Clone, Copy, Debug)]
enum Act {
    Cut,
    /// Nothing comes any more, in either direction.
    Stall,
    /// What has come last comes once more.
    Repeat,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    side: Side,
    after: u64,
    act: Act,
}

/// Passes connections on to a primary; the next one breaks as planned.
struct Proxy {
    port: u16,
    plan: Mutex<Option<Plan>>,
    /// Bytes of the primary and of the replica over the last connection.
    passed: [AtomicU64; 2],
    is_over: AtomicBool,
}

impl Proxy {
    fn start(primary: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Arc::new(Self {
            port,
            plan: Mutex::default(),
            passed: Default::default(),
            is_over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&proxy);
        std::thread::spawn(move || {
            for replica in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Relaxed) {
                    return;
                }
                let Ok(primary) = TcpStream::connect(("127.0.0.1", primary)) else { continue };
                let plan = shared.plan.lock().expect("no panic").take();
                shared.passed.iter().for_each(|passed| passed.store(0, Relaxed));
                for side in [Side::Primary, Side::Replica] {
                    let ends = [&primary, &replica].map(|end| end.try_clone().expect("a second handle"));
                    let [primary, replica] = ends;
                    let (from, to) = if side == Side::Primary { (primary, replica) } else { (replica, primary) };
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || shared.pass(side, from, to, plan));
                }
            }
        });
        proxy
    }

    fn pass(&self, side: Side, mut from: TcpStream, mut to: TcpStream, plan: Option<Plan>) {
        let mut plan = plan.filter(|plan| plan.side == side);
        let passed = &self.passed[side as usize];
        let mut buf = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut buf) {
            let before = passed.fetch_add(len as u64, Relaxed);
            let Some(Plan { after, act, .. }) = plan.filter(|plan| before + len as u64 > plan.after) else {
                if to.write_all(&buf[..len]).is_err() {
                    break;
                }
                continue;
            };
            let (now, later) = buf[..len].split_at((after - before) as usize);
            // The other side may be gone.
            let _ = to.write_all(now);
            match act {
                Act::Cut => break,
                Act::Stall => {
                    // Until the other side gives up.
                    while from.read(&mut buf).is_ok_and(|len| len > 0) {}
                    break;
                }
                Act::Repeat => {
                    let again = [&now[now.len().saturating_sub(7)..], later].concat();
                    let _ = to.write_all(if again.is_empty() { b"x" } else { &again });
                    plan = None;
                }
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Breaks the link of a replica again and again.
fn break_links(primary: &Server, replica: &Server, acts: &[Act], seed: u64) {
    let proxy = Proxy::start(primary.port());
    let port = proxy.port.to_string();
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    let mut follow = |plan| {
        *proxy.plan.lock().expect("no panic") = plan;
        assert_eq!(ours.call(&argv!["REPLICAOF", "127.0.0.1", port.as_str()]).text(), "OK");
        wait_until("the plan is taken", || proxy.plan.lock().expect("no panic").is_none());
        wait_for_link(&mut ours);
        assert!(is_same(&mut theirs, &mut ours), "{plan:?}\n{}", replica.log_tail());
        assert_eq!(ours.call(&argv!["REPLICAOF", "NO", "ONE"]).text(), "OK");
    };
    follow(None);
    let passed = [0, 1].map(|side: usize| proxy.passed[side].load(Relaxed));
    let files = open_files(replica.pid());
    // An acknowledgement more or less changes the length; what comes twice behind the data would be executed twice.
    let places = passed.map(|passed| passed.saturating_sub(60));
    plans(places, acts, seed).into_iter().for_each(|plan| follow(Some(plan)));
    wait_until("nothing is left open", || open_files(replica.pid()) <= files);
}

/// Tests that share the places.
const SHARES: u64 = 5;

/// One in this many places stalls when every byte is tried: that takes longer.
const STALL_EVERY: u64 = 16;

/// What breaks, one after the other: at random places, or at every byte of a share of them.
fn plans(places: [u64; 2], acts: &[Act], seed: u64) -> Vec<Plan> {
    let sides = [Side::Primary, Side::Replica];
    if tries_every_byte() {
        let share = (0..).skip((seed % SHARES) as usize).step_by(SHARES as usize);
        let all = sides.into_iter().zip(places);
        return all
            .flat_map(|(side, len)| share.clone().take_while(move |after| *after < len).map(move |after| (side, after)))
            .flat_map(|(side, after)| acts.iter().map(move |act| Plan { side, after, act: *act }))
            .filter(|plan| !matches!(plan.act, Act::Stall) || (plan.after / SHARES).is_multiple_of(STALL_EVERY))
            .collect();
    }
    // Each takes one to three seconds.
    let rounds = std::env::var("ONRUSH_TEST_BREAKS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let mut rng = Rng::new(seed);
    let mut draw = || {
        let side = sides[usize::from(!rng.percent(70))];
        Plan { side, act: acts[rng.below(acts.len())], after: rng.below(places[side as usize] as usize) as u64 }
    };
    (0..rounds).map(|_| draw()).collect()
}

/// Whether every byte is tried: that takes some minutes.
fn tries_every_byte() -> bool {
    std::env::var("ONRUSH_TEST_BREAKS").is_ok_and(|breaks| breaks == "every")
}

/// Data, of few bytes if every one is tried.
fn fill_for_plans(primary: &Server) {
    let mut conn = primary.connect();
    if tries_every_byte() {
        for line in ["SET key value EX 1000", "RPUSH list a b", "SELECT 3", "SADD set a"] {
            assert!(!conn.run(line).is_error());
        }
    } else {
        fill(&mut conn);
    }
}

#[test]
fn a_replica_tries_again_whatever_breaks() {
    let primary = start_primary(Oracle::Newer, &["--repl-ping-replica-period", "3600"]);
    fill_for_plans(&primary);
    std::thread::scope(|scope| {
        for seed in 0..SHARES {
            let primary = &primary;
            scope.spawn(move || {
                let replica = Server::start_onrush(&["--enable-debug-command", "yes", "--repl-timeout", "2"]);
                break_links(primary, &replica, &[Act::Cut, Act::Stall, Act::Repeat], seed);
            });
        }
    });
}

#[test]
fn a_primary_serves_whoever_comes_again() {
    let args = ["--enable-debug-command", "yes", "--repl-timeout", "2", "--repl-ping-replica-period", "3600"];
    let primary = Server::start_onrush(&[&args[..], &["--repl-diskless-sync-delay", "0"]].concat());
    fill_for_plans(&primary);
    let files = open_files(primary.pid());
    let memory = info(&mut primary.connect(), "memory", "used_memory").parse::<u64>().expect("a number");
    std::thread::scope(|scope| {
        for seed in 0..SHARES {
            let primary = &primary;
            scope.spawn(move || {
                let args = ["--enable-debug-command", "yes", "--save", "", "--repl-timeout", "2"];
                let (replica, acts) = match seed % 2 {
                    0 => (Server::start_onrush(&args), &[Act::Cut, Act::Stall, Act::Repeat][..]),
                    // Its process ends when its data is garbled.
                    _ => (Server::start_oracle(Oracle::Newer, &args), &[Act::Cut, Act::Stall][..]),
                };
                break_links(primary, &replica, acts, 100 + seed);
            });
        }
    });
    // One connection is this test's.
    wait_until("nothing is left open", || open_files(primary.pid()) <= files + 4);
    let after = info(&mut primary.connect(), "memory", "used_memory").parse::<u64>().expect("a number");
    assert!(after < memory * 2 + (4 << 20), "{memory} bytes before, {after} after");
}

#[test]
fn what_is_for_a_database_that_is_not_here_changes_no_other() {
    [false, true].into_iter().for_each(select_what_is_not_there);
}

fn select_what_is_not_there(in_transaction: bool) {
    let primary = start_primary(Oracle::Newer, &[]);
    let replica = start_replica(&primary, &["--databases", "4"]);
    let (mut theirs, mut ours) = (primary.connect(), replica.connect());
    theirs.run("SET a 1");
    assert!(is_same(&mut theirs, &mut ours));
    if in_transaction {
        let lines = ["MULTI", "SET d 1", "SELECT 5", "SET b 1", "SET c 1", "EXEC"];
        lines.into_iter().for_each(|line| assert!(!theirs.run(line).is_error(), "{line}"));
    } else {
        theirs.pipeline(&[argv!["SELECT", "5"], argv!["SET", "b", "1"], argv!["SET", "c", "1"]]);
    }
    replica.expect_log("The command 'SELECT' of the primary's stream fails here");
    // All data has something for it, too.
    replica.expect_log("database 5 is out of range: there are 4 databases");
    for db in 0..4 {
        ours.call(&argv!["SELECT", db.to_string()]);
        assert_eq!(ours.run("EXISTS b c d"), Value::Int(0));
    }
    theirs.run("DEL b c");
    assert!(is_same(&mut theirs, &mut ours), "{}", replica.log_tail());
}
