//! Commands as the tests hold them: a list of binary arguments, with redis-cli's quoting for reading and printing.

use std::fmt;

/// One command: its name and arguments, binary safe.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Argv(pub Vec<Vec<u8>>);

impl Argv {
    /// Builds a command from anything that looks like bytes.
    pub fn new<T: AsRef<[u8]>>(args: &[T]) -> Self {
        Argv(args.iter().map(|a| a.as_ref().to_vec()).collect())
    }

    /// Reads one line with redis-cli's quoting. Errors: an unbalanced quote, or text right after a closing quote.
    pub fn parse(line: &str) -> Result<Self, String> {
        split_line(line.as_bytes()).map(Argv)
    }

    /// Appends the command as a multibulk of bulks.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*{}\r\n", self.0.len()).as_bytes());
        for arg in &self.0 {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The argument at `index` in upper case, or an empty string when there is none.
    pub fn upper(&self, index: usize) -> String {
        match self.0.get(index) {
            Some(arg) => String::from_utf8_lossy(arg).to_ascii_uppercase(),
            None => String::new(),
        }
    }

    /// The whole command in redis-cli's quoting, to be pasted into a case file.
    pub fn quoted(&self) -> String {
        self.0.iter().map(|a| quote(a, usize::MAX)).collect::<Vec<_>>().join(" ")
    }
}

/// Like [`Argv::quoted`], but long arguments are cut so that a failure stays readable.
impl fmt::Display for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<_> = self.0.iter().map(|a| quote(a, 120)).collect();
        f.write_str(&args.join(" "))
    }
}

impl fmt::Debug for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Builds an [`Argv`]: `argv!["SET", key, b"\x00"]`.
#[macro_export]
macro_rules! argv {
    ($($arg:expr),* $(,)?) => {
        $crate::argv::Argv(vec![$(AsRef::<[u8]>::as_ref(&$arg).to_vec()),*])
    };
}

/// Quotes one argument: bare where possible, else in double quotes; shows at most `len_max` of its bytes.
pub fn quote(arg: &[u8], len_max: usize) -> String {
    let bare = |b: &u8| b.is_ascii_graphic() && !b"\"'\\".contains(b);
    let mut text = String::new();
    if !arg.is_empty() && arg.len() <= len_max && arg.iter().all(bare) {
        text.push_str(&String::from_utf8_lossy(arg));
        return text;
    }
    text.push('"');
    for &byte in &arg[..arg.len().min(len_max)] {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    if arg.len() > len_max {
        text.push_str(&format!("…({} bytes)", arg.len()));
    }
    text
}

/// Splits a line the way redis-cli does: blanks between arguments, `"` with `\n \r \t \b \a \xHH`, `'` with `\'`.
pub fn split_line(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut args = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(args);
        }
        let (arg, tail) =
            split_argument(rest).ok_or_else(|| format!("unbalanced quotes in: {}", String::from_utf8_lossy(line)))?;
        args.push(arg);
        rest = tail;
    }
}

fn split_argument(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut arg = Vec::new();
    let mut at = 0;
    while at < text.len() && !text[at].is_ascii_whitespace() {
        match text[at] {
            quote @ (b'"' | b'\'') => {
                at = unquote(text, at + 1, quote, &mut arg)?;
                let ends = at == text.len() || text[at].is_ascii_whitespace();
                return ends.then(|| (arg, &text[at..]));
            }
            byte => arg.push(byte),
        }
        at += 1;
    }
    Some((arg, &text[at..]))
}

/// Reads up to the closing quote; returns the index after it.
fn unquote(text: &[u8], mut at: usize, quote: u8, arg: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *text.get(at)? {
            byte if byte == quote => return Some(at + 1),
            b'\\' if quote == b'\'' && text.get(at + 1) == Some(&b'\'') => {
                arg.push(b'\'');
                at += 2;
            }
            b'\\' if quote == b'"' => {
                let escape = *text.get(at + 1)?;
                let hex = text.get(at + 2..at + 4).and_then(|h| std::str::from_utf8(h).ok());
                let hex = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
                at += 2;
                match (escape, hex) {
                    (b'x', Some(byte)) => {
                        arg.push(byte);
                        at += 2;
                    }
                    (b'n', _) => arg.push(b'\n'),
                    (b'r', _) => arg.push(b'\r'),
                    (b't', _) => arg.push(b'\t'),
                    (b'b', _) => arg.push(8),
                    (b'a', _) => arg.push(7),
                    (other, _) => arg.push(other),
                }
            }
            byte => {
                arg.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn quoting_and_splitting_are_inverse() {
        let mut rng = Rng::new(3);
        for _ in 0..500 {
            let args: Vec<Vec<u8>> =
                (0..1 + rng.below(4)).map(|_| (0..rng.below(9)).map(|_| rng.next_u64() as u8).collect()).collect();
            let argv = Argv(args);
            assert_eq!(Argv::parse(&argv.quoted()).unwrap(), argv);
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        assert!(Argv::parse("GET \"a").is_err());
        assert!(Argv::parse("GET \"a\"b").is_err());
        assert_eq!(Argv::parse(r"A 'x\'y'").unwrap(), argv!["A", "x'y"]);
    }

    #[test]
    fn commands_are_encoded_as_multibulk() {
        let mut out = Vec::new();
        argv!["GET", "k"].encode(&mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
