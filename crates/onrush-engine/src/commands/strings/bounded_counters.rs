//! INCREX: a counter with bounds and an expiry in one step, for rate limiters.

use onrush_store::NewValue;
use smallvec::SmallVec;

use crate::commands::strings::{ExpiryUnit, check_string, float, integer};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};
use crate::formats::long_double::LongDouble;

const BOUNDS_CROSS: CommandError = CommandError::fixed("ERR LBOUND must not be greater than UBOUND");

/// What happens to the key's expiry.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Expiry {
    #[default]
    Stays,
    Goes,
    /// As argument `.1` says.
    Is(ExpiryUnit, usize),
}

/// What the options say; numbers by the indexes of their arguments.
#[derive(Default)]
struct Options {
    increment: Option<usize>,
    is_float: bool,
    low: Option<usize>,
    high: Option<usize>,
    saturates: bool,
    expiry: Expiry,
    /// `ENX`: an existing expiry stays.
    only_new_expiry: bool,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut rest = ctx.rest(2);
        while !rest.is_empty() {
            if !options.saturates && rest.take("SATURATE") {
                options.saturates = true;
            } else if !options.only_new_expiry && rest.take("ENX") {
                options.only_new_expiry = true;
            } else if options.expiry == Expiry::Stays && rest.take("PERSIST") {
                options.expiry = Expiry::Goes;
            } else if options.expiry == Expiry::Stays
                && let Some(unit) = rest.take_if(1, ExpiryUnit::from_option)
            {
                options.expiry = Expiry::Is(unit, rest.next_index());
            } else if options.increment.is_none()
                && let Some(is_float) = rest.take_one_of_with([("BYINT", false), ("BYFLOAT", true)], 1)
            {
                (options.is_float, options.increment) = (is_float, Some(rest.next_index()));
            } else if options.low.is_none() && rest.take_with("LBOUND", 1) {
                options.low = Some(rest.next_index());
            } else if options.high.is_none() && rest.take_with("UBOUND", 1) {
                options.high = Some(rest.next_index());
            } else {
                return Err(error::SYNTAX);
            }
        }
        // The condition needs an expiry to apply to.
        let is_vain = options.only_new_expiry && !matches!(options.expiry, Expiry::Is(..));
        if is_vain { Err(error::SYNTAX) } else { Ok(options) }
    }
}

/// `INCREX key [BYFLOAT increment | BYINT increment] [LBOUND bound] [UBOUND bound] [SATURATE] [EX seconds | PX
/// milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]`: replies with the new value
/// and the amount added. If the sum would be out of bounds or need more than 64 bits, nothing changes and the amount is
/// 0; with SATURATE the value becomes the bound instead.
pub(crate) fn increx(ctx: &mut Ctx<'_>) -> CommandResult {
    let options = Options::parse(ctx)?;
    if options.is_float { add_float(ctx, &options) } else { add_int(ctx, &options) }
}

/// A value and when it expires.
struct Found<T> {
    value: T,
    expire: Option<i64>,
}

/// When a key expired before a command, and when it expires after it; in Unix milliseconds.
#[derive(Clone, Copy)]
struct ExpiryChange {
    before: Option<i64>,
    after: Option<i64>,
}

/// A function from the key's present expiry to its new one. It reads the arguments before the key is touched.
fn expiry(ctx: &Ctx<'_>, options: &Options) -> Result<impl Fn(Option<i64>) -> Option<i64> + use<>, CommandError> {
    let at = match options.expiry {
        Expiry::Is(unit, index) => Some(unit.read(ctx, index)?),
        Expiry::Stays | Expiry::Goes => None,
    };
    let (stays, only_new) = (options.expiry == Expiry::Stays, options.only_new_expiry);
    Ok(move |before: Option<i64>| if stays || (only_new && before.is_some()) { before } else { at })
}

fn add_int(ctx: &mut Ctx<'_>, options: &Options) -> CommandResult {
    let number = |index: Option<usize>, default| index.map_or(Ok(default), |index| ctx.int(index));
    let increment = number(options.increment, 1)?;
    let (low, high) = (number(options.low, i64::MIN)?, number(options.high, i64::MAX)?);
    if low > high {
        return Err(BOUNDS_CROSS.into());
    }
    let expiry = expiry(ctx, options)?;
    let key = ctx.key(1);
    let found = match ctx.commit.write(&key) {
        Some(slot) => Found { value: integer(slot.value())?, expire: slot.expire_at() },
        None => Found { value: 0, expire: None },
    };
    let sum = i128::from(found.value) + i128::from(increment);
    let is_within = (i128::from(low)..=i128::from(high)).contains(&sum);
    if !is_within && !options.saturates {
        reply_ints(ctx, found.value, 0);
        return Ok(());
    }
    let value = sum.clamp(low.into(), high.into()) as i64;
    let added = value.checked_sub(found.value).ok_or(error::OVERFLOW)?;
    let expiries = ExpiryChange { before: found.expire, after: expiry(found.expire) };
    store_int(ctx, &key, value, expiries);
    note(ctx, &key, "incrby", itoa::Buffer::new().format(value).as_bytes(), expiries);
    reply_ints(ctx, value, added);
    Ok(())
}

/// Stores an integer; an entry that already holds one is changed in place.
fn store_int(ctx: &mut Ctx<'_>, key: &Key<'_>, value: i64, expiries: ExpiryChange) {
    if let Some(mut slot) = ctx.commit.write(key)
        && let Some(int) = slot.int_mut()
    {
        *int = value;
        if expiries.before != expiries.after {
            slot.set_expire(expiries.after);
        }
        return;
    }
    ctx.commit.set(key, NewValue::Int(value), expiries.after);
}

fn reply_ints(ctx: &mut Ctx<'_>, value: i64, added: i64) {
    ctx.out.array(2);
    ctx.out.int(value);
    ctx.out.int(added);
}

fn add_float(ctx: &mut Ctx<'_>, options: &Options) -> CommandResult {
    let number = |index: usize| LongDouble::parse(ctx.arg(index)).ok_or(error::NOT_FLOAT);
    let bound = |index: Option<usize>| index.map(number).transpose();
    let increment = options.increment.map_or(Ok(LongDouble::from_i64(1)), number)?;
    let (low, high) = (bound(options.low)?, bound(options.high)?);
    if low.zip(high).is_some_and(|(low, high)| high.is_less_than(low)) {
        return Err(BOUNDS_CROSS.into());
    }
    let expiry = expiry(ctx, options)?;
    let key = ctx.key(1);
    let found = match ctx.commit.write(&key) {
        Some(slot) => {
            check_string(&slot)?;
            Found { value: float(slot.value())?, expire: slot.expire_at() }
        }
        None => Found { value: LongDouble::from_i64(0), expire: None },
    };
    let sum = found.value.checked_add(increment).ok_or(error::NOT_FINITE)?;
    let bounded = match (low, high) {
        (Some(low), _) if sum.is_less_than(low) => low,
        (_, Some(high)) if high.is_less_than(sum) => high,
        _ => sum,
    };
    if bounded != sum && !options.saturates {
        reply_floats(ctx, &found.value.to_string(), "0");
        return Ok(());
    }
    if bounded.is_infinite() {
        return Err(error::NOT_FINITE.into());
    }
    let value = bounded.to_string();
    let expiries = ExpiryChange { before: found.expire, after: expiry(found.expire) };
    ctx.commit.set(&key, NewValue::Bytes(value.as_bytes()), expiries.after);
    note(ctx, &key, "incrbyfloat", value.as_bytes(), expiries);
    let added = bounded.checked_add(found.value.negated()).unwrap_or(increment);
    reply_floats(ctx, &value, &added.to_string());
    Ok(())
}

/// Doubles in RESP3, with the same digits as the strings in RESP2.
fn reply_floats(ctx: &mut Ctx<'_>, value: &str, added: &str) {
    ctx.out.array(2);
    for number in [value, added] {
        if ctx.out.is_resp3() {
            ctx.out.raw(format!(",{number}\r\n").as_bytes());
        } else {
            ctx.out.bulk(number.as_bytes());
        }
    }
}

/// Notes the change, and logs its result: the value, and when it expires.
fn note(ctx: &mut Ctx<'_>, key: &Key<'_>, event: &'static str, value: &[u8], expiries: ExpiryChange) {
    let ExpiryChange { before, after: expire } = expiries;
    ctx.changed(EventClass::String, event, key.bytes);
    if before != expire {
        let event = if expire.is_some() { "expire" } else { "persist" };
        ctx.changed_quietly(EventClass::Generic, event, key.bytes);
    }
    if ctx.is_logged() {
        let mut text = itoa::Buffer::new();
        let mut args: SmallVec<[&[u8]; 5]> = SmallVec::from_slice(&[b"SET", key.bytes, value]);
        if let Some(at) = expire {
            args.extend_from_slice(&[b"PXAT", text.format(at).as_bytes()]);
        }
        ctx.log_instead(&args);
    }
}
