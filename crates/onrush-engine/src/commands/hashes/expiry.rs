//! Times to live of hash fields, as Redis 7.4 has them, and the commands of Redis 8.0 that set or get fields along with
//! their times.

use onrush_store::{Hash, Type};

use crate::commands::hashes::{count_expired, due_names, note_removed, remove_due, remove_due_with};
use crate::commands::sets::delete_emptied;
use crate::commands::strings::{ExpiryUnit, bad_expiry};
use crate::commit::Key;
use crate::ctx::{CommandResult, Ctx, EventClass};
use crate::error::{self, CommandError};

/// The latest time a field can expire at, in Unix milliseconds (as in Redis, which keeps 46 bits).
const TIME_MS_MAX: i64 = (1 << 46) - 1;

const NO_SUCH_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;

const FIELDS_MISSING: CommandError =
    CommandError::fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
const NUMFIELDS_NOT_POSITIVE: CommandError = CommandError::fixed("ERR Number of fields must be a positive integer");
const NUMFIELDS_MISMATCH: CommandError =
    CommandError::fixed("ERR The `numfields` parameter must match the number of arguments");

const EXPIRING_NUMFIELDS_NOT_POSITIVE: CommandError =
    CommandError::fixed("ERR Parameter `numFields` should be greater than 0");
const SETTING_NUMFIELDS_NOT_POSITIVE: CommandError = CommandError::fixed("ERR invalid number of fields");
const TWO_CONDITIONS: CommandError = CommandError::fixed("ERR Only one of FXX or FNX arguments can be specified");
const TWO_LIFETIMES: CommandError =
    CommandError::fixed("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");

/// When a new expiry may replace a field's expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    Nx,
    Xx,
    Gt,
    Lt,
}

impl Condition {
    fn parse(ctx: &Ctx<'_>, index: usize) -> Option<Self> {
        [("NX", Self::Nx), ("XX", Self::Xx), ("GT", Self::Gt), ("LT", Self::Lt)]
            .into_iter()
            .find(|(word, _)| ctx.is(index, word))
            .map(|(_, condition)| condition)
    }

    /// No expiry counts as the latest one.
    fn holds(self, old: Option<i64>, new: i64) -> bool {
        match self {
            Self::Always => true,
            Self::Nx => old.is_none(),
            Self::Xx => old.is_some(),
            Self::Gt => old.is_some_and(|old| new > old),
            Self::Lt => old.is_none_or(|old| new < old),
        }
    }
}

/// Refuses a key of another type before the arguments after it are read.
fn check_type(ctx: &mut Ctx<'_>) -> CommandResult {
    let key = ctx.key(1);
    match ctx.commit.peek(&key) {
        Some(entry) if entry.ty() != Type::Hash => Err(error::WRONG_TYPE.into()),
        _ => Ok(()),
    }
}

/// `FIELDS numfields field [field …]` from argument `at` to the end; returns where the fields begin.
fn fields_at(ctx: &Ctx<'_>, at: usize) -> Result<usize, CommandError> {
    counted_fields_at(ctx, at, NUMFIELDS_NOT_POSITIVE)
}

fn counted_fields_at(ctx: &Ctx<'_>, at: usize, not_positive: CommandError) -> Result<usize, CommandError> {
    if at + 1 >= ctx.argc() {
        return Err(ctx.command.wrong_arity());
    }
    if !ctx.is(at, "FIELDS") {
        return Err(FIELDS_MISSING);
    }
    if ctx.positive(at + 1, not_positive)? != ctx.argc() - at - 2 {
        return Err(NUMFIELDS_MISMATCH);
    }
    Ok(at + 2)
}

/// As [`fields_at`], for `FIELDS numfields field value [field value …]`, for which Redis has other error texts.
fn field_values_at(ctx: &Ctx<'_>, at: usize) -> Result<usize, CommandError> {
    if at >= ctx.argc() || !ctx.is(at, "FIELDS") {
        return Err(FIELDS_MISSING);
    }
    if at + 3 >= ctx.argc() {
        return Err(ctx.command.wrong_arity());
    }
    let count = ctx.int_or(at + 1, SETTING_NUMFIELDS_NOT_POSITIVE)?;
    // Redis reads a 32-bit number.
    if !(1..=i32::MAX.into()).contains(&count) {
        return Err(SETTING_NUMFIELDS_NOT_POSITIVE);
    }
    if 2 * count != (ctx.argc() - at - 2) as i64 {
        return Err(ctx.command.wrong_arity());
    }
    Ok(at + 2)
}

/// Argument `index`, a time in `unit` that is not negative, in Unix milliseconds.
fn read_time(ctx: &Ctx<'_>, unit: ExpiryUnit, index: usize) -> Result<i64, CommandError> {
    let value = ctx.int(index)?;
    if value < 0 {
        return Err(CommandError::fixed("ERR invalid expire time, must be >= 0"));
    }
    unit.at(value, ctx.now_ms()).filter(|&at| at <= TIME_MS_MAX).ok_or_else(|| bad_expiry(ctx))
}

/// `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field …]`, or one of its relatives.
pub(super) fn expire(ctx: &mut Ctx<'_>, unit: ExpiryUnit) -> CommandResult {
    check_type(ctx)?;
    let at = read_time(ctx, unit, 2)?;
    let condition = Condition::parse(ctx, 3);
    let fields = if condition.is_some() { 4 } else { 3 };
    let first = counted_fields_at(ctx, fields, EXPIRING_NUMFIELDS_NOT_POSITIVE)?;
    let condition = condition.unwrap_or(Condition::Always);
    let key = ctx.key(1);
    let due_ms = ctx.due_ms();
    let Some(mut hash) = ctx.commit.write_as::<Hash>(&key)? else { return reply_no_fields(ctx, first) };
    let argv = ctx.argv;
    let removed = due_names(&mut hash, due_ms, (first..argv.len()).map(|index| argv.get(index)));
    let (mut set, mut deleted) = (Vec::new(), Vec::new());
    ctx.out.array(ctx.argv.len() - first);
    for index in first..ctx.argv.len() {
        let name = ctx.argv.get(index);
        let code = match hash.field(name) {
            None => NO_SUCH_FIELD,
            Some((_, old)) if !condition.holds(old, at) => 0,
            Some(_) if at <= due_ms => {
                hash.remove(name);
                deleted.push(name);
                2
            }
            Some(_) => {
                hash.set_expiry(name, Some(at));
                set.push(name);
                1
            }
        };
        ctx.out.int(code);
    }
    let emptied = hash.is_empty();
    drop(hash);
    note_removed(ctx, &key, &removed);
    if !set.is_empty() {
        time_fields(ctx, &key);
        ctx.changed(EventClass::Hash, "hexpire", key.bytes);
        log_fields(ctx, &[b"HPEXPIREAT", key.bytes, itoa::Buffer::new().format(at).as_bytes()], &set);
    }
    if !deleted.is_empty() {
        count_expired(ctx, deleted.len());
        ctx.changed(EventClass::Hash, "hdel", key.bytes);
        log_deletion(ctx, &key, deleted);
    }
    delete_emptied(ctx, &key, emptied);
    Ok(())
}

/// Deletes expired fields of a hash that is about to be changed: those named from argument `first` on, one in `step`
/// arguments, and some others.
fn remove_due_fields(ctx: &mut Ctx<'_>, key: &Key<'_>, first: usize, step: usize) {
    let argv = ctx.argv;
    remove_due_with(ctx, key, (first..argv.len()).step_by(step).map(|index| argv.get(index)));
}

/// Makes active expiry look at a hash when a field expires. Its lock must be held.
fn time_fields(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    if let Some(mut slot) = ctx.commit.write_again(key) {
        slot.time_fields();
    }
}

fn log_fields(ctx: &mut Ctx<'_>, head: &[&[u8]], names: &[&[u8]]) {
    if ctx.is_logged() {
        let count = names.len().to_string();
        let head = head.iter().copied().chain([&b"FIELDS"[..], count.as_bytes()]);
        let args: Vec<&[u8]> = head.chain(names.iter().copied()).collect();
        ctx.log_instead(&args);
    }
}

fn log_deletion<'n>(ctx: &mut Ctx<'_>, key: &Key<'n>, names: impl IntoIterator<Item = &'n [u8]>) {
    let args: Vec<&[u8]> = [b"HDEL", key.bytes].into_iter().chain(names).collect();
    ctx.log_instead(&args);
}

fn reply_no_fields(ctx: &mut Ctx<'_>, first: usize) -> CommandResult {
    ctx.out.array(ctx.argc() - first);
    (first..ctx.argc()).for_each(|_| ctx.out.int(NO_SUCH_FIELD));
    Ok(())
}

fn reply_nulls(ctx: &mut Ctx<'_>, first: usize) -> CommandResult {
    ctx.out.array(ctx.argc() - first);
    (first..ctx.argc()).for_each(|_| ctx.out.null());
    Ok(())
}

/// `HTTL key FIELDS numfields field [field …]`, or one of its relatives: seconds are rounded up.
pub(super) fn reply_times(ctx: &mut Ctx<'_>, unit: ExpiryUnit) -> CommandResult {
    let key = ctx.key(1);
    ctx.commit.read_as::<Hash>(&key)?;
    let first = fields_at(ctx, 2)?;
    remove_due(ctx, &key);
    let (base_ms, due_ms) = (unit.base_ms(ctx.now_ms()), ctx.due_ms());
    let hash = ctx.commit.peek(&key).and_then(|entry| entry.collection::<Hash>());
    let Some(hash) = hash else { return reply_no_fields(ctx, first) };
    ctx.out.array(ctx.argv.len() - first);
    for index in first..ctx.argv.len() {
        ctx.out.int(match hash.field(ctx.argv.get(index)) {
            None => NO_SUCH_FIELD,
            Some((_, None)) => NO_EXPIRY,
            Some((_, Some(at))) if at <= due_ms => NO_SUCH_FIELD,
            Some((_, Some(at))) if unit.is_in_seconds() => (at - base_ms + 999) / 1000,
            Some((_, Some(at))) => at - base_ms,
        });
    }
    Ok(())
}

/// `HPERSIST key FIELDS numfields field [field …]`
pub(crate) fn hpersist(ctx: &mut Ctx<'_>) -> CommandResult {
    check_type(ctx)?;
    let first = fields_at(ctx, 2)?;
    let key = ctx.key(1);
    remove_due_fields(ctx, &key, first, 1);
    let Some(mut hash) = ctx.commit.write_as::<Hash>(&key)? else { return reply_no_fields(ctx, first) };
    let mut persisted = false;
    ctx.out.array(ctx.argv.len() - first);
    for index in first..ctx.argv.len() {
        let name = ctx.argv.get(index);
        ctx.out.int(match hash.field(name) {
            None => NO_SUCH_FIELD,
            Some((_, None)) => NO_EXPIRY,
            Some(_) => {
                persisted |= hash.set_expiry(name, None);
                1
            }
        });
    }
    drop(hash);
    if persisted {
        ctx.changed(EventClass::Hash, "hpersist", key.bytes);
    }
    Ok(())
}

/// `HGETDEL key FIELDS numfields field [field …]`
pub(crate) fn hgetdel(ctx: &mut Ctx<'_>) -> CommandResult {
    check_type(ctx)?;
    let first = fields_at(ctx, 2)?;
    let key = ctx.key(1);
    remove_due_fields(ctx, &key, first, 1);
    ctx.commit.look_as::<Hash>(&key)?;
    let Some(mut hash) = ctx.commit.write_as::<Hash>(&key)? else { return reply_nulls(ctx, first) };
    let mut deleted = Vec::new();
    ctx.out.array(ctx.argv.len() - first);
    for index in first..ctx.argv.len() {
        let name = ctx.argv.get(index);
        match hash.get(name) {
            Some(value) => ctx.out.bulk(value),
            None => ctx.out.null(),
        }
        if hash.remove(name) {
            deleted.push(name);
        }
    }
    let emptied = hash.is_empty();
    drop(hash);
    if !deleted.is_empty() {
        ctx.changed(EventClass::Hash, "hdel", key.bytes);
        log_deletion(ctx, &key, deleted);
    }
    delete_emptied(ctx, &key, emptied);
    Ok(())
}

/// What happens to fields' expiries.
#[derive(Clone, Copy)]
enum Lifetime {
    /// They stay; a new field has none.
    Unsaid,
    Keep,
    Persist,
    At(i64),
}

/// `HGETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] FIELDS
/// numfields field [field …]`
pub(crate) fn hgetex(ctx: &mut Ctx<'_>) -> CommandResult {
    check_type(ctx)?;
    let (lifetime, at) = match ExpiryUnit::from_option(ctx.arg(2)) {
        Some(unit) => (Lifetime::At(read_time(ctx, unit, 3)?), 4),
        None if ctx.is(2, "PERSIST") => (Lifetime::Persist, 3),
        None => (Lifetime::Unsaid, 2),
    };
    let first = fields_at(ctx, at)?;
    let key = ctx.key(1);
    remove_due_fields(ctx, &key, first, 1);
    let due_ms = ctx.due_ms();
    let Some(mut hash) = ctx.commit.write_as::<Hash>(&key)? else { return reply_nulls(ctx, first) };
    let mut touched = Vec::new();
    ctx.out.array(ctx.argv.len() - first);
    for index in first..ctx.argv.len() {
        let name = ctx.argv.get(index);
        let Some((value, old)) = hash.field(name) else {
            ctx.out.null();
            continue;
        };
        ctx.out.bulk(value);
        let changes = match lifetime {
            Lifetime::At(at) if at <= due_ms => hash.remove(name),
            Lifetime::At(at) => hash.set_expiry(name, Some(at)),
            Lifetime::Persist => old.is_some() && hash.set_expiry(name, None),
            Lifetime::Unsaid | Lifetime::Keep => false,
        };
        if changes {
            touched.push(name);
        }
    }
    let emptied = hash.is_empty();
    drop(hash);
    if touched.is_empty() {
        return Ok(());
    }
    match lifetime {
        Lifetime::At(at) if at <= due_ms => {
            count_expired(ctx, touched.len());
            ctx.changed(EventClass::Hash, "hdel", key.bytes);
            log_deletion(ctx, &key, touched);
        }
        Lifetime::At(at) => {
            time_fields(ctx, &key);
            ctx.changed(EventClass::Hash, "hexpire", key.bytes);
            log_fields(ctx, &[b"HPEXPIREAT", key.bytes, itoa::Buffer::new().format(at).as_bytes()], &touched);
        }
        _ => {
            ctx.changed(EventClass::Hash, "hpersist", key.bytes);
            log_fields(ctx, &[b"HPERSIST", key.bytes], &touched);
        }
    }
    delete_emptied(ctx, &key, emptied);
    Ok(())
}

/// The options of HSETEX.
struct SetOptions {
    /// FXX and FNX: whether the fields must exist.
    wants_found: Option<bool>,
    lifetime: Lifetime,
    /// Where `FIELDS` should be.
    fields: usize,
}

impl SetOptions {
    fn parse(ctx: &Ctx<'_>) -> Result<Self, CommandError> {
        let (mut wants_found, mut lifetime) = (None, None);
        let mut rest = ctx.rest(2);
        while let Some(word) = rest.peek()
            && !rest.is("FIELDS")
        {
            if let Some(found) = rest.take_one_of([("FNX", false), ("FXX", true)]) {
                if wants_found.replace(found).is_some() {
                    return Err(TWO_CONDITIONS);
                }
                continue;
            }
            let unit = rest.take_if(0, ExpiryUnit::from_option);
            if unit.is_none() && !rest.take("KEEPTTL") {
                return Err(CommandError::quoting("ERR unknown argument: ", word, ""));
            }
            if lifetime.is_some() {
                return Err(TWO_LIFETIMES);
            }
            lifetime = Some(match unit {
                Some(_) if rest.is_empty() => return Err(error::SYNTAX),
                Some(unit) => Lifetime::At(read_time(ctx, unit, rest.next_index())?),
                None => Lifetime::Keep,
            });
        }
        Ok(Self { wants_found, lifetime: lifetime.unwrap_or(Lifetime::Unsaid), fields: rest.index() })
    }
}

/// `HSETEX key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]
/// FIELDS numfields field value [field value …]`
pub(crate) fn hsetex(ctx: &mut Ctx<'_>) -> CommandResult {
    let SetOptions { wants_found, lifetime, fields } = SetOptions::parse(ctx)?;
    let first = field_values_at(ctx, fields)?;
    let key = ctx.key(1);
    remove_due_fields(ctx, &key, first, 2);
    let due_ms = ctx.due_ms();
    let hash = ctx.commit.look_as::<Hash>(&key)?;
    let found = |index: usize| hash.is_some_and(|hash| hash.get(ctx.argv.get(index)).is_some());
    let mut names = (first..ctx.argv.len()).step_by(2);
    if wants_found.is_some_and(|wanted| names.any(|index| found(index) != wanted)) {
        return ctx.reply_int(0);
    }
    set_with_lifetime(ctx, &key, lifetime, first, due_ms)?;
    ctx.reply_int(1)
}

fn set_with_lifetime(ctx: &mut Ctx<'_>, key: &Key<'_>, lifetime: Lifetime, first: usize, due_ms: i64) -> CommandResult {
    let limits = ctx.engine.settings.encodings.hash();
    let mut hash = ctx.commit.write_or_create::<Hash>(key)?;
    let mut is_over = false;
    for index in (first..ctx.argv.len()).step_by(2) {
        let (name, value) = (ctx.argv.get(index), ctx.argv.get(index + 1));
        let expiry = match lifetime {
            Lifetime::At(at) => Some(at),
            Lifetime::Keep => hash.field(name).and_then(|(_, expiry)| expiry),
            Lifetime::Unsaid | Lifetime::Persist => None,
        };
        is_over = expiry.is_some_and(|at| at <= due_ms);
        if is_over {
            hash.remove(name);
        } else {
            hash.set_with_expiry(name, value, expiry, &limits);
        }
    }
    let emptied = hash.is_empty();
    drop(hash);
    ctx.changed(EventClass::Hash, "hset", key.bytes);
    if let Lifetime::At(at) = lifetime {
        if is_over {
            count_expired(ctx, (ctx.argc() - first) / 2);
        }
        ctx.notify(EventClass::Hash, if is_over { "hdel" } else { "hexpire" }, key.bytes);
        time_fields(ctx, key);
        if ctx.is_logged() && is_over {
            let argv = ctx.argv;
            log_deletion(ctx, key, (first..argv.len()).step_by(2).map(|index| argv.get(index)));
        } else if ctx.is_logged() {
            let at = itoa::Buffer::new().format(at).to_owned();
            let count = ((ctx.argc() - first) / 2).to_string();
            let head = [&b"HSETEX"[..], key.bytes, b"PXAT", at.as_bytes(), b"FIELDS", count.as_bytes()];
            let args: Vec<&[u8]> = head.into_iter().chain(ctx.argv.iter().skip(first)).collect();
            ctx.log_instead(&args);
        }
    }
    delete_emptied(ctx, key, emptied);
    Ok(())
}
