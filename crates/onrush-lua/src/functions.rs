//! Libraries of functions: `redis.register_function`.

use crate::stack::{Kept, Kind, Outcome, Raised, Stack, TOP};

/// What a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description of itself.
    pub description: Option<Vec<u8>>,
    /// What it may do.
    pub flags: FunctionFlags,
}

/// The flags that a function, or a script with a shebang, declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags {
    bits: u8,
}

/// Names of the flags, in the order in which FUNCTION LIST shows them.
const NAMES: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl FunctionFlags {
    /// `no-writes`
    pub const NO_WRITES: Self = Self { bits: 1 };
    /// `allow-oom`
    pub const ALLOW_OOM: Self = Self { bits: 2 };
    /// `allow-stale`
    pub const ALLOW_STALE: Self = Self { bits: 4 };
    /// `no-cluster`
    pub const NO_CLUSTER: Self = Self { bits: 8 };
    /// `allow-cross-slot-keys`
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self { bits: 16 };

    /// The flag of this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        NAMES.iter().position(|known| known.as_bytes() == name).map(|at| Self { bits: 1 << at })
    }

    /// Whether all of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.bits & other.bits == other.bits
    }

    /// The flags of both.
    pub fn union(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits }
    }

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().enumerate().filter(move |(at, _)| self.bits & 1 << at != 0).map(|(_, name)| *name)
    }
}

/// A library while its code runs.
#[derive(Default)]
pub(crate) struct Loading {
    pub(crate) functions: Vec<(Registered, Kept)>,
}

/// Whether this may be the name of a library or function.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The error for a name that is not allowed.
pub const BAD_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// `redis.register_function`
pub(crate) fn register(stack: &Stack<'_>) -> Outcome {
    let read = match stack.top() {
        1 => read_named(stack),
        2 => read_two(stack),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    match read.and_then(|registered| add(stack, registered)) {
        Ok(()) => Ok(0),
        Err(problem) => Err(stack.raise_table(format!("ERR {problem}"))),
    }
}

type Problem = &'static str;

/// Reads the form with a name and a function; the function stays on top.
fn read_two(stack: &Stack<'_>) -> Result<Registered, Problem> {
    let name = stack.text(1).ok_or("first argument to redis.register_function must be a string")?;
    if stack.kind(2) != Kind::Function {
        return Err("second argument to redis.register_function must be a function");
    }
    Ok(Registered { name: name.to_vec(), description: None, flags: FunctionFlags::default() })
}

/// Reads the form with a table; leaves the function on top.
fn read_named(stack: &Stack<'_>) -> Result<Registered, Problem> {
    if stack.kind(1) != Kind::Table {
        return Err("calling redis.register_function with a single argument is only applicable to Lua table \
                    (representing named arguments).");
    }
    let (mut name, mut description, mut flags) = (None, None, FunctionFlags::default());
    stack.push_nil();
    while stack.next(1) {
        match stack.bytes(-2) {
            Some(b"function_name") => {
                let text = stack
                    .text(TOP)
                    .ok_or("function_name argument given to redis.register_function must be a string")?;
                name = Some(text.to_vec());
            }
            Some(b"description") => {
                let text =
                    stack.text(TOP).ok_or("description argument given to redis.register_function must be a string")?;
                description = Some(text.to_vec());
            }
            Some(b"callback") if stack.kind(TOP) != Kind::Function => {
                return Err("callback argument given to redis.register_function must be a function");
            }
            Some(b"callback") => {}
            Some(b"flags") if stack.kind(TOP) != Kind::Table => {
                return Err("flags argument to redis.register_function must be a table representing function flags");
            }
            Some(b"flags") => flags = read_flags(stack)?,
            _ => return Err("unknown argument given to redis.register_function"),
        }
        stack.pop(1);
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    if stack.get_field(1, "callback") != Kind::Function {
        return Err("redis.register_function must get a callback argument");
    }
    Ok(Registered { name, description, flags })
}

/// The flags that the table on top lists.
fn read_flags(stack: &Stack<'_>) -> Result<FunctionFlags, Problem> {
    let mut flags = FunctionFlags::default();
    for nth in 1.. {
        stack.get_nth(TOP, nth);
        if stack.kind(TOP) == Kind::Nil {
            break;
        }
        let flag = stack.bytes(TOP).and_then(FunctionFlags::named).ok_or("unknown flag given")?;
        flags = flags.union(flag);
        stack.pop(1);
    }
    stack.pop(1);
    Ok(flags)
}

/// Adds the function on top to the library.
fn add(stack: &Stack<'_>, registered: Registered) -> Result<(), Problem> {
    if !is_name(&registered.name) {
        return Err(BAD_NAME);
    }
    let mut loading = stack.world().loading.borrow_mut();
    let Some(loading) = loading.as_mut() else {
        return Err("redis.register_function can only be called on FUNCTION LOAD command");
    };
    if loading.functions.iter().any(|(other, _)| other.name == registered.name) {
        return Err("Function already exists in the library");
    }
    let kept = stack.keep();
    loading.functions.push((registered, kept));
    Ok(())
}

/// Runs the code of a library, which is on top as a function.
///
/// # Errors
/// The code raised an error, which is on top.
pub(crate) fn load(stack: &Stack<'_>, handler: i32) -> Result<Loading, Raised> {
    *stack.world().loading.borrow_mut() = Some(Loading::default());
    let ran = stack.call_for(0, 0, Some(handler));
    let loading = stack.world().loading.borrow_mut().take().unwrap_or_default();
    match ran {
        Ok(()) => Ok(loading),
        Err(Raised) => {
            loading.functions.iter().for_each(|(_, kept)| stack.release(*kept));
            Err(Raised)
        }
    }
}
