//! Replacements for some of Lua's own functions: those that catch errors, compile, or could change what scripts share.

use std::ffi::CString;

use crate::sandbox::{READ_ONLY, real_table, shown_metatable};
use crate::stack::{Kept, Kind, Outcome, Raised, SLOTS, Stack, TOP};

/// `pcall`: for an error table with `err` it returns that string, as in Redis.
pub(crate) fn pcall(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    if count == 0 {
        stack.push_boolean(false);
        return Ok(1);
    }
    let called = stack.call(count - 1, None);
    end_call(stack)?;
    if called.is_err() {
        unwrap_error(stack);
    }
    stack.push_boolean(called.is_ok());
    stack.insert(1);
    Ok(stack.top() as usize)
}

/// A call may have filled the stack with its results, or the script was ended from outside meanwhile.
fn end_call(stack: &Stack<'_>) -> Result<(), Raised> {
    if stack.has_space(SLOTS) {
        return stack.check_aborted();
    }
    stack.set_top(0);
    Err(stack.raise_plain("stack overflow"))
}

/// # Errors
/// The first argument is no table.
fn check_table(stack: &Stack<'_>) -> Result<(), Raised> {
    if stack.kind(1) == Kind::Table { Ok(()) } else { Err(stack.wrong_type(1, "table")) }
}

/// # Errors
/// Argument `nth` is missing.
fn check_any(stack: &Stack<'_>, nth: i32) -> Result<(), Raised> {
    stack.refuse_argument_if(stack.kind(nth) == Kind::None, nth, "value expected")
}

/// Replaces an error table on top by its `err`.
fn unwrap_error(stack: &Stack<'_>) {
    if stack.kind(TOP) == Kind::Table {
        let is_text = matches!(stack.get_field(TOP, "err"), Kind::String | Kind::Number);
        if is_text {
            stack.remove(-2);
        } else {
            stack.pop(1);
        }
    }
}

/// `xpcall`
pub(crate) fn xpcall(stack: &Stack<'_>) -> Outcome {
    check_any(stack, 2)?;
    stack.set_top(2);
    stack.push_closure(handle_error, 1);
    stack.insert(1);
    let called = stack.call(0, Some(1));
    end_call(stack)?;
    stack.push_boolean(called.is_ok());
    stack.insert(2);
    Ok(stack.top() as usize - 1)
}

/// Calls the handler given to `xpcall` (its upvalue), unless the script was ended from outside. Then the handler must
/// not run: the error comes from a hook, and no hook could end the script inside of the handler.
fn handle_error(stack: &Stack<'_>) -> Outcome {
    if stack.check_aborted().is_err() {
        return Ok(1);
    }
    stack.set_top(1);
    stack.push_value(Stack::upvalue(1));
    stack.insert(1);
    let called = stack.call_for(1, 1, None);
    stack.check_aborted()?;
    if called.is_err() {
        stack.push_bytes(b"error in error handling");
    }
    Ok(1)
}

/// `coroutine.resume`, over Lua's own (its upvalue): a script that was ended from outside ends in all of its coroutines.
pub(crate) fn resume(stack: &Stack<'_>) -> Outcome {
    stack.refuse_argument_if(stack.kind(1) != Kind::Thread, 1, "coroutine expected")?;
    let count = stack.top();
    stack.push_value(Stack::upvalue(1));
    stack.insert(1);
    let called = stack.call(count, None);
    end_call(stack)?;
    called.map(|()| stack.top() as usize)
}

/// `loadstring`
pub(crate) fn loadstring(stack: &Stack<'_>) -> Outcome {
    let code = stack.check_text(1)?;
    let name = if stack.is_given(2) { stack.check_text(2)? } else { code };
    let compiled = stack.compile(code, &c_name(name));
    function_or_message(stack, compiled)
}

/// `load`
pub(crate) fn load(stack: &Stack<'_>) -> Outcome {
    if stack.kind(1) != Kind::Function {
        return Err(stack.wrong_type(1, "function"));
    }
    let name = if stack.is_given(2) { stack.check_text(2)? } else { &b"=(load)"[..] };
    stack.set_top(1);
    let compiled = stack.compile_from(1, &c_name(name));
    function_or_message(stack, compiled)
}

/// A name is a C string, which ends at a NUL.
fn c_name(name: &[u8]) -> CString {
    CString::new(&name[..memchr::memchr(0, name).unwrap_or(name.len())]).unwrap_or_default()
}

/// Returns the function on top, or nil and the message there.
fn function_or_message(stack: &Stack<'_>, compiled: Result<(), Raised>) -> Outcome {
    stack.check_aborted()?;
    if compiled.is_ok() {
        return Ok(1);
    }
    stack.push_nil();
    stack.insert(-2);
    Ok(2)
}

/// `setmetatable`
pub(crate) fn setmetatable(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    stack.refuse_argument_if(!matches!(stack.kind(2), Kind::Table | Kind::Nil), 2, "nil or table expected")?;
    refuse_read_only(stack)?;
    if stack.get_metatable(1) {
        if stack.get_field(TOP, "__metatable") != Kind::Nil {
            return Err(stack.raise("cannot change a protected metatable"));
        }
        stack.pop(2);
    }
    stack.set_top(2);
    stack.set_metatable(1);
    Ok(1)
}

/// `getmetatable`: for a table that scripts cannot change it returns another metatable than the real one.
pub(crate) fn getmetatable(stack: &Stack<'_>) -> Outcome {
    check_any(stack, 1)?;
    let shown = match stack.kind(1) {
        Kind::String => Some(stack.world().string_metatable.get()),
        Kind::Table => shown_metatable(stack, 1),
        _ => Some(None),
    };
    match shown {
        Some(Some(shown)) => stack.push_kept(shown),
        Some(None) => stack.push_nil(),
        None if !stack.get_metatable(1) => stack.push_nil(),
        None if stack.get_field(TOP, "__metatable") == Kind::Nil => stack.pop(1),
        None => {}
    }
    Ok(1)
}

/// # Errors
/// Fails if the first argument is a table that scripts cannot change.
fn refuse_read_only(stack: &Stack<'_>) -> Result<(), Raised> {
    if stack.kind(1) == Kind::Table && real_table(stack, 1).is_some() {
        return Err(stack.raise_plain(READ_ONLY));
    }
    Ok(())
}

/// `rawset`
pub(crate) fn rawset(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    check_any(stack, 2)?;
    check_any(stack, 3)?;
    refuse_read_only(stack)?;
    match stack.kind(2) {
        Kind::Nil => return Err(stack.raise_plain("table index is nil")),
        _ if stack.is_no_key(2) => return Err(stack.raise_plain("table index is NaN")),
        _ => {}
    }
    stack.set_top(3);
    stack.set(1);
    Ok(1)
}

/// `rawget`
pub(crate) fn rawget(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    check_any(stack, 2)?;
    stack.set_top(2);
    push_table_itself(stack);
    stack.insert(-2);
    stack.get(-2);
    Ok(1)
}

/// Pushes the first argument, or the table that it stands in for.
fn push_table_itself(stack: &Stack<'_>) {
    match real_table(stack, 1) {
        Some(real) => stack.push_kept(real),
        None => stack.push_value(1),
    }
}

/// `next`
pub(crate) fn next(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    stack.set_top(2);
    push_table_itself(stack);
    // Lua's own raises an error for a key that the table does not have.
    push_plain_next(stack)?;
    stack.insert(-2);
    stack.push_value(2);
    stack.call(2, None)?;
    Ok(stack.top() as usize - 2)
}

fn push_plain_next(stack: &Stack<'_>) -> Result<(), Raised> {
    let next: Option<Kept> = stack.world().next.get();
    stack.push_kept(next.ok_or_else(|| stack.raise_plain("no next"))?);
    Ok(())
}

/// `pairs`
pub(crate) fn pairs(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    push_plain_next(stack)?;
    if real_table(stack, 1).is_some() {
        stack.pop(1);
        stack.push_function(next);
    }
    stack.push_value(1);
    stack.push_nil();
    Ok(3)
}

/// `table.insert`
pub(crate) fn insert(stack: &Stack<'_>) -> Outcome {
    check_table(stack)?;
    refuse_read_only(stack)?;
    let mut end = stack.len(1) as i32 + 1;
    let at = match stack.top() {
        2 => end,
        3 => {
            let at = stack.check_number(2)? as i32;
            end = end.max(at);
            for to in (at.saturating_add(1)..=end).rev() {
                stack.work(2)?;
                stack.get_nth(1, to - 1);
                stack.set_nth(1, to);
            }
            at
        }
        _ => return Err(stack.raise("wrong number of arguments to 'insert'")),
    };
    stack.set_nth(1, at);
    Ok(0)
}

/// What is collected between two looks at the clock, in KB.
const COLLECTED_KB: i32 = 256;

/// `collectgarbage`: a script can read figures and collect, but cannot set anything that outlives it.
pub(crate) fn collectgarbage(stack: &Stack<'_>) -> Outcome {
    let option = if stack.is_given(1) { stack.check_text(1)? } else { &b"collect"[..] };
    let size = if stack.is_given(2) { stack.check_number(2)? as i32 } else { 0 };
    match option {
        b"count" => stack.push_number(stack.heap().used_bytes() as f64 / 1024.0),
        b"collect" => {
            // The cycle that has begun ends, and a whole one follows it.
            for _ in 0..2 {
                while !stack.collect_step(COLLECTED_KB) {
                    stack.work(COLLECTED_KB as usize * 1024 / 64)?;
                }
            }
            stack.push_number(0.0);
        }
        b"step" => {
            stack.work(stack.heap().used_bytes() / 64)?;
            let ended = stack.collect_step(size);
            stack.push_boolean(ended);
        }
        b"stop" | b"restart" => stack.push_number(0.0),
        b"setpause" | b"setstepmul" => stack.push_number(200.0),
        _ => {
            let option = String::from_utf8_lossy(option).into_owned();
            return Err(stack.bad_argument(1, &format!("invalid option '{option}'")));
        }
    }
    Ok(1)
}

/// `math.random`
pub(crate) fn random(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    let share = stack.world().random.next();
    let value = match count {
        0 => share,
        1 => {
            let upper = stack.check_number(1)?.trunc();
            stack.refuse_argument_if(upper < 1.0, 1, "interval is empty")?;
            (share * upper).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (stack.check_number(1)?.trunc(), stack.check_number(2)?.trunc());
            stack.refuse_argument_if(lower > upper, 2, "interval is empty")?;
            (share * (upper - lower + 1.0)).floor() + lower
        }
        _ => return Err(stack.raise("wrong number of arguments")),
    };
    stack.push_number(value);
    Ok(1)
}

/// `math.randomseed`
pub(crate) fn randomseed(stack: &Stack<'_>) -> Outcome {
    let seed = stack.check_number(1)?;
    stack.world().random.seed(crate::number::to_integer(seed) as u32);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::test_host::eval;

    #[test]
    fn errors_are_caught_as_strings() {
        assert_eq!(eval("local ok, e = pcall(redis.call, 'fail') return e"), "$8\r\nERR fail\r\n");
        assert_eq!(eval("local ok, e = pcall(error, {a = 1}) return type(e)"), "$5\r\ntable\r\n");
        assert_eq!(
            eval("return {xpcall(function() error('a', 0) end, function(e) return 'h:' .. e end)}"),
            "*2\r\n$-1\r\n$3\r\nh:a\r\n"
        );
        assert_eq!(eval("return {pcall(1)}"), "*2\r\n$-1\r\n$30\r\nattempt to call a number value\r\n");
    }

    #[test]
    fn compiled_code_is_a_text_with_errors() {
        let code = "local f, e = loadstring(string.dump(function() return 1 end), '=x') return {tostring(f), e}";
        assert_eq!(eval(code), "*2\r\n$3\r\nnil\r\n$38\r\nx:1: unexpected symbol near 'char(27)'\r\n");
        let code =
            "local n = 0 local f, e = load(function() n = n + 1 if n == 1 then return '\\27Lua' end end) return e";
        assert_eq!(eval(code), "$43\r\n(load):1: unexpected symbol near 'char(27)'\r\n");
        assert_eq!(eval("return loadstring('return 1')()"), ":1\r\n");
    }

    #[test]
    fn texts_are_read_as_numbers_whatever_their_length() {
        let texts = "'0', '007', '42', '999999999999999', '1000000000000001', '12345678901234567890', '-5', ' 6 ', '1e3', \
                     '0x1f', '12a', '', ' ', '1 2', '7\\0x'";
        let numbers = "0 7 42 999999999999999 1000000000000001 12345678901234567168 -5 6 1000 31 nil nil nil nil 7";
        let code = format!(
            "local r = {{}} for i, text in ipairs({{{texts}}}) do local n = tonumber(text) \
             r[i] = n and string.format('%.0f', n) or 'nil' end return table.concat(r, ' ')"
        );
        assert_eq!(eval(&code), format!("${}\r\n{numbers}\r\n", numbers.len()));
        assert_eq!(eval("return '20' + '22'"), ":42\r\n");
    }

    #[test]
    fn random_numbers_are_those_of_redis() {
        let code = "local r = {} for i = 1, 5 do r[i] = tostring(math.random()) end return table.concat(r, ' ')";
        let first = "0.39646477363839 0.84048536971234 0.35333609737146 0.44658343468168 0.31869277233197";
        assert_eq!(eval(code), format!("${}\r\n{first}\r\n", first.len()));
        assert_eq!(
            eval(
                "math.randomseed(5) local r = {} for i = 1, 5 do r[i] = math.random(10, 20) end return table.concat(r, ' ')"
            ),
            "$14\r\n15 13 18 12 15\r\n"
        );
    }

    #[test]
    fn tables_of_the_sandbox_can_be_looked_through() {
        assert_eq!(eval("for name in pairs(redis) do if name == 'call' then return 1 end end"), ":1\r\n");
        assert_eq!(
            eval("return {type(rawget(redis, 'call')), type(rawget(_G, 'nothing')), type(next(_G))}"),
            "*3\r\n$8\r\nfunction\r\n$3\r\nnil\r\n$6\r\nstring\r\n"
        );
        assert_eq!(eval("local n = 0 for _ in pairs({1, 2, a = 3}) do n = n + 1 end return n"), ":3\r\n");
    }
}
