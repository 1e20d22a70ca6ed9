//! CLIENT TRACKING and related commands: clients that keep copies of what they read get a message when it changes.

use crate::commands::reply::Fields;
use crate::ctx::{CommandResult, Ctx};
use crate::error::{self, CommandError};
use crate::tracking::mode::Mode;
use crate::tracking::prefixes::{Overlap, overlap};
use crate::tracking::tracks::Tracks;

const TWO_REDIRECTIONS: CommandError = CommandError::fixed("ERR A client can only redirect to a single other client");
const NO_REDIRECTION: CommandError = CommandError::fixed("ERR The client ID you want redirect to does not exist");
const PREFIX_NEEDS_BCAST: CommandError = CommandError::fixed("ERR PREFIX option requires BCAST mode to be enabled");
const BCAST_IS_FIXED: CommandError = CommandError::fixed(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different \
     mode.",
);
const BCAST_TAKES_NO_CHOICE: CommandError = CommandError::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST");
const TWO_CHOICES: CommandError = CommandError::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode");
const CHOICE_IS_FIXED: CommandError = CommandError::fixed(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different \
     mode.",
);
const CACHING_NEEDS_TRACKING: CommandError = CommandError::fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);
const CACHING_YES_NEEDS_OPTIN: CommandError =
    CommandError::fixed("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
const CACHING_NO_NEEDS_OPTOUT: CommandError =
    CommandError::fixed("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");

/// The arguments of CLIENT TRACKING.
struct Request<'a> {
    options: Mode,
    /// The client that gets the messages; 0 if that is the client itself.
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn read(ctx: &Ctx<'a>) -> Result<Self, CommandError> {
        let mut request = Self { options: Mode::empty(), redirect: 0, prefixes: Vec::new() };
        let mut rest = ctx.rest(3);
        while !rest.is_empty() {
            if rest.take_with("REDIRECT", 1) {
                if request.redirect != 0 {
                    return Err(TWO_REDIRECTIONS);
                }
                let id = u64::try_from(rest.next_int()?).map_err(|_| NO_REDIRECTION)?;
                request.redirect = ctx.engine.clients.get(id).ok_or(NO_REDIRECTION)?.id;
            } else if rest.take_with("PREFIX", 1) {
                request.prefixes.push(rest.next_arg());
            } else {
                request.options |= option(rest.next_arg())?;
            }
        }
        Ok(request)
    }

    /// Whether a client with this mode may change to the requested one.
    fn check(&self, now: Mode) -> CommandResult {
        let wants = |mode: Mode| self.options.contains(mode);
        let is_on = now.contains(Mode::ON);
        if !self.prefixes.is_empty() && !wants(Mode::BCAST) {
            Err(PREFIX_NEEDS_BCAST.into())
        } else if is_on && wants(Mode::BCAST) != now.contains(Mode::BCAST) {
            Err(BCAST_IS_FIXED.into())
        } else if wants(Mode::BCAST) && self.options.intersects(Mode::OPTIN | Mode::OPTOUT) {
            Err(BCAST_TAKES_NO_CHOICE.into())
        } else if wants(Mode::OPTIN | Mode::OPTOUT) {
            Err(TWO_CHOICES.into())
        } else if wants(Mode::OPTIN) && now.contains(Mode::OPTOUT) || wants(Mode::OPTOUT) && now.contains(Mode::OPTIN) {
            Err(CHOICE_IS_FIXED.into())
        } else {
            Ok(())
        }
    }
}

fn option(word: &[u8]) -> Result<Mode, CommandError> {
    match word.to_ascii_lowercase().as_slice() {
        b"bcast" => Ok(Mode::BCAST),
        b"optin" => Ok(Mode::OPTIN),
        b"optout" => Ok(Mode::OPTOUT),
        b"noloop" => Ok(Mode::NOLOOP),
        _ => Err(error::SYNTAX),
    }
}

/// `CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(crate) fn client_tracking(ctx: &mut Ctx<'_>) -> CommandResult {
    let request = Request::read(ctx)?;
    match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => begin(ctx, &request)?,
        b"off" => ctx.session.tracks = None,
        _ => return Err(error::SYNTAX.into()),
    }
    ctx.session.note_subscriptions();
    ctx.reply_ok()
}

/// Begins to track keys, or changes how.
fn begin(ctx: &mut Ctx<'_>, request: &Request<'_>) -> CommandResult {
    let (engine, handle) = (ctx.engine, &ctx.session.handle);
    request.check(handle.tracking.mode())?;
    let is_bcast = request.options.contains(Mode::BCAST);
    if is_bcast && let Some(tracks) = &ctx.session.tracks {
        check_prefixes(overlap(tracks.prefixes(), &request.prefixes))?;
    } else {
        check_prefixes(overlap(&Default::default(), &request.prefixes))?;
    }
    let tracks = ctx.session.tracks.get_or_insert_with(|| {
        Box::new(Tracks::new(&engine.tracking, &engine.watched, &engine.lazyfree, handle, is_bcast))
    });
    tracks.set(request.options, request.redirect);
    request.prefixes.iter().for_each(|prefix| tracks.add_prefix(prefix));
    if is_bcast && request.prefixes.is_empty() {
        tracks.add_prefix(b"");
    }
    Ok(())
}

fn check_prefixes(found: Option<Overlap<'_>>) -> CommandResult {
    let (new, what, other) = match found {
        None => return Ok(()),
        Some(Overlap::WithExisting(new, other)) => (new, "an existing prefix", other),
        Some(Overlap::WithNew(new, other)) => (new, "another provided prefix", other),
    };
    let (new, other) = (error::quoted(new), error::quoted(other));
    let end = b"'. Prefixes for a single client must not overlap.";
    Err(CommandError::bytes([b"ERR Prefix '", new, b"' overlaps with ", what.as_bytes(), b" '", other, end].concat())
        .into())
}

/// `CLIENT CACHING <YES | NO>`
pub(crate) fn client_caching(ctx: &mut Ctx<'_>) -> CommandResult {
    let tracking = &ctx.session.handle.tracking;
    let mode = tracking.mode();
    if !mode.contains(Mode::ON) {
        return Err(CACHING_NEEDS_TRACKING.into());
    }
    let (needs, error) = match ctx.arg(2).to_ascii_lowercase().as_slice() {
        b"yes" => (Mode::OPTIN, CACHING_YES_NEEDS_OPTIN),
        b"no" => (Mode::OPTOUT, CACHING_NO_NEEDS_OPTOUT),
        _ => return Err(error::SYNTAX.into()),
    };
    if !mode.contains(needs) {
        return Err(error.into());
    }
    tracking.insert(Mode::CACHING);
    ctx.reply_ok()
}

/// `CLIENT GETREDIR`
pub(crate) fn client_getredir(ctx: &mut Ctx<'_>) -> CommandResult {
    ctx.reply_int(ctx.session.handle.tracking.shown_redirect())
}

/// `CLIENT TRACKINGINFO`
pub(crate) fn client_trackinginfo(ctx: &mut Ctx<'_>) -> CommandResult {
    let (session, out) = (&*ctx.session, &mut *ctx.out);
    let tracking = &session.handle.tracking;
    let mode = tracking.mode();
    let flags = flags_of(mode);
    out.map(3);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.int_field("redirect", tracking.shown_redirect());
    out.bulk(b"prefixes");
    match &session.tracks {
        Some(tracks) => {
            out.array(tracks.prefixes().len());
            tracks.prefixes().iter().for_each(|prefix| out.bulk(prefix));
        }
        None => out.array(0),
    }
    Ok(())
}

fn flags_of(mode: Mode) -> Vec<&'static str> {
    let is_chosen = mode.contains(Mode::CACHING);
    let (optin, optout) = (mode.contains(Mode::OPTIN), mode.contains(Mode::OPTOUT));
    let is_on = mode.contains(Mode::ON);
    let flags = [
        (is_on, "on"),
        (!is_on, "off"),
        (mode.contains(Mode::BCAST), "bcast"),
        (optin, "optin"),
        (optin && is_chosen, "caching-yes"),
        (optout, "optout"),
        (optout && is_chosen, "caching-no"),
        (mode.contains(Mode::NOLOOP), "noloop"),
        (mode.contains(Mode::BROKEN), "broken_redirect"),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}
