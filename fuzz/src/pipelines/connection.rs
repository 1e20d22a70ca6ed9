//! A connection of an input, and what its replies have to be.

use std::collections::VecDeque;

use onrush_engine::batch::runner::Runner;
use onrush_engine::clients::local::{LocalClient, State};
use onrush_engine::ctx::Engine;
use onrush_resp::{AggregateKind, ReplyDecoder};
use onrush_store::Type;

use super::bounds;
use crate::tree::Tree;

/// Turns after which a connection that still has something to do never ends.
const TURNS_MAX: usize = 100_000;

/// Commands after which a connection has more or fewer replies than commands: messages and what is told of subscriptions
/// look like replies with RESP2, and are none with RESP3.
const UNCOUNTED: &[&str] = &[
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "monitor",
    "client reply",
    "debug protocol",
];

/// A command whose reply says more of other replies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Multi,
    Exec,
    /// It ends a transaction.
    End,
    Other,
}

/// What a command waits for.
pub struct Awaited {
    /// The type of value that it takes something of.
    pub ty: Type,
    /// The keys.
    pub keys: Vec<Vec<u8>>,
}

/// What a command may wait for: the first of these keys that has a value of its type.
fn awaited(name: &[u8], argv: &[Vec<u8>]) -> Option<Awaited> {
    let (ty, keys) = match (name, argv.len()) {
        (b"blpop" | b"brpop", 3..) => (Type::List, 1..argv.len() - 1),
        (b"bzpopmin" | b"bzpopmax", 3..) => (Type::SortedSet, 1..argv.len() - 1),
        (b"blmove" | b"brpoplpush", 3..) => (Type::List, 1..2),
        _ => return None,
    };
    Some(Awaited { ty, keys: argv[keys].to_vec() })
}

/// See the module's text.
pub struct Connection {
    client: LocalClient,
    /// What it has collected.
    pipeline: Vec<u8>,
    /// Bytes that were sent as they stand.
    bytes: Vec<u8>,
    decoder: ReplyDecoder<Tree>,
    /// Commands without a reply so far.
    sent: VecDeque<Sent>,
    /// The commands among them that may wait for keys, behind the number of the command.
    waiting: VecDeque<(u64, Awaited)>,
    /// Commands that were sent, and that have their replies.
    begun: u64,
    ended: u64,
    /// Whether there are as many replies as commands.
    is_counted: bool,
    /// Whether all bytes of its replies were read to the end of a reply.
    is_between: bool,
    /// Commands queued since MULTI.
    queued: Option<usize>,
    state: State,
}

impl Connection {
    /// Connects.
    pub fn new(engine: &'static Engine) -> Self {
        Self {
            client: LocalClient::new(engine),
            pipeline: Vec::new(),
            bytes: Vec::new(),
            decoder: ReplyDecoder::new(),
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            begun: 0,
            ended: 0,
            is_counted: true,
            is_between: true,
            queued: None,
            state: State::Idle,
        }
    }

    /// Its number in the engine.
    pub fn id(&self) -> u64 {
        self.client.handle().id
    }

    /// What it does at present.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it waits for, if those are keys, and its database.
    pub fn awaited(&self) -> Option<(usize, &Awaited)> {
        let (number, awaited) = self.waiting.front()?;
        let waits = self.state == State::Waits && self.is_counted && *number == self.ended;
        waits.then_some((self.client.db() as usize, awaited))
    }

    /// Adds a command to its pipeline.
    pub fn call(&mut self, argv: &[Vec<u8>]) {
        let name = argv[0].to_ascii_lowercase();
        let both = [&name[..], &argv.get(1).map_or_else(Vec::new, |word| word.to_ascii_lowercase())].join(&b' ');
        if UNCOUNTED.iter().any(|word| [&name, &both].iter().any(|called| called[..] == *word.as_bytes())) {
            self.is_counted = false;
        }
        self.waiting.extend(awaited(&name, argv).map(|awaited| (self.begun, awaited)));
        self.begun += 1;
        self.sent.push_back(match &name[..] {
            b"multi" => Sent::Multi,
            b"exec" => Sent::Exec,
            b"discard" | b"reset" => Sent::End,
            _ => Sent::Other,
        });
        self.pipeline.extend_from_slice(format!("*{}\r\n", argv.len()).as_bytes());
        for argument in argv {
            self.pipeline.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            self.pipeline.extend_from_slice(argument);
            self.pipeline.extend_from_slice(b"\r\n");
        }
    }

    /// Adds bytes to it, unless they may call what takes long.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if !bytes.is_empty() && bounds::may_be_sent(&self.bytes) {
            self.is_counted = false;
            self.pipeline.extend_from_slice(bytes);
        }
    }

    /// Sends its pipeline.
    pub fn send(&mut self, runner: &mut Runner) {
        let pipeline = std::mem::take(&mut self.pipeline);
        if self.state != State::IsClosed {
            self.state = self.client.send(runner, &pipeline);
        }
        self.go_on(runner);
    }

    /// Goes on as far as it can.
    pub fn go_on(&mut self, runner: &mut Runner) {
        for _ in 0..TURNS_MAX {
            self.read();
            if self.state == State::IsClosed {
                return;
            }
            self.state = self.client.go_on(runner);
            if self.state != State::Runs {
                return self.read();
            }
        }
        panic!("a connection goes on for ever");
    }

    /// Reads the replies that have come.
    fn read(&mut self) {
        let replies = self.client.take_replies();
        let mut at = 0;
        loop {
            let begun = at;
            match self.decoder.next(&replies, &mut at) {
                Ok(Some(reply)) => {
                    self.is_between = true;
                    self.take(&reply);
                }
                Ok(None) => {
                    self.is_between &= begun == replies.len();
                    return;
                }
                Err(error) => panic!("{error} in {:?}", replies[begun..].escape_ascii().to_string()),
            }
        }
    }

    fn take(&mut self, reply: &Tree) {
        if !self.is_counted || reply.is_push() {
            return;
        }
        let Some(sent) = self.sent.pop_front() else { panic!("a reply without a command: {reply:?}") };
        self.ended += 1;
        while self.waiting.pop_front_if(|(number, _)| *number < self.ended).is_some() {}
        match (reply, sent, &mut self.queued) {
            (Tree::Status(text), Sent::Multi, queued @ None) if text == b"OK" => *queued = Some(0),
            (Tree::Status(text), Sent::Other, Some(queued)) if text == b"QUEUED" => *queued += 1,
            (Tree::Aggregate(AggregateKind::Array, replies), Sent::Exec, Some(queued)) => {
                assert_eq!(replies.len(), *queued, "EXEC has as many replies as commands were queued: {reply:?}");
                self.queued = None;
            }
            (_, Sent::Exec | Sent::End, queued) => *queued = None,
            _ => {}
        }
    }

    /// All is done: it has all its replies.
    pub fn check(&self) {
        if self.state == State::IsClosed {
            return;
        }
        assert_eq!(self.state, State::Idle);
        assert!(self.is_between, "the last reply has no end");
        assert!(!self.is_counted || self.sent.is_empty(), "{} replies are missing", self.sent.len());
    }
}

#[cfg(test)]
mod tests {
    use onrush_engine::process::NoProcess;

    use super::*;
    use crate::pipelines::node::Node;

    #[test]
    fn what_a_connection_waits_for_is_known() {
        let mut node = Node::new(&NoProcess);
        let mut connection = Connection::new(node.engine);
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        for line in ["PING", "BLPOP a b 0", "BZPOPMIN z 0", "PING"] {
            connection.call(&words(line));
        }
        connection.send(&mut node.runner);
        let (db, awaited) = connection.awaited().unwrap();
        assert_eq!((db, awaited.ty, &awaited.keys[..]), (0, Type::List, &words("a b")[..]));
        node.run("RPUSH b x");
        connection.go_on(&mut node.runner);
        assert_eq!(connection.awaited().unwrap().1.ty, Type::SortedSet);
        node.run("ZADD z 1 m");
        assert_eq!(node.type_of(0, b"z"), None);
        connection.go_on(&mut node.runner);
        assert!(connection.awaited().is_none());
        connection.check();
    }
}
