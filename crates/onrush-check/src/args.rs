//! The command line, by our name or by those of Redis's tools. Help, man page and completions come from this one definition.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;

/// Below `--help`.
const NOTES: &str = "\
Stop the server first, or check a copy: a file that is being written has no end yet.
Exit code: 0 when all is well or has been repaired, else 1.

A log that ends in the middle of a command is what a crash leaves: the server itself cuts it when it
starts, unless aof-load-truncated is no. Damage in the middle is none of that: look at the disk, and
at a copy, before you use --fix.

What is whole has every byte that was written. Commands of a log are not executed, and function
libraries are not compiled: a server may still refuse a file that somebody has edited.

Called through a link named redis-check-rdb or redis-check-aof it takes their arguments:
  redis-check-rdb FILE
  redis-check-aof [--fix | --truncate-to-timestamp SECONDS] FILE
";

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Task {
    /// Print a text: help, the version, the man page, completions.
    Print(String),
    /// Check a snapshot.
    Rdb(PathBuf),
    /// Check a log.
    Aof(PathBuf, Repair),
}

/// The permitted changes to a log.
#[derive(Debug, Default, PartialEq)]
pub struct Repair {
    /// Cut what is damaged at the end.
    pub fix: bool,
    /// Do not ask.
    pub yes: bool,
    /// Cut what is later.
    pub until_s: Option<u64>,
}

fn command() -> Command {
    let file =
        |help| Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help);
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let rdb = Command::new("rdb")
        .about("Checks a snapshot (dump.rdb): decodes every value, computes the checksum, counts the keys of each type")
        .arg(file("The snapshot"));
    let aof = Command::new("aof").about("Checks an append-only log").args([
        file("The manifest (appendonlydir/appendonly.aof.manifest), for all files that it lists, or one file"),
        flag(
            "fix",
            "Cut the file behind the last command or transaction that is whole. Everything behind is lost, so keep a \
             copy. Only the last file of a log can be cut",
        )
        .conflicts_with("truncate-to-timestamp"),
        Arg::new("truncate-to-timestamp").long("truncate-to-timestamp").value_name("SECONDS").help(
            "Cut the log in front of the first note of a later time (Unix seconds). The server writes such notes with \
             aof-timestamp-enabled yes",
        )
        .value_parser(value_parser!(u64).range(1..)),
        flag("yes", "Do not ask before --fix cuts").short('y'),
    ]);
    Command::new("onrush-check")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Tells whether an RDB file or an append-only log is whole")
        .after_help(NOTES)
        .flatten_help(true)
        .subcommands([rdb, aof])
        .disable_version_flag(true)
        .propagate_version(true)
        .args([
            Arg::new("version").short('v').long("version").action(ArgAction::Version).global(true).help("The version"),
            Arg::new("completions")
                .long("completions")
                .value_name("SHELL")
                .value_parser(value_parser!(Shell))
                .help("Completions for a shell"),
            flag("man", "The man page"),
        ])
}

/// Reads the command line, the name of the program first.
///
/// # Errors
/// What is wrong with it, for the user.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, String> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_default();
    let called = Path::new(&program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let implied = match called {
        "redis-check-rdb" => Some("rdb"),
        "redis-check-aof" => Some("aof"),
        _ => None,
    };
    let words = ["onrush-check"].into_iter().chain(implied).map(OsString::from).chain(args);
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(Task::Print(error.to_string()));
        }
        Err(error) => return Err(error.to_string().trim_end().to_owned()),
    };
    task(&matches)
}

fn task(matches: &ArgMatches) -> Result<Task, String> {
    if let Some(&shell) = matches.get_one::<Shell>("completions") {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "onrush-check", &mut script);
        return Ok(Task::Print(String::from_utf8_lossy(&script).into_owned()));
    }
    if matches.get_flag("man") {
        return man_page().map(Task::Print).map_err(|error| error.to_string());
    }
    let Some((name, matches)) = matches.subcommand() else {
        return Err(command().render_help().to_string().trim_end().to_owned());
    };
    let file = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    if name == "rdb" {
        return Ok(Task::Rdb(file));
    }
    let until_s = matches.get_one("truncate-to-timestamp").copied();
    Ok(Task::Aof(file, Repair { fix: matches.get_flag("fix"), yes: matches.get_flag("yes"), until_s }))
}

/// The page of the program, then those of its subcommands.
fn man_page() -> std::io::Result<String> {
    let mut page = Vec::new();
    let mut command = command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for name in ["rdb", "aof"] {
        if let Some(part) = command.find_subcommand(name) {
            clap_mangen::Man::new(part.clone()).render(&mut page)?;
        }
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
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
    }

    #[test]
    fn help_version_completions_and_man_page_come_from_the_definition() {
        command().debug_assert();
        let printed = |line: &str| match parsed(line) {
            Ok(Task::Print(text)) => text,
            other => panic!("{line}: {other:?}"),
        };
        for line in
            ["x --help", "x -h", "x help", "x aof --help", "redis-check-aof -h", "x --man", "x --completions bash"]
        {
            assert!(printed(line).replace('\\', "").contains("--truncate-to-timestamp"), "{line}");
        }
        for line in ["x --version", "x -v", "x rdb -v", "redis-check-rdb --version"] {
            assert!(printed(line).contains(env!("CARGO_PKG_VERSION")), "{line}");
        }
        assert!(parsed("redis-check-aof --fix").unwrap_err().contains("Usage: onrush-check aof"));
        assert!(parse(["x".into()]).unwrap_err().contains("Usage"));
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
