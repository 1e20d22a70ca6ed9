//! Rows of the command table: the bit commands.

use crate::batch::argv::Arguments;
use crate::command::key_spec::{Invalid, KeyRef, KeyRefs};
use crate::command::spec::{KeySpec, Spec, key_flags};
use crate::commands::bits::{self, fields};

/// The bit commands.
pub(crate) static SPECS: &[Spec] = &[
    Spec::bitmap("setbit", "2.2.0", 4, "write denyoom", bits::setbit)
        .syntax("key offset value")
        .summary("Sets a bit of a string and returns the old one.")
        .complexity("O(1), with the string's growth")
        .key("RW access update"),
    Spec::bitmap("getbit", "2.2.0", 3, "readonly fast short", bits::getbit)
        .syntax("key offset")
        .summary("Returns a bit of a string.")
        .key("RO access"),
    Spec::bitmap("bitfield", "3.2.0", -2, "write denyoom", fields::bitfield)
        .syntax(
            "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] \
             <SET encoding offset value | INCRBY encoding offset increment>]",
        )
        .summary("Reads and writes integers of any width at any place in a string.")
        .complexity("O(N) for N steps")
        .key("RW access update variable_flags")
        .get_keys(bitfield_keys),
    Spec::bitmap("bitfield_ro", "6.0.0", -2, "readonly fast short", fields::bitfield_ro)
        .syntax("key [GET encoding offset [GET encoding offset ...]]")
        .summary("Reads integers of any width at any place in a string.")
        .complexity("O(N) for N steps")
        .key("RO access"),
    Spec::bitmap("bitop", "2.6.0", -4, "write denyoom", bits::bitop)
        .syntax("<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]")
        .summary("Combines strings bit by bit and stores the result.")
        .complexity("O(N) for N bytes")
        .keys(&[KeySpec::keys("OW update", 2, 0, 1), KeySpec::keys("RO access", 3, -1, 1)])
        .history(&[("8.2.0", "Operations `DIFF`, `DIFF1`, `ANDOR` and `ONE`.")]),
    Spec::bitmap("bitcount", "2.6.0", -2, "readonly", bits::bitcount)
        .syntax("key [start end [BYTE | BIT]]")
        .summary("Counts the bits of a string that are set.")
        .complexity("O(N) for N bytes")
        .key("RO access"),
    Spec::bitmap("bitpos", "2.8.7", -3, "readonly", bits::bitpos)
        .syntax("key bit [start [end [BYTE | BIT]]]")
        .summary("Finds the first bit of a string that is set or not set.")
        .complexity("O(N) for N bytes")
        .key("RO access"),
];

/// BITFIELD only reads its key if all its steps are GET or OVERFLOW and complete.
fn bitfield_keys(argv: &dyn Arguments, found: &mut KeyRefs) -> Result<(), Invalid> {
    let mut at = 2;
    while at < argv.len() {
        let is = |word: &[u8]| argv.get(at).eq_ignore_ascii_case(word);
        at += match argv.len() - at {
            3.. if is(b"get") => 3,
            2.. if is(b"overflow") => 2,
            _ => break,
        };
    }
    let flags = if at == argv.len() { key_flags("RO access") } else { key_flags("RW access update") };
    found.push(KeyRef { index: 1, flags });
    Ok(())
}
