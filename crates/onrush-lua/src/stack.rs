//! The stack of a Lua state: the only way to Lua's C interface.
//!
//! Lua raises errors by a jump over the frames in between. These rules keep such jumps away from Rust frames that own something:
//! - Our functions get into Lua only as [`Function`]s. One that fails leaves an error value on the stack and returns;
//!   the entry raises the error when no Rust value is left in the frame.
//! - While one of them runs, the allocator grants every request ([`crate::heap`]).
//! - Only raw accesses are made: no metamethod runs. There are no finalizers, as there is no userdata.
//! - Lua code is called under protection only ([`Stack::call`]).
//! - Code that pushes more than [`SLOTS`] values requests stack space first.
//! - A [`Stack`] is not kept beyond the call it was made for.

mod code;
mod entry;
mod errors;
mod state;

use std::ffi::c_int;
use std::ptr;

use onrush_lua_sys as ffi;

use crate::heap::Heap;
use crate::host::Host;
use crate::world::World;
use entry::enter;

pub(crate) use entry::Function;
use state::Anchor;
pub(crate) use state::State;

/// Slots of the stack that every one of our functions has when it begins.
pub(crate) const SLOTS: usize = ffi::LUA_MINSTACK as usize;

/// Deepest nesting of tables and texts that our own functions follow: each level uses some of the thread's stack.
pub(crate) const NESTING_MAX: u32 = 1_000;

/// Bytes that are copied in about the time of a Lua instruction.
pub(crate) const BYTES_PER_STEP: usize = 32;

/// The error value is on top of the stack.
#[derive(Debug)]
pub(crate) struct Raised;

/// How one of our functions ends: with this many results on the stack, or with an error.
pub(crate) type Outcome = Result<usize, Raised>;

/// A reference to a value that the registry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept(c_int);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is no such argument.
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Kind {
    /// The name that error messages give it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no value",
            Self::Nil => "nil",
            Self::Boolean => "boolean",
            Self::LightUserdata | Self::Userdata => "userdata",
            Self::Number => "number",
            Self::String => "string",
            Self::Table => "table",
            Self::Function => "function",
            Self::Thread => "thread",
        }
    }
}

/// A string or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'s> {
    Bytes(&'s [u8]),
    Number(f64),
}

/// Where an index counts from.
pub(crate) const TOP: i32 = -1;

/// The stack of a running function, or of a state at rest. Indexes count from 1, or from the top ([`TOP`]).
pub(crate) struct Stack<'s> {
    state: *mut ffi::lua_State,
    anchor: &'s Anchor,
}

impl<'s> Stack<'s> {
    fn of(state: *mut ffi::lua_State) -> Self {
        let mut anchor = ptr::null_mut();
        // SAFETY: `state` is one of ours, so its allocator's data is the anchor, which lives as long as the state.
        let anchor = unsafe {
            ffi::lua_getallocf(state, &mut anchor);
            &*anchor.cast::<Anchor>()
        };
        Stack { state, anchor }
    }

    #[inline]
    pub(crate) fn world(&self) -> &'s World {
        &self.anchor.world
    }

    pub(crate) fn heap(&self) -> &'s Heap {
        &self.anchor.heap
    }

    /// Calls `act` with the host; `None` while there is no host, or while the host is in use.
    #[inline]
    pub(crate) fn host<R>(&self, act: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        let mut host = self.anchor.host.take()?;
        // SAFETY: `State::with_host` has put it there and takes it away before the host ends. The cell is empty
        // meanwhile, so this is the only reference.
        let result = act(unsafe { host.as_mut() });
        self.anchor.host.set(Some(host));
        Some(result)
    }

    // --- Reading ---

    #[inline]
    pub(crate) fn top(&self) -> i32 {
        // SAFETY: reads the state.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// The type of the value at an index.
    #[inline]
    pub(crate) fn kind(&self, index: i32) -> Kind {
        // SAFETY: reads the state; an index above the top is none.
        match unsafe { ffi::lua_type(self.state, index) } {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// Whether a value counts as true.
    pub(crate) fn truth(&self, index: i32) -> bool {
        // SAFETY: reads the state.
        unsafe { ffi::lua_toboolean(self.state, index) != 0 }
    }

    /// The value as a number, if it is a number or a string that spells one.
    #[inline]
    pub(crate) fn number(&self, index: i32) -> Option<f64> {
        // SAFETY: reads the state.
        unsafe { (ffi::lua_isnumber(self.state, index) != 0).then(|| ffi::lua_tonumber(self.state, index)) }
    }

    /// The bytes of a string; `None` for any other value. They stay valid while the value is on the stack; the caller
    /// must make sure that it stays there. Arguments do.
    #[inline]
    pub(crate) fn bytes(&self, index: i32) -> Option<&'s [u8]> {
        (self.kind(index) == Kind::String).then(|| self.string_at(index))
    }

    /// As [`Stack::bytes`], but a number on the stack is replaced by the string that spells it.
    #[inline]
    pub(crate) fn text(&self, index: i32) -> Option<&'s [u8]> {
        matches!(self.kind(index), Kind::String | Kind::Number).then(|| self.string_at(index))
    }

    /// The value at an index, if it is a string or a number. As for [`Stack::bytes`], the bytes stay valid while the
    /// value is on the stack.
    #[inline]
    pub(crate) fn scalar(&self, index: i32) -> Option<Scalar<'s>> {
        let (mut text, mut len, mut number) = (ptr::null(), 0, 0.0);
        // SAFETY: reads the state. Of a string, Lua fills in a block of `len` bytes that lives as long as the string; the
        // collector moves nothing.
        unsafe {
            match ffi::onrush_lua_look(self.state, index, &mut text, &mut len, &mut number) {
                ffi::LUA_TSTRING => Some(Scalar::Bytes(std::slice::from_raw_parts(text.cast(), len))),
                ffi::LUA_TNUMBER => Some(Scalar::Number(number)),
                _ => None,
            }
        }
    }

    #[inline]
    fn string_at(&self, index: i32) -> &'s [u8] {
        let mut len = 0;
        // SAFETY: the value is a string or a number, so Lua returns a block of `len` bytes that lives as long as the
        // string; the collector moves nothing.
        unsafe {
            let bytes = ffi::lua_tolstring(self.state, index, &mut len);
            std::slice::from_raw_parts(bytes.cast(), len)
        }
    }

    /// Identifies a table.
    #[inline]
    pub(crate) fn address(&self, index: i32) -> usize {
        // SAFETY: reads the state.
        unsafe { ffi::lua_topointer(self.state, index) as usize }
    }

    /// The border of a table, or the length of a string.
    pub(crate) fn len(&self, index: i32) -> usize {
        // SAFETY: reads the state.
        unsafe { ffi::lua_objlen(self.state, index) }
    }

    // --- Pushing and moving ---

    /// Whether there is space for `slots` more values. When a function begins, there is space for [`SLOTS`].
    #[inline]
    pub(crate) fn has_space(&self, slots: usize) -> bool {
        // SAFETY: makes space or says that there is none.
        unsafe { ffi::lua_checkstack(self.state, slots as c_int) != 0 }
    }

    #[inline]
    pub(crate) fn push_nil(&self) {
        // SAFETY: there is space (the rules above); so below.
        unsafe { ffi::lua_pushnil(self.state) }
    }

    #[inline]
    pub(crate) fn push_boolean(&self, value: bool) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) }
    }

    #[inline]
    pub(crate) fn push_number(&self, value: f64) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushnumber(self.state, value) }
    }

    #[inline]
    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        // SAFETY: as above; Lua copies the bytes, which an empty slice has none of.
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Pushes the value that JSON's null becomes: a null pointer.
    pub(crate) fn push_null_pointer(&self) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushlightuserdata(self.state, ptr::null_mut()) }
    }

    /// Whether a value is the null pointer.
    pub(crate) fn is_null_pointer(&self, index: i32) -> bool {
        // SAFETY: reads the state.
        unsafe { self.kind(index) == Kind::LightUserdata && ffi::lua_touserdata(self.state, index).is_null() }
    }

    pub(crate) fn push_function<F: Function>(&self, _: F) {
        // SAFETY: there is space, and `enter` is a function for Lua.
        unsafe { ffi::lua_pushcclosure(self.state, enter::<F>, 0) }
    }

    /// As [`Stack::push_function`], with the topmost values as upvalues, which are popped.
    pub(crate) fn push_closure<F: Function>(&self, _: F, upvalues: usize) {
        // SAFETY: that many values are on the stack.
        unsafe { ffi::lua_pushcclosure(self.state, enter::<F>, upvalues as c_int) }
    }

    /// The index of an upvalue of the running function, from 1.
    pub(crate) fn upvalue(nth: i32) -> i32 {
        ffi::lua_upvalueindex(nth)
    }

    #[inline]
    pub(crate) fn push_table(&self, array: usize, fields: usize) {
        let fit = |count: usize| count.min(c_int::MAX as usize) as c_int;
        // SAFETY: there is space.
        unsafe { ffi::lua_createtable(self.state, fit(array), fit(fields)) }
    }

    #[inline]
    pub(crate) fn push_value(&self, index: i32) {
        // SAFETY: there is space, and the index is of a value.
        unsafe { ffi::lua_pushvalue(self.state, index) }
    }

    #[inline]
    pub(crate) fn pop(&self, count: i32) {
        // SAFETY: that many values are on the stack.
        unsafe { ffi::lua_settop(self.state, -count - 1) }
    }

    #[inline]
    pub(crate) fn set_top(&self, top: i32) {
        // SAFETY: cutting the stack drops only values; where it grows, there is space.
        unsafe { ffi::lua_settop(self.state, top) }
    }

    /// Moves the topmost value to an index; the values from there on move up.
    pub(crate) fn insert(&self, index: i32) {
        // SAFETY: the index is of a value.
        unsafe { ffi::lua_insert(self.state, index) }
    }

    pub(crate) fn remove(&self, index: i32) {
        // SAFETY: the index is of a value.
        unsafe { ffi::lua_remove(self.state, index) }
    }

    /// Joins the two topmost strings or numbers.
    pub(crate) fn join(&self) {
        // SAFETY: two strings or numbers are joined without a metamethod.
        unsafe { ffi::lua_concat(self.state, 2) }
    }

    // --- Tables, without metamethods ---

    /// Replaces the key on top by its value in the table at an index.
    #[inline]
    pub(crate) fn get(&self, table: i32) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: there is a table at the index.
        unsafe { ffi::lua_rawget_(self.state, table) }
    }

    /// Pushes the value of a field, and returns its type.
    #[inline]
    pub(crate) fn get_field(&self, table: i32, name: &str) -> Kind {
        let table = self.absolute(table);
        self.push_bytes(name.as_bytes());
        self.get(table);
        self.kind(TOP)
    }

    #[inline]
    pub(crate) fn get_nth(&self, table: i32, nth: i32) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: there is a table at the index.
        unsafe { ffi::lua_rawgeti_(self.state, table, nth) }
    }

    /// Stores the value on top under the key below it in a table, and pops both. The key must be neither nil nor NaN,
    /// which Lua would refuse by an error.
    #[inline]
    pub(crate) fn set(&self, table: i32) {
        debug_assert!(self.kind(table) == Kind::Table && !self.is_no_key(-2));
        // SAFETY: there is a table at the index, and the key is one.
        unsafe { ffi::lua_rawset(self.state, table) }
    }

    /// Whether a value cannot be a key.
    pub(crate) fn is_no_key(&self, index: i32) -> bool {
        match self.kind(index) {
            Kind::Nil | Kind::None => true,
            Kind::Number => self.number(index).is_none_or(f64::is_nan),
            _ => false,
        }
    }

    /// Pops the value on top and stores it as a field.
    #[inline]
    pub(crate) fn set_field(&self, table: i32, name: &str) {
        let table = self.absolute(table);
        self.push_bytes(name.as_bytes());
        self.insert(-2);
        self.set(table);
    }

    /// Stores a string as a field of the table on top.
    #[inline]
    pub(crate) fn set_text(&self, name: &str, text: &[u8]) {
        self.push_bytes(text);
        self.set_field(-2, name);
    }

    /// Pushes a table with a string as its only field.
    pub(crate) fn push_text_table(&self, name: &str, text: &[u8]) {
        self.push_table(0, 1);
        self.set_text(name, text);
    }

    #[inline]
    pub(crate) fn set_nth(&self, table: i32, nth: i32) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: there is a table at the index.
        unsafe { ffi::lua_rawseti_(self.state, table, nth) }
    }

    /// Stores a string as an element of a list.
    #[inline]
    pub(crate) fn set_nth_bytes(&self, table: i32, nth: i32, bytes: &[u8]) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        let table = self.absolute(table);
        // SAFETY: there is a table at the index, and space; Lua copies the bytes.
        unsafe { ffi::onrush_lua_set_text(self.state, table, nth, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Whether a table may have more than the elements of a list. Without a search.
    #[inline]
    pub(crate) fn may_have_fields(&self, table: i32) -> bool {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: there is a table at the index.
        unsafe { ffi::onrush_lua_has_fields(self.state, table) != 0 }
    }

    /// Has the empty table at an index stand in for a kept table, which is its metatable's `__index`, too: its fields are
    /// found without a look at the metatable.
    pub(crate) fn stand_for(&self, table: i32, real: Kept) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        let table = self.absolute(table);
        self.push_kept(real);
        debug_assert_eq!(self.kind(TOP), Kind::Table);
        // SAFETY: both are tables. No real table is ever released.
        unsafe { ffi::onrush_lua_stand_for(self.state, table) }
    }

    /// Replaces the key on top by the next key of the table and its value; at the end only pops the key. Begin with
    /// nil.
    pub(crate) fn next(&self, table: i32) -> bool {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: there is a table at the index, and the key came from it: then there is no error.
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pushes the metatable of a value, if it has one.
    pub(crate) fn get_metatable(&self, index: i32) -> bool {
        // SAFETY: there is space.
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }

    /// Pops the table or nil on top and makes it the metatable of a value.
    pub(crate) fn set_metatable(&self, index: i32) {
        debug_assert!(matches!(self.kind(TOP), Kind::Table | Kind::Nil));
        // SAFETY: there is a table or nil on top.
        unsafe {
            ffi::lua_setmetatable(self.state, index);
        }
    }

    /// Pushes the globals of the state.
    pub(crate) fn push_globals(&self) {
        self.push_value(ffi::LUA_GLOBALSINDEX);
    }

    /// Pops the table on top and makes it the globals of all code compiled from now on.
    pub(crate) fn set_globals(&self) {
        debug_assert_eq!(self.kind(TOP), Kind::Table);
        // SAFETY: there is a table on top.
        unsafe { ffi::lua_replace(self.state, ffi::LUA_GLOBALSINDEX) }
    }

    /// Pops the table on top and makes it the globals of a Lua function.
    pub(crate) fn set_globals_of(&self, function: i32) {
        debug_assert_eq!(self.kind(TOP), Kind::Table);
        // SAFETY: there is a table on top and a function at the index.
        unsafe {
            ffi::lua_setfenv(self.state, function);
        }
    }

    fn absolute(&self, index: i32) -> i32 {
        if index < 0 && index > ffi::LUA_REGISTRYINDEX { self.top() + index + 1 } else { index }
    }

    // --- The registry ---

    /// Pops the value on top and keeps it until [`Stack::release`].
    pub(crate) fn keep(&self) -> Kept {
        // SAFETY: there is a value on top.
        Kept(unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) })
    }

    pub(crate) fn release(&self, kept: Kept) {
        // SAFETY: changes the registry only.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, kept.0) }
    }

    #[inline]
    pub(crate) fn push_kept(&self, kept: Kept) {
        // SAFETY: there is space.
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, kept.0) }
    }
}
