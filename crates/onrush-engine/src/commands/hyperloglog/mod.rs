//! HyperLogLogs: estimates of how many distinct elements there were.

pub(crate) mod specs;

use onrush_store::hyperloglog::{self, Corrupt, Registers};
use onrush_store::{Entry, Type, ValueRef};

use crate::commands::keys::lock_keys;
use crate::commands::strings::take_raw;
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

const NOT_ONE: CommandError = CommandError::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: CommandError = CommandError::fixed("INVALIDOBJ Corrupted HLL object detected");

impl From<Corrupt> for CommandError {
    fn from(_: Corrupt) -> Self {
        CORRUPT
    }
}

/// The bytes of a HyperLogLog.
///
/// # Errors
/// `WRONGTYPE …`, with one text for other types and another for other strings.
fn bytes_of(entry: &Entry) -> Result<&[u8], CommandError> {
    if entry.ty() != Type::String {
        return Err(error::WRONG_TYPE);
    }
    match entry.value() {
        ValueRef::Bytes(bytes) if hyperloglog::is_hyperloglog(bytes) => Ok(bytes),
        ValueRef::Shared(bytes) if hyperloglog::is_hyperloglog(bytes) => Ok(bytes),
        _ => Err(NOT_ONE),
    }
}

/// Sets the value of a key to a HyperLogLog; the key's expiry stays.
fn store(ctx: &mut Ctx<'_>, key: &Key<'_>, mut bytes: Vec<u8>) {
    let value = take_raw(&mut bytes);
    let displaced = match ctx.commit.write(key) {
        Some(mut slot) => slot.set_value(value),
        None => {
            ctx.commit.insert(key, value);
            None
        }
    };
    ctx.commit.discard(displaced);
}

/// `PFADD key [element …]`
pub(crate) fn pfadd(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let argv = ctx.argv;
    let elements = || argv.iter().skip(2);
    let sparse_len_max = ctx.engine.settings.encodings.hll_sparse_bytes_max();
    let mut changed = false;
    // A sparse one is copied, because its length may change. A dense one is changed in place.
    let copy = match ctx.commit.write(&key) {
        None => {
            changed = true;
            Some(hyperloglog::empty())
        }
        Some(mut slot) => {
            let bytes = bytes_of(&slot)?;
            if hyperloglog::is_dense(bytes) {
                changed = slot.edit_bytes(|bytes| {
                    elements().fold(false, |changed, element| hyperloglog::add_dense(bytes, element) | changed)
                });
                None
            } else {
                Some(bytes.to_vec())
            }
        }
    };
    if let Some(mut bytes) = copy {
        for element in elements() {
            changed |= hyperloglog::add(&mut bytes, element, sparse_len_max)?;
        }
        if changed {
            hyperloglog::invalidate(&mut bytes);
            store(ctx, &key, bytes);
        }
    }
    if changed {
        ctx.changed(EventClass::String, "pfadd", key.bytes);
    }
    ctx.reply_int(i64::from(changed))
}

/// `PFCOUNT key [key …]`
pub(crate) fn pfcount(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argc() == 2 {
        return count_one(ctx);
    }
    let keys = lock_keys(ctx, 1..ctx.argc())?;
    let mut union = Registers::default();
    for key in &keys {
        if let Some(entry) = ctx.commit.read(key) {
            union.merge(bytes_of(entry)?)?;
        }
    }
    ctx.reply_int(union.estimate() as i64)
}

/// The estimate of one key, which is then stored in the key.
fn count_one(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    let Some(entry) = ctx.commit.read(&key) else { return ctx.reply_int(0) };
    let estimate = match (hyperloglog::estimate(bytes_of(entry)?), ctx.commit.write(&key)) {
        (Some(estimate), _) => estimate,
        (None, None) => 0,
        (None, Some(mut slot)) => {
            let estimate = slot.edit_bytes(|bytes| -> Result<u64, Corrupt> {
                let estimate = Registers::of(bytes)?.estimate();
                hyperloglog::set_estimate(bytes, estimate);
                Ok(estimate)
            })?;
            // Storing the estimate changes the bytes.
            ctx.changed_without_event(key.bytes);
            estimate
        }
    };
    ctx.reply_int(estimate as i64)
}

/// `PFMERGE destkey [sourcekey …]`
pub(crate) fn pfmerge(ctx: &mut Ctx<'_>) -> CommandResult {
    let keys = lock_keys(ctx, 1..ctx.argc())?;
    let mut union = Registers::default();
    let mut is_dense = false;
    for key in &keys {
        if let Some(entry) = ctx.commit.read(key) {
            let bytes = bytes_of(entry)?;
            is_dense |= hyperloglog::is_dense(bytes);
            union.merge(bytes)?;
        }
    }
    let target = &keys[0];
    let mut bytes = match ctx.commit.look(target) {
        Some(entry) => bytes_of(entry)?.to_vec(),
        None => hyperloglog::empty(),
    };
    if is_dense {
        hyperloglog::make_dense(&mut bytes)?;
    }
    union.raise_in(&mut bytes, ctx.engine.settings.encodings.hll_sparse_bytes_max())?;
    store(ctx, target, bytes);
    // The event is the one of PFADD.
    ctx.changed(EventClass::String, "pfadd", target.bytes);
    ctx.reply_ok()
}

/// `PFDEBUG <GETREG | DECODE | ENCODING | TODENSE> key`
pub(crate) fn pfdebug(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(2);
    let Some(entry) = ctx.commit.look(&key) else {
        return Err(CommandError::fixed("ERR The specified key does not exist").into());
    };
    let mut bytes = bytes_of(entry)?.to_vec();
    if ctx.is(1, "ENCODING") {
        ctx.out.simple(if hyperloglog::is_dense(&bytes) { "dense" } else { "sparse" });
    } else if ctx.is(1, "DECODE") {
        if hyperloglog::is_dense(&bytes) {
            return Err(CommandError::fixed("ERR HLL encoding is not sparse").into());
        }
        let runs: Vec<String> = hyperloglog::runs(&bytes)
            .map(|run| {
                run.map(|run| match (run.value, run.size) {
                    (0, 1) => format!("z:{}", run.len),
                    (0, _) => format!("Z:{}", run.len),
                    (value, _) => format!("v:{value},{}", run.len),
                })
            })
            .collect::<Result<_, _>>()?;
        ctx.out.bulk(runs.join(" ").as_bytes());
    } else if ctx.is(1, "GETREG") || ctx.is(1, "TODENSE") {
        let converted = hyperloglog::make_dense(&mut bytes)?;
        let registers = Registers::of(&bytes)?;
        if converted {
            store(ctx, &key, bytes);
            ctx.changed_keyspace(1);
        }
        if ctx.is(1, "TODENSE") {
            ctx.out.int(i64::from(converted));
        } else {
            ctx.out.array(hyperloglog::REGISTERS);
            registers.values().iter().for_each(|&value| ctx.out.int(i64::from(value)));
        }
    } else {
        return Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand '", ctx.arg(1), "'").into());
    }
    Ok(())
}

/// `PFSELFTEST`: checks whether estimates are as exact as they should be.
pub(crate) fn pfselftest(ctx: &mut Ctx<'_>) -> CommandResult {
    const ELEMENTS: u64 = 100_000;
    // Five standard errors of 1.04 / sqrt(registers).
    let error_max = ELEMENTS as f64 * 5.0 * 1.04 / (hyperloglog::REGISTERS as f64).sqrt();
    let mut bytes = hyperloglog::empty();
    for element in 0..ELEMENTS {
        hyperloglog::add(&mut bytes, &element.to_le_bytes(), 3_000)?;
    }
    let error = Registers::of(&bytes)?.estimate().abs_diff(ELEMENTS);
    if error as f64 > error_max {
        return Err(CommandError::text(format!("ERR TESTFAILED the estimate is off by {error} of {ELEMENTS}")).into());
    }
    ctx.reply_ok()
}
