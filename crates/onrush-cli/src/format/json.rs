//! Replies as JSON. An error is `error:"…"`, as redis-cli has it, so that no reply can be taken for one.

use std::io::Write;

use onrush_resp::push_quoted;

use super::separated;
use crate::reply::Reply;

/// Appends `reply`; `ascii` writes strings in ASCII alone.
pub fn format(out: &mut Vec<u8>, reply: &Reply, ascii: bool) {
    match reply {
        Reply::Nil => out.extend_from_slice(b"null"),
        Reply::Error(text) => {
            out.extend_from_slice(b"error:");
            string(out, text, ascii);
        }
        Reply::Status(text) | Reply::Bulk(text) | Reply::Verbatim(text) => string(out, text, ascii),
        Reply::Double(text) | Reply::BigNumber(text) => out.extend_from_slice(text),
        Reply::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Reply::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            out.push(b'[');
            separated(out, items, b",", |out, item| format(out, item, ascii));
            out.push(b']');
        }
        Reply::Map(pairs) => {
            out.push(b'{');
            separated(out, pairs, b",", |out, (key, value)| {
                name(out, key, ascii);
                out.push(b':');
                format(out, value, ascii);
            });
            out.push(b'}');
        }
    }
}

/// A key of an object: strings as they are, anything else as a string of its JSON.
fn name(out: &mut Vec<u8>, key: &Reply, ascii: bool) {
    match key {
        Reply::Error(_) | Reply::Status(_) | Reply::Bulk(_) | Reply::Verbatim(_) => format(out, key, ascii),
        _ => {
            let mut inner = Vec::new();
            format(&mut inner, key, ascii);
            string(out, &inner, ascii);
        }
    }
}

fn string(out: &mut Vec<u8>, bytes: &[u8], ascii: bool) {
    if ascii {
        let start = out.len();
        push_quoted(out, bytes);
        let quoted = out.split_off(start);
        for byte in quoted {
            if byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        return;
    }
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => _ = write!(out, "\\u00{byte:02x}"),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(reply: &Reply, ascii: bool) -> String {
        let mut out = Vec::new();
        format(&mut out, reply, ascii);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_escape_what_json_must() {
        let reply = Reply::Bulk("a\"\\\n\x01é".into());
        assert_eq!(shown(&reply, false), "\"a\\\"\\\\\\n\\u0001é\"");
        assert_eq!(shown(&Reply::Bulk("\né".into()), true), "\"\\\\n\\\\xc3\\\\xa9\"");
    }

    #[test]
    fn keys_of_objects_are_strings() {
        let reply = Reply::Map(vec![(Reply::Integer(0), Reply::Bool(false)), (Reply::Status("a".into()), Reply::Nil)]);
        assert_eq!(shown(&reply, false), "{\"0\":false,\"a\":null}");
    }
}
