//! What the commands do, one after the other: a small model of the keyspace.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use crate::command::{Command, DATABASES, KEYS_MAX, Key, Means, Side};
use crate::history::Call;
use crate::reply::Reply;

/// This many milliseconds after a key's expiry no command sees the key: no command lasts that long.
const LAG_MAX_MS: i64 = 1_000;

const WRONG_TYPE: &str = "WRONGTYPE";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const NO_SUCH_KEY: &str = "ERR no such key";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    value: Value,
    expires_ms: Option<i64>,
}

type Slots = [Option<Rc<Entry>>; KEYS_MAX];

/// The data of all databases at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    databases: [Slots; DATABASES],
    /// Commands that write are held back at least until then.
    paused_until_ms: i64,
}

/// What a command sees. A thread reads the time once for a chunk. So a key may have expired for one command and be
/// there for another command at the same time, until a command deletes it.
#[derive(Clone)]
struct Seen {
    /// The keys that have not expired for the command.
    state: State,
    /// The keys that have expired for the command.
    gone: Vec<(usize, Key, Rc<Entry>)>,
}

impl Seen {
    fn expire(&mut self, db: usize, key: Key) {
        self.gone.extend(self.state.databases[db][key].take().map(|entry| (db, key, entry)));
    }

    /// The possible states after a call: an expired key is deleted, or not yet.
    fn after(self, call: &Call) -> Vec<State> {
        let Some(deleted) = self.state.stepped(call) else { return Vec::new() };
        let mut left = deleted.clone();
        for (db, key, entry) in self.gone {
            left.databases[db][key].get_or_insert(entry);
        }
        if left == deleted { vec![deleted] } else { vec![deleted, left] }
    }
}

/// A reply that is an error comes early.
type Stepped = Result<Reply, &'static str>;

impl State {
    /// The possible states after a call that got this reply. There are several if it is unknown whether a key had
    /// expired by then, and none if the reply is impossible.
    pub fn after(&self, call: &Call) -> Vec<Self> {
        if call.command.is_write() && call.ended_ms < self.paused_until_ms {
            return Vec::new();
        }
        let mut before = vec![Seen { state: self.without_old(call.sent_ms), gone: Vec::new() }];
        for (db, key) in call.command.keys(call.db) {
            let Some(at_ms) = self.databases[db][key].as_ref().and_then(|entry| entry.expires_ms) else { continue };
            if at_ms <= call.ended_ms {
                let mut gone = before.clone();
                gone.iter_mut().for_each(|seen| seen.expire(db, key));
                before = if at_ms <= call.sent_ms { gone } else { [before, gone].concat() };
            }
        }
        before.into_iter().flat_map(|seen| seen.after(call)).flat_map(|state| state.with_expired(call)).collect()
    }

    /// Without keys that expired so long ago that no command sees them.
    fn without_old(&self, now_ms: i64) -> Self {
        let mut state = self.clone();
        for slot in state.databases.iter_mut().flatten() {
            let is_old = |entry: &Rc<Entry>| entry.expires_ms.is_some_and(|at_ms| at_ms + LAG_MAX_MS <= now_ms);
            slot.take_if(|entry| is_old(entry));
        }
        state
    }

    /// The possible states after a command that has set a key's expiry: with the key, and without.
    fn with_expired(self, call: &Call) -> Vec<Self> {
        let (key, at_ms) = match call.command {
            Command::ExpireAt { key, at_ms } | Command::Set { key, expire_at_ms: Some(at_ms), .. } => (key, at_ms),
            _ => return vec![self],
        };
        let has_it = |entry: &Rc<Entry>| entry.expires_ms == Some(at_ms);
        if at_ms > call.ended_ms || !self.databases[call.db][key].as_ref().is_some_and(has_it) {
            return vec![self];
        }
        let mut without = self.clone();
        without.databases[call.db][key] = None;
        // PEXPIREAT deletes a due key at once; SET leaves that to the next command on the key.
        let is_deleted = at_ms <= call.sent_ms && matches!(call.command, Command::ExpireAt { .. });
        if is_deleted { vec![without] } else { vec![self, without] }
    }

    /// Whether a call still finds nothing in the keys that it waits for.
    pub fn lets_wait(&self, call: &Call) -> bool {
        let is_list = |key: &Key| matches!(self.value(call.db, *key), Some(Value::List(_)));
        !call.command.awaited().iter().any(is_list)
    }

    fn stepped(mut self, call: &Call) -> Option<Self> {
        let expected = self.step(call).unwrap_or_else(|error| Reply::Error(error.to_owned()));
        let is_nil = expected == Reply::Nil;
        match (call.reply(), call.command.timeout_ms()) {
            (None, _) => Some(self),
            (Some(reply), Some(timeout_ms)) if is_nil => {
                let is_over = timeout_ms > 0 && call.ended_ms - call.sent_ms >= timeout_ms;
                (is_over && reply.is(&Reply::Nil)).then_some(self)
            }
            (Some(reply), _) if matches!(call.command, Command::Members(_)) => {
                reply.clone().sorted().is(&expected).then_some(self)
            }
            (Some(reply), _) => reply.is(&expected).then_some(self),
        }
    }

    fn step(&mut self, call: &Call) -> Stepped {
        let db = call.db;
        match &call.command {
            Command::Push { .. }
            | Command::Pop { .. }
            | Command::BlockingPop { .. }
            | Command::ListMove { .. }
            | Command::Len(_)
            | Command::Range(_) => self.step_list(db, &call.command),
            Command::AddMembers(..)
            | Command::RemoveMembers(..)
            | Command::MoveMember { .. }
            | Command::Members(_)
            | Command::Intersect { .. } => self.step_set(db, &call.command),
            Command::Set { .. }
            | Command::Get(_)
            | Command::Incr(_)
            | Command::Append(..)
            | Command::MSet { .. }
            | Command::MGet(_) => self.step_text(db, &call.command),
            Command::Together { commands, means } => {
                let mut one = |command: &Command| {
                    let call = Call { command: command.clone(), ..call.clone() };
                    match self.step(&call) {
                        // Numbers of Lua are floating-point numbers.
                        Ok(Reply::Int(number)) if matches!(means, Means::Script(_)) => Reply::Int(number as f64 as i64),
                        Ok(reply) => reply,
                        Err(error) => Reply::Error(error.to_owned()),
                    }
                };
                Ok(Reply::Array(commands.iter().map(&mut one).collect()))
            }
            Command::Pause { timeout_ms } => {
                self.paused_until_ms = self.paused_until_ms.max(call.sent_ms + timeout_ms);
                Ok(Reply::ok())
            }
            _ => self.step_keys(db, &call.command),
        }
    }

    fn step_keys(&mut self, db: usize, command: &Command) -> Stepped {
        Ok(match command {
            Command::Del(keys) => {
                Reply::Int(keys.iter().filter(|key| self.databases[db][**key].take().is_some()).count() as i64)
            }
            Command::Exists(keys) => {
                Reply::Int(keys.iter().filter(|key| self.databases[db][**key].is_some()).count() as i64)
            }
            Command::Rename { from, to } => {
                let entry = self.databases[db][*from].take().ok_or(NO_SUCH_KEY)?;
                self.databases[db][*to] = Some(entry);
                Reply::ok()
            }
            Command::Copy { from, to, to_db, replace } => match self.databases[db][*from].clone() {
                Some(entry) if *replace || self.databases[*to_db][*to].is_none() => {
                    self.databases[*to_db][*to] = Some(entry);
                    Reply::Int(1)
                }
                _ => Reply::Int(0),
            },
            Command::Flush => {
                self.databases = Default::default();
                Reply::ok()
            }
            Command::SwapDatabases => {
                self.databases.swap(0, 1);
                Reply::ok()
            }
            Command::ExpireAt { key, at_ms } => match &mut self.databases[db][*key] {
                Some(entry) => {
                    Rc::make_mut(entry).expires_ms = Some(*at_ms);
                    Reply::Int(1)
                }
                None => Reply::Int(0),
            },
            Command::ExpireTime(key) => {
                let entry = self.databases[db][*key].as_ref();
                Reply::Int(entry.map_or(-2, |entry| entry.expires_ms.unwrap_or(-1)))
            }
            Command::Unpause => {
                self.paused_until_ms = 0;
                Reply::ok()
            }
            _ => Reply::ok(),
        })
    }

    fn step_text(&mut self, db: usize, command: &Command) -> Stepped {
        Ok(match command {
            Command::Set { key, value, only_new, get, expire_at_ms } => {
                let old = if *get { self.text(db, *key)?.map(str::to_owned) } else { None };
                let sets = !*only_new || self.databases[db][*key].is_none();
                if sets {
                    self.put(db, *key, Value::Text(value.clone()), *expire_at_ms);
                }
                match (get, sets) {
                    (true, _) => Reply::bulk(old.as_deref()),
                    (false, true) => Reply::ok(),
                    (false, false) => Reply::Nil,
                }
            }
            Command::Get(key) => Reply::bulk(self.text(db, *key)?),
            Command::Incr(key) => {
                let number: i64 = self.text(db, *key)?.unwrap_or("0").parse().map_err(|_| NOT_INTEGER)?;
                self.change(db, *key, Value::Text((number + 1).to_string()));
                Reply::Int(number + 1)
            }
            Command::Append(key, value) => {
                let text = self.text(db, *key)?.unwrap_or_default().to_owned() + value;
                let len = text.len() as i64;
                self.change(db, *key, Value::Text(text));
                Reply::Int(len)
            }
            Command::MSet { pairs, only_new } => {
                if *only_new && pairs.iter().any(|(key, _)| self.databases[db][*key].is_some()) {
                    return Ok(Reply::Int(0));
                }
                for (key, value) in pairs {
                    self.put(db, *key, Value::Text(value.clone()), None);
                }
                if *only_new { Reply::Int(1) } else { Reply::ok() }
            }
            Command::MGet(keys) => {
                Reply::Array(keys.iter().map(|key| Reply::bulk(self.text(db, *key).unwrap_or(None))).collect())
            }
            _ => unreachable!("no command on strings"),
        })
    }

    fn step_list(&mut self, db: usize, command: &Command) -> Stepped {
        Ok(match command {
            Command::Push { key, side, values } => {
                let mut list = self.list(db, *key)?.cloned().unwrap_or_default();
                values.iter().for_each(|value| push(&mut list, *side, value.clone()));
                let len = list.len() as i64;
                self.change(db, *key, Value::List(list));
                Reply::Int(len)
            }
            Command::Pop { key, side } => Reply::bulk(self.pop(db, *key, *side)?.as_deref()),
            Command::BlockingPop { keys, side, .. } => {
                for key in keys {
                    if let Some(element) = self.pop(db, *key, *side)? {
                        let name = crate::command::key_name(*key);
                        return Ok(Reply::Array(vec![Reply::Bulk(name), Reply::Bulk(element)]));
                    }
                }
                Reply::Nil
            }
            Command::ListMove { from, from_side, to, to_side, .. } => {
                if self.list(db, *from)?.is_none() {
                    return Ok(Reply::Nil);
                }
                self.list(db, *to)?;
                if from == to {
                    return self.rotate(db, *from, *from_side, *to_side);
                }
                let Some(element) = self.pop(db, *from, *from_side)? else { return Ok(Reply::Nil) };
                let mut list = self.list(db, *to)?.cloned().unwrap_or_default();
                push(&mut list, *to_side, element.clone());
                self.change(db, *to, Value::List(list));
                Reply::Bulk(element)
            }
            Command::Len(key) => Reply::Int(self.list(db, *key)?.map_or(0, VecDeque::len) as i64),
            Command::Range(key) => {
                Reply::Array(self.list(db, *key)?.into_iter().flatten().cloned().map(Reply::Bulk).collect())
            }
            _ => unreachable!("no command on lists"),
        })
    }

    fn step_set(&mut self, db: usize, command: &Command) -> Stepped {
        Ok(match command {
            Command::AddMembers(key, members) => {
                let mut set = self.set(db, *key)?.cloned().unwrap_or_default();
                let added = members.iter().filter(|member| set.insert((*member).clone())).count();
                self.change(db, *key, Value::Set(set));
                Reply::Int(added as i64)
            }
            Command::RemoveMembers(key, members) => {
                let Some(mut set) = self.set(db, *key)?.cloned() else { return Ok(Reply::Int(0)) };
                let removed = members.iter().filter(|member| set.remove(*member)).count();
                self.change(db, *key, Value::Set(set));
                Reply::Int(removed as i64)
            }
            Command::MoveMember { from, to, member } => {
                let Some(mut source) = self.set(db, *from)?.cloned() else { return Ok(Reply::Int(0)) };
                let mut target = self.set(db, *to)?.cloned().unwrap_or_default();
                if from == to {
                    return Ok(Reply::Int(i64::from(source.contains(member))));
                }
                if !source.remove(member) {
                    return Ok(Reply::Int(0));
                }
                target.insert(member.clone());
                self.change(db, *from, Value::Set(source));
                self.change(db, *to, Value::Set(target));
                Reply::Int(1)
            }
            Command::Members(key) => {
                let members: Vec<Reply> = self.set(db, *key)?.into_iter().flatten().cloned().map(Reply::Bulk).collect();
                Reply::Array(members).sorted()
            }
            Command::Intersect { to, keys } => {
                let sets: Vec<BTreeSet<String>> = keys
                    .iter()
                    .map(|key| Ok(self.set(db, *key)?.cloned().unwrap_or_default()))
                    .collect::<Result<_, &'static str>>()?;
                let common = sets.into_iter().reduce(|a, b| &a & &b).unwrap_or_default();
                let len = common.len() as i64;
                self.put(db, *to, Value::Set(common), None);
                Reply::Int(len)
            }
            _ => unreachable!("no command on sets"),
        })
    }

    fn value(&self, db: usize, key: Key) -> Option<&Value> {
        self.databases[db][key].as_ref().map(|entry| &entry.value)
    }

    fn text(&self, db: usize, key: Key) -> Result<Option<&str>, &'static str> {
        match self.value(db, key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn list(&self, db: usize, key: Key) -> Result<Option<&VecDeque<String>>, &'static str> {
        match self.value(db, key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn set(&self, db: usize, key: Key) -> Result<Option<&BTreeSet<String>>, &'static str> {
        match self.value(db, key) {
            None => Ok(None),
            Some(Value::Set(set)) => Ok(Some(set)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    fn pop(&mut self, db: usize, key: Key, side: Side) -> Result<Option<String>, &'static str> {
        let Some(mut list) = self.list(db, key)?.cloned() else { return Ok(None) };
        let element = match side {
            Side::Left => list.pop_front(),
            Side::Right => list.pop_back(),
        };
        self.change(db, key, Value::List(list));
        Ok(element)
    }

    /// Moves an element of a list to another place of the same list.
    fn rotate(&mut self, db: usize, key: Key, from_side: Side, to_side: Side) -> Stepped {
        let Some(mut list) = self.list(db, key)?.cloned() else { return Ok(Reply::Nil) };
        let element = if from_side == Side::Left { list.pop_front() } else { list.pop_back() };
        element.iter().for_each(|element| push(&mut list, to_side, element.clone()));
        self.change(db, key, Value::List(list));
        Ok(Reply::bulk(element.as_deref()))
    }

    /// Gives a key another value; its expiry stays.
    fn change(&mut self, db: usize, key: Key, value: Value) {
        let expires_ms = self.databases[db][key].as_ref().and_then(|entry| entry.expires_ms);
        self.put(db, key, value, expires_ms);
    }

    /// Gives a key a value and an expiry; a collection without elements is no key.
    fn put(&mut self, db: usize, key: Key, value: Value, expires_ms: Option<i64>) {
        let is_empty = match &value {
            Value::Text(_) => false,
            Value::List(list) => list.is_empty(),
            Value::Set(set) => set.is_empty(),
        };
        self.databases[db][key] = (!is_empty).then(|| Rc::new(Entry { value, expires_ms }));
    }
}

fn push(list: &mut VecDeque<String>, side: Side, value: String) {
    match side {
        Side::Left => list.push_front(value),
        Side::Right => list.push_back(value),
    }
}
