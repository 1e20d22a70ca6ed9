//! Replies for people: every type marked, lists numbered and indented.

use onrush_resp::push_quoted;

use crate::reply::Reply;

/// Appends `reply`; `indent` goes before every line but the first.
pub fn format(out: &mut Vec<u8>, reply: &Reply, indent: &mut Vec<u8>) {
    let mut line = |parts: [&[u8]; 2]| {
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.push(b'\n');
    };
    match reply {
        Reply::Error(text) => line([b"(error) ", text]),
        Reply::Status(text) | Reply::BigNumber(text) => line([text, b""]),
        Reply::Verbatim(text) => line([text, b""]),
        Reply::Integer(number) => line([b"(integer) ", number.to_string().as_bytes()]),
        Reply::Double(text) => line([b"(double) ", text]),
        Reply::Nil => line([b"(nil)", b""]),
        Reply::Bool(value) => line([if *value { b"(true)" } else { b"(false)" }, b""]),
        Reply::Bulk(bytes) => {
            push_quoted(out, bytes);
            out.push(b'\n');
        }
        Reply::Array(items) if items.is_empty() => line([b"(empty array)", b""]),
        Reply::Set(items) if items.is_empty() => line([b"(empty set)", b""]),
        Reply::Push(items) if items.is_empty() => line([b"(empty push)", b""]),
        Reply::Map(pairs) if pairs.is_empty() => line([b"(empty hash)", b""]),
        Reply::Array(items) | Reply::Push(items) => list(out, items, b')', indent),
        Reply::Set(items) => list(out, items, b'~', indent),
        Reply::Map(pairs) => map(out, pairs, indent),
    }
}

fn list(out: &mut Vec<u8>, items: &[Reply], mark: u8, indent: &mut Vec<u8>) {
    let width = items.len().to_string().len();
    for (index, item) in items.iter().enumerate() {
        number(out, index, width, mark, indent);
        indented(out, item, width, indent);
    }
}

fn map(out: &mut Vec<u8>, pairs: &[(Reply, Reply)], indent: &mut Vec<u8>) {
    let width = pairs.len().to_string().len();
    for (index, (key, value)) in pairs.iter().enumerate() {
        number(out, index, width, b'#', indent);
        indented(out, key, width, indent);
        out.pop();
        out.extend_from_slice(b" => ");
        let start = out.len();
        indented(out, value, width, indent);
        // A value of several lines begins on a line of its own.
        if memchr::memchr(b'\n', &out[start..]) != Some(out.len() - start - 1) {
            let before = [&b"\n"[..], indent, &vec![b' '; width + 2]].concat();
            out.splice(start..start, before);
        }
    }
}

fn number(out: &mut Vec<u8>, index: usize, width: usize, mark: u8, indent: &[u8]) {
    if index > 0 {
        out.extend_from_slice(indent);
    }
    out.extend_from_slice(format!("{:width$}", index + 1).as_bytes());
    out.extend_from_slice(&[mark, b' ']);
}

fn indented(out: &mut Vec<u8>, item: &Reply, width: usize, indent: &mut Vec<u8>) {
    let len = indent.len();
    indent.resize(len + width + 2, b' ');
    format(out, item, indent);
    indent.truncate(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(reply: &Reply) -> String {
        let mut out = Vec::new();
        format(&mut out, reply, &mut Vec::new());
        String::from_utf8(out).unwrap()
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn lists_inside_lists_are_indented_by_the_width_of_their_numbers() {
        let inner = Reply::Array(vec![Reply::Integer(4), Reply::Array(vec![])]);
        let mut items = vec![bulk("a\n"), inner];
        items.extend((0..8).map(Reply::Integer));
        let text = shown(&Reply::Array(items));
        assert!(
            text.starts_with(" 1) \"a\\n\"\n 2) 1) (integer) 4\n    2) (empty array)\n 3) (integer) 0\n"),
            "{text}"
        );
        assert!(text.ends_with("10) (integer) 7\n"));
    }

    #[test]
    fn maps_show_key_and_value_on_a_line() {
        let short = Reply::Map(vec![(bulk("a"), Reply::Array(vec![Reply::Nil]))]);
        assert_eq!(shown(&short), "1# \"a\" => 1) (nil)\n");
        let inner = Reply::Map(vec![(bulk("c"), Reply::Array(vec![Reply::Integer(3), Reply::Nil]))]);
        let text = shown(&Reply::Array(vec![Reply::Map(vec![(bulk("a"), inner)])]));
        assert_eq!(text, "1) 1# \"a\" => \n      1# \"c\" => \n         1) (integer) 3\n         2) (nil)\n");
    }
}
