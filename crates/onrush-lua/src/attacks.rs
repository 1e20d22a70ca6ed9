//! Tests: loops of native code that must end, and calls with arguments that mean harm.

use std::time::{Duration, Instant};

use crate::test_host::{KILLED, Run, cpu_time, eval};

/// Most CPU time between two questions to the host: some copy of a few hundred MB, in a build without optimisation.
const UNASKED_MAX: Duration = Duration::from_secs(2);

/// The same under AddressSanitizer, where growth of a buffer is a copy.
const UNASKED_SANITIZED_MAX: Duration = Duration::from_secs(10);

/// Ends the script after some milliseconds, and checks that the interpreter works for the next one.
fn ends(code: &str) {
    let mut run = Run::new();
    let start = Instant::now();
    (run.host.asked, run.host.until) = (Some(cpu_time()), Some(start + Duration::from_millis(50)));
    let reply = run.eval(code);
    assert!(reply.starts_with(&format!("-{KILLED}")), "{code}: {reply:.200}");
    let is_sanitized = std::env::var_os("ASAN_OPTIONS").is_some();
    let longest_max = if is_sanitized { UNASKED_SANITIZED_MAX } else { UNASKED_MAX };
    assert!(run.host.longest < longest_max, "{code}: {:?}", run.host.longest);
    run.host.until = None;
    assert_eq!(run.eval("return 1"), ":1\r\n", "{code}");
}

#[test]
fn deep_recursion_through_native_code_is_an_error() {
    for code in [
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() coroutine.resume(coroutine.create(f)) end f() return 1",
        "local function f(s) return (string.gsub('x', 'x', f)) end return f('x')",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "local function f(a, b) table.sort({1, 2, 3}, f) return a < b end table.sort({1, 2, 3}, f)",
        "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) return tostring(t)",
        "local function f() return xpcall(f, f) end return f()",
        "local function f() return loadstring('return ...')(pcall(f)) end return f()",
        "local function f() load(f) end f()",
        "return ('x'):rep(1e5):find(('(.-)'):rep(100))",
    ] {
        let mut run = Run::new();
        run.host.patience = Some(100);
        run.eval(code);
        run.host.patience = None;
        assert_eq!(run.eval("return 1"), ":1\r\n", "{code}");
    }
}

#[test]
fn a_sort_with_a_wrong_order_is_an_error() {
    for order in ["return true", "return math.random() < 0.5", "error('x')", "return a ~= b", "t[#t] = nil return true"]
    {
        eval(&format!(
            "local t = {{}} for i = 1, 300 do t[i] = i % 7 end pcall(table.sort, t, function(a, b) {order} end)"
        ));
    }
}

#[test]
fn loops_of_native_code_can_be_ended() {
    for code in [
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local t = {} for i = 1, 40 do t = {map = {t, t}} end return t",
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
        "local t = {} for i = 1, 100000 do t[i] = 1 end while true do table.remove(t, 1) t[100000] = 1 end",
        "local t = {} for i = 1, 100000 do t[i] = 'a' end while true do table.concat(t) end",
        "local t = {} for i = 1, 300000 do t[i] = i % 2 end while true do table.sort(t) end",
        "local t = {} for i = 1, 100000 do t[i] = 1 end for i = 1, 99999 do t[i] = nil end while true do next(t) end",
        "while true do string.rep('a', 1000000) end",
        "while true do collectgarbage() end",
        "local s = '[' .. string.rep('1,', 300000) .. '1]' while true do cjson.decode(s) end",
        "local s = string.rep('\\1', 300000) while true do cmsgpack.unpack_limit(s, 7000) end",
        "local t = {} for i = 1, 40 do t = {t, t} end return pcall(cjson.encode, t)",
        "local t = {1} for i = 1, 15 do t = {t, t, t, t} end while true do pcall(cmsgpack.pack, t) end",
        "cjson.encode_sparse_array(false, 0) return cjson.encode({[2147483647] = 1})",
        "return pcall(string.find, string.rep('a', 100000), '.-b')",
        "return string.find(string.rep('a', 100000), string.rep('a?', 500) .. string.rep('a', 500) .. 'b')",
        "return string.find(string.rep('a', 1e6), string.rep('a', 5e5) .. 'b', 1, true)",
        "return string.find(string.rep('a', 1e6), '[' .. string.rep('b', 1e5) .. ']')",
        "return string.match(string.rep('(', 1e6), '%b()')",
        "for w in string.gmatch(string.rep('a', 1e5), '.-b') do end",
        "return string.gsub(string.rep('a', 1e5), '.-b', function() end)",
        "return string.rep('', 2147483647)",
        "while true do string.reverse(string.rep('a', 1e6)) end",
        "local t = {} table.insert(t, -2^30, 1)",
        "local t = {1} table.insert(t, -2147483648, 1)",
        "local t = {} for i = 1, 1e5 do t[i] = 1 end while true do table.maxn(t) table.concat(t) end",
        "local t = {} for i = 1, 3e5 do t[i] = i % 1000 end while true do table.sort(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = 1 end while true do table.remove(t, 1) table.insert(t, 1, 1) end",
        "local t = {} for i = 1, 1e5 do t[i] = 1 end while true do table.foreach(t, type) table.foreachi(t, rawequal) end",
        "local s = string.rep('x', 2e7) while true do local a = s .. 'y' end",
        "local a, b = string.rep('x', 2e7) .. 'a', string.rep('x', 2e7) .. 'b' while true do local c = a < b end",
        "local t = {} for i = 1, 1e6 do t[i] = {} end while true do collectgarbage() end",
        "local s = string.rep('local a ', 1e6) while true do loadstring(s) end",
        "local s = '[' .. string.rep('1,', 1e6) .. '1]' while true do cjson.decode(s) end",
        "local s = string.rep('x', 1e7) while true do redis.sha1hex(s) end",
        "local p = '[' .. string.rep('b', 1e5) .. ']*c' return string.find(string.rep('a', 1e6), p)",
        "local p = '[^' .. string.rep('b', 1e5) .. ']*c' return string.find(string.rep('a', 1e6), p)",
        "local p = '[^' .. string.rep('b', 1e5) .. ']-c' return string.find(string.rep('a', 1e6), p)",
        "local p = '%f[' .. string.rep('b', 1e5) .. ']' return string.find(string.rep('a', 1e6), p)",
        "local s = string.rep('1', 1e8) while true do local n = s + 1 end",
        "local s = string.rep('1', 1e8) while true do tonumber(s) end",
        "local s = string.rep('1', 1e8) while true do tonumber(s, 16) end",
        "local s = string.rep('1', 1e8) while true do math.floor(s) end",
        "local s, t = string.rep('a', 1e6), {} for i = 1, 500 do t[i] = s end while true do pcall(cmsgpack.pack, t) end",
        "local s, t = string.rep('a', 1e6), {} for i = 1, 500 do t[i] = s end while true do pcall(cjson.encode, t) end",
        "local s, t = string.rep('a', 1e6), {} for i = 1, 500 do t[i] = s end while true do pcall(table.concat, t) end",
        "local s, t = string.rep('a', 1e6), {} for i = 1, 5000 do t[i] = s end while true do redis.pcall('echo', unpack(t)) end",
        "local s = string.rep('a', 1e7) while true do string.upper(s) end",
        "local s = string.rep('a', 1e7) while true do string.format('%s %q', s, s) end",
        "local s = string.rep('%d', 1e5) while true do pcall(string.format, s) end",
        "local s = string.rep('%%', 1e6) while true do string.format(s) end",
        "local s = string.rep('a', 1e7) while true do redis.log(1, s) end",
        "local s = string.rep('a', 1e7) while true do redis.error_reply(s) end",
        "local s = string.rep('a', 1e7) while true do pcall(error, s) end",
        "local s = string.rep(' ', 1e7) while true do pcall(cjson.decode, s) end",
        "local s = '\"' .. string.rep('a', 1e7) .. '\"' while true do pcall(cjson.decode, s) end",
        "local s = string.rep('1', 1e7) while true do pcall(cjson.decode, s) end",
        "local s = string.rep(' ', 1e7) while true do pcall(struct.pack, s) end",
        "local s = string.rep('x', 1e6) while true do pcall(struct.size, s) end",
        "local s = string.rep('0', 1e7) while true do pcall(struct.size, 'i' .. s) end",
        "local s = string.rep('x', 1e7) while true do pcall(struct.unpack, 's', s) end",
        "local t = {} for i = 1, 2e6 do t[i] = 1 end while true do local x = #t table.getn(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = 1 end while true do unpack(t, 1, 7000) end",
        "local t = {} for i = 1, 7000 do t[i] = 'x' end while true do select('#', unpack(t)) end",
        "local t = {} for i = 1, 7000 do t[i] = 65 end while true do string.char(unpack(t)) end",
        "local s = string.rep('a', 7000) while true do string.byte(s, 1, -1) end",
        "local f = function(...) return ... end local t = {} while true do f(unpack(t, 1, 7000)) end",
        "local t = {} for i = 1, 30 do t = setmetatable({}, {__index = t}) end while true do local x = t.x end",
        "local t = {} while true do local c = coroutine.wrap(function() end) c() end",
        "local a = '' while true do a = a .. 'x' if #a > 1e6 then a = '' end end",
        "while true do os.clock() end",
        "local s = string.rep('a', 1e7) while true do bit.band(1, 2) math.max(unpack({1,2,3})) tostring(s) end",
        "local s = string.rep('\\0', 1e7) while true do pcall(loadstring, 'return 1', s) end",
        "local s = string.rep('a', 1e7) while true do pcall(redis.sha1hex, s) pcall(redis.acl_check_cmd, s) end",
        "local s = string.rep('--[[', 1e6) while true do loadstring(s) end",
        "local s = 'return {' .. string.rep('{},', 1e6) .. '}' while true do loadstring(s) end",
        "local s = 'local a = ' .. string.rep('1 + ', 1e6) .. '1' while true do loadstring(s) end",
        "local s = 'return ' .. string.rep('\"a\" .. ', 1e6) .. '1' while true do loadstring(s) end",
        "while true do load(function() return 'local a = 1 ' end) end",
        "while true do load(function() return string.rep('a = 1 ', 10000) end) end",
        "local s = string.rep('b', 7000) while true do pcall(struct.unpack, s, s) end",
        "local s = '\\221\\0\\15\\66\\64' .. string.rep('\\1', 1e6) while true do cmsgpack.unpack(s) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end for i = 1, 1e6 do t[i] = nil end while true do next(t) end",
        "coroutine.wrap(function() while true do pcall(string.find, string.rep('a', 1e4), '.-b') end end)()",
        "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
        "return string.gsub('x', 'x', function() while true do pcall(error) end end)",
        "return setmetatable({}, {__index = function() while true do end end}).x",
    ] {
        ends(code);
    }
}

/// The functions that random scripts call.
const FUNCTIONS: &str = "local fs = {string.byte, string.char, string.find, string.format, string.gsub, string.gmatch, \
    string.len, string.lower, string.match, string.rep, string.reverse, string.sub, string.upper, string.dump, \
    table.concat, table.insert, table.remove, table.sort, table.maxn, table.foreach, table.foreachi, table.getn, \
    math.random, math.fmod, math.floor, math.ldexp, math.max, bit.tohex, bit.lshift, bit.rol, bit.bswap, struct.pack, \
    struct.unpack, struct.size, cjson.encode, cjson.decode, cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_one, \
    cmsgpack.unpack_limit, coroutine.create, coroutine.resume, coroutine.wrap, coroutine.status, coroutine.yield, \
    redis.call, redis.pcall, redis.error_reply, redis.sha1hex, redis.log, redis.acl_check_cmd, unpack, select, tostring, \
    tonumber, rawset, rawget, next, setmetatable, getmetatable, pcall, xpcall, load, loadstring, error, assert, \
    collectgarbage, rawequal, ipairs, pairs, type}";

#[test]
fn random_calls_with_hostile_arguments_do_no_harm() {
    let body = "math.randomseed(tonumber(ARGV[1])) \
        local r = math.random local self = {1, 2, 3} self.x = self setmetatable(self, {__index = function() return 1 end, \
        __lt = function() return true end, __concat = function() return 'c' end, __call = function() return 2 end}) \
        local vals = {0, 1, -1, 2147483647, -2147483648, 4294967296, -2^63, 2^63, 1/0, 0/0, 1e308, '', 'a', '%', '%b', '[', \
        '(.-)%1', '%f[%w]', 'i4', '!8i3', '>c0', string.rep('a', 3000), '\\221\\255\\255\\255\\255', '{\"a\":[1', true, \
        false, self, {}, {1, 2, 'x'}, fs[1], function(...) return ... end, function() error({}) end, \
        coroutine.create(function(...) coroutine.yield(...) error('x') end), redis, KEYS, setmetatable({}, {__mode = 'k'})} \
        for i = 1, 300 do local a = {} for j = 1, r(0, 5) do a[j] = vals[r(#vals)] end \
        local got = {pcall(fs[r(#fs)], unpack(a, 1, 5))} if r(4) == 1 and got[2] ~= nil then vals[r(#vals)] = got[2] end end \
        return vals";
    let code = format!("{FUNCTIONS} {body}");
    for seed in 0..60 {
        let mut run = Run::with_memory(32 << 20);
        run.host.patience = Some(200);
        run.eval_with(&code, &[seed.to_string().as_bytes()]);
        run.host.patience = None;
        assert_eq!(run.eval("return 1"), ":1\r\n", "seed {seed}");
    }
}
