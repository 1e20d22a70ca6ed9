//! The gate: who has the whole keyspace is alone in it, turns come in their order, and no turn that ends or is given up
//! leaves a thread waiting.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;

use crate::gate::Gate;

/// What stands behind the gate. Loom fails when a thread changes it while another one looks at it.
struct Keyspace {
    gate: Gate,
    changes: UnsafeCell<usize>,
}

impl Keyspace {
    fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self { gate: Gate::new(threads), changes: UnsafeCell::new(0) })
    }

    /// A look, by a thread that has entered. (The shards' locks would be for changes.)
    fn look(&self) -> usize {
        // SAFETY: loom hands out the pointer only while nobody changes what it leads to.
        self.changes.with(|changes| unsafe { *changes })
    }

    /// A change, by a thread that has the whole keyspace.
    fn change(&self) -> usize {
        self.changes.with_mut(|changes| {
            // SAFETY: loom hands out the pointer only while nobody else has it.
            unsafe {
                *changes += 1;
                *changes
            }
        })
    }
}

/// A worker enters; another thread has the whole keyspace, and then stays in it as one of many.
pub fn whoever_has_all_of_it_is_alone() {
    let keyspace = Keyspace::new(2);
    let worker = {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(move || {
            let _entered = keyspace.gate.enter(0);
            keyspace.look();
        })
    };
    {
        let all = keyspace.gate.exclusive(keyspace.gate.take_turn());
        keyspace.change();
        let _entered = all.share(1);
        assert_eq!(keyspace.look(), 1);
    }
    worker.join().unwrap();
}

/// Two threads that have entered both want the whole keyspace: neither waits for the other for ever, and the turn that
/// was drawn first comes first.
pub fn turns_come_in_their_order() {
    let keyspace = Keyspace::new(2);
    let (first, second) = (keyspace.gate.take_turn(), keyspace.gate.take_turn());
    let later = {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(move || {
            drop(keyspace.gate.enter(0));
            let _all = keyspace.gate.exclusive(second);
            assert_eq!(keyspace.change(), 2);
        })
    };
    {
        drop(keyspace.gate.enter(1));
        let _all = keyspace.gate.exclusive(first);
        assert_eq!(keyspace.change(), 1);
    }
    later.join().unwrap();
}

/// A thread gives up its turn at any moment; the turn behind it comes all the same.
pub fn a_turn_given_up_is_passed_over() {
    let keyspace = Keyspace::new(2);
    let (first, second) = (keyspace.gate.take_turn(), keyspace.gate.take_turn());
    let impatience = Arc::new(AtomicUsize::new(0));
    let gives_up = {
        let (keyspace, impatience) = (Arc::clone(&keyspace), Arc::clone(&impatience));
        thread::spawn(move || {
            let all = keyspace.gate.exclusive_unless(first, || impatience.load(Relaxed) > 0);
            all.map(|_all| keyspace.change()).is_some()
        })
    };
    let entered = keyspace.gate.enter(1);
    impatience.store(1, Relaxed);
    drop(entered);
    let behind = keyspace.gate.exclusive(second);
    let changes = keyspace.change();
    drop(behind);
    assert_eq!(changes, 1 + usize::from(gives_up.join().unwrap()));
}

/// A thread whose turn is not the present one gives it up.
pub fn a_later_turn_given_up_is_passed_over() {
    let keyspace = Keyspace::new(1);
    let turns = [keyspace.gate.take_turn(), keyspace.gate.take_turn(), keyspace.gate.take_turn()];
    let [first, given_up, last] = turns;
    let gives_up = {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(move || drop(keyspace.gate.exclusive_unless(given_up, || true)))
    };
    drop(keyspace.gate.exclusive(first));
    drop(keyspace.gate.exclusive(last));
    gives_up.join().unwrap();
}

/// A thread that has waited too long marks the turn of the one that has the whole keyspace, and no other turn.
pub fn a_mark_is_for_one_turn() {
    let keyspace = Keyspace::new(1);
    let (turn, next) = (keyspace.gate.take_turn(), keyspace.gate.take_turn());
    let entered = keyspace.gate.enter(0);
    let holder = {
        let keyspace = Arc::clone(&keyspace);
        thread::spawn(move || drop(keyspace.gate.exclusive(turn)))
    };
    let present = keyspace.gate.present_turn();
    assert!(!keyspace.gate.mark_overdue(present), "it has not the whole keyspace while a thread is in it");
    drop(entered);
    let _marked = keyspace.gate.mark_overdue(present);
    let _next = keyspace.gate.exclusive(next);
    assert!(!keyspace.gate.mark_overdue(present), "its turn is over");
    assert!(!keyspace.gate.is_overdue(), "nobody has marked this one");
    holder.join().unwrap();
}
