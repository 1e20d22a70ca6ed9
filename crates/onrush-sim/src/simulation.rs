//! One simulation: an engine, its threads and its clients, all drawn from a seed.
//!
//! It has rounds. In each round the clients send some hundred commands. When all is quiet, the simulation reads the
//! data, checks the history, and empties the databases for the next round. The engine stays.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use onrush_engine::batch::runner::Runner;
use onrush_engine::blocking;
use onrush_engine::clients::local::LocalClient;
use onrush_engine::commit::Commit;
use onrush_engine::long::worker::{LongTasks, LongWorker};
use onrush_engine::settings::Pause;
use onrush_engine::shared::Parts;
use onrush_engine::snapshot::output::Purpose;
use onrush_store::{Random, schedule};

use crate::check::{Verdict, check, first_refused};
use crate::client::Client;
use crate::command::{Command, DATABASES, key_name};
use crate::crash::Restarted;
use crate::history::{Call, Fate, History, Lsns};
use crate::replica::{REPLICAS, Replicas};
use crate::reply::Reply;
use crate::scheduler::{Scheduler, VirtualThread};
use crate::workload::{Mix, Workload};
use crate::world::{Outcome, World, new_engine};
use crate::{Failure, time};

/// Rounds of a simulation.
const ROUNDS: usize = 12;

/// Pipelines of all clients in a round.
const PIPELINES: usize = 34;

/// Milliseconds that pass in vain, while no thread can go on, before the simulation counts as stuck.
const VAIN_TICKS_MAX: usize = 200;

/// Names of the threads that there always are, before the workers.
const OTHERS: [&str; 3] = ["long", "maintenance", "snapshot"];

/// Names of workers.
const WORKERS: [&str; 3] = ["worker 0", "worker 1", "worker 2"];

/// Names of the threads of replicas, behind the workers.
const FOLLOWERS: [&str; REPLICAS + 1] = ["replica 0", "replica 1", "reader"];

/// Connections that are killed in a round, at most.
const KILLS_MAX: usize = 2;

/// Snapshots that are taken in a round, at most.
const SNAPSHOTS_MAX: usize = 3;

/// Crashes that are tried after a round.
const CRASHES: usize = 2;

/// Lines of a history that are shown.
const LINES_MAX: usize = 40;

/// How a simulation is made up.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    workers: usize,
    clients: usize,
    shards: usize,
    elements_max: usize,
    choice_every: usize,
    kills: bool,
    /// Whether there is a log, and snapshots are taken.
    crashes: bool,
    replicas: bool,
    mix: Mix,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut plan = Self {
            seed,
            workers: 2 + random.below(2),
            clients: 4 + random.below(3),
            shards: [1, 2, 4, 64][random.below(4)],
            elements_max: [1, 2, 4, 20_000][random.below(4)],
            choice_every: [1, 2, 3, 5, 8, 20][random.below(6)],
            kills: random.below(2) == 0,
            mix: Mix::draw(&mut random),
            crashes: random.below(2) == 0,
            replicas: random.below(3) == 0,
        };
        // The stream for replicas selects databases, too.
        plan.mix.selects = plan.replicas && plan.mix.whole_databases;
        plan
    }

    fn threads(&self) -> Vec<&'static str> {
        let followers = if self.replicas { &FOLLOWERS[..] } else { &[] };
        [&OTHERS, &WORKERS[..self.workers], followers].concat()
    }

    /// A seed for something that this simulation draws.
    fn seed_of(&self, what: usize, round: usize) -> u64 {
        Random::new(self.seed ^ (what as u64) << 32 ^ (round as u64) << 48).next()
    }
}

/// Runs the simulation of a seed.
///
/// # Errors
/// The engine shows a fault. Its threads remain, asleep.
pub fn run(seed: u64) -> Result<Outcome, Box<Failure>> {
    let plan = Arc::new(Plan::draw(seed));
    let time = time::new();
    time::set(Some(Arc::clone(&time)));
    let parts =
        Parts { shards: plan.shards, elements_max: plan.elements_max, workers: plan.workers, ..Parts::default() };
    let engine = new_engine(seed, parts);
    let replicas = if plan.replicas { Replicas::new(plan.seed_of(6, 0), plan.mix.keys) } else { Replicas::default() };
    time::set(None);
    let (results, result) = channel();
    let scheduler = Scheduler::new(seed, &plan.threads(), results);
    let world = World::new(engine, Arc::clone(&scheduler), time, (plan.clients, replicas));
    if plan.crashes {
        world.disk.follow(&engine.log);
    }
    let followers = OTHERS.len() + plan.workers;
    let threads: Vec<_> = (0..plan.threads().len())
        .map(|index| {
            let (world, plan) = (Arc::clone(&world), Arc::clone(&plan));
            scheduler.spawn(index, move |thread| {
                time::set(Some(world.time()));
                match index {
                    0 => execute_long(&world, thread),
                    1 => maintain(&world, &plan, thread),
                    2 => save(&world, &plan),
                    _ if index < followers => work(&world, &plan, thread, index - OTHERS.len()),
                    _ if index < followers + REPLICAS => follow(&world, &plan, index - followers),
                    _ => read(&world, &plan),
                }
            })
        })
        .collect();
    scheduler.start(&threads);
    match result.recv() {
        Ok(Ok(())) => {
            // No thread has panicked: a panic would be the result.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            let outcome = world.outcome.lock().clone();
            Ok(outcome)
        }
        failed => {
            let what = failed.ok().and_then(Result::err).unwrap_or_default();
            let history = world.history.lock().lines(|_| true);
            Err(Box::new(Failure { seed, what: format!("{what}\n{plan:?}"), history }))
        }
    }
}

/// The thread for long commands.
fn execute_long(world: &World, thread: &VirtualThread) {
    // It is the first thread that has the turn.
    thread.set_alone(true);
    world.replicas.begin(world);
    thread.set_alone(false);
    let Some(tasks) = LongTasks::open(world.engine) else { world.fail("There is a thread for long commands already") };
    let mut long = LongWorker::new(tasks);
    for round in 0..ROUNDS {
        while !world.is_round_over() {
            if !long.step() {
                schedule::blocked("a long command");
            }
        }
        meet(world, round);
    }
}

/// The thread for snapshots.
fn save(world: &World, plan: &Plan) {
    let mut random = Random::new(plan.seed_of(3, 0));
    for round in 0..ROUNDS {
        let mut snapshots = 0;
        act_until_over(world, "a moment for a snapshot", || {
            if plan.crashes && snapshots < SNAPSHOTS_MAX && random.below(8) == 0 {
                snapshots += 1;
                let purpose = if random.below(2) == 0 { Purpose::File } else { Purpose::LogBase };
                world.disk.save(world.engine, purpose);
                return true;
            }
            world.replicas.service.serve(world.engine)
        });
        meet(world, round);
    }
}

/// The thread of a replica.
fn follow(world: &World, plan: &Plan, nth: usize) {
    // Its clock stands still.
    time::set(None);
    let mut random = Random::new(plan.seed_of(30 + nth, 0));
    for round in 0..ROUNDS {
        act_until_over(world, "the stream", || world.replicas.turn(world, nth, &mut random));
        meet(world, round);
    }
}

/// The thread that reads replicas.
fn read(world: &World, plan: &Plan) {
    time::set(None);
    let mut random = Random::new(plan.seed_of(40, 0));
    for round in 0..ROUNDS {
        let mut reads = 0;
        act_until_over(world, "something to read", || world.replicas.read(world, &mut reads, &mut random));
        meet(world, round);
    }
}

/// Acts until the round is over, and rests whenever there is nothing to do.
fn act_until_over(world: &World, rest: &'static str, mut act: impl FnMut() -> bool) {
    while !world.is_round_over() {
        if act() {
            schedule::point();
        } else {
            schedule::blocked(rest);
        }
    }
}

/// Waits for the next round.
fn meet(world: &World, round: usize) {
    world.arrived.fetch_add(1, Relaxed);
    schedule::point();
    while world.round() == round {
        schedule::blocked("the next round");
    }
}

/// The maintenance thread: lets time pass, expires keys, kills clients, and notices the end of a round.
fn maintain(world: &World, plan: &Plan, thread: &VirtualThread) {
    let mut random = Random::new(plan.seed_of(1, 0));
    let mut commit = Commit::new(world.engine, world.engine.maintenance_thread());
    thread.set_choice_every(plan.choice_every);
    for round in 0..ROUNDS {
        let (mut kills, mut in_vain, mut seen) = (0, 0, 0);
        loop {
            let is_forced = thread.sleep();
            if is_forced && world.is_quiet() {
                break;
            }
            let now = world.history.lock().now;
            in_vain = if is_forced && now == seen { in_vain + 1 } else { 0 };
            seen = now;
            if in_vain > VAIN_TICKS_MAX {
                thread.fail_as_stuck("A client waits in vain");
            }
            world.time.fetch_add(i64::from(is_forced) + random.below(4) as i64, Relaxed);
            if plan.kills && kills < KILLS_MAX && random.below(12) == 0 {
                kills += 1;
                kill(world, random.below(plan.clients));
            }
            expire(world, &mut commit);
            schedule::point();
        }
        world.is_round_over.store(true, Relaxed);
        schedule::point();
        meet(world, round);
    }
}

fn kill(world: &World, client: usize) {
    let Some(connection) = world.connection(client) else { return };
    if world.was_killed(connection.lane) {
        return;
    }
    world.note_kill(connection.lane);
    let waits = connection.handle.waits();
    blocking::kill(world.engine, &connection.handle);
    if waits {
        world.note_end_of_lane(connection.lane);
    }
}

fn expire(world: &World, commit: &mut Commit) {
    let now_ms = world.now_ms();
    if world.engine.pause(now_ms) != Pause::None {
        return;
    }
    commit.enter();
    commit.begin_chunk(now_ms);
    for db in 0..DATABASES as u32 {
        for (_, shard) in commit.database(db).shards() {
            if shard.next_expire_ms() <= now_ms {
                commit.expire_shard(db, shard, now_ms, 1);
            }
        }
    }
    commit.leave();
}

/// A worker: gives its clients turns. The first worker also ends the rounds.
fn work(world: &Arc<World>, plan: &Plan, thread: &VirtualThread, index: usize) {
    let mut runner = Runner::new(world.engine, index);
    let mut random = Random::new(plan.seed_of(4 + index, 0));
    let mut restarted = (index == 0 && plan.crashes).then(|| Restarted::new(plan.seed_of(9, 0)));
    for round in 0..ROUNDS {
        let connect = |number| {
            let workload = Workload::new(plan.seed_of(10 + number, round), &plan.mix, number);
            Client::new(world, number, workload, PIPELINES / plan.clients)
        };
        let mut clients: Vec<Client> = (index..plan.clients).step_by(plan.workers).map(connect).collect();
        act_until_over(world, "something to do", || {
            let first = random.below(clients.len());
            clients.rotate_left(first);
            clients.iter_mut().any(|client| client.turn(&mut runner))
        });
        clients.into_iter().for_each(|client| client.finish(&mut runner));
        if index == 0 {
            while world.arrived.load(Relaxed) + 1 < plan.threads().len() {
                schedule::blocked("the others");
            }
            thread.set_alone(true);
            end_round(world, plan, (&mut runner, restarted.as_mut()), thread);
            thread.set_alone(false);
            if round + 1 == ROUNDS {
                world.scheduler.report(Ok(()));
            }
            schedule::point();
        } else {
            meet(world, round);
        }
    }
}

/// Reads all data, checks the history, simulates power failures, and empties the databases.
fn end_round(
    world: &World,
    plan: &Plan,
    (runner, restarted): (&mut Runner, Option<&mut Restarted>),
    thread: &VirtualThread,
) {
    let mut history = world.history.lock().clone();
    let commands = history.len() as u64;
    let before = history.clone();
    let mut client = LocalClient::new(world.engine);
    client.run(runner, "CLIENT UNPAUSE\n");
    read_all(world, plan, (&mut client, runner), &mut history);
    let verdict = check(&history);
    if verdict == Verdict::Refused {
        world.fail(&explain(&history));
    }
    world.history.lock().clone_from(&history);
    let mut undecided = u64::from(verdict == Verdict::Undecided);
    if let Some(restarted) = restarted {
        undecided += try_crashes(world, plan, restarted, &before);
    }
    if plan.replicas {
        undecided += try_replicas(world, plan, &before);
    }
    client.run(runner, "FLUSHALL\n");
    world.replicas.begin_round(world);
    let mut outcome = world.outcome.lock();
    outcome.commands += commands;
    outcome.undecided += undecided;
    outcome.syncs = world.replicas.syncs();
    outcome.steps = thread.steps();
    outcome.longest_wait = thread.longest_wait();
    drop(outcome);
    world.disk.forget(&world.engine.log);
    world.begin_round();
}

/// Simulates power failures at records of the round and reads what another engine loads afterwards. Returns how many
/// histories the checker gave up on.
fn try_crashes(world: &World, plan: &Plan, restarted: &mut Restarted, history: &History) -> u64 {
    let mut random = Random::new(plan.seed_of(8, world.round()));
    let mut undecided = 0;
    for _ in 0..CRASHES {
        let left = world.disk.left(&world.engine.log, &mut random);
        if let Err(error) = restarted.load(&left) {
            world.fail(&format!("What is left after record {} cannot be loaded: {error}", left.lsn));
        }
        let mut known = history.left_by_crash(left.lsn);
        read_all(world, plan, (&mut restarted.client, &mut restarted.runner), &mut known);
        match check(&known) {
            Verdict::Refused => {
                let told = explain(&known);
                world.fail(&format!(
                    "After a crash that left the records up to {} ({}):\n{told}",
                    left.lsn,
                    left.base()
                ));
            }
            Verdict::Undecided => undecided += 1,
            Verdict::Explained => {}
        }
    }
    undecided
}

/// Reads what replicas have, which is what the primary had at a time: with every write that they had acknowledged. Then the one
/// that has most takes over, or all follow the primary. Returns how many histories the checker gave up on.
fn try_replicas(world: &World, plan: &Plan, history: &History) -> u64 {
    let mut random = Random::new(plan.seed_of(7, world.round()));
    world.engine.log.flush();
    let mut undecided = 0;
    let known = world.replicas.known(world);
    let promoted = known.last().filter(|_| random.below(2) == 0).map(|(nth, _)| *nth);
    for (nth, lsns) in known.into_iter().filter_map(|(nth, lsns)| Some((nth, lsns?))) {
        let engine = world.replicas.all[nth].lock().engine;
        let (mut client, mut runner) = (LocalClient::new(engine), Runner::new(engine, 0));
        let (mut refused, mut is_undecided) = (None, false);
        for lsn in lsns.clone() {
            let mut known = history.left_by_crash(lsn);
            read_all(world, plan, (&mut client, &mut runner), &mut known);
            match check(&known) {
                Verdict::Explained => {
                    (refused, is_undecided) = (None, false);
                    break;
                }
                Verdict::Undecided => is_undecided = true,
                Verdict::Refused => refused = refused.or(Some(known)),
            }
        }
        undecided += u64::from(is_undecided);
        if let Some(known) = refused.filter(|_| !is_undecided) {
            let told = explain(&known);
            world.fail(&format!("Replica {nth} has the records up to one of {lsns:?}:\n{told}"));
        }
    }
    time::set(None);
    world.replicas.settle(world, promoted);
    world.replicas.judge(world);
    time::set(Some(world.time()));
    world.outcome.lock().promotions += u64::from(promoted.is_some());
    undecided
}

/// Reads every key in every way, as one more client.
fn read_all(world: &World, plan: &Plan, (client, runner): (&mut LocalClient, &mut Runner), history: &mut History) {
    let mut calls = Vec::new();
    for db in 0..DATABASES {
        client.run(runner, format!("SELECT {db}\n"));
        for key in 0..plan.mix.keys {
            for command in [Command::ExpireTime(key), Command::Get(key), Command::Range(key), Command::Members(key)] {
                let (sent_ms, sent) = (world.now_ms(), history.tick());
                let bytes = client.run(runner, command.encode());
                let Some(reply) = Reply::take(&mut &bytes[..]) else { world.fail("A reply is missing") };
                let (ended, fate, lsns) = (history.tick(), Fate::Replied(reply), Lsns::default());
                calls.push(Call { command, db, sent, ended, sent_ms, ended_ms: sent_ms, fate, lsns });
            }
        }
    }
    history.lanes.push(calls);
}

/// What is wrong with a history, and the calls before it that have to do with it.
fn explain(history: &History) -> String {
    let at = first_refused(history);
    let refused = history.lanes.iter().flatten().find(|call| call.ended == at && call.reply().is_some());
    let (known, what) = match refused {
        Some(call) => {
            (history.until(at), format!("No order of the commands explains the reply {at} of {}", call.command))
        }
        None => (history.clone(), "A client waits for a key that is there".to_owned()),
    };
    let waits = history.lanes.iter().flatten().filter(|call| call.fate == Fate::Waits);
    let keys: Vec<usize> = refused
        .into_iter()
        .chain(waits.filter(|_| refused.is_none()))
        .flat_map(|call| call.command.keys(call.db))
        .map(|(_, key)| key)
        .collect();
    let concerns = |call: &Call| match &call.command {
        Command::Select(_) => false,
        Command::Flush | Command::SwapDatabases | Command::Pause { .. } | Command::Unpause => true,
        command => command.keys(0).iter().any(|(_, key)| keys.contains(key)),
    };
    let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
    let lines = known.lines(concerns);
    let shown: Vec<&str> = lines.lines().rev().take(LINES_MAX).collect();
    let shown: Vec<&str> = shown.into_iter().rev().collect();
    format!("{what}\nThe calls until then that have to do with {}:\n{}", names.join(", "), shown.join("\n"))
}
