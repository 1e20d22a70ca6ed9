//! Debug builds check that shards are locked in ascending order; release builds have none of this.

/// A shard's place in the order: database first, then shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    #[cfg(debug_assertions)]
    rank: (u32, u32),
}

/// As long as it exists, this thread holds a shard's lock.
pub(crate) struct Held {
    #[cfg(debug_assertions)]
    rank: (u32, u32),
}

#[cfg(not(debug_assertions))]
mod imp {
    use super::{Held, Rank};

    impl Rank {
        pub(crate) fn new(_database: usize, _shard: usize) -> Self {
            Rank {}
        }

        #[inline(always)]
        pub(crate) fn check(self) {}

        #[inline(always)]
        pub(crate) fn hold(self) -> Held {
            Held {}
        }
    }
}

#[cfg(debug_assertions)]
mod imp {
    use std::cell::RefCell;

    use super::{Held, Rank};

    thread_local! {
        static HELD: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
    }

    impl Rank {
        pub(crate) fn new(database: usize, shard: usize) -> Self {
            Rank { rank: (database as u32, shard as u32) }
        }

        /// Panics when the thread holds a shard that comes after this one, or this one itself.
        pub(crate) fn check(self) {
            let highest = HELD.with_borrow(|held| held.iter().max().copied());
            if let Some(highest) = highest
                && highest >= self.rank
            {
                let ((database, shard), (held_database, held_shard)) = (self.rank, highest);
                panic!(
                    "lock order: shard {shard} of database {database} is to be locked while shard {held_shard} of \
                     database {held_database} is held; shards are locked in ascending order, each once"
                );
            }
        }

        pub(crate) fn hold(self) -> Held {
            HELD.with_borrow_mut(|held| held.push(self.rank));
            Held { rank: self.rank }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                if let Some(index) = held.iter().rposition(|rank| *rank == self.rank) {
                    held.swap_remove(index);
                }
            });
        }
    }
}
