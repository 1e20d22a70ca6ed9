//! The inbox of a worker: whatever is posted comes, and wakes the worker if it sleeps.

use std::io;
use std::sync::Arc;

use loom::thread;

use super::inbox::{Bell, Inbox};
use crate::sync;

impl Bell for sync::Bell {
    fn ring(&self) -> io::Result<()> {
        Self::ring(self);
        Ok(())
    }
}

type Numbers = Inbox<Vec<usize>, Arc<sync::Bell>>;

impl Bell for Arc<sync::Bell> {
    fn ring(&self) -> io::Result<()> {
        sync::Bell::ring(self);
        Ok(())
    }
}

/// `threads` threads post `posts` numbers each to a worker that sleeps whenever it may.
pub fn every_post_comes(threads: usize, posts: usize) {
    let bell = Arc::new(sync::Bell::new());
    let inbox = Arc::new(Numbers::new(Arc::clone(&bell)));
    let posting: Vec<_> = (0..threads)
        .map(|thread| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || (0..posts).for_each(|post| inbox.add(|all| all.push(thread * posts + post))))
        })
        .collect();
    let mut got = Vec::new();
    while got.len() < threads * posts {
        match inbox.may_sleep() {
            true => bell.sleep(),
            false => bell.look(),
        }
        got.extend(inbox.take().into_iter().flatten());
    }
    posting.into_iter().for_each(|thread| thread.join().unwrap());
    got.sort_unstable();
    assert!(got.into_iter().eq(0..threads * posts), "each comes once");
    assert!(inbox.take().is_none_or(|late| late.is_empty()));
}

/// A nudge ends the sleep of a worker, though nothing is posted.
pub fn a_nudge_ends_the_sleep() {
    let bell = Arc::new(sync::Bell::new());
    let inbox = Arc::new(Numbers::new(Arc::clone(&bell)));
    let nudging = {
        let inbox = Arc::clone(&inbox);
        thread::spawn(move || {
            while !inbox.is_asleep() {
                thread::yield_now();
            }
            inbox.nudge();
        })
    };
    assert!(inbox.may_sleep());
    bell.sleep();
    assert!(inbox.take().is_none());
    nudging.join().unwrap();
}

/// A thread takes back what the worker has not taken: nothing is lost, nothing comes twice.
pub fn what_is_taken_back_comes_nowhere_else() {
    let inbox = Arc::new(Numbers::new(Arc::new(sync::Bell::new())));
    inbox.add(|all| all.push(1));
    let taking_back = {
        let inbox = Arc::clone(&inbox);
        thread::spawn(move || inbox.take_part(std::mem::take).len())
    };
    let got = inbox.take().map_or(0, |all| all.len());
    assert_eq!(got + taking_back.join().unwrap() + inbox.take().map_or(0, |all| all.len()), 1);
}
