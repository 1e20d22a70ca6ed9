//! The table of an audit, as text for people.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::judge::{cpu, exponent, mb, series};
use super::run::Outcome;
use crate::server::{Oracle, onrush_bin};

/// One line on a scenario, and one more for each of its faults.
pub fn summary(outcome: &Outcome) -> String {
    let verdict = match (outcome.faults.len(), outcome.known.len()) {
        (0, 0) => "good".to_string(),
        (0, known) => format!("good but for {known} declared"),
        (faults, _) => format!("{faults} FAULTS"),
    };
    let mut text = format!("{}: {verdict}, {:.1} s", outcome.name, outcome.took.as_secs_f64());
    for fault in &outcome.faults {
        write!(text, "\n  {:?}: {}: {}", fault.kind, fault.what, fault.detail).expect("text");
    }
    text
}

/// Date, machine, versions and command line of the audit.
pub fn head(args: &[String]) -> String {
    let output = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output().map(|o| o.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).trim().to_string()
    };
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpus.lines().find_map(|l| l.strip_prefix("model name")).map_or("", |l| l.trim_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    let version = |bin: &Path| output(bin, &["--version"]);
    let servers: Vec<String> = Oracle::ALL.map(Oracle::bin).into_iter().map(|b| version(&b)).collect();
    format!(
        "# Cost audit of {}, commit {}\n\n{model}, {cores} cores, Linux {}.\n`{}` against `{}`.\n\n`onrush-audit {}`\n\n",
        output(Path::new("date"), &["-u", "+%Y-%m-%dT%H:%M"]),
        output(Path::new("git"), &["describe", "--always", "--dirty"]),
        output(Path::new("uname"), &["-r"]),
        servers.join("` and `"),
        version(&onrush_bin()),
        args.join(" "),
    )
}

/// The whole audit as markdown: every line with its costs at every size, memory, and what was found.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "CPU time of the server's threads for the whole line, least of the turns: Onrush / redis-server. \"power\" is the exponent of its \
         growth over the sizes.\n\n| line | sizes | Onrush / redis-server | power | ratio |\n|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        writeln!(text, "| **{}** | | | | |", outcome.name).expect("text");
        for index in (0..outcome.lines.len()).filter(|index| outcome.lines[*index].measured) {
            text.push_str(&row(outcome, index));
        }
    }
    text.push_str("\nMemory in MB, Onrush / redis-server: in use and resident when the script is through, the most that was resident, and in use after FLUSHALL and after DEL.\n\n");
    text.push_str("| scenario | size | in use | resident | at most | after FLUSHALL | after DEL |\n|---|---|---|---|---|---|---|\n");
    for outcome in outcomes {
        text.push_str(&memory_row(outcome));
    }
    text.push_str(&found(outcomes));
    text
}

fn row(outcome: &Outcome, index: usize) -> String {
    let line = &outcome.lines[index];
    let ours = cpu(&series(&outcome.ours, index));
    let theirs = outcome.theirs.as_ref().map(|side| cpu(&series(side, index))).unwrap_or_default();
    let sizes: Vec<String> = ours.iter().map(|(n, _)| format!("10^{}", n.ilog10())).collect();
    let of = |n| theirs.iter().find(|(size, _)| *size == n).map(|(_, cost)| *cost);
    let pairs: Vec<String> =
        ours.iter().map(|(n, cost)| format!("{} / {}", short(Some(*cost)), short(of(*n)))).collect();
    let ratio = match (ours.last(), theirs.last()) {
        (Some((_, our)), Some((_, their))) if !their.is_zero() => {
            format!("{:.2}", our.as_secs_f64() / their.as_secs_f64())
        }
        _ => String::new(),
    };
    let text = line.text.replace('|', "\\|");
    let powers = format!("{:.1} / {:.1}", exponent(&ours), exponent(&theirs));
    format!("| `{text}` | {} | {} | {powers} | {ratio} |\n", sizes.join(", "), pairs.join(", "))
}

fn memory_row(outcome: &Outcome) -> String {
    let Some((n, ours)) = outcome.ours.memory.last_key_value() else {
        return String::new();
    };
    let theirs = outcome.theirs.as_ref().and_then(|side| side.memory.get(n)).copied().unwrap_or_default();
    let pair = |our: u64, their: u64| format!("{} / {}", mb(our).replace(" MB", ""), mb(their).replace(" MB", ""));
    let left = |our: Option<super::bench::Memory>, their: Option<super::bench::Memory>| {
        pair(our.unwrap_or_default().used, their.unwrap_or_default().used)
    };
    format!(
        "| {} | {n} | {} | {} | {} | {} | {} |\n",
        outcome.name,
        pair(ours.full.used, theirs.full.used),
        pair(ours.full.rss, theirs.full.rss),
        pair(ours.peak, theirs.peak),
        left(ours.left_by_flush, theirs.left_by_flush),
        left(ours.left_by_del, theirs.left_by_del),
    )
}

fn found(outcomes: &[Outcome]) -> String {
    let mut text = String::from("\nFaults:\n\n");
    for outcome in outcomes {
        for fault in &outcome.faults {
            writeln!(text, "- {}, `{}`: {:?}: {}", outcome.name, fault.what, fault.kind, fault.detail).expect("text");
        }
    }
    text.push_str("\nDeclared:\n\n");
    for outcome in outcomes {
        for (fault, reason) in &outcome.known {
            writeln!(text, "- {}, `{}`: {:?}: {}. {reason}", outcome.name, fault.what, fault.kind, fault.detail)
                .expect("text");
        }
    }
    text
}

/// A time with its unit, two or three digits.
fn short(time: Option<Duration>) -> String {
    let Some(time) = time else {
        return "-".into();
    };
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1_000.0 => format!("{micros:.0} µs"),
        ..100_000.0 => format!("{:.1} ms", micros / 1e3),
        ..1_000_000.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}
