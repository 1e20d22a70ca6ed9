//! Every fault at every operation of a scripted life: afterwards everything reported as durable is there, and the files
//! hold the beginning of what was written, in whole records.

use super::*;
use crate::storage::faulty::{Fault, FaultKind};

/// The result of a life.
struct Life {
    /// The last LSN reported as durable.
    told: u64,
    /// The last record given to the log.
    handed: u64,
}

struct Script<'a> {
    system: &'a Faulty,
    aof: Arc<Aof>,
    handed: u64,
}

impl Script<'_> {
    fn record(&mut self, count: u64) {
        for _ in 0..count {
            self.handed += 1;
            hand_over(&self.aof, self.handed);
        }
    }

    fn settled(&mut self, count: u64) {
        self.record(count);
        self.aof.work();
    }

    fn rewrite(&mut self) {
        if self.aof.prepare_rewrite().is_err() {
            return;
        }
        self.record(1);
        self.aof.switch(self.handed).unwrap();
        let at_lsn = self.handed;
        self.settled(2);
        let done = save_base(self.system, at_lsn).is_ok_and(|base| {
            self.settled(3);
            self.aof.finish_rewrite(&base, false).is_ok()
        });
        if done {
            assert!(self.aof.durable_lsn() >= at_lsn);
        } else {
            self.aof.abort_rewrite();
        }
        self.settled(1);
    }
}

fn live(system: &Faulty, policy: FsyncPolicy) -> Life {
    let (options, told) = options(policy);
    let create = || {
        let base = save_base(system, 0)?;
        Aof::create(Arc::new(system.clone()), options, &base, false, 0).map_err(std::io::Error::from)
    };
    let Ok(aof) = create() else { return Life { told: 0, handed: 0 } };
    let mut script = Script { system, aof, handed: 0 };
    for round in 0..7 {
        script.settled(2);
        script.record(1);
        script.settled(2);
        match round {
            1 | 5 => script.rewrite(),
            2 if script.aof.prepare_rewrite().is_ok() => {
                script.settled(1);
                script.aof.abort_rewrite();
            }
            3 if script.aof.prepare_rewrite().is_ok() => {
                script.aof.switch(script.handed).unwrap();
                script.settled(2);
                script.aof.abort_rewrite();
            }
            4 => {
                script.aof.want_durable(script.handed);
                script.aof.work();
            }
            _ if script.aof.needs_rewrite() => script.rewrite(),
            _ => {}
        }
    }
    let stopped = script.aof.stop();
    let told = told.load(Ordering::Relaxed);
    assert_eq!(script.aof.durable_lsn(), told);
    assert_eq!(stopped.is_ok(), told == script.handed, "{stopped:?}");
    Life { told, handed: script.handed }
}

/// Checks that the files of a life are right and that another life can continue them.
fn check(system: &Faulty, Life { told, handed }: Life) {
    let found = recover(system).unwrap();
    let count = records(&found, handed);
    // Records without commands at the end leave nothing.
    let silent = (count + 1..=told).all(|lsn| commands(lsn).is_empty());
    assert!(silent, "{count} of {told} that were told durable");
    let Some(manifest) = Manifest::load(system, Path::new(DIR), NAME).unwrap() else { return };
    let (options, _) = options(FsyncPolicy::Always);
    let aof = Aof::open(Arc::new(system.clone()), options, manifest, count).unwrap();
    let mut script = Script { system, aof, handed: count };
    script.settled(3);
    script.rewrite();
    script.settled(2);
    script.aof.stop().unwrap();
    system.crash(FaultKind::Crash);
    let found = recover(&system.restart()).unwrap();
    assert!(found == expected(script.handed));
}

fn matrix(policy: FsyncPolicy) {
    let system = Faulty::new();
    let life = live(&system, policy);
    assert_eq!(life.told, life.handed);
    let operations = system.operations();
    assert!(operations > 80, "{operations}");
    let crashes = [FaultKind::Crash].into_iter().chain((0..4).map(FaultKind::CrashPartly));
    let crashes: Vec<FaultKind> = crashes.collect();
    let failures = [FaultKind::ShortWrite, FaultKind::NoSpace, FaultKind::Io];
    for at in 0..operations {
        let lived = |kind, times| {
            let system = Faulty::new();
            system.set_fault(Some(Fault { at, times, kind }));
            let life = live(&system, policy);
            (system, life)
        };
        for kind in &crashes {
            let (system, life) = lived(*kind, 1);
            // Without a crash under a policy of threads, the life may have taken fewer operations.
            system.crash(*kind);
            check(&system.restart(), life);
        }
        for kind in failures {
            for times in [1, 4] {
                for end in [None, Some(FaultKind::Crash), Some(FaultKind::CrashPartly(at))] {
                    let (system, life) = lived(kind, times);
                    if let Some(end) = end {
                        system.crash(end);
                    }
                    check(&system.restart(), life);
                }
            }
        }
    }
}

#[test]
fn with_a_sync_after_each_settle() {
    matrix(FsyncPolicy::Always);
}

#[test]
fn with_syncs_only_when_asked_for() {
    matrix(FsyncPolicy::No);
}
