//! Sorted sets.

use onrush_resp::push_double;
use onrush_store::SortedSet;

use super::DataType;
use super::batch::{Batch, Emit};
use super::digest::Mixer;

impl DataType for SortedSet {
    fn rebuild(&self, key: &[u8], emit: Emit<'_>) {
        let mut batch = Batch::new(key, emit);
        let mut text = Vec::new();
        for (member, score) in self.iter() {
            text.clear();
            push_double(&mut text, score);
            batch.add(b"ZADD", &[&text, member]);
        }
        batch.flush();
    }

    fn digest(&self, mixer: &mut Mixer) {
        mixer.unordered(|add| self.iter().for_each(|(member, score)| add(&[member, &score.to_le_bytes()])));
    }
}
