//! Which of the last entries looked at rank high.

/// Looks that are remembered, and looks after which the bar is set anew.
const RANKING_LEN: usize = 256;
const RANKING_PERIOD: usize = 128;

/// The ranks of the last entries looked at.
pub(super) struct Ranking {
    ranks: [u64; RANKING_LEN],
    len: usize,
    next: usize,
    /// All looks, and those since the bar was set.
    pub(super) looks: usize,
    fresh: usize,
    /// The rank from which on an entry goes.
    bar: Option<u64>,
}

impl Default for Ranking {
    fn default() -> Self {
        Self { ranks: [0; RANKING_LEN], len: 0, next: 0, looks: 0, fresh: 0, bar: None }
    }
}

impl Ranking {
    #[inline]
    pub(super) fn note(&mut self, rank: u64) {
        self.ranks[self.next] = rank;
        self.next = (self.next + 1) % RANKING_LEN;
        self.len = (self.len + 1).min(RANKING_LEN);
        self.looks += 1;
        self.fresh += 1;
    }

    /// The rank that about one in `looks` entries reaches; `None` while too few were looked at to tell, unless those were
    /// `all` there are.
    #[inline]
    pub(super) fn bar(&mut self, looks: usize, all: bool) -> Option<u64> {
        if self.fresh >= RANKING_PERIOD || self.bar.is_none() || self.len < RANKING_LEN {
            self.set_bar(looks, all);
        }
        self.bar
    }

    /// Whether it still remembers all looks.
    pub(super) fn is_partial(&self) -> bool {
        self.len < RANKING_LEN
    }

    fn set_bar(&mut self, looks: usize, all: bool) {
        self.fresh = 0;
        self.bar = None;
        if self.len == RANKING_LEN || all && self.len > 0 {
            let mut ranks = self.ranks;
            let ranks = &mut ranks[..self.len];
            let above = (ranks.len() / looks.max(1)).saturating_sub(1);
            self.bar = Some(*ranks.select_nth_unstable_by(above, |a, b| b.cmp(a)).1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_where_one_in_so_many_ranks() {
        let mut ranking = Ranking::default();
        for rank in 0..RANKING_LEN as u64 {
            assert_eq!(ranking.bar(16, false), None);
            ranking.note(rank * 7 % RANKING_LEN as u64);
        }
        // 16 of 256 reach it.
        assert_eq!(ranking.bar(16, false), Some(240));
        (0..RANKING_LEN).for_each(|_| ranking.note(3));
        assert_eq!(ranking.bar(16, false), Some(3));
    }

    #[test]
    fn of_few_entries_the_highest_is_the_bar_once_all_were_seen() {
        let mut ranking = Ranking::default();
        [5, 9, 7].into_iter().for_each(|rank| ranking.note(rank));
        assert_eq!(ranking.bar(20, false), None);
        assert_eq!(ranking.bar(20, true), Some(9));
    }
}
