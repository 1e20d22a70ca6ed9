//! Commands with holes: `SET user:{id} "{name} {1}"`.

use onrush_resp::split_words;

use crate::fail::Fail;

/// The content of a hole: a column by its number (from 0), or a field by its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// `{0}`
    Index(usize),
    /// `{name}`
    Name(String),
}

#[derive(Debug, PartialEq)]
enum Part {
    Text(Vec<u8>),
    Hole(Field),
}

/// A command whose words have holes. `{{` and `}}` are the braces themselves; quotes are those of the command line, and
/// what fills a hole is never split into words.
#[derive(Debug)]
pub struct Template {
    words: Vec<Vec<Part>>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Template, Fail> {
        let words = split_words(text).ok_or_else(|| Fail::new("--template: the quotes do not fit."))?;
        if words.is_empty() {
            return Err(Fail::new("--template: it names no command."));
        }
        let words = words.iter().map(|word| parse_word(word)).collect::<Result<_, _>>()?;
        Ok(Template { words })
    }

    /// Replaces names by the columns that `names` lists.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn resolve(&mut self, names: &[String]) -> Result<(), Fail> {
        for part in self.words.iter_mut().flatten() {
            if let Part::Hole(field @ Field::Name(_)) = part {
                let Field::Name(name) = field else { continue };
                let Some(index) = names.iter().position(|known| known == name) else {
                    let known = if names.is_empty() {
                        "columns have names only with --csv-header".to_owned()
                    } else {
                        format!("there are {}", names.join(", "))
                    };
                    return Err(Fail::new(format!("--template: there is no column '{name}'; {known}.")));
                };
                *field = Field::Index(index);
            }
        }
        Ok(())
    }

    /// Appends the command as RESP; `fill` appends a field's bytes.
    ///
    /// # Errors
    /// Those of `fill`; then what has been appended must be dropped.
    pub fn expand<E>(
        &self,
        out: &mut Vec<u8>,
        word: &mut Vec<u8>,
        mut fill: impl FnMut(&Field, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        header(out, b'*', self.words.len());
        for parts in &self.words {
            word.clear();
            for part in parts {
                match part {
                    Part::Text(text) => word.extend_from_slice(text),
                    Part::Hole(field) => fill(field, word)?,
                }
            }
            header(out, b'$', word.len());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}

fn header(out: &mut Vec<u8>, marker: u8, number: usize) {
    let mut digits = itoa::Buffer::new();
    out.push(marker);
    out.extend_from_slice(digits.format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn parse_word(word: &[u8]) -> Result<Vec<Part>, Fail> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut at = 0;
    while let Some(&byte) = word.get(at) {
        match (byte, word.get(at + 1)) {
            (b'{' | b'}', Some(&next)) if next == byte => {
                text.push(byte);
                at += 2;
            }
            (b'{', _) => {
                let len =
                    memchr::memchr(b'}', &word[at..]).ok_or_else(|| Fail::new("--template: a '{' without '}'."))?;
                let name = String::from_utf8_lossy(&word[at + 1..at + len]).into_owned();
                if name.is_empty() {
                    return Err(Fail::new("--template: '{}' names no field; say {0} or {name}."));
                }
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Hole(name.parse().map_or(Field::Name(name), Field::Index)));
                at += len + 1;
            }
            (b'}', _) => return Err(Fail::new("--template: a '}' without '{'; say }} for the brace itself.")),
            _ => {
                text.push(byte);
                at += 1;
            }
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(template: &Template, columns: &[&str]) -> String {
        let mut out = Vec::new();
        let done: Result<(), ()> = template.expand(&mut out, &mut Vec::new(), |field, word| {
            let Field::Index(index) = field else { return Err(()) };
            word.extend_from_slice(columns[*index].as_bytes());
            Ok(())
        });
        done.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn holes_are_filled_inside_words() {
        let template = Template::parse(br#"SET user:{0} "{1} and {{x}}" ''"#).unwrap();
        let expected = "*4\r\n$3\r\nSET\r\n$6\r\nuser:7\r\n$11\r\na b and {x}\r\n$0\r\n\r\n";
        assert_eq!(expand(&template, &["7", "a b"]), expected);
    }

    #[test]
    fn names_become_columns() {
        let mut template = Template::parse(b"SET {id} {name}").unwrap();
        template.resolve(&["name".into(), "id".into()]).unwrap();
        assert_eq!(expand(&template, &["bob", "1"]), "*3\r\n$3\r\nSET\r\n$1\r\n1\r\n$3\r\nbob\r\n");
        let mut unknown = Template::parse(b"SET {id} {age}").unwrap();
        assert!(unknown.resolve(&["id".into()]).unwrap_err().to_string().contains("'age'"));
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for text in ["", "SET \"a", "SET {", "SET {}", "SET a}b"] {
            assert!(Template::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
