//! Many commands sent at once.

use crate::commands::script::{Script, ScriptInvocation};
use crate::connection::ConnectionLike;
use crate::connection::gate::{Class, Packed};
use crate::error::RedisResult;
use crate::values::args::ToRedisArgs;
use crate::values::cmd::{Caching, Cmd};
use crate::values::encode::Encoder;
use crate::values::from_value::FromRedisValue;
use crate::values::value::Value;

/// Commands that are sent together, and whose replies come back together.
///
/// They are encoded into one buffer as they are added: no allocation per command. A pipeline is sent in one piece, so
/// no other task's commands on the same connection come between its own. Commands of other connections may, unless it
/// is [`atomic`](Pipeline::atomic).
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    encoder: Encoder,
    marks: Vec<Mark>,
    atomic: bool,
    /// Whether any command is marked as harmless to execute twice.
    pub(crate) some_idempotent: bool,
    class: Class,
    pub(crate) scripts: Vec<Script>,
}

/// One result for each command; none for a transaction that a WATCH has stopped.
pub(crate) type PipelineResult = RedisResult<Option<Vec<RedisResult<Value>>>>;

/// Where a command starts, and flags in the highest bits.
#[derive(Clone, Copy, Debug)]
struct Mark(u64);

const IGNORED: u64 = 1 << 63;
const IDEMPOTENT: u64 = 1 << 62;
const UNCACHED: u64 = 1 << 61;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl Mark {
    fn start(self) -> usize {
        (self.0 & !(IGNORED | IDEMPOTENT | UNCACHED)) as usize
    }
}

/// An empty pipeline: `pipe().cmd("SET").arg("k").arg(1).ignore().cmd("GET").arg("k")`.
pub fn pipe() -> Pipeline {
    Pipeline::new()
}

impl Pipeline {
    /// An empty pipeline.
    pub fn new() -> Pipeline {
        Pipeline::default()
    }

    /// An empty pipeline with room for that many commands of some 40 bytes.
    pub fn with_capacity(commands: usize) -> Pipeline {
        Pipeline {
            encoder: Encoder::with_capacity(commands.saturating_mul(40)),
            marks: Vec::with_capacity(commands),
            ..Pipeline::default()
        }
    }

    /// Begins the next command.
    #[inline]
    pub fn cmd(&mut self, name: &str) -> &mut Pipeline {
        self.marks.push(Mark(self.encoder.len() as u64));
        self.encoder.begin_named(name.as_bytes());
        self.class = self.class.and(Class::of(name.as_bytes()));
        self
    }

    /// Adds an argument, or as many as the value gives, to the last command. Without a command, it becomes the name of
    /// one.
    #[inline]
    pub fn arg<T: ToRedisArgs>(&mut self, arg: T) -> &mut Pipeline {
        if self.marks.is_empty() {
            self.begin();
            self.class = Class::UNKNOWN;
        }
        arg.write_redis_args(&mut self.encoder);
        self
    }

    /// Adds a command built elsewhere.
    pub fn add_command(&mut self, cmd: &Cmd) -> &mut Pipeline {
        let idempotent = if cmd.is_idempotent() { IDEMPOTENT } else { 0 };
        self.some_idempotent |= cmd.is_idempotent();
        let uncached = if cmd.caching == Caching::Never { UNCACHED } else { 0 };
        self.marks.push(Mark(self.encoder.len() as u64 | idempotent | uncached));
        self.encoder.append_last(&cmd.encoder);
        // A command without a name may still get one from `arg`.
        self.class = self.class.and(if cmd.class == Class::EMPTY { Class::UNKNOWN } else { cmd.class });
        self
    }

    /// Adds a command that was encoded before.
    pub(crate) fn add_encoded(&mut self, encoded: &[u8], idempotent: bool) {
        self.marks.push(Mark(self.encoder.len() as u64 | if idempotent { IDEMPOTENT } else { 0 }));
        self.some_idempotent |= idempotent;
        self.encoder.append(encoded);
        self.class = self.class.and(Class::of_command(encoded));
    }

    /// Adds a call of a script; the pipeline loads the script first on a connection that has not done so.
    pub fn invoke_script(&mut self, invocation: &ScriptInvocation<'_>) -> &mut Pipeline {
        self.add_command(&invocation.command());
        if !self.scripts.contains(invocation.script) {
            self.scripts.push(invocation.script.clone());
        }
        self
    }

    /// Leaves the last command's reply out of the results. An error still makes
    /// [`query_async`](Self::query_async) fail.
    #[inline]
    pub fn ignore(&mut self) -> &mut Pipeline {
        if let Some(mark) = self.marks.last_mut() {
            mark.0 |= IGNORED;
        }
        self
    }

    /// Marks the last command as harmless to execute twice: it is sent again after a disconnect that leaves its fate
    /// unknown.
    pub fn idempotent(&mut self) -> &mut Pipeline {
        if let Some(mark) = self.marks.last_mut() {
            mark.0 |= IDEMPOTENT;
            self.some_idempotent = true;
        }
        self
    }

    /// Wraps the pipeline in MULTI and EXEC: all commands are executed without another connection's between them.
    pub fn atomic(&mut self) -> &mut Pipeline {
        self.atomic = true;
        self
    }

    /// Whether it is a transaction.
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// How many commands it holds.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether it holds no command.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Removes all commands and keeps the memory.
    pub fn clear(&mut self) {
        self.encoder.clear();
        self.marks.clear();
        self.scripts.clear();
        self.some_idempotent = false;
        self.class = Class::PLAIN;
    }

    /// Sends the pipeline. Returns all replies except ignored ones as one value, usually a tuple or list, or the first
    /// error.
    ///
    /// The commands after a failed one are still executed, unless the pipeline is atomic and the error came while
    /// queueing. A transaction that a WATCH has stopped gives `Nil`: request an `Option`.
    ///
    /// # Errors
    /// The first error among all commands, ignored ones included.
    pub async fn query_async<T: FromRedisValue>(&self, con: &impl ConnectionLike) -> RedisResult<T> {
        if self.is_empty() {
            return T::from_redis_value(Value::Array(Vec::new()));
        }
        let Some(results) = con.send_pipeline(self).await? else { return T::from_redis_value(Value::Nil) };
        let mut values = Vec::with_capacity(results.len());
        for (result, mark) in results.into_iter().zip(&self.marks) {
            let value = result?;
            if mark.0 & IGNORED == 0 {
                values.push(value);
            }
        }
        T::from_redis_value(Value::Array(values))
    }

    /// Sends the pipeline. Returns a result for each command that is not ignored, so one failure does not hide the
    /// others.
    ///
    /// # Errors
    /// As a whole, only for wrong use and for a transaction that a WATCH has stopped. Errors of the connection are in
    /// the results of the commands, each with its [`fate`](crate::RedisError::fate).
    pub async fn query_each<T: FromRedisValue>(&self, con: &impl ConnectionLike) -> RedisResult<Vec<RedisResult<T>>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let results = con.send_pipeline(self).await?.ok_or_else(|| Value::Nil.mismatch("list: a WATCH stopped it"))?;
        let kept = results.into_iter().zip(&self.marks).filter(|(_, mark)| mark.0 & IGNORED == 0);
        Ok(kept.map(|(result, _)| result.and_then(T::from_redis_value)).collect())
    }

    /// Sends the pipeline and drops all replies, unless one is an error.
    ///
    /// # Errors
    /// As [`query_async`](Self::query_async).
    pub async fn exec_async(&self, con: &impl ConnectionLike) -> RedisResult<()> {
        if self.is_empty() {
            return Ok(());
        }
        match con.send_pipeline(self).await? {
            Some(results) => results.into_iter().try_for_each(|result| result.map(Value::discard)),
            None => Ok(()),
        }
    }

    /// The bytes that go over the wire, without MULTI and EXEC.
    pub fn get_packed_pipeline(&self) -> Vec<u8> {
        self.encoder.bytes().to_vec()
    }

    /// So many commands that were encoded elsewhere; `None` if the bytes are anything else.
    #[cfg(any(test, feature = "redis-compat"))]
    pub(crate) fn foreign(bytes: Vec<u8>, count: usize) -> Option<Pipeline> {
        let (encoder, starts) = Encoder::foreign(bytes)?;
        let marks: Vec<Mark> = starts.into_iter().map(|start| Mark(start as u64)).collect();
        // All of their arguments are looked at.
        (marks.len() == count).then(|| Pipeline { encoder, marks, class: Class::UNKNOWN, ..Pipeline::default() })
    }

    /// The same for a transaction: the commands between MULTI and EXEC.
    #[cfg(any(test, feature = "redis-compat"))]
    pub(crate) fn foreign_transaction(bytes: &[u8], count: usize) -> Option<Pipeline> {
        let inner = bytes.strip_prefix(MULTI)?.strip_suffix(EXEC)?;
        Some(Pipeline { atomic: true, ..Pipeline::foreign(inner.to_vec(), count)? })
    }

    /// The bytes of it as a transaction.
    pub(crate) fn framed(&self) -> Vec<u8> {
        [MULTI, self.encoder.bytes(), EXEC].concat()
    }

    /// Whether all commands are marked as harmless to execute twice.
    pub(crate) fn is_all_idempotent(&self) -> bool {
        (0..self.len()).all(|index| self.is_idempotent(index))
    }

    pub(crate) fn bytes_len(&self) -> usize {
        self.encoder.len()
    }

    /// The class of all commands. Linear in the length of the pipeline when the names alone do not tell.
    pub(crate) fn class(&self) -> Class {
        if !self.class.is_unknown() {
            return self.class;
        }
        (0..self.len()).fold(Class::PLAIN, |class, index| class.and(Class::of_command(self.command(index))))
    }

    pub(crate) fn packed(&self) -> Packed<'_> {
        Packed::new(self.encoder.bytes(), self.len(), self.class())
    }

    /// Where a command starts in the encoded bytes; for the index after the last, where they end.
    pub(crate) fn start_of(&self, index: usize) -> usize {
        self.marks.get(index).map_or(self.encoder.len(), |mark| mark.start())
    }

    /// The bytes of one command.
    pub(crate) fn command(&self, index: usize) -> &[u8] {
        &self.encoder.bytes()[self.start_of(index)..self.start_of(index + 1)]
    }

    pub(crate) fn is_idempotent(&self, index: usize) -> bool {
        self.marks[index].0 & IDEMPOTENT != 0
    }

    /// Whether the server must answer a command, whatever is cached.
    pub(crate) fn is_uncached(&self, index: usize) -> bool {
        self.marks[index].0 & UNCACHED != 0
    }

    #[inline]
    fn begin(&mut self) {
        self.marks.push(Mark(self.encoder.len() as u64));
        self.encoder.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::cmd::cmd;

    #[test]
    fn commands_are_encoded_one_after_the_other() {
        let mut pipeline = pipe();
        pipeline.cmd("SET").arg("a").arg(1).ignore().cmd("GET").arg("a");
        pipeline.add_command(cmd("PING").idempotent());
        let want = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(pipeline.get_packed_pipeline(), want.as_bytes());
        assert_eq!(pipeline.len(), 3);
        assert_eq!(pipeline.command(1), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
        assert!(pipeline.is_idempotent(2) && !pipeline.is_idempotent(1));
    }

    #[test]
    fn all_commands_together_decide_how_the_pipeline_travels() {
        assert_eq!(pipe().cmd("SET").arg("a").cmd("BLPOP").arg("b").class(), Class::BLOCKS);
        assert_eq!(pipe().cmd("CLIENT").arg("ID").cmd("XREAD").arg("BLOCK").class(), Class::BLOCKS);
        assert_eq!(pipe().cmd("CLIENT").arg("ID").class(), Class::PLAIN);
        let silent = pipe().cmd("BLPOP").arg("k").cmd("client").arg("reply").arg("off").class();
        assert_eq!(silent, Class::BLOCKS.and(Class::UNPAIRED));
    }

    #[test]
    fn foreign_bytes_are_counted_and_classed() {
        let (get, quit) = (b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".as_slice(), b"*1\r\n$4\r\nquit\r\n".as_slice());
        let class = |bytes: &[u8], count| Pipeline::foreign(bytes.to_vec(), count).map(|pipeline| pipeline.class());
        assert_eq!(class(&get.repeat(3), 3), Some(Class::PLAIN));
        assert_eq!(class(&get.repeat(3), 4), None);
        assert_eq!(class(&[get, b"*0\r\n", get, quit].concat(), 4), Some(Class::EMPTY.and(Class::CHANGES)));
        for bytes in [b"GET k\r\n".as_slice(), &get[..10], b"*1\r\n$-1\r\n"] {
            assert!(class(bytes, 1).is_none() && Cmd::foreign(bytes.to_vec()).is_none());
        }
        assert_eq!(Cmd::foreign(get.to_vec()).unwrap(), *cmd("GET").arg("k"));
        assert!(Cmd::foreign(get.repeat(2)).is_none() && Cmd::foreign(Vec::new()).is_none());
        let (multi, exec) = (b"*1\r\n$5\r\nMULTI\r\n".as_slice(), b"*1\r\n$4\r\nEXEC\r\n".as_slice());
        let whole = [multi, get, get, exec].concat();
        let framed = Pipeline::foreign_transaction(&whole, 2).unwrap();
        assert_eq!(
            (framed.is_atomic(), framed.class(), framed.get_packed_pipeline()),
            (true, Class::PLAIN, get.repeat(2))
        );
        assert!(class(&whole, 4).unwrap().watches());
        assert!(Pipeline::foreign_transaction(get, 1).is_none() && Pipeline::foreign_transaction(&whole, 3).is_none());
    }

    #[test]
    fn a_name_given_as_an_argument_is_known_all_the_same() {
        assert_eq!(pipe().arg("subscribe").arg("c").class(), Class::UNPAIRED);
        assert_eq!(pipe().arg("GET").arg("k").class(), Class::PLAIN);
        assert_eq!(pipe().arg(None::<i32>).cmd("GET").arg("k").class(), Class::EMPTY);
        let mut late = pipe();
        late.cmd("GET").arg("k").add_command(&Cmd::new());
        assert_eq!(late.class(), Class::EMPTY);
        late.arg("SET").arg(("k", 1));
        assert_eq!(late.class(), Class::PLAIN);
        assert_eq!(late.command(1), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n");
    }
}
