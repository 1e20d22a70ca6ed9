//! The reader of replies: every type, cut anywhere, counted and built alike, and bytes that are not a reply.

use std::borrow::Cow;

use onrush_resp::{
    AggregateKind, BulkKind, Ended, FromReply, ReplyDecoder, ReplyError, ReplyReader, ReplyVisitor, Scalar,
    reply_limits,
};
use proptest::prelude::*;

/// A reply with its attributes.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Line(char, String),
    Bulk(BulkKind, Vec<u8>),
    Aggregate(AggregateKind, Vec<Node>),
    Attributed(Box<Node>, Vec<Node>),
}

impl FromReply for Node {
    fn scalar(scalar: Scalar<'_>) -> Node {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        match scalar {
            Scalar::Status(bytes) => Node::Line('+', text(bytes)),
            Scalar::Error(bytes) => Node::Line('-', text(bytes)),
            Scalar::Integer(number) => Node::Line(':', number.to_string()),
            Scalar::Double { digits, .. } => Node::Line(',', text(digits)),
            Scalar::BigNumber(digits) => Node::Line('(', text(digits)),
            Scalar::Boolean(truth) => Node::Line('#', if truth { "t" } else { "f" }.into()),
            Scalar::Null => Node::Line('_', String::new()),
        }
    }

    fn bulk(kind: BulkKind, bytes: Cow<'_, [u8]>) -> Node {
        Node::Bulk(kind, bytes.into_owned())
    }

    fn aggregate(kind: AggregateKind, elements: Vec<Node>) -> Node {
        Node::Aggregate(kind, elements)
    }

    fn attributed(self, attributes: Vec<Node>) -> Node {
        Node::Attributed(Box::new(self), attributes)
    }
}

fn encode(node: &Node, out: &mut Vec<u8>) {
    let header = |out: &mut Vec<u8>, marker: char, len: usize| out.extend(format!("{marker}{len}\r\n").into_bytes());
    match node {
        Node::Line(marker, text) => out.extend(format!("{marker}{text}\r\n").into_bytes()),
        Node::Bulk(kind, bytes) => {
            let marker = match kind {
                BulkKind::String => '$',
                BulkKind::Error => '!',
                BulkKind::Verbatim => '=',
            };
            header(out, marker, bytes.len());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Node::Aggregate(kind, elements) => {
            let (marker, width) = match kind {
                AggregateKind::Array => ('*', 1),
                AggregateKind::Set => ('~', 1),
                AggregateKind::Push => ('>', 1),
                AggregateKind::Map => ('%', 2),
                AggregateKind::Attribute => ('|', 2),
            };
            header(out, marker, elements.len() / width);
            elements.iter().for_each(|element| encode(element, out));
        }
        Node::Attributed(node, attributes) => {
            encode(&Node::Aggregate(AggregateKind::Attribute, attributes.clone()), out);
            encode(node, out);
        }
    }
}

fn is_push(node: &Node) -> bool {
    match node {
        Node::Aggregate(kind, _) => *kind == AggregateKind::Push,
        Node::Attributed(node, _) => is_push(node),
        _ => false,
    }
}

fn any_node() -> impl Strategy<Value = Node> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let leaf = prop_oneof![
        Just(Node::Line('+', "OK".into())),
        Just(Node::Line('_', String::new())),
        "[ -~]{0,20}".prop_map(|text| Node::Line('+', text.replace('\\', ""))).prop_map(unquoted),
        "ERR [a-z ]{0,9}".prop_map(|text| Node::Line('-', text)),
        any::<i64>().prop_map(|number| Node::Line(':', number.to_string())),
        (-1e9..1e9f64).prop_map(|number| Node::Line(',', number.to_string())),
        "-?[0-9]{20,30}".prop_map(|digits| Node::Line('(', digits)),
        prop::sample::select(vec!["t", "f"]).prop_map(|truth| Node::Line('#', truth.into())),
        bytes.clone().prop_map(|bytes| Node::Bulk(BulkKind::String, bytes)),
        bytes.clone().prop_map(|bytes| Node::Bulk(BulkKind::Error, bytes)),
        bytes.prop_map(|bytes| Node::Bulk(BulkKind::Verbatim, [b"txt:", &bytes[..]].concat())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6);
        let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4)
            .prop_map(|pairs| pairs.into_iter().flat_map(|(key, value)| [key, value]).collect::<Vec<_>>());
        prop_oneof![
            list.clone().prop_map(|list| Node::Aggregate(AggregateKind::Array, list)),
            list.clone().prop_map(|list| Node::Aggregate(AggregateKind::Set, list)),
            list.prop_map(|list| Node::Aggregate(AggregateKind::Push, list)),
            pairs.clone().prop_map(|pairs| Node::Aggregate(AggregateKind::Map, pairs)),
            (inner, pairs).prop_map(|(node, attributes)| Node::Attributed(Box::new(node), attributes)),
        ]
    })
}

/// A line whose text is shown as it is.
fn unquoted(node: Node) -> Node {
    match node {
        Node::Line(marker, text) => Node::Line(marker, text.replace(['"', '\''], "")),
        other => other,
    }
}

/// Pieces of the input, cut where `cuts` say.
fn pieces<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.push(input.len());
    cuts.sort_unstable();
    let mut from = 0;
    let piece = |to| &input[std::mem::replace(&mut from, to)..to];
    cuts.into_iter().map(piece).collect()
}

/// The replies in the pieces, and the error that ended them. Each piece is read to its end and then forgotten.
fn decode(pieces: &[&[u8]]) -> (Vec<Node>, Option<ReplyError>) {
    let (mut decoder, mut nodes) = (ReplyDecoder::new(), Vec::new());
    for piece in pieces {
        let mut at = 0;
        loop {
            match decoder.next(piece, &mut at) {
                Ok(Some(node)) => nodes.push(node),
                Ok(None) => break assert_eq!(at, piece.len()),
                Err(error) => return (nodes, Some(error)),
            }
        }
    }
    (nodes, None)
}

/// Records all parts that a visitor gets: a bulk string in pieces counts as a whole one.
#[derive(Default, PartialEq, Debug)]
struct Heard {
    replies: u64,
    depth: i64,
    strings: Vec<Vec<u8>>,
}

impl ReplyVisitor for Heard {
    fn bulk_begins(&mut self, _: BulkKind, _: usize) {
        self.strings.push(Vec::new());
    }

    fn bulk_part(&mut self, part: &[u8]) {
        self.strings.last_mut().unwrap().extend_from_slice(part);
    }

    fn open(&mut self, _: AggregateKind, _: usize) {
        self.depth += 1;
    }

    fn close(&mut self, _: AggregateKind) {
        self.depth -= 1;
    }

    fn replies(&mut self, count: u64) {
        self.replies += count;
    }
}

fn skim(pieces: &[&[u8]]) -> (Heard, Option<ReplyError>) {
    let (mut reader, mut heard) = (ReplyReader::new(), Heard::default());
    let error = pieces.iter().find_map(|piece| reader.skim(piece, &mut heard).err());
    (heard, error)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..16)
}

proptest! {
    #[test]
    fn replies_are_the_same_wherever_they_are_cut(nodes in prop::collection::vec(any_node(), 1..5), cuts in cuts()) {
        let mut input = Vec::new();
        nodes.iter().for_each(|node| encode(node, &mut input));
        prop_assert_eq!(decode(&[&input]), (nodes.clone(), None));
        prop_assert_eq!(decode(&pieces(&input, &cuts)), (nodes.clone(), None));
        let bytewise: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(decode(&bytewise), (nodes, None));
    }

    #[test]
    fn what_one_builds_the_other_counts(nodes in prop::collection::vec(any_node(), 1..5), cuts in cuts()) {
        let mut input = Vec::new();
        nodes.iter().for_each(|node| encode(node, &mut input));
        let (heard, error) = skim(&pieces(&input, &cuts));
        let replies = nodes.iter().filter(|node| !is_push(node)).count() as u64;
        prop_assert_eq!((heard.replies, heard.depth, error), (replies, 0, None));
        prop_assert_eq!(skim(&[&input]).0.strings, heard.strings);
    }

    #[test]
    fn any_bytes_are_replies_or_an_error_the_same_wherever_they_are_cut(
        bytes in prop::collection::vec(
            prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                prop::sample::select(b"+-:$*~%>|_#,(=!\r\n0123tf".to_vec()).prop_map(|byte| vec![byte]),
                prop::sample::select(vec!["\r\n", "*2\r\n", "$3\r\nabc\r\n", "+OK\r\n", "|1\r\n", "_\r\n"])
                    .prop_map(|text| text.as_bytes().to_vec()),
            ],
            0..60,
        ),
        cuts in cuts(),
    ) {
        let bytes = bytes.concat();
        let whole = decode(&[&bytes]);
        prop_assert_eq!(&decode(&pieces(&bytes, &cuts)), &whole);
        let (heard, error) = skim(&pieces(&bytes, &cuts));
        prop_assert_eq!(heard.replies, whole.0.iter().filter(|node| !is_push(node)).count() as u64);
        prop_assert_eq!(error, whole.1);
    }
}

#[test]
fn the_nulls_of_both_protocols_are_null() {
    let (nodes, error) = decode(&[b"$-1\r\n*-1\r\n_\r\n~-1\r\n%-1\r\n=-1\r\n!-1\r\n"]);
    assert_eq!((nodes, error), (vec![Node::Line('_', String::new()); 7], None));
}

#[test]
fn the_least_and_the_greatest_integer_are_read() {
    let input = format!(":{}\r\n:{}\r\n:+7\r\n:-0\r\n", i64::MIN, i64::MAX);
    let texts: Vec<String> = [i64::MIN, i64::MAX, 7, 0].iter().map(i64::to_string).collect();
    let want: Vec<Node> = texts.into_iter().map(|text| Node::Line(':', text)).collect();
    assert_eq!(decode(&[input.as_bytes()]), (want, None));
    assert!(decode(&[b":9223372036854775808\r\n"]).1.is_some());
}

#[test]
fn a_push_answers_nothing_also_with_attributes() {
    let input = b">1\r\n+a\r\n|1\r\n+k\r\n+v\r\n>1\r\n+a\r\n*1\r\n>1\r\n+a\r\n";
    let (mut reader, mut at, mut ended) = (ReplyReader::new(), 0, Vec::new());
    while let Some(one) = reader.read(input, &mut at, &mut Heard::default()).unwrap() {
        ended.push(one);
    }
    assert_eq!(ended, [Ended::Push, Ended::Push, Ended::Reply]);
}

#[test]
fn what_is_no_reply_is_told_apart() {
    use ReplyError::*;
    let number = |text: &str| Number(text.to_owned());
    for (bytes, error) in [
        (&b"hello"[..], Marker(b'h')),
        (b"\r\n", Marker(b'\r')),
        (b"\n", Marker(b'\n')),
        (b"+OK\n", LineEnd),
        (b":x\r\n", number("x")),
        (b":\r\n", number("")),
        (b"$1x\r\n", number("1x")),
        (b"$?\r\n", number("?")),
        (b"*99999999999999999999999\r\n", number("99999999999999999999999")),
        (b"$-2\r\n", Length(-2)),
        (b"*-7\r\n", Length(-7)),
        (b">-1\r\n", Length(-1)),
        (b"|-1\r\n", Length(-1)),
        (b"=3\r\nabc\r\n", Length(3)),
        (b"$4294967296\r\n", Length(4294967296)),
        (b"*4294967296\r\n", Length(4294967296)),
        (b"%2147483648\r\n", Length(2147483648)),
        (b"$1\r\nabc", BulkEnd),
        (b"$1\r\na\rb", BulkEnd),
        (b"#x\r\n", Boolean),
        (b"_x\r\n", Null),
        (b",1.5.5\r\n", number("1.5.5")),
        (b"(12a\r\n", number("12a")),
    ] {
        assert_eq!(decode(&[bytes]).1.as_ref(), Some(&error), "{}", bytes.escape_ascii());
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&bytewise).1.as_ref(), Some(&error), "{}", bytes.escape_ascii());
        assert_eq!(skim(&bytewise).1.as_ref(), Some(&error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn nesting_has_a_bound_for_attributes_too() {
    for head in [&b"*1\r\n"[..], b"|0\r\n"] {
        assert_eq!(decode(&[&head.repeat(reply_limits::DEPTH_MAX)]).1, None);
        assert_eq!(decode(&[&head.repeat(reply_limits::DEPTH_MAX + 1)]).1, Some(ReplyError::Depth));
        assert_eq!(skim(&[&head.repeat(reply_limits::DEPTH_MAX + 1)]).1, Some(ReplyError::Depth));
    }
}

#[test]
fn a_line_has_a_bound() {
    let line = |len: usize| [b"+", &vec![b'x'; len][..]].concat();
    let longest = line(reply_limits::LINE_LEN_MAX - 2);
    let (nodes, error) = decode(&[&longest, b"\r\n"]);
    assert_eq!((nodes.len(), error), (1, None));
    assert_eq!(decode(&[&line(reply_limits::LINE_LEN_MAX)]).1, Some(ReplyError::LineEnd));
    assert_eq!(decode(&[&[b'$'; 2], &[b'1'; reply_limits::HEADER_LEN_MAX]]).1, Some(ReplyError::LineEnd));
}
