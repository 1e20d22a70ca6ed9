//! Replies that wait until the changes they report are on disk, or replicas have them.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use onrush_engine::clients::client::ClientHandle;
use onrush_engine::clients::durability::{Durability, Level};
use onrush_engine::clients::session::WantedReplicas;
use onrush_engine::replication::held::{Held as Replicas, Look};

use super::Connection;
use crate::process::server::Server;

/// The place in the stream of replies up to which they may be written, and the later places that wait.
#[derive(Default)]
pub(super) struct Held {
    /// Bytes written since this was made.
    pub(super) written: u64,
    /// Bytes that may have been written by now.
    allowed: u64,
    /// Ends of replies that wait, each with the LSN that has to be durable or written; both ascending.
    marks: VecDeque<Mark>,
    /// As `marks`, for replicas.
    for_replicas: VecDeque<ForReplicas>,
    /// Bytes that may have been written by now, as far as replicas are concerned.
    replicated: u64,
}

/// The end of replies that wait until so many replicas have executed all up to a record.
struct ForReplicas {
    end: u64,
    replicas: u32,
    lsn: u64,
}

struct Mark {
    end: u64,
    level: Level,
    lsn: u64,
}

impl Connection {
    /// How many bytes of replies may be written now.
    #[inline]
    pub(super) fn writable_bytes(&mut self) -> usize {
        if self.held.is_none() && !self.server.durability.delays(self.session.owed.wish) {
            self.session.owe_anew();
            return usize::MAX;
        }
        cold_path();
        let replicas = self.session.owed.replicas.number(self.server.replication.held.by_default());
        if self.held.is_none() && replicas == 0 && !self.server.durability.delays_for_disk(self.session.owed.wish) {
            self.session.owe_anew();
            return usize::MAX;
        }
        self.look_at_held()
    }

    /// Whether replies wait for the disk.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.allowed.min(held.replicated) <= held.written)
    }

    #[inline(never)]
    fn look_at_held(&mut self) -> usize {
        let durability = &self.server.durability;
        if durability.is_silent() {
            return 0;
        }
        let held = self.held.get_or_insert_default();
        let end = held.written + self.reply.len() as u64;
        let last_end = held.marks.back().map_or(held.allowed, |mark| mark.end);
        let lsn = self.session.owed.changed_lsn;
        // Once for each change, also when its reply went long ago.
        let is_new = lsn > std::mem::replace(&mut self.marked_lsn, lsn);
        let next = WantedReplicas::by(self.session.durability_replicas);
        let wanted = std::mem::replace(&mut self.session.owed.replicas, next);
        held.note_for_replicas(self.server, end, wanted, lsn, is_new);
        if end > last_end {
            let session = &mut self.session;
            let wish = std::mem::replace(&mut session.owed.wish, session.durability);
            let has_seen_data = std::mem::take(&mut session.owed.has_seen_data);
            let (level, lsn) = match durability.holds(wish) {
                // All changes that the replies report have been logged by now.
                true if has_seen_data => (Level::Durable, self.server.log.last_lsn()),
                false if durability.delays_for_disk(wish) => (Level::Written, session.owed.changed_lsn),
                _ => (Level::Written, 0),
            };
            match held.marks.back_mut() {
                Some(mark) if mark.lsn >= lsn && mark.level >= level => mark.end = end,
                _ => held.marks.push_back(Mark { end, level, lsn }),
            }
        }
        held.release(durability);
        while !self.session.handle.waits_for_log.load(Acquire)
            && let Some(mark) = held.marks.front()
        {
            if durability.has_given_up(mark.lsn) {
                tracing::warn!(
                    "Closing client id={} addr={}: the log has ended before its writes were on the disk",
                    self.session.handle.id,
                    self.session.handle.addr
                );
                self.session.handle.kill();
                return 0;
            }
            if !durability.wake_at(mark.level, mark.lsn, &self.session.handle) {
                held.release(durability);
            }
        }
        held.look_at_replicas(self.server, &self.session.handle);
        let allowed = held.allowed.min(held.replicated);
        let writable = allowed.saturating_sub(held.written) as usize;
        if self.session.handle.lacks_replicas.swap(false, AcqRel) {
            return self.give_up_replies(writable);
        }
        if held.is_over() && writable == self.reply.len() && writable == 0 {
            self.held = None;
        }
        writable
    }

    /// Replicas have not executed in time what the held replies report: an error comes in their place, behind the `allowed`
    /// bytes, and ends the connection.
    #[cold]
    fn give_up_replies(&mut self, allowed: usize) -> usize {
        let held = &self.server.replication.held;
        let why = match self.server.replication.role.is_replica() {
            true => "this server is no primary any more".to_owned(),
            false => format!("replicas have not acknowledged it within {} ms", held.timeout_ms()),
        };
        tracing::warn!(
            "Closing client id={} addr={}: replies that wait for replicas are given up, as {why}",
            self.session.handle.id,
            self.session.handle.addr
        );
        let mut bytes = self.reply.take_bytes();
        bytes.truncate(allowed);
        self.reply.raw(&bytes);
        self.reply.error_bytes(
            format!(
                "NOREPLICAS What was written before this was executed here, but {why}: it may be lost in a fail-over"
            )
            .as_bytes(),
        );
        (self.held, self.closing, self.input) = (None, true, super::Input::UsedUp);
        usize::MAX
    }

    /// Notes that bytes of replies were written.
    #[inline]
    pub(super) fn note_written(&mut self, len: usize) {
        if let Some(held) = &mut self.held {
            cold_path();
            held.written += len as u64;
            if held.is_over() && held.written == held.allowed {
                self.held = None;
            }
        }
    }
}

impl Held {
    /// Whether nothing waits.
    fn is_over(&self) -> bool {
        self.marks.is_empty() && self.for_replicas.is_empty()
    }

    /// Replies up to `end` report changes up to `lsn`, if that is new for this connection.
    fn note_for_replicas(&mut self, server: &Server, end: u64, wanted: WantedReplicas, lsn: u64, is_new: bool) {
        let held = &server.replication.held;
        let replicas = wanted.number(held.by_default());
        // What a replica has is its primary's business.
        let is_new = is_new && (!server.replication.role.is_replica() || held.has_lost(lsn));
        match self.for_replicas.back_mut() {
            _ if replicas > 0 && is_new => self.for_replicas.push_back(ForReplicas { end, replicas, lsn }),
            Some(mark) => mark.end = end,
            None => self.replicated = end,
        }
    }

    /// Lets replies go that replicas have, and has the connection woken for the next.
    fn look_at_replicas(&mut self, server: &Server, client: &Arc<ClientHandle>) {
        while !client.waits_for_replicas.load(Acquire)
            && let Some(mark) = self.for_replicas.front()
        {
            if !Replicas::has(&server.replication, mark.replicas, mark.lsn) {
                match Replicas::wake_at(&server.replication, mark.replicas, mark.lsn, client) {
                    Look::Has => {}
                    Look::IsLost => return,
                    Look::Waits => {
                        if server.replication.must_send() {
                            server.replication.wake();
                        }
                        return;
                    }
                }
            }
            self.replicated = mark.end;
            self.for_replicas.pop_front();
        }
    }

    fn release(&mut self, durability: &Durability) {
        while let Some(mark) = self.marks.front()
            && durability.has(mark.level, mark.lsn)
        {
            self.allowed = mark.end;
            self.marks.pop_front();
        }
    }
}
