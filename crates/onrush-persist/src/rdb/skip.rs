//! Finds the end of a value without reading its content. So one thread can cut a file into values while others decode
//! them.

use super::RdbError;
use super::cursor::{Cursor, Result};
use super::{kind, module};

/// Skips the value of type `kind` at the cursor. O(elements) for plain collections, O(1) or O(nodes) for packed ones.
pub(crate) fn skip_value(kind: u8, cursor: &mut Cursor<'_>) -> Result<()> {
    match kind {
        kind::STRING
        | kind::HASH_ZIPMAP
        | kind::LIST_ZIPLIST
        | kind::SET_INTSET
        | kind::SORTED_SET_ZIPLIST
        | kind::HASH_ZIPLIST
        | kind::HASH_LISTPACK
        | kind::SORTED_SET_LISTPACK
        | kind::SET_LISTPACK
        | kind::HASH_LISTPACK_EX_PRE_GA => cursor.skip_string(),
        kind::HASH_LISTPACK_EX => {
            cursor.millis()?;
            cursor.skip_string()
        }
        kind::LIST | kind::SET | kind::LIST_QUICKLIST => each(cursor, Cursor::skip_string),
        kind::LIST_QUICKLIST_2 => each(cursor, |cursor| {
            cursor.number()?;
            cursor.skip_string()
        }),
        kind::SORTED_SET => each(cursor, |cursor| {
            cursor.skip_string()?;
            match cursor.byte()? {
                253.. => Ok(()),
                len => cursor.take(u64::from(len)).map(drop),
            }
        }),
        kind::SORTED_SET_2 => each(cursor, |cursor| {
            cursor.skip_string()?;
            cursor.double().map(drop)
        }),
        kind::HASH => each(cursor, pair),
        kind::HASH_METADATA => {
            cursor.millis()?;
            each(cursor, expiring_pair)
        }
        kind::HASH_METADATA_PRE_GA => each(cursor, expiring_pair),
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => stream(kind, cursor),
        kind::MODULE_2 => module::skip_value(cursor).map(drop),
        kind::MODULE => {
            Err(RdbError::Malformed { at: cursor.offset(), what: "a value of a module from before Redis 4" })
        }
        _ => Err(RdbError::Malformed { at: cursor.offset(), what: kind::UNKNOWN }),
    }
}

/// Reads a number and calls `skip` that many times. Each call must skip at least a byte.
#[inline]
fn each<'a>(cursor: &mut Cursor<'a>, skip: impl Fn(&mut Cursor<'a>) -> Result<()>) -> Result<()> {
    for _ in 0..cursor.number()? {
        skip(cursor)?;
    }
    Ok(())
}

fn pair(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.skip_string()?;
    cursor.skip_string()
}

fn expiring_pair(cursor: &mut Cursor<'_>) -> Result<()> {
    cursor.number()?;
    pair(cursor)
}

fn numbers(cursor: &mut Cursor<'_>, count: usize) -> Result<()> {
    for _ in 0..count {
        cursor.number()?;
    }
    Ok(())
}

fn stream(kind: u8, cursor: &mut Cursor<'_>) -> Result<()> {
    let has_history = kind != kind::STREAM;
    each(cursor, pair)?;
    numbers(cursor, if has_history { 8 } else { 3 })?;
    each(cursor, |cursor| {
        cursor.skip_string()?;
        numbers(cursor, if has_history { 3 } else { 2 })?;
        each(cursor, |cursor| {
            cursor.take(16 + 8)?;
            cursor.number().map(drop)
        })?;
        each(cursor, |cursor| {
            cursor.skip_string()?;
            cursor.take(if kind == kind::STREAM_3 { 16 } else { 8 })?;
            let pending = cursor.number()?;
            cursor.take(pending.saturating_mul(16)).map(drop)
        })
    })
}
