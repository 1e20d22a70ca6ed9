//! The commands that clients send.

use std::fmt::{Display, Formatter, Result};

/// Databases that are used.
pub const DATABASES: usize = 2;

/// Keys of a database that may be used.
pub const KEYS_MAX: usize = 6;

/// A key by its number.
pub type Key = usize;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its head.
    Left,
    /// Its tail.
    Right,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
        }
    }

    fn letter(self) -> &'static str {
        &self.word()[..1]
    }
}

/// How commands that belong together are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Between MULTI and EXEC.
    Transaction,
    /// As the calls of one script.
    Script(Declared),
}

/// Which of its keys a script gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// None of them.
    None,
    /// Every second one.
    Half,
    /// All of them.
    All,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the Redis command that `words` shows")]
pub enum Command {
    Set { key: Key, value: String, only_new: bool, get: bool, expire_at_ms: Option<i64> },
    Get(Key),
    Incr(Key),
    Append(Key, String),
    Del(Vec<Key>),
    Exists(Vec<Key>),
    MSet { pairs: Vec<(Key, String)>, only_new: bool },
    MGet(Vec<Key>),
    Rename { from: Key, to: Key },
    Copy { from: Key, to: Key, to_db: usize, replace: bool },
    Push { key: Key, side: Side, values: Vec<String> },
    Pop { key: Key, side: Side },
    BlockingPop { keys: Vec<Key>, side: Side, timeout_ms: i64 },
    ListMove { from: Key, from_side: Side, to: Key, to_side: Side, timeout_ms: Option<i64> },
    Len(Key),
    Range(Key),
    AddMembers(Key, Vec<String>),
    RemoveMembers(Key, Vec<String>),
    MoveMember { from: Key, to: Key, member: String },
    Members(Key),
    Intersect { to: Key, keys: Vec<Key> },
    Flush,
    SwapDatabases,
    Select(usize),
    ExpireAt { key: Key, at_ms: i64 },
    ExpireTime(Key),
    Pause { timeout_ms: i64 },
    Unpause,
    Together { commands: Vec<Command>, means: Means },
}

/// The name of a key.
pub fn key_name(key: Key) -> String {
    format!("k{key}")
}

fn seconds(timeout_ms: i64) -> String {
    format!("{}.{:03}", timeout_ms / 1000, timeout_ms % 1000)
}

impl Command {
    /// What is sent.
    pub fn words(&self) -> Vec<String> {
        let mut words = Words::default();
        match self {
            Self::Set { key, value, only_new, get, expire_at_ms } => {
                words.name("SET").key(*key).word(value);
                only_new.then(|| words.name("NX"));
                get.then(|| words.name("GET"));
                expire_at_ms.iter().for_each(|at_ms| {
                    words.name("PXAT").word(at_ms);
                });
                &mut words
            }
            Self::Get(key) => words.name("GET").key(*key),
            Self::Incr(key) => words.name("INCR").key(*key),
            Self::Append(key, value) => words.name("APPEND").key(*key).word(value),
            Self::Del(keys) => words.name("DEL").keys(keys),
            Self::Exists(keys) => words.name("EXISTS").keys(keys),
            Self::MSet { pairs, only_new } => {
                words.name(if *only_new { "MSETNX" } else { "MSET" });
                pairs.iter().fold(&mut words, |words, (key, value)| words.key(*key).word(value))
            }
            Self::MGet(keys) => words.name("MGET").keys(keys),
            Self::Rename { from, to } => words.name("RENAME").key(*from).key(*to),
            Self::Copy { from, to, to_db, replace } => {
                words.name("COPY").key(*from).key(*to).name("DB").word(to_db);
                replace.then(|| words.name("REPLACE"));
                &mut words
            }
            Self::Push { key, side, values } => words.word(&format!("{}PUSH", side.letter())).key(*key).texts(values),
            Self::Pop { key, side } => words.word(&format!("{}POP", side.letter())).key(*key),
            Self::BlockingPop { keys, side, timeout_ms } => {
                words.word(&format!("B{}POP", side.letter())).keys(keys).word(&seconds(*timeout_ms))
            }
            Self::ListMove { from, from_side, to, to_side, timeout_ms } => {
                words.name(if timeout_ms.is_some() { "BLMOVE" } else { "LMOVE" }).key(*from).key(*to);
                words.name(from_side.word()).name(to_side.word());
                timeout_ms.iter().fold(&mut words, |words, timeout_ms| words.word(&seconds(*timeout_ms)))
            }
            Self::Len(key) => words.name("LLEN").key(*key),
            Self::Range(key) => words.name("LRANGE").key(*key).name("0").name("-1"),
            Self::AddMembers(key, members) => words.name("SADD").key(*key).texts(members),
            Self::RemoveMembers(key, members) => words.name("SREM").key(*key).texts(members),
            Self::MoveMember { from, to, member } => words.name("SMOVE").key(*from).key(*to).word(member),
            Self::Members(key) => words.name("SMEMBERS").key(*key),
            Self::Intersect { to, keys } => words.name("SINTERSTORE").key(*to).keys(keys),
            Self::Flush => words.name("FLUSHALL"),
            Self::SwapDatabases => words.name("SWAPDB").name("0").name("1"),
            Self::Select(db) => words.name("SELECT").word(db),
            Self::ExpireAt { key, at_ms } => words.name("PEXPIREAT").key(*key).word(at_ms),
            Self::ExpireTime(key) => words.name("PEXPIRETIME").key(*key),
            Self::Pause { timeout_ms } => words.name("CLIENT").name("PAUSE").word(timeout_ms).name("WRITE"),
            Self::Unpause => words.name("CLIENT").name("UNPAUSE"),
            Self::Together { commands, means: Means::Transaction } => {
                words.name("MULTI");
                commands.iter().for_each(|command| words.0.extend(command.words()));
                words.name("EXEC")
            }
            Self::Together { commands, means: Means::Script(declared) } => {
                let keys: Vec<Key> = self.keys(0).into_iter().map(|(_, key)| key).collect();
                let keys: Vec<Key> = match declared {
                    Declared::None => Vec::new(),
                    Declared::Half => keys.into_iter().step_by(2).collect(),
                    Declared::All => keys,
                };
                words.name("EVAL").word(&script(commands)).word(&keys.len()).keys(&keys)
            }
        };
        words.0
    }

    /// Its bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        if let Self::Together { commands, means: Means::Transaction } = self {
            let commands = commands.iter().flat_map(Self::encode).collect();
            return [b"*1\r\n$5\r\nMULTI\r\n".to_vec(), commands, b"*1\r\n$4\r\nEXEC\r\n".to_vec()].concat();
        }
        let words = self.words();
        let bulks = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), bulks.collect::<String>()).into_bytes()
    }

    /// Replies that come before its own.
    pub fn replies_before(&self) -> usize {
        match self {
            Self::Together { commands, means: Means::Transaction } => commands.len() + 1,
            _ => 0,
        }
    }

    /// Whether it may be sent together with others: it waits for nothing, is about keys only, and its reply has one
    /// order.
    pub fn may_be_together(&self) -> bool {
        let is_personal = matches!(
            self,
            Self::Select(_) | Self::Pause { .. } | Self::Unpause | Self::Members(_) | Self::Together { .. }
        );
        !is_personal && self.timeout_ms().is_none()
    }

    /// The keys it reads or changes by name, with their databases; `db` is the selected one.
    pub fn keys(&self, db: usize) -> Vec<(usize, Key)> {
        let keys = match self {
            Self::Set { key, .. }
            | Self::Get(key)
            | Self::Incr(key)
            | Self::Append(key, _)
            | Self::Push { key, .. }
            | Self::Pop { key, .. }
            | Self::Len(key)
            | Self::Range(key)
            | Self::AddMembers(key, _)
            | Self::RemoveMembers(key, _)
            | Self::Members(key)
            | Self::ExpireAt { key, .. }
            | Self::ExpireTime(key) => vec![*key],
            Self::Del(keys) | Self::Exists(keys) | Self::MGet(keys) | Self::BlockingPop { keys, .. } => keys.clone(),
            Self::MSet { pairs, .. } => pairs.iter().map(|(key, _)| *key).collect(),
            Self::Copy { from, to, to_db, .. } => return vec![(db, *from), (*to_db, *to)],
            Self::Rename { from, to } | Self::ListMove { from, to, .. } | Self::MoveMember { from, to, .. } => {
                vec![*from, *to]
            }
            Self::Intersect { to, keys } => keys.iter().chain([to]).copied().collect(),
            Self::Flush | Self::SwapDatabases | Self::Select(_) | Self::Pause { .. } | Self::Unpause => Vec::new(),
            Self::Together { commands, .. } => return commands.iter().flat_map(|command| command.keys(db)).collect(),
        };
        keys.into_iter().map(|key| (db, key)).collect()
    }

    /// Whether CLIENT PAUSE WRITE holds it back.
    pub fn is_write(&self) -> bool {
        if let Self::Together { commands, means } = self {
            // CLIENT PAUSE WRITE holds every script back, whatever it does.
            return matches!(means, Means::Script(_)) || commands.iter().any(Self::is_write);
        }
        !matches!(
            self,
            Self::Get(_)
                | Self::Exists(_)
                | Self::MGet(_)
                | Self::Len(_)
                | Self::Range(_)
                | Self::Members(_)
                | Self::Select(_)
                | Self::ExpireTime(_)
                | Self::Pause { .. }
                | Self::Unpause
        )
    }

    /// How long it may wait for a key: 0 is for ever. `None` if it never waits.
    pub fn timeout_ms(&self) -> Option<i64> {
        match self {
            Self::BlockingPop { timeout_ms, .. } => Some(*timeout_ms),
            Self::ListMove { timeout_ms, .. } => *timeout_ms,
            _ => None,
        }
    }

    /// The keys for which it waits until they are lists.
    pub fn awaited(&self) -> Vec<Key> {
        match self {
            Self::BlockingPop { keys, .. } => keys.clone(),
            Self::ListMove { from, .. } => vec![*from],
            _ => Vec::new(),
        }
    }
}

/// A script that calls commands and returns their replies.
fn script(commands: &[Command]) -> String {
    let calls = commands.iter().enumerate().map(|(at, command)| {
        let words: Vec<String> = command.words().iter().map(|word| format!("'{word}'")).collect();
        format!("r[{}]=redis.pcall({})", at + 1, words.join(","))
    });
    format!("local r={{}} {} return r", calls.collect::<Vec<_>>().join(" "))
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.words().join(" "))
    }
}

/// The words of a command, one after the other.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn word(&mut self, word: &impl ToString) -> &mut Self {
        self.0.push(word.to_string());
        self
    }

    fn name(&mut self, name: &str) -> &mut Self {
        self.word(&name)
    }

    fn key(&mut self, key: Key) -> &mut Self {
        self.word(&key_name(key))
    }

    fn keys(&mut self, keys: &[Key]) -> &mut Self {
        keys.iter().fold(self, |words, key| words.key(*key))
    }

    fn texts(&mut self, texts: &[String]) -> &mut Self {
        texts.iter().fold(self, Self::word)
    }
}
