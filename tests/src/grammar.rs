//! Random commands from syntax lines such as `SET key value [NX | XX] [EX seconds | KEEPTTL]`.
//!
//! A line that starts with `!` is never damaged: its commands could stall or disturb the tests. Words in lower case
//! stand for random arguments of that kind ([`Words`] decides), all others for themselves, as does a word in lower case
//! after `=`; `[ ]` is optional, `( )` groups, `|` separates alternatives and `...` repeats what stands before it.

use crate::argv::Argv;
use crate::rng::Rng;

/// Makes the arguments that a syntax line only names.
pub trait Words {
    /// A random argument of the kind `name`; `None` when there is no such kind.
    fn word(&mut self, rng: &mut Rng, name: &str) -> Option<Vec<u8>>;

    /// Any argument at all, for putting where it does not belong.
    fn junk(&mut self, rng: &mut Rng) -> Vec<u8>;
}

/// A parsed syntax line.
#[derive(Debug)]
pub struct Syntax {
    nodes: Vec<Node>,
    undamaged: bool,
}

#[derive(Debug)]
enum Node {
    Literal(String),
    Kind(String),
    Optional(Vec<Vec<Node>>),
    Group(Vec<Vec<Node>>),
    Repeated(Box<Node>),
}

impl Syntax {
    /// Parses a line. Panics when it is malformed, since lines are part of the program.
    pub fn parse(line: &str) -> Syntax {
        let (line, undamaged) = match line.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let spaced: String = line
            .replace("...", " … ")
            .chars()
            .flat_map(|c| if "[]()|".contains(c) { vec![' ', c, ' '] } else { vec![c] })
            .collect();
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        let mut at = 0;
        let mut alternatives = parse_alternatives(&tokens, &mut at);
        assert!(at == tokens.len() && alternatives.len() == 1, "malformed syntax line: {line}");
        Syntax { nodes: alternatives.remove(0), undamaged }
    }

    /// The words the line starts with that stand for themselves: the command and subcommand names.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for node in &self.nodes {
            let Node::Literal(word) = node else { break };
            names.push(word.as_str());
        }
        names
    }

    /// A random command of this syntax; about one in six is damaged on purpose.
    pub fn generate(&self, rng: &mut Rng, words: &mut impl Words) -> Argv {
        let mut args = Vec::new();
        emit_all(&self.nodes, rng, words, &mut args);
        if rng.percent(16) && !self.undamaged {
            damage(&mut args, rng, words);
        }
        Argv(args)
    }
}

fn parse_alternatives(tokens: &[&str], at: &mut usize) -> Vec<Vec<Node>> {
    let mut alternatives = vec![Vec::new()];
    while *at < tokens.len() {
        let token = tokens[*at];
        if token == "]" || token == ")" {
            break;
        }
        *at += 1;
        let sequence = alternatives.last_mut().expect("never empty");
        match token {
            "|" => alternatives.push(Vec::new()),
            "…" => {
                let node = sequence.pop().expect("something to repeat");
                sequence.push(Node::Repeated(Box::new(node)));
            }
            "[" | "(" => {
                let inner = parse_alternatives(tokens, at);
                let close = if token == "[" { "]" } else { ")" };
                assert_eq!(tokens.get(*at), Some(&close), "unbalanced brackets");
                *at += 1;
                sequence.push(if token == "[" { Node::Optional(inner) } else { Node::Group(inner) });
            }
            word if word.starts_with('=') => sequence.push(Node::Literal(word[1..].to_owned())),
            word if word.starts_with(|c: char| c.is_ascii_lowercase()) => {
                sequence.push(Node::Kind(word.to_owned()));
            }
            word => sequence.push(Node::Literal(word.to_owned())),
        }
    }
    alternatives
}

/// Emits nodes in order, but options that stand side by side come in any order.
fn emit_all(nodes: &[Node], rng: &mut Rng, words: &mut impl Words, args: &mut Vec<Vec<u8>>) {
    let mut at = 0;
    while at < nodes.len() {
        let options = nodes[at..].iter().take_while(|n| matches!(n, Node::Optional(_))).count();
        let mut run: Vec<&Node> = nodes[at..at + options.max(1)].iter().collect();
        if rng.percent(30) {
            rng.shuffle(&mut run);
        }
        for node in run {
            emit(node, rng, words, args);
        }
        at += options.max(1);
    }
}

fn emit(node: &Node, rng: &mut Rng, words: &mut impl Words, args: &mut Vec<Vec<u8>>) {
    match node {
        Node::Literal(word) => args.push(recased(word, rng)),
        Node::Kind(name) => {
            let word = words.word(rng, name);
            args.push(word.unwrap_or_else(|| panic!("no such kind of argument: {name}")));
        }
        Node::Optional(alternatives) => {
            // Now and then an option comes twice, or two that exclude each other.
            while rng.percent(if alternatives.len() > 2 { 45 } else { 30 }) {
                let chosen = &alternatives[rng.below(alternatives.len())];
                emit_all(chosen, rng, words, args);
                if !rng.percent(20) {
                    break;
                }
            }
        }
        Node::Group(alternatives) => {
            let chosen = &alternatives[rng.below(alternatives.len())];
            emit_all(chosen, rng, words, args);
        }
        Node::Repeated(inner) => {
            let times = if rng.percent(3) { 40 } else { 1 + rng.below(4) };
            (0..times).for_each(|_| emit(inner, rng, words, args));
        }
    }
}

fn recased(word: &str, rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 | 1 => word.to_ascii_lowercase().into_bytes(),
        2 => word
            .bytes()
            .map(|b| if rng.percent(50) { b.to_ascii_lowercase() } else { b.to_ascii_uppercase() })
            .collect(),
        _ => word.as_bytes().to_vec(),
    }
}

/// Makes a command wrong: an argument too many, too few, twice, or replaced. The name itself stays.
fn damage(args: &mut Vec<Vec<u8>>, rng: &mut Rng, words: &mut impl Words) {
    let at = 1 + rng.below(args.len());
    match rng.below(6) {
        0 => args.truncate(at),
        1 if at < args.len() => drop(args.remove(at)),
        2 if at < args.len() => args.insert(at, args[at].clone()),
        3 | 4 if at < args.len() => args[at] = words.junk(rng),
        _ => args.insert(at, words.junk(rng)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letters;

    impl Words for Letters {
        fn word(&mut self, _: &mut Rng, name: &str) -> Option<Vec<u8>> {
            (name == "key" || name == "value").then(|| name.into())
        }
        fn junk(&mut self, _: &mut Rng) -> Vec<u8> {
            b"junk".to_vec()
        }
    }

    #[test]
    fn names_are_the_leading_literals() {
        assert_eq!(Syntax::parse("CLIENT LIST [TYPE key]").names(), ["CLIENT", "LIST"]);
        assert_eq!(Syntax::parse("SET key value").names(), ["SET"]);
    }

    #[test]
    fn all_options_and_damage_turn_up() {
        let syntax = Syntax::parse("SET key value [NX | XX] [(GET)] (key value)...");
        let mut rng = Rng::new(1);
        let all: Vec<Argv> = (0..2000).map(|_| syntax.generate(&mut rng, &mut Letters)).collect();
        for word in ["NX", "XX", "GET", "nx", "junk"] {
            assert!(all.iter().any(|a| a.0.iter().any(|w| w == word.as_bytes())), "{word}");
        }
        assert!(all.iter().any(|a| a.0.len() == 1), "wrong arity never comes");
        assert!(all.iter().any(|a| a.0.len() > 20), "long repetitions never come");
    }
}
