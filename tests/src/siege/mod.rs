//! The siege: hostile and clumsy clients attack a server together, while polite ones work beside them with every reply
//! checked. In the end no data may be lost, and nothing may be left behind.
//!
//! The time is shared by the settings in [`options::SETTINGS`], each with a server of its own, in rounds of at most
//! half a minute. In a round, polite clients ([`polite`]) and foes ([`hostile`]) work for its time; the foes vanish;
//! the polite clients finish; every scenario checks the data; then comes FLUSHALL, and memory, descriptors and clients
//! must be what they were at the start ([`remains`]).
//!
//! What counts as lost: everything that was acknowledged to a polite client must be there, once. An element that a dead
//! client got may be lost only if it was pushed before the server knew of the death: before the reply to CLIENT KILL,
//! or, for a client that vanished, while CLIENT LIST still showed it.
//!
//! Random choices follow from the seed; the timing of threads and sockets does not.

pub mod hostile;
pub mod options;
pub mod polite;
pub mod remains;
pub mod report;
pub mod scene;
pub mod talk;
pub mod waits;

use std::time::{Duration, Instant};

use options::{Options, Setting};
use remains::Remains;
use report::{Checked, Fault, Report};
use scene::{Scenario, Scene};
use talk::Talk;

use crate::argv;
use crate::process;
use crate::rng::Rng;
use crate::server::{Launch, Server};

/// The name faults of the siege itself carry.
const NAME: &str = "siege";
const ROUND_MAX: Duration = Duration::from_secs(30);
/// Connections beside the crowd: polite ones, busy foes, room for the flood to fill.
const OTHERS_LEN: usize = 900;
/// How long polite clients go on when the foes have gone.
const PEACE: Duration = Duration::from_millis(300);

/// Besieges a server as told and reports. Panics when the server cannot be started at all.
pub fn run(options: &Options) -> Report {
    let report = Report::default();
    let files = raise_open_files();
    let settings = options.chosen_settings();
    let share = options.duration / settings.len().max(1) as u32;
    let rounds = share.as_nanos().div_ceil(ROUND_MAX.as_nanos()).max(1) as u32;
    for setting in settings {
        report.enter(setting.name);
        let mut server = Launch::binary(options.server_bin.clone()).args(setting.args).start();
        let outcome = besiege(&report, options, &mut server, setting, (rounds, share / rounds), files);
        report.conclude(outcome);
        if server.log().contains("panicked") {
            let got = server.log_tail();
            report.fail(Fault { scenario: NAME, expected: "no panic in the log".into(), got, trail: Vec::new() });
        }
    }
    report.hold_against(&options.bounds);
    report
}

fn besiege(
    report: &Report,
    options: &Options,
    server: &mut Server,
    setting: &'static Setting,
    (rounds, time): (u32, Duration),
    files: usize,
) -> Checked<()> {
    let fresh = Remains::of(&mut Talk::open(&Scene::new(server.port(), setting, report), NAME)?, server.pid())?;
    for round in 0..rounds {
        let mut scene = Scene::new(server.port(), setting, report);
        let mut options = options.clone();
        prepare(&mut scene, &mut options, files)?;
        let seed = options.seed ^ u64::from(round) << 32 ^ setting.name.len() as u64;
        let scenarios = play(&scene, &options, server, time, seed);
        if let Some(status) = server.exited() {
            let got = format!("{status}\n{}", server.log_tail());
            return Err(Fault { scenario: NAME, expected: "a server that lives".into(), got, trail: Vec::new() });
        }
        let mut control = Talk::open(&scene, NAME)?;
        report.conclude(remains::all_gone(&mut control));
        scenarios.iter().for_each(|scenario| scene.settle(&**scenario));
        control.linger(&argv!["FLUSHALL"])?;
        report.conclude(fresh.compare(&mut control, server.pid(), &options.bounds));
    }
    let scene = Scene::new(server.port(), setting, report);
    remains::shutdown(&scene, server, &options.bounds)
}

/// Checks which commands the server has, and makes the values that foes read.
fn prepare(scene: &mut Scene<'_>, options: &mut Options, files: usize) -> Checked<()> {
    let (clients_max, has_field_ttl);
    {
        let mut control = Talk::open(scene, NAME)?;
        let limit = control.call(&argv!["CONFIG", "GET", "maxclients"])?;
        clients_max = limit.items().and_then(|items| items.get(1)?.text().parse().ok()).unwrap_or(10_000);
        let reply = control.call(&argv!["HPEXPIRE", "none", "1", "FIELDS", "1", "f"])?;
        has_field_ttl = !reply.is_error();
        control.call(&argv!["SET", "hoard:small", "v"])?;
        control.call(&argv!["SET", "hoard:big", vec![b'v'; 100_000]])?;
    }
    (scene.clients_max, scene.has_field_ttl) = (clients_max, has_field_ttl);
    let room = clients_max.min(files.saturating_sub(2000));
    options.crowd_len = options.crowd_len.min(room.saturating_sub(OTHERS_LEN));
    Ok(())
}

/// Lets all clients work for `time`; returns the scenarios for the final checks.
fn play(scene: &Scene<'_>, options: &Options, server: &Server, time: Duration, seed: u64) -> Vec<Box<dyn Scenario>> {
    let scenarios = polite::all();
    let before = process::run_and_wait(server.pid());
    let cpu_before = [server.pid(), std::process::id()].map(process::cpu_time);
    let mut rng = Rng::new(seed);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for scenario in &scenarios {
            for part in 0..scenario.parts() {
                let mut rng = Rng::new(rng.next_u64());
                let play = move || scene.play(&**scenario, part, &mut rng);
                threads.push((scenario.name(), scope.spawn(play)));
            }
        }
        for thread in 0..hostile::THREADS {
            let mut rng = Rng::new(rng.next_u64());
            threads.push((NAME, scope.spawn(move || hostile::storm(scene, options, thread, &mut rng))));
        }
        threads.push((NAME, scope.spawn(|| report::metronome(scene.report, || scene.polite_stay()))));
        keep_watch(scene, options, server, time);
        scene.end_foes();
        std::thread::sleep(PEACE);
        scene.end_polite();
        for (name, thread) in threads {
            if thread.join().is_err() {
                scene.fail(name, "no panic of a client", "a panic, see above".into());
            }
        }
    });
    let cpu = [server.pid(), std::process::id()].map(process::cpu_time);
    let [of_server, of_siege] = [0, 1].map(|i| cpu[i].saturating_sub(cpu_before[i]));
    let now = process::run_and_wait(server.pid());
    let (ran, waited) = (now.0.saturating_sub(before.0).as_secs_f64(), now.1.saturating_sub(before.1).as_secs_f64());
    if ran > 0.0 {
        scene.report.slowdown((ran + waited) / ran);
    }
    let (name, time) = (scene.setting.name, scene.elapsed());
    scene.report.note(format!("{name}, {time:.1?}: {of_server:?} of CPU for the server, {of_siege:?} for its clients"));
    scenarios
}

/// Waits for the round to end, reads the server's memory, prints progress.
fn keep_watch(scene: &Scene<'_>, options: &Options, server: &Server, time: Duration) {
    let until = Instant::now() + time;
    let mut told = Instant::now();
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        let rss_kb = server.rss_kb();
        if rss_kb == 0 {
            return;
        }
        scene.report.rss(rss_kb << 10);
        if options.progress.is_some_and(|every| told.elapsed() > every) {
            told = Instant::now();
            let (at, name) = (scene.elapsed().as_secs(), scene.setting.name);
            println!("{name} {at:3} s: {} MB, {}", rss_kb >> 10, scene.report.progress());
        }
    }
}

/// Allows this process as many files as the system lets it; returns how many.
fn raise_open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.map_or(1 << 20, |files| files as usize)
}
