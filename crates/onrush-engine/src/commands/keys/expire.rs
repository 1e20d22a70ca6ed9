//! Expiry: setting it, asking for it, taking it away.

use onrush_store::Entry;

use crate::commands::keys::inspect;
use crate::commands::strings::{ExpiryUnit, bad_expiry};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::CommandError;

const NX_AND_OTHERS: CommandError =
    CommandError::fixed("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_AND_LT: CommandError = CommandError::fixed("ERR GT and LT options at the same time are not compatible");

/// `EXPIRE key seconds [NX | XX | GT | LT]`, or one of its relatives.
pub(super) fn expire(ctx: &mut Ctx<'_>, unit: ExpiryUnit) -> CommandResult {
    let condition = Condition::parse(ctx, 3)?;
    let at = unit.at(ctx.int(2)?, ctx.now_ms()).ok_or_else(|| bad_expiry(ctx))?;
    let key = ctx.key(1);
    let set = set_expire(ctx, &key, at, condition);
    ctx.reply_int(i64::from(set))
}

/// Makes a key expire at Unix time `at` in milliseconds, or deletes it if that is past; returns whether it did either.
pub(crate) fn set_expire(ctx: &mut Ctx<'_>, key: &Key<'_>, at: i64, condition: Condition) -> bool {
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
pub(crate) struct Condition {
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
                return Err(CommandError::quoting("ERR Unsupported option ", ctx.arg(index), ""));
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

/// `TTL key`, or one of its relatives: when the key expires, -1 if it does not, -2 if there is no such key.
pub(super) fn ttl(ctx: &mut Ctx<'_>, unit: ExpiryUnit) -> CommandResult {
    let key = ctx.key(1);
    let base_ms = unit.base_ms(ctx.now_ms());
    let ttl = match inspect(ctx, &key, Entry::expire_at) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) if unit.is_in_seconds() => to_seconds((at - base_ms).max(0)),
        Some(Some(at)) => (at - base_ms).max(0),
    };
    ctx.reply_int(ttl)
}

/// A time of 0 or more in seconds, rounded to the nearest.
fn to_seconds(time_ms: i64) -> i64 {
    // As an unsigned number it has room for the rounding.
    ((time_ms as u64 + 500) / 1000) as i64
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
    ctx.reply_int(i64::from(persisted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_range_are_noticed() {
        assert_eq!(ExpiryUnit::ExAt.at(i64::MAX / 1000 + 1, 5000), None);
        assert_eq!(ExpiryUnit::ExAt.at(i64::MIN / 1000 - 1, 5000), None);
        assert_eq!(ExpiryUnit::Px.at(i64::MAX, 1), None);
        assert_eq!(ExpiryUnit::PxAt.at(i64::MAX, 1), Some(i64::MAX));
        assert_eq!(ExpiryUnit::Ex.at(-1, 5000), Some(4000));
        assert_eq!(ExpiryUnit::ExAt.at(-1, 5000), Some(-1000));
    }

    #[test]
    fn seconds_are_rounded_to_the_nearest() {
        assert_eq!(to_seconds(1499), 1);
        assert_eq!(to_seconds(1500), 2);
        assert_eq!(to_seconds(i64::MAX), i64::MAX / 1000 + 1);
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
