//! The hand-made sequences of `cases/*.txt` against both oracles, one command at a time and pipelined.

use onrush_tests::cases;
use onrush_tests::diff::{Mode, Runner};
use onrush_tests::server::Oracle;

#[test]
fn hand_made_sequences_reply_as_the_oracle_does() {
    let mut files: Vec<_> = std::fs::read_dir(cases::folder())
        .expect("the folder of cases")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut runners = Oracle::ALL.map(|oracle| Runner::new(&["--enable-debug-command", "yes"], &[], oracle));
    let mut failures = Vec::new();
    for case in files.iter().flat_map(|file| cases::read(file)) {
        for sequence in &case.sequences {
            for runner in &mut runners {
                let single = runner.check(&case.name, sequence, Mode::Single);
                // In a pipeline the newer oracle holds back its reply to a failed AUTH.
                let checked = match runner.oracle() {
                    Oracle::Older => single.and_then(|()| runner.check(&case.name, sequence, Mode::Pipeline)),
                    _ => single,
                };
                failures.extend(checked.err());
            }
        }
    }
    assert!(failures.is_empty(), "{} differences:\n\n{}", failures.len(), failures.join("\n"));
}
