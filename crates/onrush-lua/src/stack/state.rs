//! A Lua state and the Rust data that belongs to it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::sync::Once;

use onrush_lua_sys as ffi;

use super::Stack;
use super::entry::MATCHING;
use crate::heap::Heap;
use crate::host::Host;
use crate::world::World;

/// The Rust data of a Lua state; the state's allocator points to it.
pub(crate) struct Anchor {
    pub(crate) heap: Heap,
    pub(crate) world: World,
    pub(super) host: Cell<Option<NonNull<dyn Host>>>,
    /// Why the script was ended from outside: no code in it may catch that.
    pub(super) aborted: RefCell<Option<Vec<u8>>>,
    /// A panic in one of our functions, on its way through Lua.
    pub(super) panic: Cell<Option<Box<dyn Any + Send>>>,
    /// Lua's own [`MATCHING`] functions.
    pub(super) matching: [Cell<Option<ffi::lua_CFunction>>; MATCHING.len()],
}

/// A Lua state.
pub(crate) struct State {
    state: NonNull<ffi::lua_State>,
    anchor: NonNull<Anchor>,
}

impl State {
    /// A new state with no globals; `None` if there is no memory for it.
    pub(crate) fn new(world: World, memory_max_bytes: usize) -> Option<Self> {
        seed();
        let heap = Heap::new(memory_max_bytes);
        let (host, aborted, panic) = (Cell::new(None), RefCell::new(None), Cell::new(None));
        let anchor = NonNull::from(Box::leak(Box::new(Anchor {
            heap,
            world,
            host,
            aborted,
            panic,
            matching: Default::default(),
        })));
        // SAFETY: the allocator keeps to its contract, and `anchor` lives until the state is closed.
        let state = unsafe { ffi::lua_newstate(resize, anchor.as_ptr().cast()) };
        match NonNull::new(state) {
            Some(state) => Some(Self { state, anchor }),
            None => {
                // SAFETY: made above by `Box::leak`; nothing refers to it.
                drop(unsafe { Box::from_raw(anchor.as_ptr()) });
                None
            }
        }
    }

    #[inline]
    pub(crate) fn stack(&mut self) -> Stack<'_> {
        // SAFETY: the anchor lives as long as the state, and is only reached by shared references.
        Stack { state: self.state.as_ptr(), anchor: unsafe { self.anchor.as_ref() } }
    }

    /// Gives scripts the host while `run` works.
    #[inline]
    pub(crate) fn with_host<R>(&mut self, host: &mut (dyn Host + '_), run: impl FnOnce(&Stack<'_>) -> R) -> R {
        /// Removes the host again, however `run` ends.
        struct Reset<'a>(&'a Cell<Option<NonNull<dyn Host>>>);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.set(None);
            }
        }
        let stack = self.stack();
        let host: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: only the lifetime changes. The pointer is removed before this function returns, and the borrow lives
        // longer than that.
        let host: NonNull<dyn Host> = unsafe { std::mem::transmute(host) };
        stack.anchor.host.set(Some(host));
        let _reset = Reset(&stack.anchor.host);
        run(&stack)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the state was made by `lua_newstate` and is closed once; after that nothing refers to the anchor.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.anchor.as_ptr()));
        }
    }
}

/// Draws the secret of Lua's table of strings, once.
fn seed() {
    static SEED: Once = Once::new();
    SEED.call_once(|| {
        let [first, second] = [1_u8, 2].map(|value| RandomState::new().hash_one(value));
        // SAFETY: no state exists, as every one is made after this.
        unsafe { ffi::onrush_lua_seed(first, second) }
    });
}

unsafe extern "C" fn resize(anchor: *mut c_void, block: *mut c_void, old_size: usize, new_size: usize) -> *mut c_void {
    // SAFETY: Lua passes the pointer that `State::new` gave it, and blocks with the sizes that they were made with.
    unsafe { (*anchor.cast::<Anchor>()).heap.resize(block, old_size, new_size) }
}
