//! Latencies as they come: all of them, and piece by piece over time.

use hdrhistogram::Histogram;

use crate::outcome::{Point, histogram};

/// The length of a piece at first, in nanoseconds.
const PIECE_NS: u64 = 100_000_000;
/// At this number of pieces, each two become one, which keeps memory and plots small however long a run is. An even
/// number.
const PIECES_MAX: usize = 120;

/// The latencies of a piece that occur, each with its count.
type Counts = Vec<(u64, u64)>;

/// The latencies of one thread.
#[derive(Debug)]
pub struct Recorder {
    /// Those of all pieces that are over.
    total: Histogram<u64>,
    piece: Histogram<u64>,
    start_ns: u64,
    /// When the piece is over.
    end_ns: u64,
    pieces: Pieces,
}

/// A thread's run piece by piece.
#[derive(Clone, Debug)]
pub struct Pieces {
    len_ns: u64,
    counts: Vec<Counts>,
}

impl Recorder {
    /// Pieces count from this time on.
    pub fn new(start_ns: u64) -> Recorder {
        let pieces = Pieces { len_ns: PIECE_NS, counts: Vec::new() };
        Recorder { total: histogram(), piece: histogram(), start_ns, end_ns: start_ns + PIECE_NS, pieces }
    }

    /// Notes `count` replies of one latency that came at `now_ns`. Times must not go back.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, count: u64, now_ns: u64) {
        if now_ns >= self.end_ns {
            self.advance(now_ns);
        }
        self.piece.saturating_record_n(latency_ns, count);
    }

    #[cold]
    fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.end_ns {
            self.close();
            self.end_ns = self.start_ns + (self.pieces.counts.len() as u64 + 1) * self.pieces.len_ns;
        }
    }

    fn close(&mut self) {
        let recorded = self.piece.iter_recorded();
        let counts: Counts = recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
        if !counts.is_empty() {
            // The bounds are the same.
            _ = self.total.add(&self.piece);
            self.piece.reset();
        }
        self.pieces.counts.push(counts);
        if self.pieces.counts.len() == PIECES_MAX {
            self.pieces.coarsen();
        }
    }

    /// All latencies, and the pieces.
    pub fn finish(mut self) -> (Histogram<u64>, Pieces) {
        self.close();
        (self.total, self.pieces)
    }
}

impl Pieces {
    fn coarsen(&mut self) {
        self.len_ns *= 2;
        let merged = self.counts.chunks_mut(2).map(|pair| pair.iter_mut().flat_map(std::mem::take).collect());
        self.counts = merged.collect();
    }
}

/// The pieces of all threads together, up to the time of the last reply.
pub fn points(mut threads: Vec<Pieces>, elapsed_ns: u64) -> Vec<Point> {
    let len_ns = threads.iter().map(|pieces| pieces.len_ns).max().unwrap_or(PIECE_NS);
    for pieces in &mut threads {
        while pieces.len_ns < len_ns {
            pieces.coarsen();
        }
    }
    let len = elapsed_ns.div_ceil(len_ns) as usize;
    let mut all = histogram();
    (0..len)
        .map(|index| {
            all.reset();
            for counts in threads.iter().filter_map(|pieces| pieces.counts.get(index)) {
                counts.iter().for_each(|&(latency, count)| all.saturating_record_n(latency, count));
            }
            let at_ns = index as u64 * len_ns;
            let at = |quantile: f64| if all.is_empty() { 0.0 } else { all.value_at_quantile(quantile) as f64 / 1e6 };
            Point {
                at_s: at_ns as f64 / 1e9,
                len_s: len_ns.min(elapsed_ns - at_ns) as f64 / 1e9,
                replies: all.len(),
                p50_ms: at(0.5),
                p99_ms: at(0.99),
                max_ms: at(1.0),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tell_when_replies_came() {
        let mut recorder = Recorder::new(1_000);
        recorder.record(1_000_000, 5, 2_000);
        recorder.record(9_000_000, 7, 1_000 + 2 * PIECE_NS);
        let (total, pieces) = recorder.finish();
        let points = points(vec![pieces.clone(), pieces], 2 * PIECE_NS + 50_000_000);
        assert_eq!(total.len(), 12);
        assert_eq!(points.iter().map(|point| point.replies).collect::<Vec<_>>(), [10, 0, 14]);
        assert_eq!((points[1].max_ms, points[2].at_s, points[2].len_s), (0.0, 0.2, 0.05));
        assert!((points[2].p50_ms - 9.0).abs() < 0.01);
    }

    #[test]
    fn long_runs_keep_few_pieces_and_lose_no_reply() {
        let mut recorder = Recorder::new(0);
        (0..5_000).for_each(|n| recorder.record(1_000, 1, n * PIECE_NS));
        let (total, pieces) = recorder.finish();
        assert!(pieces.counts.len() < PIECES_MAX);
        let points = points(vec![pieces], 5_000 * PIECE_NS);
        assert_eq!((total.len(), points.iter().map(|point| point.replies).sum::<u64>()), (5_000, 5_000));
        let full = points[0].replies;
        assert!(points[..points.len() - 1].iter().all(|point| point.replies == full));
    }
}
