//! The replies that clients get.

use std::fmt::{Display, Formatter, Result};

/// A reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// `+OK`
    Status(String),
    /// `-ERR …`; the model gives only how it begins.
    Error(String),
    /// `:1`
    Int(i64),
    /// A string.
    Bulk(String),
    /// No string, or no array.
    Nil,
    /// An array.
    Array(Vec<Self>),
}

impl Reply {
    /// `+OK`
    pub fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    /// A string, or none.
    pub fn bulk(text: Option<&str>) -> Self {
        text.map_or(Self::Nil, |text| Self::Bulk(text.to_owned()))
    }

    /// Takes the first reply from `bytes`; `None` if it is not complete or malformed.
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let line = take_line(bytes)?;
        let (kind, rest) = line.split_at_checked(1)?;
        Some(match kind {
            "+" => Self::Status(rest.to_owned()),
            "-" => Self::Error(rest.to_owned()),
            ":" => Self::Int(rest.parse().ok()?),
            "$" | "*" if rest == "-1" => Self::Nil,
            "$" => {
                let (text, after) = bytes.split_at_checked(rest.parse().ok()?)?;
                *bytes = after.strip_prefix(b"\r\n")?;
                Self::Bulk(String::from_utf8_lossy(text).into_owned())
            }
            "*" => {
                let len: usize = rest.parse().ok()?;
                Self::Array((0..len).map(|_| Self::take(bytes)).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// The elements of an array; others have none.
    pub fn items(self) -> Vec<Self> {
        if let Self::Array(replies) = self { replies } else { Vec::new() }
    }

    /// The same array, sorted: for replies whose elements come in any order.
    pub fn sorted(self) -> Self {
        match self {
            Self::Array(mut replies) => {
                replies.sort();
                Self::Array(replies)
            }
            other => other,
        }
    }

    /// Whether this is what the model expects. Of an error only the beginning counts.
    pub fn is(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Error(text), Self::Error(start)) => text.starts_with(start),
            (Self::Array(replies), Self::Array(expected)) => {
                replies.len() == expected.len() && replies.iter().zip(expected).all(|(reply, other)| reply.is(other))
            }
            _ => self == expected,
        }
    }
}

fn take_line<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[..end]).ok();
    *bytes = &bytes[end + 2..];
    line
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Status(text) => f.write_str(text),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(text) => write!(f, "\"{text}\""),
            Self::Nil => f.write_str("nil"),
            Self::Array(replies) => {
                let texts: Vec<String> = replies.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", texts.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_one_by_one_and_what_is_not_complete_is_none() {
        let mut bytes: &[u8] = b"+OK\r\n:-7\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n*-1\r\n-ERR no\r\n$5\r\nab";
        let replies: Vec<String> =
            std::iter::from_fn(|| Reply::take(&mut bytes)).map(|reply| reply.to_string()).collect();
        assert_eq!(replies, ["OK", "-7", "\"a\r\n\"", "[nil nil]", "-ERR no"]);
    }
}
