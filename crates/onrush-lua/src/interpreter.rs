//! Compiling and running scripts and functions.

use std::collections::HashMap;
use std::ffi::CStr;

use foldhash::fast::FixedState;
use onrush_resp::Reply;

use crate::functions::{self, Registered};
use crate::host::Host;
use crate::lists::{KeptLists, Lists, push_list};
use crate::sandbox::{self, Globals};
use crate::sha::{Sha1Hex, ShaHasher};
use crate::stack::{Kept, Kind, Raised, SLOTS, Stack, State, TOP};
use crate::to_resp::{is_known, take_reply, until_nul};
use crate::world::World;

/// What an interpreter may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all scripts together, in bytes. A script that needs more gets an error.
    pub memory_max_bytes: usize,
    /// Most scripts that stay compiled. Beyond that all are dropped, and compiled again when they are needed.
    pub scripts_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_max_bytes: 512 << 20, scripts_max: 1_000 }
    }
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It returned; its reply has been appended.
    Finished,
    /// It raised an error.
    Failed {
        /// The message with its code, the script and the place.
        message: Vec<u8>,
        /// Whether a command has answered this error before.
        is_known: bool,
    },
    /// The host ended it.
    Aborted {
        /// The reason that the host gave.
        reason: Vec<u8>,
        /// The message, as in [`Ended::Failed`].
        message: Vec<u8>,
    },
}

/// Garbage is collected when a script ends and memory in use has grown by more than this, in bytes.
const COLLECT_BYTES_MIN: usize = 8 << 20;

const SCRIPT: &CStr = c"@user_script";
const FUNCTION: &CStr = c"@user_function";

struct Library {
    id: u64,
    functions: Vec<(Registered, Kept)>,
}

/// A script that an interpreter has compiled, until it forgets its scripts.
#[derive(Clone, Copy, Debug)]
pub struct Compiled {
    kept: Kept,
    /// How often the interpreter had forgotten its scripts before.
    epoch: u64,
}

/// A Lua state with all code that was compiled in it. It belongs to one thread.
pub struct Interpreter {
    limits: Limits,
    live: Option<Live>,
    /// How often scripts were forgotten.
    epoch: u64,
}

/// A state in use.
struct Live {
    state: State,
    globals: Globals,
    scripts: HashMap<Sha1Hex, Kept, ShaHasher>,
    /// By name.
    libraries: HashMap<Vec<u8>, Library, FixedState>,
    /// KEYS and ARGV.
    lists: KeptLists,
    /// Memory of an empty state.
    base_bytes: usize,
}

impl Interpreter {
    /// An interpreter that has compiled nothing. It uses no memory before the first script.
    pub fn new(limits: Limits) -> Self {
        Self { limits, live: None, epoch: 0 }
    }

    /// Memory in use, in bytes.
    pub fn used_bytes(&mut self) -> usize {
        self.live.as_mut().map_or(0, |live| live.state.stack().heap().used_bytes())
    }

    /// Drops all compiled code and frees its memory.
    pub fn clear(&mut self) {
        self.live = None;
        self.epoch += 1;
    }

    /// Whether a script that was compiled here is not forgotten yet.
    #[inline]
    pub fn has(&self, script: Compiled) -> bool {
        script.epoch == self.epoch
    }

    /// Compiles a script unless it is compiled. `code` is its text without the shebang, but with the end of the
    /// shebang's line.
    ///
    /// # Errors
    /// The text is not Lua: the message, without an error code.
    pub fn compile(&mut self, sha: &Sha1Hex, code: &[u8]) -> Result<Compiled, Vec<u8>> {
        if let Some(kept) = self.live.as_ref().and_then(|live| live.scripts.get(sha)) {
            return Ok(Compiled { kept: *kept, epoch: self.epoch });
        }
        if self.live.as_ref().is_some_and(|live| live.scripts.len() >= self.limits.scripts_max) {
            self.forget_scripts();
        }
        let live = self.live()?;
        let stack = live.state.stack();
        let compiled = stack.compile(code, SCRIPT).map_err(|Raised| take_message(&stack));
        if stack.heap().take_over() {
            self.clear();
            return Err(b"not enough memory".to_vec());
        }
        compiled?;
        let kept = stack.keep();
        live.scripts.insert(*sha, kept);
        Ok(Compiled { kept, epoch: self.epoch })
    }

    /// Drops all compiled scripts, but not the libraries.
    pub fn forget_scripts(&mut self) {
        let Some(live) = &mut self.live else { return };
        self.epoch += 1;
        let stack = live.state.stack();
        live.scripts.drain().for_each(|(_, kept)| stack.release(kept));
        stack.collect();
    }

    /// Runs a compiled script. Keys and arguments become the globals KEYS and ARGV.
    ///
    /// # Panics
    /// The script is forgotten ([`Interpreter::has`]); or the host panicked: its panic goes on here.
    #[inline]
    pub fn run<'a>(
        &mut self,
        (script, lists): (Compiled, Lists),
        sha: &Sha1Hex,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Ended {
        let live = match &mut self.live {
            Some(live) if script.epoch == self.epoch => live,
            _ => panic!("the script is forgotten"),
        };
        let (real, handler) = (live.globals.real, live.globals.handler);
        let kept = &mut live.lists;
        let ended = live.state.with_host(host, |stack| {
            stack.push_kept(handler);
            kept.show(stack, real, lists, keys, args);
            stack.push_kept(script.kept);
            finish(stack, 0, sha, out)
        });
        self.clean();
        ended
    }

    /// The identifier of the library that is loaded under a name.
    pub fn library(&self, name: &[u8]) -> Option<u64> {
        self.live.as_ref()?.libraries.get(name).map(|library| library.id)
    }

    /// Runs the code of a library and keeps the functions that it registers; they replace a library of this name.
    /// `code` is its text without the shebang, but with the end of the shebang's line; `id` distinguishes it from
    /// others of this name.
    ///
    /// # Errors
    /// The text is not Lua, or its code failed: the message, as FUNCTION LOAD shows it.
    pub fn load_library(
        &mut self,
        name: &[u8],
        id: u64,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<Vec<Registered>, Vec<u8>> {
        let live = self.live()?;
        let (library, handler) = (live.globals.library, live.globals.handler);
        let loaded = live.state.with_host(host, |stack| {
            stack.push_kept(handler);
            if let Err(Raised) = stack.compile(code, FUNCTION) {
                return Err([b"Error compiling function: ", take_message(stack).as_slice()].concat());
            }
            stack.push_kept(library.shown);
            stack.set_globals_of(-2);
            library.show(stack, false);
            let loaded = functions::load(stack, 1);
            library.show(stack, true);
            loaded.map_err(|Raised| [b"Error registering functions: ", describe(stack).as_slice()].concat())
        });
        let stack = live.state.stack();
        stack.set_top(0);
        stack.world().reset();
        stack.take_aborted();
        let panic = stack.take_panic();
        let over = stack.heap().was_over();
        let result = match loaded {
            Ok(loading) if loading.functions.is_empty() => Err(b"No functions registered".to_vec()),
            Ok(loading) => {
                let registered = loading.functions.iter().map(|(registered, _)| registered.clone()).collect();
                self.forget_library(name);
                let library = Library { id, functions: loading.functions };
                if let Some(live) = &mut self.live {
                    live.libraries.insert(name.to_vec(), library);
                }
                Ok(registered)
            }
            Err(problem) => Err(problem),
        };
        if over {
            self.clear();
        }
        if let Some(panic) = panic {
            self.clear();
            std::panic::resume_unwind(panic);
        }
        result
    }

    /// Drops a library.
    pub fn forget_library(&mut self, name: &[u8]) {
        let Some(live) = &mut self.live else { return };
        let stack = live.state.stack();
        for (_, kept) in live.libraries.remove(name).into_iter().flat_map(|library| library.functions) {
            stack.release(kept);
        }
    }

    /// Drops the libraries for which `is_wanted` returns false. It gets the name and the identifier.
    pub fn retain_libraries(&mut self, is_wanted: impl Fn(&[u8], u64) -> bool) {
        let libraries = self.live.iter().flat_map(|live| &live.libraries);
        let unwanted = libraries.filter(|(name, library)| !is_wanted(name, library.id));
        let names: Vec<_> = unwanted.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.forget_library(name));
    }

    /// Calls a function of a loaded library with the keys and the arguments as two lists.
    ///
    /// # Panics
    /// The library is not loaded or has no such function; or the host panicked: its panic goes on here.
    pub fn call_function<'a>(
        &mut self,
        library: &[u8],
        function: &[u8],
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
        args: impl ExactSizeIterator<Item = &'a [u8]>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Ended {
        let Some(live) = &mut self.live else { panic!("the library is not loaded") };
        let functions = &live.libraries[library].functions;
        let found = functions.iter().find(|(registered, _)| registered.name.eq_ignore_ascii_case(function));
        let Some((registered, kept)) = found else { panic!("the library has no such function") };
        let handler = live.globals.handler;
        let ended = live.state.with_host(host, |stack| {
            stack.push_kept(handler);
            stack.push_kept(*kept);
            push_list(stack, keys);
            push_list(stack, args);
            finish(stack, 2, &registered.name, out)
        });
        self.clean();
        ended
    }

    /// The state; makes one if there is none.
    fn live(&mut self) -> Result<&mut Live, Vec<u8>> {
        if self.live.is_none() {
            // The sandbox is built without a limit: a limit too low for it would leave a useless state.
            let mut state = State::new(World::default(), usize::MAX).ok_or(b"not enough memory")?;
            let stack = state.stack();
            let globals = sandbox::build(&stack);
            stack.heap().set_max_bytes(self.limits.memory_max_bytes);
            let base_bytes = stack.heap().used_bytes();
            let (scripts, libraries) = (HashMap::default(), HashMap::default());
            let lists = KeptLists::default();
            self.live = Some(Live { state, globals, scripts, libraries, lists, base_bytes });
        }
        Ok(self.live.as_mut().expect("it was made above"))
    }

    /// Cleans up the state after a script, or drops it.
    #[inline]
    fn clean(&mut self) {
        let Some(live) = &mut self.live else { return };
        let stack = live.state.stack();
        stack.set_top(0);
        stack.world().reset();
        if let Some(panic) = stack.take_panic() {
            self.clear();
            std::panic::resume_unwind(panic);
        }
        if stack.heap().was_over() {
            self.clear();
        } else if stack.heap().used_bytes() > live.base_bytes + COLLECT_BYTES_MIN {
            stack.collect();
            // What is left is compiled code: however much it is, it is no reason to collect again and again.
            live.base_bytes = live.base_bytes.max(stack.heap().used_bytes());
        }
    }
}

/// Calls the function below `args` arguments with the handler at the bottom of the stack, and appends its reply.
#[inline]
fn finish(stack: &Stack<'_>, args: i32, name: &[u8], out: &mut Reply) -> Ended {
    if stack.call_for(args, 1, Some(1)).is_ok() && take_reply(stack, out).is_ok() {
        return Ended::Finished;
    }
    let reason = stack.take_aborted();
    let is_known = stack.kind(TOP) == Kind::Table && is_known(stack, TOP);
    let message = describe_with_place(stack, name);
    match reason {
        Some(reason) => Ended::Aborted { reason, message },
        None => Ended::Failed { message, is_known },
    }
}

/// Takes the message on top.
fn take_message(stack: &Stack<'_>) -> Vec<u8> {
    let message = stack.text(TOP).unwrap_or_default().to_vec();
    stack.set_top(0);
    message
}

/// The error on top as a message with a code.
fn describe(stack: &Stack<'_>) -> Vec<u8> {
    match stack.kind(TOP) {
        Kind::Table => match stack.get_field(TOP, "err") {
            Kind::String | Kind::Number => until_nul(stack.text(TOP).unwrap_or_default()).to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        Kind::String | Kind::Number => [b"ERR ", until_nul(stack.text(TOP).unwrap_or_default())].concat(),
        _ => b"ERR unknown error".to_vec(),
    }
}

/// As [`describe`], plus the script and the place.
#[cold]
fn describe_with_place(stack: &Stack<'_>, name: &[u8]) -> Vec<u8> {
    debug_assert!(stack.has_space(SLOTS));
    let error = stack.top();
    let mut message = describe(stack);
    message.extend_from_slice(b" script: ");
    message.extend_from_slice(name);
    if stack.kind(error) == Kind::Table && stack.get_field(error, "source") == Kind::String {
        message.extend_from_slice(b", on ");
        message.extend_from_slice(stack.bytes(TOP).unwrap_or_default());
        message.push(b':');
        let line = if stack.get_field(error, "line") == Kind::Number { stack.number(TOP) } else { None };
        message.extend_from_slice(format!("{}", line.unwrap_or_default() as i64).as_bytes());
    }
    message.push(b'.');
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sha::sha1_hex;
    use crate::test_host::{KILLED, Run, TestHost, eval};
    use onrush_resp::Proto;

    #[test]
    fn a_script_calls_commands_and_returns_their_replies() {
        let mut run = Run::new();
        assert_eq!(run.eval("return redis.call('INCR', KEYS[1])"), ":1\r\n");
        assert_eq!(run.eval("return redis.call('INCR', KEYS[1])"), ":2\r\n");
        assert_eq!(run.eval("return redis.call('bytes', 1, 1.5, 'a')"), "$10\r\nbytes11.5a\r\n");
        assert_eq!(run.eval("return #redis.call('large')"), ":100000\r\n");
        assert_eq!(run.eval("return {redis.call('ping'), redis.call('null')}"), "*2\r\n+PONG\r\n$-1\r\n");
        let error = "-ERR fail script: e34b2b6e0a5ad1a9b1b8b0a3fa0c1d1a2f5d3f8c, on @user_script:1.\r\n";
        let reply = run.eval("return redis.call('none')");
        assert!(
            reply.starts_with("-ERR fail script: ")
                && reply.ends_with(", on @user_script:1.\r\n")
                && reply.len() == error.len(),
            "{reply}"
        );
        assert_eq!(run.eval("return redis.pcall('none')"), "-ERR fail\r\n");
        assert_eq!(run.eval("return redis.pcall('none').ignore_error_stats_update"), ":1\r\n");
        assert_eq!(
            run.eval("return redis.pcall({})"),
            "-ERR Lua redis lib command arguments must be strings or integers\r\n"
        );
    }

    #[test]
    fn the_host_learns_which_errors_commands_have_answered() {
        let mut run = Run::new();
        run.eval("local e = redis.pcall('none') return {e, {err = 'MY own'}, {err = e.err}, redis.pcall()}");
        let returned: Vec<_> = run.host.returned.iter().map(|(text, is_known)| (text.as_str(), *is_known)).collect();
        let no_arguments = "ERR Please specify at least one argument for this redis lib call";
        assert_eq!(returned, [("ERR fail", true), ("MY own", false), ("ERR fail", false), (no_arguments, false)]);
        for (code, known) in [
            ("redis.call('none')", true),
            ("error(redis.pcall('none'))", true),
            ("error(redis.pcall('none').err)", false),
            ("redis.call()", false),
            ("error('x')", false),
        ] {
            run.eval(code);
            assert!(matches!(run.ended, Some(Ended::Failed { is_known, .. }) if is_known == known), "{code}");
        }
    }

    #[test]
    fn a_list_with_a_field_that_names_a_type_is_of_that_type() {
        let mut run = Run::new();
        assert_eq!(run.eval("return {1, 2, ok = 'fine'}"), "+fine\r\n");
        assert_eq!(run.eval("local t = {1, 2} t.err = 'ERR bad' return t"), "-ERR bad\r\n");
        assert_eq!(
            run.eval("local t = {1, 2} t.ok = 'x' t.ok = nil return {t, {ok = 1}, {}}"),
            "*3\r\n*2\r\n:1\r\n:2\r\n*0\r\n*0\r\n"
        );
        assert_eq!(run.eval("local t = {} t[1] = 5 return {t, {[1] = 6}}"), "*2\r\n*1\r\n:5\r\n*1\r\n:6\r\n");
    }

    #[test]
    fn errors_say_the_script_and_the_line() {
        let code = "\n\nerror('boom')";
        let sha = String::from_utf8(sha1_hex(code.as_bytes()).to_vec()).unwrap();
        assert_eq!(eval(code), format!("-ERR user_script:3: boom script: {sha}, on @user_script:3.\r\n"));
        assert!(eval("error({err = 'MY boom'})").starts_with("-MY boom script: "));
        assert!(eval("error({a = 1})").starts_with("-ERR unknown error script: "));
        assert!(eval("error()").starts_with("-ERR nil script: "));
        assert_eq!(eval("return a b"), "-user_script:1: '<eof>' expected near 'b'\r\n");
        let code = "#!lua\nerror('x')".strip_prefix("#!lua").unwrap();
        assert!(eval(code).ends_with("on @user_script:2.\r\n"));
    }

    #[test]
    fn tables_become_replies_of_both_protocols() {
        let cases = [
            (
                "{1, 2.9, 'x', false, nil, 3}",
                "*4\r\n:1\r\n:2\r\n$1\r\nx\r\n$-1\r\n",
                "*4\r\n:1\r\n:2\r\n$1\r\nx\r\n_\r\n",
            ),
            ("{ok = 'fine\\n'}", "+fine \r\n", "+fine \r\n"),
            ("{err = 'E a\\nb\\r\\n'}", "-E a b\r\n", "-E a b\r\n"),
            ("{err = 'E a\\0b'}", "-E a\r\n", "-E a\r\n"),
            ("{map = {a = {1}}}", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "%1\r\n$1\r\na\r\n*1\r\n:1\r\n"),
            ("{set = {a = true}}", "*1\r\n$1\r\na\r\n", "~1\r\n$1\r\na\r\n"),
            ("{double = 1.5}", "$3\r\n1.5\r\n", ",1.5\r\n"),
            ("{big_number = '12\\n3'}", "$4\r\n12 3\r\n", "(12 3\r\n"),
            ("{verbatim_string = {format = 'mark', string = 'hi'}}", "$2\r\nhi\r\n", "=6\r\nmar:hi\r\n"),
            ("{verbatim_string = {string = 'hi'}}", "*0\r\n", "*0\r\n"),
            ("{double = '3'}", "*0\r\n", "*0\r\n"),
            ("true", ":1\r\n", ":1\r\n"),
            ("function() end", "$-1\r\n", "_\r\n"),
        ];
        for (code, resp2, resp3) in cases {
            let mut run = Run::new();
            assert_eq!(run.eval(&format!("return {code}")), resp2, "{code}");
            run.proto = Proto::Resp3;
            assert_eq!(run.eval(&format!("return {code}")), resp3, "{code}");
        }
    }

    #[test]
    fn replies_of_resp3_become_tables() {
        let mut run = Run::new();
        assert_eq!(run.eval("redis.setresp(3) return tostring(redis.call('map').map.a.double)"), "$3\r\n1.5\r\n");
        assert_eq!(run.eval("return redis.call('map')[2]"), "$3\r\n1.5\r\n");
        assert_eq!(run.eval("redis.setresp(3) return tostring(redis.call('null'))"), "$3\r\nnil\r\n");
        run.proto = Proto::Resp3;
        assert_eq!(run.eval("redis.setresp(3) return redis.call('map')"), "%1\r\n$1\r\na\r\n,1.5\r\n");
        assert_eq!(run.eval("redis.setresp(3) return {true, false}"), "*2\r\n#t\r\n#f\r\n");
        assert_eq!(run.eval("redis.setresp(3) return redis.call('raw', '~1\\r\\n#t\\r\\n').set[true]"), "#t\r\n");
        assert_eq!(
            run.eval("redis.setresp(3) return redis.call('raw', '=5\\r\\ntxt:a\\r\\n').verbatim_string.string"),
            "$1\r\na\r\n"
        );
    }

    /// Loops that catch every error they can.
    const STUBBORN: [&str; 6] = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do pcall(error) end end)) end",
        "local function f() pcall(f) f() end while true do pcall(f) end",
        "while true do redis.pcall('none') pcall(redis.call, 'none') load(function() while true do end end) end",
    ];

    #[test]
    fn no_script_outlives_its_end() {
        for code in STUBBORN {
            let mut run = Run::new();
            run.host.patience = Some(3);
            assert!(run.eval(code).starts_with(&format!("-{KILLED} script: ")), "{code}");
            assert!(
                matches!(run.ended, Some(Ended::Aborted { ref reason, .. }) if reason == KILLED.as_bytes()),
                "{code}"
            );
            run.host.patience = None;
            assert_eq!(run.eval("return 1"), ":1\r\n", "{code}");
        }
    }

    #[test]
    fn a_command_can_end_its_script() {
        let mut run = Run::new();
        let reply = run.eval("while true do pcall(redis.call, 'abort') redis.pcall('abort') end");
        assert!(reply.starts_with("-ERR aborted by a command"), "{reply}");
        assert!(matches!(run.ended, Some(Ended::Aborted { ref reason, .. }) if reason == b"ERR aborted by a command"));
    }

    #[test]
    fn a_panic_of_a_command_goes_through_the_script() {
        let mut run = Run::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run.eval("while true do pcall(redis.call, 'panic') end")
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a command panicked"));
        assert_eq!(run.eval("return 1"), ":1\r\n");
    }

    #[test]
    fn memory_has_a_limit_that_ends_the_script_only() {
        let greedy = [
            "local t = {} for i = 1, 1e9 do t[i] = {} end",
            "local s = 'x' while true do s = s .. s end",
            "return #string.rep('x', 1e9)",
            "local s = string.rep('x', 2e6) local t = {} while true do t[#t + 1] = cjson.encode({s, #t}) end",
            "local s = '[' .. string.rep('[],', 1e6) .. '1]' return #cjson.decode(s)",
            "return cmsgpack.unpack('\\221\\0\\15\\66\\64' .. string.rep('\\144', 1e6))",
            "local t = {} for i = 1, 1e9 do t[i] = redis.call('large') .. i end",
        ];
        for code in greedy {
            let mut run = Run::with_memory(8 << 20);
            let reply = run.eval(code);
            assert!(reply.starts_with("-ERR") && reply.contains("not enough memory"), "{code}: {reply}");
            assert_eq!(run.eval("return 1"), ":1\r\n", "{code}");
            assert!(run.interpreter.used_bytes() < 1 << 20);
        }
        assert_eq!(
            Run::with_memory(64 << 20).eval("for i = 1, 100 do local s = string.rep('x', 1e6) .. i end return 1"),
            ":1\r\n"
        );
    }

    #[test]
    fn memory_of_a_large_script_is_given_back() {
        let mut run = Run::new();
        run.eval("local t = {} for i = 1, 1e6 do t[i] = {} end");
        assert!(run.interpreter.used_bytes() < 1 << 20, "{}", run.interpreter.used_bytes());
    }

    #[test]
    fn nesting_has_a_limit_that_ends_the_script_only() {
        let deep = [
            "local t = {} t[1] = t return t",
            "local t = {} t.map = t return t",
            "local t = {} t[1] = t return cjson.encode(t)",
            "cjson.encode_max_depth(1e9) local t = {} t[1] = t return cjson.encode(t)",
            "cjson.decode_max_depth(1e9) return cjson.decode(string.rep('[', 1e6))",
            "return cmsgpack.unpack(string.rep('\\145', 1e6))",
            "local function f() return 1 + f() end return f()",
            "local function f() return pcall(f) end return f()",
            "local s = string.rep('(', 1e5) return loadstring('return ' .. s)()",
        ];
        for code in deep {
            let mut run = Run::new();
            run.eval(code);
            assert_eq!(run.eval("return 1"), ":1\r\n", "{code}");
        }
    }

    #[test]
    fn nothing_of_a_script_is_left_for_another() {
        let mut run = Run::new();
        run.eval(
            "collectgarbage('stop') math.randomseed(1) redis.setresp(3) KEYS[1] = 'other' table.insert(KEYS, 'x')",
        );
        run.proto = Proto::Resp3;
        assert_eq!(run.eval("return {#KEYS, KEYS[1], true}"), "*3\r\n:1\r\n$3\r\nkey\r\n:1\r\n");
    }

    #[test]
    fn functions_are_registered_and_called() {
        let mut run = Run::new();
        let code = b"\nlocal n = 0\nredis.register_function('f', function(keys, args) n = n + 1 return {n, keys[1], args[1]} end)\n\
                     redis.register_function{function_name = 'g', callback = function() return redis.call('incr') end, \
                     flags = {'no-writes'}, description = 'd'}";
        let registered = run.interpreter.load_library(b"l", 7, code, &mut run.host).unwrap();
        let names: Vec<_> = registered.iter().map(|one| one.name.as_slice()).collect();
        assert_eq!(names, [b"f", b"g"]);
        assert_eq!(registered[1].flags.names().collect::<Vec<_>>(), ["no-writes"]);
        assert_eq!((run.interpreter.library(b"l"), run.interpreter.library(b"m")), (Some(7), None));
        let mut call = |name: &[u8]| {
            let mut out = Reply::new();
            let (keys, args) = ([&b"k"[..]].into_iter(), [&b"a"[..]].into_iter());
            run.interpreter.call_function(b"l", name, keys, args, &mut run.host, &mut out);
            {
                let mut slices = [std::io::IoSlice::new(&[]); 2];
                let count = out.slices(&mut slices);
                String::from_utf8(slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()).unwrap()
            }
        };
        assert_eq!(call(b"f"), "*3\r\n:1\r\n$1\r\nk\r\n$1\r\na\r\n");
        assert_eq!(call(b"F"), "*3\r\n:2\r\n$1\r\nk\r\n$1\r\na\r\n");
        assert_eq!(call(b"g"), ":1\r\n");
    }

    #[test]
    fn a_library_that_cannot_be_loaded_says_why() {
        let cases = [
            ("x = 1", "Error registering functions: ERR user_function:1: Attempt to modify a readonly table"),
            ("a b", "Error compiling function: user_function:1: '=' expected near 'b'"),
            ("return 1", "No functions registered"),
            (
                "redis.call('x')",
                "Error registering functions: ERR user_function:1: Script attempted to access nonexistent global variable 'call'",
            ),
            (
                "error('x')",
                "Error registering functions: ERR user_function:1: Script attempted to access nonexistent global variable 'error'",
            ),
            (
                "redis.register_function()",
                "Error registering functions: ERR wrong number of arguments to redis.register_function",
            ),
            (
                "redis.register_function('f', function() end) redis.register_function('f', function() end)",
                "Error registering functions: ERR Function already exists in the library",
            ),
            ("while true do end", "Error registering functions: ERR killed"),
        ];
        for (code, problem) in cases {
            let mut interpreter = Interpreter::new(Limits::default());
            let mut host = TestHost { patience: Some(1), ..TestHost::default() };
            let problem_told = interpreter.load_library(b"l", 1, code.as_bytes(), &mut host).unwrap_err();
            assert_eq!(String::from_utf8(problem_told).unwrap(), problem, "{code}");
        }
    }

    #[test]
    fn the_rest_of_redis_is_there() {
        let mut run = Run::new();
        assert_eq!(run.eval("return redis.sha1hex('abc')"), "$40\r\na9993e364706816aba3e25717850c26c9cd0d89d\r\n");
        assert_eq!(
            run.eval("return {redis.error_reply('x').err, redis.error_reply('-X y').err, redis.error_reply().err}"),
            "*3\r\n$5\r\nERR x\r\n$3\r\nX y\r\n$37\r\nERR wrong number or type of arguments\r\n"
        );
        run.eval("redis.log(redis.LOG_WARNING, 'a', 5, 'b') redis.set_repl(redis.REPL_NONE)");
        assert_eq!(run.host.logged, [(crate::LogLevel::Warning, b"a 5 b".to_vec())]);
        assert_eq!(run.host.replication, [0]);
        assert_eq!(
            run.eval("return {redis.acl_check_cmd('allowed'), redis.acl_check_cmd('denied')}"),
            "*2\r\n:1\r\n$-1\r\n"
        );
        assert_eq!(
            run.eval("return os.clock() >= 0 and redis.breakpoint() == false and redis.replicate_commands()"),
            ":1\r\n"
        );
    }
}
