//! One command, built argument by argument.

use std::time::Duration;

use crate::connection::ConnectionLike;
use crate::connection::gate::{Class, Packed};
use crate::error::RedisResult;
use crate::values::args::ToRedisArgs;
use crate::values::encode::{Encoder, args_of};
use crate::values::from_value::FromRedisValue;

/// Whether a connection with a cache may answer a command from it.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) enum Caching {
    /// As the cache's mode says.
    #[default]
    Default,
    Never,
    /// Yes, with a reply of at most this age.
    For(Duration),
}

/// A command with its arguments, already in the form that goes over the wire: one allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmd {
    pub(crate) encoder: Encoder,
    /// By the name alone: [`Class::UNKNOWN`] when the arguments decide.
    pub(crate) class: Class,
    pub(crate) terms: Terms,
    pub(crate) timeout: Option<Duration>,
    pub(crate) caching: Caching,
}

/// Whether, and how often, a command may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct Terms {
    /// Also if it may have been executed.
    pub idempotent: bool,
    /// As often as the connection's options say, if `None`.
    pub retries_max: Option<u32>,
}

impl Terms {
    /// Those of reads, which may be repeated.
    pub(crate) const REPEATABLE: Terms = Terms { idempotent: true, retries_max: None };
}

/// Begins a command: `cmd("SET").arg("key").arg(42)`.
pub fn cmd(name: &str) -> Cmd {
    let mut encoder = Encoder::with_capacity(name.len() + 64);
    encoder.begin_named(name.as_bytes());
    Cmd { class: Class::of(name.as_bytes()), ..Cmd::over(encoder) }
}

impl AsRef<Cmd> for Cmd {
    fn as_ref(&self) -> &Cmd {
        self
    }
}

impl Default for Cmd {
    fn default() -> Cmd {
        Cmd::new()
    }
}

impl Cmd {
    /// A command without a name yet; the first argument is its name.
    pub fn new() -> Cmd {
        Cmd::with_capacity(64)
    }

    /// A command without a name yet, with room for that many bytes.
    pub fn with_capacity(bytes: usize) -> Cmd {
        let mut encoder = Encoder::with_capacity(bytes);
        encoder.begin();
        Cmd::over(encoder)
    }

    fn over(encoder: Encoder) -> Cmd {
        Cmd { encoder, class: Class::EMPTY, terms: Terms::default(), timeout: None, caching: Caching::Default }
    }

    /// Adds an argument, or as many as the value gives.
    #[inline]
    pub fn arg<T: ToRedisArgs>(&mut self, arg: T) -> &mut Cmd {
        let first = self.encoder.argc() == 0;
        arg.write_redis_args(&mut self.encoder);
        if first {
            if let Some(name) = args_of(self.encoder.bytes()).next() {
                self.class = Class::of(name);
            }
        }
        self
    }

    /// Marks the command as harmless to execute twice: it is sent again after a disconnect that leaves its fate
    /// unknown.
    pub fn idempotent(&mut self) -> &mut Cmd {
        self.terms.idempotent = true;
        self
    }

    /// Whether it is marked as harmless to execute twice.
    pub fn is_idempotent(&self) -> bool {
        self.terms.idempotent
    }

    /// How long the command may take, all its attempts and waits included. As by
    /// [`Connection::with_timeout`](crate::Connection::with_timeout), it is not taken back when the time is over. In
    /// pipelines and streams this changes nothing.
    pub fn timeout(&mut self, timeout: Duration) -> &mut Cmd {
        self.timeout = Some(timeout);
        self
    }

    /// How often the command is sent again, if it may be, in place of
    /// [`ConnectionConfig::set_retries_max`](crate::ConnectionConfig::set_retries_max); 0 for never. In pipelines and
    /// streams this changes nothing.
    pub fn retries_max(&mut self, retries: u32) -> &mut Cmd {
        self.terms.retries_max = Some(retries);
        self
    }

    /// Lets a connection with a cache answer from it, with a reply of at most this age, whoever has read it first. Only
    /// reads of one key and MGET are cached; without a cache, and in pipelines, this changes nothing.
    pub fn cached(&mut self, ttl_max: Duration) -> &mut Cmd {
        self.caching = Caching::For(ttl_max);
        self
    }

    /// Makes the server answer the command, whatever is cached.
    pub fn uncached(&mut self) -> &mut Cmd {
        self.caching = Caching::Never;
        self
    }

    /// The arguments so far, the name first. Linear in the length of the command.
    pub fn args_iter(&self) -> impl Iterator<Item = &[u8]> {
        args_of(self.encoder.bytes())
    }

    /// The bytes that go over the wire.
    pub fn get_packed_command(&self) -> Vec<u8> {
        self.encoder.bytes().to_vec()
    }

    /// Sends the command and converts the reply.
    ///
    /// # Errors
    /// The server's error reply; an error of the connection, whose [`fate`](crate::RedisError::fate) says whether the
    /// command was sent; a reply that does not fit the type.
    #[inline]
    pub async fn query_async<T: FromRedisValue>(&self, con: &impl ConnectionLike) -> RedisResult<T> {
        T::from_redis_value(con.send_command(self).await?)
    }

    /// Sends the command and drops the reply, unless it is an error.
    ///
    /// # Errors
    /// As [`query_async`](Self::query_async).
    pub async fn exec_async(&self, con: &impl ConnectionLike) -> RedisResult<()> {
        con.send_command(self).await.map(drop)
    }

    /// A command that was encoded elsewhere; `None` if the bytes are anything else.
    #[cfg(any(test, feature = "redis-compat"))]
    pub(crate) fn foreign(bytes: Vec<u8>) -> Option<Cmd> {
        let (encoder, starts) = Encoder::foreign(bytes)?;
        let class = Class::of_command(encoder.bytes());
        (starts.len() == 1).then(|| Cmd { class, ..Cmd::over(encoder) })
    }

    #[inline]
    pub(crate) fn packed(&self) -> Packed<'_> {
        let class = if self.class.is_unknown() { Class::of_command(self.encoder.bytes()) } else { self.class };
        Packed::new(self.encoder.bytes(), 1, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_encoded_as_it_is_built() {
        let mut built = cmd("SET");
        built.arg("key").arg(42);
        assert_eq!(built.get_packed_command(), b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n42\r\n");
        let mut same = Cmd::new();
        same.arg(("SET", "key", 42));
        assert_eq!(same, built);
    }

    #[test]
    fn the_class_is_that_of_the_first_argument() {
        assert_eq!(cmd("SET").packed().class, Class::PLAIN);
        assert_eq!(Cmd::new().arg(("subscribe", "c")).packed().class, Class::UNPAIRED);
        assert_eq!(Cmd::new().arg(None::<i32>).arg("WATCH").packed().class, Class::WATCHES);
        assert_eq!(Cmd::new().arg(None::<i32>).packed().class, Class::EMPTY);
        assert_eq!(cmd("CLIENT").arg("REPLY").arg("OFF").packed().class, Class::UNPAIRED);
    }
}
