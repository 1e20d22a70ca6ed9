//! Options of commands as types: each gives its arguments in the command's order.

use crate::builder::builder;
use crate::error::RedisResult;
use crate::values::args::{RedisWrite, ToRedisArgs};
use crate::values::from_value::{FromRedisValue, from_redis_value};
use crate::values::value::Value;

/// Implements arguments for an enum whose values are one word each.
macro_rules! words {
    ($kind:ident: $($value:ident = $word:literal),*) => {
        impl $crate::ToRedisArgs for $kind {
            fn write_redis_args<W: $crate::RedisWrite + ?Sized>(&self, out: &mut W) {
                out.write_arg(match self { $($kind::$value => $word),* });
            }
        }
    };
}

/// Implements arguments for options by a function that writes them.
macro_rules! options {
    ($kind:ident $(<$life:lifetime>)?: |$this:ident, $out:ident| $write:expr) => {
        impl $crate::ToRedisArgs for $kind $(<$life>)? {
            fn write_redis_args<W: $crate::RedisWrite + ?Sized>(&self, $out: &mut W) {
                let $this = self;
                $write
            }

            fn num_of_args(&self) -> usize {
                $crate::commands::options::count_args(self)
            }
        }
    };
}

pub(crate) use {options, words};

/// How many arguments a value writes, by writing them.
pub(crate) fn count_args(value: &impl ToRedisArgs) -> usize {
    struct Counter(usize);
    impl RedisWrite for Counter {
        fn write_arg(&mut self, _: &[u8]) {
            self.0 += 1;
        }
    }
    let mut counter = Counter(0);
    value.write_redis_args(&mut counter);
    counter.0
}

/// Writes a word and what belongs to it.
pub(crate) fn put<W: RedisWrite + ?Sized>(out: &mut W, word: &str, value: impl ToRedisArgs) {
    out.write_arg(word.as_bytes());
    value.write_redis_args(out);
}

/// Writes a word if it is wanted.
pub(crate) fn put_if<W: RedisWrite + ?Sized>(out: &mut W, wanted: bool, word: &str) {
    if wanted {
        out.write_arg(word.as_bytes());
    }
}

/// Writes a word and what belongs to it, if there is something.
pub(crate) fn put_some<W: RedisWrite + ?Sized>(out: &mut W, word: &str, value: &Option<impl ToRedisArgs>) {
    if let Some(value) = value {
        put(out, word, value);
    }
}

/// The new expiry of something that is read, for `get_ex` and `hget_ex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// In some seconds.
    EX(u64),
    /// In some milliseconds.
    PX(u64),
    /// At a Unix time in seconds.
    EXAT(u64),
    /// At a Unix time in milliseconds.
    PXAT(u64),
    /// Never.
    PERSIST,
}

options!(Expiry: |this, out| match this {
    Expiry::EX(seconds) => put(out, "EX", seconds),
    Expiry::PX(milliseconds) => put(out, "PX", milliseconds),
    Expiry::EXAT(time) => put(out, "EXAT", time),
    Expiry::PXAT(time) => put(out, "PXAT", time),
    Expiry::PERSIST => out.write_arg(b"PERSIST"),
});

/// The expiry of something that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetExpiry {
    /// In some seconds.
    EX(u64),
    /// In some milliseconds.
    PX(u64),
    /// At a Unix time in seconds.
    EXAT(u64),
    /// At a Unix time in milliseconds.
    PXAT(u64),
    /// Keeps the present expiry.
    KEEPTTL,
}

options!(SetExpiry: |this, out| match this {
    SetExpiry::EX(seconds) => put(out, "EX", seconds),
    SetExpiry::PX(milliseconds) => put(out, "PX", milliseconds),
    SetExpiry::EXAT(time) => put(out, "EXAT", time),
    SetExpiry::PXAT(time) => put(out, "PXAT", time),
    SetExpiry::KEEPTTL => out.write_arg(b"KEEPTTL"),
});

/// Whether a key must exist to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExistenceCheck {
    /// Only if it does not exist.
    NX,
    /// Only if it exists.
    XX,
}

words!(ExistenceCheck: NX = b"NX", XX = b"XX");

/// Options of SET.
///
/// ```
/// use onrush::{ExistenceCheck, SetExpiry, SetOptions};
/// let lock = SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::PX(500));
/// assert_eq!(onrush::cmd("SET").arg(("k", 1, lock)).args_iter().count(), 6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    condition: Option<ExistenceCheck>,
    get: bool,
    expiry: Option<SetExpiry>,
}

builder! {
    SetOptions, new: "No options yet.";
    /// Sets only if the key exists, or only if it does not.
    conditional_set(condition: ExistenceCheck) => condition = Some(condition);
    /// Whether to return the previous value.
    get(get: bool) => get = get;
    /// Sets the key's expiry.
    with_expiration(expiry: SetExpiry) => expiry = Some(expiry);
}

options!(SetOptions: |this, out| {
    this.condition.write_redis_args(out);
    put_if(out, this.get, "GET");
    this.expiry.write_redis_args(out);
});

/// When an expiry may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpireOption {
    /// Always.
    #[default]
    NONE,
    /// Only where there is none.
    NX,
    /// Only where there is one.
    XX,
    /// Only to a later one.
    GT,
    /// Only to an earlier one.
    LT,
}

options!(ExpireOption: |this, out| match this {
    ExpireOption::NONE => {}
    ExpireOption::NX => out.write_arg(b"NX"),
    ExpireOption::XX => out.write_arg(b"XX"),
    ExpireOption::GT => out.write_arg(b"GT"),
    ExpireOption::LT => out.write_arg(b"LT"),
});

/// The reply of TTL and similar commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerReplyOrNoOp {
    /// The time.
    IntegerReply(u64),
    /// There is no such key or field.
    NotExists,
    /// It never expires.
    ExistsButNotRelevant,
}

impl IntegerReplyOrNoOp {
    /// The time, if there is one.
    pub fn integer(self) -> Option<u64> {
        match self {
            IntegerReplyOrNoOp::IntegerReply(number) => Some(number),
            _ => None,
        }
    }
}

impl FromRedisValue for IntegerReplyOrNoOp {
    fn from_redis_value(value: Value) -> RedisResult<IntegerReplyOrNoOp> {
        Ok(match from_redis_value::<i64>(value.clone())? {
            -2 => IntegerReplyOrNoOp::NotExists,
            -1 => IntegerReplyOrNoOp::ExistsButNotRelevant,
            number => IntegerReplyOrNoOp::IntegerReply(u64::try_from(number).map_err(|_| value.mismatch("time"))?),
        })
    }
}

/// Whether fields must exist to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldExistenceCheck {
    /// Only if none of them exists.
    FNX,
    /// Only if all of them exist.
    FXX,
}

words!(FieldExistenceCheck: FNX = b"FNX", FXX = b"FXX");

/// Options of HSETEX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashFieldExpirationOptions {
    condition: Option<FieldExistenceCheck>,
    expiry: Option<SetExpiry>,
}

builder! {
    HashFieldExpirationOptions, new: "No options yet.";
    /// Sets only if the fields exist, or only if they do not.
    set_existence_check(condition: FieldExistenceCheck) => condition = Some(condition);
    /// Sets the fields' expiry.
    set_expiration(expiry: SetExpiry) => expiry = Some(expiry);
}

options!(HashFieldExpirationOptions: |this, out| {
    this.condition.write_redis_args(out);
    this.expiry.write_redis_args(out);
});

/// Options of COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    db: Option<i64>,
    replace: bool,
}

builder! {
    CopyOptions, new: "No options yet.";
    /// The database to copy to.
    db(db: i64) => db = Some(db);
    /// Whether to overwrite an existing key.
    replace(replace: bool) => replace = replace;
}

options!(CopyOptions: |this, out| {
    put_some(out, "DB", &this.db);
    put_if(out, this.replace, "REPLACE");
});

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The front.
    Left,
    /// The back.
    Right,
}

words!(Direction: Left = b"LEFT", Right = b"RIGHT");

/// Options of LPOS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LposOptions {
    rank: Option<i64>,
    count: Option<usize>,
    maxlen: Option<usize>,
}

builder! {
    LposOptions, new: "No options yet.";
    /// Which of the equal elements: 1 the first, -1 the last.
    rank(rank: i64) => rank = Some(rank);
    /// How many positions; 0 for all. The reply is a list then.
    count(count: usize) => count = Some(count);
    /// Most elements to compare.
    maxlen(maxlen: usize) => maxlen = Some(maxlen);
}

options!(LposOptions: |this, out| {
    put_some(out, "RANK", &this.rank);
    put_some(out, "COUNT", &this.count);
    put_some(out, "MAXLEN", &this.maxlen);
});

/// Whether FLUSHDB and FLUSHALL free the memory before they answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushOptions {
    /// Before the answer.
    Sync,
    /// In the background.
    Async,
}

words!(FlushOptions: Sync = b"SYNC", Async = b"ASYNC");

/// Options of SCAN and similar commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    pattern: Option<Vec<u8>>,
    count: Option<usize>,
    kind: Option<String>,
    novalues: bool,
}

builder! {
    ScanOptions, new: "Everything, in pages of the server's choice.";
    /// Only what matches a pattern.
    with_pattern(pattern: impl ToRedisArgs) => pattern = pattern.to_redis_args().into_iter().next();
    /// About how many elements the server examines for one page. More means fewer but longer round trips.
    with_count(count: usize) => count = Some(count);
    /// Only keys of a type, such as `hash`. For `scan`.
    with_type(kind: impl Into<String>) => kind = Some(kind.into());
    /// Leaves the values out. For `hscan`.
    novalues() => novalues = true;
}

options!(ScanOptions: |this, out| {
    put_some(out, "MATCH", &this.pattern);
    put_some(out, "COUNT", &this.count);
    put_some(out, "TYPE", &this.kind);
    put_if(out, this.novalues, "NOVALUES");
});

/// INFO's answer as names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoDict {
    lines: std::collections::BTreeMap<String, String>,
}

impl InfoDict {
    /// A value, if the reply has that name and the value fits the type.
    pub fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        let value = self.lines.get(name)?;
        T::from_redis_value(Value::BulkString(value.clone().into_bytes())).ok()
    }

    /// The text of a value.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.lines.get(name).map(String::as_str)
    }

    /// All names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromRedisValue for InfoDict {
    fn from_redis_value(value: Value) -> RedisResult<InfoDict> {
        let text = String::from_redis_value(value)?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        Ok(InfoDict { lines: lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() })
    }
}

#[cfg(test)]
pub(crate) fn shown(args: impl ToRedisArgs) -> String {
    let written = args.to_redis_args();
    assert_eq!(written.len(), args.num_of_args());
    written.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_give_their_arguments() {
        let lock = SetOptions::new().conditional_set(ExistenceCheck::NX).get(true).with_expiration(SetExpiry::PX(5));
        assert_eq!(shown(lock), "NX GET PX 5");
        assert_eq!(shown(SetOptions::new()), "");
        assert_eq!(shown(Expiry::PERSIST), "PERSIST");
        assert_eq!(shown((ExpireOption::NONE, ExpireOption::GT)), "GT");
        let fields = HashFieldExpirationOptions::new().set_existence_check(FieldExistenceCheck::FNX);
        assert_eq!(shown(fields.set_expiration(SetExpiry::KEEPTTL)), "FNX KEEPTTL");
        assert_eq!(shown(CopyOptions::new().db(3).replace(true)), "DB 3 REPLACE");
        assert_eq!(shown(LposOptions::new().rank(-1).count(0).maxlen(9)), "RANK -1 COUNT 0 MAXLEN 9");
        let scan = ScanOptions::new().with_pattern("a*").with_count(7).with_type("hash").novalues();
        assert_eq!(shown(scan), "MATCH a* COUNT 7 TYPE hash NOVALUES");
    }

    #[test]
    fn times_and_info_are_read() {
        let ttl = |number| from_redis_value::<IntegerReplyOrNoOp>(Value::Int(number)).unwrap();
        assert_eq!(ttl(-2), IntegerReplyOrNoOp::NotExists);
        assert_eq!((ttl(-1).integer(), ttl(7).integer()), (None, Some(7)));
        assert!(from_redis_value::<IntegerReplyOrNoOp>(Value::Int(-3)).is_err());
        let text = "# Server\r\nredis_version:7.2.0\r\n\r\n# Clients\r\nconnected_clients:3\r\n";
        let info: InfoDict = from_redis_value(Value::BulkString(text.into())).unwrap();
        assert_eq!((info.get::<u32>("connected_clients"), info.text("redis_version")), (Some(3), Some("7.2.0")));
        assert_eq!((info.get::<u32>("redis_version"), info.iter().count()), (None, 2));
    }
}
