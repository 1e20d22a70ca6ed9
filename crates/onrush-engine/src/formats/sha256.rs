//! SHA-256, for the digests of passwords that ACL shows and of messages that are to be told apart.

use sha2::{Digest, Sha256};

/// The digest of `message`. O(length).
pub fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

/// The digest of `message` in hexadecimal digits. O(length).
pub fn hex(message: &[u8]) -> String {
    digest(message).iter().map(|byte| format!("{byte:02x}")).collect()
}
