//! Lists.

use onrush_store::List;

use super::DataType;
use super::batch::{Batch, Emit};
use super::digest::Mixer;

impl DataType for List {
    fn rebuild(&self, key: &[u8], emit: Emit<'_>) {
        let mut batch = Batch::new(key, emit);
        self.iter().for_each(|element| batch.add(b"RPUSH", &[element.as_bytes()]));
        batch.flush();
    }

    fn digest(&self, mixer: &mut Mixer) {
        self.iter().for_each(|element| mixer.part(element.as_bytes()));
        mixer.unordered(|_| {});
    }
}
