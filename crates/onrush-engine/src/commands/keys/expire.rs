//! Expiry: setting it, asking for it, taking it away.

use onrush_store::Entry;

use crate::commands::keys::inspect;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const NX_AND_OTHERS: CommandError =
    CommandError::fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_AND_LT: CommandError = CommandError::fixed("ERR GT and LT options at the same time are not compatible");

/// What the number given to a command of this family counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    /// The time `value` units after `base_ms`; `None` if that is out of range.
    fn after(self, value: i64, base_ms: i64) -> Option<i64> {
        let value_ms = match self {
            Self::Seconds => value.checked_mul(1000)?,
            Self::Milliseconds => value,
        };
        value_ms.checked_add(base_ms)
    }

    /// A time of 0 or more in this unit, seconds rounded to the nearest.
    fn of_ms(self, time_ms: i64) -> i64 {
        match self {
            // As unsigned numbers they have room for the rounding.
            Self::Seconds => ((time_ms as u64 + 500) / 1000) as i64,
            Self::Milliseconds => time_ms,
        }
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub(crate) fn expire(ctx: &mut Ctx<'_>) -> CommandResult {
    expire_generic(ctx, ctx.now_ms(), Unit::Seconds)
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub(crate) fn pexpire(ctx: &mut Ctx<'_>) -> CommandResult {
    expire_generic(ctx, ctx.now_ms(), Unit::Milliseconds)
}

/// `EXPIREAT key unix-time-seconds [NX | XX | GT | LT]`
pub(crate) fn expireat(ctx: &mut Ctx<'_>) -> CommandResult {
    expire_generic(ctx, 0, Unit::Seconds)
}

/// `PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]`
pub(crate) fn pexpireat(ctx: &mut Ctx<'_>) -> CommandResult {
    expire_generic(ctx, 0, Unit::Milliseconds)
}

fn expire_generic(ctx: &mut Ctx<'_>, base_ms: i64, unit: Unit) -> CommandResult {
    let condition = Condition::parse(ctx, 3)?;
    let at = unit.after(ctx.int(2)?, base_ms).ok_or_else(|| invalid_expire_time(ctx))?;
    let key = ctx.key(1);
    let set = set_expire(ctx, &key, at, condition);
    ctx.out.int(i64::from(set));
    Ok(())
}

/// The error for an expiry out of range.
#[cold]
fn invalid_expire_time(ctx: &Ctx<'_>) -> CommandError {
    CommandError::text(format!("ERR invalid expire time in '{}' command", ctx.command.full_name))
}

/// Makes a key expire at Unix time `at` in milliseconds, or deletes it if that is past; returns whether it did either.
fn set_expire(ctx: &mut Ctx<'_>, key: &Key<'_>, at: i64, condition: Condition) -> bool {
    let due_ms = ctx.due_ms();
    let Some(mut slot) = ctx.commit.write(key) else { return false };
    if !condition.allows(slot.expire_at(), at) {
        return false;
    }
    if at <= due_ms {
        let removed = slot.remove();
        ctx.commit.discard(Some(removed));
        ctx.changed(EventClass::Generic, "del", key.bytes);
        ctx.log_instead(&[b"DEL", key.bytes]);
        return true;
    }
    slot.set_expire(Some(at));
    ctx.changed(EventClass::Generic, "expire", key.bytes);
    if ctx.is_logged() {
        let mut text = itoa::Buffer::new();
        ctx.log_instead(&[b"PEXPIREAT", key.bytes, text.format(at).as_bytes()]);
    }
    true
}

/// When an expiry may be set: the options of EXPIRE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Condition {
    /// Only on a key without one.
    nx: bool,
    /// Only on a key with one.
    xx: bool,
    /// Only to a later time.
    gt: bool,
    /// Only to an earlier time.
    lt: bool,
}

impl Condition {
    /// Reads the arguments from `first` on.
    fn parse(ctx: &Ctx<'_>, first: usize) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        for index in first..ctx.argc() {
            if ctx.is(index, "NX") {
                condition.nx = true;
            } else if ctx.is(index, "XX") {
                condition.xx = true;
            } else if ctx.is(index, "GT") {
                condition.gt = true;
            } else if ctx.is(index, "LT") {
                condition.lt = true;
            } else {
                return Err(CommandError::bytes([b"ERR Unsupported option ", error::quoted(ctx.arg(index))].concat()));
            }
        }
        let Self { nx, xx, gt, lt } = condition;
        if nx && (xx || gt || lt) {
            return Err(NX_AND_OTHERS);
        }
        if gt && lt {
            return Err(GT_AND_LT);
        }
        Ok(condition)
    }

    /// Whether an expiry at `new` may replace the old one. A key without an expiry counts as one with the latest
    /// possible expiry.
    fn allows(self, old: Option<i64>, new: i64) -> bool {
        let barred = match old {
            Some(old) => self.nx || (self.gt && new <= old) || (self.lt && new >= old),
            None => self.xx || self.gt,
        };
        !barred
    }
}

/// `TTL key`
pub(crate) fn ttl(ctx: &mut Ctx<'_>) -> CommandResult {
    ttl_generic(ctx, ctx.now_ms(), Unit::Seconds)
}

/// `PTTL key`
pub(crate) fn pttl(ctx: &mut Ctx<'_>) -> CommandResult {
    ttl_generic(ctx, ctx.now_ms(), Unit::Milliseconds)
}

/// `EXPIRETIME key`
pub(crate) fn expiretime(ctx: &mut Ctx<'_>) -> CommandResult {
    ttl_generic(ctx, 0, Unit::Seconds)
}

/// `PEXPIRETIME key`
pub(crate) fn pexpiretime(ctx: &mut Ctx<'_>) -> CommandResult {
    ttl_generic(ctx, 0, Unit::Milliseconds)
}

/// Replies the time from `base_ms` to the key's expiry, -1 if it has none, -2 if there is no such key.
fn ttl_generic(ctx: &mut Ctx<'_>, base_ms: i64, unit: Unit) -> CommandResult {
    let key = ctx.key(1);
    let ttl = match inspect(ctx, &key, Entry::expire_at) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => unit.of_ms((at - base_ms).max(0)),
    };
    ctx.out.int(ttl);
    Ok(())
}

/// `PERSIST key`
pub(crate) fn persist(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let persisted = match ctx.commit.write(&key) {
        Some(mut slot) if slot.expire_at().is_some() => {
            slot.set_expire(None);
            true
        }
        _ => false,
    };
    if persisted {
        ctx.changed(EventClass::Generic, "persist", key.bytes);
    }
    ctx.out.int(i64::from(persisted));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_range_are_noticed() {
        assert_eq!(Unit::Seconds.after(i64::MAX / 1000 + 1, 0), None);
        assert_eq!(Unit::Seconds.after(i64::MIN / 1000 - 1, 0), None);
        assert_eq!(Unit::Milliseconds.after(i64::MAX, 1), None);
        assert_eq!(Unit::Milliseconds.after(i64::MAX, 0), Some(i64::MAX));
        assert_eq!(Unit::Seconds.after(-1, 5000), Some(4000));
    }

    #[test]
    fn seconds_are_rounded_to_the_nearest() {
        assert_eq!(Unit::Seconds.of_ms(1499), 1);
        assert_eq!(Unit::Seconds.of_ms(1500), 2);
        assert_eq!(Unit::Seconds.of_ms(i64::MAX), i64::MAX / 1000 + 1);
        assert_eq!(Unit::Milliseconds.of_ms(1499), 1499);
    }

    #[test]
    fn no_expiry_counts_as_the_latest_one() {
        let none = Condition::default();
        let (gt, lt) = (Condition { gt: true, ..none }, Condition { lt: true, ..none });
        let (nx, xx) = (Condition { nx: true, ..none }, Condition { xx: true, ..none });
        for (condition, without, earlier, same, later) in [
            (none, true, true, true, true),
            (gt, false, false, false, true),
            (lt, true, true, false, false),
            (nx, true, false, false, false),
            (xx, false, true, true, true),
        ] {
            assert_eq!(condition.allows(None, 10), without, "{condition:?}");
            assert_eq!(condition.allows(Some(10), 9), earlier, "{condition:?}");
            assert_eq!(condition.allows(Some(10), 10), same, "{condition:?}");
            assert_eq!(condition.allows(Some(10), 11), later, "{condition:?}");
        }
    }
}
