//! The client's part of the experiments in `docs/pipelining.md`: prints a line of `what<tab>seconds` for each.
//!
//! ```text
//! experiments URL first                      four INCRs one by one, and in one pipeline
//! experiments URL pings COUNT                one by one, and in one pipeline
//! experiments URL incrs COUNT BATCH...       in batches that are waited for (1 is one by one), in batches kept under way, as a stream
//! experiments URL distance MS COUNT BATCH... the same over a round trip of so many milliseconds, emulated
//! experiments URL memory COUNT               a stream of INCRs: megabytes of memory at most
//! experiments URL large COUNT BYTES          a stream of GETs of that size, read slowly: megabytes of memory at most
//! experiments URL depths COUNT DEPTH...      SETs with so many in flight on each of 50 connections
//! experiments URL four COUNT                 MSET, a pipeline, a transaction, a script: the same job
//! experiments URL limits COUNT               decisions of a rate limiter, by a script and by INCREX
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use onrush::{Client, Connection, ConnectionAddr, RedisResult, Script, Value, WindowSize, cmd, pipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Number of commands kept under way; but at least four batches.
const COMMANDS_UNDER_WAY: usize = 64 << 10;

fn tell(what: &str, started: Instant) {
    println!("{what}\t{:.4}", started.elapsed().as_secs_f64());
}

async fn first(con: &Connection) -> RedisResult<()> {
    let started = Instant::now();
    for _ in 0..4 {
        let _: i64 = cmd("INCR").arg("x").query_async(con).await?;
    }
    tell("one by one", started);
    let started = Instant::now();
    let _: (i64, i64, i64, i64) = pipe()
        .cmd("INCR")
        .arg("x")
        .cmd("INCR")
        .arg("x")
        .cmd("INCR")
        .arg("x")
        .cmd("INCR")
        .arg("x")
        .query_async(con)
        .await?;
    tell("one pipeline", started);
    Ok(())
}

/// Reads faster than anybody for a moment, and not at all for the next.
async fn large(con: &Connection, count: usize, bytes: usize) -> RedisResult<()> {
    // Of no size here, so that this process holds none but the stream's.
    cmd("SETRANGE").arg("large").arg(bytes - 1).arg("x").exec_async(con).await?;
    let mut replies = con.stream_fn({
        let mut left = count;
        move |out| {
            let goes_on = left > 0;
            if goes_on {
                left -= 1;
                out.cmd("GET").arg("large");
            }
            goes_on
        }
    });
    let mut taken = 0;
    while let Some(reply) = replies.next().await {
        assert_eq!(reply?.as_bytes().map(<[u8]>::len), Some(bytes));
        taken += 1;
        if taken % (count / 100).max(1) == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(taken, count);
    cmd("DEL").arg("large").exec_async(con).await
}

async fn pings(con: &Connection, count: usize) -> RedisResult<()> {
    let started = Instant::now();
    for _ in 0..count {
        cmd("PING").exec_async(con).await?;
    }
    tell("one by one", started);
    let started = Instant::now();
    let mut pipeline = pipe();
    (0..count).for_each(|_| _ = pipeline.cmd("PING").ignore());
    pipeline.exec_async(con).await?;
    tell("one pipeline", started);
    Ok(())
}

/// Sends `count` INCRs as a stream.
async fn incr(con: &Connection, count: usize) -> RedisResult<()> {
    let mut left = count;
    let stream = con.stream_fn(move |out| {
        let goes_on = left > 0;
        if goes_on {
            left -= 1;
            out.cmd("INCR").arg("counter");
        }
        goes_on
    });
    stream.count().await.into_result().map(drop)
}

async fn answered(batch: JoinHandle<RedisResult<()>>) -> RedisResult<()> {
    batch.await.unwrap_or_else(|error| panic!("a batch: {error}"))
}

/// A pipeline of `count` INCRs.
fn batch_of(count: usize) -> onrush::Pipeline {
    let mut pipeline = onrush::Pipeline::with_capacity(count);
    (0..count).for_each(|_| _ = pipeline.cmd("INCR").arg("counter").ignore());
    pipeline
}

async fn incrs(con: &Connection, count: usize, batches: &[usize]) -> RedisResult<()> {
    for &batch in batches {
        let started = Instant::now();
        let mut left = count;
        while left > 0 {
            let some = batch.min(left);
            if some == 1 {
                cmd("INCR").arg("counter").exec_async(con).await?;
            } else {
                batch_of(some).exec_async(con).await?;
            }
            left -= some;
        }
        tell(&format!("batches of {batch}"), started);
    }
    for &batch in batches.iter().filter(|batch| **batch > 1) {
        let started = Instant::now();
        let mut under_way = VecDeque::new();
        let mut left = count;
        while left > 0 {
            let some = batch.min(left);
            left -= some;
            if under_way.len() >= 4.max(COMMANDS_UNDER_WAY / batch)
                && let Some(first) = under_way.pop_front()
            {
                answered(first).await?;
            }
            let con = con.clone();
            under_way.push_back(tokio::spawn(async move { batch_of(some).exec_async(&con).await }));
        }
        for batch in under_way {
            answered(batch).await?;
        }
        tell(&format!("batches of {batch}, kept under way"), started);
    }
    let started = Instant::now();
    incr(con, count).await?;
    tell("stream", started);
    Ok(())
}

/// The peak memory of this process so far, in megabytes, as Linux reports it.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kilobytes| kilobytes / 1024.0)
}

/// Whether the server has a command.
async fn knows(con: &Connection, command: &str) -> RedisResult<bool> {
    let info: Vec<Value> = cmd("COMMAND").arg("INFO").arg(command).query_async(con).await?;
    Ok(info.first().is_some_and(|info| *info != Value::Nil))
}

/// Passes bytes on, each with a delay of `by`.
async fn delay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, by: Duration) -> std::io::Result<()> {
    let (hand_in, mut hand_out) = tokio::sync::mpsc::unbounded_channel::<(tokio::time::Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((due, bytes)) = hand_out.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    loop {
        let mut bytes = vec![0; 256 << 10];
        let len = from.read(&mut bytes).await?;
        bytes.truncate(len);
        if len == 0 || hand_in.send((tokio::time::Instant::now() + by, bytes)).is_err() {
            return Ok(());
        }
    }
}

/// A local port through which the server seems to be far away.
async fn far_away(client: &Client, round_trip: Duration) -> std::io::Result<u16> {
    let ConnectionAddr::Tcp(host, port) = client.connection_info().addr.clone() else {
        return Err(std::io::Error::other("distance is for a URL redis://host:port/"));
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let near = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((here, _)) = listener.accept().await {
            let Ok(there) = TcpStream::connect((host.as_str(), port)).await else { continue };
            let (Ok(()), Ok(())) = (here.set_nodelay(true), there.set_nodelay(true)) else { continue };
            let ((from_here, to_here), (from_there, to_there)) = (here.into_split(), there.into_split());
            tokio::spawn(delay(from_here, to_there, round_trip / 2));
            tokio::spawn(delay(from_there, to_here, round_trip / 2));
        }
    });
    Ok(near)
}

/// SETs of random keys, with each depth in flight on each of 50 connections.
async fn depths(client: &Client, count: usize, depths: &[usize]) -> RedisResult<()> {
    const CONNECTIONS: usize = 50;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(client.connect().await?);
    }
    for &depth in depths {
        let started = Instant::now();
        let tasks = connections.iter().cloned().enumerate().map(|(number, con)| {
            tokio::spawn(async move {
                let (mut left, mut key) = (count / CONNECTIONS, number as u64);
                let stream = con.stream_fn(move |out| {
                    let goes_on = left > 0;
                    if goes_on {
                        left -= 1;
                        // The generator of Knuth's MMIX.
                        key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        out.cmd("SET").arg(format!("key:{:012}", (key >> 33) % 100_000)).arg("xxx");
                    }
                    goes_on
                });
                let window = WindowSize::new().set_commands(depth);
                stream.window(window).count().await.into_result().map(drop)
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            answered(task).await?;
        }
        tell(&format!("depth {depth}"), started);
    }
    Ok(())
}

async fn four(con: &Connection, count: usize) -> RedisResult<()> {
    let pairs: Vec<(String, usize)> = (0..count).map(|n| (format!("key:{n}"), n)).collect();
    // Otherwise the first experiment to set the keys would pay for their memory.
    cmd("MSET").arg(&pairs).exec_async(con).await?;
    let started = Instant::now();
    cmd("MSET").arg(&pairs).exec_async(con).await?;
    tell("native batch (MSET)", started);
    let started = Instant::now();
    let mut pipeline = pipe();
    pairs.iter().for_each(|(key, n)| _ = pipeline.cmd("SET").arg(key).arg(n).ignore());
    pipeline.exec_async(con).await?;
    tell("pipeline", started);
    let started = Instant::now();
    pipeline.atomic().exec_async(con).await?;
    tell("transaction (MULTI, EXEC)", started);
    let script = Script::new("for n, key in ipairs(KEYS) do redis.call('SET', key, ARGV[n]) end return #KEYS");
    // The keys of one call must fit on Lua's stack.
    let started = Instant::now();
    for some in pairs.chunks(5_000) {
        let mut call = script.prepare_invoke();
        some.iter().for_each(|(key, n)| _ = call.key(key).arg(n));
        call.invoke_async::<usize>(con).await?;
    }
    tell("script (EVALSHA, 5,000 keys a call)", started);
    Ok(())
}

/// Allows a number of calls of one user in a window of time: the second number of the reply says whether this call is
/// allowed.
const RATE_LIMITER: &str = "
    local key, limit, window = KEYS[1], tonumber(ARGV[1]), ARGV[2]
    local count = tonumber(redis.call('GET', key) or 0)
    if count >= limit then
        return {count, 0}
    end
    count = redis.call('INCR', key)
    if count == 1 then
        redis.call('EXPIRE', key, window)
    end
    return {count, 1}";

/// Decides about each of many users, by a script and by the command that replaces it, each in one pipeline.
async fn limits(con: &Connection, count: usize) -> RedisResult<()> {
    let users = || (0..count).map(|n| format!("limit:{}", n % 10_000));
    let digest: String = cmd("SCRIPT").arg("LOAD").arg(RATE_LIMITER).query_async(con).await?;
    let mut by_script = pipe();
    users().for_each(|user| _ = by_script.cmd("EVALSHA").arg(&digest).arg(1).arg(user).arg(5).arg(100));
    let mut by_command = pipe();
    users().for_each(|user| {
        _ = by_command.cmd("INCREX").arg(user).arg("UBOUND").arg(5).arg("EX").arg(100).arg("ENX");
    });
    for (what, pipeline, command) in [("script (EVALSHA)", by_script, "evalsha"), ("INCREX", by_command, "increx")] {
        if knows(con, command).await? {
            cmd("FLUSHALL").exec_async(con).await?;
            let started = Instant::now();
            let decisions: Vec<(i64, i64)> = pipeline.query_async(con).await?;
            tell(what, started);
            let allowed = decisions.iter().filter(|(_, added)| *added > 0).count();
            assert_eq!(allowed, count.min(50_000), "five for each user");
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> RedisResult<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| args.get(index).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let url = args.first().map_or("redis://127.0.0.1:6379/", String::as_str);
    let client = Client::open(url)?;
    let con = client.connect().await?;
    match args.get(1).map(String::as_str) {
        Some("pings") => pings(&con, number(2)).await,
        Some("incrs") => {
            let batches: Vec<usize> = (3..args.len()).map(number).collect();
            incrs(&con, number(2), &batches).await
        }
        Some("first") => first(&con).await,
        Some("distance") => {
            let near = far_away(&client, Duration::from_millis(number(2) as u64)).await?;
            let far = Client::open(format!("redis://127.0.0.1:{near}/"))?.connect().await?;
            incrs(&far, number(3), &(4..args.len()).map(number).collect::<Vec<_>>()).await
        }
        Some("memory") => {
            incr(&con, number(2)).await?;
            println!("stream\t{:.1}", peak_memory_mb().unwrap_or(f64::NAN));
            Ok(())
        }
        Some("large") => {
            large(&con, number(2), number(3)).await?;
            println!("stream\t{:.1}", peak_memory_mb().unwrap_or(f64::NAN));
            Ok(())
        }
        Some("depths") => depths(&client, number(2), &(3..args.len()).map(number).collect::<Vec<_>>()).await,
        Some("four") => four(&con, number(2)).await,
        Some("limits") => limits(&con, number(2)).await,
        _ => {
            eprintln!(
                "experiments URL first | pings COUNT | incrs COUNT BATCH... | distance MS COUNT BATCH... | \
                 memory COUNT | large COUNT BYTES | depths COUNT DEPTH... | four COUNT | limits COUNT"
            );
            std::process::exit(1);
        }
    }
}
