//! LCS: the longest common subsequence of two strings.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::Reply;
use onrush_store::{Type, ValueRef};

use crate::commands::keys::lock;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError, Stop};

const NOT_STRINGS: CommandError = CommandError::fixed("ERR The specified keys must contain string values");
const LEN_AND_IDX: CommandError =
    CommandError::fixed("ERR If you want both the length and indexes, please just use IDX.");
const STRING_TOO_LONG: CommandError = CommandError::fixed("ERR String too long for LCS");
const OVER_LIMIT: CommandError =
    CommandError::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
const NO_MEMORY: CommandError =
    CommandError::fixed("ERR Insufficient memory, failed allocating transient memory for LCS");

/// Strings of this length in bytes and above are refused.
const STRING_LEN_LIMIT: usize = u32::MAX as usize - 1;

/// Pairs of positions that take about as long as one element of a collection.
const CELLS_PER_ELEMENT: usize = 1_000;

/// A string that outlives its lock.
type Bytes = Arc<Vec<u8>>;

/// Bytes per pair of positions that Redis counts against `proto-max-bulk-len`. [`Table`] needs only a bit, but must
/// refuse the same strings.
const COUNTED_CELL_BYTES: u64 = 4;

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`
pub(crate) fn lcs(ctx: &mut Ctx<'_>) -> CommandResult {
    let (a, b) = read_both(ctx)?;
    let options = Options::parse(ctx)?;
    check_size(ctx, a.len(), b.len())?;
    // The strings are copies: no lock is needed for the computation.
    ctx.commit.release();
    ctx.expect_work(a.len().saturating_mul(b.len()) / CELLS_PER_ELEMENT)?;
    let table = Table::compute(&a, &b, options.wanted != Wanted::Len).ok_or(NO_MEMORY)?;
    match options.wanted {
        Wanted::Len => ctx.out.int(table.lcs_len() as i64),
        Wanted::Text => {
            let mut text = vec![0; table.lcs_len()];
            let mut end = text.len();
            table.matches(&a, &b, |run| {
                text[end - run.len..end].copy_from_slice(&a[run.a..run.a + run.len]);
                end -= run.len;
            });
            ctx.out.bulk(&text);
        }
        Wanted::Runs => {
            let mut runs = Vec::new();
            table.matches(&a, &b, |run| {
                if run.len as u64 >= options.len_min {
                    runs.push(run);
                }
            });
            reply_runs(ctx.out, &runs, options.with_len, table.lcs_len());
        }
    }
    Ok(())
}

/// Both strings as of one moment; a missing key counts as empty.
fn read_both(ctx: &mut Ctx<'_>) -> Result<(Bytes, Bytes), Stop> {
    let keys = [ctx.key(1), ctx.key(2)];
    lock(ctx, &keys)?;
    let [a, b] = keys.map(|key| match ctx.commit.read(&key) {
        None => Some(Arc::default()),
        Some(entry) if entry.ty() == Type::String => Some(match entry.value() {
            ValueRef::Shared(bytes) => Arc::clone(bytes),
            value => Arc::new(value.to_bytes(&mut itoa::Buffer::new()).to_vec()),
        }),
        Some(_) => None,
    });
    a.zip(b).ok_or(NOT_STRINGS.into())
}

fn check_size(ctx: &Ctx<'_>, a_len: usize, b_len: usize) -> Result<(), CommandError> {
    if a_len.max(b_len) >= STRING_LEN_LIMIT {
        return Err(STRING_TOO_LONG);
    }
    let cells = (a_len as u64 + 1) * (b_len as u64 + 1);
    let counted = cells.checked_mul(COUNTED_CELL_BYTES).ok_or(NO_MEMORY)?;
    if counted > ctx.engine.settings.bulk_len_max.load(Relaxed) as u64 {
        return Err(OVER_LIMIT);
    }
    Ok(())
}

fn reply_runs(out: &mut Reply, runs: &[Run], with_len: bool, lcs_len: usize) {
    out.map(2);
    out.bulk(b"matches");
    out.array(runs.len());
    for run in runs {
        out.array(2 + usize::from(with_len));
        for start in [run.a, run.b] {
            out.array(2);
            out.int(start as i64);
            out.int((start + run.len - 1) as i64);
        }
        if with_len {
            out.int(run.len as i64);
        }
    }
    out.int_field("len", lcs_len as i64);
}

/// What LCS is to reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The subsequence.
    Text,
    /// LEN: its length.
    Len,
    /// IDX: where it is in both strings.
    Runs,
}

struct Options {
    wanted: Wanted,
    /// MINMATCHLEN: the shortest run that is returned.
    len_min: u64,
    /// WITHMATCHLEN: whether each run's length is returned too.
    with_len: bool,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let (mut len, mut idx) = (false, false);
        let mut options = Self { wanted: Wanted::Text, len_min: 0, with_len: false };
        let mut rest = ctx.rest(3);
        while !rest.is_empty() {
            if rest.take("IDX") {
                idx = true;
            } else if rest.take("LEN") {
                len = true;
            } else if rest.take("WITHMATCHLEN") {
                options.with_len = true;
            } else if rest.take_with("MINMATCHLEN", 1) {
                options.len_min = rest.next_int()?.max(0) as u64;
            } else {
                return Err(error::SYNTAX);
            }
        }
        options.wanted = match (len, idx) {
            (true, true) => return Err(LEN_AND_IDX),
            (true, false) => Wanted::Len,
            (false, true) => Wanted::Runs,
            (false, false) => Wanted::Text,
        };
        Ok(options)
    }
}

/// A stretch that both strings have in common: `a[a..a + len]` is `b[b..b + len]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

/// The table of dynamic programming, a bit per cell.
///
/// Let `L(i, j)` be the length for the first `i` bytes of `a` and the first `j` of `b`. Along a row `L` grows by 0
/// or 1 per step, and these steps are all that is kept: bit `j - 1` of row `i` is *clear* where `L(i, j)` is
/// `L(i, j - 1) + 1`. A row follows from the one before 64 cells at a time (H. Hyyrö, "Bit-parallel LCS-length
/// computation revisited", 2004).
struct Table {
    /// Words in a row.
    row_len: usize,
    /// All rows but the one of the empty prefix, or only the last.
    rows: Vec<u64>,
}

impl Table {
    /// O(`a.len() * b.len() / 64`). `None` if there is not enough memory.
    fn compute(a: &[u8], b: &[u8], keep_rows: bool) -> Option<Self> {
        let row_len = b.len().div_ceil(64);
        let kept = if keep_rows { a.len().max(1) } else { 1 };
        let mut rows = Vec::new();
        rows.try_reserve_exact(kept.checked_mul(row_len)?).ok()?;
        let masks = Masks::new(a, b, row_len)?;
        rows.resize(row_len, u64::MAX);
        for (index, &byte) in a.iter().enumerate() {
            if keep_rows && index > 0 {
                rows.extend_from_within((index - 1) * row_len..);
            }
            let last = rows.len() - row_len;
            advance(&mut rows[last..], masks.of(byte));
        }
        Some(Self { row_len, rows })
    }

    fn lcs_len(&self) -> usize {
        let last = &self.rows[self.rows.len() - self.row_len..];
        last.iter().map(|word| word.count_zeros() as usize).sum()
    }

    /// Whether `L(i, j)` is larger than `L(i, j - 1)`; both positions count from 1.
    #[inline]
    fn grows_at(&self, i: usize, j: usize) -> bool {
        self.rows[(i - 1) * self.row_len + (j - 1) / 64] >> ((j - 1) % 64) & 1 == 0
    }

    /// Yields the subsequence in maximal runs from the end to the start. There are many subsequences of that length:
    /// this is the one Redis finds. Needs all rows. O(`a.len() + b.len()`).
    fn matches(&self, a: &[u8], b: &[u8], mut yield_run: impl FnMut(Run)) {
        let (mut i, mut j) = (a.len(), b.len());
        let mut run_len = 0;
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                i -= 1;
                j -= 1;
                run_len += 1;
                continue;
            }
            if run_len > 0 {
                yield_run(Run { a: i, b: j, len: run_len });
                run_len = 0;
            }
            // If the bytes differ, `L(i, j)` is the larger of its neighbours: the upper one if not the left one.
            if self.grows_at(i, j) { i -= 1 } else { j -= 1 }
        }
        if run_len > 0 {
            yield_run(Run { a: i, b: j, len: run_len });
        }
    }
}

/// Turns a row into the next one, given where the next byte of `a` is in `b`.
#[inline]
fn advance(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (word, &mask) in row.iter_mut().zip(mask) {
        let (sum, first) = word.overflowing_add(*word & mask);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        carry = first | second;
        *word = sum | (*word & !mask);
    }
}

/// For each byte of `a`, where it is in `b`.
struct Masks {
    row_len: usize,
    /// Index of a byte's row in `bits`; only bytes of `a` have one.
    rows: [u8; 256],
    bits: Vec<u64>,
}

impl Masks {
    fn new(a: &[u8], b: &[u8], row_len: usize) -> Option<Self> {
        let mut in_a = [false; 256];
        a.iter().for_each(|&byte| in_a[byte as usize] = true);
        let mut rows = [0; 256];
        let mut count = 0;
        for byte in (0..256).filter(|&byte| in_a[byte]) {
            rows[byte] = count as u8;
            count += 1;
        }
        let mut bits = Vec::new();
        bits.try_reserve_exact(row_len.checked_mul(count)?).ok()?;
        bits.resize(row_len * count, 0);
        for (index, &byte) in b.iter().enumerate().filter(|&(_, &byte)| in_a[byte as usize]) {
            bits[rows[byte as usize] as usize * row_len + index / 64] |= 1 << (index % 64);
        }
        Some(Self { row_len, rows, bits })
    }

    #[inline]
    fn of(&self, byte: u8) -> &[u64] {
        let start = self.rows[byte as usize] as usize * self.row_len;
        &self.bits[start..start + self.row_len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The subsequence and its runs, by the textbook's table.
    fn slow(a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Run>) {
        let mut table = vec![vec![0u32; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] =
                    if a[i - 1] == b[j - 1] { table[i - 1][j - 1] + 1 } else { table[i - 1][j].max(table[i][j - 1]) };
            }
        }
        let (mut i, mut j) = (a.len(), b.len());
        let (mut text, mut runs): (Vec<u8>, Vec<Run>) = Default::default();
        let mut joined = false;
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                text.push(a[i]);
                match runs.last_mut() {
                    Some(run) if joined => *run = Run { a: i, b: j, len: run.len + 1 },
                    _ => runs.push(Run { a: i, b: j, len: 1 }),
                }
                joined = true;
            } else {
                joined = false;
                if table[i - 1][j] > table[i][j - 1] { i -= 1 } else { j -= 1 }
            }
        }
        text.reverse();
        (text, runs)
    }

    fn fast(a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Run>) {
        let table = Table::compute(a, b, true).unwrap();
        let mut runs = Vec::new();
        table.matches(a, b, |run| runs.push(run));
        let text: Vec<u8> = runs.iter().rev().flat_map(|run| a[run.a..run.a + run.len].to_vec()).collect();
        assert_eq!(table.lcs_len(), text.len());
        assert_eq!(Table::compute(a, b, false).unwrap().lcs_len(), text.len());
        (text, runs)
    }

    #[test]
    fn the_documented_example_comes_out() {
        let (text, runs) = fast(b"ohmytext", b"mynewtext");
        assert_eq!(text, b"mytext");
        assert_eq!(runs, [Run { a: 4, b: 5, len: 4 }, Run { a: 2, b: 0, len: 2 }]);
    }

    #[test]
    fn an_empty_string_has_nothing_in_common() {
        for (a, b) in [("", ""), ("a", ""), ("", "b"), ("a", "b")] {
            assert_eq!(fast(a.as_bytes(), b.as_bytes()), (Vec::new(), Vec::new()));
        }
    }

    proptest! {
        #[test]
        fn bits_find_the_same_subsequence_as_the_textbook(
            a in prop::collection::vec(b'a'..b'e', 0..200),
            b in prop::collection::vec(b'a'..b'f', 0..200),
        ) {
            prop_assert_eq!(fast(&a, &b), slow(&a, &b));
        }
    }
}
