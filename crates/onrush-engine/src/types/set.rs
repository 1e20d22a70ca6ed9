//! Sets.

use onrush_store::Set;

use super::DataType;
use super::batch::{Batch, Emit};
use super::digest::Mixer;

impl DataType for Set {
    fn rebuild(&self, key: &[u8], emit: Emit<'_>) {
        let mut batch = Batch::new(key, emit);
        self.iter().for_each(|member| batch.add(b"SADD", &[member.to_bytes(&mut itoa::Buffer::new())]));
        batch.flush();
    }

    fn digest(&self, mixer: &mut Mixer) {
        mixer.unordered(|add| self.iter().for_each(|member| add(&[member.to_bytes(&mut itoa::Buffer::new())])));
    }
}
