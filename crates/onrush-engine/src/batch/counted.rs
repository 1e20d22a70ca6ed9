//! Which slot commands are counted under, and what they bring, while `cluster-slot-stats-enabled` is on.

use crate::batch::argv::Argv;
use crate::batch::chunk::Planned;
use crate::batch::slot_notes::Bytes;
use crate::cluster::redirect::slot_of_all;
use crate::cluster::slotted::slot_of;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::observe::slots::SlotUsage;

/// Bytes of a MULTI: it is counted with the EXEC that ends its transaction.
pub(crate) const MULTI_LEN: u64 = b"*1\r\n$5\r\nMULTI\r\n".len() as u64;

/// Bytes of the reply to a command that is queued: they are not counted.
pub(crate) const QUEUED_LEN: u64 = b"+QUEUED\r\n".len() as u64;

/// What is known before a command is executed.
pub(crate) struct Counted {
    bytes: Bytes,
    /// The slot of the transaction that the command, an EXEC, ends.
    of_transaction: Option<u16>,
    /// Commands of the client's transaction.
    queued: usize,
}

impl Counted {
    /// Before the present command is executed, or is queued. O(arguments of the transaction) for EXEC.
    #[inline]
    pub(crate) fn before(ctx: &Ctx<'_>, planned: Option<&'static Command>) -> Self {
        let mut before = Self { bytes: Bytes::before(ctx), of_transaction: None, queued: 0 };
        if let Some(transaction) = &ctx.session.transaction {
            before.queued = transaction.len();
            before.of_transaction = planned.filter(|command| command.is_exec()).and_then(|_| slot_of_transaction(ctx));
        }
        before
    }

    /// Whether the command was queued since.
    pub(crate) fn was_queued(&self, ctx: &Ctx<'_>) -> bool {
        ctx.session.transaction.as_ref().is_some_and(|transaction| transaction.len() > self.queued)
    }

    /// The slot of the present command, which was executed or queued since, and its bytes. One that waits for keys has
    /// sent nothing until it is served.
    #[inline]
    pub(crate) fn since(&self, ctx: &Ctx<'_>, run: &Planned, has_owned: bool) -> (Option<u16>, Bytes) {
        let waits = ctx.session.waiter.is_some() && !ctx.session.is_lent();
        let mut sent = if waits { 0 } else { sent_bytes(&ctx.argv, run, has_owned) };
        let slot = match self.of_transaction {
            Some(slot) => {
                sent += MULTI_LEN;
                Some(slot)
            }
            None => slot_of_present(ctx, run.command),
        };
        (slot, self.bytes.since(ctx, sent))
    }
}

/// Bytes of one command of a run. Large arguments stand elsewhere than in the input.
#[inline]
pub(crate) fn sent_bytes(argv: &Argv<'_>, run: &Planned, has_owned: bool) -> u64 {
    if has_owned { encoded_len(argv) } else { (run.end - run.start) as u64 }
}

/// The slot that the present command is about, by its first key or sharded channel. `planned`: the command, if it is
/// known without a look at its subcommands.
#[inline]
pub(crate) fn slot_of_present(ctx: &Ctx<'_>, planned: Option<&'static Command>) -> Option<u16> {
    match ctx.planned.hashes.first() {
        Some(hash) => Some(hash.slot()),
        None => slot_by_name(ctx, planned),
    }
}

#[cold]
fn slot_by_name(ctx: &Ctx<'_>, planned: Option<&'static Command>) -> Option<u16> {
    let command = planned.or_else(|| ctx.engine.resolve(ctx.session, &ctx.argv).ok())?;
    slot_of(command, &ctx.argv).map(|slotted| slotted.slot)
}

/// The slot of the client's transaction.
#[cold]
fn slot_of_transaction(ctx: &Ctx<'_>) -> Option<u16> {
    slot_of_all(ctx, ctx.session.transaction.as_ref()?).map(|slotted| slotted.slot)
}

/// The slot of a command that is executed for a client elsewhere than in its batch; `None` also if nothing is counted.
#[cold]
pub(crate) fn slot_elsewhere(ctx: &Ctx<'_>, command: &Command) -> Option<u16> {
    if !ctx.engine.settings.counts_slots() {
        return None;
    }
    match command.is_exec() {
        true => slot_of_transaction(ctx),
        false => slot_of(command, &ctx.argv).map(|slotted| slotted.slot),
    }
}

/// Counts what a command has cost elsewhere than in its client's batch, where its own bytes are counted unless it
/// `waited`.
#[cold]
pub(crate) fn count_elsewhere(ctx: &Ctx<'_>, slot: Option<u16>, nanos: u64, waited: bool) {
    if let Some(slot) = slot {
        let bytes_in = if waited { encoded_len(&ctx.argv) } else { 0 };
        let bytes_out = if ctx.session.is_replay { 0 } else { ctx.out.len() as u64 };
        let usage = SlotUsage { nanos, bytes_in, bytes_out };
        ctx.engine.stats.threads[ctx.thread].slots.add(slot, usage);
    }
}

/// Bytes of a command as a multibulk.
fn encoded_len(argv: &Argv<'_>) -> u64 {
    let line = |number: usize| 1 + itoa::Buffer::new().format(number).len() + 2;
    let args = argv.iter().map(|arg| line(arg.len()) + arg.len() + 2).sum::<usize>();
    (line(argv.len()) + args) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_resp::ArgRange;

    #[test]
    fn the_length_of_a_command_is_that_of_its_multibulk() {
        let ranges = [ArgRange::new(0, 3), ArgRange::new(4, 10), ArgRange::new(15, 0)];
        let argv = Argv::new(b"SET 0123456789 ", &ranges, &[]);
        assert_eq!(encoded_len(&argv), "*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$0\r\n\r\n".len() as u64);
    }
}
