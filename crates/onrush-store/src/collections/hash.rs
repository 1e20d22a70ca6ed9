//! Hashes: fields with values.

mod fields;

use crate::collections::{enlarge, frozen_form};
use crate::entries::compact::{Compact, Form, FormMut, embedded};
use crate::entries::listpack::{self, Elements, element};
use crate::{CollectionMut, Encoding, Filling, Packed, PairLimits, Random, equal};
use fields::Fields;

/// First byte of a small form in which fields can expire: no element of a listpack begins like this.
const WITH_EXPIRIES: u8 = 255;

/// Fields with values, each of which may have a time to live.
///
/// Few fields are kept in the order they came in: field, value, and, once a field can expire, also the time: an element
/// of eight bytes, or an empty one. Many are kept in a [`crate::collections::dict::Dict`].
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct Hash(Compact<Fields>);

embedded!(Hash);

/// A field read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry: Option<i64>,
}

/// The fields of a small form.
#[derive(Clone)]
struct SmallFields<'a> {
    elements: Elements<'a>,
    with_expiries: bool,
}

impl<'a> SmallFields<'a> {
    #[inline]
    fn of(packed: &'a [u8]) -> Self {
        let with_expiries = has_expiries(packed);
        SmallFields { elements: Elements::new(packed, usize::from(with_expiries)), with_expiries }
    }

    /// How many there are. O(fields).
    #[inline]
    fn len(mut self) -> usize {
        let mut len = 0;
        while !self.elements.is_at_end() {
            self.elements.pass();
            self.elements.pass();
            if self.with_expiries {
                self.elements.pass();
            }
            len += 1;
        }
        len
    }
}

impl<'a> Iterator for SmallFields<'a> {
    /// A field and where it begins.
    type Item = (usize, Field<'a>);

    #[inline]
    fn next(&mut self) -> Option<(usize, Field<'a>)> {
        let at = self.elements.at();
        let (name, value) = (self.elements.next()?, self.elements.next()?);
        let expiry = if self.with_expiries { self.elements.next().and_then(read_time) } else { None };
        Some((at, Field { name, value, expiry }))
    }
}

#[inline]
fn has_expiries(packed: &[u8]) -> bool {
    packed.first() == Some(&WITH_EXPIRIES)
}

fn read_time(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_le_bytes)
}

#[inline]
fn find<'a>(packed: &'a [u8], name: &[u8]) -> Option<(usize, Field<'a>)> {
    let mut fields = SmallFields::of(packed);
    loop {
        let here = fields.clone();
        if equal(fields.elements.next()?, name) {
            return { here }.next();
        }
        fields.elements.pass();
        if fields.with_expiries {
            fields.elements.pass();
        }
    }
}

/// Where the value of the field at `at` begins.
fn value_at(packed: &[u8], at: usize) -> usize {
    element(packed, at).end
}

fn append(packed: &mut Packed, name: &[u8], value: &[u8], expiry: Option<i64>) {
    let end = packed.len();
    listpack::insert(packed, end, [name, value]);
    if has_expiries(packed) {
        let end = packed.len();
        match expiry {
            Some(at) => listpack::insert_one(packed, end, &at.to_le_bytes()),
            None => listpack::insert_one(packed, end, &[]),
        }
    }
}

/// Sets the time of the field at `at`, in a small form that has room for times.
fn set_time(packed: &mut Packed, at: usize, expiry: Option<i64>) {
    let at = element(packed, value_at(packed, at)).end;
    match expiry {
        Some(time) => listpack::replace(packed, at, &time.to_le_bytes()),
        None => listpack::replace(packed, at, &[]),
    }
}

/// Gives every field of a small form room for a time.
fn add_expiries(packed: &mut Packed) {
    let mut wide = Packed::from(&[WITH_EXPIRIES][..]);
    for (_, field) in SmallFields::of(packed) {
        append(&mut wide, field.name, field.value, None);
    }
    *packed = wide;
}

impl Hash {
    /// Number of fields. O(1), of a small hash O(fields).
    pub fn len(&self) -> usize {
        match self.0.form() {
            Form::Large(fields) => fields.dict.len(),
            Form::Packed(packed) => SmallFields::of(packed).len(),
        }
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        match self.0.form() {
            Form::Large(fields) => fields.dict.len() == 0,
            Form::Packed(packed) => packed.len() == usize::from(has_expiries(packed)),
        }
    }

    /// The encoding, as OBJECT ENCODING reports it. O(1).
    pub fn encoding(&self) -> Encoding {
        match self.0.form() {
            Form::Large(_) => Encoding::Hashtable,
            Form::Packed(packed) if has_expiries(packed) => Encoding::ListpackEx,
            Form::Packed(_) => Encoding::Listpack,
        }
    }

    /// Bytes allocated. O(fields / 500).
    pub fn size_bytes(&self) -> usize {
        match self.0.form() {
            Form::Large(fields) => fields.size_bytes(),
            Form::Packed(_) => self.0.packed_bytes(),
        }
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        self.0.as_large().map_or(1, Fields::free_effort)
    }

    /// The value of a field. O(1), of a small hash O(fields).
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.field(name).map(|(value, _)| value)
    }

    /// The value of a field, and when it expires. O(1), of a small hash O(fields).
    #[inline]
    pub fn field(&self, name: &[u8]) -> Option<(&[u8], Option<i64>)> {
        match self.0.form() {
            Form::Large(fields) => fields.get(name),
            Form::Packed(packed) => find(packed, name).map(|(_, field)| (field.value, field.expiry)),
        }
    }

    /// Sets a field, which then no longer expires; returns whether it is new. Amortised O(1), of a small hash
    /// O(fields).
    #[inline]
    pub fn set(&mut self, name: &[u8], value: &[u8], limits: &PairLimits) -> bool {
        self.set_with_expiry(name, value, None, limits)
    }

    /// Sets a field and when it expires (milliseconds since the Unix epoch); returns whether it is new. Amortised O(1),
    /// of a small hash O(fields).
    pub fn set_with_expiry(&mut self, name: &[u8], value: &[u8], expiry: Option<i64>, limits: &PairLimits) -> bool {
        let packed = match self.0.form_mut() {
            FormMut::Large(fields) => return fields.set(name, value, expiry),
            FormMut::Packed(packed) => packed,
        };
        if name.len().max(value.len()) > limits.listpack_value_len_max {
            return self.make_large().set(name, value, expiry);
        }
        if expiry.is_some() && !has_expiries(packed) {
            add_expiries(packed);
        }
        if let Some((at, _)) = find(packed, name) {
            let value_at = value_at(packed, at);
            listpack::replace(packed, value_at, value);
            if has_expiries(packed) {
                set_time(packed, at, expiry);
            }
            return false;
        }
        append(packed, name, value, expiry);
        if SmallFields::of(packed).len() > limits.listpack_entries_max {
            self.make_large();
        }
        true
    }

    /// As [`Hash::set_with_expiry`], for a hash that got all its fields by this method, with one `filling`. Amortised O(1).
    pub fn fill(
        &mut self,
        name: &[u8],
        value: &[u8],
        expiry: Option<i64>,
        filling: &mut Filling,
        limits: &PairLimits,
    ) -> bool {
        let packed = match self.0.form_mut() {
            FormMut::Large(fields) => return fields.set(name, value, expiry),
            FormMut::Packed(packed) => packed,
        };
        if filling.expects_more_than(limits.listpack_entries_max) && packed.is_empty() {
            *self = Hash(Compact::large(Box::new(Fields::for_len(filling.expected()))));
            return self.set_with_expiry(name, value, expiry, limits);
        }
        let is_new = filling.note(name);
        let fits = name.len().max(value.len()) <= limits.listpack_value_len_max
            && filling.len() <= limits.listpack_entries_max
            && (expiry.is_none() || has_expiries(packed));
        if is_new && fits {
            append(packed, name, value, expiry);
            return true;
        }
        self.set_with_expiry(name, value, expiry, limits)
    }

    fn make_large(&mut self) -> &mut Fields {
        let mut fields = Fields::new();
        for field in self.iter() {
            fields.set(field.name, field.value, field.expiry);
        }
        enlarge(&mut self.0, fields)
    }

    /// A large hash as it is now, to be read, which shares its fields with this one; `None` if it is small. O(fields / 500).
    pub(crate) fn freeze(&mut self) -> Option<Self> {
        frozen_form(&mut self.0, Fields::freeze).map(Hash)
    }

    pub(crate) fn thaw(&mut self) {
        if let FormMut::Large(fields) = self.0.form_mut() {
            fields.dict.thaw();
        }
    }

    /// Turns the hash into its large form if a field or value of `len` bytes needs that.
    pub fn make_room_for(&mut self, len: usize, limits: &PairLimits) {
        if len > limits.listpack_value_len_max && self.0.as_large().is_none() {
            self.make_large();
        }
    }

    /// Sets when a field expires (milliseconds since the Unix epoch), or that it does not; returns whether there is
    /// such a field. O(log fields), of a small hash O(fields).
    pub fn set_expiry(&mut self, name: &[u8], expiry: Option<i64>) -> bool {
        match self.0.form_mut() {
            FormMut::Large(fields) => {
                let Some((value, old)) = fields.get(name) else { return false };
                if old != expiry {
                    let value = value.to_vec();
                    fields.set(name, &value, expiry);
                }
                true
            }
            FormMut::Packed(packed) => {
                let Some((_, Field { expiry: old, .. })) = find(packed, name) else { return false };
                if old == expiry {
                    return true;
                }
                if !has_expiries(packed) {
                    add_expiries(packed);
                }
                if let Some((at, _)) = find(packed, name) {
                    set_time(packed, at, expiry);
                }
                true
            }
        }
    }

    /// Removes a field; returns whether it was there. Amortised O(1), of a small hash O(fields).
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match self.0.form_mut() {
            FormMut::Large(fields) => fields.remove(name),
            FormMut::Packed(packed) => {
                let Some((at, _)) = find(packed, name) else { return false };
                let mut end = element(packed, value_at(packed, at)).end;
                if has_expiries(packed) {
                    end = element(packed, end).end;
                }
                packed.remove(at..end);
                true
            }
        }
    }

    /// Whether any field may expire. O(1).
    #[inline]
    pub fn is_volatile(&self) -> bool {
        match self.0.form() {
            Form::Large(fields) => fields.next_expiry().is_some(),
            Form::Packed(packed) => has_expiries(packed),
        }
    }

    /// When the first field expires. O(1), of a small hash O(fields).
    pub fn next_expiry(&self) -> Option<i64> {
        match self.0.form() {
            Form::Large(fields) => fields.next_expiry(),
            Form::Packed(packed) if !has_expiries(packed) => None,
            Form::Packed(packed) => SmallFields::of(packed).filter_map(|(_, field)| field.expiry).min(),
        }
    }

    /// Removes fields that are due at `now_ms`, at most `count`, and hands their names to `removed`; returns how many.
    /// O(log fields) each, of a small hash O(fields).
    pub fn expire_due(&mut self, now_ms: i64, count: usize, removed: &mut dyn FnMut(&[u8])) -> usize {
        let mut done = 0;
        while done < count {
            let due = match self.0.form() {
                Form::Large(fields) => fields.due(now_ms),
                Form::Packed(packed) => SmallFields::of(packed)
                    .find(|(_, field)| field.expiry.is_some_and(|at| at <= now_ms))
                    .map(|(_, field)| field.name.into()),
            };
            let Some(name) = due else { break };
            self.remove(&name);
            removed(&name);
            done += 1;
        }
        done
    }

    /// All fields: few in the order they came in, many in no particular one.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match self.0.form() {
            Form::Packed(packed) => FieldIter::Small(SmallFields::of(packed)),
            Form::Large(fields) => FieldIter::Large(Box::new(fields.dict.iter())),
        })
    }

    /// A field chosen evenly among all; `None` if there is none. Expected O(1), of a small hash O(fields).
    pub fn random(&self, random: &mut Random) -> Option<Field<'_>> {
        match self.0.form() {
            Form::Large(fields) => fields.dict.random(random).map(to_field),
            Form::Packed(_) if self.is_empty() => None,
            Form::Packed(_) => self.iter().nth(random.below(self.len())),
        }
    }

    /// Visits about `count` fields from `cursor` on, small hashes whole, and returns where to go on; 0 at the end. What
    /// is there all the time is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Field<'_>)) -> u64 {
        match self.0.form() {
            Form::Large(fields) => fields.dict.scan(cursor, count, &mut |name, stored| visit(to_field((name, stored)))),
            Form::Packed(_) => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// Brings what looking up some fields needs into the cache, step by step for all of them.
    pub fn prefetch(&self, hashes: &[u64]) {
        if let Some(fields) = self.0.prefetch() {
            fields.dict.prefetch(hashes);
        }
    }
}

impl CollectionMut<'_, Hash> {
    /// As [`Hash::set`]; in place where the value keeps its length.
    #[inline]
    pub fn set(&mut self, name: &[u8], value: &[u8], limits: &PairLimits) -> bool {
        self.set_with_expiry(name, value, None, limits)
    }

    /// As [`Hash::set_with_expiry`]; in place where the value keeps its length and no field can expire.
    #[inline]
    pub fn set_with_expiry(&mut self, name: &[u8], value: &[u8], expiry: Option<i64>, limits: &PairLimits) -> bool {
        let is_done = expiry.is_none() && self.overwrite(name, value, limits);
        !is_done && Hash::set_with_expiry(self, name, value, expiry, limits)
    }

    /// As [`Hash::make_room_for`].
    #[inline]
    pub fn make_room_for(&mut self, len: usize, limits: &PairLimits) {
        if len > limits.listpack_value_len_max {
            Hash::make_room_for(self, len, limits);
        }
    }

    /// Overwrites a value of the same length in an embedded run in which no field can expire; returns whether it could.
    #[inline]
    fn overwrite(&mut self, name: &[u8], value: &[u8], limits: &PairLimits) -> bool {
        if name.len().max(value.len()) > limits.listpack_value_len_max {
            return false;
        }
        let Some(run) = self.run_in_place().filter(|run| !has_expiries(run)) else { return false };
        let Some((at, _)) = find(run, name) else { return false };
        let at = element(run, value_at(run, at));
        let fits = at.len() == value.len();
        if fits {
            run[at].copy_from_slice(value);
        }
        fits
    }
}

fn to_field<'a>((name, stored): (&'a [u8], &'a [u8])) -> Field<'a> {
    let (value, expiry) = fields::read(stored);
    Field { name, value, expiry }
}

/// The fields of a hash.
pub struct Iter<'a>(FieldIter<'a>);

enum FieldIter<'a> {
    Small(SmallFields<'a>),
    Large(Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match &mut self.0 {
            FieldIter::Small(fields) => fields.next().map(|(_, field)| field),
            FieldIter::Large(fields) => fields.next().map(to_field),
        }
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        let same = |field: Field<'_>| other.field(field.name) == Some((field.value, field.expiry));
        self.len() == other.len() && self.iter().all(same)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const LIMITS: PairLimits = PairLimits { listpack_entries_max: 8, listpack_value_len_max: 10 };

    #[test]
    fn few_fields_keep_their_order() {
        let mut hash = Hash::default();
        for (name, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("b", "longer")] {
            hash.set(name.as_bytes(), value.as_bytes(), &LIMITS);
        }
        let fields: Vec<_> = hash.iter().map(|field| (field.name, field.value)).collect();
        assert_eq!(fields, [(&b"b"[..], &b"longer"[..]), (b"a", b"2"), (b"c", b"3")]);
        assert!(hash.remove(b"a") && !hash.remove(b"a"));
        assert_eq!((hash.len(), hash.get(b"c")), (2, Some(&b"3"[..])));
    }

    #[test]
    fn forms_change_at_their_limits() {
        let mut hash = Hash::default();
        (0..8).for_each(|n| assert!(hash.set(&[n], b"v", &LIMITS)));
        assert_eq!(hash.encoding(), Encoding::Listpack);
        hash.set(&[8], b"v", &LIMITS);
        assert_eq!((hash.encoding(), hash.len()), (Encoding::Hashtable, 9));
        let mut hash = Hash::default();
        hash.set(b"field", b"0123456789", &LIMITS);
        assert_eq!(hash.encoding(), Encoding::Listpack);
        hash.set_expiry(b"field", Some(5));
        assert_eq!(hash.encoding(), Encoding::ListpackEx);
        hash.set(b"field", b"0123456789x", &LIMITS);
        assert_eq!((hash.encoding(), hash.next_expiry()), (Encoding::Hashtable, None));
    }

    /// Sets, removes and expires fields at random, across the thresholds, against a map.
    #[test]
    fn agrees_with_a_map() {
        let operations = if cfg!(miri) { 600 } else { 150_000 };
        let mut random = Random::new(5);
        let mut hash = Hash::default();
        let mut model: HashMap<Vec<u8>, (Vec<u8>, Option<i64>)> = HashMap::new();
        for step in 0..operations {
            if step % 151 == 0 {
                (hash, model) = (Hash::default(), HashMap::new());
            }
            let name = format!("f{}", random.below(if step / 151 % 2 == 0 { 8 } else { 30 })).into_bytes();
            let value = vec![b'v'; random.below(if step / 151 % 3 == 0 { 30 } else { 10 })];
            let expiry = Some(random.below(1000) as i64);
            match random.below(8) {
                0..3 => {
                    assert_eq!(hash.set(&name, &value, &LIMITS), !model.contains_key(&name));
                    model.insert(name, (value, None));
                }
                3 => {
                    assert_eq!(hash.set_with_expiry(&name, &value, expiry, &LIMITS), !model.contains_key(&name));
                    model.insert(name, (value, expiry));
                }
                4 => {
                    let expiry = expiry.filter(|at| at % 3 > 0);
                    assert_eq!(hash.set_expiry(&name, expiry), model.contains_key(&name));
                    model.entry(name).and_modify(|field| field.1 = expiry);
                }
                5 => {
                    let now_ms = random.below(300) as i64;
                    let mut gone = Vec::new();
                    hash.expire_due(now_ms, usize::MAX, &mut |name| gone.push(name.to_vec()));
                    assert!(gone.iter().all(|name| model.remove(name).is_some_and(|field| field.1 <= Some(now_ms))));
                    assert!(model.values().all(|field| field.1.is_none_or(|at| at > now_ms)));
                }
                _ => assert_eq!(hash.remove(&name), model.remove(&name).is_some()),
            }
            assert_eq!((hash.len(), hash.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(hash.next_expiry(), model.values().filter_map(|field| field.1).min());
            let same = |field: Field<'_>| model.get(field.name) == Some(&(field.value.to_vec(), field.expiry));
            assert!(step % 7 > 0 || hash.iter().all(same) && hash == hash.clone());
        }
    }
}
