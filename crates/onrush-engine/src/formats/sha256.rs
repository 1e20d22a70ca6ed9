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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of FIPS 180-4. Logs contain digests, so they stay the same in every version.
    #[test]
    fn digests_are_those_of_the_standard() {
        let known = [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (message, digest) in known {
            assert_eq!(hex(message.as_bytes()), digest);
        }
        let long = "a".repeat(1_000_000);
        assert_eq!(hex(long.as_bytes()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}
