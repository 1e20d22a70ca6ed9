//! What clients send: drawn from the seed.

use onrush_store::Random;

use crate::command::{Command, DATABASES, Declared, KEYS_MAX, Key, Means, Side};

/// Commands of a pipeline.
const PIPELINE_LEN_MAX: usize = 6;

/// Commands that belong together.
const TOGETHER_LEN_MAX: usize = 4;

/// Members that sets are made of: few, so that sets have some in common.
const MEMBERS: usize = 5;

/// What keys are mostly used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Strings.
    Texts,
    /// Lists.
    Lists,
    /// Sets.
    Sets,
}

/// What commands there are, in one simulation.
#[derive(Clone, Debug)]
pub struct Mix {
    /// What the first key is used for, the second and so on; then from the beginning.
    pub families: Vec<Family>,
    /// How many keys there are in a database.
    pub keys: usize,
    /// Keys expire.
    pub expires: bool,
    /// CLIENT PAUSE.
    pub pauses: bool,
    /// FLUSHALL, SWAPDB and SELECT.
    pub whole_databases: bool,
    /// Many a SELECT.
    pub selects: bool,
}

impl Mix {
    /// Draws one.
    pub fn draw(random: &mut Random) -> Self {
        let all = [Family::Texts, Family::Lists, Family::Sets];
        let families = match random.below(3) {
            0 => vec![all[random.below(3)]],
            1 => vec![all[random.below(3)], Family::Lists],
            _ => all.to_vec(),
        };
        Self {
            families,
            keys: 3 + random.below(KEYS_MAX - 2),
            expires: random.below(3) == 0,
            pauses: random.below(3) == 0,
            whole_databases: random.below(2) == 0,
            selects: false,
        }
    }
}

/// The commands of one client.
pub struct Workload {
    random: Random,
    mix: Mix,
    /// What its values begin with.
    client: usize,
    values: u64,
}

impl Workload {
    /// Of client number `client`.
    pub fn new(seed: u64, mix: &Mix, client: usize) -> Self {
        Self { random: Random::new(seed), mix: mix.clone(), client, values: 0 }
    }

    /// The next pipeline. `now_ms` is the engine's Unix time.
    pub fn pipeline(&mut self, now_ms: i64) -> Vec<Command> {
        let len = 1 + self.random.below(PIPELINE_LEN_MAX);
        if self.random.below(8) == 0 {
            // The engine executes equal commands at once.
            let key = self.key(Family::Texts);
            let command = match self.random.below(3) {
                0 => Command::Get(key),
                1 => self.set(key, now_ms),
                _ => Command::Incr(key),
            };
            return vec![command; len];
        }
        let selects = self.mix.selects && self.random.below(4) == 0;
        let select = selects.then(|| Command::Select(self.random.below(DATABASES)));
        let mut one = || if self.random.below(9) == 0 { self.together(now_ms) } else { self.command(now_ms) };
        let commands: Vec<Command> = (0..len).map(|_| one()).collect();
        select.into_iter().chain(commands).collect()
    }

    /// Some commands that belong together.
    fn together(&mut self, now_ms: i64) -> Command {
        let len = 1 + self.random.below(TOGETHER_LEN_MAX);
        let mut commands: Vec<Command> = (0..len).map(|_| self.command(now_ms)).collect();
        // The model works out expiry for single commands only.
        let expires = self.mix.expires;
        let moves = |command: &Command| matches!(command, Command::Flush | Command::SwapDatabases);
        let gives_expiry = |command: &Command| {
            matches!(command, Command::ExpireAt { .. } | Command::Set { expire_at_ms: Some(_), .. })
        };
        commands.retain(|command| command.may_be_together() && !gives_expiry(command) && !(expires && moves(command)));
        match self.random.below(4) {
            0 => Command::Together { commands, means: Means::Transaction },
            // A transaction, some of whose commands are called by scripts.
            1 => {
                let one_each = |command: Command| {
                    let means = self.script();
                    if self.random.below(2) == 0 {
                        Command::Together { commands: vec![command], means }
                    } else {
                        command
                    }
                };
                let commands = commands.into_iter().map(one_each).collect();
                Command::Together { commands, means: Means::Transaction }
            }
            _ => Command::Together { commands, means: self.script() },
        }
    }

    fn script(&mut self) -> Means {
        let declared = [Declared::None, Declared::Half, Declared::All];
        Means::Script(declared[self.random.below(declared.len())])
    }

    fn command(&mut self, now_ms: i64) -> Command {
        match self.random.below(20) {
            0 if self.mix.whole_databases => match self.random.below(4) {
                0 | 1 => Command::Flush,
                2 => Command::SwapDatabases,
                _ => Command::Select(self.random.below(DATABASES)),
            },
            1 if self.mix.pauses => match self.random.below(3) {
                0 => Command::Unpause,
                _ => Command::Pause { timeout_ms: self.random.below(15) as i64 },
            },
            2 | 3 if self.mix.expires => {
                let key = self.any_key();
                match self.random.below(3) {
                    0 => Command::ExpireTime(key),
                    _ => Command::ExpireAt { key, at_ms: self.soon(now_ms) },
                }
            }
            4..=6 => self.on_any_keys(),
            _ => match self.mix.families[self.random.below(self.mix.families.len())] {
                Family::Texts => self.on_texts(now_ms),
                Family::Lists => self.on_lists(),
                Family::Sets => self.on_sets(),
            },
        }
    }

    fn on_any_keys(&mut self) -> Command {
        let (from, to) = (self.any_key(), self.any_key());
        match self.random.below(5) {
            0 => Command::Del(self.some(Self::any_key)),
            1 => Command::Exists(self.some(Self::any_key)),
            2 => Command::Rename { from, to },
            _ => {
                // No key is copied to itself: within one database that is an error.
                let to = if from == to { (to + 1) % self.mix.keys } else { to };
                let to_db = if self.mix.whole_databases { self.random.below(DATABASES) } else { 0 };
                Command::Copy { from, to, to_db, replace: self.random.below(2) == 0 }
            }
        }
    }

    fn on_texts(&mut self, now_ms: i64) -> Command {
        let key = self.key(Family::Texts);
        match self.random.below(10) {
            0 | 1 => self.set(key, now_ms),
            2 | 3 => Command::Get(key),
            4 => Command::Incr(key),
            5 => Command::Append(key, self.value()),
            6 | 7 => {
                let keys = self.some(|workload| workload.key(Family::Texts));
                // Each key only once: which value a repeated key gets is not tested here.
                let mut pairs: Vec<(Key, String)> = keys.into_iter().map(|key| (key, self.value())).collect();
                pairs.sort();
                pairs.dedup_by_key(|(key, _)| *key);
                Command::MSet { pairs, only_new: self.random.below(4) == 0 }
            }
            _ => Command::MGet(self.some(|workload| workload.key(Family::Texts))),
        }
    }

    fn on_lists(&mut self) -> Command {
        let (key, side) = (self.key(Family::Lists), self.side());
        match self.random.below(12) {
            0..=2 => Command::Push { key, side, values: self.some(Self::value) },
            3 | 4 => Command::Pop { key, side },
            5..=7 => {
                let mut keys = self.some(|workload| workload.key(Family::Lists));
                keys.truncate(2);
                Command::BlockingPop { keys, side, timeout_ms: self.timeout_ms() }
            }
            8 | 9 => {
                let timeout_ms = if self.random.below(2) == 0 { Some(self.timeout_ms()) } else { None };
                let (to, to_side) = (self.key(Family::Lists), self.side());
                Command::ListMove { from: key, from_side: side, to, to_side, timeout_ms }
            }
            10 => Command::Len(key),
            _ => Command::Range(key),
        }
    }

    fn on_sets(&mut self) -> Command {
        let key = self.key(Family::Sets);
        match self.random.below(9) {
            0 | 1 => Command::AddMembers(key, self.some(Self::member)),
            2 => Command::RemoveMembers(key, self.some(Self::member)),
            3 | 4 => Command::MoveMember { from: key, to: self.key(Family::Sets), member: self.member() },
            5 | 6 => Command::Members(key),
            _ => Command::Intersect { to: key, keys: self.some(|workload| workload.key(Family::Sets)) },
        }
    }

    fn set(&mut self, key: Key, now_ms: i64) -> Command {
        let value = self.value();
        let (only_new, get) = (self.random.below(4) == 0, self.random.below(4) == 0);
        let expires = self.mix.expires && self.random.below(4) == 0;
        Command::Set { key, value, only_new, get, expire_at_ms: expires.then(|| self.soon(now_ms)) }
    }

    /// A key of a family, mostly.
    fn key(&mut self, family: Family) -> Key {
        let key = self.any_key();
        let is_of = |key: &Key| self.mix.families[key % self.mix.families.len()] == family;
        if self.random.below(12) == 0 {
            return key;
        }
        (key..key + self.mix.keys).map(|key| key % self.mix.keys).find(is_of).unwrap_or(key)
    }

    fn any_key(&mut self) -> Key {
        self.random.below(self.mix.keys)
    }

    /// One to three of them.
    fn some<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = 1 + self.random.below(3);
        (0..len).map(|_| draw(self)).collect()
    }

    /// A text that nobody has sent before; some are numbers.
    fn value(&mut self) -> String {
        self.values += 1;
        // No number begins with 0.
        let (client, value) = (self.client + 1, self.values);
        if self.random.below(3) == 0 { format!("{client}{value:03}00") } else { format!("{client}.{value}") }
    }

    fn member(&mut self) -> String {
        format!("m{}", self.random.below(MEMBERS))
    }

    fn side(&mut self) -> Side {
        if self.random.below(2) == 0 { Side::Left } else { Side::Right }
    }

    fn soon(&mut self, now_ms: i64) -> i64 {
        now_ms - 2 + self.random.below(20) as i64
    }

    fn timeout_ms(&mut self) -> i64 {
        if self.random.below(3) == 0 { 0 } else { 1 + self.random.below(20) as i64 }
    }
}
