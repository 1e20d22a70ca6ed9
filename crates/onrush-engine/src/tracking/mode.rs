//! How a client tracks keys, readable by every thread.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use bitflags::bitflags;

bitflags! {
    /// The options of CLIENT TRACKING, and their state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Mode: u8 {
        /// The client tracks keys.
        const ON = 1 << 0;
        /// It gets messages about all keys with its prefixes, whether it has read them or not.
        const BCAST = 1 << 1;
        /// Keys are tracked only if CLIENT CACHING YES comes before the command that reads them.
        const OPTIN = 1 << 2;
        /// Keys are tracked unless CLIENT CACHING NO comes before the command that reads them.
        const OPTOUT = 1 << 3;
        /// The client gets no messages about its own changes.
        const NOLOOP = 1 << 4;
        /// CLIENT CACHING has been sent, for the next command.
        const CACHING = 1 << 5;
        /// A message could not be redirected, because the target client was gone.
        const BROKEN = 1 << 6;
    }
}

impl Mode {
    /// Whether the keys that the client reads now are tracked.
    pub(crate) fn tracks_reads(self) -> bool {
        let is_chosen = match (self.contains(Self::OPTIN), self.contains(Self::OPTOUT)) {
            (true, _) => self.contains(Self::CACHING),
            (_, true) => !self.contains(Self::CACHING),
            _ => true,
        };
        self.contains(Self::ON) && !self.contains(Self::BCAST) && is_chosen
    }
}

/// The mode of a client. Its own session sets it; threads that send messages read it.
#[derive(Default)]
pub(crate) struct TrackingState {
    mode: AtomicU8,
    /// The client that gets the messages; 0 is the client itself.
    redirect: AtomicU64,
}

impl TrackingState {
    /// The present mode.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_bits_retain(self.mode.load(Relaxed))
    }

    /// The id of the client that gets the messages; 0 if that is the client itself.
    pub(crate) fn redirect(&self) -> u64 {
        self.redirect.load(Relaxed)
    }

    /// As [`redirect`](Self::redirect), as clients are told: -1 while tracking is off.
    pub(crate) fn shown_redirect(&self) -> i64 {
        if self.mode().contains(Mode::ON) { self.redirect() as i64 } else { -1 }
    }

    pub(crate) fn set(&self, mode: Mode, redirect: u64) {
        self.redirect.store(redirect, Relaxed);
        self.mode.store(mode.bits(), Relaxed);
    }

    pub(crate) fn insert(&self, mode: Mode) {
        self.mode.fetch_or(mode.bits(), Relaxed);
    }

    pub(crate) fn remove(&self, mode: Mode) {
        self.mode.fetch_and(!mode.bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_tracked_as_the_options_say() {
        for (mode, tracks) in [
            (Mode::empty(), false),
            (Mode::ON, true),
            (Mode::ON | Mode::NOLOOP, true),
            (Mode::ON | Mode::BCAST, false),
            (Mode::ON | Mode::OPTIN, false),
            (Mode::ON | Mode::OPTIN | Mode::CACHING, true),
            (Mode::ON | Mode::OPTOUT, true),
            (Mode::ON | Mode::OPTOUT | Mode::CACHING, false),
        ] {
            assert_eq!(mode.tracks_reads(), tracks, "{mode:?}");
        }
    }
}
