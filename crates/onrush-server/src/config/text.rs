//! Rules for texts.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::directive::TextRule;
use super::words::Reason;

const HOSTNAME_LEN_MAX: usize = 255;

/// Variables a title template may use.
const TITLE_VARIABLES: &[&str] =
    &["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

/// Checks a text and returns what to keep of it. A relative directory begins at `base`.
///
/// # Errors
/// Which part of the rule the text breaks.
pub fn check_text(rule: TextRule, name: &str, word: &[u8], base: &Path) -> Result<Vec<u8>, Reason> {
    let is_name = !matches!(rule, TextRule::Any);
    if is_name && word.contains(&0) {
        return Err(format!("{name} can't contain a null byte").into());
    }
    let is_path = word.contains(&b'/');
    Err(match rule {
        TextRule::FileNameNotEmpty | TextRule::FolderName if word.is_empty() => format!("{name} can't be empty").into(),
        TextRule::FolderName if is_path => format!("{name} can't be a path, just a dirname").into(),
        TextRule::FileName | TextRule::FileNameNotEmpty if is_path => {
            format!("{name} can't be a path, just a filename").into()
        }
        TextRule::Directory => return directory(word, base),
        TextRule::Hostname if word.len() > HOSTNAME_LEN_MAX => "Hostnames must be less than 256 characters".into(),
        TextRule::Hostname if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte)) => {
            "Hostnames may only contain alphanumeric characters, hyphens or dots".into()
        }
        TextRule::NodeName if word.iter().any(breaks_nodes) => {
            "Announced human node name contained invalid character".into()
        }
        TextRule::NodeAddress if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._:%".contains(byte)) => {
            "Announced IP contained invalid character".into()
        }
        TextRule::TitleTemplate if !is_title_template(word) => {
            "template format is invalid or contains unknown variables".into()
        }
        _ => return Ok(word.to_vec()),
    })
}

/// Whether the name of a node may not have a byte: some would break the file of nodes.
fn breaks_nodes(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b",!#$%&()*+:;<>?@[]^{|}~\"".contains(byte)
}

fn directory(word: &[u8], base: &Path) -> Result<Vec<u8>, Reason> {
    let path = base.join(std::ffi::OsStr::from_bytes(word));
    if word.is_empty() {
        return Err("No such file or directory".into());
    }
    let path = path.canonicalize().map_err(|error| Reason::from(os_reason(&error)))?;
    if !path.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(path.into_os_string().into_vec())
}

/// The system's words for an error, without the number the standard library adds.
pub fn os_reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Not empty, and every `{…}` closed and known.
fn is_title_template(word: &[u8]) -> bool {
    let Ok(mut rest) = std::str::from_utf8(word) else {
        return false;
    };
    if rest.is_empty() {
        return false;
    }
    while let Some((_, after)) = rest.split_once('{') {
        match after.split_once('}') {
            Some((variable, after)) if TITLE_VARIABLES.contains(&variable) => rest = after,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: TextRule, word: &str) -> Result<String, String> {
        match check_text(rule, "dbfilename", word.as_bytes(), Path::new("/")) {
            Ok(text) => Ok(String::from_utf8(text).unwrap()),
            Err(reason) => Err(reason.into_owned()),
        }
    }

    #[test]
    fn a_file_name_is_not_a_path() {
        assert_eq!(check(TextRule::FileName, "a/b"), Err("dbfilename can't be a path, just a filename".into()));
        assert_eq!(check(TextRule::FileName, "a\0b"), Err("dbfilename can't contain a null byte".into()));
        assert_eq!(check(TextRule::FileName, ""), Ok("".into()));
        assert_eq!(check(TextRule::FileNameNotEmpty, ""), Err("dbfilename can't be empty".into()));
    }

    #[test]
    fn a_directory_must_exist_and_becomes_absolute() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let there = check_text(TextRule::Directory, "dir", b".", &here).unwrap();
        assert_eq!(there, here.as_os_str().as_bytes());
        assert_eq!(check(TextRule::Directory, "/nowhere/at/all"), Err("No such file or directory".into()));
        assert_eq!(check(TextRule::Directory, "/proc/self/status"), Err("Not a directory".into()));
    }

    #[test]
    fn what_goes_into_the_file_of_nodes_does_not_break_it() {
        for word in ["a b", "a,b", "a\nb", "a\tb", "a\0b"] {
            assert!(
                check(TextRule::NodeName, word).is_err() && check(TextRule::NodeAddress, word).is_err(),
                "{word:?}"
            );
        }
        assert!(
            check(TextRule::NodeName, "node-1_a/b=c").is_ok() && check(TextRule::NodeAddress, "fe80::1%eth0").is_ok()
        );
    }

    #[test]
    fn titles_use_known_variables() {
        for (template, fine) in
            [("plain", true), ("{title} {port}}", true), ("{x}", false), ("{title", false), ("", false)]
        {
            assert_eq!(check(TextRule::TitleTemplate, template).is_ok(), fine, "{template}");
        }
    }

    #[test]
    fn hostnames_are_letters_digits_hyphens_and_dots() {
        assert!(check(TextRule::Hostname, "node-1.example.org").is_ok());
        assert!(check(TextRule::Hostname, "a_b").is_err());
        assert!(check(TextRule::Hostname, &"a".repeat(256)).is_err());
    }
}
