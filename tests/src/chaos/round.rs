//! A round: a server, its clients and its judge, and the one who makes faults.

use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::clients::Kept;
use super::clients::{self, Accounts, Model};
use super::disk::Library;
use super::host::{Host, threads};
use super::options::{Options, Plant};
use super::report::Report;
use super::scene::{Scene, ask, ask_until};
use super::settings::Settings;
use super::{acts, ends, judge};
use crate::argv;
use crate::argv::Argv;
use crate::process;
use crate::resp::Value;
use crate::rng::Rng;

/// How long replies to the one who makes faults may take. The judge says what is late.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// The lives of a server in a round.
const LIVES: usize = 2;

/// How long a round may take, on a machine that does much else.
const ROUND_MAX: Duration = Duration::from_secs(480);

/// Ends a round for its clients when the one who makes faults has ended, by a panic, too: they would work for ever.
struct Over<'a>(&'a Scene<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
    }
}

/// Ends the server of a round that takes too long, which is a finding; and this process, if nothing comes of that.
fn watch(scene: &Scene<'_>) {
    let waits = |time: Duration| {
        let until = Instant::now() + time;
        while !scene.over.load(SeqCst) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        !scene.over.load(SeqCst)
    };
    if !waits(ROUND_MAX) {
        return;
    }
    let pid = scene.pid.load(SeqCst);
    let got = format!("{}\n{}", threads(pid), threads(std::process::id()));
    // Past the capture of a test's output, which nobody sees if it does not end.
    let _ = writeln!(
        std::io::stderr(),
        "seed {}, {}: a round takes longer than {ROUND_MAX:?}\n{got}",
        scene.seed,
        scene.act()
    );
    scene.lose("a round ends", got);
    if process::is_alive(pid) {
        process::signal(pid, "KILL");
    }
    if waits(ROUND_MAX / 4) {
        let _ = writeln!(std::io::stderr(), "it takes longer still: {}", threads(std::process::id()));
        std::process::abort();
    }
}

/// What the one who makes faults works with.
pub struct Round<'a> {
    /// What all threads share.
    pub scene: &'a Scene<'a>,
    /// The process.
    pub host: &'a mut Host,
    /// What the clients know.
    pub model: &'a Model,
    /// What was told.
    pub options: &'a Options,
    /// Random choices.
    pub rng: Rng,
    /// Whether the data was removed, since no server started from it.
    wiped: bool,
    /// Connections of an act that go on by themselves.
    pub helpers: Vec<JoinHandle<()>>,
}

impl Round<'_> {
    /// Plays the round of a seed.
    pub fn play(options: &Options, library: &Library, report: &Report, seed: u64) {
        let mut rng = Rng::new(seed);
        let settings = Settings::draw(&mut rng, options);
        let mut host = Host::new(options.server_bin.clone(), library).expect("a folder for temporary files");
        let scene = Scene::new(host.port(), settings, options.bounds, report, seed);
        if options.progress {
            println!("round of seed {seed}: {}", scene.settings.line());
        }
        scene.plant(options.plant);
        let model = Model::new();
        let (scene, model) = (&scene, &model);
        std::thread::scope(|scope| {
            let _over = Over(scene);
            for step in model.clients(scene, options, &mut rng) {
                scope.spawn(move || clients::work(scene, step));
            }
            scope.spawn(|| judge::judge(scene));
            scope.spawn(|| watch(scene));
            scope.spawn(|| scene.pace());
            let mut round = Round { scene, host: &mut host, model, options, rng, wiped: false, helpers: Vec::new() };
            round.lives();
        });
    }

    fn lives(&mut self) {
        self.scene.enter("the first start");
        if !self.start(Kept::Nothing, None) {
            return;
        }
        for _ in 0..LIVES {
            for _ in 0..self.options.acts {
                if !acts::play(self) {
                    break;
                }
            }
            self.told("the end of a life");
            if !ends::play(self) {
                break;
            }
        }
        if self.scene.lost.load(SeqCst) {
            self.start_after_loss();
        }
        self.scene.up.store(false, SeqCst);
        self.host.kill();
    }

    /// What a server leaves that froze or died is loaded all the same.
    fn start_after_loss(&mut self) {
        let act = format!("the start after: {}", self.scene.act());
        self.leave();
        self.host.kill();
        self.scene.enter(&act);
        let kept = match self.scene.settings.log {
            Some(super::settings::Fsync::Always) => Kept::All,
            _ => Kept::Nothing,
        };
        self.start(kept, None);
    }

    /// Starts the server on what is there, checks the data and lets the clients in. Returns whether it runs.
    pub fn start(&mut self, kept: Kept, digest: Option<String>) -> bool {
        self.host.disk.heal();
        let mut kept = kept;
        if let Err(reason) = self.host.start(&self.scene.settings) {
            self.scene.fail("a server starts from what it has written", reason);
            self.host.kill();
            self.host.wipe();
            self.wiped = true;
            kept = Kept::Nothing;
            if let Err(reason) = self.host.start(&self.scene.settings) {
                self.scene.fail("a server starts in an empty folder", reason);
                return false;
            }
        }
        self.scene.pid.store(self.host.pid(), SeqCst);
        if !clients::left(self.scene) {
            self.scene.lose("clients of an earlier life end", "they do not");
            return false;
        }
        if let Err(reason) = self.check_data(kept, digest) {
            self.scene.fail("a server that has just started answers", reason);
            return false;
        }
        self.wiped = false;
        self.scene.report.count("starts", 1);
        self.scene.lost.store(false, SeqCst);
        self.scene.life.fetch_add(1, SeqCst);
        self.scene.pause.store(false, SeqCst);
        self.scene.up.store(true, SeqCst);
        true
    }

    fn check_data(&mut self, kept: Kept, digest: Option<String>) -> Result<(), String> {
        if let Some(before) = digest {
            let after = self.ask(&argv!["DEBUG", "DIGEST"])?.text();
            if before != after {
                self.scene.fail("the data is the same after a start", format!("DEBUG DIGEST {before}, then {after}"));
            }
            self.scene.report.count("digests compared", 1);
        }
        let mut counters = argv!["MGET"];
        counters.0.extend((0..clients::COUNTERS).map(|index| format!("counter:{index}").into_bytes()));
        let found = self.ask(&counters)?;
        let kept = if self.scene.settings.evicts_all { Kept::Nothing } else { kept };
        self.model.counters.settle(self.scene, found.items().unwrap_or_default(), kept);
        self.check_accounts()?;
        self.ask(&argv!["SET", "probe", "there"])?;
        Ok(())
    }

    fn check_accounts(&mut self) -> Result<(), String> {
        if self.scene.settings.evicts_all {
            return Ok(());
        }
        let reply = self.ask(&Accounts::reading())?;
        let is_first = self.wiped || self.scene.life.load(SeqCst) == 0;
        match Accounts::sum(&reply) {
            // Where nothing is logged the last snapshot is from any time.
            Ok(None) if is_first || !self.scene.settings.logs() => {}
            _ => {
                Accounts::check(self.scene, &reply);
                return Ok(());
            }
        }
        self.ask(&Accounts::opening())?;
        if self.scene.settings.logs() {
            self.ask(&argv!["WAITAOF", "1", "0", "5000"])?;
        }
        self.model.accounts.set_ready(true);
        Ok(())
    }

    /// Says that no server is there any more.
    pub fn leave(&self) {
        self.scene.up.store(false, SeqCst);
    }

    /// Says what goes on, and prints it.
    pub fn told(&self, act: &str) {
        self.scene.enter(act);
        if self.options.progress {
            println!("  {act}");
        }
    }

    /// The reply to a command on a fresh connection that does not wait for the disk.
    ///
    /// # Errors
    /// There is none.
    pub fn ask(&self, command: &Argv) -> Result<Value, String> {
        if self.options.plant == Some(Plant::FalseOk) && command.upper(0) == "CONFIG" && command.upper(1) == "SET" {
            return Ok(Value::Status(b"OK".to_vec()));
        }
        let replies = self.ask_all(&[argv!["CLIENT", "DURABILITY", "no"], command.clone()]);
        replies.map(|mut replies| replies.remove(1)).map_err(|reason| format!("{command}: {reason}"))
    }

    /// The replies to commands on a fresh connection. They are sent again if a script of some client takes too long, which
    /// each may on a machine that does much else; with BUSY when that lasts.
    ///
    /// # Errors
    /// A reply does not come.
    pub fn ask_all(&self, commands: &[Argv]) -> Result<Vec<Value>, String> {
        let (began, load) = (Instant::now(), self.scene.load());
        let is_late = || began.elapsed() > self.scene.stretched(PATIENCE, load);
        loop {
            let replies = ask_until(self.scene.port, commands, is_late)?;
            let is_busy = replies.iter().any(|reply| reply.is_error() && reply.text().starts_with("BUSY "));
            if !is_busy || is_late() {
                return Ok(replies);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Lets some time pass; returns whether the server is there afterwards.
    pub fn pass(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            if !self.lives_on() {
                return false;
            }
            if Instant::now() >= until {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the connections of an act have ended; returns whether the server is there.
    pub fn join_helpers(&mut self) -> bool {
        self.helpers.drain(..).for_each(|helper| helper.join().expect("it does not panic"));
        self.lives_on()
    }

    /// Whether the process runs and nobody has found it frozen.
    pub fn lives_on(&mut self) -> bool {
        if let Some(status) = self.host.exited() {
            self.leave();
            self.scene.lose("the server lives", format!("{status}\n{}", self.host.log_tail()));
        }
        let rss = process::rss_kb(self.host.pid()) << 10;
        if rss > self.scene.bounds.rss_bytes_max {
            self.scene.lose("memory is bounded", format!("{} MB resident", rss >> 20));
        }
        !self.scene.lost.load(SeqCst)
    }

    /// Waits until a write is done after a fault; it is one if that takes too long.
    pub fn recover(&mut self) -> bool {
        let (began, load) = (Instant::now(), self.scene.load());
        let mut last;
        while self.lives_on() {
            match ask(self.scene.port, &argv!["SET", "probe", "again"], PATIENCE) {
                Ok(reply) if reply.text() == "OK" => return true,
                Ok(reply) => {
                    // A failed snapshot stops writes until one succeeds.
                    if reply.text().contains("RDB snapshots") {
                        let _ = self.ask(&argv!["BGSAVE"]);
                    }
                    last = reply.text();
                }
                Err(reason) => last = reason,
            }
            if began.elapsed() > self.scene.stretched(self.scene.bounds.recovery_max, load) {
                let got = format!("{last}\n{}", self.host.log_tail());
                self.scene.lose("writes are done again when the fault is over", got);
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// One of some names that take part; `None` if none does.
    pub fn draw(
        &mut self,
        names: &[&'static str],
        takes_part: impl Fn(&Options, &str) -> bool,
    ) -> Option<&'static str> {
        let names: Vec<&'static str> = names.iter().copied().filter(|name| takes_part(self.options, name)).collect();
        (!names.is_empty()).then(|| names[self.rng.below(names.len())])
    }
}
