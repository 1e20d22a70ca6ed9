//! Hand-made sequences: `cases/*.txt`.
//!
//! A file is a list of sequences. Lines:
//! - `# …` and empty lines are ignored;
//! - `[name]`, `[name resp2]` or `[name resp3]` starts a sequence with an empty keyspace and fresh connections,
//!   run in both protocols unless one is named;
//! - a command with redis-cli's quoting; `@2 …` sends it on the second connection (up to `@9`);
//! - `=> "raw reply"` behind a command gives the raw reply of 7.2 where the older oracle replies otherwise; the newer one
//!   is compared all the same;
//! - `!until "raw reply" command …` repeats the command on each server until it replies so;
//! - `SCANALL …` stands for a whole SCAN with these options; the set of keys is compared.
//! - `{name}` inside a word is replaced: `{long:N}` by N times `x`, `{now+S}` and `{nowms+MS}` by Unix times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::argv::Argv;
use crate::diff::{Action, Sequence, Step};

/// The folder with the hand-made sequences.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// A sequence with its name and the protocols it is for.
#[derive(Debug)]
pub struct Case {
    /// `file: name`.
    pub name: String,
    /// The sequence, once per protocol.
    pub sequences: Vec<Sequence>,
}

/// Reads one file. Panics on malformed lines, naming file and line.
pub fn read(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    parse(&file, &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn parse(file: &str, text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<(String, Vec<u8>, Vec<Step>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let fail = |reason: &str| format!("line {}: {reason}", index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let (name, protocols) = match header.rsplit_once(' ') {
                Some((name, "resp2")) => (name, vec![2]),
                Some((name, "resp3")) => (name, vec![3]),
                _ => (header, vec![2, 3]),
            };
            cases.push((format!("{file}: {name}"), protocols, Vec::new()));
            continue;
        }
        let steps = &mut cases.last_mut().ok_or_else(|| fail("a command before the first [name]"))?.2;
        if let Some(reply) = line.strip_prefix("=> ") {
            let want = Argv::parse(reply)?.0.pop().ok_or_else(|| fail("no reply given"))?;
            match steps.last_mut().map(|s| &mut s.action) {
                Some(Action::Call { expect, .. }) => *expect = Some(want),
                _ => return Err(fail("no command before the expected reply")),
            }
            continue;
        }
        steps.push(parse_step(line).map_err(|e| fail(&e))?);
    }
    let sequence = |steps: &Vec<Step>, protocol| Sequence { protocol, steps: steps.clone() };
    Ok(cases
        .into_iter()
        .map(|(name, protocols, steps)| Case {
            name,
            sequences: protocols.into_iter().map(|p| sequence(&steps, p)).collect(),
        })
        .collect())
}

fn parse_step(line: &str) -> Result<Step, String> {
    let (conn, line) = match line.strip_prefix('@').and_then(|l| l.split_once(' ')) {
        Some((number, rest)) => (number.parse::<usize>().map_err(|e| e.to_string())? - 1, rest),
        None => (0, line),
    };
    let (until, line) = match line.strip_prefix("!until ") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let mut argv = Argv::parse(line)?;
    for arg in &mut argv.0 {
        replace(arg)?;
    }
    let action = match () {
        _ if until => {
            let want = argv.0.remove(0);
            Action::Until { argv, want }
        }
        _ if argv.upper(0) == "SCANALL" => Action::ScanAll(Argv(argv.0[1..].to_vec())),
        _ => Action::Call { argv, expect: None },
    };
    Ok(Step { conn, action })
}

/// Puts in the long strings and times that a word names.
fn replace(arg: &mut Vec<u8>) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(arg) else {
        return Ok(());
    };
    let Some((before, rest)) = text.split_once('{') else {
        return Ok(());
    };
    let Some((name, after)) = rest.split_once('}') else {
        return Ok(());
    };
    let number = |text: &str| text.parse::<i64>().map_err(|e| format!("{{{name}}}: {e}"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock behind 1970");
    let value = if let Some(len) = name.strip_prefix("long:") {
        "x".repeat(number(len)? as usize)
    } else if let Some(offset) = name.strip_prefix("nowms") {
        (now.as_millis() as i64 + number(offset)?).to_string()
    } else if let Some(offset) = name.strip_prefix("now") {
        (now.as_secs() as i64 + number(offset)?).to_string()
    } else {
        return Ok(());
    };
    *arg = [before.as_bytes(), value.as_bytes(), after.as_bytes()].concat();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_file_has_sequences_connections_and_expectations() {
        let text = "# c\n[one]\nSET a {long:3}\n@2 GET a\n=> \"$3\\r\\nxxx\\r\\n\"\n[two resp3]\nSCANALL COUNT 1\n!until :0 EXISTS a\n";
        let cases = parse("f", text).unwrap();
        assert_eq!((cases.len(), cases[0].sequences.len(), cases[1].sequences.len()), (2, 2, 1));
        let steps = &cases[0].sequences[0].steps;
        assert_eq!(steps[1].conn, 1);
        assert!(matches!(&steps[1].action, Action::Call { expect: Some(e), .. } if e == b"$3\r\nxxx\r\n"));
        assert!(matches!(cases[1].sequences[0].steps[1].action, Action::Until { .. }));
    }

    #[test]
    fn malformed_lines_are_named() {
        assert!(parse("f", "GET a").unwrap_err().contains("line 1"));
        assert!(parse("f", "[a]\nGET \"a").is_err());
    }
}
