//! Replies as comma-separated values: one reply a line, lists flattened.

use onrush_resp::push_quoted;

use super::separated;
use crate::reply::Reply;

/// Appends `reply` without the end of the line.
pub fn format(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Nil => out.extend_from_slice(b"NULL"),
        Reply::Error(text) => {
            out.extend_from_slice(b"ERROR,");
            push_quoted(out, text);
        }
        Reply::Status(text) | Reply::Bulk(text) | Reply::Verbatim(text) => push_quoted(out, text),
        Reply::Double(text) | Reply::BigNumber(text) => out.extend_from_slice(text),
        Reply::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Reply::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => separated(out, items, b",", format),
        Reply::Map(pairs) => separated(out, pairs, b",", |out, (key, value)| {
            format(out, key);
            out.push(b',');
            format(out, value);
        }),
    }
}
