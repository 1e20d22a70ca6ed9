//! What keeps an input short and repeatable: commands that take as long as they are told are told less.

use super::words::{LIBRARIES, SCRIPTS, UNBOUNDED};

/// Most milliseconds of CLIENT PAUSE, most seconds of DEBUG SLEEP.
const PAUSE_MS_MAX: i64 = 1_000_000;
const SLEEP_S_MAX: i64 = 100;

/// Most random elements that a command may repeat. More than half of all numbers is an error.
const DRAWN_MAX: i64 = 200;
const DRAWN_ERROR: i64 = i64::MIN / 2;

/// Subcommands of DEBUG that fail on purpose, have files, or make keys that no log has.
const DEBUG_LEFT_OUT: &[&str] =
    &["populate", "panic", "stall", "replay", "command-log", "segfault", "assert", "oom", "reload", "loadaof"];

/// Words of bytes that are sent as they stand: with one of them these may call what is bounded here.
const SUSPICIOUS: &[&str] =
    &["eval", "script", "function", "debug", "randm", "randf", "pause", "populate", "sync", "replconf", "shutdown"];

/// Bounds the work of a command.
pub fn bound(argv: &mut Vec<Vec<u8>>) {
    let is = |argv: &[Vec<u8>], at: usize, word: &str| {
        argv.get(at).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    if is(argv, 0, "debug") {
        if DEBUG_LEFT_OUT.iter().any(|word| is(argv, 1, word)) {
            argv[1] = b"help".to_vec();
        }
        if is(argv, 1, "sleep") {
            clamp(&mut argv[2..], 0, SLEEP_S_MAX, true);
        }
    }
    if is(argv, 0, "client") && is(argv, 1, "pause") {
        clamp(&mut argv[2..], i64::MIN, PAUSE_MS_MAX, false);
    }
    // Scripts call commands, too.
    if ["srandmember", "hrandfield", "zrandmember"].iter().any(|word| (0..argv.len()).any(|at| is(argv, at, word))) {
        let is_drawn = |argument: &Vec<u8>| number(argument).is_some_and(|n| (DRAWN_ERROR..-DRAWN_MAX).contains(&n));
        argv.iter_mut().filter(|argument| is_drawn(argument)).for_each(|argument| *argument = b"-200".to_vec());
    }
    if ["shutdown", "sync", "psync", "replconf", "cluster"].iter().any(|word| is(argv, 0, word)) {
        argv[0] = b"ping".to_vec();
    }
    // The reply is long and always the same.
    if is(argv, 0, "command") && (argv.len() == 1 || argv.len() == 2 && (is(argv, 1, "docs") || is(argv, 1, "info"))) {
        argv.push(b"get".to_vec());
    }
    let script = match argv.len() {
        2.. if is(argv, 0, "eval") || is(argv, 0, "eval_ro") => 1,
        3.. if is(argv, 0, "script") || is(argv, 0, "function") => argv.len() - 1,
        _ => return,
    };
    if !ends_soon(&argv[script]) {
        argv[script] = b"return 1".to_vec();
    }
}

/// Whether bytes may be sent as they stand, after those that were before.
pub fn may_be_sent(bytes: &[u8]) -> bool {
    let text = bytes.to_ascii_lowercase();
    !SUSPICIOUS.iter().any(|word| contains(&text, word))
}

fn ends_soon(script: &[u8]) -> bool {
    let is_ours = SCRIPTS.iter().chain(LIBRARIES).any(|ours| ours.as_bytes() == script);
    is_ours || !UNBOUNDED.iter().any(|word| contains(script, word))
}

fn contains(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|window| window == word.as_bytes())
}

fn clamp(arguments: &mut [Vec<u8>], min: i64, max: i64, are_numbers: bool) {
    for argument in arguments {
        match number(argument) {
            Some(n) if n < min || n > max => *argument = max.to_string().into_bytes(),
            None if are_numbers => *argument = b"1".to_vec(),
            _ => {}
        }
    }
}

fn number(argument: &[u8]) -> Option<i64> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}
