//! ACL: users and what they may do.

pub(crate) mod changing;
pub(crate) mod log;
pub(crate) mod specs;

use onrush_resp::Reply;

use crate::command::spec::CATEGORY_NAMES;
use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::users::check::Denied;
use crate::users::selector::Selector;

const BAD_BITS: CommandError = CommandError::fixed(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
const NO_RANDOMNESS: CommandError = CommandError::fixed("ERR the operating system gives no random numbers");

/// Bytes of an unknown category that the error shows.
const QUOTED_LEN_MAX: usize = 128;

/// Bits of a password that ACL GENPASS makes: the default, and the most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// `ACL WHOAMI`
pub(crate) fn acl_whoami(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.reply_bulk(ctx.session.handle.user().name())
}

/// `ACL USERS`
pub(crate) fn acl_users(ctx: &mut Ctx<'_>) -> CommandResult {
    let users = ctx.engine.users.all();
    ctx.out.array(users.len());
    users.iter().for_each(|user| ctx.out.bulk(user.name()));
    Ok(())
}

/// `ACL LIST`: users as the configuration file describes them
pub(crate) fn acl_list(ctx: &mut Ctx<'_>) -> CommandResult {
    let users = ctx.engine.users.all();
    ctx.out.array(users.len());
    users.iter().for_each(|user| ctx.out.bulk(&user.line()));
    Ok(())
}

/// `ACL GETUSER username`
pub(crate) fn acl_getuser(ctx: &mut Ctx<'_>) -> CommandResult {
    let Some(user) = ctx.engine.users.get(ctx.arg(2)) else { return ctx.reply_null() };
    let rights = user.rights();
    let out = &mut *ctx.out;
    out.map(6);
    out.bulk(b"flags");
    let flags: Vec<_> = rights.flags().collect();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(rights.passwords().len());
    rights.passwords().iter().for_each(|digest| out.bulk(digest));
    let [first, more @ ..] = rights.selectors() else { return Ok(()) };
    tell_selector(first, out);
    out.bulk(b"selectors");
    out.array(more.len());
    for selector in more {
        out.map(3);
        tell_selector(selector, out);
    }
    Ok(())
}

fn tell_selector(selector: &Selector, out: &mut Reply) {
    out.bulk_field("commands", selector.commands_text());
    out.bulk_field("keys", selector.keys_text());
    out.bulk_field("channels", selector.channels_text());
}

/// `ACL CAT [category]`: the categories, or the commands of one
pub(crate) fn acl_cat(ctx: &mut Ctx<'_>) -> CommandResult {
    let table = &ctx.engine.commands;
    let names: Vec<&str> = match ctx.argc() {
        2 => CATEGORY_NAMES.iter().map(|(_, name)| *name).collect(),
        3 => {
            let asked = ctx.arg(2);
            let Some((category, _)) =
                CATEGORY_NAMES.iter().find(|(_, name)| asked.eq_ignore_ascii_case(name.as_bytes()))
            else {
                let shown = &asked[..asked.len().min(QUOTED_LEN_MAX)];
                return Err(CommandError::quoting("ERR Unknown category '", shown, "'").into());
            };
            let of_category = table.all().filter(|command| command.categories.contains(*category));
            of_category.map(|command| command.full_name.as_ref()).collect()
        }
        _ => return Err(ctx.wrong_subcommand().into()),
    };
    ctx.out.array(names.len());
    for name in names {
        ctx.out.bulk(name.as_bytes());
    }
    Ok(())
}

/// `ACL DRYRUN username command [arg [arg ...]]`
pub(crate) fn acl_dryrun(ctx: &mut Ctx<'_>) -> CommandResult {
    let name = ctx.arg(2);
    let Some(user) = ctx.engine.users.get(name) else {
        return Err(CommandError::quoting("ERR User '", name, "' not found").into());
    };
    let call: Vec<&[u8]> = ctx.argv.iter().skip(3).collect();
    let Ok(command) = ctx.engine.commands.resolve(&call[..]) else {
        return Err(CommandError::quoting("ERR Command '", call[0], "' not found").into());
    };
    if !command.accepts(call.len()) {
        return Err(command.wrong_arity().into());
    }
    let Err(denied) = user.rights().check(command, &call[..]) else { return ctx.reply_ok() };
    let (what, object, end): (&[u8], _, &[u8]) = match denied {
        Denied::Command => (b"run the '", command.full_name.as_bytes(), b"' command"),
        Denied::Key(at) => (b"access the '", call[at], b"' key"),
        Denied::Channel(at) => (b"access the '", call[at], b"' channel"),
    };
    ctx.reply_bulk(&[b"User ", user.name(), b" has no permissions to ", what, error::quoted(object), end].concat())
}

/// `ACL GENPASS [bits]`: a password in hexadecimal digits
pub(crate) fn acl_genpass(ctx: &mut Ctx<'_>) -> CommandResult {
    let bits = match ctx.argc() {
        2 => PASSWORD_BITS,
        3 => ctx.int(2)?,
        _ => return Err(ctx.wrong_subcommand().into()),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(BAD_BITS.into());
    }
    let mut bytes = [0; PASSWORD_BITS_MAX as usize / 8];
    ctx.engine.process.fill_with_random(&mut bytes).map_err(|_| NO_RANDOMNESS)?;
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate((bits as usize).div_ceil(4));
    ctx.reply_bulk(digits.as_bytes())
}
