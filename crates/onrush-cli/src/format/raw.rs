//! Replies for scripts: the bytes and nothing else.

use super::separated;
use crate::reply::Reply;

/// Appends `reply`, with `delimiter` between the elements of lists.
pub fn format(out: &mut Vec<u8>, reply: &Reply, delimiter: &[u8]) {
    match reply {
        Reply::Nil => {}
        Reply::Error(text) => {
            out.extend_from_slice(text);
            out.push(b'\n');
        }
        Reply::Status(text) | Reply::Bulk(text) | Reply::Verbatim(text) => out.extend_from_slice(text),
        Reply::Double(text) | Reply::BigNumber(text) => out.extend_from_slice(text),
        Reply::Bool(value) => out.extend_from_slice(if *value { b"(true)" } else { b"(false)" }),
        Reply::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            separated(out, items, delimiter, |out, item| format(out, item, delimiter));
        }
        Reply::Map(pairs) => separated(out, pairs, delimiter, |out, (key, value)| {
            format(out, key, delimiter);
            out.push(b' ');
            format(out, value, delimiter);
        }),
    }
}
