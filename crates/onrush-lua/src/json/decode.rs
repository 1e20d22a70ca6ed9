//! `cjson.decode`

use super::Options;
use crate::stack::{NESTING_MAX, Outcome, Raised, Stack};

pub(super) fn decode(stack: &Stack<'_>) -> Outcome {
    stack.refuse_argument_if(stack.top() != 1, 1, "expected 1 argument")?;
    let text = stack.check_text(1)?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(stack.raise("JSON parser does not support UTF-16 or UTF-32"));
    }
    stack.work(text.len() / 16)?;
    let options = stack.world().json.get();
    stack.world().with_scratch(|string| {
        let mut decoder = Decoder { stack, text, at: 0, start: 0, string, depth: 0, options: &options };
        let token = decoder.token();
        decoder.value(token)?;
        match decoder.token() {
            Token::End => Ok(1),
            token => Err(decoder.unexpected("the end", &token)),
        }
    })
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its bytes are in the decoder's buffer.
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid(problem) => problem,
        }
    }
}

struct Decoder<'a> {
    stack: &'a Stack<'a>,
    text: &'a [u8],
    at: usize,
    /// Where the last token began, or what is wrong with it.
    start: usize,
    string: &'a mut Vec<u8>,
    depth: u32,
    options: &'a Options,
}

impl Decoder<'_> {
    #[cold]
    fn unexpected(&self, expected: &str, found: &Token) -> Raised {
        let (found, at) = (found.name(), self.start + 1);
        self.stack.raise(format!("Expected {expected} but found {found} at character {at}"))
    }

    /// Pushes the value that a token begins.
    fn value(&mut self, token: Token) -> Result<(), Raised> {
        self.stack.work(4)?;
        match token {
            Token::String => self.stack.push_bytes(self.string),
            Token::Number(number) => self.stack.push_number(number),
            Token::Boolean(value) => self.stack.push_boolean(value),
            Token::Null => self.stack.push_null_pointer(),
            Token::ObjectBegin => self.object()?,
            Token::ArrayBegin => self.array()?,
            token => return Err(self.unexpected("value", &token)),
        }
        Ok(())
    }

    fn descend(&mut self) -> Result<(), Raised> {
        self.depth += 1;
        if self.depth <= self.options.decode_depth.min(NESTING_MAX) && self.stack.has_space(8) {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(self.stack.raise(format!("Found too many nested data structures ({depth}) at character {at}")))
    }

    fn object(&mut self) -> Result<(), Raised> {
        self.descend()?;
        self.stack.push_table(0, 0);
        let mut token = self.token();
        if !matches!(token, Token::ObjectEnd) {
            loop {
                if !matches!(token, Token::String) {
                    return Err(self.unexpected("object key string", &token));
                }
                self.stack.push_bytes(self.string);
                match self.token() {
                    Token::Colon => {}
                    token => return Err(self.unexpected("colon", &token)),
                }
                let value = self.token();
                self.value(value)?;
                self.stack.set(-3);
                self.stack.check_memory()?;
                match self.token() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.token(),
                    token => return Err(self.unexpected("comma or object end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Raised> {
        self.descend()?;
        self.stack.push_table(0, 0);
        let mut token = self.token();
        if !matches!(token, Token::ArrayEnd) {
            for nth in 1.. {
                self.value(token)?;
                self.stack.set_nth(-2, nth);
                self.stack.check_memory()?;
                match self.token() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.token(),
                    token => return Err(self.unexpected("comma or array end", &token)),
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// The byte at a distance. After the end it is a NUL, as in a C string.
    fn peek(&self, distance: usize) -> u8 {
        self.text.get(self.at + distance).copied().unwrap_or_default()
    }

    fn token(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.string_token(),
            b'-' | b'0'..=b'9' if !self.options.decode_invalid && self.is_invalid_number() => {
                return Token::Invalid("invalid number");
            }
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let words = [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)];
        for (word, token) in words {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        if self.options.decode_invalid && self.is_invalid_number() {
            return self.number();
        }
        Token::Invalid("invalid token")
    }

    /// Whether the text here is a number for C but not for JSON.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let sign = usize::from(self.peek(0) == b'-');
        match self.peek(sign) {
            b'0' => matches!(self.peek(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            ..=b'9' => false,
            _ => {
                let word = self.text.get(self.at + sign..self.at + sign + 3).unwrap_or_default();
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match read_number(&self.text[self.at..]) {
            Some((value, len)) => {
                self.at += len;
                Token::Number(value)
            }
            None => Token::Invalid("invalid number"),
        }
    }

    fn string_token(&mut self) -> Token {
        self.string.clear();
        self.at += 1;
        loop {
            let rest = &self.text[self.at.min(self.text.len())..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            self.string.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Token::String;
                }
                b'\\' => {
                    if let Err(problem) = self.escape() {
                        self.start = self.at;
                        return Token::Invalid(problem);
                    }
                }
                _ => {
                    self.start = self.at;
                    return Token::Invalid("unexpected end of string");
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        let byte = match self.peek(1) {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (character, len) = self.unicode().ok_or("invalid unicode escape code")?;
                self.string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += len;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        self.string.push(byte);
        self.at += 2;
        Ok(())
    }

    /// The character written here as one or two `\uXXXX`, and the length of these.
    fn unicode(&self) -> Option<(char, usize)> {
        const LEN: usize = 6;
        let first = self.hex(2)?;
        if !(0xd800..0xe000).contains(&first) {
            return Some((char::from_u32(first)?, LEN));
        }
        if first >= 0xdc00 || self.peek(LEN) != b'\\' || self.peek(LEN + 1) != b'u' {
            return None;
        }
        let second = self.hex(LEN + 2)?;
        if !(0xdc00..0xe000).contains(&second) {
            return None;
        }
        Some((char::from_u32(0x10000 + ((first & 0x3ff) << 10 | second & 0x3ff))?, 2 * LEN))
    }

    fn hex(&self, distance: usize) -> Option<u32> {
        (0..4).try_fold(0, |value, at| Some(value << 4 | char::from(self.peek(distance + at)).to_digit(16)?))
    }
}

/// The number at the beginning of a text and its length, as C's `strtod` reads it.
fn read_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let rest = &text[sign..];
    let (value, len) = read_word(rest).or_else(|| read_hex(rest)).or_else(|| read_decimal(rest))?;
    Some((if text[0] == b'-' { -value } else { value }, sign + len))
}

fn read_word(text: &[u8]) -> Option<(f64, usize)> {
    let begins = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    let words = [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)];
    words.into_iter().find(|(word, _)| begins(word)).map(|(word, value)| (value, word.len()))
}

fn digits(text: &[u8], is_digit: impl Fn(&u8) -> bool) -> usize {
    text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len())
}

/// The length of digits that may have a point in them, and how many stand behind the point.
fn mantissa(text: &[u8], is_digit: impl Fn(&u8) -> bool + Copy) -> Option<(usize, usize)> {
    let whole = digits(text, is_digit);
    let (mut len, mut fraction) = (whole, 0);
    if text.get(whole) == Some(&b'.') {
        fraction = digits(&text[whole + 1..], is_digit);
        len += 1 + fraction;
    }
    (whole + fraction > 0).then_some((len, fraction))
}

/// The digits of an exponent, with their sign.
fn exponent(power: &[u8]) -> Option<&[u8]> {
    let sign = usize::from(matches!(power.first(), Some(b'-' | b'+')));
    let count = digits(&power[sign..], u8::is_ascii_digit);
    (count > 0).then(|| &power[..sign + count])
}

fn read_hex(text: &[u8]) -> Option<(f64, usize)> {
    let [b'0', b'x' | b'X', rest @ ..] = text else { return None };
    let (mut len, fraction) = mantissa(rest, u8::is_ascii_hexdigit)?;
    let mut value = 0.0;
    for &byte in rest[..len].iter().filter(|byte| **byte != b'.') {
        value = value * 16.0 + f64::from(char::from(byte).to_digit(16).unwrap_or_default());
    }
    let mut power = -4 * fraction as i32;
    if let [b'p' | b'P', rest @ ..] = &rest[len..]
        && let Some(digits) = exponent(rest)
    {
        let text = std::str::from_utf8(digits).unwrap_or_default();
        power = power.saturating_add(text.parse::<i32>().unwrap_or(i32::MAX));
        len += 1 + digits.len();
    }
    Some((value * 2f64.powi(power), 2 + len))
}

fn read_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let (mut len, _) = mantissa(text, u8::is_ascii_digit)?;
    if let [b'e' | b'E', rest @ ..] = &text[len..]
        && let Some(digits) = exponent(rest)
    {
        len += 1 + digits.len();
    }
    let value = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((value, len))
}
