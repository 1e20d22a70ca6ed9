//! One command, built argument by argument.

use crate::args::ToRedisArgs;
use crate::connection::ConnectionLike;
use crate::encode::{Encoder, args_of};
use crate::error::RedisResult;
use crate::from_value::FromRedisValue;

/// A command with its arguments, already in the form that goes over the wire: one allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Cmd {
    encoder: Encoder,
    class: Class,
    idempotent: bool,
}

/// How a command may travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Class {
    /// On a shared connection, among others.
    #[default]
    Plain,
    /// XREAD and XREADGROUP, which block with an argument of that name.
    MayBlock,
    /// CLIENT, whose REPLY would break the count of replies.
    MaySilence,
    /// On a leased connection, since it may block.
    Blocking,
    /// On a leased connection held by the caller, since it changes the connection's state.
    Stateful,
    /// Not at all by hand.
    Refused,
}

impl Class {
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Class {
        let among = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        match name.len() {
            4 if among(&["EXEC"]) => Class::Stateful,
            5 if among(&["BLPOP", "BRPOP"]) => Class::Blocking,
            5 if among(&["WATCH", "MULTI", "HELLO", "RESET"]) => Class::Stateful,
            5 if among(&["XREAD"]) => Class::MayBlock,
            6 if among(&["BLMOVE", "BLMPOP", "BZMPOP"]) => Class::Blocking,
            6 if among(&["SELECT"]) => Class::Stateful,
            6 if among(&["CLIENT"]) => Class::MaySilence,
            7 if among(&["UNWATCH", "DISCARD"]) => Class::Stateful,
            7 if among(&["MONITOR"]) => Class::Refused,
            8 if among(&["BZPOPMIN", "BZPOPMAX"]) => Class::Blocking,
            9 if among(&["SUBSCRIBE"]) => Class::Refused,
            10 if among(&["BRPOPLPUSH"]) => Class::Blocking,
            10 if among(&["XREADGROUP"]) => Class::MayBlock,
            10 if among(&["PSUBSCRIBE", "SSUBSCRIBE"]) => Class::Refused,
            11 if among(&["UNSUBSCRIBE"]) => Class::Refused,
            12 if among(&["PUNSUBSCRIBE", "SUNSUBSCRIBE"]) => Class::Refused,
            _ => Class::Plain,
        }
    }

    /// Settles the classes that depend on arguments.
    pub(crate) fn settled<'a>(self, mut args: impl Iterator<Item = &'a [u8]>) -> Class {
        match self {
            Class::MayBlock if args.any(|arg| arg.eq_ignore_ascii_case(b"BLOCK")) => Class::Blocking,
            Class::MaySilence if args.nth(1).is_some_and(|arg| arg.eq_ignore_ascii_case(b"REPLY")) => Class::Refused,
            Class::MayBlock | Class::MaySilence => Class::Plain,
            other => other,
        }
    }
}

/// Begins a command: `cmd("SET").arg("key").arg(42)`.
pub fn cmd(name: &str) -> Cmd {
    let mut cmd = Cmd::with_capacity(name.len() + 64);
    cmd.encoder.arg(name.as_bytes());
    cmd.class = Class::of(name.as_bytes());
    cmd
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
        Cmd { encoder, class: Class::Plain, idempotent: false }
    }

    /// Adds an argument, or as many as the value gives.
    #[inline]
    pub fn arg<T: ToRedisArgs>(&mut self, arg: T) -> &mut Cmd {
        let first = self.encoder.argc() == 0;
        arg.write_redis_args(&mut self.encoder);
        if first && let Some(name) = args_of(self.encoder.bytes()).next() {
            self.class = Class::of(name);
        }
        self
    }

    /// Marks the command as harmless to execute twice: after a disconnect that leaves its fate unknown it is sent again.
    pub fn idempotent(&mut self) -> &mut Cmd {
        self.idempotent = true;
        self
    }

    /// Whether it is marked as harmless to execute twice.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
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

    pub(crate) fn encoded(&self) -> &[u8] {
        self.encoder.bytes()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.encoder.argc() == 0
    }

    #[inline]
    pub(crate) fn class(&self) -> Class {
        match self.class {
            Class::MayBlock | Class::MaySilence => self.class.settled(self.args_iter()),
            settled => settled,
        }
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
    fn what_blocks_is_known_by_its_name_or_its_arguments() {
        assert_eq!(cmd("blpop").class(), Class::Blocking);
        assert_eq!(cmd("XREAD").arg("COUNT").arg(1).class(), Class::Plain);
        assert_eq!(cmd("XREAD").arg("block").arg(0).class(), Class::Blocking);
        assert_eq!(cmd("CLIENT").arg("REPLY").arg("OFF").class(), Class::Refused);
        assert_eq!(cmd("CLIENT").arg("SETNAME").arg("reply").class(), Class::Plain);
        assert_eq!(Cmd::new().arg("WATCH").class(), Class::Stateful);
    }
}
