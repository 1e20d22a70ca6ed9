//! The part of `docs/differences.md` that the table of directives decides, and the test that it is up to date.

use std::fmt::Write;
use std::path::PathBuf;

use super::directive::Directive;
use super::{DIRECTIVES, Flags};

const BEGIN: &str = "<!-- begin: written from the table of directives -->\n";
const END: &str = "<!-- end: written from the table of directives -->\n";

fn section() -> String {
    let mut text = String::from("### Configuration directives without effect\n\n");
    text.push_str("Checked, kept, answered by `CONFIG GET` and written by `CONFIG REWRITE`, and that is all.\n\n");
    push_table(&mut text, "Why", |directive| directive.no_effect);
    text.push_str("\n### Configuration directives that only take their default\n\n");
    text.push_str("Another value would promise something the server does not do, so it is an error.\n\n");
    push_table(&mut text, "Error", |directive| directive.only_default);
    text
}

/// A row for each reason, in alphabetical order.
fn push_table(text: &mut String, heading: &str, reason_of: impl Fn(&Directive) -> Option<&'static str>) {
    let mut reasons: Vec<&str> = DIRECTIVES.iter().filter_map(&reason_of).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let _ = write!(text, "| {heading} | Directives |\n|---|---|\n");
    for reason in reasons {
        let rows = DIRECTIVES.iter().filter(|row| reason_of(row) == Some(reason));
        let names: Vec<_> = rows.map(|row| format!("`{}`{}", row.name, hidden_mark(row))).collect();
        let _ = writeln!(text, "| {reason} | {} |", names.join(", "));
    }
}

fn hidden_mark(directive: &Directive) -> &'static str {
    if directive.flags.contains(Flags::HIDDEN) { " (hidden)" } else { "" }
}

/// Run with `UPDATE_DOCS=1` to write the section anew.
#[test]
fn docs_list_what_the_table_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md");
    let text = std::fs::read_to_string(&path).expect("docs/differences.md");
    let (before, rest) = text.split_once(BEGIN).expect("the line where the section begins");
    let (now, after) = rest.split_once(END).expect("the line where the section ends");
    let section = section();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, [before, BEGIN, &section, END, after].concat()).expect("docs/differences.md");
    } else {
        assert_eq!(now, section, "stale; run the test with UPDATE_DOCS=1");
    }
}
