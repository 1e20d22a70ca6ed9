//! Measures the store alone, in process: nanoseconds per operation with one thread and with two, and bytes of
//! resident memory per item.
//!
//! ```text
//! cargo run --release -p onrush-store-bench                         # mimalloc
//! cargo run --release -p onrush-store-bench --no-default-features   # the system's allocator
//! ```
//!
//! With `speed` or `memory` as its argument it measures only that; `memory string 700000` measures one kind of item
//! (`string`, `ttl`, `integer`) with another number of keys. `changes all 1000000 700000` measures changes of large
//! collections of a million elements, and `freeze 1000000` how long one is held up to be frozen.

mod collections;
mod memory;
mod speed;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ALLOCATOR_NAME: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" };

/// Keys in the measured database.
const KEYS: u32 = 1_000_000;

/// The key of number `n`: 16 bytes, made quickly enough not to count.
#[inline]
fn key(n: u32) -> [u8; 16] {
    // One byte per hexadecimal digit, most significant first.
    let mut digits = u64::from(n);
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let over_nine = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    digits += 0x3030_3030_3030_3030 + over_nine * 39;
    let mut key = *b"key:0000........";
    key[8..].copy_from_slice(&digits.to_be_bytes());
    key
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            speed::run();
            memory::run();
        }
        ["speed"] => speed::run(),
        ["memory"] => memory::run(),
        ["memory", item, keys] => memory::fill(item, keys.parse().expect("a number of keys")),
        ["changes", case, len, count] => {
            collections::changes(case, len.parse().expect("a length"), count.parse().expect("a number of changes"));
        }
        ["freeze", len] => collections::freeze(len.parse().expect("a length")),
        _ => {
            eprintln!(
                "usage: onrush-store-bench [speed | memory [ITEM KEYS] | changes CASE|all LEN COUNT | freeze LEN]"
            );
            std::process::exit(1);
        }
    }
}
