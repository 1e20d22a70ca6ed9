//! A planned fail-over: a replica takes over, and nothing is lost (FAILOVER).
//!
//! Writes are held back until a replica has all. Then this server becomes its replica, and asks it with the same request
//! to be a primary (`PSYNC id offset FAILOVER`). The thread that serves replicas looks which one has all; the thread that
//! follows a primary changes the role, and makes sure of it once more.

use std::time::Instant;

use parking_lot::Mutex;

use super::role::Primary;

/// What FAILOVER asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The replica that is to take over; `None`: the first one that has all.
    pub target: Option<Primary>,
    /// How long to wait for it; `None`: until FAILOVER ABORT.
    pub until: Option<Instant>,
    /// Whether it takes over then, though it may lack something.
    pub is_forced: bool,
}

/// How far a fail-over is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// A replica is to have all.
    Waits,
    /// This one takes over.
    UnderWay { target: Primary, lacks_some: bool, since: Instant, asked: u32 },
}

/// The fail-over that goes on, if one does.
#[derive(Debug, Default)]
pub struct Failover(Mutex<Option<(Plan, Stage)>>);

impl Failover {
    /// Begins, and has writes held back from here on; returns `false` if one goes on already.
    pub(crate) fn begin(&self, plan: Plan, hold: impl FnOnce()) -> bool {
        let mut now = self.0.lock();
        if now.is_some() {
            return false;
        }
        hold();
        *now = Some((plan, Stage::Waits));
        true
    }

    /// Ends it, and has writes go on; returns whether one went on.
    pub(crate) fn end(&self, release: impl FnOnce()) -> bool {
        let mut now = self.0.lock();
        let was_on = now.take().is_some();
        if was_on {
            release();
        }
        was_on
    }

    /// As INFO tells it.
    pub fn name(&self) -> &'static str {
        match &*self.0.lock() {
            None => "no-failover",
            Some((_, Stage::Waits)) => "waiting-for-sync",
            Some((_, Stage::UnderWay { .. })) => "failover-in-progress",
        }
    }

    /// Whether one goes on.
    pub fn is_on(&self) -> bool {
        self.0.lock().is_some()
    }

    /// What is asked for, if a replica is still to have all.
    pub fn waits(&self) -> Option<Plan> {
        self.0.lock().as_ref().filter(|(_, stage)| *stage == Stage::Waits).map(|(plan, _)| plan.clone())
    }

    /// This replica takes over; returns `false` if nothing waits for one.
    pub fn choose(&self, target: Primary, lacks_some: bool) -> bool {
        let mut now = self.0.lock();
        let Some((_, stage)) = now.as_mut().filter(|(_, stage)| *stage == Stage::Waits) else { return false };
        *stage = Stage::UnderWay { target, lacks_some, since: Instant::now(), asked: 0 };
        true
    }

    /// It turns out to lack something: a replica is to have all again.
    pub fn wait_again(&self) {
        if let Some((_, stage)) = &mut *self.0.lock() {
            *stage = Stage::Waits;
        }
    }

    /// The replica that takes over, and whether it may lack something.
    pub fn target(&self) -> Option<(Primary, bool)> {
        match &*self.0.lock() {
            Some((_, Stage::UnderWay { target, lacks_some, .. })) => Some((target.clone(), *lacks_some)),
            _ => None,
        }
    }

    /// The replica is about to be asked to be a primary; returns whether it was asked before.
    pub fn note_asked(&self) -> bool {
        match &mut *self.0.lock() {
            Some((_, Stage::UnderWay { asked, .. })) => {
                *asked += 1;
                *asked > 1
            }
            _ => false,
        }
    }

    /// Since when a replica is to take over that was never asked: it cannot be reached, and is no primary.
    pub fn unasked_since(&self) -> Option<Instant> {
        match &*self.0.lock() {
            Some((_, Stage::UnderWay { since, asked: 0, .. })) => Some(*since),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table::CommandTable;
    use crate::ctx::Engine;
    use crate::settings::Pause;
    use crate::shared::Parts;

    #[test]
    fn writes_are_held_from_the_beginning_to_the_end() {
        let engine = Engine::new(&Parts::default(), CommandTable::new(&[]));
        let failover = &engine.replication.failover;
        let plan = Plan { target: None, until: None, is_forced: false };
        let target = Primary { host: "h".to_owned(), port: 1 };
        let pause = || engine.pause(engine.clock.unix_ms());
        assert!(!failover.choose(target.clone(), false) && !engine.end_failover());
        assert!(engine.begin_failover(plan.clone()) && !engine.begin_failover(plan.clone()));
        assert_eq!((failover.name(), failover.waits(), pause()), ("waiting-for-sync", Some(plan), Pause::Writes));
        assert!(failover.choose(target.clone(), false) && !failover.choose(target.clone(), true));
        assert_eq!((failover.name(), failover.waits()), ("failover-in-progress", None));
        assert!(failover.unasked_since().is_some());
        assert_eq!([failover.note_asked(), failover.note_asked()], [false, true]);
        assert_eq!((failover.unasked_since(), failover.target()), (None, Some((target, false))));
        failover.wait_again();
        assert_eq!((failover.name(), failover.target(), pause()), ("waiting-for-sync", None, Pause::Writes));
        assert!(engine.end_failover());
        assert_eq!((failover.name(), failover.is_on(), pause()), ("no-failover", false, Pause::None));
    }
}
