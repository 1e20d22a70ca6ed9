//! The cost of scripts alone: runs some with a host that does nothing, and prints nanoseconds per run. Arguments: the
//! number of runs, and the name of the only script to run.

use std::time::Instant;

use onrush_lua::{Host, Interpreter, Interrupt, Limits, Lists, LogLevel, sha1_hex};
use onrush_resp::{ArgRange, Reply};

struct Nobody(i64);

impl Host for Nobody {
    fn call(&mut self, multibulk: &[u8], args: &[ArgRange], reply: &mut Reply) -> Interrupt {
        self.0 += 1;
        match args[0].of(multibulk, &[]) {
            b"GET" => reply.bulk(b"7"),
            b"SET" => reply.ok(),
            _ => reply.int(self.0),
        }
        Interrupt::GoOn
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn set_replication(&mut self, _: u8) {}

    fn may_execute(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn returns_error(&mut self, _: &[u8], _: bool) {}

    fn interrupt(&mut self) -> Interrupt {
        Interrupt::GoOn
    }
}

const SCRIPTS: &[(&str, &str)] = &[
    ("nothing", "return 1"),
    ("one call", "return redis.call('INCR', KEYS[1])"),
    ("status", "return redis.call('SET', KEYS[1], ARGV[1])"),
    ("ten calls", "for i = 1, 10 do redis.call('INCR', KEYS[1]) end return 1"),
    (
        "rate limiter",
        "local limit = tonumber(ARGV[1]) local current = tonumber(redis.call('GET', KEYS[1]) or '0') \
         if current + 1 > limit then return {0, current} end current = redis.call('INCR', KEYS[1]) \
         if current == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end return {1, current}",
    ),
    ("loop of 1000", "local n = 0 for i = 1, 1000 do n = n + i % 7 end return n"),
    ("json", "return cjson.encode(cjson.decode('{\"a\":[1,2,3],\"b\":{\"c\":\"text\"}}'))"),
];

fn main() {
    let runs: u32 = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(200_000);
    let wanted = std::env::args().nth(2);
    let mut interpreter = Interpreter::new(Limits::default());
    let mut host = Nobody(0);
    for (name, code) in SCRIPTS.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|wanted| wanted == *name)) {
        let sha = sha1_hex(code.as_bytes());
        let script = interpreter.compile(&sha, code.as_bytes()).expect("the scripts are Lua");
        let mut best = f64::MAX;
        for _ in 0..5 {
            let mut out = Reply::new();
            let started = Instant::now();
            for _ in 0..runs {
                let (keys, args) = ([&b"key:000000012"[..]].into_iter(), [&b"10"[..], b"60"].into_iter());
                interpreter.run((script, Lists::Kept), &sha, keys, args, &mut host, &mut out);
                let buffer = out.take_buffer();
                out.put_buffer(buffer);
            }
            best = best.min(started.elapsed().as_nanos() as f64 / f64::from(runs));
        }
        println!("{name:14} {best:8.0} ns");
    }
}
