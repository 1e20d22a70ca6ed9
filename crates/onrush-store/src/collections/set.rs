//! Sets: unordered unique members.

mod intset;

use crate::collections::dict::{self, Dict};
use crate::collections::{enlarge, frozen_form};
use crate::entries::compact::{Compact, Form, FormMut, embedded};
use crate::entries::listpack::{self, Elements};
use crate::strings::int::parse_int;
use crate::{Encoding, Filling, Packed, Random, SetLimits, equal, member_hash};

/// First byte of members in a listpack; of integers it is their width.
const LISTPACK: u8 = 0;

/// Where the members begin in the small forms.
const START: usize = 1;

/// Members that are looked up together.
const PROBE_LEN_MAX: usize = 16;

/// Unordered unique members.
///
/// A few integers are kept sorted, a few others in the order they came in, many in a [`Dict`]. An empty set has no form
/// yet.
#[derive(Clone, Debug, Default)]
#[repr(transparent)]
pub struct Set(Compact<Dict>);

embedded!(Set);

/// A member read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    /// An integer, of a set that keeps integers.
    Int(i64),
    /// Any other.
    Bytes(&'a [u8]),
}

impl<'a> Member<'a> {
    /// Its bytes; an integer is spelled out into `buffer`.
    #[inline]
    pub fn to_bytes<'b>(self, buffer: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Member::Int(n) => buffer.format(n).as_bytes(),
            Member::Bytes(bytes) => bytes,
        }
    }
}

/// Which form a small set has.
enum Small<'a> {
    Empty,
    Integers(&'a [u8]),
    Listpack(&'a [u8]),
}

fn small(packed: &[u8]) -> Small<'_> {
    match packed.first() {
        Some(&LISTPACK) => Small::Listpack(packed),
        Some(_) if packed.len() > START => Small::Integers(packed),
        _ => Small::Empty,
    }
}

/// Where in a listpack a member is.
fn position(packed: &[u8], member: &[u8]) -> Option<usize> {
    let mut elements = Elements::new(packed, START);
    loop {
        let at = elements.at();
        if equal(elements.next()?, member) {
            return Some(at);
        }
    }
}

impl Set {
    /// An empty set in the form that Redis chooses for `hint` members of which `first` is the first.
    pub fn for_members(first: &[u8], hint: usize, limits: &SetLimits) -> Self {
        if parse_int(first).is_some() && hint <= limits.intset_entries_max {
            return Set::default();
        }
        if hint <= limits.listpack_entries_max { Set::listpack() } else { Set(Compact::large(Box::new(Dict::new()))) }
    }

    /// An empty set that keeps its members, even if they are integers, in the order they come in.
    pub fn listpack() -> Self {
        Set(Compact::packed(Packed::from(&[LISTPACK][..])))
    }

    /// The union of some sets, in the form of a set to which the members were added one by one. Amortised O(members);
    /// the members of the largest set are copied without a look-up.
    pub fn union(sets: &[&Set], limits: &SetLimits) -> Self {
        let mut all = Set::default();
        let large = (0..sets.len()).filter_map(|index| Some((index, sets[index].0.as_large()?)));
        let copied = large.max_by_key(|(_, dict)| dict.len()).filter(|(_, dict)| limits.are_exceeded_by(dict.len()));
        if let Some((_, dict)) = copied {
            all = Set(Compact::large(Box::new(dict.clone())));
        }
        for (index, set) in sets.iter().enumerate() {
            match (all.0.form_mut(), set.0.as_large()) {
                _ if copied.is_some_and(|(copied, _)| copied == index) => {}
                (FormMut::Large(dict), Some(other)) => dict.add_keys(other),
                _ => all.extend(set.iter(), limits),
            }
        }
        all
    }

    /// A set of distinct members, in the form of a set to which they were added one by one, or, if `as_listpack`, added
    /// to [`Set::listpack`]. Amortised O(members).
    pub fn of_distinct(members: &[&[u8]], as_listpack: bool, limits: &SetLimits) -> Self {
        let mut all = if as_listpack { Set::listpack() } else { Set::default() };
        if limits.are_exceeded_by(members.len()) {
            let mut dict = Dict::for_len(members.len());
            members.iter().for_each(|member| _ = dict.insert(member, &[]));
            all = Set(Compact::large(Box::new(dict)));
        } else {
            members.iter().for_each(|member| _ = all.insert(member, limits));
        }
        all
    }

    /// A large set as it is now, which shares its members with this one; `None` if it is small. O(members / 500).
    pub(crate) fn freeze(&mut self) -> Option<Self> {
        frozen_form(&mut self.0, Dict::freeze).map(Set)
    }

    pub(crate) fn thaw(&mut self) {
        if let FormMut::Large(dict) = self.0.form_mut() {
            dict.thaw();
        }
    }

    fn extend<'a>(&mut self, members: impl Iterator<Item = Member<'a>>, limits: &SetLimits) {
        members.for_each(|member| _ = self.insert(member.to_bytes(&mut itoa::Buffer::new()), limits));
    }

    /// Changes to the large form if the small one is not to take `hint` more members, whether or not they are new, as
    /// Redis 7.2 does. O(1) if it stays small.
    pub fn expect(&mut self, hint: usize, limits: &SetLimits) {
        let Form::Packed(packed) = self.0.form() else { return };
        let max = match small(packed) {
            Small::Empty => return,
            Small::Integers(_) => limits.intset_entries_max,
            Small::Listpack(_) => limits.listpack_entries_max,
        };
        if hint > max {
            self.make_large();
        }
    }

    /// Whether a member can be kept as an integer. O(length).
    pub fn is_integer(member: &[u8]) -> bool {
        parse_int(member).is_some()
    }

    /// Number of members. O(1), of a small set O(members).
    pub fn len(&self) -> usize {
        match self.0.form() {
            Form::Large(dict) => dict.len(),
            Form::Packed(packed) => match small(packed) {
                Small::Empty => 0,
                Small::Integers(packed) => intset::len(packed),
                Small::Listpack(packed) => Elements::new(packed, START).count(),
            },
        }
    }

    /// Whether there are none. O(1).
    pub fn is_empty(&self) -> bool {
        match self.0.form() {
            Form::Large(dict) => dict.len() == 0,
            Form::Packed(packed) => packed.len() <= START,
        }
    }

    /// The encoding, as OBJECT ENCODING reports it. O(1).
    pub fn encoding(&self) -> Encoding {
        match self.0.form() {
            Form::Large(_) => Encoding::Hashtable,
            Form::Packed(packed) => match small(packed) {
                Small::Listpack(_) => Encoding::Listpack,
                Small::Empty | Small::Integers(_) => Encoding::Intset,
            },
        }
    }

    /// The integers of a set that is an intset, in ascending order, and how many bytes each takes: 2, 4 or 8, the lowest first.
    pub fn as_intset(&self) -> Option<(usize, &[u8])> {
        match self.0.form() {
            Form::Packed(&[width, ref ints @ ..]) if width != LISTPACK => Some((usize::from(width), ints)),
            _ => None,
        }
    }

    /// Bytes allocated. O(members / 500).
    pub fn size_bytes(&self) -> usize {
        match self.0.form() {
            Form::Large(dict) => dict.size_bytes(),
            Form::Packed(_) => self.0.packed_bytes(),
        }
    }

    /// About how many allocations freeing it gives back.
    pub fn free_effort(&self) -> usize {
        self.0.as_large().map_or(1, Dict::free_effort)
    }

    /// Whether something is a member. O(1), of a small set O(members).
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0.form() {
            Form::Large(dict) => dict.get(member).is_some(),
            Form::Packed(packed) => match small(packed) {
                Small::Empty => false,
                Small::Integers(packed) => parse_int(member).is_some_and(|n| intset::search(packed, n).is_ok()),
                Small::Listpack(packed) => position(packed, member).is_some(),
            },
        }
    }

    /// Keeps those of `candidates` that are members, or those that are not, in their order. O(candidates); look-ups in
    /// a large set overlap their cache misses.
    pub fn filter<T: AsRef<[u8]>>(&self, candidates: &mut Vec<T>, members: bool) {
        let Some(dict) = self.0.as_large() else {
            candidates.retain(|candidate| self.contains(candidate.as_ref()) == members);
            return;
        };
        let mut kept = 0;
        let mut from = 0;
        while from < candidates.len() {
            let to = candidates.len().min(from + PROBE_LEN_MAX);
            let mut hashes = [0; PROBE_LEN_MAX];
            for (hash, candidate) in hashes.iter_mut().zip(&candidates[from..to]) {
                *hash = member_hash(candidate.as_ref());
            }
            dict.prefetch(&hashes[..to - from]);
            for (at, hash) in (from..to).zip(hashes) {
                if dict.get_hashed(hash, candidates[at].as_ref()).is_some() == members {
                    candidates.swap(kept, at);
                    kept += 1;
                }
            }
            from = to;
        }
        candidates.truncate(kept);
    }

    /// Prefetches what looking up some members reads. O(members looked up).
    pub fn prefetch(&self, hashes: &[u64]) {
        if let Some(dict) = self.0.prefetch() {
            dict.prefetch(hashes);
        }
    }

    /// Adds a member; returns whether it is new. Amortised O(1), to a small set O(members).
    pub fn insert(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        let packed = match self.0.form_mut() {
            FormMut::Large(dict) => return dict.insert(member, &[]),
            FormMut::Packed(packed) => packed,
        };
        match small(packed) {
            Small::Empty => match parse_int(member) {
                Some(n) if limits.intset_entries_max > 0 => {
                    *packed = intset::of(n);
                    true
                }
                _ => {
                    *packed = Packed::from(&[LISTPACK][..]);
                    self.insert(member, limits)
                }
            },
            Small::Integers(_) => self.insert_into_integers(member, limits),
            Small::Listpack(_) => {
                if position(packed, member).is_some() {
                    return false;
                }
                let fits = member.len() <= limits.listpack_value_len_max
                    && Elements::new(packed, START).count() < limits.listpack_entries_max;
                if fits {
                    let end = packed.len();
                    listpack::insert_one(packed, end, member);
                    return true;
                }
                self.make_large().insert(member, &[])
            }
        }
    }

    /// As [`Set::insert`], for a set that got all its members by this method, with one `filling`. Amortised O(1), for integers in
    /// descending order O(members).
    pub fn fill(&mut self, member: Member<'_>, filling: &mut Filling, limits: &SetLimits) -> bool {
        let mut buffer = itoa::Buffer::new();
        let packed = match self.0.form_mut() {
            FormMut::Large(dict) => return dict.insert(member.to_bytes(&mut buffer), &[]),
            FormMut::Packed(packed) => packed,
        };
        match (small(packed), member) {
            (Small::Empty, _) if limits.are_exceeded_by(filling.expected()) => {
                *self = Set(Compact::large(Box::new(Dict::for_len(filling.expected()))));
                self.insert(member.to_bytes(&mut buffer), limits)
            }
            (Small::Integers(ints), Member::Int(int))
                if filling.len() < limits.intset_entries_max && intset::is_last(ints, int) =>
            {
                intset::push(packed, int);
                filling.count();
                true
            }
            (Small::Listpack(_), _) if filling.len() < limits.listpack_entries_max => {
                let member = member.to_bytes(&mut buffer);
                let is_new = filling.note(member);
                if !is_new || member.len() > limits.listpack_value_len_max {
                    return self.insert(member, limits);
                }
                let end = packed.len();
                listpack::insert_one(packed, end, member);
                true
            }
            _ => {
                let is_new = self.insert(member.to_bytes(&mut buffer), limits);
                filling.count();
                if self.encoding() == Encoding::Listpack {
                    // Members that were kept as integers so far have not been hashed.
                    *filling = Filling::new(filling.expected());
                    self.iter().for_each(|member| _ = filling.note(member.to_bytes(&mut itoa::Buffer::new())));
                }
                is_new
            }
        }
    }

    fn insert_into_integers(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        let FormMut::Packed(packed) = self.0.form_mut() else { return false };
        if let Some(n) = parse_int(member) {
            let is_new = intset::insert(packed, n);
            if is_new && intset::len(packed) > limits.intset_entries_max {
                self.make_large();
            }
            return is_new;
        }
        let len = intset::len(packed);
        // The least or the greatest integer has the longest text.
        let spelled = |index| itoa::Buffer::new().format(intset::get(packed, index)).len();
        let longest = spelled(0).max(spelled(len - 1)).max(member.len());
        if len >= limits.listpack_entries_max || longest > limits.listpack_value_len_max {
            return self.make_large().insert(member, &[]);
        }
        let mut texts = Packed::from(&[LISTPACK][..]);
        for index in 0..len {
            let end = texts.len();
            listpack::insert_one(&mut texts, end, itoa::Buffer::new().format(intset::get(packed, index)).as_bytes());
        }
        let end = texts.len();
        listpack::insert_one(&mut texts, end, member);
        *packed = texts;
        true
    }

    fn make_large(&mut self) -> &mut Dict {
        let mut dict = Dict::new();
        for member in self.iter() {
            dict.insert(member.to_bytes(&mut itoa::Buffer::new()), &[]);
        }
        enlarge(&mut self.0, dict)
    }

    /// Removes a member; returns whether it was one. Amortised O(1), of a small set O(members).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let packed = match self.0.form_mut() {
            FormMut::Large(dict) => return dict.remove(member),
            FormMut::Packed(packed) => packed,
        };
        match small(packed) {
            Small::Empty => false,
            Small::Integers(_) => {
                let found = parse_int(member).map(|n| intset::search(packed, n));
                let Some(Ok(index)) = found else { return false };
                intset::remove_at(packed, index);
                true
            }
            Small::Listpack(_) => {
                let Some(at) = position(packed, member) else { return false };
                let end = listpack::element(packed, at).end;
                packed.remove(at..end);
                true
            }
        }
    }

    /// All members: integers ascending, those of a listpack as they came in, many in no particular order.
    pub fn iter(&self) -> Iter<'_> {
        Iter(match self.0.form() {
            Form::Large(dict) => Members::Dict(dict.iter()),
            Form::Packed(packed) => match small(packed) {
                Small::Empty => Members::Integers(&[2], 0),
                Small::Integers(packed) => Members::Integers(packed, 0),
                Small::Listpack(packed) => Members::Listpack(Elements::new(packed, START)),
            },
        })
    }

    /// A member chosen evenly among all; `None` if there is none. Expected O(1), of a small set O(members).
    pub fn random(&self, random: &mut Random) -> Option<Member<'_>> {
        match self.0.form() {
            Form::Large(dict) => dict.random(random).map(|(member, _)| Member::Bytes(member)),
            Form::Packed(_) if self.is_empty() => None,
            Form::Packed(_) => self.iter().nth(random.below(self.len())),
        }
    }

    /// Visits about `count` members from `cursor` on, small sets whole, and returns where to go on; 0 at the end. What
    /// is a member all the time is visited at least once.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Member<'_>)) -> u64 {
        match self.0.form() {
            Form::Large(dict) => dict.scan(cursor, count, &mut |member, _| visit(Member::Bytes(member))),
            Form::Packed(_) => {
                self.iter().for_each(visit);
                0
            }
        }
    }
}

/// The members of a set.
pub struct Iter<'a>(Members<'a>);

enum Members<'a> {
    Integers(&'a [u8], usize),
    Listpack(Elements<'a>),
    Dict(dict::Iter<'a>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        match &mut self.0 {
            Members::Integers(bytes, index) if *index < intset::len(bytes) => {
                *index += 1;
                Some(Member::Int(intset::get(bytes, *index - 1)))
            }
            Members::Integers(..) => None,
            Members::Listpack(elements) => elements.next().map(Member::Bytes),
            Members::Dict(members) => members.next().map(|(member, _)| Member::Bytes(member)),
        }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains(member.to_bytes(&mut itoa::Buffer::new())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn strings(set: &Set) -> BTreeSet<Vec<u8>> {
        set.iter().map(|member| member.to_bytes(&mut itoa::Buffer::new()).to_vec()).collect()
    }

    fn of(members: &[&str], limits: &SetLimits) -> Set {
        let mut set = Set::default();
        for member in members {
            assert!(set.insert(member.as_bytes(), limits));
        }
        set
    }

    #[test]
    fn forms_change_as_in_redis() {
        let limits = SetLimits { intset_entries_max: 3, listpack_entries_max: 4, listpack_value_len_max: 5 };
        let encoding = |members: &[&str]| of(members, &limits).encoding();
        assert_eq!(encoding(&["1", "2", "-3"]), Encoding::Intset);
        assert_eq!(encoding(&["1", "2", "3", "4"]), Encoding::Hashtable);
        assert_eq!(encoding(&["1", "2", "a"]), Encoding::Listpack);
        assert_eq!(encoding(&["1", "2", "3", "abcdef"]), Encoding::Hashtable);
        assert_eq!(encoding(&["1", "123456", "a"]), Encoding::Hashtable);
        assert_eq!(encoding(&["a", "b", "c", "1"]), Encoding::Listpack);
        assert_eq!(encoding(&["a", "b", "c", "1", "2"]), Encoding::Hashtable);
        assert_eq!(encoding(&["abcdef"]), Encoding::Hashtable);
        let hinted = |first: &str, hint| Set::for_members(first.as_bytes(), hint, &limits).encoding();
        assert_eq!(hinted("1", 3), Encoding::Intset);
        assert_eq!(hinted("1", 4), Encoding::Listpack);
        assert_eq!(hinted("a", 5), Encoding::Hashtable);
        let expecting = |members: &[&str], hint| {
            let mut set = of(members, &limits);
            set.expect(hint, &limits);
            assert_eq!(set.len(), members.len());
            set.encoding()
        };
        assert_eq!(expecting(&["1"], 3), Encoding::Intset);
        assert_eq!(expecting(&["1"], 4), Encoding::Hashtable);
        assert_eq!(expecting(&["a", "b"], 4), Encoding::Listpack);
        assert_eq!(expecting(&["a", "b"], 5), Encoding::Hashtable);
        let none = SetLimits { intset_entries_max: 0, ..limits };
        assert_eq!(of(&["1"], &none).encoding(), Encoding::Listpack);
    }

    #[test]
    fn what_lost_its_last_integer_takes_anything() {
        let limits = SetLimits::default();
        for next in ["x", "1", "3000000000"] {
            let mut set = of(&["3000000000"], &limits);
            assert!(set.remove(b"3000000000") && set.is_empty());
            assert_eq!((set.len(), set.iter().count(), set.contains(b"1")), (0, 0, false));
            assert!(set.insert(next.as_bytes(), &limits) && set.contains(next.as_bytes()));
            assert_eq!(set.len(), 1);
        }
    }

    #[test]
    fn integers_of_all_widths_stay_sorted() {
        let texts = ["5", "-40000", "40000", "9223372036854775807", "-9223372036854775808", "0", "-5", "3000000000"];
        let set = of(&texts, &SetLimits::default());
        let members: Vec<_> = set.iter().collect();
        let mut expected: Vec<i64> = texts.iter().map(|text| text.parse().unwrap()).collect();
        expected.sort_unstable();
        assert_eq!(members, expected.into_iter().map(Member::Int).collect::<Vec<_>>());
        assert!(texts.iter().all(|text| set.contains(text.as_bytes())));
        assert!(!set.contains(b"6") && !set.contains(b"05") && !set.contains(b"x"));
    }

    /// Adds and removes integers and others at random, across all thresholds, against a set.
    #[test]
    fn agrees_with_a_plain_set() {
        let operations = if cfg!(miri) { 500 } else { 150_000 };
        let limits = SetLimits { intset_entries_max: 16, listpack_entries_max: 12, listpack_value_len_max: 8 };
        let mut random = Random::new(11);
        let mut set = Set::default();
        let mut model = BTreeSet::new();
        for step in 0..operations {
            if step % 97 == 0 {
                (set, model) = (Set::default(), BTreeSet::new());
            }
            let n = random.below(40);
            let member = match (step / 97 % 4, random.below(30)) {
                (0, _) => n.to_string(),
                (1, 0) => format!("{:09}", n),
                (1, _) => (n * 1_000_000_007).to_string(),
                (2, _) => format!("m{}", n % 12),
                _ => format!("m{n}"),
            }
            .into_bytes();
            if random.below(3) > 0 {
                assert_eq!(set.insert(&member, &limits), model.insert(member));
            } else {
                assert_eq!(set.remove(&member), model.remove(&member));
            }
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            let probe = format!("m{}", random.below(40)).into_bytes();
            assert_eq!(set.contains(&probe), model.contains(&probe));
            if step % 13 == 0 {
                assert_eq!(strings(&set), model);
                assert_eq!(set, set.clone());
                let drawn = set.random(&mut random).map(|member| member.to_bytes(&mut itoa::Buffer::new()).to_vec());
                assert!(drawn.map_or(model.is_empty(), |member| model.contains(&member)));
            }
        }
    }

    #[test]
    fn filtering_keeps_order() {
        let limits = SetLimits::default();
        for count in [3, 100, 1000] {
            let mut set = Set::default();
            (0..count).for_each(|n| assert!(set.insert(format!("m{n}").as_bytes(), &limits)));
            let mut candidates: Vec<String> = (0..2 * count).rev().step_by(3).map(|n| format!("m{n}")).collect();
            let expected: Vec<String> = candidates.iter().filter(|m| set.contains(m.as_bytes())).cloned().collect();
            let mut others = candidates.clone();
            set.filter(&mut candidates, true);
            assert_eq!(candidates, expected);
            set.filter(&mut others, false);
            assert!(others.iter().all(|other| !expected.contains(other)));
        }
    }

    /// Sets of every form, of members that some of them share, two and three together, against a set that takes all
    /// members one by one.
    #[test]
    fn unions_are_as_members_that_came_one_by_one() {
        let limits = SetLimits { intset_entries_max: 40, listpack_entries_max: 30, listpack_value_len_max: 8 };
        let count = if cfg!(miri) { 1_000 } else { 5_000 };
        let mut ranges = vec![0..0, 0..5, 3..30, 20..60, 0..90, 50..count, 0..count, 2 * count..3 * count];
        ranges.extend([0..41, 0..31, 5..6]);
        let texts = |prefix: &str, range: std::ops::Range<usize>| {
            let texts: Vec<String> = range.map(|n| format!("{prefix}{n}")).collect();
            of(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &limits)
        };
        let sets: Vec<Set> =
            ranges.iter().flat_map(|range| ["", "m", "member:"].map(|prefix| texts(prefix, range.clone()))).collect();
        let check = |sources: &[&Set]| {
            let mut expected = Set::default();
            sources.iter().for_each(|set| expected.extend(set.iter(), &limits));
            let union = Set::union(sources, &limits);
            assert_eq!((union.len(), union.encoding()), (expected.len(), expected.encoding()), "{sources:?}");
            assert_eq!(union, expected);
        };
        check(&[]);
        let mut random = Random::new(4);
        for _ in 0..if cfg!(miri) { 3 } else { 500 } {
            let chosen: Vec<&Set> = (0..1 + random.below(3)).map(|_| &sets[random.below(sets.len())]).collect();
            check(&chosen);
        }
    }

    #[test]
    fn distinct_members_make_the_set_they_make_one_by_one() {
        let limits = SetLimits { intset_entries_max: 40, listpack_entries_max: 30, listpack_value_len_max: 8 };
        for (prefix, count) in
            [("", 0), ("", 40), ("", 41), ("m", 30), ("m", 31), ("m", 41), ("member:", 3), ("m", 3_000)]
        {
            let texts: Vec<String> = (0..count).map(|n| format!("{prefix}{n}")).collect();
            let members: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            for as_listpack in [false, true] {
                let mut expected = if as_listpack { Set::listpack() } else { Set::default() };
                members.iter().for_each(|member| assert!(expected.insert(member, &limits)));
                let set = Set::of_distinct(&members, as_listpack, &limits);
                assert_eq!((set.len(), set.encoding()), (expected.len(), expected.encoding()), "{prefix} {count}");
                assert_eq!(set, expected);
            }
        }
    }
}
