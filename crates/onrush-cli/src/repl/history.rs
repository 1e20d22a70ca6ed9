//! The history file: one line each, as redis-cli writes it, and never a secret.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::replacement::Replacement;

/// How many lines are kept in the file.
const LINES_MAX: usize = 1000;

/// Where history is kept between sessions.
pub struct HistoryFile {
    path: Option<PathBuf>,
}

impl HistoryFile {
    /// `$REDISCLI_HISTFILE`, or `.rediscli_history` at home. `/dev/null` means no file.
    pub fn locate() -> HistoryFile {
        HistoryFile { path: dot_file("REDISCLI_HISTFILE", ".rediscli_history") }
    }

    /// The lines of earlier sessions, oldest first. Cuts a file that has grown long.
    pub fn load(&self) -> Vec<String> {
        let Some(path) = &self.path else { return Vec::new() };
        let Ok(bytes) = fs::read(path) else { return Vec::new() };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let kept = lines[lines.len().saturating_sub(LINES_MAX)..].to_vec();
        if lines.len() > LINES_MAX * 2 {
            // A history that cannot be cut is read all the same.
            let cut = fs::canonicalize(path).and_then(|path| Replacement::create(&path, 0o600));
            let _ = cut.and_then(|mut cut| {
                cut.write_all((kept.join("\n") + "\n").as_bytes())?;
                cut.take_place()
            });
        }
        kept
    }

    /// Adds a line. A history that cannot be written is no reason to stop.
    pub fn append(&self, line: &str) {
        let Some(path) = &self.path else { return };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

/// A file named by an environment variable, or a hidden one at home.
pub fn dot_file(variable: &str, name: &str) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(path) if path.is_empty() || path == "/dev/null" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(name)),
    }
}

/// Whether a command carries a password, which must not be written down.
pub fn is_secret(words: &[Vec<u8>]) -> bool {
    let lower: Vec<Vec<u8>> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let word = |index: usize| lower.get(index).map_or(&b""[..], Vec::as_slice);
    let has = |from: usize, name: &[u8]| lower.iter().skip(from).any(|word| word == name);
    match word(0) {
        b"auth" => true,
        b"acl" => matches!(word(1), b"setuser" | b"deluser" | b"getuser"),
        b"hello" => has(2, b"auth"),
        b"migrate" => has(4, b"auth") || has(4, b"auth2"),
        b"config" if word(1) == b"set" => lower.iter().skip(2).any(|word| {
            matches!(word.as_slice(), b"masterauth" | b"masteruser" | b"primaryauth" | b"primaryuser" | b"requirepass")
                || word.windows(8).any(|part| part == b"key-file" || part == b"password")
                || word.ends_with(b"-pass")
        }),
        b"sentinel" => {
            (word(1) == b"set" && (has(3, b"auth-pass") || has(3, b"auth-user")))
                || (word(1) == b"config" && word(2) == b"set" && (has(3, b"sentinel-pass") || has(3, b"sentinel-user")))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::test_folder;
    use onrush_resp::split_words;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_long_history_is_cut_and_no_other_file_is_touched() {
        let folder = test_folder("history");
        let (path, other) = (folder.join("redis.history"), folder.join("redis.new"));
        let lines: Vec<String> = (0..=LINES_MAX * 2).map(|number| format!("GET {number}")).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        fs::write(&other, "mine").unwrap();
        let kept = HistoryFile { path: Some(path.clone()) }.load();
        assert_eq!((kept.len(), kept.last().map(String::as_str)), (LINES_MAX, Some("GET 2000")));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), LINES_MAX);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn secrets_are_known() {
        for line in [
            "AUTH pw",
            "auth user pw",
            "ACL SETUSER bob >pw",
            "CONFIG SET requirepass pw",
            "config set maxmemory 1 masterauth pw",
            "CONFIG SET tls-key-file-pass pw",
            "HELLO 3 AUTH default pw",
            "MIGRATE h 1 k 0 10 AUTH pw",
            "migrate h 1 k 0 10 copy auth2 user pw",
            "SENTINEL SET m auth-pass pw",
            "sentinel config set sentinel-pass pw",
        ] {
            assert!(is_secret(&split_words(line.as_bytes()).unwrap()), "{line}");
        }
        for line in ["GET auth", "CONFIG SET maxmemory 1", "HELLO 3", "ACL LIST", "SET requirepass x", "PING"] {
            assert!(!is_secret(&split_words(line.as_bytes()).unwrap()), "{line}");
        }
    }
}
