//! The differential runner: the same sequence on Onrush and on the oracle, every reply and the final state compared.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::argv::{Argv, quote};
use crate::client::Conn;
use crate::compare::Compare;
use crate::exceptions::{compare_for, modernized};
use crate::resp::{Value, pretty, reply_len};
use crate::rng::Rng;
use crate::server::{Oracle, Server, is_stand_in, wait_until};
use crate::trackers::{Trackers, same_told};
use crate::{argv, families, families::Family};

/// How long one reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Databases whose contents are compared.
const DATABASES: usize = 16;

/// Commands of one transaction at most.
const TRANSACTION_LEN_MAX: usize = 12;

/// Most runs for making a failing sequence shorter.
const SHRINK_RUNS_MAX: usize = 400;

/// One thing to do on one of the connections.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the connection; connections are opened when first used.
    pub conn: usize,
    /// What to do.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Calls a command. With `expect` our raw reply must be that, and the older oracle's is not
    /// compared.
    Call {
        /// The command.
        argv: Argv,
        /// The reply to expect instead of the older oracle's.
        expect: Option<Vec<u8>>,
    },
    /// Follows SCAN with these options from cursor 0 back to 0 and compares the sets of keys.
    ScanAll(Argv),
    /// Repeats a command on each server until its raw reply starts with `want`.
    Until {
        /// The command.
        argv: Argv,
        /// The awaited reply.
        want: Vec<u8>,
    },
}

/// Steps that start from an empty keyspace.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// 2 or 3; with 3 every connection starts with `HELLO 3`.
    pub protocol: u8,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Whether a command may block its client: those scripts could not call before 7.2.
fn may_block(argv: &Argv) -> bool {
    let names = ["BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BZPOPMIN", "BZPOPMAX", "WAIT"];
    names.contains(&argv.upper(0).as_str()) || (0..argv.0.len()).any(|index| argv.upper(index) == "BLOCK")
}

/// How commands travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each command waits for the reply to the one before.
    Single,
    /// Neighbouring commands on a connection go out with one write.
    Pipeline,
    /// As `Pipeline`, but the bytes go out to us in random pieces.
    Pieces,
    /// Neighbouring commands on a connection go out as transactions of some commands each.
    Transactions,
    /// Each command goes out inside of a script of its own, which accesses an undeclared key at its end: so its effects
    /// must be undone and done again.
    Scripts,
}

/// The beginning of an invalidation message.
const INVALIDATION: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

/// What came back for a command.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Reply(Vec<u8>),
    Closed,
    Silent,
    Garbage(String),
}

impl Outcome {
    fn read(conn: &mut Conn) -> Outcome {
        match conn.read_reply() {
            Ok(reply) => Outcome::Reply(reply),
            Err(e) if e.kind() == ErrorKind::InvalidData => Outcome::Garbage(e.to_string()),
            Err(e) if e.kind() == ErrorKind::WouldBlock || e.kind() == ErrorKind::TimedOut => Outcome::Silent,
            Err(_) => Outcome::Closed,
        }
    }

    /// The invalidations before the reply to a client that tracks keys, and the reply. So every reply has come when the
    /// last one has.
    fn read_behind_invalidations(conn: &mut Conn) -> (Vec<Vec<u8>>, Outcome) {
        let mut told = Vec::new();
        loop {
            match Outcome::read(conn) {
                Outcome::Reply(raw) if raw.starts_with(INVALIDATION) => told.push(raw),
                outcome => return (told, outcome),
            }
        }
    }

    /// Only errors are searched for changed texts: values are the clients' own.
    fn modernized(self, oracle: Oracle) -> Outcome {
        match self {
            Outcome::Reply(raw) if raw.starts_with(b"-") => Outcome::Reply(modernized(oracle, &raw)),
            other => other,
        }
    }

    fn show(&self) -> String {
        match self {
            Outcome::Reply(raw) => pretty(raw),
            Outcome::Closed => "(connection closed)".into(),
            Outcome::Silent => "(no reply in time)".into(),
            Outcome::Garbage(reason) => format!("({reason})"),
        }
    }
}

/// A difference between the servers.
#[derive(Debug)]
pub struct Mismatch {
    /// The step that shows it; `None` when the server was not even ready for the first.
    step: Option<usize>,
    what: String,
}

/// A connection to each server.
pub(crate) struct Pair {
    pub(crate) ours: Conn,
    pub(crate) oracle: Conn,
}

/// The two servers and the connections of the sequence that runs.
pub struct Runner {
    ours: Server,
    oracle: Server,
    release: Oracle,
    reset: Vec<Argv>,
    password: Option<String>,
    pairs: Vec<Option<Pair>>,
    /// Connections that hear keyspace events, which are compared after each step.
    listeners: Option<Pair>,
    /// How many scripts have been sent.
    scripts: u64,
    /// A client of Onrush that tracks keys and reads none.
    _bystander: Option<Conn>,
    /// Clients that track keys, likewise, and a connection to Onrush to ask which keys commands have.
    trackers: Option<(Trackers, Conn)>,
    rng: Rng,
}

impl Runner {
    /// Starts Onrush and an oracle with `args`. Every sequence begins with `reset` (after FLUSHALL) on both.
    pub fn new(args: &[&str], reset: &[&str], release: Oracle) -> Runner {
        let ours = Server::start_onrush(&[&["--workers", "2"], args].concat());
        let oracle = Server::start_oracle(release, args);
        let password = args.iter().position(|a| *a == "--requirepass").map(|i| args[i + 1].to_owned());
        let reset = reset.iter().map(|l| Argv::parse(l).expect("a well-quoted line")).collect();
        Runner {
            ours,
            oracle,
            release,
            reset,
            password,
            pairs: Vec::new(),
            listeners: None,
            scripts: 0,
            _bystander: None,
            trackers: None,
            rng: Rng::new(1),
        }
    }

    /// The runner for a family of commands.
    pub fn for_family(family: &Family, release: Oracle) -> Runner {
        let mut runner = Runner::new(family.args, family.reset, release);
        if family.name == families::TRACKING.name {
            // When the last client ends tracking, Onrush forgets what was read before; Redis remembers it.
            let mut bystander = runner.ours.connect();
            bystander.call(&argv!["CLIENT", "TRACKING", "ON"]);
            runner._bystander = Some(bystander);
        }
        runner
    }

    /// Compares the keyspace events of these classes, too. Only for steps that travel one by one or in transactions.
    pub fn listen(&mut self, classes: &str) {
        let mut pair = self.open(3);
        for conn in [&mut pair.ours, &mut pair.oracle] {
            conn.call(&argv!["CONFIG", "SET", "notify-keyspace-events", classes]);
            conn.call(&argv!["PSUBSCRIBE", "__key*"]);
        }
        self.listeners = Some(pair);
    }

    /// Also compares the invalidations of clients that track keys. Only for steps that travel one by one or in
    /// transactions.
    pub fn track(&mut self) {
        self.trackers = Some((Trackers::new(self.open(3), self.open(3)), self.open(2).ours));
    }

    /// The oracle.
    pub fn oracle(&self) -> Oracle {
        self.release
    }

    /// Runs a sequence. Errors: a difference, with the shortest sequence found that still shows it.
    pub fn check(&mut self, name: &str, sequence: &Sequence, mode: Mode) -> Result<(), String> {
        self.run(sequence, mode).map_err(|mismatch| self.explain(name, sequence, mode, mismatch))
    }

    /// Runs a sequence and compares all replies, then the state.
    pub fn run(&mut self, sequence: &Sequence, mode: Mode) -> Result<(), Mismatch> {
        self.start_over().map_err(|what| Mismatch { step: None, what })?;
        let mut at = 0;
        while at < sequence.steps.len() {
            let batch = match mode {
                Mode::Single => 1,
                Mode::Pipeline | Mode::Pieces | Mode::Scripts => batch_len(&sequence.steps[at..]),
                Mode::Transactions => batch_len(&sequence.steps[at..]).min(1 + self.rng.below(TRANSACTION_LEN_MAX)),
            };
            let steps = &sequence.steps[at..at + batch.max(1)];
            self.read_keys(steps)
                .map_err(|what| (0, what))
                .and_then(|()| self.run_steps(sequence.protocol, steps, mode))
                .and_then(|()| self.compare_events(steps).map_err(|what| (0, what)))
                .and_then(|()| self.compare_invalidations(steps).map_err(|what| (0, what)))
                .map_err(|(offset, what)| Mismatch { step: Some(at + offset), what })?;
            at += steps.len();
        }
        let step = Some(sequence.steps.len());
        self.compare_state().map_err(|what| Mismatch { step, what })
    }

    fn start_over(&mut self) -> Result<(), String> {
        self.pairs.clear();
        let flush = argv!["FLUSHALL"];
        let mut pair = self.open(2);
        if self.listeners.is_none() && self.trackers.is_none() {
            // Subscribers of the previous sequence count until their servers have noticed their end.
            let subscribers = argv!["CLIENT", "LIST", "TYPE", "pubsub"];
            for conn in [&mut pair.ours, &mut pair.oracle] {
                wait_until("no subscriber is left", || {
                    conn.try_call(&subscribers).map_or(true, |reply| reply == b"$0\r\n\r\n")
                });
            }
        }
        for argv in std::iter::once(&flush).chain(&self.reset) {
            pair.ours.try_call(argv).map_err(|e| format!("no reply to {argv} before the sequence: {e}"))?;
            pair.oracle.call(argv);
        }
        if let Some(pair) = &mut self.listeners {
            events(&mut pair.ours)?;
            events(&mut pair.oracle)?;
        }
        self.trackers.as_mut().map_or(Ok(()), |(trackers, _)| trackers.start_over())
    }

    /// Compares the events of some steps, unless not even their replies are.
    fn compare_events(&mut self, steps: &[Step]) -> Result<(), String> {
        let Some(pair) = &mut self.listeners else { return Ok(()) };
        let (ours, oracle) = (events(&mut pair.ours)?, events(&mut pair.oracle)?);
        if is_free(self.release, steps) {
            return Ok(());
        }
        let same = ours.iter().zip(&oracle).take_while(|(ours, oracle)| ours == oracle).count();
        if same == ours.len().max(oracle.len()) {
            return Ok(());
        }
        let rest = [&ours[same..], &oracle[same..]].map(<[String]>::concat);
        Err(format!("events differ behind {same} that are the same: ours\n{}oracle's\n{}", rest[0], rest[1]))
    }

    /// Makes a client that tracks keys read those of the next steps.
    fn read_keys(&mut self, steps: &[Step]) -> Result<(), String> {
        let Some((trackers, teller)) = &mut self.trackers else { return Ok(()) };
        let commands = steps.iter().filter_map(|step| match &step.action {
            Action::Call { argv, .. } => Some(argv),
            Action::ScanAll(_) | Action::Until { .. } => None,
        });
        trackers.read_keys(teller, commands)
    }

    /// Compares the invalidations that some steps cause, unless not even their replies are compared.
    fn compare_invalidations(&mut self, steps: &[Step]) -> Result<(), String> {
        let Some((trackers, _)) = &mut self.trackers else { return Ok(()) };
        if is_free(self.release, steps) { trackers.start_over() } else { trackers.compare() }
    }

    /// Opens a pair of connections that speak `protocol`.
    fn open(&self, protocol: u8) -> Pair {
        let connect = |server: &Server| {
            let mut conn = server.connect();
            conn.set_timeout(REPLY_TIMEOUT);
            if let Some(password) = &self.password {
                conn.call(&argv!["AUTH", password]);
            }
            if protocol == 3 {
                conn.call(&argv!["HELLO", "3"]);
            }
            conn
        };
        Pair { ours: connect(&self.ours), oracle: connect(&self.oracle) }
    }

    fn pair(&mut self, index: usize, protocol: u8) -> &mut Pair {
        if self.pairs.len() <= index {
            self.pairs.resize_with(index + 1, || None);
        }
        if self.pairs[index].is_none() {
            self.pairs[index] = Some(self.open(protocol));
        }
        self.pairs[index].as_mut().expect("just opened")
    }

    /// Runs steps that are one call, one special step, or a batch of calls on one connection.
    fn run_steps(&mut self, protocol: u8, steps: &[Step], mode: Mode) -> Result<(), (usize, String)> {
        let conn = steps[0].conn;
        match &steps[0].action {
            Action::Call { .. } if mode == Mode::Transactions => self.run_transaction(protocol, conn, steps),
            Action::Call { .. } if mode == Mode::Scripts => self.run_scripts(protocol, conn, steps),
            Action::Call { .. } => self.run_batch(protocol, conn, steps, mode == Mode::Pieces),
            Action::ScanAll(options) => {
                let pair = self.pair(conn, protocol);
                let (ours, oracle) = (scan_all(&mut pair.ours, options), scan_all(&mut pair.oracle, options));
                if ours == oracle {
                    return Ok(());
                }
                Err((0, format!("a whole SCAN {options} gives\n{ours:?}\nnot\n{oracle:?}")))
            }
            Action::Until { argv, want } => {
                let pair = self.pair(conn, protocol);
                until(&mut pair.ours, argv, want).map_err(|e| (0, e))?;
                until(&mut pair.oracle, argv, want).map_err(|e| (0, format!("oracle: {e}")))
            }
        }
    }

    fn run_batch(&mut self, protocol: u8, conn: usize, steps: &[Step], cut: bool) -> Result<(), (usize, String)> {
        let mut bytes = Vec::new();
        for step in steps {
            if let Action::Call { argv, .. } = &step.action {
                argv.encode(&mut bytes);
            }
        }
        let pieces = if cut { self.rng.cut(&bytes) } else { vec![&bytes[..]] };
        let release = self.release;
        let pair = self.pair(conn, protocol);
        // A server that has closed the connection shows when its reply is read.
        let _ = pair.oracle.send(&bytes);
        for piece in pieces {
            let _ = pair.ours.send(piece);
        }
        for (index, step) in steps.iter().enumerate() {
            let Action::Call { argv, expect } = &step.action else {
                continue;
            };
            let (told_oracle, oracle) = Outcome::read_behind_invalidations(&mut pair.oracle);
            let (told_ours, ours) = Outcome::read_behind_invalidations(&mut pair.ours);
            same_told("before the reply", &told_ours, &told_oracle)
                .and_then(|()| judge(release, argv, expect.as_ref(), &ours, &oracle.modernized(release)))
                .map_err(|what| (index, format!("{what}\n>>> {argv}")))?;
            if ours == Outcome::Closed {
                self.pairs[conn] = None;
                break;
            }
        }
        Ok(())
    }

    /// Sends each step inside of a script that accesses an undeclared key. Its declared keys are all words of the
    /// step's command.
    fn run_scripts(&mut self, protocol: u8, conn: usize, steps: &[Step]) -> Result<(), (usize, String)> {
        let release = self.release;
        let mut bytes = Vec::new();
        let mut calls = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            if let Action::Call { argv, expect: None } = &step.action
                && !matches!(compare_for(release, argv), Compare::Anything | Compare::Literal(_))
                && !(release == Oracle::Older && may_block(argv))
            {
                // Each text is new, since the server remembers what scripts with a text have needed.
                self.scripts += 1;
                let script = format!(
                    "local r = redis.pcall(unpack(KEYS)) redis.call('EXISTS', 'outside') return r -- {}",
                    self.scripts
                );
                let head = [b"EVAL".to_vec(), script.into_bytes(), argv.0.len().to_string().into_bytes()];
                Argv([&head[..], &argv.0].concat()).encode(&mut bytes);
                calls.push((index, argv));
            }
        }
        let pair = self.pair(conn, protocol);
        for conn in [&mut pair.oracle, &mut pair.ours] {
            let _ = conn.send(&bytes);
        }
        for (index, argv) in calls {
            let oracle = Outcome::read(&mut pair.oracle).modernized(release);
            let ours = Outcome::read(&mut pair.ours);
            judge(release, argv, None, &ours, &oracle).map_err(|what| (index, what))?;
        }
        Ok(())
    }

    /// Sends the steps between MULTI and EXEC; the replies that EXEC brings are compared each as its command says.
    fn run_transaction(&mut self, protocol: u8, conn: usize, steps: &[Step]) -> Result<(), (usize, String)> {
        let release = self.release;
        // A command that only one of the two refuses would end the whole transaction there.
        let is_for_both = |argv: &Argv| !matches!(compare_for(release, argv), Compare::Anything | Compare::Literal(_));
        let calls = || {
            steps.iter().filter_map(|step| match &step.action {
                Action::Call { argv, expect: None } if is_for_both(argv) => Some((argv, None)),
                _ => None,
            })
        };
        let mut bytes = Vec::new();
        argv!["MULTI"].encode(&mut bytes);
        calls().for_each(|(argv, _)| argv.encode(&mut bytes));
        argv!["EXEC"].encode(&mut bytes);
        let pair = self.pair(conn, protocol);
        for conn in [&mut pair.oracle, &mut pair.ours] {
            let _ = conn.send(&bytes);
        }
        let (multi, exec) = (argv!["MULTI"], argv!["EXEC"]);
        let mut executed = Vec::new();
        let mut ends = None;
        for (index, (argv, expect)) in std::iter::once((&multi, None)).chain(calls()).chain([(&exec, None)]).enumerate()
        {
            let replies = [&mut pair.ours, &mut pair.oracle].map(Outcome::read);
            let is_queued = |reply: &Outcome| matches!(reply, Outcome::Reply(raw) if raw == b"+QUEUED\r\n");
            let [ours, oracle] = replies;
            let step = index.saturating_sub(1).min(steps.len() - 1);
            if is_queued(&ours) && is_queued(&oracle) {
                executed.push((step, argv, expect));
            } else if argv == &exec && matches!(&oracle, Outcome::Reply(raw) if raw.starts_with(b"*")) {
                ends = Some((ours, oracle));
            } else {
                judge(release, argv, expect, &ours, &oracle.modernized(release)).map_err(|what| (step, what))?;
            }
        }
        let Some((Outcome::Reply(ours), Outcome::Reply(oracle))) = ends else { return Ok(()) };
        let last = steps.len() - 1;
        let (ours, oracle) = (array_items(&ours), array_items(&oracle));
        if ours.len() != executed.len() || oracle.len() != executed.len() {
            return Err((last, format!("EXEC brings {} replies, the oracle's {}", ours.len(), oracle.len())));
        }
        for ((step, argv, expect), (ours, oracle)) in executed.into_iter().zip(ours.into_iter().zip(oracle)) {
            let oracle = Outcome::Reply(oracle.to_vec()).modernized(release);
            judge(release, argv, expect, &Outcome::Reply(ours.to_vec()), &oracle).map_err(|what| (step, what))?;
        }
        Ok(())
    }

    /// Compares type, value, remaining time to live and encoding of every key in every database.
    fn compare_state(&mut self) -> Result<(), String> {
        let mut pair = self.open(2);
        let (ours, oracle) = (dump(&mut pair.ours)?, dump(&mut pair.oracle)?);
        let keys = |dump: &[Record]| dump.iter().map(|r| (r.db, r.key.clone())).collect::<Vec<_>>();
        if keys(&ours) != keys(&oracle) {
            let show = |dump: &[Record]| {
                dump.iter().map(|r| format!("  db{} {}\n", r.db, quote(&r.key, 80))).collect::<String>()
            };
            return Err(format!("the keys differ: ours\n{}oracle's\n{}", show(&ours), show(&oracle)));
        }
        for (a, b) in ours.iter().zip(&oracle) {
            let questions = questions(&a.key);
            let differs = |index: usize| {
                compare_for(self.release, &questions[index]).judge(&a.facts[index], &b.facts[index]).is_err()
            };
            if (0..questions.len()).any(differs) {
                let show = |r: &Record| r.facts.iter().map(|f| format!("  {}\n", pretty(f))).collect::<String>();
                return Err(format!("key {} of db{}: ours\n{}oracle's\n{}", quote(&a.key, 80), a.db, show(a), show(b)));
            }
        }
        Ok(())
    }

    /// Makes the sequence shorter while it still fails, and reports everything that a person needs to reproduce it.
    fn explain(&mut self, name: &str, sequence: &Sequence, mode: Mode, mismatch: Mismatch) -> String {
        let mut best = (sequence.clone(), mismatch);
        best.0.steps.truncate(best.1.step.map_or(0, |step| step + 1));
        let mut runs = 0;
        let mut chunk = best.0.steps.len().div_ceil(2);
        while chunk > 0 && self.ours.exited().is_none() {
            let mut at = 0;
            while at < best.0.steps.len() && runs < SHRINK_RUNS_MAX {
                let mut shorter = best.0.clone();
                shorter.steps.drain(at..(at + chunk).min(shorter.steps.len()));
                runs += 1;
                match self.run(&shorter, mode) {
                    Err(mismatch) if mismatch.step.is_some() => best = (shorter, mismatch),
                    // The server is in a state in which no more can be learned.
                    Err(_) => break,
                    Ok(()) => at += chunk,
                }
                if self.ours.exited().is_some() {
                    break;
                }
            }
            chunk /= 2;
        }
        let mut text =
            format!("{name}: {:?} oracle, RESP{}, {mode:?}: {}\n", self.release, sequence.protocol, best.1.what);
        let _ = writeln!(
            text,
            "shortest sequence found, as a case file:\n[{} resp{}]",
            name.replace(' ', "-"),
            sequence.protocol
        );
        for step in &best.0.steps {
            let _ = writeln!(text, "{}", show_step(step));
        }
        let _ = write!(text, "{}", self.ours.log_tail());
        text
    }
}

/// The replies in an array of replies.
fn array_items(raw: &[u8]) -> Vec<&[u8]> {
    let header = raw.iter().position(|&byte| byte == b'\n').map_or(raw.len(), |end| end + 1);
    let mut rest = &raw[header..];
    let mut items = Vec::new();
    while let Ok(Some(len @ 1..)) = reply_len(rest) {
        items.push(&rest[..len]);
        rest = &rest[len..];
    }
    items
}

/// The keyspace events that have come, each as a line of its channel and its message.
fn events(conn: &mut Conn) -> Result<Vec<String>, String> {
    const MARK: &str = "__key-mark";
    conn.send_command(&argv!["PUBLISH", MARK, "x"]).map_err(|error| error.to_string())?;
    let (mut events, mut has_replied) = (Vec::new(), false);
    loop {
        let value = Value::parse(&conn.read_reply().map_err(|error| format!("no events: {error}"))?)?;
        let Some([_, _, channel, message]) = value.items() else {
            // Before 7.2 the message comes before the reply.
            if std::mem::replace(&mut has_replied, true) || events.last().is_some_and(|last| last == MARK) {
                events.retain(|event| event != MARK);
                return Ok(events);
            }
            continue;
        };
        if channel.text() != MARK {
            events.push(format!("  {} {}\n", channel.text(), message.text()));
        } else if has_replied {
            return Ok(events);
        } else {
            events.push(MARK.to_owned());
        }
    }
}

/// Whether replies to some of the steps are not compared.
fn is_free(release: Oracle, steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.action {
        Action::Call { argv, .. } => compare_for(release, argv) == Compare::Anything,
        Action::ScanAll(_) | Action::Until { .. } => false,
    })
}

/// The number of calls on one connection that stand at the front.
fn batch_len(steps: &[Step]) -> usize {
    let same = |s: &&Step| s.conn == steps[0].conn && matches!(s.action, Action::Call { .. });
    steps.iter().take_while(same).count()
}

fn judge(
    release: Oracle,
    argv: &Argv,
    expect: Option<&Vec<u8>>,
    ours: &Outcome,
    oracle: &Outcome,
) -> Result<(), String> {
    // A stand-in has the oracle's version and lacks commands of later ones.
    let expect = expect.filter(|_| !is_stand_in());
    if let (Some(want), Oracle::Newer, Outcome::Reply(ours)) = (expect, release, ours) {
        Compare::Literal(want.clone()).judge(ours, b"").map_err(|reason| format!("{reason}\n>>> {argv}"))?;
    }
    let expect = expect.filter(|_| release == Oracle::Older);
    let how = expect.map_or_else(|| compare_for(release, argv), |want| Compare::Literal(want.clone()));
    let verdict = match (ours, oracle) {
        (Outcome::Reply(a), Outcome::Reply(b)) => how.judge(a, b),
        (Outcome::Closed, Outcome::Closed) => Ok(()),
        (Outcome::Reply(a), _) if expect.is_some() => how.judge(a, b""),
        _ => Err("one replies, the other does not".into()),
    };
    verdict.map_err(|reason| format!("{reason}\n>>> {argv}\nours:   {}\noracle: {}", ours.show(), oracle.show()))
}

fn show_step(step: &Step) -> String {
    let prefix = if step.conn == 0 { String::new() } else { format!("@{} ", step.conn + 1) };
    match &step.action {
        Action::Call { argv, .. } if argv.0.iter().any(|a| a.len() > 2_000) => {
            format!("{prefix}{argv}")
        }
        Action::Call { argv, .. } => format!("{prefix}{}", argv.quoted()),
        Action::ScanAll(options) => format!("{prefix}SCANALL {}", options.quoted()),
        Action::Until { argv, want } => {
            format!("{prefix}!until {} {}", quote(want, 200), argv.quoted())
        }
    }
}

/// All keys a whole scan returns, sorted, each once; or the error it ended with.
fn scan_all(conn: &mut Conn, options: &Argv) -> Result<Vec<Vec<u8>>, String> {
    let mut cursor = b"0".to_vec();
    let mut keys = Vec::new();
    for _ in 0..100_000 {
        let mut argv = argv!["SCAN", cursor];
        argv.0.extend(options.0.iter().cloned());
        let raw = conn.try_call(&argv).map_err(|e| e.to_string())?;
        let value = Value::parse(&raw)?;
        let Some([next, page]) = value.items() else {
            return Err(value.to_string());
        };
        let page = page.items().ok_or_else(|| format!("no array of keys: {value}"))?;
        keys.extend(page.iter().filter_map(|k| k.bytes().map(<[u8]>::to_vec)));
        cursor = next.bytes().unwrap_or_default().to_vec();
        if cursor == b"0" {
            keys.sort();
            keys.dedup();
            return Ok(keys);
        }
    }
    Err("the scan never ends".into())
}

fn until(conn: &mut Conn, argv: &Argv, want: &[u8]) -> Result<(), String> {
    let deadline = Instant::now() + REPLY_TIMEOUT;
    loop {
        let raw = conn.try_call(argv).map_err(|e| e.to_string())?;
        if raw.starts_with(want) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{argv} never replies {}, but {}", quote(want, 200), pretty(&raw)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What is compared of a key.
struct Record {
    db: usize,
    key: Vec<u8>,
    facts: Vec<Vec<u8>>,
}

/// What is asked of a key; all but one of the values are errors of type.
fn questions(key: &[u8]) -> Vec<Argv> {
    vec![
        argv!["OBJECT", "ENCODING", key],
        argv!["TYPE", key],
        argv!["PTTL", key],
        argv!["GET", key],
        argv!["LRANGE", key, "0", "-1"],
        argv!["SMEMBERS", key],
        argv!["HGETALL", key],
        argv!["ZRANGE", key, "0", "-1", "WITHSCORES"],
        argv!["XRANGE", key, "-", "+"],
    ]
}

fn dump(conn: &mut Conn) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    let lists: Vec<Argv> =
        (0..DATABASES).flat_map(|db| [argv!["SELECT", db.to_string()], argv!["KEYS", "*"]]).collect();
    let replies = conn.try_pipeline(&lists)?;
    for db in 0..DATABASES {
        let value = Value::parse(&replies[db * 2 + 1]).expect("a complete reply");
        let items = value.items().unwrap_or_else(|| panic!("KEYS in database {db}: {value}"));
        let mut keys: Vec<Vec<u8>> = items.iter().filter_map(|k| k.bytes().map(<[u8]>::to_vec)).collect();
        keys.sort();
        if keys.is_empty() {
            continue;
        }
        let mut commands = vec![argv!["SELECT", db.to_string()]];
        commands.extend(keys.iter().flat_map(|key| questions(key)));
        let mut replies = conn.try_pipeline(&commands)?.into_iter().skip(1);
        for key in keys {
            let facts = replies.by_ref().take(questions(&key).len()).collect();
            records.push(Record { db, key, facts });
        }
    }
    Ok(records)
}
