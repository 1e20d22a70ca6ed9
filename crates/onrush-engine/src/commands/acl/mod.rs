//! ACL, with the only user: `default`, who may do everything.

pub(crate) mod log;
pub(crate) mod specs;

use crate::command::replies;
use crate::command::spec::CATEGORY_NAMES;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::formats::sha256;

/// The only user there is.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

const NO_USERS: CommandError = CommandError::fixed(
    "ERR users are not supported yet: there is only the default one, whose password is requirepass",
);
const DEFAULT_STAYS: CommandError = CommandError::fixed("ERR The 'default' user cannot be removed");
const NO_ACL_FILE: CommandError = CommandError::fixed(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
     in the Redis configuration.",
);
const BAD_BITS: CommandError = CommandError::fixed(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
);
const NO_RANDOMNESS: CommandError = CommandError::fixed("ERR the operating system gives no random numbers");

/// Bytes of an unknown category that the error shows.
const QUOTED_LEN_MAX: usize = 128;

/// Bits of a password that ACL GENPASS makes: the default, and the most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// The digest of the default user's password as ACL shows it; `None` if there is none.
fn password_digest(ctx: &Ctx<'_>) -> Option<String> {
    let password = ctx.engine.process.password();
    (!password.is_empty()).then(|| sha256::hex(&password))
}

/// `ACL WHOAMI`
pub(crate) fn acl_whoami(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.bulk(&ctx.session.handle.names.lock().user);
    Ok(())
}

/// `ACL USERS`
pub(crate) fn acl_users(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.out.array(1);
    ctx.out.bulk(DEFAULT_USER);
    Ok(())
}

/// `ACL LIST`: users as the configuration file describes them
pub(crate) fn acl_list(ctx: &mut Ctx<'_>) -> CommandResult {
    let password = password_digest(ctx).map_or_else(|| "nopass".to_owned(), |digest| format!("#{digest}"));
    let line = if password == "nopass" {
        "user default on nopass sanitize-payload ~* &* +@all".to_owned()
    } else {
        format!("user default on sanitize-payload {password} ~* &* +@all")
    };
    ctx.out.array(1);
    ctx.out.bulk(line.as_bytes());
    Ok(())
}

/// `ACL GETUSER username`
pub(crate) fn acl_getuser(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.arg(2) != DEFAULT_USER {
        ctx.out.null();
        return Ok(());
    }
    let digest = password_digest(ctx);
    let out = &mut *ctx.out;
    out.map(6);
    out.bulk(b"flags");
    let flags: &[&str] =
        if digest.is_some() { &["on", "sanitize-payload"] } else { &["on", "nopass", "sanitize-payload"] };
    out.set(flags.len());
    for flag in flags {
        out.bulk(flag.as_bytes());
    }
    out.bulk(b"passwords");
    out.array(usize::from(digest.is_some()));
    if let Some(digest) = digest {
        out.bulk(digest.as_bytes());
    }
    for (field, value) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"selectors");
    out.array(0);
    Ok(())
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
                let shown = error::quoted(&asked[..asked.len().min(QUOTED_LEN_MAX)]);
                return Err(CommandError::bytes([b"ERR Unknown category '", shown, b"'"].concat()).into());
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

/// `ACL DRYRUN username command [arg [arg ...]]`: the default user may do everything
pub(crate) fn acl_dryrun(ctx: &mut Ctx<'_>) -> CommandResult {
    let user = ctx.arg(2);
    if user != DEFAULT_USER {
        return Err(CommandError::bytes([b"ERR User '", error::quoted(user), b"' not found"].concat()).into());
    }
    let call: Vec<&[u8]> = ctx.argv.iter().skip(3).collect();
    let Ok(command) = ctx.engine.commands.resolve(&call[..]) else {
        return Err(CommandError::bytes([b"ERR Command '", error::quoted(call[0]), b"' not found"].concat()).into());
    };
    if !command.accepts(call.len()) {
        return Err(command.wrong_arity().into());
    }
    ctx.out.ok();
    Ok(())
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
    ctx.out.bulk(digits.as_bytes());
    Ok(())
}

/// `ACL SETUSER username [rule [rule ...]]`: refused
pub(crate) fn acl_setuser(_: &mut Ctx<'_>) -> CommandResult {
    Err(NO_USERS.into())
}

/// `ACL DELUSER username [username ...]`: there is no user who can be deleted
pub(crate) fn acl_deluser(ctx: &mut Ctx<'_>) -> CommandResult {
    if ctx.argv.iter().skip(2).any(|user| user == DEFAULT_USER) {
        return Err(DEFAULT_STAYS.into());
    }
    ctx.out.int(0);
    Ok(())
}

/// `ACL LOAD`, `ACL SAVE`: refused
pub(crate) fn acl_file(_: &mut Ctx<'_>) -> CommandResult {
    Err(NO_ACL_FILE.into())
}

/// `ACL HELP`
pub(crate) fn acl_help(ctx: &mut Ctx<'_>) -> CommandResult {
    replies::help(&ctx.engine.commands, ctx.command, ctx.out);
    Ok(())
}
