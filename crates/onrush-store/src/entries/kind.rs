//! The types a key can hold, and the encodings that OBJECT ENCODING reports.

/// The type of a value, as TYPE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// Bytes or an integer.
    String = 0,
    /// A sequence open at both ends.
    List = 1,
    /// Unordered unique members.
    Set = 2,
    /// Members ordered by score.
    SortedSet = 3,
    /// Fields with values.
    Hash = 4,
    /// An append-only log of entries with identifiers.
    Stream = 5,
}

impl Type {
    /// The name TYPE replies with.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::SortedSet => "zset",
            Type::Hash => "hash",
            Type::Stream => "stream",
        }
    }

    /// The type with the given number in an entry's header.
    #[inline]
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            0 => Type::String,
            1 => Type::List,
            2 => Type::Set,
            3 => Type::SortedSet,
            4 => Type::Hash,
            _ => Type::Stream,
        }
    }
}

/// How a value is kept, in the names that Redis's tools expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A string that is a 64-bit integer.
    Int,
    /// A short string set whole.
    Embstr,
    /// A long string, or one that was edited in place.
    Raw,
    /// A small list, hash or sorted set in one run of bytes.
    Listpack,
    /// A small hash in one run of bytes, with times to live.
    ListpackEx,
    /// A list in chunks.
    Quicklist,
    /// A small set of integers.
    Intset,
    /// A large set or hash.
    Hashtable,
    /// A large sorted set.
    Skiplist,
    /// A stream.
    Stream,
}

impl Encoding {
    /// The name OBJECT ENCODING replies with.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::ListpackEx => "listpackex",
            Encoding::Quicklist => "quicklist",
            Encoding::Intset => "intset",
            Encoding::Hashtable => "hashtable",
            Encoding::Skiplist => "skiplist",
            Encoding::Stream => "stream",
        }
    }
}
