//! `redis.call` and `redis.pcall`.

use std::hint::cold_path;

use onrush_resp::{ArgRange, Proto, Reply};

use crate::host::Interrupt;
use crate::number::push_argument;
use crate::stack::{BYTES_PER_STEP, Kind, Outcome, Raised, Scalar, Stack, TOP};
use crate::to_lua::push_reply;
use crate::world::{BUFFER_KEPT_MAX, Calling, Command};

const NO_ARGUMENTS: &str = "ERR Please specify at least one argument for this redis lib call";
const BAD_ARGUMENTS: &str = "ERR Lua redis lib command arguments must be strings or integers";
const TOO_LONG: &str = "ERR the command is too long";
const NOT_NOW: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// `redis.call`: an error reply becomes an error.
pub(crate) fn call(stack: &Stack<'_>) -> Outcome {
    execute(stack, true)
}

/// `redis.pcall`: an error reply becomes a table.
pub(crate) fn pcall(stack: &Stack<'_>) -> Outcome {
    execute(stack, false)
}

#[inline(always)]
fn execute(stack: &Stack<'_>, raises: bool) -> Outcome {
    let world = stack.world();
    let Calling { command, reply } = &mut *world.calling.borrow_mut();
    if let Err(problem) = command.gather(stack) {
        cold_path();
        return fail(stack, raises, problem);
    }
    if command.bytes.len() > BUFFER_KEPT_MAX {
        cold_path();
        let worked = stack.work(command.bytes.len() / BYTES_PER_STEP);
        if let Err(raised) = worked {
            command.shrink();
            return Err(raised);
        }
    }
    reply.set_proto(if world.is_resp3.get() { Proto::Resp3 } else { Proto::Resp2 });
    let called = stack.host(|host| host.call(&command.bytes, &command.args, reply));
    command.shrink();
    let ended = match called {
        Some(Interrupt::GoOn) => push(stack, reply),
        Some(Interrupt::Abort(reason)) => Err(stack.abort(reason)),
        None => {
            cold_path();
            return fail(stack, raises, NOT_NOW);
        }
    };
    let buffer = reply.take_buffer();
    if buffer.capacity() <= BUFFER_KEPT_MAX {
        reply.put_buffer(buffer);
    }
    if ended? && raises { Err(Raised) } else { Ok(1) }
}

/// Pushes a reply as a Lua value; returns whether it is an error.
#[inline(always)]
fn push(stack: &Stack<'_>, reply: &mut Reply) -> Result<bool, Raised> {
    match reply.as_single_slice() {
        Some(bytes) => push_reply(stack, bytes),
        None => {
            cold_path();
            push_reply(stack, &reply.take_bytes())
        }
    }
}

#[cold]
fn fail(stack: &Stack<'_>, raises: bool, problem: &str) -> Outcome {
    // A script that was ended must not go on.
    stack.check_aborted()?;
    let error = stack.raise_table(problem);
    if raises { Err(error) } else { Ok(1) }
}

impl Command {
    /// Takes the arguments of the running function.
    #[inline]
    fn gather(&mut self, stack: &Stack<'_>) -> Result<(), &'static str> {
        self.bytes.clear();
        self.args.clear();
        let count = stack.top();
        if count == 0 {
            return Err(NO_ARGUMENTS);
        }
        // An argument may be there many times. Ranges are 32 bits wide.
        let len_max = stack.heap().max_bytes().min(u32::MAX as usize);
        for index in 1..=count {
            match stack.scalar(index) {
                Some(Scalar::Bytes(bytes)) => self.push(bytes),
                Some(Scalar::Number(number)) => self.number(number),
                None => return Err(BAD_ARGUMENTS),
            }
            if self.bytes.len() > len_max {
                return Err(TOO_LONG);
            }
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.args.push(ArgRange::new(self.bytes.len(), bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    fn number(&mut self, value: f64) {
        if value as i64 as f64 == value && value.abs() < 1e15 {
            self.push(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            let mut text = Vec::new();
            push_argument(&mut text, value);
            self.push(&text);
        }
    }

    fn shrink(&mut self) {
        if self.bytes.capacity() > BUFFER_KEPT_MAX {
            *self = Self::default();
        }
    }
}

/// `redis.acl_check_cmd`
pub(crate) fn acl_check_cmd(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    stack.refuse_if(count == 0, NO_ARGUMENTS)?;
    let args: Option<Vec<&[u8]>> = (1..=count).map(|index| stack.text(index)).collect();
    let Some(args) = args else { return Err(stack.raise_table(BAD_ARGUMENTS)) };
    match stack.host(|host| host.may_execute(&args)).flatten() {
        Some(may) => stack.push_boolean(may),
        None => return Err(stack.raise_table("ERR Invalid command passed to redis.acl_check_cmd()")),
    }
    debug_assert_ne!(stack.kind(TOP), Kind::None);
    Ok(1)
}
