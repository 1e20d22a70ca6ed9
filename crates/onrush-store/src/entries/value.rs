//! Values: as they are stored, as they are read in place, and as they are taken out.

use std::sync::Arc;

use crate::{Collection, CollectionRef, CollectionType, Encoding, Type};

/// The longest string that is kept inside its entry, in bytes. A longer one has an allocation of its own.
pub const EMBED_VALUE_LEN_MAX: usize = 512;

/// The longest string that is reported as `embstr`, in bytes.
pub(crate) const EMBSTR_LEN_MAX: usize = 44;

/// A value to be stored.
#[derive(Debug)]
#[non_exhaustive]
pub enum NewValue<'a> {
    /// An integer string.
    Int(i64),
    /// A string, copied in. The caller has checked whether it spells an integer.
    Bytes(&'a [u8]),
    /// A string, copied in, that is reported as `raw` whatever its length.
    Raw(&'a [u8]),
    /// A string whose buffer is taken over if it is too long to be embedded; otherwise it is copied.
    Shared(Arc<Vec<u8>>),
    /// A collection.
    Collection(Collection),
    /// A value that was taken out of an entry before.
    Owned(Value),
}

/// A value on its own, outside any entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer string.
    Int(i64),
    /// A string that was embedded in its entry.
    Bytes(Vec<u8>),
    /// The same, reported as `raw` whatever its length.
    Raw(Vec<u8>),
    /// A long string. Cloning shares it.
    Shared(Arc<Vec<u8>>),
    /// A collection. Cloning copies it.
    Collection(Collection),
}

/// A value read in place, under its shard's lock.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// An integer string.
    Int(i64),
    /// A string embedded in its entry.
    Bytes(&'a [u8]),
    /// A long string; clone the `Arc` to keep it past the lock.
    Shared(&'a Arc<Vec<u8>>),
    /// A collection.
    Collection(CollectionRef<'a>),
}

impl Value {
    /// The value's type.
    pub fn ty(&self) -> Type {
        match self {
            Value::Int(_) | Value::Bytes(_) | Value::Raw(_) | Value::Shared(_) => Type::String,
            Value::Collection(collection) => collection.ty(),
        }
    }

    /// Reads the value. O(1).
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Int(n) => ValueRef::Int(*n),
            Value::Bytes(bytes) | Value::Raw(bytes) => ValueRef::Bytes(bytes),
            Value::Shared(bytes) => ValueRef::Shared(bytes),
            Value::Collection(collection) => ValueRef::Collection(collection.as_ref()),
        }
    }

    /// How many allocations dropping the value gives back: this decides whether a lazy free pays.
    pub fn free_effort(&self) -> usize {
        match self {
            Value::Int(_) => 0,
            Value::Bytes(_) | Value::Raw(_) | Value::Shared(_) => 1,
            Value::Collection(collection) => collection.as_ref().free_effort(),
        }
    }
}

impl<'a> ValueRef<'a> {
    /// Bytes that a change in place copies first: all of a string that others have, too, such as a reply or a snapshot. O(1).
    #[inline]
    pub fn copied_bytes(self) -> usize {
        match self {
            ValueRef::Shared(bytes) if Arc::strong_count(bytes) > 1 => bytes.len(),
            _ => 0,
        }
    }

    /// The bytes of a string that is not an integer; `None` for an integer or a collection.
    #[inline]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            ValueRef::Int(_) | ValueRef::Collection(_) => None,
            ValueRef::Bytes(bytes) => Some(bytes),
            ValueRef::Shared(bytes) => Some(bytes),
        }
    }

    /// The bytes of a string; an integer is spelled out into `buffer`. O(1) otherwise. A collection has none.
    #[inline]
    pub fn to_bytes(self, buffer: &'a mut itoa::Buffer) -> &'a [u8] {
        match self {
            ValueRef::Int(n) => buffer.format(n).as_bytes(),
            ValueRef::Bytes(bytes) => bytes,
            ValueRef::Shared(bytes) => bytes,
            ValueRef::Collection(_) => &[],
        }
    }

    /// Length of a string in bytes, an integer's as it is spelled; of a collection the number of its elements.
    pub fn len(self) -> usize {
        match self {
            ValueRef::Int(n) => itoa::Buffer::new().format(n).len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            ValueRef::Shared(bytes) => bytes.len(),
            ValueRef::Collection(collection) => collection.len(),
        }
    }

    /// Whether a string has no bytes, or a collection no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The encoding of a string that is not an integer.
pub(crate) fn string_encoding(len: usize, raw: bool) -> Encoding {
    if raw || len > EMBSTR_LEN_MAX { Encoding::Raw } else { Encoding::Embstr }
}

/// What [`NewValue`] becomes before it is written: short strings borrowed, long ones in their own buffer.
pub(crate) enum Payload<'a> {
    Int(i64),
    Embedded { bytes: &'a [u8], raw: bool },
    Shared(Arc<Vec<u8>>),
    Collection(Collection),
}

impl Payload<'_> {
    #[inline]
    pub(crate) fn ty(&self) -> Type {
        match self {
            Payload::Collection(collection) => collection.ty(),
            _ => Type::String,
        }
    }
}

impl<T: CollectionType> From<T> for NewValue<'_> {
    fn from(collection: T) -> Self {
        NewValue::Collection(collection.into_collection())
    }
}

/// Calls `write` with the value in its stored form.
#[inline]
pub(crate) fn with_payload<R>(value: NewValue<'_>, write: impl FnOnce(Payload<'_>) -> R) -> R {
    let (bytes, raw) = match value {
        NewValue::Int(n) | NewValue::Owned(Value::Int(n)) => return write(Payload::Int(n)),
        NewValue::Collection(collection) | NewValue::Owned(Value::Collection(collection)) => {
            return write(Payload::Collection(collection));
        }
        NewValue::Bytes(bytes) => return write(copied(bytes, false)),
        NewValue::Raw(bytes) => return write(copied(bytes, true)),
        NewValue::Shared(bytes) | NewValue::Owned(Value::Shared(bytes)) => {
            if bytes.len() > EMBED_VALUE_LEN_MAX {
                return write(Payload::Shared(bytes));
            }
            return write(copied(&bytes, false));
        }
        NewValue::Owned(Value::Bytes(bytes)) => (bytes, false),
        NewValue::Owned(Value::Raw(bytes)) => (bytes, true),
    };
    if bytes.len() > EMBED_VALUE_LEN_MAX { write(Payload::Shared(Arc::new(bytes))) } else { write(copied(&bytes, raw)) }
}

#[inline]
fn copied(bytes: &[u8], raw: bool) -> Payload<'_> {
    if bytes.len() <= EMBED_VALUE_LEN_MAX {
        Payload::Embedded { bytes, raw }
    } else {
        Payload::Shared(Arc::new(bytes.to_vec()))
    }
}
