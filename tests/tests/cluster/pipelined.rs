//! Writers that send pipelines, and send again in order what was sent elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use onrush_cluster::slots::slot;
use onrush_tests::argv::Argv;
use onrush_tests::client::Conn;

use crate::nodes::Nodes;

/// Keys of a writer, and how many pushes to each are in a pipeline.
const KEYS: usize = 40;
const PUSHES: usize = 8;

/// A push that is not acknowledged yet.
struct Push {
    nth: usize,
    key: String,
    number: usize,
    port: u16,
    asks: bool,
}

/// As [`append`](crate::serving::append), with pipelines: several pushes to each key, one key after the other and again. Once
/// a slot has sent a command elsewhere, it has to do so with all that stand behind it in the pipeline.
pub fn append(nodes: &Nodes, writer: usize, ends: &AtomicBool) -> (Vec<usize>, usize, usize) {
    let first = nodes.0[0].server.port();
    let (mut conns, mut routes, mut lens) = (HashMap::new(), HashMap::new(), vec![0; KEYS]);
    let (mut moved, mut asked, mut begun) = (0, 0, vec![0; KEYS]);
    while !ends.load(Relaxed) {
        let mut left: Vec<Push> = Vec::new();
        for _ in 0..PUSHES {
            for (nth, number) in begun.iter_mut().enumerate() {
                let key = format!("list:{writer}:{nth}");
                let port = *routes.get(&slot(key.as_bytes())).unwrap_or(&first);
                left.push(Push { nth, key, number: *number, port, asks: false });
                *number += 1;
            }
        }
        while !left.is_empty() {
            let mut again = Vec::new();
            let ports: HashSet<u16> = left.iter().map(|push| push.port).collect();
            for port in ports {
                let (here, others) = left.into_iter().partition(|push| push.port == port);
                left = others;
                let conn = conns.entry(port).or_insert_with(|| Conn::tcp(port).expect("a connection"));
                again.extend(send(conn, here, &mut lens, &mut routes, (&mut moved, &mut asked)));
            }
            left = again;
        }
    }
    (lens, moved, asked)
}

/// Sends a pipeline; returns what has to go elsewhere.
fn send(
    conn: &mut Conn,
    pushes: Vec<Push>,
    lens: &mut [usize],
    routes: &mut HashMap<u16, u16>,
    (moved, asked): (&mut usize, &mut usize),
) -> Vec<Push> {
    let mut pipeline = Vec::new();
    for push in &pushes {
        pipeline.extend(push.asks.then(|| Argv::new(&["ASKING"])));
        pipeline.push(Argv::new(&["RPUSH", &push.key, &push.number.to_string()]));
    }
    let mut replies = conn.pipeline(&pipeline).into_iter();
    let (mut again, mut left) = (Vec::new(), HashSet::new());
    for mut push in pushes {
        if push.asks {
            assert_eq!(replies.next().expect("a reply"), b"+OK\r\n");
        }
        let reply = replies.next().expect("a reply");
        let reply = String::from_utf8_lossy(&reply);
        let slot = slot(push.key.as_bytes());
        if let Some(len) = reply.strip_prefix(':') {
            assert!(!left.contains(&slot), "{} {}: slot {slot} has sent another one elsewhere", push.key, push.number);
            lens[push.nth] += 1;
            assert_eq!(len.trim_end().parse(), Ok(lens[push.nth]), "{} {}", push.key, push.number);
            continue;
        }
        push.port = reply.trim_end().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a redirection");
        push.asks = reply.starts_with("-ASK");
        if !push.asks {
            routes.insert(slot, push.port);
        }
        *(if push.asks { &mut *asked } else { &mut *moved }) += 1;
        left.insert(slot);
        again.push(push);
    }
    again
}
