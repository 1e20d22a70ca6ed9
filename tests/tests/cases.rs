//! The hand-made sequences of `cases/*.txt` against the oracle, one command at a time and pipelined.

use onrush_tests::cases;
use onrush_tests::diff::{Mode, Runner};

#[test]
fn hand_made_sequences_reply_as_the_oracle_does() {
    let mut files: Vec<_> = std::fs::read_dir(cases::folder())
        .expect("the folder of cases")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut runner = Runner::new(&["--enable-debug-command", "yes"], &[]);
    let mut failures = Vec::new();
    for case in files.iter().flat_map(|file| cases::read(file)) {
        for sequence in &case.sequences {
            let single = runner.check(&case.name, sequence, Mode::Single);
            let checked = single.and_then(|()| runner.check(&case.name, sequence, Mode::Pipeline));
            failures.extend(checked.err());
        }
    }
    assert!(failures.is_empty(), "{} differences:\n\n{}", failures.len(), failures.join("\n"));
}
