//! What the server refuses for all clients: everything while it loads data, writes while it cannot save them.

use crate::batch::write_refusal::NOT_DURABLE;
use crate::clients::durability::Wish;
use crate::clients::session::Session;
use crate::command::Flags;
use crate::command::table::Command;
use crate::error::CommandError;
use crate::replication::role::{LACKS, PRIMARY_DOWN, READ_ONLY};
use crate::settings::Pause;
use crate::shared::Shared;
use crate::transactions::transaction::Transaction;

const LOADING: CommandError = CommandError::fixed("LOADING Redis is loading the dataset in memory");

impl Shared {
    /// Whether there is anything that the server refuses as a whole.
    #[inline]
    pub(crate) fn restricts(&self) -> bool {
        self.loading.is_on() | self.write_refusal.may_refuse() | self.replication.role.is_cut_off()
    }

    /// Whether there is anything that it refuses as a whole, or to clients that write.
    #[inline]
    pub(crate) fn may_restrict_writes(&self) -> bool {
        self.restricts() | self.replication.role.refuses_writes()
    }

    /// What is held back at a time, CLIENT PAUSE or a full log. Writes that are refused are not held back because the log
    /// is full.
    #[inline]
    pub fn holds_back(&self, now_ms: i64) -> Pause {
        match self.pause(now_ms) {
            Pause::Changes if self.write_refusal.is_on() => self.settings.client_pause(now_ms),
            pause => pause,
        }
    }

    /// The same for a connection over which slots come from another node of a cluster.
    #[cold]
    pub(crate) fn holds_back_imports(&self, now_ms: i64) -> Pause {
        match self.settings.client_pause_of_imports(now_ms) {
            Pause::None if self.is_behind(now_ms) && !self.write_refusal.is_on() => Pause::Changes,
            pause => pause,
        }
    }

    /// The error for refused writes, if they are refused.
    #[inline]
    pub(crate) fn write_refusal(&self) -> Option<CommandError> {
        if self.write_refusal.is_on() { self.write_refusal.get() } else { None }
    }

    /// The error for a command of a session, if it is refused because writes are. PING is refused, too, if writes are: so monitoring
    /// notices.
    #[inline]
    pub(crate) fn restriction(&self, command: &Command, session: &Session) -> Option<CommandError> {
        let may_refuse = self.write_refusal.may_refuse() | self.replication.role.refuses_writes();
        if may_refuse { self.find_restriction(command, session) } else { None }
    }

    #[cold]
    fn find_restriction(&self, command: &Command, session: &Session) -> Option<CommandError> {
        if session.is_replay {
            return None;
        }
        let queued = || session.transaction.as_ref().is_some_and(|queued| queued.flags().contains(Flags::WRITE));
        let is_ping = command.spec.name == "ping" && command.parent.is_none();
        if is_ping {
            self.write_refusal.get()
        } else if command.flags.contains(Flags::WRITE) || command.is_exec() && queued() {
            self.write_restriction(session)
        } else {
            None
        }
    }

    /// The error for writes of a session, if they are refused.
    pub(crate) fn write_restriction(&self, session: &Session) -> Option<CommandError> {
        if session.is_replay {
            return None;
        }
        let unsaved = || {
            let lacks_log = session.durability == Wish::Always && !self.durability.is_on();
            self.write_refusal.get().or_else(|| lacks_log.then_some(NOT_DURABLE))
        };
        let refusal = if self.write_refusal.may_refuse() { unsaved() } else { None };
        let role = &self.replication.role;
        let refusal = refusal.or_else(|| role.lacks_replicas().then_some(LACKS));
        refusal.or_else(|| role.is_read_only().then_some(READ_ONLY))
    }

    /// Whether this session must not see data, as that of this replica may be old.
    pub(crate) fn is_stale(&self, session: &Session) -> bool {
        self.replication.role.is_cut_off() && !session.is_replay
    }

    /// The error for a command that is refused as the data of this replica may be old.
    pub(crate) fn stale_refusal(&self, command: &Command, session: &Session) -> Option<CommandError> {
        if !self.is_stale(session) {
            return None;
        }
        let may_queued = |queued: &Transaction| queued.common_flags().contains(Flags::STALE);
        let may = command.flags.contains(Flags::STALE)
            && (!command.is_exec() || session.transaction.as_deref().is_none_or(may_queued));
        (!may).then_some(PRIMARY_DOWN)
    }

    /// The error for a command that is refused while data is loaded.
    pub(crate) fn loading_refusal(&self, command: &Command, session: &Session) -> Option<CommandError> {
        if !self.loading.is_on() || session.is_replay {
            return None;
        }
        let may_queued = |queued: &Transaction| queued.common_flags().contains(Flags::LOADING);
        let ends_sync = command.flags.contains(Flags::ENDS_SYNC) && self.replication.role.is_syncing();
        let may = (command.flags.contains(Flags::LOADING) || ends_sync)
            && (!command.is_exec() || session.transaction.as_deref().is_none_or(may_queued));
        (!may).then_some(LOADING)
    }
}
