//! Clients beside a snapshot whose disk is slow, or takes nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::output::{NoResult, Output, Purpose};
use super::run::{At, begin, run};
use super::{STALL_TIME_MAX, Underway};
use crate::batch::runner::Runner;
use crate::clients::local::{LocalClient, State};
use crate::command::table::CommandTable;
use crate::commands::FAMILIES;
use crate::ctx::Engine;
use crate::shared::Parts;

/// More than may wait to be written, in values that writers encode.
const KEYS: usize = 500;
const VALUE_LEN: usize = 60_000;

/// A disk that takes nothing until it is told to.
struct Stuck {
    goes_on: Receiver<()>,
    written: Sender<usize>,
}

impl Output for Stuck {
    fn begin(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, items: &[u8]) -> io::Result<()> {
        // An error: it works from now on.
        let _ = self.goes_on.recv();
        let _ = self.written.send(items.len());
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<u64> {
        Ok(0)
    }

    fn abandon(self: Box<Self>, _: &NoResult) {}
}

struct Scene {
    engine: &'static Engine,
    runner: Runner,
    client: LocalClient,
    underway: Arc<Underway>,
    disk: Option<Sender<()>>,
    written: Receiver<usize>,
    snapshot: JoinHandle<Result<(), String>>,
}

impl Scene {
    /// A snapshot of many keys has begun, and the disk takes nothing.
    fn new() -> Self {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(&Parts::default(), CommandTable::new(FAMILIES))));
        // Compressed, all keys would fit into the first block.
        engine.settings.rdb_compression.store(false, Relaxed);
        let (mut runner, mut client) = (Runner::new(engine, 0), LocalClient::new(engine));
        (0..KEYS).for_each(|key| _ = client.run(&mut runner, set(key, 'a')));
        let ((disk, goes_on), (written_to, written)) = (channel(), channel());
        let alone = engine.gate.exclusive(engine.gate.take_turn());
        let output = Box::new(Stuck { goes_on, written: written_to });
        let underway = begin(engine, output, Purpose::File, false).expect("none is under way");
        drop(alone);
        let going = Arc::clone(&underway);
        let snapshot = std::thread::spawn(move || run(engine, &going, At::Gate(engine.snapshot_thread())));
        Self { engine, runner, client, underway, disk: Some(disk), written, snapshot }
    }

    /// Overwrites keys until a write is held back; returns how many were overwritten.
    fn write_until_held_back(&mut self) -> usize {
        for key in (0..KEYS).rev() {
            let mut state = self.client.send(&mut self.runner, set(key, 'b').as_bytes());
            while state == State::Runs {
                state = self.client.go_on(&mut self.runner);
            }
            if state == State::IsHeldBack {
                return KEYS - 1 - key;
            }
        }
        panic!("no write was held back");
    }

    fn reads(&mut self, key: usize) -> Vec<u8> {
        LocalClient::new(self.engine).run(&mut self.runner, format!("STRLEN k{key}\nPUBLISH c m\n"))
    }
}

fn set(key: usize, byte: char) -> String {
    let (key, value) = (format!("k{key}"), byte.to_string().repeat(VALUE_LEN));
    format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${VALUE_LEN}\r\n{value}\r\n", key.len())
}

#[test]
fn reads_go_on_and_writes_wait_while_the_disk_takes_nothing() {
    let mut scene = Scene::new();
    let overwritten = scene.write_until_held_back();
    assert!(overwritten > 100, "{overwritten}");
    assert_eq!(scene.reads(0), format!(":{VALUE_LEN}\r\n:0\r\n").as_bytes());
    // The scan holds neither the gate nor a shard while it waits for the disk.
    drop(scene.engine.gate.exclusive(scene.engine.gate.take_turn()));
    assert!(scene.underway.held_bytes_max() < 20 << 20);
    // The disk works again: the write that was held back goes on, and the snapshot is whole.
    drop(scene.disk.take());
    while scene.client.go_on(&mut scene.runner) != State::Idle {
        std::thread::yield_now();
    }
    assert_eq!(scene.snapshot.join().expect("no panic"), Ok(()));
    assert_eq!(scene.underway.saved(), KEYS as u64);
    assert!(scene.written.iter().sum::<usize>() > 0);
}

#[test]
fn a_snapshot_whose_disk_takes_nothing_is_given_up_and_writes_go_on() {
    let mut scene = Scene::new();
    let now = Instant::now();
    scene.write_until_held_back();
    let snapshots = &scene.engine.snapshots;
    snapshots.give_up_if_stalled(now);
    snapshots.give_up_if_stalled(now + STALL_TIME_MAX / 2);
    assert_eq!(scene.client.go_on(&mut scene.runner), State::IsHeldBack);
    snapshots.give_up_if_stalled(now + STALL_TIME_MAX);
    assert!(snapshots.facts().failure.is_some_and(|why| why.contains("10 seconds")));
    while scene.client.go_on(&mut scene.runner) == State::Runs {}
    for key in 0..KEYS {
        assert_eq!(scene.client.run(&mut scene.runner, set(key, 'c')).last(), Some(&b'\n'));
    }
    assert_eq!(scene.underway.saved(), KEYS as u64);
    // The write returns at last.
    drop(scene.disk.take());
    assert!(scene.snapshot.join().expect("no panic").is_err());
    assert!(snapshots.underway().is_none());
}

#[test]
fn a_disk_that_takes_a_little_is_waited_for() {
    let mut scene = Scene::new();
    scene.write_until_held_back();
    let now = Instant::now();
    for turn in 0..5 {
        scene.engine.snapshots.give_up_if_stalled(now + turn * STALL_TIME_MAX);
        scene.disk.as_ref().expect("there").send(()).expect("it waits");
        scene.written.recv().expect("a write");
        while scene.underway.backlog.writes() <= u64::from(turn) {
            std::thread::yield_now();
        }
    }
    assert_eq!(scene.engine.snapshots.facts().failure, None);
    drop(scene.disk.take());
    assert_eq!(scene.snapshot.join().expect("no panic"), Ok(()));
}
