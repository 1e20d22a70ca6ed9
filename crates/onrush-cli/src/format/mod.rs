//! Showing replies: for people, for scripts, as CSV and as JSON.

mod csv;
mod json;
mod raw;
mod tty;

pub use self::csv::format as csv;
pub use self::raw::format as raw;
use crate::args::Options;
use crate::reply::Reply;

/// How replies are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people: types, indices and quotes.
    Standard,
    /// The bytes alone.
    #[default]
    Raw,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
    /// JSON in ASCII, with other bytes as `\xHH` inside its strings.
    QuotedJson,
}

/// A reply in the form that `options` choose. `plain` is for texts that are shown unchanged, such as INFO's.
pub fn reply(reply: &Reply, options: &Options, plain: bool) -> Vec<u8> {
    let mut out = Vec::new();
    match options.output {
        _ if plain => raw::format(&mut out, reply, &options.element_delimiter),
        Output::Standard => tty::format(&mut out, reply, &mut Vec::new()),
        Output::Raw => {
            raw::format(&mut out, reply, &options.element_delimiter);
            out.extend_from_slice(&options.reply_delimiter);
        }
        Output::Csv => {
            csv::format(&mut out, reply);
            out.push(b'\n');
        }
        Output::Json | Output::QuotedJson => {
            json::format(&mut out, reply, options.output == Output::QuotedJson);
            out.push(b'\n');
        }
    }
    out
}

/// Appends each item, with `between` between them.
fn separated<T>(out: &mut Vec<u8>, items: &[T], between: &[u8], append: impl Fn(&mut Vec<u8>, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(between);
        }
        append(out, item);
    }
}

/// A push message; invalidated keys have a short form for people.
pub fn push(message: &Reply, options: &Options) -> Vec<u8> {
    if let (Output::Standard, Some([kind, Reply::Array(keys)])) = (options.output, message.items())
        && kind.bytes() == Some(b"invalidate")
    {
        let mut out = b"-> invalidate: ".to_vec();
        separated(&mut out, keys, b", ", |out, key| {
            out.push(b'\'');
            out.extend_from_slice(key.bytes().unwrap_or_default());
            out.push(b'\'');
        });
        out.push(b'\n');
        return out;
    }
    reply(message, options, false)
}
