//! Tests: the published faults of the Lua in Redis and its relatives, and loops of native code that must end.

use std::time::Instant;

use crate::Ended;
use crate::test_host::{KILLED, Run, error, eval};

/// What a script that catches the error of `code` sees of it.
fn caught(code: &str) -> String {
    eval(&format!("local done, problem = pcall(function() {code} end) return tostring(problem)"))
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn the_results_of_unpack_are_counted_without_overflow() {
    // CVE-2025-46817
    for range in ["-2, 2147483647", "-2147483648, 2147483647", "0, 2147483647", "1, 2147483647", "1, 8001", "-1, 1e8"] {
        let code = format!("return pcall(unpack, {{1, 2, 3}}, {range})");
        assert_eq!(eval(&format!("return select(2, (function() {code} end)())")), bulk("too many results to unpack"));
    }
    assert_eq!(eval("return {unpack({1, 2, 3}, 2147483647, -2147483648)}"), "*0\r\n");
    assert_eq!(eval("return select('#', unpack({1, 2, 3}, 2147483646, 2147483647))"), ":2\r\n");
    assert_eq!(eval("return select('#', unpack({1}, -2147483648, -2147483647))"), ":2\r\n");
    assert_eq!(eval("return select('#', unpack({1}, 1, 7900))"), ":7900\r\n");
    assert_eq!(eval("return {unpack({1, 2, 3})}"), "*3\r\n:1\r\n:2\r\n:3\r\n");
}

#[test]
fn widths_of_hexadecimal_numbers_have_no_overflow() {
    // CVE-2024-31449
    assert_eq!(eval("return bit.tohex(65535, -2147483648)"), bulk("0000FFFF"));
    assert_eq!(eval("return bit.tohex(65535, 2147483647)"), bulk("0000ffff"));
}

#[test]
fn basic_types_have_no_metatable_that_a_script_can_change() {
    // CVE-2025-46818
    for value in ["1", "true", "nil", "print", "function() end", "coroutine.create(function() end)", "cjson.null"] {
        let value = if value == "print" { "tostring" } else { value };
        assert_eq!(eval(&format!("return tostring(getmetatable({value}))")), bulk("nil"), "{value}");
        assert!(caught(&format!("setmetatable({value}, {{}})")).contains("table expected"), "{value}");
    }
    for change in [
        "getmetatable('').__index = {}",
        "getmetatable('').__add = 1",
        "rawset(getmetatable(''), '__add', 1)",
        "getmetatable('').__index.len = 1",
        "setmetatable(getmetatable(''), {})",
    ] {
        let problem = caught(change);
        assert!(problem.contains("readonly table") || problem.contains("protected metatable"), "{change}: {problem}");
    }
}

#[test]
fn the_name_of_a_chunk_lives_while_it_is_parsed() {
    // CVE-2025-49844
    let code = "local n = 0 \
                local function piece() n = n + 1 collectgarbage() \
                for i = 1, 100 do local s = string.rep('x', 20 + i) .. n end \
                if n < 50 then return 'local a' .. n .. ' = function() return 1 end ' end \
                if n == 50 then return '?' end end \
                local f, problem = load(piece, '=' .. string.rep('name', 5)) return problem";
    assert_eq!(eval(code), bulk("namenamenamenamename:1: unexpected symbol near '?'"));
}

#[test]
fn long_brackets_are_counted_without_overflow() {
    // CVE-2025-46819
    for (code, value) in [
        ("[==[a]=]b]==]", "a]=]b"),
        ("[[a]]", "a"),
        ("[[\\na]]", "\\na"),
        ("[=[[[a]]]=]", "[[a]]"),
        ("'a' --[==[ x ]=] ]==] .. 'b'", "ab"),
        ("({a = 'c'})['a']", "c"),
        ("({c = 'd'})[ [[c]] ]", "d"),
    ] {
        assert_eq!(eval(&format!("return {code}")), bulk(value), "{code}");
    }
    assert_eq!(
        eval("local s = string.rep('=', 1000000) return #loadstring('return [' .. s .. '[abc]' .. s .. ']')()"),
        ":3\r\n"
    );
    assert_eq!(
        eval("local f, e = loadstring('return [' .. string.rep('=', 1000000), '=c') return e:sub(1, 34)"),
        bulk("c:1: invalid long string delimiter")
    );
    assert!(eval("return [[a[[b]]").contains("nesting of [[...]] is deprecated near '['"));
    assert!(eval("return [=x").contains("invalid long string delimiter near '[='"));
}

#[test]
fn functions_with_many_parameters_have_a_stack() {
    // CVE-2014-5461
    let names: Vec<_> = (0..199).map(|nth| format!("p{nth}")).collect();
    let code = format!(
        "local function f({}, ...) return select('#', ...) end \
         local co = coroutine.wrap(function() for i = 1, 30 do f() end return f(unpack({{}}, 1, 204)) end) return co()",
        names.join(", ")
    );
    assert_eq!(eval(&code), ":5\r\n");
}

#[test]
fn sizes_in_formats_of_struct_are_bounded() {
    // CVE-2015-8080, CVE-2018-11219, CVE-2020-14147
    for code in [
        "struct.pack('>I2147483647', 1)",
        "struct.pack('i' .. string.rep('9', 400), 1)",
        "struct.unpack('c2147483647', 'abc')",
        "struct.unpack('c0', 'abc', 2)",
        "struct.unpack('I2147483640', string.rep('a', 40))",
        "struct.unpack('bc0', string.char(255) .. 'abc')",
        "struct.unpack('i', 'abc', -2147483648)",
        "struct.unpack('i', 'abcdefgh', 2147483647)",
    ] {
        error(&format!("return {code}"));
    }
}

#[test]
fn lengths_in_messages_are_bounded() {
    // CVE-2018-11218, CVE-2022-24834
    for bytes in
        [r"\221", r"\220\255\255", r"\221\255\255\255\255", r"\223\255\255\255\255\1", r"\219\255\255\255\255a"]
    {
        error(&format!("return cmsgpack.unpack('{bytes}')"));
    }
    assert!(error("return cmsgpack.unpack_limit('abc', 2147483647, -2147483648)").contains("Invalid request"));
    // A text that a table has many times is refused before it fills the memory.
    let mut run = Run::with_memory(32 << 20);
    for pack in ["cjson.encode", "cmsgpack.pack"] {
        let code = format!(
            "local s, t = string.rep('a', 1000000), {{}} for i = 1, 100000 do t[i] = s end \
             return tostring(select(2, pcall({pack}, t)))"
        );
        assert_eq!(run.eval(&code), bulk("not enough memory"));
    }
}

#[test]
fn a_reply_has_a_limit_of_bytes_and_values() {
    let refused = "-ERR reply of the script is too large\r\n";
    assert_eq!(eval("local s, t = string.rep('a', 1e6), {} for i = 1, 1e5 do t[i] = s end return t"), refused);
    let mut run = Run::with_memory(8 << 20);
    assert_eq!(run.eval("local t = {} for i = 1, 40 do t = {t, t} end return t"), refused);
}

/// Scripts that would run for minutes or for ever in native code.
const ENDLESS: [&str; 22] = [
    "local t = {} for i = 1, 40 do t = {t, t} end return t",
    "local t = {} for i = 1, 40 do t = {map = {a = t, b = t}} end return t",
    "local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
    "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
    "return string.find(string.rep('a', 100000), '.-b')",
    "return string.find(string.rep('a', 100000), '.*b')",
    "return string.match(string.rep('a', 100000), '(.-)%1b')",
    "return string.find(string.rep('a', 3000), 'a*a*a*a*b')",
    "return string.gsub(string.rep('a', 100000), '.-b', '')",
    "for a in string.gmatch(string.rep('a', 100000), '.-b') do end",
    "return string.find(string.rep('(', 300000), '%b()')",
    "return string.find(string.rep('a', 1000000), string.rep('a', 500000) .. 'b', 1, true)",
    "return string.rep('', 2147483647)",
    "local t = {} table.insert(t, -2^30, 1)",
    "local t = {} for i = 1, 100000 do t[i] = 1 end while true do table.remove(t, 1) t[100000] = 1 end",
    "local t = {} for i = 1, 100000 do t[i] = 'a' end while true do table.concat(t) end",
    "local t = {} for i = 1, 300000 do t[i] = i % 2 end while true do table.sort(t) end",
    "local t = {} for i = 1, 100000 do t[i] = 1 end for i = 1, 99999 do t[i] = nil end while true do next(t) end",
    "while true do string.rep('a', 1000000) end",
    "while true do collectgarbage() end",
    "local s = '[' .. string.rep('1,', 300000) .. '1]' while true do cjson.decode(s) end",
    "local s = string.rep('\\1', 300000) while true do cmsgpack.unpack_limit(s, 7000) end",
];

#[test]
fn native_loops_end_when_the_host_wants_it() {
    for code in ENDLESS {
        let wrapped = format!("while true do pcall(coroutine.wrap(function() {code} end)) end");
        let mut codes = vec![code];
        if !code.contains("return t") {
            codes.push(&wrapped);
        }
        for code in codes {
            let mut run = Run::new();
            run.host.patience = Some(100);
            run.eval(code);
            let Some(Ended::Aborted { reason, .. }) = run.ended else { panic!("{code}: {:?}", run.ended) };
            assert_eq!(reason, KILLED.as_bytes());
        }
    }
}

#[test]
fn strings_that_differ_in_few_bytes_are_found_as_fast_as_others() {
    let took = |args: &[Vec<u8>]| {
        let args: Vec<_> = args.iter().map(Vec::as_slice).collect();
        let mut run = Run::new();
        run.eval_with("return #ARGV", &[]);
        let start = Instant::now();
        run.eval_with("return #ARGV", &args);
        start.elapsed()
    };
    // Plain Lua 5.1 hashes every fourth byte of a text of this length, beginning with the last.
    let text = |nth: u32| {
        let mut text = vec![b'a'; 100];
        nth.to_le_bytes().iter().enumerate().for_each(|(at, byte)| text[4 * at] = *byte);
        text
    };
    let crafted: Vec<_> = (0..20_000).map(text).collect();
    let others: Vec<_> = (0..20_000).map(|nth| format!("{nth:0100}").into_bytes()).collect();
    let (crafted, others) = (took(&crafted), took(&others));
    assert!(crafted < others * 10 + std::time::Duration::from_millis(50), "{crafted:?} instead of {others:?}");
}
