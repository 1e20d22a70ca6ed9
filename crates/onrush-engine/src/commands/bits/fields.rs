//! BITFIELD: integers of any width at any place in a string.

use onrush_store::bitmap;

use crate::commands::bits::{bit_offset, bytes_of, edit_string};
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const BAD_TYPE: CommandError = CommandError::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);

/// The type of a field: its width in bits, and whether it has a sign.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u32,
}

impl Width {
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        let (signed, digits) = match text {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(BAD_TYPE),
        };
        let bits_max = if signed { 64 } else { 63 };
        let bits = onrush_resp::parse_i64(digits).filter(|bits| (1..=bits_max).contains(bits)).ok_or(BAD_TYPE)?;
        Ok(Self { signed, bits: bits as u32 })
    }

    fn bounds(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// The number that the lower bits of `number` are in this type.
    fn wrap(self, number: i128) -> i128 {
        let low = number & ((1 << self.bits) - 1);
        let is_negative = self.signed && low >> (self.bits - 1) == 1;
        if is_negative { low - (1 << self.bits) } else { low }
    }
}

/// What happens to a number that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct Step {
    action: Action,
    width: Width,
    at: usize,
    overflow: Overflow,
}

impl Step {
    /// Carries out the step; `None` if the number does not fit and that is a failure.
    fn run(&self, bytes: &mut [u8]) -> Option<i64> {
        let old = self.width.wrap(i128::from(bitmap::get_number(bytes, self.at, self.width.bits)));
        let wanted = match self.action {
            Action::Get => return Some(old as i64),
            // An unsigned field takes the bits of a negative number.
            Action::Set(value) if self.width.signed => i128::from(value),
            Action::Set(value) => i128::from(value as u64),
            Action::Add(increment) => old + i128::from(increment),
        };
        let (min, max) = self.width.bounds();
        let new = match self.overflow {
            _ if (min..=max).contains(&wanted) => wanted,
            Overflow::Wrap => self.width.wrap(wanted),
            Overflow::Saturate => wanted.clamp(min, max),
            Overflow::Fail => return None,
        };
        bitmap::set_number(bytes, self.at, self.width.bits, new as u64);
        Some(if matches!(self.action, Action::Set(_)) { old } else { new } as i64)
    }
}

fn parse(ctx: &Ctx<'_>, read_only: bool) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = ctx.rest(2);
    while !rest.is_empty() {
        if rest.take_with("OVERFLOW", 1) {
            let words = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
            overflow = rest.take_one_of(words).ok_or(CommandError::fixed("ERR Invalid OVERFLOW type specified"))?;
            continue;
        }
        let write: Option<fn(i64) -> Action> = if rest.take_with("GET", 2) {
            None
        } else if rest.take_with("SET", 3) {
            Some(Action::Set)
        } else if rest.take_with("INCRBY", 3) {
            Some(Action::Add)
        } else {
            return Err(error::SYNTAX);
        };
        let width = Width::parse(rest.next_arg())?;
        let at = bit_offset(ctx, rest.next_index(), width.bits)?;
        let action = match write {
            None => Action::Get,
            Some(_) if read_only => {
                return Err(CommandError::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
            }
            Some(write) => write(rest.next_int()?),
        };
        steps.push(Step { action, width, at, overflow });
    }
    Ok(steps)
}

/// `BITFIELD key [GET type offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET type offset value | INCRBY type offset increment> …]`
pub(crate) fn bitfield(ctx: &mut Ctx<'_>) -> CommandResult {
    let steps = parse(ctx, false)?;
    let writes = |step: &&Step| !matches!(step.action, Action::Get);
    let end = steps.iter().filter(writes).map(|step| step.at + step.width.bits as usize).max();
    let Some(end) = end else { return read_fields(ctx, &steps) };
    let key = ctx.key(1);
    let (mut results, mut changes, mut writes_any) = (Vec::new(), 0, false);
    let ((), grew) = edit_string(ctx, &key, end.div_ceil(8), |bytes| {
        for step in &steps {
            let before = bitmap::get_number(bytes, step.at, step.width.bits);
            let result = step.run(bytes);
            writes_any |= result.is_some() && writes(&step);
            results.push(result);
            changes += usize::from(before != bitmap::get_number(bytes, step.at, step.width.bits));
        }
    })?;
    if changes > 0 || (grew && writes_any) {
        ctx.changed(EventClass::String, "setbit", key.bytes);
    } else if grew {
        // Even if all steps have failed, the string may be longer.
        ctx.changed_untold();
    }
    ctx.out.array(results.len());
    for result in results {
        match result {
            Some(number) => ctx.out.int(number),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

/// `BITFIELD_RO key [GET type offset …]`
pub(crate) fn bitfield_ro(ctx: &mut Ctx<'_>) -> CommandResult {
    let steps = parse(ctx, true)?;
    read_fields(ctx, &steps)
}

fn read_fields(ctx: &mut Ctx<'_>, steps: &[Step]) -> CommandResult {
    let key = ctx.key(1);
    let mut buffer = itoa::Buffer::new();
    let bytes = match ctx.commit.read(&key) {
        Some(entry) => bytes_of(entry, &mut buffer)?,
        None => &[],
    };
    ctx.out.array(steps.len());
    for step in steps {
        let number = i128::from(bitmap::get_number(bytes, step.at, step.width.bits));
        ctx.out.int(step.width.wrap(number) as i64);
    }
    Ok(())
}
