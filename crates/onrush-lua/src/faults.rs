//! Tests: the published faults of the Lua in Redis and its relatives.

use std::time::Instant;

use crate::test_host::{Run, error, eval};

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

#[test]
fn tables_do_not_unfold_without_a_limit() {
    let unfolds = |run: &mut Run, tables: &str, code: &str| run.eval(&format!("local t = {tables} {code}"));
    let codes = [
        ("return select(2, pcall(cjson.encode, t))", "Cannot serialise, too many values"),
        // It packs what is nested more deeply as nil.
        ("return select(2, pcall(cmsgpack.pack, t, t, t, t))", "Too many values for MessagePack pack."),
    ];
    let tree = "{} for i = 1, 40 do t = {t, t} end";
    for (code, problem) in codes {
        assert_eq!(unfolds(&mut Run::with_memory(8 << 20), tree, code), bulk(problem));
    }
    // A table that memory has room for is written, however many values it has.
    for code in ["return #cjson.encode(t)", "return #cmsgpack.pack(t)", "return #t", "return t"] {
        let reply = unfolds(&mut Run::with_memory(8 << 20), "{} for i = 1, 2e5 do t[i] = 1 end", code);
        assert!(!reply.starts_with('-'), "{code}: {reply}");
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

#[test]
fn compiled_code_and_finalizers_are_out_of_reach() {
    // CVE-2015-4335, CVE-2024-46981
    assert_eq!(eval("return tostring(loadstring(string.dump(function() end)))"), "$3\r\nnil\r\n");
    assert_eq!(
        eval(
            "local s, n = string.dump(function() end), 0 return tostring(load(function() n = n + 1 return s:sub(n, n) end))"
        ),
        "$3\r\nnil\r\n"
    );
    assert!(error("return newproxy(true)").contains("nonexistent global"));
    assert_eq!(eval("setmetatable({}, {__gc = function() error('x') end}) collectgarbage() return 1"), ":1\r\n");
}

#[test]
fn libraries_check_sizes_without_overflow() {
    // CVE-2018-11218, 2018-11219, 2015-8080, 2020-14147, 2024-31449, 2022-24834, 2021-32626
    for code in [
        "return struct.unpack('i2147483648', 'x')",
        "return struct.pack('>I2147483648', 1)",
        "return struct.unpack('c0', 'x', -2147483648)",
        "return struct.unpack('I4', 'abcd', 4294967296)",
        "return struct.size('!2147483647i4294967297')",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "local t = {} for i = 1, 7900 do t[i] = {} end return #cmsgpack.pack(unpack(t))",
        "return cmsgpack.unpack(string.rep('\\1', 100000))",
        "return bit.tohex(65535, -2147483648)",
        "return bit.tohex(65535, 2147483647)",
        "local s = string.rep('\\1', 100000) return #cjson.encode({s, s, [s] = s})",
        "return cjson.decode(string.rep('[', 100000))",
        "return struct.unpack(string.rep('b', 10000), string.rep('x', 10000))",
    ] {
        eval(code);
    }
    assert_eq!(eval("return bit.tohex(65535, -2147483648)"), "$8\r\n0000FFFF\r\n");
}

#[test]
fn strings_that_were_made_to_collide_cost_no_more_than_others() {
    // They differ only in bytes that Lua 5.1 leaves out of its hash.
    let code = "local n, t = 0, {} for i = 1, 20000 do local s = string.rep('a', 70) .. string.format('%05d', i) .. \
                string.rep('b', 70) t[s] = i end for _ in pairs(t) do n = n + 1 end return n";
    let mut run = Run::new();
    run.host.patience = Some(2_000);
    assert_eq!(run.eval(code), ":20000\r\n");
    let mut asked = Run::new();
    asked.host.patience = Some(200);
    let numbers = "local t = {} for i = 1, 20000 do t[i * 2^32 + 2^20 - i] = i end return 1";
    assert_eq!(asked.eval(numbers), ":1\r\n");
}

/// A table that goes over to the secret hash needs memory for its new places.
#[test]
fn a_table_stays_whole_when_it_gets_no_memory_for_another_hash() {
    /// As `luaS_hashkey` computes it for short strings.
    fn hash(text: &[u8]) -> u32 {
        let add = |hash: u32, byte: &u8| hash ^ (hash << 5).wrapping_add(hash >> 2).wrapping_add(u32::from(*byte));
        text.iter().rev().fold(text.len() as u32, add)
    }
    let names = (0..).map(|n| format!("k{n:07x}").into_bytes());
    let meets = |name: &Vec<u8>| hash(name) % (1 << 16) == 7;
    let names: Vec<Vec<u8>> = names.filter(meets).take(60).collect();
    let code = "
        local t, n, hog, j, failed, problem = {}, {}, {}, 0, 0, nil
        for i = 1, 40000 do t['p' .. i] = 1 end
        for i = 1, 20000 do n[i] = 'q' .. i end
        for i = 1, 2000 do hog[i] = false end
        pcall(function()
            while true do j = j + 1 hog[j] = string.rep(string.char(65 + j % 26), 1000000) .. j end
        end)
        for i = 1, #ARGV do
            local done, why = pcall(function() t[ARGV[i]] = 1 end)
            if not done then failed, problem = failed + 1, why end
        end
        for i = 1, 20000 do pcall(function() t[n[i]] = 1 end) end
        return {failed > 0 and 1 or 0, tostring(problem)}";
    let args: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let reply = Run::with_memory(128 << 20).eval_with(code, &args);
    // Whether it is caught depends on where memory ends.
    assert!(String::from_utf8_lossy(&reply).contains("not enough memory"));
}

#[test]
fn a_pattern_is_bounded_whatever_stands_behind_it() {
    let long = "string.rep('a*', 1000000)";
    for call in [
        format!("string.gsub('x', {long}, '', 1)"),
        format!("string.match('x', {long}, 1, true)"),
        format!("string.gmatch('x', {long}, 1, true)()"),
        format!("string.find('x', {long}, 1)"),
        format!("('x'):gsub({long}, '', 1)"),
    ] {
        assert!(caught(&call).contains("pattern too complex"), "{call}");
    }
    assert_eq!(eval(&format!("return string.find({long}, {long}, 1, true)")), ":1\r\n");
}
