//! The tools beside the tests read options in the same way, and refuse unknown ones.

use std::process::{Command, Output};

const TOOLS: [(&str, &str); 4] = [
    (env!("CARGO_BIN_EXE_onrush-audit"), "--max"),
    (env!("CARGO_BIN_EXE_onrush-diff"), "--sequences"),
    (env!("CARGO_BIN_EXE_onrush-eviction"), "--requests"),
    (env!("CARGO_BIN_EXE_onrush-siege"), "--seconds"),
];

fn run(tool: &str, args: &[&str]) -> Output {
    Command::new(tool).args(args).output().expect("the tool runs")
}

#[test]
fn help_is_printed_and_what_is_unknown_refused() {
    for (tool, option) in TOOLS {
        let help = run(tool, &["--help"]);
        let text = String::from_utf8_lossy(&help.stdout);
        assert_eq!(help.status.code(), Some(0), "{tool}");
        assert!(text.contains("Usage: ") && text.contains(option), "{tool}: {text}");
        for args in [&["--nosuch"][..], &[option], &[option, "x"], &["one", "two"]] {
            let refused = run(tool, args);
            assert_eq!(refused.status.code(), Some(2), "{tool} {args:?}");
            assert!(refused.stdout.is_empty() && !refused.stderr.is_empty(), "{tool} {args:?}");
        }
    }
}
