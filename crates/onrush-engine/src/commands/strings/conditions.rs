//! Conditions on what a key holds, and the digest of a string: the conditions of SET and MSETEX, DELEX, DIGEST.
//!
//! A digest is the XXH3 hash of the string, 64 bits, with seed 0. Clients compute it themselves, so it must not change.

use onrush_store::Entry;
use xxhash_rust::xxh3::xxh3_64;

use crate::command::RestOfArgs;
use crate::commands::bits::bytes_of;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError, Stop};

/// Hexadecimal digits of a digest.
const DIGEST_LEN: usize = 16;

const BAD_DIGEST: CommandError = CommandError::fixed("ERR must be exactly 16 hexadecimal characters");

/// What must be true of a key before it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition<'a> {
    /// `NX`: there is no such key.
    Absent,
    /// `XX`: there is such a key.
    Present,
    /// `IFEQ`: it holds this string.
    Equal(&'a [u8]),
    /// `IFNE`: it does not hold this string.
    NotEqual(&'a [u8]),
    /// `IFDEQ`: it holds a string with this digest.
    DigestEqual(&'a [u8]),
    /// `IFDNE`: it does not hold a string with this digest.
    DigestNotEqual(&'a [u8]),
}

/// Makes a condition that compares of its operand.
type Comparison<'a> = fn(&'a [u8]) -> Condition<'a>;

impl<'a> Condition<'a> {
    /// Takes a condition that compares, and its operand.
    pub(crate) fn take_comparison(rest: &mut RestOfArgs<'a>) -> Option<Self> {
        let words: [(&str, Comparison<'a>); 4] = [
            ("IFEQ", Self::Equal),
            ("IFNE", Self::NotEqual),
            ("IFDEQ", Self::DigestEqual),
            ("IFDNE", Self::DigestNotEqual),
        ];
        let condition = rest.take_one_of_with(words, 1)?;
        Some(condition(rest.next_arg()))
    }

    /// Whether it is about the value.
    pub(crate) fn compares(self) -> bool {
        !matches!(self, Self::Absent | Self::Present)
    }

    /// Whether it is true of a key with this entry. A missing key equals no string. O(1), for a digest O(length of the
    /// string).
    ///
    /// # Errors
    /// The digest is malformed, or the key's value is not a string.
    pub(crate) fn is_met(self, entry: Option<&Entry>) -> Result<bool, Stop> {
        match self {
            Self::Absent => Ok(entry.is_none()),
            Self::Present => Ok(entry.is_some()),
            Self::Equal(operand) => with_string(entry, |string| string == Some(operand)),
            Self::NotEqual(operand) => with_string(entry, |string| string != Some(operand)),
            Self::DigestEqual(operand) => {
                let wanted = parse_digest(operand)?;
                with_string(entry, |string| string.map(xxh3_64) == Some(wanted))
            }
            Self::DigestNotEqual(operand) => {
                let unwanted = parse_digest(operand)?;
                with_string(entry, |string| string.map(xxh3_64) != Some(unwanted))
            }
        }
    }
}

/// The result of `look` on an entry's string.
fn with_string(entry: Option<&Entry>, look: impl FnOnce(Option<&[u8]>) -> bool) -> Result<bool, Stop> {
    let Some(entry) = entry else { return Ok(look(None)) };
    Ok(look(Some(bytes_of(entry, &mut itoa::Buffer::new())?)))
}

/// A digest as DIGEST spells it, in either case.
fn parse_digest(text: &[u8]) -> Result<u64, CommandError> {
    // Parsing a number would allow a sign.
    if text.len() != DIGEST_LEN || !text.iter().all(u8::is_ascii_hexdigit) {
        return Err(BAD_DIGEST);
    }
    let text = std::str::from_utf8(text).map_err(|_| BAD_DIGEST)?;
    u64::from_str_radix(text, 16).map_err(|_| BAD_DIGEST)
}

/// `DIGEST key`
pub(crate) fn digest(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_null() };
    let digest = xxh3_64(bytes_of(entry, &mut itoa::Buffer::new())?);
    ctx.reply_bulk(&digest_text(digest))
}

/// A digest in hexadecimal.
fn digest_text(digest: u64) -> [u8; DIGEST_LEN] {
    std::array::from_fn(|at| b"0123456789abcdef"[(digest >> (60 - 4 * at)) as usize & 15])
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`: without a condition a key of any type goes.
pub(crate) fn delex(ctx: &mut Ctx<'_>) -> CommandResult {
    let condition = match ctx.argc() {
        2 => Condition::Present,
        4 => Condition::take_comparison(&mut ctx.rest(2)).ok_or(error::SYNTAX)?,
        _ => return Err(ctx.command.wrong_arity().into()),
    };
    let key = ctx.key(1);
    let slot = ctx.commit.write(&key);
    let is_met = condition.is_met(slot.as_deref())?;
    let Some(slot) = slot.filter(|_| is_met) else { return ctx.reply_int(0) };
    let removed = slot.remove();
    ctx.commit.discard(Some(removed));
    ctx.changed(EventClass::Generic, "del", key.bytes);
    ctx.log_instead(&[b"DEL", key.bytes]);
    ctx.reply_int(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_sixteen_digits() {
        assert_eq!(&digest_text(0x6c38_adf3_1777), b"00006c38adf31777");
        assert_eq!(&digest_text(u64::MAX), b"ffffffffffffffff");
        assert_eq!(parse_digest(b"00006c38ADF31777"), Ok(0x6c38_adf3_1777));
        for wrong in [&b""[..], b"6c38adf31777", b"+0006c38adf31777", b"00006c38adf3177g", b"00006c38adf317770"] {
            assert_eq!(parse_digest(wrong), Err(BAD_DIGEST));
        }
    }

    /// The vectors are those of XXH3's own documentation and of Redis's page on DIGEST.
    #[test]
    fn digests_are_those_of_xxh3() {
        assert_eq!(&digest_text(xxh3_64(b"Hello world")), b"b6acb9d84a38ff74");
        assert_eq!(&digest_text(xxh3_64(b"")), b"2d06800538d394c2");
    }
}
