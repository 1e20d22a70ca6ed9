//! Hashes.

use onrush_store::Hash;

use super::DataType;
use super::batch::{Batch, Emit};
use super::digest::Mixer;

impl DataType for Hash {
    fn rebuild(&self, key: &[u8], emit: Emit<'_>) {
        let mut batch = Batch::new(key, &mut *emit);
        self.iter().for_each(|field| batch.add(b"HSET", &[field.name, field.value]));
        batch.flush();
        if !self.is_volatile() {
            return;
        }
        for field in self.iter() {
            if let Some(at) = field.expiry {
                let mut at_text = itoa::Buffer::new();
                emit(&[b"HPEXPIREAT", key, at_text.format(at).as_bytes(), b"FIELDS", b"1", field.name]);
            }
        }
    }

    fn digest(&self, mixer: &mut Mixer) {
        mixer.unordered(|add| self.iter().for_each(|field| add(&[field.name, field.value])));
    }

    fn digest_state(&self, mixer: &mut Mixer) {
        mixer.unordered(|add| {
            for field in self.iter() {
                if let Some(at) = field.expiry {
                    add(&[field.name, &at.to_le_bytes()]);
                }
            }
        });
    }
}
