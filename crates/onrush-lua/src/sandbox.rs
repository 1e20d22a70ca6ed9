//! The globals of scripts, and how they are protected from changes.
//!
//! Scripts see a table that they cannot change through a stand-in: an empty table whose metatable reads from the real
//! one and refuses every assignment. The functions that work on tables without metamethods (`rawset`, `rawget`, `next`,
//! `setmetatable`, `table.insert`, …) treat stand-ins specially. Stand-ins stay empty, so nothing that a script does is
//! left for the next one.

use crate::base;
use crate::calls;
use crate::stack::{Function, Kept, Kind, Outcome, Stack, TOP};
use crate::world::ReadOnly;
use crate::{api, bits, functions, json, msgpack, packing};

/// The error for an assignment, as in Redis.
pub(crate) const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Globals of Lua that scripts do not get.
const REMOVED: [&str; 10] =
    ["dofile", "loadfile", "print", "getfenv", "setfenv", "newproxy", "module", "require", "package", "debug"];

/// The tables that are made once.
pub(crate) struct Globals {
    /// The globals themselves, to which KEYS and ARGV are added.
    pub(crate) real: Kept,
    /// The globals of libraries.
    pub(crate) library: LibraryGlobals,
    /// The handler that turns any error into an error table.
    pub(crate) handler: Kept,
}

/// Makes all globals of scripts. The stack is empty before and after.
pub(crate) fn build(stack: &Stack<'_>) -> Globals {
    stack.open_libraries();
    stack.push_globals();
    for name in REMOVED {
        stack.push_nil();
        stack.set_field(-2, name);
    }
    keep_plain_next(stack);
    replace_functions(stack);
    keep_only_clock(stack);
    json::open(stack);
    msgpack::open(stack);
    packing::open(stack);
    bits::open(stack);
    stack.push_function(api::handle_error);
    stack.push_value(TOP);
    stack.set_field(-3, "__redis__err__handler");
    let handler = stack.keep();
    show_string_metatable(stack);
    for name in ["string", "table", "math", "os", "coroutine", "cjson", "cmsgpack", "struct", "bit"] {
        stack.get_field(TOP, name);
        protect(stack, None);
        stack.set_field(-2, name);
    }
    let library = open_redis(stack);
    library.finish(stack);
    let real = protect_globals(stack);
    stack.set_hook();
    Globals { real, library, handler }
}

fn keep_plain_next(stack: &Stack<'_>) {
    stack.get_field(TOP, "next");
    stack.world().next.set(Some(stack.keep()));
}

/// Adds a function to the table on top.
pub(crate) fn add(stack: &Stack<'_>, name: &str, function: impl Function) {
    stack.push_function(function);
    stack.set_field(-2, name);
}

fn replace_functions(stack: &Stack<'_>) {
    add(stack, "pcall", base::pcall);
    add(stack, "xpcall", base::xpcall);
    add(stack, "load", base::load);
    add(stack, "loadstring", base::loadstring);
    add(stack, "setmetatable", base::setmetatable);
    add(stack, "getmetatable", base::getmetatable);
    add(stack, "rawset", base::rawset);
    add(stack, "rawget", base::rawget);
    add(stack, "next", base::next);
    add(stack, "pairs", base::pairs);
    add(stack, "collectgarbage", base::collectgarbage);
    stack.get_field(TOP, "math");
    add(stack, "random", base::random);
    add(stack, "randomseed", base::randomseed);
    stack.pop(1);
    stack.get_field(TOP, "string");
    stack.bound_patterns();
    stack.pop(1);
    stack.get_field(TOP, "table");
    add(stack, "insert", base::insert);
    stack.pop(1);
    stack.get_field(TOP, "coroutine");
    stack.get_field(TOP, "resume");
    stack.push_closure(base::resume, 1);
    stack.set_field(-2, "resume");
    stack.pop(1);
}

/// Removes everything but `clock` from `os`.
fn keep_only_clock(stack: &Stack<'_>) {
    stack.push_table(0, 1);
    stack.get_field(-2, "os");
    stack.get_field(TOP, "clock");
    stack.remove(-2);
    stack.set_field(-2, "clock");
    stack.set_field(-2, "os");
}

/// Strings find their methods through a metatable that scripts never get: scripts see another one.
fn show_string_metatable(stack: &Stack<'_>) {
    stack.push_table(0, 1);
    stack.get_field(-2, "string");
    protect(stack, None);
    stack.set_field(-2, "__index");
    protect(stack, None);
    stack.world().string_metatable.set(Some(stack.keep()));
}

/// Adds `redis` to the globals on top, and makes the globals of libraries.
fn open_redis(stack: &Stack<'_>) -> LibraryGlobals {
    let globals = LibraryGlobals { running: copy_globals(stack), ..open_library_globals(stack) };
    push_running(stack);
    add(stack, "replicate_commands", api::replicate_commands);
    add(stack, "breakpoint", api::breakpoint);
    add(stack, "debug", api::debug);
    push_numbers(stack, REPLICATION_NUMBERS);
    show_server(stack);
    globals
}

/// Pushes a table with the part of `redis` that executes no commands.
fn push_common(stack: &Stack<'_>) {
    stack.push_table(0, 32);
    add(stack, "log", api::log);
    push_numbers(stack, NUMBERS);
    stack.set_text("REDIS_VERSION", onrush_resp::REDIS_VERSION.as_bytes());
    add(stack, "error_reply", api::error_reply);
    add(stack, "status_reply", api::status_reply);
    add(stack, "sha1hex", api::sha1hex);
}

/// Pushes a table with the part of `redis` that functions of libraries have, too.
fn push_running(stack: &Stack<'_>) {
    push_common(stack);
    add(stack, "call", calls::call);
    add(stack, "pcall", calls::pcall);
    add(stack, "acl_check_cmd", calls::acl_check_cmd);
    add(stack, "setresp", api::setresp);
    add(stack, "set_repl", api::set_repl);
}

/// Makes the table on top the one that scripts call commands through: `redis`, or `server` as in Valkey.
fn show_server(stack: &Stack<'_>) {
    protect(stack, None);
    stack.push_value(TOP);
    stack.set_field(-3, "server");
    stack.set_field(-2, "redis");
}

fn push_numbers(stack: &Stack<'_>, numbers: &[(&str, i32)]) {
    for (name, number) in numbers {
        stack.push_number(f64::from(*number));
        stack.set_field(-2, name);
    }
}

const REDIS_VERSION_NUM: i32 = onrush_resp::REDIS_VERSION_NUM as i32;

const NUMBERS: &[(&str, i32)] = &[
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REDIS_VERSION_NUM", REDIS_VERSION_NUM),
];

const REPLICATION_NUMBERS: &[(&str, i32)] =
    &[("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// The globals of libraries. While the code of a library runs, it sees only what it needs to register functions;
/// afterwards its functions see all.
#[derive(Clone, Copy)]
pub(crate) struct LibraryGlobals {
    /// The table that libraries see: it stands in for one of the following.
    pub(crate) shown: Kept,
    /// The metatable of `shown`; its `__index` is the table that `shown` stands in for.
    pub(crate) metatable: Kept,
    /// While their code runs.
    pub(crate) loading: Kept,
    /// While one of their functions runs.
    pub(crate) running: Kept,
}

/// Copies the globals on top for functions of libraries.
fn copy_globals(stack: &Stack<'_>) -> Kept {
    stack.push_table(0, 64);
    stack.push_nil();
    while stack.next(-3) {
        stack.push_value(-2);
        stack.insert(-2);
        stack.set(-4);
    }
    stack.push_nil();
    stack.set_field(-2, "__redis__err__handler");
    push_running(stack);
    push_numbers(stack, REPLICATION_NUMBERS);
    show_server(stack);
    stack.keep()
}

/// Makes the globals of libraries.
fn open_library_globals(stack: &Stack<'_>) -> LibraryGlobals {
    stack.push_table(0, 1);
    push_common(stack);
    add(stack, "register_function", functions::register);
    protect_missing(stack);
    show_server(stack);
    protect_missing(stack);
    let loading = stack.keep();
    stack.push_kept(loading);
    protect(stack, None);
    stack.get_metatable(TOP);
    let metatable = stack.keep();
    let shown = stack.keep();
    LibraryGlobals { shown, metatable, loading, running: loading }
}

impl LibraryGlobals {
    /// Switches between the globals that register functions and, if `running`, all that functions see.
    pub(crate) fn show(self, stack: &Stack<'_>, running: bool) {
        let real = if running { self.running } else { self.loading };
        stack.push_kept(self.metatable);
        stack.push_kept(real);
        stack.set_field(-2, "__index");
        stack.pop(1);
        stack.push_kept(self.shown);
        let address = stack.address(TOP);
        stack.stand_for(TOP, real);
        stack.pop(1);
        for one in stack.world().read_only.borrow_mut().iter_mut().filter(|one| one.address == address) {
            one.real = real;
        }
    }

    /// Completes the globals that functions see.
    fn finish(self, stack: &Stack<'_>) {
        stack.push_kept(self.running);
        let shown_metatable = protect_missing(stack);
        stack.push_kept(self.shown);
        let address = stack.address(TOP);
        stack.set_field(-2, "_G");
        stack.pop(1);
        for one in stack.world().read_only.borrow_mut().iter_mut().filter(|one| one.address == address) {
            one.shown_metatable = Some(shown_metatable);
        }
        self.show(stack, true);
    }
}

/// Pops the table on top and makes it the globals of scripts.
fn protect_globals(stack: &Stack<'_>) -> Kept {
    stack.push_value(TOP);
    let real = stack.keep();
    let shown = protect_missing(stack);
    protect(stack, Some(shown));
    // `_G` is the table that scripts see.
    stack.push_kept(real);
    stack.push_value(-2);
    stack.set_field(-2, "_G");
    stack.pop(1);
    stack.set_globals();
    real
}

/// Calls `missing` for names that are not in the table on top; returns the metatable of that table that scripts see.
fn protect_missing(stack: &Stack<'_>) -> Kept {
    stack.push_table(0, 1);
    add(stack, "__index", missing);
    stack.push_value(TOP);
    stack.set_metatable(-3);
    protect(stack, None);
    stack.keep()
}

/// Replaces the table on top by a stand-in for it.
fn protect(stack: &Stack<'_>, shown_metatable: Option<Kept>) {
    stack.push_table(0, 0);
    stack.push_table(0, 2);
    stack.push_value(-3);
    stack.set_field(-2, "__index");
    add(stack, "__newindex", refuse);
    stack.set_metatable(-2);
    let address = stack.address(TOP);
    stack.insert(-2);
    let real = stack.keep();
    stack.stand_for(TOP, real);
    stack.world().read_only.borrow_mut().push(ReadOnly { address, real, shown_metatable });
    debug_assert_eq!(stack.kind(TOP), Kind::Table);
}

fn find(stack: &Stack<'_>, index: i32) -> Option<ReadOnly> {
    let address = stack.address(index);
    stack.world().read_only.borrow().iter().find(|one| one.address == address).copied()
}

/// The real table, if the table at an index is a stand-in.
pub(crate) fn real_table(stack: &Stack<'_>, index: i32) -> Option<Kept> {
    find(stack, index).map(|one| one.real)
}

/// The metatable that scripts see, if the table at an index is one that they cannot change.
pub(crate) fn shown_metatable(stack: &Stack<'_>, index: i32) -> Option<Option<Kept>> {
    find(stack, index).map(|one| one.shown_metatable)
}

fn refuse(stack: &Stack<'_>) -> Outcome {
    Err(stack.raise(READ_ONLY))
}

fn missing(stack: &Stack<'_>) -> Outcome {
    let name = stack.text(2).unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Err(stack.raise(format!("Script attempted to access nonexistent global variable '{name}'")))
}

#[cfg(test)]
mod tests {
    use crate::test_host::{error, eval};

    #[test]
    fn globals_are_neither_made_nor_missed() {
        assert_eq!(error("x = 1"), "ERR user_script:1: Attempt to modify a readonly table");
        assert_eq!(error("local function f() x = 1 end f()"), "ERR user_script:1: Attempt to modify a readonly table");
        let missing = "ERR user_script:1: Script attempted to access nonexistent global variable 'x'";
        assert_eq!(error("return x"), missing);
        for name in super::REMOVED {
            assert!(error(&format!("return {name}")).contains("nonexistent global variable"), "{name}");
        }
    }

    #[test]
    fn no_table_that_scripts_share_can_be_changed() {
        let attempts = [
            "_G.x = 1",
            "KEYS = nil",
            "redis.call = 1",
            "string.foo = 1",
            "getmetatable('').__index = 1",
            "getmetatable('').__add = 1",
            "getmetatable(_G).__index = nil",
            "rawset(_G, 'x', 1)",
            "rawset(redis, 'call', 1)",
            "table.insert(redis, 1)",
            "setmetatable(_G, nil)",
            "setmetatable(redis, {})",
            "getmetatable('').__index.x = 1",
            "cjson.encode = 1",
            "os.clock = 1",
            "math.random = nil",
            "table.insert(getmetatable(''), 1, 1)",
            "rawset(getmetatable(_G), '__index', 1)",
        ];
        for attempt in attempts {
            assert!(error(attempt).ends_with("Attempt to modify a readonly table"), "{attempt}: {}", error(attempt));
        }
    }

    #[test]
    fn a_stand_in_has_the_fields_of_its_table_and_no_others() {
        assert_eq!(
            eval("return {KEYS[1], #ARGV, _G.redis.REPL_ALL, math.abs(-3)}"),
            "*4\r\n$3\r\nkey\r\n:0\r\n:3\r\n:3\r\n"
        );
        assert_eq!(
            eval("return {redis.nosuch == nil, redis[1] == nil, string[KEYS] == nil}"),
            "*3\r\n:1\r\n:1\r\n:1\r\n"
        );
        assert_eq!(eval("return setmetatable({}, {__index = redis}).LOG_WARNING"), ":3\r\n");
        assert_eq!(eval("return coroutine.wrap(function() return redis.call('INCR', 'x') end)()"), ":1\r\n");
    }

    #[test]
    fn patterns_are_bounded() {
        let too_complex = "ERR user_script:1: pattern too complex";
        for call in ["find('x', p)", "match('x', p)", "gmatch('x', p)", "gfind('x', p)", "gsub('x', p, '')"] {
            assert_eq!(error(&format!("local p = string.rep('a*', 1e6) return string.{call}")), too_complex, "{call}");
        }
        assert_eq!(eval("return string.find(string.rep('-', 5000), string.rep('-', 2000), 1, true)"), ":1\r\n");
        assert_eq!(eval("return (string.rep('a', 100):gsub('a*', 'b'))"), "$2\r\nbb\r\n");
        let malformed = "ERR user_script:1: malformed pattern (ends with '%')";
        assert_eq!(error("return ('x'):find('%')"), malformed);
        assert_eq!(
            error("return string.gsub('x')"),
            "ERR user_script:1: bad argument #2 to 'gsub' (string expected, got no value)"
        );
    }

    #[test]
    fn strings_have_their_methods() {
        assert_eq!(eval("return ('x'):rep(3)"), "$3\r\nxxx\r\n");
        assert_eq!(
            eval("return {type(getmetatable('').__index), type(getmetatable(_G)), type(getmetatable(redis))}"),
            "*3\r\n$5\r\ntable\r\n$5\r\ntable\r\n$3\r\nnil\r\n"
        );
        assert_eq!(
            eval("local t = setmetatable({}, {__index = {a = 5}}) return {t.a, getmetatable(t).__index.a}"),
            "*2\r\n:5\r\n:5\r\n"
        );
    }
}
