//! Lua scripts that load themselves.

use std::fmt;
use std::sync::Arc;

use crate::connection::ConnectionLike;
use crate::error::RedisResult;
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Cmd, cmd};
use crate::values::from_value::FromRedisValue;
use crate::values::pipeline::Pipeline;

/// A Lua script with its SHA-1 digest. Cloning shares the code.
///
/// A connection loads a script once, with SCRIPT LOAD before the first EVALSHA in the same write, and again on each new
/// link after a disconnect. It remembers the last thousand scripts, with at most 1 MB of code; older ones are loaded
/// again before their next use. So NOSCRIPT occurs only if a client flushes the server's scripts meanwhile.
#[derive(Clone)]
pub struct Script(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub code: String,
    pub digest: [u8; 20],
    hex: String,
}

impl PartialEq for Script {
    fn eq(&self, other: &Script) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for Script {}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.0.hex).finish()
    }
}

impl Script {
    /// A script from its code. O(length), for the digest.
    pub fn new(code: &str) -> Script {
        let digest = sha1_smol::Sha1::from(code).digest();
        Script(Arc::new(Loaded { code: code.to_owned(), digest: digest.bytes(), hex: digest.to_string() }))
    }

    /// The digest in hexadecimal, as EVALSHA takes it.
    pub fn get_hash(&self) -> &str {
        &self.0.hex
    }

    /// A call without keys and arguments yet.
    pub fn prepare_invoke(&self) -> ScriptInvocation<'_> {
        ScriptInvocation { script: self, keys: Vec::new(), args: Vec::new() }
    }

    /// A call with a key (or several).
    pub fn key<T: ToRedisArgs>(&self, key: T) -> ScriptInvocation<'_> {
        let mut invocation = self.prepare_invoke();
        invocation.key(key);
        invocation
    }

    /// A call with an argument (or several).
    pub fn arg<T: ToRedisArgs>(&self, arg: T) -> ScriptInvocation<'_> {
        let mut invocation = self.prepare_invoke();
        invocation.arg(arg);
        invocation
    }

    /// Calls the script without keys and arguments.
    ///
    /// # Errors
    /// As [`ScriptInvocation::invoke_async`].
    pub async fn invoke_async<T: FromRedisValue>(&self, con: &impl ConnectionLike) -> RedisResult<T> {
        self.prepare_invoke().invoke_async(con).await
    }
}

/// A call of a script, built key by key and argument by argument.
#[derive(Clone, Debug)]
pub struct ScriptInvocation<'a> {
    pub(crate) script: &'a Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
}

impl ScriptInvocation<'_> {
    /// Adds a key, or as many as the value gives.
    pub fn key<T: ToRedisArgs>(&mut self, key: T) -> &mut Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    /// Adds an argument, or as many as the value gives.
    pub fn arg<T: ToRedisArgs>(&mut self, arg: T) -> &mut Self {
        arg.write_redis_args(&mut self.args);
        self
    }

    /// Calls the script.
    ///
    /// # Errors
    /// The script's error, and those of [`Cmd::query_async`].
    pub async fn invoke_async<T: FromRedisValue>(&self, con: &impl ConnectionLike) -> RedisResult<T> {
        let mut pipeline = Pipeline::new();
        pipeline.invoke_script(self);
        let mut outcome = pipeline.query_async::<(T,)>(con).await;
        if outcome.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT")) {
            // A client has flushed the scripts; by now the connection has noted that.
            outcome = pipeline.query_async(con).await;
        }
        outcome.map(|(value,)| value)
    }

    pub(crate) fn command(&self) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(self.script.get_hash()).arg(self.keys.len()).arg(&self.keys).arg(&self.args);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_the_digest_and_counts_the_keys() {
        let script = Script::new("return 1");
        assert_eq!(script.get_hash(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let mut call = script.key("k");
        call.arg(5).arg("x");
        let command = call.command();
        let args: Vec<&[u8]> = command.args_iter().collect();
        assert_eq!(args, [b"EVALSHA", script.get_hash().as_bytes(), b"1", b"k", b"5", b"x"]);
    }
}
