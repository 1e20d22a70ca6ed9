//! What belongs to a Lua state besides its values: buffers, options, random numbers.

use std::cell::{Cell, RefCell};

use onrush_resp::{ArgRange, Reply};

use crate::functions::Loading;
use crate::json::Options;
use crate::random::Random;
use crate::stack::Kept;

/// Buffers that have grown beyond this many bytes are freed.
pub(crate) const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// A command that is under way.
#[derive(Default)]
pub(crate) struct Calling {
    pub(crate) command: Command,
    pub(crate) reply: Reply,
}

/// A command that a script has built.
#[derive(Default)]
pub(crate) struct Command {
    /// Its arguments, one behind the other.
    pub(crate) bytes: Vec<u8>,
    /// Its arguments in there.
    pub(crate) args: Vec<ArgRange>,
}

/// A table that scripts cannot change: they see an empty one that stands in for it.
#[derive(Clone, Copy)]
pub(crate) struct ReadOnly {
    /// Identifies the stand-in.
    pub(crate) address: usize,
    /// The table itself.
    pub(crate) real: Kept,
    /// What scripts see as its metatable.
    pub(crate) shown_metatable: Option<Kept>,
}

/// See the module. Everything is in cells, since our functions may run inside of each other.
#[derive(Default)]
pub(crate) struct World {
    /// No function that executes a command runs inside of another one.
    pub(crate) calling: RefCell<Calling>,
    /// A buffer in which one function at a time builds a string.
    pub(crate) scratch: Cell<Vec<u8>>,
    /// `redis.setresp(3)`
    pub(crate) is_resp3: Cell<bool>,
    pub(crate) random: Random,
    pub(crate) json: Cell<Options>,
    /// The tables that scripts cannot change.
    pub(crate) read_only: RefCell<Vec<ReadOnly>>,
    /// The function that walks through ordinary tables.
    pub(crate) next: Cell<Option<Kept>>,
    /// The metatable of strings that scripts see.
    pub(crate) string_metatable: Cell<Option<Kept>>,
    /// The library whose code runs to register its functions.
    pub(crate) loading: RefCell<Option<Loading>>,
}

impl World {
    /// Lends a buffer to `fill`; it is empty then.
    pub(crate) fn with_scratch<R>(&self, fill: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut scratch = self.scratch.take();
        scratch.clear();
        let result = fill(&mut scratch);
        if scratch.capacity() <= BUFFER_KEPT_MAX {
            self.scratch.set(scratch);
        }
        result
    }

    /// Resets everything that a script may have set to its state at the beginning of a script.
    #[inline]
    pub(crate) fn reset(&self) {
        self.is_resp3.set(false);
        self.json.set(Options::default());
        self.random.end_script();
    }
}
