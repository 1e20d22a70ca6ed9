//! The version of Redis that the server stands for.

/// The Redis version that the server reports: clients choose features by it.
pub const REDIS_VERSION: &str = "7.4.0";

/// The same as a number, a byte for each part, as scripts read it in `redis.REDIS_VERSION_NUM`.
pub const REDIS_VERSION_NUM: u32 = number(REDIS_VERSION.as_bytes());

const fn number(version: &[u8]) -> u32 {
    let (mut done, mut part, mut at) = (0, 0, 0);
    while at < version.len() {
        match version[at] {
            b'.' => (done, part) = (done << 8 | part, 0),
            digit => part = part * 10 + (digit - b'0') as u32,
        }
        at += 1;
    }
    done << 8 | part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_byte_for_each_part() {
        assert_eq!(number(b"7.4.0"), 0x0007_0400);
        assert_eq!(number(b"12.0.15"), 0x000c_000f);
        assert_eq!(REDIS_VERSION.split('.').count(), 3);
    }
}
