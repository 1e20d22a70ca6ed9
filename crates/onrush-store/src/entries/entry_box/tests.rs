use super::*;
use crate::Encoding;

fn embedded(bytes: &[u8]) -> Payload<'_> {
    Payload::Embedded { bytes, raw: false }
}

fn shared(len: usize) -> Payload<'static> {
    Payload::Shared(Arc::new(vec![b'x'; len]))
}

fn bytes(entry: &Entry) -> Vec<u8> {
    entry.value().to_bytes(&mut itoa::Buffer::new()).to_vec()
}

/// A list of `len` elements of seven bytes.
fn list(len: usize) -> crate::List {
    let mut list = crate::List::default();
    (0..len).for_each(|_| list.push(crate::End::Back, b"element", &crate::ListLimits::default()));
    list
}

#[test]
fn a_collection_is_found_by_its_type_alone() {
    for (len, is_embedded) in [(1, true), (100, false)] {
        let mut entry = EntryBox::new(b"k", Payload::Collection(list(len).into()), Some(5), 0);
        assert_eq!((entry.ty(), entry.has_run()), (Type::List, is_embedded));
        assert!(entry.collection::<crate::Set>().is_none() && entry.collection_mut::<crate::Hash>().is_none());
        assert_eq!(entry.collection_mut::<crate::List>().is_none(), is_embedded);
        assert_eq!(entry.collection::<crate::List>().map(crate::List::len), Some(len));
        let copy = entry.to_value();
        assert_eq!(copy, entry.into_value());
    }
}

#[test]
fn an_embedded_run_is_replaced_in_place_as_long_as_it_fits() {
    let mut entry = EntryBox::new(b"key", Payload::Collection(list(3).into()), None, 0);
    assert_eq!((entry.shape().run_capacity(), size_of_val(&*entry)), (36, 48));
    assert!(entry.set_run(&[7; 36]) && !entry.set_run(&[7; 37]));
    assert_eq!(entry.run_mut().map(|run| run.to_vec()), Some(vec![7; 36]));
    assert!(entry.set_run(&[]) && entry.collection::<crate::List>().unwrap().is_empty());
    let mut entry = EntryBox::new(b"key", Payload::Collection(list(20).into()), None, 0);
    assert_eq!(size_of_val(&*entry), 192);
    assert!(entry.set_run(&[7; 90]) && !entry.set_run(&[7; 60]));
    assert_eq!((entry.replace_run(list(3)), size_of_val(&*entry)), (Some(list(3).into_run().unwrap()), 48));
    assert_eq!((entry.replace_run(list(100)), entry.has_run()), (None, false));
    assert_eq!(entry.collection::<crate::List>(), Some(&list(100)));
}

/// None, wide ones, and narrow ones with their bounds.
const EXPIRES: [Option<i64>; 7] = [
    None,
    Some(i64::MIN),
    Some(1_599_999_999_999),
    Some(1_600_000_000_000),
    Some(1_600_000_000_000 + (1 << 40) - 1),
    Some(1_600_000_000_000 + (1 << 40)),
    Some(i64::MAX),
];

#[test]
fn short_entries_take_few_bytes() {
    let key = b"key:000000000001";
    let size = |payload, expire| EntryBox::new(key, payload, expire, 0).size_bytes();
    assert_eq!(size(embedded(b"abc"), None), 32);
    assert_eq!(size(embedded(b"abc"), Some(1_700_000_000_000)), 32);
    assert_eq!(size(embedded(b"abc"), Some(1)), 40);
    assert_eq!(size(Payload::Int(-1), Some(1_700_000_000_000)), 40);
    assert_eq!(size(Payload::Int(-1), None), 32);
    assert_eq!(size(shared(600), None), 32 + 16 + 24 + 600);
}

#[test]
fn an_entry_reads_back_what_it_was_made_of() {
    for key_len in [0, 1, 7, 8, 255, 256, 1000] {
        let key = vec![b'k'; key_len];
        for expire in EXPIRES {
            for value_len in [0, 1, 44, 45, EMBED_VALUE_LEN_MAX] {
                let value = vec![b'v'; value_len];
                let entry = EntryBox::new(&key, embedded(&value), expire, 0x0123_4567);
                assert_eq!(entry.key(), key);
                assert_eq!(entry.value(), ValueRef::Bytes(&value));
                assert_eq!(entry.expire_at(), expire);
                assert_eq!(entry.clock(), 0x23_4567);
                let encoding = [Encoding::Embstr, Encoding::Raw][usize::from(value_len > 44)];
                assert_eq!(entry.encoding(), encoding);
            }
            let entry = EntryBox::new(&key, Payload::Int(i64::MIN), expire, 0);
            assert_eq!((entry.key(), entry.expire_at()), (&key[..], expire));
            assert_eq!(entry.value(), ValueRef::Int(i64::MIN));
        }
    }
}

/// Every value turns into every other, with and without an expiry before and after.
#[test]
fn rewriting_keeps_the_key_the_clock_and_the_snapshot_bit() {
    let values = [
        NewForm::Int,
        NewForm::Embedded(0),
        NewForm::Embedded(3),
        NewForm::Embedded(11),
        NewForm::Embedded(512),
        NewForm::Shared,
        NewForm::List(1),
        NewForm::List(30),
        NewForm::List(40),
        NewForm::List(100),
    ];
    let key_lens: &[usize] = if cfg!(miri) { &[5, 300] } else { &[0, 5, 16, 255, 256, 300] };
    for &key_len in key_lens {
        let key = vec![b'k'; key_len];
        for (from, to) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
            let expires = [None, Some(4), Some(1_700_000_000_000)];
            for (before, after) in expires.iter().flat_map(|a| expires.map(|b| (*a, b))) {
                let mut entry = EntryBox::new(&key, from.payload(), before, 7);
                entry.set_snapshot_bit(true);
                let displaced = entry.rewrite(to.payload(), after);
                let is_outside = match from {
                    NewForm::List(len) => *len > 31 || key_len > 255,
                    form => matches!(form, NewForm::Shared),
                };
                assert_eq!(displaced.is_some(), is_outside);
                assert_eq!(entry.key(), key);
                assert_eq!((entry.expire_at(), entry.clock()), (after, 7));
                assert!(entry.snapshot_bit());
                let fresh = EntryBox::new(&key, to.payload(), after, 7);
                assert_eq!(entry.value(), fresh.value());
                assert_eq!(entry.size_bytes(), fresh.size_bytes());
            }
        }
    }
}

enum NewForm {
    Int,
    Embedded(usize),
    Shared,
    List(usize),
}

impl NewForm {
    fn payload(&self) -> Payload<'static> {
        match self {
            NewForm::Int => Payload::Int(42),
            NewForm::Embedded(len) => embedded(&[b'e'; 512][..*len]),
            NewForm::Shared => shared(513),
            NewForm::List(len) => Payload::Collection(list(*len).into()),
        }
    }
}

#[test]
fn an_expiry_comes_and_goes_without_touching_the_rest() {
    let payloads = || [embedded(b"value"), Payload::Int(7), shared(600)].into_iter();
    let lists = || [1, 20, 100].map(|len| Payload::Collection(list(len).into())).into_iter();
    for (key_len, payload) in [20, 300].into_iter().flat_map(|len| payloads().chain(lists()).map(move |p| (len, p))) {
        let mut entry = EntryBox::new(&vec![b'k'; key_len], payload, None, 3);
        let value = entry.to_value();
        for expire in EXPIRES.iter().flat_map(|a| EXPIRES.map(|b| [*a, b])).flatten() {
            entry.set_expire(expire);
            assert_eq!(entry.expire_at(), expire);
            assert_eq!(entry.key(), vec![b'k'; key_len]);
            assert_eq!(entry.to_value(), value);
        }
    }
}

#[test]
fn appending_goes_from_an_integer_to_a_buffer_of_its_own() {
    for expire in [None, Some(9), Some(1_700_000_000_000)] {
        let mut entry = EntryBox::new(b"k", Payload::Int(-12), expire, 0);
        let mut expected = b"-12".to_vec();
        for _ in 0..150 {
            expected.extend_from_slice(b"abcde");
            assert_eq!(entry.append(b"abcde"), expected.len());
            assert_eq!(bytes(&entry), expected);
            assert_eq!(entry.encoding(), Encoding::Raw);
            assert_eq!((entry.key(), entry.expire_at()), (&b"k"[..], expire));
        }
        assert!(matches!(entry.value(), ValueRef::Shared(_)));
    }
}

#[test]
fn resizing_fills_up_with_zero_bytes() {
    let mut entry = EntryBox::new(b"k", embedded(b"abc"), None, 0);
    for len in [5, 2, 9, 2, 512, 4, 600, 3, 700] {
        let mut expected = bytes(&entry);
        expected.resize(len, 0);
        entry.resize(len);
        assert_eq!(bytes(&entry), expected);
        entry.bytes_mut().fill(b'y');
        assert_eq!(bytes(&entry), vec![b'y'; len]);
    }
}

#[test]
fn a_shared_value_that_is_edited_leaves_the_readers_copy_alone() {
    let mut entry = EntryBox::new(b"k", shared(600), None, 0);
    let ValueRef::Shared(held) = entry.value() else { panic!("a long value is shared") };
    let held = Arc::clone(held);
    entry.append(b"tail");
    entry.bytes_mut()[0] = b'!';
    assert_eq!(*held, vec![b'x'; 600]);
    assert_eq!(bytes(&entry).len(), 604);
    assert_eq!(bytes(&entry)[0], b'!');
}

#[test]
fn a_value_outlives_its_entry() {
    let value = |payload| EntryBox::new(b"k", payload, Some(1), 0).into_value();
    assert_eq!(value(Payload::Int(3)), Value::Int(3));
    assert_eq!(value(embedded(b"abc")), Value::Bytes(b"abc".to_vec()));
    assert_eq!(value(shared(600)), Value::Shared(Arc::new(vec![b'x'; 600])));
    let mut edited = EntryBox::new(b"k", embedded(b"abc"), None, 0);
    edited.append(b"d");
    assert_eq!(edited.to_value(), Value::Raw(b"abcd".to_vec()));
    assert_eq!(edited.into_value(), Value::Raw(b"abcd".to_vec()));
}

#[test]
fn a_copied_value_equals_the_one_in_the_entry() {
    for payload in [Payload::Int(-3), embedded(b"abc"), shared(600)] {
        let entry = EntryBox::new(b"k", payload, None, 0);
        let copy = entry.to_value();
        assert_eq!(copy, entry.into_value());
    }
}
