//! Which commands may go over which connection.
//!
//! Replies have no names: the nth reply belongs to the nth command. After a command with no reply, or more than one,
//! every later reply of the connection would go to the wrong task. So commands enter a connection in one place,
//! [`Shared::push`](crate::connection::queue::Shared::push), as a [`Packed`] with its number of replies; and the gate there checks
//! the [`Class`] of each.

use crate::error::{ErrorKind, RedisError, RedisResult};
use crate::values::encode::args_of;

/// How a command may travel. The class of several commands is the union of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Class(u8);

impl Class {
    /// One reply, soon, and the connection's state does not change.
    pub(crate) const PLAIN: Class = Class(0);
    /// It may take any time: other tasks' commands must not wait behind it.
    pub(crate) const BLOCKS: Class = Class(1);
    /// Only on a lease that the caller holds.
    const HELD: Class = Class(1 << 1);
    /// It leaves state on the connection until EXEC, DISCARD or UNWATCH.
    pub(crate) const WATCHES: Class = Class(1 << 2 | Class::HELD.0);
    /// It changes the connection's login, database or mode for good.
    pub(crate) const CHANGES: Class = Class(1 << 3 | Class::HELD.0);
    /// Its replies cannot be paired with commands.
    pub(crate) const UNPAIRED: Class = Class(1 << 4);
    /// A command without a name, which no server answers.
    pub(crate) const EMPTY: Class = Class(1 << 5);
    /// The arguments decide, or the command began without a name.
    pub(crate) const UNKNOWN: Class = Class(1 << 6);
    /// It changes something that affects no other command, such as the connection's name.
    pub(crate) const MARKS: Class = Class(1 << 7);

    /// The class of a command by its name.
    #[inline(always)]
    pub(crate) fn of(name: &[u8]) -> Class {
        // All short names are plain, the most frequent ones among them.
        if name.len() < 4 { Class::PLAIN } else { Class::of_long(name) }
    }

    fn of_long(name: &[u8]) -> Class {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let first = name.first().map_or(0, u8::to_ascii_lowercase);
        match (name.len(), first) {
            (4, b'a') if is("AUTH") => Class::CHANGES,
            (4, b'e') if is("EXEC") => Class::WATCHES,
            // Servers take these two for HTTP and hang up.
            (4, b'p') if is("POST") => Class::UNPAIRED,
            (5, b'h') if is("HOST:") => Class::UNPAIRED,
            (4, b'q') if is("QUIT") => Class::CHANGES,
            (4, b's') if is("SYNC") => Class::UNPAIRED,
            // It waits for what was written on this very connection.
            (4, b'w') if is("WAIT") => Class::BLOCKS.and(Class::HELD),
            (5, b'b') if is("BLPOP") || is("BRPOP") => Class::BLOCKS,
            (5, b'h') if is("HELLO") => Class::CHANGES,
            (5, b'm') if is("MULTI") => Class::WATCHES,
            (5, b'p') if is("PSYNC") => Class::UNPAIRED,
            (5, b'r') if is("RESET") => Class::CHANGES,
            (5, b'w') if is("WATCH") => Class::WATCHES,
            (5, b'x') if is("XREAD") => Class::UNKNOWN,
            (6, b'a') if is("ASKING") => Class::CHANGES,
            (6, b'b') if is("BLMOVE") || is("BLMPOP") || is("BZMPOP") => Class::BLOCKS,
            (6, b'c') if is("CLIENT") => Class::UNKNOWN,
            (6, b's') if is("SELECT") => Class::CHANGES,
            (6, b's') if is("SCRIPT") => Class::UNKNOWN,
            (7, b'c') if is("CLUSTER") => Class::UNKNOWN,
            (7, b'd') if is("DISCARD") => Class::WATCHES,
            (7, b'm') if is("MONITOR") => Class::UNPAIRED,
            (7, b'u') if is("UNWATCH") => Class::WATCHES,
            (7, b'w') if is("WAITAOF") => Class::BLOCKS.and(Class::HELD),
            (8, b'b') if is("BZPOPMIN") || is("BZPOPMAX") => Class::BLOCKS,
            (8, b'r') if is("READONLY") => Class::CHANGES,
            (8, b'r') if is("REPLCONF") => Class::UNPAIRED,
            (9, b'r') if is("READWRITE") => Class::CHANGES,
            (9, b's') if is("SUBSCRIBE") => Class::UNPAIRED,
            (10, b'b') if is("BRPOPLPUSH") => Class::BLOCKS,
            (10, b'p') if is("PSUBSCRIBE") => Class::UNPAIRED,
            (10, b's') if is("SSUBSCRIBE") => Class::UNPAIRED,
            (10, b'x') if is("XREADGROUP") => Class::UNKNOWN,
            (11, b'u') if is("UNSUBSCRIBE") => Class::UNPAIRED,
            (12, b'p') if is("PUNSUBSCRIBE") => Class::UNPAIRED,
            (12, b's') if is("SUNSUBSCRIBE") => Class::UNPAIRED,
            _ => Class::PLAIN,
        }
    }

    /// The class of an encoded command, by its name and arguments. Linear in the count of arguments for XREAD and
    /// XREADGROUP.
    pub(crate) fn of_command(encoded: &[u8]) -> Class {
        let mut args = args_of(encoded);
        let Some(name) = args.next() else { return Class::EMPTY };
        let class = Class::of(name);
        if class != Class::UNKNOWN {
            return class;
        }
        if name.len() != 6 && name.len() != 7 {
            return if args.any(|arg| arg.eq_ignore_ascii_case(b"BLOCK")) { Class::BLOCKS } else { Class::PLAIN };
        }
        Class::of_subcommand(name, args.next().unwrap_or_default())
    }

    /// The class of a command that has subcommands.
    fn of_subcommand(name: &[u8], subcommand: &[u8]) -> Class {
        let among = |names: &[&str]| names.iter().any(|name| subcommand.eq_ignore_ascii_case(name.as_bytes()));
        match name.first().map_or(0, u8::to_ascii_lowercase) {
            // A script in the debugger can reply any number of times.
            b's' if among(&["DEBUG"]) => Class::UNPAIRED,
            b's' => Class::PLAIN,
            _ if among(&["REPLY", "SYNCSLOTS"]) => Class::UNPAIRED,
            _ if among(&["TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH", "CAPA", "IMPORT-SOURCE"]) => Class::CHANGES,
            _ if among(&["SETNAME", "SETINFO"]) => Class::MARKS,
            _ => Class::PLAIN,
        }
    }

    /// The class of two commands that go together.
    #[inline]
    pub(crate) const fn and(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }

    fn has(self, other: Class) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn is_unknown(self) -> bool {
        self.has(Class::UNKNOWN)
    }

    /// Whether the reply may take any time.
    pub(crate) fn blocks(self) -> bool {
        self.has(Class::BLOCKS)
    }

    /// Whether it needs a connection of its own and the library may provide that: it blocks and leaves no trace.
    pub(crate) fn wants_lease(self) -> bool {
        self == Class::BLOCKS
    }

    /// Whether it blocks, or depends on or changes the connection.
    pub(crate) fn is_own_business(self) -> bool {
        self.blocks() || self.has(Class::HELD)
    }

    /// Whether it changes the connection's state until UNWATCH and the like.
    pub(crate) fn watches(self) -> bool {
        self.has(Class::WATCHES)
    }

    /// Whether it changes the connection's state for good.
    pub(crate) fn changes(self) -> bool {
        self.has(Class::CHANGES) || self.has(Class::MARKS)
    }

    /// The gate: whether commands of this class may go over a connection.
    ///
    /// # Errors
    /// [`ErrorKind::Client`] with advice what to do instead.
    #[cold]
    pub(crate) fn admit(self, leased: bool) -> RedisResult<()> {
        let wrong = |text| Err(RedisError::new(ErrorKind::Client, text));
        match () {
            () if self.has(Class::EMPTY) => wrong("a command without a name"),
            () if self.has(Class::UNPAIRED) || self.is_unknown() => wrong(
                "that command would break the pairing of commands and replies; there is Client::get_async_pubsub, and \
                 Connection::subscribe",
            ),
            () if !leased && self.has(Class::HELD) => wrong(
                "that command depends on or changes the state of a connection that others share; use Pipeline::atomic, \
                 Connection::transaction or Connection::lease, and the URL for login and database",
            ),
            () if !leased && self.blocks() => {
                wrong("that command blocks, which would hold up everybody else's; use Connection::lease")
            }
            () => Ok(()),
        }
    }
}

/// Encoded commands with what the gate needs to know about them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub bytes: &'a [u8],
    /// How many commands there are, and so how many replies they bring.
    pub count: usize,
    /// The union of their classes.
    pub class: Class,
}

impl<'a> Packed<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], count: usize, class: Class) -> Packed<'a> {
        Packed { bytes, count, class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::encode::command;

    fn class(line: &str) -> Class {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut bytes = Vec::new();
        command(&args, &mut bytes);
        Class::of_command(&bytes)
    }

    #[test]
    fn what_brings_not_one_reply_goes_nowhere() {
        let names = "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE MONITOR SYNC PSYNC REPLCONF \
                     POST Host:";
        for name in names.split(' ') {
            for name in [name.to_owned(), name.to_lowercase()] {
                assert!(class(&name).admit(false).is_err() && class(&name).admit(true).is_err(), "{name}");
            }
        }
        for line in
            ["CLIENT REPLY OFF", "client reply skip", "CLIENT reply on", "script DEBUG yes", "CLUSTER syncslots"]
        {
            assert_eq!(class(line), Class::UNPAIRED, "{line}");
        }
        assert_eq!(Class::of_command(b"*0\r\n"), Class::EMPTY);
        assert!(Class::EMPTY.admit(true).is_err());
    }

    #[test]
    fn what_changes_a_connection_needs_one_of_its_own() {
        let lines = "AUTH,HELLO 3,SELECT 1,RESET,QUIT,READONLY,READWRITE,ASKING,client tracking on,CLIENT CACHING yes,\
                     client no-evict on,CLIENT NO-TOUCH on,CLIENT capa redirect,CLIENT IMPORT-SOURCE on,MULTI,exec,Discard,WATCH k,UNWATCH,WAIT 1 0,waitaof 1 0 0";
        for line in lines.split(',') {
            assert!(class(line).admit(false).is_err(), "{line}");
            assert!(class(line).admit(true).is_ok() && !class(line).wants_lease(), "{line}");
        }
    }

    #[test]
    fn what_blocks_is_known_by_its_name_or_its_arguments() {
        let names = "blpop BRPOP BLMOVE BLMPOP BZMPOP BZPOPMIN BZPOPMAX BRPOPLPUSH";
        for name in names.split(' ') {
            assert!(class(name).wants_lease() && class(name).admit(false).is_err(), "{name}");
        }
        assert_eq!(class("XREAD COUNT 1"), Class::PLAIN);
        assert_eq!(class("XREAD block 0"), Class::BLOCKS);
        assert_eq!(class("xreadgroup GROUP g c Block 0"), Class::BLOCKS);
        assert_eq!(class("SCRIPT LOAD debug"), Class::PLAIN);
        assert_eq!(class("CLUSTER INFO"), Class::PLAIN);
        assert!(!class("SELECT 1").and(class("BLPOP")).wants_lease());
    }

    #[test]
    fn a_name_may_be_given_anywhere_and_marks_a_lease() {
        for line in ["CLIENT SETNAME reply", "client setinfo LIB-NAME me"] {
            let class = class(line);
            assert!(class.admit(false).is_ok() && !class.is_own_business() && class.changes(), "{line}");
        }
    }
}
