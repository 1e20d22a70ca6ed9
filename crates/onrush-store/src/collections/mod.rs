//! The large forms of collections.

use crate::entries::compact::{Compact, FormMut};

pub(crate) mod dict;
pub(crate) mod filling;
pub(crate) mod frozen;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod part;
pub(crate) mod part_map;
pub(crate) mod set;
pub(crate) mod sorted_set;
pub(crate) mod stream;

/// Gives a collection a large form.
fn enlarge<T>(collection: &mut Compact<T>, large: T) -> &mut T {
    *collection = Compact::large(Box::new(large));
    match collection.form_mut() {
        FormMut::Large(large) => large,
        FormMut::Packed(_) => unreachable!("made large above"),
    }
}

/// What `freeze` makes of a large form; `None` for a small one.
fn frozen_form<T>(collection: &mut Compact<T>, freeze: impl FnOnce(&mut T) -> T) -> Option<Compact<T>> {
    match collection.form_mut() {
        FormMut::Large(large) => Some(Compact::large(Box::new(freeze(large)))),
        FormMut::Packed(_) => None,
    }
}
