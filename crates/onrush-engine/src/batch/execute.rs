//! Executing one command: checks, the handler, its errors, its effects in the command log.

use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use onrush_resp::Reply;

use crate::batch::admission::{abort_here, admit, admit_short, refuse};
use crate::batch::argv::Argv;
use crate::batch::chunk::{Planned, place_behind};
use crate::batch::counted::{count_elsewhere, slot_elsewhere};
use crate::batch::permission::not_permitted;
use crate::batch::place::Place;
use crate::blocking::offload;
use crate::blocking::serve::serve;
use crate::clients::client::ClientHandle;
use crate::clients::session::{ReplyMode, Session, States};
use crate::cluster::under_way::{end_asking, handle_in_cluster};
use crate::command::find_keys::keys_of;
use crate::command::{Command, Flags};
use crate::commit::Commit;
use crate::ctx::{CommandResult, Ctx, Engine};
use crate::error::{CommandError, Stop};
use crate::long::offload;
use crate::messages::show::show;
use crate::observe::slow::{note_command, note_hot_keys, note_together};
use crate::tracking::reads::{end_caching, note_reads};
use crate::users::user::User;

/// The command as it came.
pub(crate) fn encode(argv: &Argv<'_>) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv.iter() {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was short, and timed with others.
    Short,
    /// It was timed by itself, or was refused, or another thread executes it.
    Long,
    /// Nothing was done: it is to be executed again when another thread no longer holds its keys.
    Later,
}

/// Executes one command, at `place`; returns how it has ended. `PLAIN`: see
/// [`Conditions::admit_all_short`](crate::batch::admission::Conditions::admit_all_short); `full`: memory is not within its
/// limit; `following`: the runs from that of the command on.
#[inline(always)]
pub(crate) fn execute<'p, const PLAIN: bool>(
    ctx: &mut Ctx<'_>,
    planned: Option<&'static Command>,
    full: bool,
    place: Place,
    following: impl FnOnce() -> &'p [Planned],
) -> End {
    let mark = ctx.out.mark();
    let end = match planned {
        Some(command) if admit_short(ctx, command, PLAIN, full) => {
            ctx.command = command;
            ctx.executing.note(command.id);
            match (command.handler)(ctx) {
                Ok(()) => End::Short,
                Err(stop) => {
                    cold_path();
                    if let Stop::Error(_) = stop {
                        ctx.engine.stats.threads[ctx.thread].commands[command.id as usize].failed.add(1);
                    }
                    stopped(ctx, mark, &stop, End::Short)
                }
            }
        }
        _ => {
            cold_path();
            // The command's time is that of its start; later commands get their own.
            ctx.commit.watch().begin(&ctx.engine.clock, place);
            ctx.started = ctx.commit.watch().began();
            ctx.commit.take_watch_time();
            let reply_at = ctx.out.len();
            let (executed, result) = execute_long(ctx, planned, full);
            let following = following();
            if !is_timed_later(ctx, executed, &result, place, following) {
                end_row(ctx, executed, reply_at, result.is_err());
                ctx.commit.watch().chain(place_behind(place, following));
            }
            if !result.as_ref().is_err_and(Stop::is_put_off) {
                ctx.session.owed.has_seen_data |= executed.is_some_and(Command::may_report_data);
                ctx.session.is_script_shown = false;
            }
            let end = match result {
                Ok(()) => End::Long,
                Err(stop) => stopped(ctx, mark, &stop, End::Long),
            };
            ctx.commit.take_watch_time();
            end
        }
    };
    if !PLAIN && ctx.session.states.contains(States::ASKS) && end != End::Later {
        end_asking(ctx);
    }
    if !PLAIN && ctx.session.states.contains(States::TRACKS) && end != End::Later {
        note_tracked(ctx);
    }
    if ctx.commit.has_aftermath() {
        cold_path();
        finish(ctx);
    }
    if ctx.session.reply_mode != ReplyMode::On && end != End::Later {
        cold_path();
        leave_out(ctx, mark);
    }
    end
}

/// Whether the present command, which was executed, is timed together with the one that comes next.
#[inline]
fn is_timed_later(
    ctx: &mut Ctx<'_>,
    executed: Option<&'static Command>,
    result: &CommandResult,
    place: Place,
    following: &[Planned],
) -> bool {
    let (Some(command), Ok(())) = (executed, result) else { return false };
    let [run, later @ ..] = following else { return false };
    let has_next = place.nth + 1 < run.times
        || later.first().and_then(|next| next.command).is_some_and(|next| next.id == command.id);
    has_next
        && !ctx.commit.is_logged()
        && !ctx.engine.settings.timing.may_time_each()
        && ctx.commit.watch().goes_on(place_behind(place, following))
}

/// Reads the clock and counts the commands since its last reading: those that were timed later, and the present one if
/// it was `executed`. `reply_at`: where its reply begins.
fn end_row(ctx: &mut Ctx<'_>, executed: Option<&'static Command>, reply_at: usize, failed: bool) {
    let before = ctx.commit.watch().uncounted();
    let took_ns = ctx.commit.watch().read(&ctx.engine.clock);
    if before == 0 {
        if let Some(command) = executed {
            count(ctx, command, took_ns, ctx.out.len() - reply_at, failed);
        }
        return;
    }
    cold_path();
    let calls = u64::from(before) + u64::from(executed.is_some());
    let timing = &ctx.engine.settings.timing;
    let counters = &ctx.engine.stats.threads[ctx.thread].commands[ctx.command.id as usize];
    counters.failed.add(u64::from(failed && executed.is_some()));
    counters.count(calls, took_ns, timing.tracks());
    note_together(ctx, ctx.command, calls, took_ns);
}

/// Counts commands that were to be timed later: the present one is not one of them.
#[inline]
pub(crate) fn count_earlier(ctx: &mut Ctx<'_>) {
    if ctx.commit.watch().uncounted() > 0 {
        cold_path();
        end_row(ctx, None, 0, false);
        ctx.started = ctx.commit.watch().began();
    }
}

/// Ends a command that its handler has stopped: with an error as its reply, which is returned as `end`, or postponed.
#[cold]
fn stopped(ctx: &mut Ctx<'_>, mark: onrush_resp::Mark, stop: &Stop, end: End) -> End {
    if !stop.is_put_off() {
        fail(ctx, mark, stop.error());
        return end;
    }
    let end = match stop {
        Stop::Later => End::Later,
        _ => {
            offload(ctx);
            End::Long
        }
    };
    ctx.out.rewind(mark);
    ctx.commit.release();
    end
}

/// Notes the keys that the present command has read, because its client tracks keys; its locks are held. A postponed
/// command has read nothing.
#[cold]
fn note_tracked(ctx: &mut Ctx<'_>) {
    if !ctx.session.is_lent() {
        if !ctx.refused {
            note_reads(ctx);
        }
        end_caching(ctx);
    }
}

/// Ends a command: logs its effects, gives its locks back, serves the clients that waited for its keys.
#[inline(never)]
pub(crate) fn finish(ctx: &mut Ctx<'_>) {
    end_commit(ctx);
    if ctx.commit.has_ready() {
        ctx.commit.release();
        serve(ctx);
    }
}

/// Moves messages for the client itself into its replies: messages of its own commands come right after their replies.
/// No command may be under way.
#[cold]
pub(crate) fn hear(ctx: &mut Ctx<'_>) {
    if ctx.session.states.contains(States::HEARS) {
        ctx.commit.tell();
        if ctx.session.handle.has_mail() {
            ctx.session.take_mail(ctx.out, ctx.engine.settings.reply_limit_bytes.load(Relaxed));
            ctx.session.owed.has_seen_data = true;
        }
    }
}

/// CLIENT REPLY: drops the reply of the command that has just run, unless another thread is to execute it.
#[cold]
pub(crate) fn leave_out(ctx: &mut Ctx<'_>, mark: onrush_resp::Mark) {
    if ctx.session.is_lent() {
        return;
    }
    // Confirmations of subscriptions are messages, not replies.
    let mark = match ctx.command.flags.contains(Flags::PUBSUB | Flags::NOSCRIPT) && !ctx.refused {
        true => ctx.out.mark(),
        false => mark,
    };
    if ctx.session.leaves_out() {
        ctx.out.rewind(mark);
    }
}

/// The client of the thread for long commands, which executes the commands of others.
pub(crate) struct Bystander {
    engine: &'static Engine,
    thread: usize,
    session: Session,
    out: Reply,
}

impl Bystander {
    pub(crate) fn new(engine: &'static Engine, thread: usize) -> Self {
        let nobody = ClientHandle::new(0, String::new(), String::new(), -1, false, 0, User::server());
        Self { engine, thread, session: Session::new(Arc::new(nobody), true), out: Reply::new() }
    }

    /// A context in which others' commands are executed.
    pub(crate) fn ctx<'a>(&'a mut self, commit: &'a mut Commit) -> Ctx<'a> {
        Ctx::new(self.engine, self.thread, &mut self.session, &mut self.out, commit)
    }
}

/// Executes the command of a waiting client. Nothing is refused: it waits for locks if necessary.
#[cold]
pub(crate) fn execute_waiting(
    outer: &mut Ctx<'_>,
    client: &Arc<ClientHandle>,
    db: u32,
    argv: Argv<'_>,
    out: &mut Reply,
) -> Waited {
    let mut session = Session::new(Arc::clone(client), true);
    session.db = db;
    session.look_at_rights(&outer.engine.users);
    let Ok(command) = outer.engine.commands.resolve(&argv) else { return Waited::On };
    let mut ctx = inside(outer, &mut session, out, argv, command);
    ctx.serving = true;
    ctx.executing.note(command.id);
    let mark = ctx.out.mark();
    // The user may have lost rights since the command began to wait.
    if ctx.session.states.contains(States::RESTRICTED)
        && let Some(error) = not_permitted(&ctx, command)
    {
        fail(&mut ctx, mark, &error);
        return Waited::Enough;
    }
    let waited = match (command.handler)(&mut ctx) {
        Ok(()) => Waited::Enough,
        Err(Stop::Waits) => Waited::On,
        Err(Stop::Error(error)) => {
            fail(&mut ctx, mark, &error);
            Waited::Enough
        }
        Err(Stop::Later | Stop::Elsewhere | Stop::Undeclared) => Waited::Longer,
    };
    if waited == Waited::Enough {
        count_elsewhere(&ctx, slot_elsewhere(&ctx, command), 0, true);
        if ctx.session.states.contains(States::TRACKS) {
            note_tracked(&mut ctx);
        }
    }
    end_commit(&mut ctx);
    ctx.engine.stats.threads[ctx.thread].changes.add(ctx.changes);
    ctx.commit.release();
    waited
}

/// The result of executing the command of a waiting client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It has its reply.
    Enough,
    /// It still waits.
    On,
    /// It could not be executed, because another thread holds its keys for long.
    Longer,
}

/// Executes a long command of the client with `session`; serves clients that wait for its changes. It is judged anew, as
/// much may have happened since it was handed over. `full`: memory is not within its limit.
#[cold]
pub(crate) fn execute_offloaded(
    outer: &mut Ctx<'_>,
    session: &mut Session,
    argv: Argv<'_>,
    out: &mut Reply,
    full: bool,
) {
    let Ok(command) = outer.engine.resolve(session, &argv) else { return };
    outer.commit.begin_part(session);
    session.look_at_rights(&outer.engine.users);
    outer.commit.choose_timing();
    let mut ctx = inside(outer, session, out, argv, command);
    let slot = slot_elsewhere(&ctx, command);
    let mark = ctx.out.mark();
    let result = match admit(&ctx, command, full) {
        Ok(()) => {
            ctx.session.owed.has_seen_data |= command.may_report_data();
            execute_timed(&mut ctx, command)
        }
        Err(error) => Err(refused(&mut ctx, command, error).into()),
    };
    if let Err(stop) = result {
        fail(&mut ctx, mark, stop.error());
    }
    ctx.session.is_script_shown = false;
    if ctx.engine.messages.has_monitors() && !ctx.refused {
        show(&mut ctx);
    }
    ctx.engine.stats.threads[ctx.thread].changes.add(ctx.changes);
    if ctx.session.states.contains(States::TRACKS) {
        note_tracked(&mut ctx);
    }
    finish(&mut ctx);
    leave_out(&mut ctx, mark);
    if slot.is_some() && !ctx.refused {
        count_elsewhere(&ctx, slot, (ctx.engine.clock.now() - ctx.started).as_nanos() as u64, false);
    }
    ctx.commit.release();
}

/// Executes a command and counts it.
fn execute_timed(ctx: &mut Ctx<'_>, command: &'static Command) -> CommandResult {
    ctx.executing.note(command.id);
    ctx.started = ctx.engine.clock.now();
    let result = handle(ctx, command);
    let took = ctx.engine.clock.now() - ctx.started;
    count(ctx, command, took.as_nanos() as u64, ctx.out.len(), result.is_err());
    result
}

/// A context inside of another one.
fn inside<'a>(
    outer: &'a mut Ctx<'_>,
    session: &'a mut Session,
    out: &'a mut Reply,
    argv: Argv<'a>,
    command: &'static Command,
) -> Ctx<'a> {
    outer.commit.set_db(session.db);
    let mut ctx = Ctx::new(outer.engine, outer.thread, session, out, &mut *outer.commit);
    (ctx.argv, ctx.command) = (argv, command);
    ctx
}

/// Counts a command that was timed individually, with the bytes of its reply.
fn count(ctx: &Ctx<'_>, command: &Command, took_ns: u64, reply_bytes: usize, failed: bool) {
    let counters = &ctx.engine.stats.threads[ctx.thread].commands[command.id as usize];
    counters.failed.add(u64::from(failed));
    counters.count(1, took_ns, ctx.engine.settings.timing.tracks());
    note_timed(ctx, took_ns, reply_bytes);
}

/// Notes a command that was timed individually, if it took long or a hot-key session runs.
pub(crate) fn note_timed(ctx: &Ctx<'_>, took_ns: u64, reply_bytes: usize) {
    note_command(ctx, took_ns);
    if ctx.commit.times_each() && ctx.engine.settings.timing.looks_for_hot_keys() {
        note_hot_keys(ctx, took_ns, reply_bytes);
    }
}

/// Executes commands that may take long, that need a subcommand looked up, or that are wrong. Also returns the command
/// if it was executed.
#[cold]
fn execute_long(
    ctx: &mut Ctx<'_>,
    planned: Option<&'static Command>,
    full: bool,
) -> (Option<&'static Command>, CommandResult) {
    let result = execute_admitted(ctx, planned, full);
    let executed = (!ctx.refused && !result.as_ref().is_err_and(Stop::is_put_off)).then_some(ctx.command);
    (executed, result)
}

fn execute_admitted(ctx: &mut Ctx<'_>, planned: Option<&'static Command>, full: bool) -> CommandResult {
    let command = match planned.map_or_else(|| ctx.engine.resolve(ctx.session, &ctx.argv), Ok) {
        Ok(command) => command,
        Err(_) if is_http(ctx.arg(0)) => {
            // A web page has made a browser talk to this port: none of its lines may be executed.
            tracing::warn!(
                "Possible security attack: HTTP request from {}, closing its connection",
                ctx.session.handle.addr
            );
            ctx.session.states.insert(States::CLOSES);
            ctx.refused = true;
            return Ok(());
        }
        Err(error) => {
            ctx.refused = true;
            return Err(error.into());
        }
    };
    ctx.command = command;
    ctx.session.look_at_rights(&ctx.engine.users);
    if let Err(error) = admit(ctx, command, full) {
        return Err(refused(ctx, command, error).into());
    }
    ctx.session.handle.activity.last_command.store(u32::from(command.id), Relaxed);
    ctx.executing.note(command.id);
    // Other threads must not wait for the previous command's key or record while this one takes long.
    ctx.commit.release();
    ctx.commit.submit();
    let has_keys = command.plan.is_some() && !command.flags.contains(Flags::PUBSUB);
    if ctx.argc() > offload::ARGS_MAX && has_keys && ctx.commit.may_defer() {
        return Err(Stop::Elsewhere);
    }
    if ctx.engine.offload.is_busy() && ctx.commit.has_entered() && wants_held(ctx) {
        return Err(Stop::Later);
    }
    handle(ctx, command)
}

/// Calls the handler of a command that was admitted, unless its keys are under way and not here.
fn handle(ctx: &mut Ctx<'_>, command: &'static Command) -> CommandResult {
    if ctx.engine.cluster.is_some() {
        cold_path();
        return handle_in_cluster(ctx, command);
    }
    (command.handler)(ctx)
}

/// Notes that the present command is refused with `error`; returns the reply.
#[cold]
fn refused(ctx: &mut Ctx<'_>, command: &Command, error: CommandError) -> CommandError {
    ctx.refused = true;
    if command.is_exec() { abort_here(ctx, error) } else { refuse(ctx, error) }
}

/// Whether one of the present command's keys is in a shard that is held for long.
#[cold]
fn wants_held(ctx: &Ctx<'_>) -> bool {
    ctx.commit.may_defer() && keys_of(ctx.command, ctx.argv).any(|key| ctx.commit.is_held_long(key))
}

/// Whether a word begins a line of HTTP that every request of a browser has.
pub(crate) fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

#[cold]
pub(crate) fn fail(ctx: &mut Ctx<'_>, mark: onrush_resp::Mark, error: &CommandError) {
    ctx.out.rewind(mark);
    ctx.out.error_bytes(error.as_bytes());
    count_error(ctx, error);
}

/// Counts an error that a client gets.
#[cold]
pub(crate) fn count_error(ctx: &Ctx<'_>, error: &CommandError) {
    ctx.engine.stats.threads[ctx.thread].error_replies.add(1);
    ctx.engine.stats.count_error(error.code());
}

/// Ends the commit of a command, while its locks are still held.
#[cold]
fn end_commit(ctx: &mut Ctx<'_>) {
    let changes = if ctx.commit.is_logged() { std::mem::take(&mut ctx.changes) } else { 0 };
    if changes > 0 && ctx.engine.commands.is_renamed() {
        ctx.log_by_original_name();
    }
    ctx.commit.end_command(&ctx.argv, changes);
    ctx.engine.stats.threads[ctx.thread].changes.add(changes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::CommandTable;
    use crate::commands::FAMILIES;
    use crate::messages::outbox::Parcel;
    use crate::shared::Parts;

    /// A message that comes while the client's command is with the thread for long commands may belong after the reply.
    #[test]
    fn messages_wait_for_the_reply_of_a_command_that_is_executed_elsewhere() {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(&Parts::default(), CommandTable::new(FAMILIES))));
        let mut commit = Commit::new(engine, 0);
        let mut reader = Bystander::new(engine, 0);
        reader.session.states.insert(States::HEARS | States::TRACKS);
        let handle = Arc::clone(&reader.session.handle);
        offload(&mut reader.ctx(&mut commit));
        handle.send(
            &Parcel::new(b"news".to_vec(), &engine.messages.parcel_bytes),
            &engine.settings.output_limits(),
            engine,
            0,
        );
        hear(&mut reader.ctx(&mut commit));
        assert!(reader.out.is_empty() && handle.has_mail());
        reader.session.waiter = None;
        hear(&mut reader.ctx(&mut commit));
        assert!(!reader.out.is_empty() && !handle.has_mail());
    }
}
