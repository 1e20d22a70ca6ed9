//! Lines of a script and the commands they stand for at a size.

use std::io::Write;

/// What the numbers of a template are made from.
pub struct Scope<'a> {
    /// The size of the run.
    pub n: usize,
    /// The number of this repetition.
    pub i: usize,
    /// How many repetitions there are.
    pub count: usize,
    /// The items of the reply that the last `order` line remembered.
    pub order: &'a [Vec<u8>],
}

/// A word of a command: text with placeholders in braces.
#[derive(Clone, Debug)]
pub struct Word(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(&'static str),
    Place { variable: Variable, width: usize, operations: Vec<(u8, usize)> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Variable {
    I,
    J,
    N,
    Random,
    Order,
    Bytes,
    Stars,
}

impl Word {
    /// Reads a word. A placeholder is a variable, numbers combined with it from left to right, and a width to pad
    /// it to with zeros: `{i}`, `{n/2-1}`, `{i:08}`, `{bytes*8}`.
    ///
    /// Variables: `i` the repetition, `j` the same counted from the end, `n` the size, `r` a random number below the
    /// size, `o` an item of the remembered reply, `bytes` and `stars` that many `x` or `*`. `space` and
    /// `line` stand for a space and a line end.
    ///
    /// Panics on anything else: scripts are part of the program.
    pub fn parse(text: &'static str) -> Word {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let close = rest.find('}').unwrap_or_else(|| panic!("no closing brace in {text}"));
            pieces.push(Piece::Text(&rest[..open]));
            pieces.push(place(&rest[open + 1..close]));
            rest = &rest[close + 1..];
        }
        pieces.push(Piece::Text(rest));
        Word(pieces)
    }

    /// Appends the word with its placeholders filled in.
    pub fn fill(&self, scope: &Scope<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Place { variable, width, operations } => {
                    fill_place(*variable, *width, operations, scope, out);
                }
            }
        }
    }
}

fn fill_place(variable: Variable, width: usize, operations: &[(u8, usize)], scope: &Scope<'_>, out: &mut Vec<u8>) {
    let start = match variable {
        Variable::I | Variable::Order => scope.i,
        Variable::J => scope.count - 1 - scope.i,
        Variable::N | Variable::Bytes | Variable::Stars => scope.n,
        Variable::Random => random(scope.i) % scope.n,
    };
    let value = operations.iter().fold(start, |value, (operator, by)| match operator {
        b'+' => value + by,
        b'-' => value.saturating_sub(*by),
        b'*' => value * by,
        b'/' => value / by,
        _ => value % by,
    });
    match variable {
        Variable::Bytes => out.resize(out.len() + value, b'x'),
        Variable::Stars => out.resize(out.len() + value, b'*'),
        Variable::Order => out.extend_from_slice(&scope.order[value % scope.order.len()]),
        _ => write!(out, "{value:0width$}").expect("memory takes it"),
    }
}

fn place(text: &str) -> Piece {
    let (text, width) = match text.split_once(':') {
        Some((text, width)) => (text, width.parse().expect("a width")),
        None => (text, 0),
    };
    let name_len = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let variable = match &text[..name_len] {
        "i" => Variable::I,
        "j" => Variable::J,
        "n" => Variable::N,
        "r" => Variable::Random,
        "o" => Variable::Order,
        "bytes" => Variable::Bytes,
        "stars" => Variable::Stars,
        "space" => return Piece::Text(" "),
        "line" => return Piece::Text("\n"),
        "nul" => return Piece::Text("\0"),
        other => panic!("no variable '{other}'"),
    };
    let mut operations = Vec::new();
    let mut rest = &text[name_len..];
    while let Some(operator) = rest.bytes().next() {
        assert!(b"+-*/%".contains(&operator), "no operator '{}' in {text}", operator as char);
        let number_len = rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1);
        operations.push((operator, rest[1..1 + number_len].parse().expect("a number")));
        rest = &rest[1 + number_len..];
    }
    Piece::Place { variable, width, operations }
}

/// A number that belongs to `i` and looks random.
fn random(i: usize) -> usize {
    (crate::rng::Rng::new(i as u64).next_u64() >> 8) as usize
}

/// A command whose middle part is repeated: `MSET | k:{i} v`, `ZUNION {n} | z:{i} | WITHSCORES`.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Word>,
    group: Vec<Word>,
    tail: Vec<Word>,
}

impl Template {
    /// Reads a template: up to three parts with `|` between them.
    pub fn parse(text: &'static str) -> Template {
        let mut parts = text.split(" | ").map(|part| part.split_whitespace().map(Word::parse).collect());
        let mut next = || parts.next().unwrap_or_default();
        Template { head: next(), group: next(), tail: next() }
    }

    /// Whether there is something to repeat.
    pub fn has_group(&self) -> bool {
        !self.group.is_empty()
    }

    /// Appends the command for repetition `scope.i`, its group repeated for the numbers `groups`.
    pub fn encode(&self, scope: &Scope<'_>, groups: std::ops::Range<usize>, out: &mut Vec<u8>) {
        let args = self.head.len() + self.group.len() * groups.len() + self.tail.len();
        write!(out, "*{args}\r\n").expect("memory takes it");
        let mut word_bytes = Vec::new();
        let mut append = |word: &Word, scope: &Scope<'_>| {
            word_bytes.clear();
            word.fill(scope, &mut word_bytes);
            write!(out, "${}\r\n", word_bytes.len()).expect("memory takes it");
            out.extend_from_slice(&word_bytes);
            out.extend_from_slice(b"\r\n");
        };
        self.head.iter().for_each(|word| append(word, scope));
        for i in groups {
            self.group.iter().for_each(|word| append(word, &Scope { i, ..*scope }));
        }
        self.tail.iter().for_each(|word| append(word, scope));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &'static str, groups: std::ops::Range<usize>) -> String {
        let order = [b"first".to_vec(), b"second".to_vec()];
        let mut out = Vec::new();
        let scope = Scope { n: 10, i: 3, count: 10, order: &order };
        Template::parse(text).encode(&scope, groups, &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", " ")
    }

    #[test]
    fn places_are_filled_in() {
        assert_eq!(encoded("A k:{i} {j} {n/2-1} {i:04}", 0..0), "*5 $1 A $3 k:3 $1 6 $1 4 $4 0003 ");
        assert_eq!(encoded("A {bytes/2} {stars*0} {o}", 0..0), "*4 $1 A $5 xxxxx $0  $6 second ");
    }

    #[test]
    fn groups_are_repeated() {
        assert_eq!(encoded("A {i} | {i} v | Z", 4..6), "*7 $1 A $1 3 $1 4 $1 v $1 5 $1 v $1 Z ");
    }
}
