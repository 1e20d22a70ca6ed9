//! The functions of `redis.*`, except those that execute commands.

use crate::host::LogLevel;
use crate::number::to_integer;
use crate::sha::Sha1;
use crate::stack::{Kind, Outcome, Stack, TOP};

const WRONG_ARGUMENTS: &str = "ERR wrong number or type of arguments";

/// `redis.error_reply`
pub(crate) fn error_reply(stack: &Stack<'_>) -> Outcome {
    with_string(stack, |text| {
        // The text begins with its code; a text without a code gets ERR.
        let message = match text.strip_prefix(b"-") {
            Some(rest) => rest.to_vec(),
            None if text.contains(&b' ') => text.to_vec(),
            None => [b"ERR ", text].concat(),
        };
        stack.push_error_table(&message);
    })
}

/// `redis.status_reply`
pub(crate) fn status_reply(stack: &Stack<'_>) -> Outcome {
    with_string(stack, |text| stack.push_text_table("ok", text))
}

/// Has a table made of the only argument. If that is no string, there is one with an error instead.
fn with_string(stack: &Stack<'_>, push_table: impl FnOnce(&[u8])) -> Outcome {
    let text = if stack.top() == 1 { stack.bytes(1) } else { None };
    match text {
        Some(text) => push_table(text),
        None => stack.push_error_table(WRONG_ARGUMENTS.as_bytes()),
    }
    Ok(1)
}

/// Bytes that are hashed between two looks at the clock.
const PART_LEN: usize = 64 * 1024;

/// `redis.sha1hex`
pub(crate) fn sha1hex(stack: &Stack<'_>) -> Outcome {
    stack.refuse_if(stack.top() != 1, "ERR wrong number of arguments")?;
    let text = stack.text(1).unwrap_or_default();
    let mut sha = Sha1::default();
    for part in text.chunks(PART_LEN) {
        stack.work(part.len() / 8)?;
        sha.add(part);
    }
    stack.push_bytes(&sha.hex());
    Ok(1)
}

/// Most bytes of a message that is logged; the rest is cut off.
const LOGGED_LEN_MAX: usize = 16 * 1024;

/// `redis.log`
pub(crate) fn log(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    stack.refuse_if(count < 2, "ERR redis.log() requires two arguments or more.")?;
    stack.refuse_if(stack.number(1).is_none(), "ERR First argument must be a number (log level).")?;
    let level = match stack.number(1).map(to_integer) {
        Some(0) => LogLevel::Debug,
        Some(1) => LogLevel::Verbose,
        Some(2) => LogLevel::Notice,
        Some(3) => LogLevel::Warning,
        _ => return Err(stack.raise_table("ERR Invalid log level.")),
    };
    let mut message = Vec::new();
    for word in (2..=count).filter_map(|index| stack.text(index)) {
        if !message.is_empty() {
            message.push(b' ');
        }
        let space = LOGGED_LEN_MAX.saturating_sub(message.len());
        message.extend_from_slice(&word[..word.len().min(space)]);
    }
    stack.work(message.len() / 8)?;
    stack.host(|host| host.log(level, &message));
    Ok(0)
}

/// `redis.setresp`
pub(crate) fn setresp(stack: &Stack<'_>) -> Outcome {
    stack.refuse_if(stack.top() != 1, "ERR redis.setresp() requires one argument.")?;
    let version = stack.number(1).unwrap_or_default();
    stack.refuse_if(version != 2.0 && version != 3.0, "ERR RESP version must be 2 or 3.")?;
    stack.world().is_resp3.set(version == 3.0);
    Ok(0)
}

/// `redis.set_repl`
pub(crate) fn set_repl(stack: &Stack<'_>) -> Outcome {
    stack.refuse_if(stack.top() != 1, "ERR redis.set_repl() requires one argument.")?;
    match stack.number(1).map(to_integer) {
        Some(flags @ 0..=3) => stack.host(|host| host.set_replication(flags as u8)),
        _ => {
            let problem = "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            return Err(stack.raise_table(problem));
        }
    };
    Ok(0)
}

/// `redis.replicate_commands`: has no effect, since the log always records effects.
pub(crate) fn replicate_commands(stack: &Stack<'_>) -> Outcome {
    stack.push_boolean(true);
    Ok(1)
}

/// `redis.breakpoint`: has no effect, since there is no debugger.
pub(crate) fn breakpoint(stack: &Stack<'_>) -> Outcome {
    stack.push_boolean(false);
    Ok(1)
}

/// `redis.debug`: has no effect either.
pub(crate) fn debug(_: &Stack<'_>) -> Outcome {
    Ok(0)
}

/// Turns an error into the table from which the reply is made: the message, and the place where it was raised.
pub(crate) fn handle_error(stack: &Stack<'_>) -> Outcome {
    stack.set_top(1);
    if stack.kind(1) != Kind::Table {
        let message = describe(stack);
        stack.push_table(0, 3);
        stack.set_text("err", &message);
    }
    if let Some((source, line)) = stack.place_of_error() {
        stack.set_text("source", &source);
        stack.push_number(f64::from(line));
        stack.set_field(-2, "line");
    }
    debug_assert_eq!(stack.kind(TOP), Kind::Table);
    Ok(1)
}

/// An error that is not a table, as a message with a code.
fn describe(stack: &Stack<'_>) -> Vec<u8> {
    let mut message = b"ERR ".to_vec();
    match stack.kind(1) {
        Kind::String | Kind::Number => message.extend_from_slice(stack.text(1).unwrap_or_default()),
        Kind::Boolean => message.extend_from_slice(if stack.truth(1) { b"true" } else { b"false" }),
        Kind::None | Kind::Nil => message.extend_from_slice(b"nil"),
        kind => message.extend_from_slice(format!("{}: {:#x}", kind.name(), stack.address(1)).as_bytes()),
    }
    message
}
