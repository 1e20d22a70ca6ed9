//! Clients that wait for a key: a change of the key finds them, and their waiting ends once, however it ends.
//!
//! The table of waiters and a waiter's state are the server's. A key that is a number or nothing stands for the keyspace,
//! and the steps of `block.rs`, `serve.rs` and `ending.rs` are here in a few lines each.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use onrush_store::{KeyHash, Keyspace, KeyspaceOptions};

use super::state::State;
use super::waiter::{Awaited, Waiter, WaitsFor};
use super::waiters::{Waiters, Wanted};
use crate::clients::client::ClientHandle;
use crate::sync::{Bell, Mutex};

pub(super) const KEY: &[u8] = b"key";

/// What a client gets when its time is over.
const TIMEOUT: usize = 0;

struct Server {
    waiters: Waiters,
    hash: KeyHash,
    /// The shard of the key.
    shard: Mutex<UnsafeCell<Option<usize>>>,
}

impl Server {
    fn new() -> Arc<Self> {
        let keyspace = Keyspace::new(KeyspaceOptions { seed: Some(1), ..KeyspaceOptions::default() });
        let shard = Mutex::new(UnsafeCell::new(None));
        Arc::new(Self { waiters: Waiters::default(), hash: keyspace.hash(KEY), shard })
    }

    /// BLPOP: takes the key's number, or waits for it.
    fn pop_or_wait(&self, client: u64) -> Result<usize, Arc<Waiter>> {
        let shard = self.shard.lock();
        if let Some(number) = take(&shard) {
            return Ok(number);
        }
        let awaited = Awaited { db: 0, range: 0..1, what: WaitsFor::List, ticket: self.waiters.ticket() };
        let client = Arc::new(ClientHandle::new(client));
        let state = super::state::StateLock::waiting();
        let waiter = Arc::new(Waiter { client, awaited, state, bell: Bell::new() });
        self.waiters.add(&waiter, |_| self.hash);
        self.waiters.begin(&waiter);
        Err(waiter)
    }

    /// LPUSH: sets the number, and serves clients if any may wait for it.
    fn push(&self, number: usize) {
        let shard = self.shard.lock();
        // SAFETY: the shard is locked; loom checks it.
        shard.with_mut(|key| unsafe { *key = Some(number) });
        let may_have = self.waiters.may_have(self.hash);
        drop(shard);
        if may_have {
            self.serve();
        }
    }

    fn serve(&self) {
        let wanted = Wanted { db: 0, key: KEY, hash: self.hash, what: WaitsFor::List };
        let mut last = None;
        while let Some((place, waiter)) = self.waiters.next(&wanted, last) {
            last = Some(place);
            self.end(&waiter, || take(&self.shard.lock()));
        }
    }

    /// Ends the waiting with what `end` gives, if the client still waits and `end` gives something.
    fn end(&self, waiter: &Arc<Waiter>, end: impl FnOnce() -> Option<usize>) {
        let mut state = waiter.state.lock();
        if !state.is_waiting() {
            return;
        }
        let Some(number) = end() else { return };
        *state = State::Ended(number);
        self.waiters.remove(waiter, |_| self.hash);
        self.waiters.end(waiter);
        drop(state);
        waiter.bell.ring();
    }

    fn time_out(&self, waiter: &Arc<Waiter>) {
        self.end(waiter, || Some(TIMEOUT));
    }

    /// The client is gone: nothing is taken for it afterwards.
    fn forget(&self, waiter: &Arc<Waiter>) {
        let mut state = waiter.state.lock();
        if state.is_waiting() {
            *state = State::Gone;
            self.waiters.remove(waiter, |_| self.hash);
            self.waiters.end(waiter);
        }
    }

    fn key(&self) -> Option<usize> {
        take(&self.shard.lock())
    }

    fn expect_nobody_waits(&self) {
        assert!(self.waiters.is_empty() && self.waiters.keys_len() == 0 && !self.waiters.may_have(self.hash));
    }
}

fn take(shard: &UnsafeCell<Option<usize>>) -> Option<usize> {
    // SAFETY: the shard is locked; loom checks it.
    shard.with_mut(|key| unsafe { (*key).take() })
}

/// A client takes the number or waits while another one brings it: it gets it, whoever comes first.
pub fn a_change_finds_who_waits() {
    let server = Server::new();
    let pushing = {
        let server = Arc::clone(&server);
        thread::spawn(move || server.push(7))
    };
    let got = server.pop_or_wait(1).unwrap_or_else(|waiter| {
        waiter.bell.sleep();
        waiter.state.take_end().expect("who is woken has its end")
    });
    assert_eq!(got, 7);
    pushing.join().unwrap();
    server.expect_nobody_waits();
}

/// The time of a client is over while another one brings the number: it gets one of both, and the number is not lost.
pub fn the_waiting_ends_once() {
    let server = Server::new();
    let waiter = server.pop_or_wait(1).expect_err("there is nothing");
    let pushing = {
        let server = Arc::clone(&server);
        thread::spawn(move || server.push(7))
    };
    let late = {
        let (server, waiter) = (Arc::clone(&server), Arc::clone(&waiter));
        thread::spawn(move || server.time_out(&waiter))
    };
    waiter.bell.sleep();
    let got = waiter.state.take_end().expect("who is woken has its end");
    pushing.join().unwrap();
    late.join().unwrap();
    assert!(waiter.state.take_end().is_none(), "it ends once");
    assert_eq!(server.key(), (got == TIMEOUT).then_some(7), "the number is with the client or with the key");
    server.expect_nobody_waits();
}

/// A client is killed while another one brings the number: nothing is taken for it after the kill.
pub fn nothing_is_taken_for_who_is_gone() {
    let server = Server::new();
    let waiter = server.pop_or_wait(1).expect_err("there is nothing");
    let pushing = {
        let server = Arc::clone(&server);
        thread::spawn(move || server.push(7))
    };
    server.forget(&waiter);
    let served = waiter.state.take_end();
    pushing.join().unwrap();
    assert_eq!(served.or(server.key()), Some(7));
    assert!(waiter.state.take_end().is_none(), "nothing happens after the kill");
    server.expect_nobody_waits();
}

/// Two clients wait, two numbers come one after the other: each gets one, the first the first.
pub fn each_change_serves_one() {
    let server = Server::new();
    let [first, second] = [1, 2].map(|client| server.pop_or_wait(client).expect_err("there is nothing"));
    let pushing = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            server.push(7);
            server.push(8);
        })
    };
    first.bell.sleep();
    second.bell.sleep();
    assert_eq!([first, second].map(|waiter| waiter.state.take_end()), [Some(7), Some(8)]);
    pushing.join().unwrap();
    server.expect_nobody_waits();
}
