//! The part of `docs/configuration.md` that the table of directives decides, and the test that it is up to date.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use super::directive::{Directive, Kind, TextRule};
use super::table::SETS;
use super::{Config, DIRECTIVES, Flags, Invocation, load, parse_arguments};

const BEGIN: &str = "<!-- begin: written from the table of directives -->\n";
const END: &str = "<!-- end: written from the table of directives -->\n";

/// What a directive with an effect sets.
fn sets(directive: &Directive) -> &'static str {
    let (_, sets) = SETS.iter().find(|(name, _)| *name == directive.name).expect("each directive says what it sets");
    sets.trim_start()
}

fn section() -> String {
    let mut text = String::from("## Directives\n\n");
    text.push_str("| Directive | Default | Values | May change at runtime | What it sets |\n|---|---|---|---|---|\n");
    for row in effective() {
        let sets = sets(row);
        let runtime = if row.flags.contains(Flags::IMMUTABLE) {
            "no"
        } else if row.flags.contains(Flags::PROTECTED) {
            "with `enable-protected-configs`"
        } else {
            "yes"
        };
        let default = match row.default.trim_matches('"') {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(text, "| `{}` | {default} | {} | {runtime} | {sets} |", row.name, values(&row.kind));
    }
    text.push_str("\n## Directives without effect\n\n");
    text.push_str(
        "These are checked, kept, answered by `CONFIG GET` and written by `CONFIG REWRITE`, and do nothing else.\n\n",
    );
    push_reasons(&mut text);
    text
}

/// The directives that do something.
fn effective() -> impl Iterator<Item = &'static Directive> {
    DIRECTIVES.iter().filter(|row| row.no_effect.is_none())
}

/// What values a directive takes, in words.
fn values(kind: &Kind) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Bool => "`yes`, `no`".into(),
        Kind::Integer { min, max } => bounds(i128::from(*min), i128::from(*max), ""),
        Kind::Memory { min, max } => bounds(i128::from(*min), i128::from(*max), " bytes"),
        Kind::MemoryOrPercent => "bytes, or a percentage of `maxmemory`".into(),
        Kind::Permissions => "octal".into(),
        Kind::Enum(all) => words(all),
        Kind::EnumSet(all) => format!("any of {}", words(all)),
        Kind::Text(TextRule::FileName | TextRule::FileNameNotEmpty | TextRule::FolderName) => {
            "a name without a path".into()
        }
        Kind::Text(TextRule::Directory) => "a directory".into(),
        Kind::Text(_) => "text".into(),
        Kind::Addresses => "addresses".into(),
        Kind::SavePoints => "pairs of seconds and changes".into(),
        Kind::OutputLimits => "class, hard limit, soft limit, seconds".into(),
        Kind::EventClasses => "letters".into(),
        Kind::Percentiles => "numbers from 0 to 100".into(),
        Kind::OomScores => "three integers".into(),
        Kind::Primary => "host and port".into(),
    }
}

/// Leaves out bounds that no machine reaches.
fn bounds(min: i128, max: i128, unit: &str) -> String {
    match (min <= i128::from(i32::MIN), max >= i128::from(i32::MAX)) {
        (true, true) => format!("an integer{unit}"),
        (true, false) => format!("at most {max}{unit}"),
        (false, true) => format!("at least {min}{unit}"),
        (false, false) => format!("{min} to {max}{unit}"),
    }
}

/// A row for each reason why a directive has no effect, in alphabetical order.
fn push_reasons(text: &mut String) {
    let hidden = |row: &Directive| if row.flags.contains(Flags::HIDDEN) { " (hidden)" } else { "" };
    text.push_str("| Why | Directives |\n|---|---|\n");
    for reason in DIRECTIVES.iter().filter_map(|row| row.no_effect).collect::<BTreeSet<_>>() {
        let rows = DIRECTIVES.iter().filter(|row| row.no_effect == Some(reason));
        let names: Vec<_> = rows.map(|row| format!("`{}`{}", row.name, hidden(row))).collect();
        let _ = writeln!(text, "| {reason} | {} |", names.join(", "));
    }
}

#[test]
fn what_a_directive_sets_is_told_of_all_that_have_an_effect_and_no_other() {
    let told: Vec<&str> = SETS.iter().map(|(name, _)| *name).collect();
    let mut there: Vec<&str> = effective().map(|row| row.name).collect();
    assert_eq!(told.len(), there.len());
    there.retain(|name| !told.contains(name));
    assert!(there.is_empty(), "no field: {there:?}");
}

/// A configuration with all directives that have an effect, at their defaults. Those that have none, or whose default
/// depends on the machine, are comments.
fn example() -> String {
    let mut text = String::from(
        "# Configuration of onrush-server: all directives that have an effect, with their defaults.\n\
         # docs/configuration.md says more. Written from the table of directives; `make docs` writes it anew.\n",
    );
    for row in effective() {
        let sets = sets(row);
        let default = row.default.trim_matches('"');
        let off = if default.is_empty() { "# " } else { "" };
        let value = if default.is_empty() { "\"\"" } else { default };
        let values = values(&row.kind).replace('`', "");
        let fixed = if row.flags.contains(Flags::IMMUTABLE) { "; only at the start" } else { "" };
        let _ = write!(text, "\n# {}\n# Values: {values}{fixed}.\n{off}{} {value}\n", sets.replace('`', ""), row.name);
    }
    text
}

/// Compares a file with what it should be, made of what it is; run with `UPDATE_DOCS=1` to write it anew.
fn check_file(path: &str, wanted: impl FnOnce(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = std::fs::read_to_string(&path).expect("a file");
    let wanted = wanted(&text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).expect("a file");
    } else {
        assert_eq!(text, wanted, "outdated; run `make docs`");
    }
}

#[test]
fn the_example_of_a_configuration_is_the_defaults() {
    let text = example();
    let mut stdin = text.as_bytes();
    let Invocation::Serve(command_line) = parse_arguments(["-".into()]) else { panic!("not to serve") };
    let loaded = load(&command_line, &mut stdin).expect("a configuration").config;
    let default = Config::default();
    for row in DIRECTIVES {
        assert_eq!(loaded.get(row.name), default.get(row.name), "{}", row.name);
    }
    check_file("contrib/onrush.conf", |_| text);
}

#[test]
fn docs_list_what_the_table_says() {
    check_file("docs/configuration.md", |text| {
        let (before, rest) = text.split_once(BEGIN).expect("the line where the section begins");
        let (_, after) = rest.split_once(END).expect("the line where the section ends");
        [before, BEGIN, &section(), END, after].concat()
    });
}
