//! What the clients of a soak do, step by step.

use std::io;
use std::time::Duration;

use super::link::{Doors, Link};
use crate::argv;
use crate::argv::Argv;
use crate::families::DataCommands;
use crate::rng::Rng;

/// One step of a client: some commands, and how many they were; or what is wrong.
pub type Step = Box<dyn FnMut() -> Result<u64, String> + Send>;

/// Keys that fill the memory.
const LOADED_KEYS: usize = 400_000;

/// A client for each number, of all kinds, over both doors.
pub fn client(doors: &Doors, number: usize, rng: Rng) -> (&'static str, Step) {
    let doors = doors.clone();
    match number % 12 {
        0..6 => ("random commands", random_commands(doors, number, rng)),
        6 | 7 => ("load", load(doors, number == 6, rng)),
        8 => ("waiting", waiting(doors, rng)),
        9 => ("messages", messages(doors, rng)),
        10 => ("tracking", tracking(doors, rng)),
        _ => ("vanishing", vanishing(doors, rng)),
    }
}

/// Keeps a connection over steps. Errors of the connection are faults: the server has no reason to close it.
fn keep(link: &mut Option<Link>, connect: impl FnOnce() -> io::Result<Link>) -> Result<&mut Link, String> {
    if link.is_none() {
        *link = Some(connect().map_err(|error| format!("no connection: {error}"))?);
    }
    Ok(link.as_mut().expect("a connection"))
}

fn lost(error: io::Error) -> String {
    format!("a connection is lost: {error}")
}

/// All families, by TLS and plain, in RESP2 and RESP3, as pipelines, transactions and scripts.
fn random_commands(doors: Doors, number: usize, mut rng: Rng) -> Step {
    let (mut data, mut link, mut marker, way) = (DataCommands::new(), None, 0u64, number % 3);
    Box::new(move || {
        let is_new = link.is_none() || rng.below(2_000) == 0;
        if is_new {
            link = None;
        }
        let link = keep(&mut link, || doors.connect(number.is_multiple_of(2)))?;
        let count = 1 + rng.below(30);
        let mut commands = data.take_in(way, &mut rng, count);
        if is_new && (number / 2).is_multiple_of(2) {
            commands.insert(0, argv!["HELLO", "3"]);
        }
        marker += 1;
        commands.push(argv!["ECHO", format!("marker-{marker}")]);
        let replies = link.exchange(&commands).map_err(lost)?;
        let text = format!("marker-{marker}");
        let wanted = format!("${}\r\n{text}\r\n", text.len());
        if replies.last().is_none_or(|last| last != wanted.as_bytes()) {
            return Err("a reply does not belong to its command".into());
        }
        Ok(commands.len() as u64)
    })
}

/// Values of many sizes and types, more than the memory may hold, and reads of them.
fn load(doors: Doors, is_tls: bool, mut rng: Rng) -> Step {
    let mut link = None;
    Box::new(move || {
        let link = keep(&mut link, || doors.connect(is_tls))?;
        let command = |_| {
            let len_max = if rng.percent(2) { 20_000 } else { 1_000 };
            let (number, len) = (rng.below(LOADED_KEYS), 1 + rng.below(len_max));
            let (key, value) = (format!("load:{number}"), "x".repeat(len));
            let member = (number % 7 * 1_000 + len).to_string();
            match number % 16 {
                0 => argv!["HSET", key, member, value],
                1 => argv!["RPUSH", key, value],
                2 => argv!["ZADD", key, len.to_string(), member],
                3 => argv!["XADD", key, "MAXLEN", "50", "*", "field", value],
                4 => argv!["SADD", key, member],
                5 => argv!["SETEX", key, (1 + len % 600).to_string(), value],
                6 => argv!["DEL", key],
                7..10 => argv!["GET", key],
                _ => argv!["SET", key, value],
            }
        };
        let commands: Vec<Argv> = (0..100).map(command).collect();
        link.exchange(&commands).map_err(lost)?;
        Ok(commands.len() as u64)
    })
}

/// Clients that wait for elements, with and without success.
fn waiting(doors: Doors, mut rng: Rng) -> Step {
    let mut links: Option<(Link, Link)> = None;
    Box::new(move || {
        if links.is_none() {
            links = Some((doors.connect(true).map_err(lost)?, doors.connect(false).map_err(lost)?));
        }
        let (waiter, pusher) = links.as_mut().expect("connections");
        let key = format!("queue:{}", rng.below(4));
        let (wait, push) = match rng.below(4) {
            0 => (argv!["BLPOP", key.clone(), "0.05"], argv!["RPUSH", key, "a", "b"]),
            1 => (argv!["BLMOVE", key.clone(), "queue:0", "LEFT", "RIGHT", "0.05"], argv!["LPUSH", key, "c"]),
            2 => (argv!["BZPOPMIN", format!("z{key}"), "0.05"], argv!["ZADD", format!("z{key}"), "1", "m"]),
            _ => {
                let key = format!("s{key}");
                let wait = argv!["XREAD", "BLOCK", "50", "STREAMS", key.clone(), "$"];
                (wait, argv!["XADD", key, "MAXLEN", "10", "*", "f", "v"])
            }
        };
        waiter.send_all(&[wait]).map_err(lost)?;
        if rng.percent(70) {
            pusher.exchange(&[push]).map_err(lost)?;
        }
        waiter.read_reply().map_err(lost)?;
        if rng.percent(5) {
            pusher.exchange(&[argv!["DEL", "queue:0", "queue:1", "queue:2", "queue:3"]]).map_err(lost)?;
        }
        Ok(3)
    })
}

/// Subscribers by name and by pattern, and who publishes; each step reads what it has published.
fn messages(doors: Doors, mut rng: Rng) -> Step {
    let mut links: Option<(Link, Link)> = None;
    let mut steps = 0u64;
    Box::new(move || {
        steps += 1;
        if links.is_none() || steps.is_multiple_of(500) {
            let mut subscriber = doors.connect(true).map_err(lost)?;
            subscriber.send_all(&[argv!["PSUBSCRIBE", "news:*"]]).map_err(lost)?;
            subscriber.read_reply().map_err(lost)?;
            links = Some((subscriber, doors.connect(false).map_err(lost)?));
        }
        let (subscriber, publisher) = links.as_mut().expect("connections");
        let text = "n".repeat(1 + rng.below(3_000));
        let channel = format!("news:{}", rng.below(1_000));
        let publish = vec![argv!["PUBLISH", channel, text]; 10];
        publisher.exchange(&publish).map_err(lost)?;
        for _ in 0..publish.len() {
            subscriber.read_reply().map_err(lost)?;
        }
        Ok(publish.len() as u64)
    })
}

/// A client with a cache: it tracks what it reads, or all keys of a prefix.
fn tracking(doors: Doors, mut rng: Rng) -> Step {
    let mut link = None;
    let mut steps = 0u64;
    Box::new(move || {
        steps += 1;
        let is_new = link.is_none() || steps.is_multiple_of(300);
        if is_new {
            link = None;
        }
        let link = keep(&mut link, || doors.connect(steps.is_multiple_of(2)))?;
        if is_new {
            let track = if rng.percent(50) {
                argv!["CLIENT", "TRACKING", "ON"]
            } else {
                argv!["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "load:1"]
            };
            link.exchange(&[argv!["HELLO", "3"], track]).map_err(lost)?;
        }
        let mut get = || argv!["GET", format!("load:{}", rng.below(LOADED_KEYS))];
        let commands: Vec<Argv> = (0..50).map(|_| get()).collect();
        link.exchange(&commands).map_err(lost)?;
        Ok(commands.len() as u64)
    })
}

/// Clients that end in the middle of something, each in another way, mostly with a reset.
fn vanishing(doors: Doors, mut rng: Rng) -> Step {
    Box::new(move || {
        let is_tls = rng.percent(50);
        let way = rng.below(9);
        let failed = |error: io::Error| format!("no connection for one that vanishes: {error}");
        if way == 0 {
            use std::io::Write as _;
            // The beginning of a handshake, or of a command.
            let mut socket = doors.socket(is_tls).map_err(failed)?;
            let bytes: &[u8] = if is_tls { b"\x16\x03\x01\x02\x00\x01\x00" } else { b"*3\r\n$3\r\nSE" };
            let _ = socket.write_all(bytes);
            return Ok(0);
        }
        let mut link = doors.connect(is_tls).map_err(failed)?;
        if rng.percent(80) {
            link.reset_on_drop();
        }
        let key = || format!("load:{}", 5);
        let commands = match way {
            1 => vec![argv!["SUBSCRIBE", "news:1", "news:2"]],
            2 => vec![argv!["BLPOP", "queue:never", "0"]],
            3 => vec![argv!["MULTI"], argv!["SET", "vanished", "1"]],
            4 => vec![argv!["MONITOR"]],
            5 => vec![argv!["WATCH", key()], argv!["GET", key()]],
            6 => vec![argv!["LRANGE", "vanished:list", "0", "-1"]; 1_000],
            7 => vec![argv!["HELLO", "3"], argv!["CLIENT", "TRACKING", "ON"], argv!["GET", key()]],
            _ => vec![argv!["RPUSH", "vanished:list", "y".repeat(500)], argv!["LTRIM", "vanished:list", "-50", "-1"]],
        };
        // A server that closes it first may: a client with many unread replies is ended for its memory.
        let _ = link.send_all(&commands);
        link.set_timeout(Duration::from_millis(20));
        if rng.percent(50) {
            let _ = link.read_reply();
        }
        Ok(commands.len() as u64)
    })
}
