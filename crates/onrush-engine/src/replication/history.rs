//! The history of the data: an identifier and a number of bytes of its stream, as of PSYNC.

use parking_lot::Mutex;

/// The identifier that no history has.
pub const NO_ID: &str = "0000000000000000000000000000000000000000";

/// A place in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The history: 40 hexadecimal digits.
    pub id: String,
    /// Bytes of its stream up to this place.
    pub offset: u64,
}

/// The history of the data, and the one that it comes from.
#[derive(Debug)]
pub struct History(Mutex<Parts>);

#[derive(Debug)]
struct Parts {
    now: Position,
    /// The history before, and up to which byte it is this one's; `None`: there is none.
    before: Option<Position>,
}

impl History {
    /// One that begins.
    pub(crate) fn new(id: String) -> Self {
        Self(Mutex::new(Parts { now: Position { id, offset: 0 }, before: None }))
    }

    /// Where it is now.
    pub fn position(&self) -> Position {
        self.0.lock().now.clone()
    }

    /// The history before, and the first offset that it does not have any more.
    pub fn before(&self) -> Option<Position> {
        self.0.lock().before.clone()
    }

    /// The data is that of another history now, at this place.
    pub fn take_over(&self, position: Position) {
        *self.0.lock() = Parts { now: position, before: None };
    }

    /// It goes on under another identifier: the present one stays good for what there is by now.
    pub fn rename(&self, id: String) {
        let mut parts = self.0.lock();
        let offset = parts.now.offset;
        let before = std::mem::replace(&mut parts.now.id, id);
        parts.before = Some(Position { id: before, offset: offset + 1 });
    }

    /// As much of the stream has come.
    pub fn advance(&self, bytes: u64) {
        self.0.lock().now.offset += bytes;
    }
}
