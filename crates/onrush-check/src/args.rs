//! The command line, by our name or by those of Redis's tools.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What `--help` prints.
pub const USAGE: &str = "\
Usage: onrush-check rdb FILE
       onrush-check aof [--fix] [--yes] [--truncate-to-timestamp SECONDS] FILE

Tells whether a file is whole. Stop the server first, or check a copy: a file that is being written has no end yet.
Exit code: 0 when all is well or has been repaired, else 1.

rdb FILE                   A snapshot (dump.rdb): every value is decoded and the checksum computed. Prints what the file
                           says of itself and how many keys of each type it has
aof FILE                   An append-only log: its manifest (appendonlydir/appendonly.aof.manifest), which checks all files
                           it lists, or one file
  --fix                    Cut the file behind the last command or transaction that is whole. Everything behind is lost,
                           so keep a copy. Only the last file of a log can be cut
  --truncate-to-timestamp SECONDS
                           Cut the log in front of the first note of a later time (Unix seconds). The server writes such
                           notes with aof-timestamp-enabled yes
  --yes                    Do not ask before --fix cuts
  --help, --version

A log that ends in the middle of a command is what a crash leaves: the server itself cuts it when it starts, unless
aof-load-truncated is no. Damage in the middle is none of that: look at the disk, and at a copy, before you use --fix.

Called through a link named redis-check-rdb or redis-check-aof it takes their arguments:
  redis-check-rdb FILE
  redis-check-aof [--fix | --truncate-to-timestamp SECONDS] FILE
";

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Task {
    /// Print the usage.
    Help,
    /// Print the version.
    Version,
    /// Check a snapshot.
    Rdb(PathBuf),
    /// Check a log.
    Aof(PathBuf, Repair),
}

/// What may be changed of a log.
#[derive(Debug, Default, PartialEq)]
pub struct Repair {
    /// Cut what is damaged at the end.
    pub fix: bool,
    /// Do not ask.
    pub yes: bool,
    /// Cut what is later.
    pub until_s: Option<u64>,
}

/// Reads the command line, the name of the program first.
///
/// # Errors
/// What is wrong with it, for the user.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, String> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_default();
    let called = Path::new(&program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mode = match called {
        "redis-check-rdb" => "rdb".into(),
        "redis-check-aof" => "aof".into(),
        _ => args.next().unwrap_or_default(),
    };
    match mode.to_str() {
        Some("rdb") => parse_rdb(args),
        Some("aof") => parse_aof(args),
        Some("-h" | "--help" | "help") => Ok(Task::Help),
        Some("-v" | "--version") => Ok(Task::Version),
        Some("") => Err(USAGE.trim_end().to_owned()),
        _ => Err(format!("{} is neither rdb nor aof; see onrush-check --help", mode.display())),
    }
}

fn parse_rdb(args: impl Iterator<Item = OsString>) -> Result<Task, String> {
    let args: Vec<OsString> = args.collect();
    match &args[..] {
        [flag] if flag == "--help" || flag == "-h" => Ok(Task::Help),
        [flag] if flag == "--version" || flag == "-v" => Ok(Task::Version),
        [file] => Ok(Task::Rdb(file.into())),
        _ => Err("Usage: onrush-check rdb FILE".to_owned()),
    }
}

fn parse_aof(mut args: impl Iterator<Item = OsString>) -> Result<Task, String> {
    let (mut repair, mut file) = (Repair::default(), None);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--help" | "-h") => return Ok(Task::Help),
            Some("--version" | "-v") => return Ok(Task::Version),
            Some("--fix") => repair.fix = true,
            Some("--yes" | "-y") => repair.yes = true,
            Some("--truncate-to-timestamp") => {
                let number = args.next().and_then(|arg| arg.to_str()?.parse().ok()).filter(|seconds| *seconds > 0);
                repair.until_s = Some(number.ok_or("--truncate-to-timestamp needs a time in Unix seconds")?);
            }
            Some(flag) if flag.starts_with("--") => {
                return Err(format!("{flag} is no option; see onrush-check --help"));
            }
            _ if file.is_some() => return Err("one file at a time; see onrush-check --help".to_owned()),
            _ => file = Some(PathBuf::from(arg)),
        }
    }
    if repair.fix && repair.until_s.is_some() {
        return Err("--fix and --truncate-to-timestamp exclude each other: repair the log first".to_owned());
    }
    let file = file.ok_or("no file is given; see onrush-check --help")?;
    Ok(Task::Aof(file, repair))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_name_of_the_program_may_say_what_to_check() {
        assert_eq!(parsed("onrush-check rdb f"), Ok(Task::Rdb("f".into())));
        assert_eq!(parsed("/usr/bin/redis-check-rdb rdb"), Ok(Task::Rdb("rdb".into())));
        let fix = Repair { fix: true, ..Repair::default() };
        assert_eq!(parsed("./redis-check-aof --fix f"), Ok(Task::Aof("f".into(), fix)));
        let until = Repair { yes: true, until_s: Some(17), ..Repair::default() };
        assert_eq!(parsed("x aof f --truncate-to-timestamp 17 --yes"), Ok(Task::Aof("f".into(), until)));
        assert_eq!(parsed("x --version"), Ok(Task::Version));
        assert_eq!(parsed("x aof --help"), Ok(Task::Help));
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for line in [
            "x",
            "x f",
            "x rdb",
            "x rdb a b",
            "x aof",
            "x aof a b",
            "x aof --x f",
            "x aof --truncate-to-timestamp",
            "x aof --truncate-to-timestamp y f",
            "x aof --fix --truncate-to-timestamp 1 f",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
