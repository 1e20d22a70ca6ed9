//! What a connection knows about its client.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::blocking::waiter::Waiter;
use crate::client::ClientHandle;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// No replies until ON.
    Off,
    /// The reply of the next command is left out.
    SkipNext,
    /// The reply of the present command is left out.
    Skip,
}

bitflags::bitflags! {
    /// Why a connection's commands are not simply executed. While nothing of it is set, short commands need no further look.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct States: u8 {
        /// The client has to authenticate first.
        const LOGGED_OUT = 1 << 0;
        /// MULTI: commands are queued until EXEC.
        const QUEUES = 1 << 1;
        /// The client has subscribed in RESP2: only commands about subscriptions are executed.
        const SUBSCRIBED = 1 << 2;
    }
}

/// State of one connection that commands read and change.
pub struct Session {
    /// The shared part.
    pub handle: Arc<ClientHandle>,
    /// Selected database.
    pub db: u32,
    /// Why its commands are not simply executed.
    pub states: States,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// Whether the commands are those of a log: nothing expires before them.
    pub is_replay: bool,
    /// Close once the replies so far are written.
    pub close_after_reply: bool,
    /// What the client waits for.
    pub waiter: Option<Arc<Waiter>>,
    /// Whether the reply to the command that waits is to be left out.
    pub waits_silently: bool,
    /// Whether commands that would block reply at once instead.
    pub deny_blocking: bool,
}

impl Session {
    /// The state of a connection just accepted.
    pub fn new(handle: Arc<ClientHandle>, authenticated: bool) -> Self {
        Self {
            handle,
            db: 0,
            states: if authenticated { States::empty() } else { States::LOGGED_OUT },
            reply_mode: ReplyMode::On,
            no_touch: false,
            is_replay: false,
            close_after_reply: false,
            waiter: None,
            waits_silently: false,
            deny_blocking: false,
        }
    }

    /// Whether its client has authenticated, or need not.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        !self.states.contains(States::LOGGED_OUT)
    }

    /// RESET: back to the state of a new connection.
    pub fn reset(&mut self, authenticated: bool) {
        self.handle.no_evict.store(false, Relaxed);
        self.handle.no_touch.store(false, Relaxed);
        let mut names = self.handle.names.lock();
        names.name.clear();
        names.user = b"default".to_vec();
        drop(names);
        // The reply to this very command may have been asked to be left out.
        let reply_mode = if self.reply_mode == ReplyMode::Skip { ReplyMode::Skip } else { ReplyMode::On };
        *self = Self { reply_mode, ..Self::new(Arc::clone(&self.handle), authenticated) };
    }
}
