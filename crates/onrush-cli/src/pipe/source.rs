//! Commands made of records: CSV rows and JSON lines, poured into a template.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use serde_json::value::RawValue;

use super::template::{Field, Template};
use crate::fail::Fail;

/// How much input is read, and output gathered, at once.
const CHUNK_LEN: usize = 256 << 10;
/// The longest line of JSON.
const LINE_LEN_MAX: u64 = 1 << 30;

/// Makes commands from CSV rows and passes them to `send` in chunks.
///
/// # Errors
/// With the line of the record that does not fit, or what `send` fails with.
pub fn csv(
    input: impl Read,
    mut template: Template,
    has_header: bool,
    mut send: impl FnMut(&[u8]) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut rows =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(CHUNK_LEN).from_reader(input);
    let mut row = csv::ByteRecord::new();
    let mut names = Vec::new();
    if has_header && rows.read_byte_record(&mut row).map_err(csv_error)? {
        names = row.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
    }
    template.resolve(&names)?;
    let (mut out, mut word) = (Vec::with_capacity(CHUNK_LEN * 2), Vec::new());
    loop {
        let whole = out.len();
        let made = match rows.read_byte_record(&mut row) {
            Ok(false) => return send(&out),
            Ok(true) => template.expand(&mut out, &mut word, |field, word| {
                let Field::Index(index) = field else { return Err(Fail::new("a name without a column")) };
                let column = row.get(*index).ok_or_else(|| {
                    let line = row.position().map_or(0, csv::Position::line);
                    Fail::new(format!("line {line}: there is no column {{{index}}}; the row has {}", row.len()))
                })?;
                word.extend_from_slice(column);
                Ok(())
            }),
            Err(error) => Err(csv_error(error)),
        };
        flush(made, whole, &mut out, &mut send)?;
    }
}

fn csv_error(error: csv::Error) -> Fail {
    match error.position() {
        Some(position) => Fail::new(format!("line {}: {error}", position.line())),
        None => Fail::new(error.to_string()),
    }
}

/// Makes commands from JSON lines, objects or arrays, and passes them to `send` in chunks. A string fills a hole with
/// its text, any other value with its JSON; blank lines are skipped.
///
/// # Errors
/// With the line that does not fit, or what `send` fails with.
pub fn json_lines(
    input: impl Read,
    template: &Template,
    mut send: impl FnMut(&[u8]) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut input = BufReader::with_capacity(CHUNK_LEN, input);
    let (mut line, mut line_number) = (Vec::new(), 0u64);
    let (mut out, mut word) = (Vec::with_capacity(CHUNK_LEN * 2), Vec::new());
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line);
        line_number += 1;
        if read.map_err(|error| Fail::new(format!("line {line_number}: {error}")))? == 0 {
            return send(&out);
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let whole = out.len();
        let made = json_line(text, template, &mut out, &mut word);
        let made = made.map_err(|what| Fail::new(format!("line {line_number}: {what}")));
        flush(made, whole, &mut out, &mut send)?;
    }
}

fn json_line(text: &[u8], template: &Template, out: &mut Vec<u8>, word: &mut Vec<u8>) -> Result<(), String> {
    if text[0] == b'[' {
        let items: Vec<&RawValue> = serde_json::from_slice(text).map_err(|error| json_error(&error))?;
        return template.expand(out, word, |field, word| match field {
            Field::Index(index) => fill(field, items.get(*index).copied(), word),
            Field::Name(name) => Err(format!("there is no field '{name}' in an array")),
        });
    }
    let fields: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(text).map_err(|error| json_error(&error))?;
    template.expand(out, word, |field, word| match field {
        Field::Index(index) => fill(field, fields.get(index.to_string().as_str()).copied(), word),
        Field::Name(name) => fill(field, fields.get(name.as_str()).copied(), word),
    })
}

fn fill(field: &Field, value: Option<&RawValue>, word: &mut Vec<u8>) -> Result<(), String> {
    let shown = match field {
        Field::Index(index) => index.to_string(),
        Field::Name(name) => name.clone(),
    };
    let Some(value) = value.map(RawValue::get) else { return Err(format!("there is no field '{shown}'")) };
    match value.as_bytes() {
        b"null" => return Err(format!("field '{shown}' is null")),
        [b'"', ..] => {
            let text: String = serde_json::from_str(value).map_err(|error| json_error(&error))?;
            word.extend_from_slice(text.as_bytes());
        }
        json => word.extend_from_slice(json),
    }
    Ok(())
}

/// The reason without serde's own line number, which counts within one line; the column stays.
fn json_error(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column", " at column")
}

/// Sends the gathered commands when there are enough, or when an error ends the input.
fn flush(
    made: Result<(), Fail>,
    whole: usize,
    out: &mut Vec<u8>,
    send: &mut impl FnMut(&[u8]) -> Result<(), Fail>,
) -> Result<(), Fail> {
    if made.is_err() {
        out.truncate(whole);
    }
    if made.is_err() || out.len() >= CHUNK_LEN {
        send(out)?;
        out.clear();
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &str, template: &str, kind: &str) -> (String, Result<(), Fail>) {
        let template = Template::parse(template.as_bytes()).unwrap();
        let mut sent = Vec::new();
        let send = |bytes: &[u8]| {
            sent.extend_from_slice(bytes);
            Ok(())
        };
        let done = match kind {
            "jsonl" => json_lines(input.as_bytes(), &template, send),
            _ => csv(input.as_bytes(), template, kind == "header", send),
        };
        (String::from_utf8(sent).unwrap(), done)
    }

    #[test]
    fn csv_rows_become_commands() {
        let (sent, done) = words("1,bob\n2,\"a, b\"\"\nc\"\n", "SET {0} {1}", "csv");
        done.unwrap();
        assert_eq!(
            sent,
            "*3\r\n$3\r\nSET\r\n$1\r\n1\r\n$3\r\nbob\r\n*3\r\n$3\r\nSET\r\n$1\r\n2\r\n$7\r\na, b\"\nc\r\n"
        );
        let (sent, done) = words("name,id\nbob,1\n", "SET {id} {name}", "header");
        done.unwrap();
        assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$1\r\n1\r\n$3\r\nbob\r\n");
    }

    #[test]
    fn a_row_too_short_is_named_by_its_line_and_those_before_are_sent() {
        let (sent, done) = words("a\n\"b\nb\"\n\nc,d\n", "PING {0} {1}", "csv");
        assert_eq!(sent, "");
        assert!(done.unwrap_err().to_string().starts_with("line 1:"));
        let (sent, done) = words("a,b\nc,\"x\ny\"\nd\n", "PING {1}", "csv");
        assert!(sent.ends_with("$3\r\nx\ny\r\n"));
        assert_eq!(done.unwrap_err().to_string(), "line 4: there is no column {1}; the row has 1");
    }

    #[test]
    fn json_lines_become_commands() {
        let input = "{\"id\": 12345678901234567890123, \"name\": \"b\\u00f6b\\n\", \"x\": [1, 2]}\n\n[\"id\", true]\n";
        let (sent, done) = words(input, "SET {id} {name} {x}", "jsonl");
        assert!(
            sent.starts_with("*4\r\n$3\r\nSET\r\n$23\r\n12345678901234567890123\r\n$5\r\nböb\n\r\n$6\r\n[1, 2]\r\n")
        );
        assert_eq!(done.unwrap_err().to_string(), "line 3: there is no field 'id' in an array");
        let (sent, done) = words("[\"a\", true]\n", "SET {0} {1}", "jsonl");
        done.unwrap();
        assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\ntrue\r\n");
    }

    #[test]
    fn a_line_that_is_no_json_is_named() {
        for (input, message) in [
            ("{\"a\":1}\n{\"a\":\n", "line 2: EOF"),
            ("{\"b\":1}", "line 1: there is no field 'a'"),
            ("{\"a\":null}", "line 1: field 'a' is null"),
            ("5", "line 1: invalid type"),
        ] {
            let (_, done) = words(input, "PING {a}", "jsonl");
            let error = done.unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
