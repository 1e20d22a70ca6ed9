//! The client's part of the experiments in `docs/pipelining.md`: prints a line of `what<tab>seconds` for each.
//!
//! ```text
//! experiments URL pings COUNT             one by one, and in one pipeline
//! experiments URL incrs COUNT BATCH...    in batches (1 is one by one), and as a stream
//! experiments URL four COUNT              MSET, a pipeline, a transaction, a script: the same job
//! ```

use std::time::Instant;

use onrush::{Connection, RedisResult, Script, Value, cmd, pipe};

fn tell(what: &str, started: Instant) {
    println!("{what}\t{:.4}", started.elapsed().as_secs_f64());
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

async fn incrs(con: &Connection, count: usize, batches: &[usize]) -> RedisResult<()> {
    for &batch in batches {
        let started = Instant::now();
        let mut left = count;
        while left > 0 {
            let some = batch.min(left);
            if some == 1 {
                cmd("INCR").arg("counter").exec_async(con).await?;
            } else {
                let mut pipeline = onrush::Pipeline::with_capacity(some);
                (0..some).for_each(|_| _ = pipeline.cmd("INCR").arg("counter").ignore());
                pipeline.exec_async(con).await?;
            }
            left -= some;
        }
        tell(&format!("batches of {batch}"), started);
    }
    let started = Instant::now();
    let mut left = count;
    let stream = con.stream_fn(move |out| {
        let goes_on = left > 0;
        if goes_on {
            left -= 1;
            out.cmd("INCR").arg("counter");
        }
        goes_on
    });
    stream.count().await.into_result()?;
    tell("stream", started);
    Ok(())
}

/// Whether the server has a command.
async fn knows(con: &Connection, command: &str) -> RedisResult<bool> {
    let info: Vec<Value> = cmd("COMMAND").arg("INFO").arg(command).query_async(con).await?;
    Ok(info.first().is_some_and(|info| *info != Value::Nil))
}

async fn four(con: &Connection, count: usize) -> RedisResult<()> {
    let pairs: Vec<(String, usize)> = (0..count).map(|n| (format!("key:{n}"), n)).collect();
    // The first to set the keys would pay for their memory.
    cmd("MSET").arg(&pairs).exec_async(con).await?;
    let started = Instant::now();
    cmd("MSET").arg(&pairs).exec_async(con).await?;
    tell("native batch (MSET)", started);
    let started = Instant::now();
    let mut pipeline = pipe();
    pairs.iter().for_each(|(key, n)| _ = pipeline.cmd("SET").arg(key).arg(n).ignore());
    pipeline.exec_async(con).await?;
    tell("pipeline", started);
    if knows(con, "multi").await? {
        let started = Instant::now();
        pipeline.atomic().exec_async(con).await?;
        tell("transaction (MULTI, EXEC)", started);
    }
    if knows(con, "eval").await? {
        let script = Script::new("for n, key in ipairs(KEYS) do redis.call('SET', key, ARGV[n]) end return #KEYS");
        // The keys of one call stand on Lua's stack.
        let started = Instant::now();
        for some in pairs.chunks(5_000) {
            let mut call = script.prepare_invoke();
            some.iter().for_each(|(key, n)| _ = call.key(key).arg(n));
            call.invoke_async::<usize>(con).await?;
        }
        tell("script (EVALSHA, 5,000 keys a call)", started);
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> RedisResult<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| args.get(index).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let url = args.first().map_or("redis://127.0.0.1:6379/", String::as_str);
    let con = onrush::Client::open(url)?.connect().await?;
    match args.get(1).map(String::as_str) {
        Some("pings") => pings(&con, number(2)).await,
        Some("incrs") => {
            let batches: Vec<usize> = (3..args.len()).map(number).collect();
            incrs(&con, number(2), &batches).await
        }
        Some("four") => four(&con, number(2)).await,
        _ => {
            eprintln!("experiments URL pings COUNT | incrs COUNT BATCH... | four COUNT");
            std::process::exit(1);
        }
    }
}
