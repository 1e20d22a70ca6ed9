//! `--keystats`: how much memory and how many elements the keys have.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;
use onrush_resp::quoted;

use crate::args::Options;
use crate::fail::Fail;
use crate::keys_report::{Kind, Measure, Walk, average, known_kinds, measured, percent, typed};
use crate::scan::Cursor;
use crate::session::print;

/// Digits of each size that are distinguished.
const DIGITS: u8 = 3;
/// The percentiles shown halve the rest each time, at most this often.
const HALVINGS_MAX: u32 = 20;
/// Names of keys are counted by length, in steps of powers of two from this one on.
const NAME_LEN_MIN: u64 = 16;

/// What has been seen of one type.
#[derive(Default)]
struct Type {
    keys: u64,
    bytes: u64,
    elements: u64,
    biggest: Option<(u64, Vec<u8>)>,
    longest: Option<(u64, Vec<u8>)>,
}

/// What has been seen.
struct Stats {
    types: BTreeMap<usize, Type>,
    /// The biggest keys, in bytes, with their types, the biggest first.
    top: Vec<(u64, usize, Vec<u8>)>,
    top_len_max: usize,
    sizes: Histogram<u64>,
    /// Keys by the greatest length of name that their group holds.
    names: BTreeMap<u64, u64>,
    names_len: u64,
    keys: u64,
}

impl Stats {
    fn new(top_len_max: usize) -> Stats {
        let sizes = Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("a precision that exists"));
        let (types, names) = (BTreeMap::new(), BTreeMap::new());
        Stats { types, top: Vec::new(), top_len_max, sizes, names, names_len: 0, keys: 0 }
    }

    fn add(&mut self, key: Vec<u8>, kind: usize, bytes: u64, elements: u64) {
        self.keys += 1;
        self.names_len += key.len() as u64;
        *self.names.entry((key.len() as u64).next_power_of_two().max(NAME_LEN_MIN)).or_default() += 1;
        self.sizes.saturating_record(bytes);
        let of_type = self.types.entry(kind).or_default();
        of_type.keys += 1;
        of_type.bytes += bytes;
        of_type.elements += elements;
        for (record, size) in [(&mut of_type.biggest, bytes), (&mut of_type.longest, elements)] {
            if record.as_ref().is_none_or(|(most, _)| size > *most) {
                *record = Some((size, key.clone()));
            }
        }
        let at = self.top.partition_point(|(other, ..)| *other >= bytes);
        if at < self.top_len_max {
            self.top.insert(at, (bytes, kind, key));
            self.top.truncate(self.top_len_max);
        }
    }

    fn report(&self, kinds: &[Kind]) -> String {
        let mut out = String::new();
        self.report_biggest(kinds, &mut out);
        self.report_sizes(&mut out);
        self.report_names(&mut out);
        self.report_types(kinds, &mut out);
        out
    }

    fn report_biggest(&self, kinds: &[Kind], out: &mut String) {
        let _ = writeln!(out, "\n--- Top size keys ---");
        for (rank, (bytes, kind, key)) in self.top.iter().enumerate() {
            let (rank, size, name) = (rank + 1, human(*bytes), &kinds[*kind].name);
            let _ = writeln!(out, "{rank:>5} {size:>8} {name:<10} {}", quoted(key));
        }
        let _ = writeln!(out, "\n--- Top size per type ---");
        for (kind, Type { biggest, .. }) in &self.types {
            if let Some((bytes, key)) = biggest {
                let _ = writeln!(out, "{:<10} {} is {}", kinds[*kind].name, quoted(key), human(*bytes));
            }
        }
        let _ = writeln!(out, "\n--- Top length and cardinality per type ---");
        for (kind, Type { longest, .. }) in &self.types {
            let kind = &kinds[*kind];
            if let (Some((elements, key)), Some(_)) = (longest, kind.size) {
                let unit = kind.unit(Measure::Elements);
                let _ = writeln!(out, "{:<10} {} has {elements} {unit}", kind.name, quoted(key));
            }
        }
    }

    fn report_sizes(&self, out: &mut String) {
        let _ = writeln!(out, "\n{:>8} {:>12} {:>12}", "Key size", "Percentile", "Total keys");
        for value in self.sizes.iter_quantiles(1).take(HALVINGS_MAX as usize) {
            let (percentile, keys) = (100.0 * value.quantile_iterated_to(), value.count_since_last_iteration());
            let total = self.sizes.count_between(0, value.value_iterated_to());
            debug_assert!(keys <= total);
            let size = human(value.value_iterated_to());
            let _ = writeln!(out, "{size:>8} {percentile:>11.4}% {total:>12}");
        }
        let (mean, deviation) = (self.sizes.mean(), self.sizes.stdev());
        let _ = writeln!(out, "Mean: {mean:.2} bytes, standard deviation: {deviation:.2} bytes");
    }

    fn report_names(&self, out: &mut String) {
        let _ = writeln!(out, "\n{:>15} {:>12} {:>12}", "Key name length", "Percentile", "Total keys");
        let mut total = 0;
        for (len, keys) in &self.names {
            total += keys;
            let _ = writeln!(out, "{:>15} {:>11.4}% {total:>12}", human(*len), percent(total, self.keys));
        }
        let (len, mean) = (human(self.names_len), average(self.names_len, self.keys));
        let _ = writeln!(out, "Total key length is {len} ({mean:.2} bytes on average)");
    }

    fn report_types(&self, kinds: &[Kind], out: &mut String) {
        let _ = writeln!(
            out,
            "\n{:<10} {:>12} {:>8} {:>10} {:>10} {:>18} {:>14}",
            "Key type", "Total keys", "Keys %", "Tot size", "Avg size", "Total length/card", "Avg ln/card"
        );
        let line = |out: &mut String, name: &str, unit: Option<&str>, of: &Type| {
            let mean_size = human(average(of.bytes, of.keys).round() as u64);
            let (elements, mean) = match unit {
                Some(unit) => (format!("{} {unit}", of.elements), format!("{:.2}", average(of.elements, of.keys))),
                None => ("-".into(), "-".into()),
            };
            let (share, size) = (percent(of.keys, self.keys), human(of.bytes));
            let _ = writeln!(
                out,
                "{name:<10} {:>12} {share:>7.2}% {size:>10} {mean_size:>10} {elements:>18} {mean:>14}",
                of.keys
            );
        };
        let mut all = Type::default();
        for (kind, of_type) in &self.types {
            let kind = &kinds[*kind];
            line(out, &kind.name, kind.size.map(|(_, unit)| unit), of_type);
            all.keys += of_type.keys;
            all.bytes += of_type.bytes;
        }
        line(out, "all", None, &all);
    }
}

/// Walks over all keys and reports; Ctrl-C ends the walk and shows where it can go on.
///
/// # Errors
/// When the server refuses or is gone.
pub fn run(options: &Options, samples: Option<i64>) -> Result<(), Fail> {
    const BANNER: &str = "\n# Scanning the keyspace for the biggest keys and the distribution of sizes.\n\
                          # -i 0.1 sleeps 0.1 sec per 100 SCAN commands, --top N lists N keys.\n\
                          # Ctrl-C ends the scan with what has been seen; --cursor N goes on from there.\n";
    let mut walk = Walk::begin(options, Cursor::from(options, options.cursor), BANNER)?;
    let mut kinds = known_kinds();
    let mut stats = Stats::new(options.top);
    while let Some(keys) = walk.next()? {
        let found = typed(&mut walk.connection, &mut kinds, keys)?;
        let bytes = measured(&mut walk.connection, &kinds, &found, Measure::Memory(samples))?;
        let elements = measured(&mut walk.connection, &kinds, &found, Measure::Elements)?;
        for (((key, kind), bytes), elements) in found.into_iter().zip(bytes).zip(elements) {
            stats.add(key, kind, bytes, elements);
        }
    }
    print(stats.report(&kinds));
    print(format!("\n{} of {} keys were scanned.\n", stats.keys, walk.total_keys));
    if walk.is_interrupted {
        print(format!("The scan was interrupted. --cursor {} goes on from here.\n", walk.cursor.position()));
    }
    Ok(())
}

/// Bytes with a unit: 1.21K.
fn human(bytes: u64) -> String {
    in_units(bytes, "BKMGTP")
}

/// Bytes with one of these units, each 1,024 times the one before.
pub fn in_units(bytes: u64, units: &str) -> String {
    match (bytes.max(1).ilog2() as usize / 10).min(units.len() - 1) {
        0 => format!("{bytes}B"),
        step => format!("{:.2}{}", bytes as f64 / (1_u64 << (10 * step)) as f64, &units[step..=step]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_300_000, "1.24M"), (5 << 40, "5.00T")] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn the_biggest_keys_are_listed_and_no_more() {
        let mut stats = Stats::new(2);
        for (key, bytes, elements) in [(b"a", 50, 9), (b"b", 70, 1), (b"c", 10, 2), (b"d", 60, 3)] {
            stats.add(key.to_vec(), 1, bytes, elements);
        }
        assert_eq!(stats.top, [(70, 1, b"b".to_vec()), (60, 1, b"d".to_vec())]);
        let report = stats.report(&known_kinds());
        for part in [
            "    1      70B list       \"b\"",
            "list       \"b\" is 70B",
            "list       \"a\" has 9 items",
            "100.0000%            4",
        ] {
            assert!(report.contains(part), "{part} in {report}");
        }
        assert!(!report.contains("\"c\""));
    }
}
