use std::collections::BTreeSet;

use super::*;
use crate::entries::value::Payload;

fn entry(n: i64) -> EntryBox {
    EntryBox::new(&n.to_be_bytes(), Payload::Int(n), None, 0)
}

fn keys(array: &BucketArray, home: usize) -> Vec<Vec<u8>> {
    array.chain(home).map(|located| located.entry().key().to_vec()).collect()
}

#[test]
fn sizes_go_up_in_four_steps_per_doubling() {
    let counts: Vec<_> = (1..20).map(bucket_count).collect();
    assert_eq!(counts, [1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28]);
    assert_eq!(BucketArray::empty().count(), 1);
}

#[test]
fn buckets_divide_the_positions_evenly_and_in_order() {
    for class in 0..20 {
        let array = BucketArray::new(class);
        let mut position = Some(0);
        for index in 0..array.count() {
            let first = position.expect("as many parts as buckets");
            assert_eq!(array.index_of(first), index);
            assert!(first == 0 || array.index_of(first - 1) == index - 1);
            position = array.position_after(index);
        }
        assert_eq!(position, None);
        assert_eq!(array.index_of(u32::MAX), array.count() - 1);
        array.drain(drop);
    }
}

#[test]
fn a_chain_stays_whole_whatever_leaves_it() {
    let lens: &[usize] = if cfg!(miri) { &[8, 9, 17] } else { &[1, 7, 8, 9, 10, 15, 16, 17, 40] };
    for &len in lens {
        for leaver in 0..len {
            let mut array = BucketArray::new(1);
            for n in 0..len {
                array.push(0, 1 + (n % 3) as u8, entry(n as i64));
            }
            let mut expected: BTreeSet<_> = keys(&array, 0).into_iter().collect();
            assert_eq!(expected.len(), len);
            // One from anywhere, then the rest from the front.
            let mut leaver = array.chain(0).nth(leaver).map(|located| located.entry().key().to_vec());
            while let Some(key) = leaver {
                let removed = array.remove_first(0, |located| located.entry().key() == key).expect("in the chain");
                assert!(expected.remove(removed.key()));
                assert_eq!(keys(&array, 0).into_iter().collect::<BTreeSet<_>>(), expected);
                leaver = array.chain(0).next().map(|located| located.entry().key().to_vec());
            }
            assert!(expected.is_empty());
            array.drain(drop);
        }
    }
}

#[test]
fn entries_are_found_by_tag_and_key_along_the_chain() {
    let mut array = BucketArray::new(4);
    for n in 0..30 {
        array.push(if n % 2 == 0 { 0 } else { u32::MAX }, 1 + (n % 4) as u8, entry(n));
    }
    for n in 0..30_i64 {
        let position = if n % 2 == 0 { 0 } else { u32::MAX };
        let (tag, key) = (1 + (n % 4) as u8, n.to_be_bytes());
        assert_eq!(array.find(position, tag, &key).expect("pushed").entry().key(), key);
        assert!(array.find_mut(!position, tag, &key).is_err());
        let removed = array.find_mut(position, tag, &key).ok().expect("pushed").remove(position).0;
        assert_eq!(removed.key(), key);
        array.push(position, tag, removed);
        assert!(array.find(!position, tag, &key).is_none());
        array.prefetch_entry(position, tag);
    }
    assert!(BucketArray::empty().find(5, 1, b"k").is_none());
    array.drain(drop);
}

#[test]
fn an_edit_that_panics_leaves_the_entry_in_place() {
    let mut array = BucketArray::new(1);
    let mut located = array.push(0, 9, entry(1));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        located.edit(|entry| {
            entry.set_expire(Some(5));
            panic!("midway");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(located.entry().expire_at(), Some(5));
    assert!(located.borrow_mut().word().is_timed());
    assert!(array.find(0, 9, &1_i64.to_be_bytes()).is_some());
    array.drain(drop);
}
