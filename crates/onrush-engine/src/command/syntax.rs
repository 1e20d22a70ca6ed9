//! The notation of syntax lines, and the tree of arguments it stands for.
//!
//! | notation | meaning |
//! |---|---|
//! | `seconds` | an argument; its name has a lower-case letter |
//! | `KEEPTTL` | a token: a word that stands for itself |
//! | `EX seconds` | a token and its argument or arguments |
//! | `[…]` | may be left out |
//! | `<a \| b>`, `[a \| b]` | exactly one, at most one of them |
//! | `key [key ...]` | what stands before the bracket may be repeated |
//! | `GET pattern [GET pattern ...]` | repeated together with its token |
//!
//! `render` gives the line back.

use super::argument::{Argument, Kind};

/// A syntax line that is not in the notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub struct SyntaxError {
    /// Where in the line, in bytes.
    pub at: usize,
    /// What is wrong.
    pub problem: &'static str,
}

/// Brackets inside brackets.
const DEPTH_MAX: usize = 16;

/// The arguments a line describes; all that are neither tokens nor groups are [`Kind::String`].
///
/// # Errors
/// The place where the line leaves the notation. Never panics; the depth of brackets is bounded.
pub fn parse(line: &str) -> Result<Vec<Argument>, SyntaxError> {
    let mut parser = Parser { line, at: 0 };
    let (nodes, end) = parser.sequence(0)?;
    match end {
        End::Line => build(&nodes, line.len()),
        _ => parser.fail("nothing to close here"),
    }
}

/// What the line says literally.
enum Node<'l> {
    Word(&'l str),
    Group {
        optional: bool,
        choices: Vec<Vec<Node<'l>>>,
    },
    /// `[… ...]`
    Repeat(Vec<Node<'l>>),
}

/// What ended a sequence.
#[derive(PartialEq, Eq)]
enum End {
    Line,
    Bar,
    Close(u8),
}

struct Parser<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Parser<'l> {
    fn fail<T>(&self, problem: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.at, problem })
    }

    /// Nodes up to the end of the line, a bar or a closing bracket, which is consumed.
    fn sequence(&mut self, depth: usize) -> Result<(Vec<Node<'l>>, End), SyntaxError> {
        let mut nodes = Vec::new();
        while let Some(&byte) = self.line.as_bytes().get(self.at) {
            match byte {
                b' ' => self.at += 1,
                b'[' | b'<' => nodes.push(self.group(depth + 1)?),
                b'|' | b']' | b'>' => {
                    self.at += 1;
                    return Ok((nodes, if byte == b'|' { End::Bar } else { End::Close(byte) }));
                }
                _ => nodes.push(Node::Word(self.word())),
            }
        }
        Ok((nodes, End::Line))
    }

    fn word(&mut self) -> &'l str {
        let rest = &self.line[self.at..];
        let len = rest.find(|c| " []<>|".contains(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn group(&mut self, depth: usize) -> Result<Node<'l>, SyntaxError> {
        if depth > DEPTH_MAX {
            return self.fail("too many brackets inside each other");
        }
        let optional = self.line.as_bytes()[self.at] == b'[';
        let close = if optional { b']' } else { b'>' };
        self.at += 1;
        let mut choices = Vec::new();
        loop {
            let (nodes, end) = self.sequence(depth)?;
            if nodes.is_empty() {
                return self.fail("nothing between the brackets or bars");
            }
            choices.push(nodes);
            match end {
                End::Bar => {}
                End::Close(byte) if byte == close => break,
                _ => return self.fail("a bracket is not closed"),
            }
        }
        let is_repeat = matches!(choices.as_slice(), [only] if matches!(only.last(), Some(Node::Word("..."))));
        if !(optional && is_repeat) {
            return Ok(Node::Group { optional, choices });
        }
        let mut repeated = choices.remove(0);
        repeated.pop();
        Ok(Node::Repeat(repeated))
    }
}

fn is_token(word: &str) -> bool {
    !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Arguments from nodes; `at` is where to report a problem.
fn build(nodes: &[Node<'_>], at: usize) -> Result<Vec<Argument>, SyntaxError> {
    let mut arguments = Vec::new();
    let mut index = 0;
    while index < nodes.len() {
        let (first, rest) = (&nodes[index], &nodes[index + 1..]);
        index += 1;
        match first {
            Node::Word("...") => {
                return Err(SyntaxError { at, problem: "an ellipsis outside of brackets" });
            }
            Node::Word(word) if is_token(word) => {
                let taken = token_len(rest);
                arguments.push(with_token(word, build(&rest[..taken], at)?));
                index += taken;
            }
            Node::Word(word) => arguments.push(Argument::new(*word, Kind::String, Vec::new())),
            Node::Group { optional, choices } => {
                let choices = choices.iter().map(|choice| build(choice, at)).collect::<Result<Vec<_>, _>>()?;
                arguments.push(group(*optional, choices));
            }
            Node::Repeat(repeated) => repeat(&mut arguments, build(repeated, at)?, at)?,
        }
    }
    Ok(arguments)
}

/// How many nodes behind a token belong to it: names and their repetitions, or one choice.
fn token_len(rest: &[Node<'_>]) -> usize {
    if matches!(rest, [Node::Group { optional: false, .. }, ..]) {
        return 1;
    }
    let belongs = |node: &Node<'_>| match node {
        Node::Word(word) => !is_token(word),
        Node::Repeat(repeated) => {
            matches!(repeated.as_slice(), [Node::Word(word), ..] if !is_token(word))
        }
        Node::Group { .. } => false,
    };
    let len = rest.iter().take_while(|node| belongs(node)).count();
    if matches!(rest, [Node::Repeat(_), ..]) { 0 } else { len }
}

/// `token` in front of what belongs to it.
fn with_token(token: &str, mut behind: Vec<Argument>) -> Argument {
    let mut argument = match behind.len() {
        0 => Argument::new(token_name(token), Kind::PureToken, Vec::new()),
        // An optional argument cannot carry the token: without the argument the token would remain.
        1 if !behind[0].optional && behind[0].token.is_none() => behind.remove(0),
        _ => block(behind),
    };
    argument.token = Some(token.to_owned());
    argument
}

/// The argument name of a word that stands for itself.
fn token_name(token: &str) -> String {
    match token {
        "=" => "equal".into(),
        "~" => "approximately".into(),
        "*" => "auto-id".into(),
        "$" => "new-id".into(),
        _ => token.to_ascii_lowercase(),
    }
}

fn block(children: Vec<Argument>) -> Argument {
    Argument::new(joined_names(&children), Kind::Block, children)
}

fn one_or_block(mut arguments: Vec<Argument>) -> Argument {
    if arguments.len() == 1 { arguments.remove(0) } else { block(arguments) }
}

/// What stands between brackets.
fn group(optional: bool, mut choices: Vec<Vec<Argument>>) -> Argument {
    let mut argument = if choices.len() > 1 {
        let children: Vec<_> = choices.into_iter().map(one_or_block).collect();
        Argument::new(choice_name(&children), Kind::OneOf, children)
    } else {
        let only = choices.remove(0);
        match only.as_slice() {
            [single] if optional && !single.optional => one_or_block(only),
            // `<a>` is a choice of one, `[[a]]` a block of optional arguments.
            _ if optional => block(only),
            _ => Argument::new(joined_names(&only), Kind::OneOf, vec![one_or_block(only)]),
        }
    };
    argument.optional = optional;
    argument
}

/// Merges a repetition into the arguments that it repeats.
fn repeat(arguments: &mut Vec<Argument>, repeated: Vec<Argument>, at: usize) -> Result<(), SyntaxError> {
    if repeated.is_empty() || !arguments.ends_with(&repeated) {
        return Err(SyntaxError { at, problem: "a repetition of something else than stands before it" });
    }
    let mut argument = one_or_block(arguments.split_off(arguments.len() - repeated.len()));
    if argument.multiple || argument.optional {
        argument = block(vec![argument]);
    }
    argument.multiple = true;
    argument.multiple_token = argument.token.is_some() && argument.kind != Kind::PureToken;
    arguments.push(argument);
    Ok(())
}

/// A name for a choice: a known one by its first tokens, or the names of the choices.
fn choice_name(children: &[Argument]) -> String {
    let tokens: Vec<&str> = children.iter().map(|child| child.token.as_deref().unwrap_or("")).collect();
    let known = match tokens.as_slice() {
        ["NX", "XX", ..] | ["IFEQ", ..] => "condition",
        ["EX", "PX", ..] => "expiration",
        ["GT", "LT"] => "comparison",
        ["ASC", "DESC"] => "order",
        ["ASYNC", "SYNC"] => "flush-type",
        ["BYTE", "BIT"] | ["M", "KM", "FT", "MI"] => "unit",
        ["BYSCORE", "BYLEX"] => "sortby",
        ["LEFT", "RIGHT"] | ["BEFORE", "AFTER"] | ["MIN", "MAX"] => "where",
        ["MAXLEN", "MINID"] => "strategy",
        ["=", "~"] => "operator",
        ["SUM", "MIN", "MAX", "COUNT"] => "aggregate",
        ["FROMMEMBER", "FROMLONLAT"] => "from",
        ["BYRADIUS", "BYBOX"] => "by",
        ["NOSAVE", "SAVE"] => "save-selector",
        ["MODULE", "ACLCAT", "PATTERN"] => "filterby",
        ["NORMAL", "MASTER", ..] => "client-type",
        ["ON", "OFF"] | ["YES", "NO"] => "enabled",
        ["WRITE", "ALL"] => "mode",
        _ => return joined_names(children),
    };
    known.to_owned()
}

/// Most names in a group's name, so that it stays readable.
const JOINED_NAMES_MAX: usize = 4;

fn joined_names(children: &[Argument]) -> String {
    children.iter().take(JOINED_NAMES_MAX).map(|child| child.name.as_str()).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The line for a tree of arguments.
    pub(crate) fn render(arguments: &[Argument]) -> String {
        join(arguments, " ")
    }

    fn join(arguments: &[Argument], between: &str) -> String {
        arguments.iter().map(render_one).collect::<Vec<_>>().join(between)
    }

    fn render_one(argument: &Argument) -> String {
        let token = argument.token.as_deref().unwrap_or("");
        let body = match argument.kind {
            Kind::PureToken => token.to_owned(),
            Kind::OneOf => {
                let choices = join(&argument.children, " | ");
                let bracketed = argument.optional && argument.token.is_none() && !argument.multiple;
                if bracketed { choices } else { format!("<{choices}>") }
            }
            Kind::Block => join(&argument.children, " "),
            _ => argument.name.clone(),
        };
        let tokened =
            if argument.kind == Kind::PureToken || token.is_empty() { body.clone() } else { format!("{token} {body}") };
        let whole = match (argument.multiple, argument.multiple_token) {
            (false, _) => tokened,
            (true, false) => format!("{tokened} [{body} ...]"),
            (true, true) => format!("{tokened} [{tokened} ...]"),
        };
        if argument.optional { format!("[{whole}]") } else { whole }
    }

    #[test]
    fn rendering_gives_the_line_back() {
        for line in [
            "",
            "key",
            "key value [key value ...]",
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | KEEPTTL]",
            "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]",
            "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
            "key [GET encoding offset [GET encoding offset ...]]",
            "GROUP group consumer [COUNT count] [NOACK] STREAMS key [key ...] id [id ...]",
            "key [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
            "key <BYRADIUS radius <M | KM> | BYBOX width height <M | KM>> [COUNT count [ANY]]",
            "[protover [AUTH username password] [SETNAME clientname]]",
            "<ip:port | <[ID client-id] | [TYPE <NORMAL | PUBSUB>]> [<[ID client-id] | [TYPE <NORMAL | PUBSUB>]> ...]>",
            "<host port | NO ONE>",
            "path [CONFIG name value [CONFIG name value ...]] [ARGS arg [arg ...]]",
            "key [<GET a | [OVERFLOW <WRAP | SAT>] <SET b | INCR c>> [<GET a | [OVERFLOW <WRAP | SAT>] <SET b | INCR c>> ...]]",
        ] {
            assert_eq!(render(&parse(line).unwrap()), line);
        }
    }

    #[test]
    fn tokens_and_repetitions_become_properties() {
        let arguments = parse("[GET pattern [GET pattern ...]] [LIMIT offset count] [EX seconds | PERSIST]").unwrap();
        let [get, limit, expiration] = arguments.as_slice() else { panic!("three arguments") };
        assert_eq!((get.name.as_str(), get.token.as_deref()), ("pattern", Some("GET")));
        assert!(get.optional && get.multiple && get.multiple_token);
        assert_eq!((limit.kind, limit.token.as_deref(), limit.children.len()), (Kind::Block, Some("LIMIT"), 2));
        assert_eq!((expiration.kind, expiration.children[1].kind), (Kind::OneOf, Kind::PureToken));
    }

    #[test]
    fn what_is_not_in_the_notation_is_told() {
        for line in ["[", "]", "a | b", "<a]", "[]", "<a | >", "a [b ...]", "[a ...]", "a ...", "a [a ... | b]"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in r"([\[\]<>| ]|A|b|\.\.\.|é|\PC){0,60}") {
            let _ = parse(&line);
        }

        #[test]
        fn what_parses_reads_the_same_once_rendered(line in r"(A |b |\[|\] |<|> |\| |\[b \.\.\.\] |\[A b \.\.\.\] ){0,14}") {
            if let Ok(arguments) = parse(&line) {
                let rendered = render(&arguments);
                prop_assert_eq!(parse(&rendered), Ok(arguments), "{} became {}", line, rendered);
            }
        }
    }
}
