//! Values: written ones are read back, and wrong ones are refused.

use proptest::prelude::*;

use super::*;

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..30),
        2 => any::<i64>().prop_map(|int| int.to_string().into_bytes()),
        2 => (-200..200i64).prop_map(|int| int.to_string().into_bytes()),
        1 => (any::<u8>(), 0..3000usize).prop_map(|(byte, len)| vec![byte; len]),
        1 => prop::collection::vec(any::<u8>(), 0..20_000),
    ]
}

fn any_score() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>().prop_filter("a number", |score| !score.is_nan()), (-50..50i32).prop_map(f64::from)]
}

fn any_id() -> impl Strategy<Value = StreamId> {
    prop_oneof![
        (0..40u64, 0..4u64).prop_map(|(ms, seq)| StreamId { ms, seq }),
        (any::<u64>(), any::<u64>()).prop_map(|(ms, seq)| StreamId { ms, seq }),
    ]
}

fn any_fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let names = prop::sample::select(vec!["name", "1", "another"]).prop_map(|name| name.as_bytes().to_vec());
    prop_oneof![
        prop::collection::vec((names, any_bytes()), 1..3),
        any_bytes().prop_map(|value| vec![(b"field".to_vec(), value)]),
    ]
}

prop_compose! {
    fn any_group(ids: Vec<StreamId>)(
        names in prop::collection::btree_set(any_bytes(), 1..4),
        owners in prop::collection::vec(0..5usize, ids.len()),
        last_id in any_id(),
        entries_read in prop::option::of(0..1000u64),
        times in prop::collection::vec(any::<i64>(), 4),
        count in any::<u64>(),
    ) -> CollectedGroup {
        let mut group = CollectedGroup { last_id, entries_read, ..CollectedGroup::default() };
        for (name, seen_ms) in names.iter().zip(&times) {
            let consumer = CollectedConsumer { seen_ms: *seen_ms, ..CollectedConsumer::default() };
            group.consumers.insert(name.clone(), consumer);
        }
        for (id, owner) in ids.iter().zip(&owners) {
            if let Some(name) = names.iter().nth(*owner) {
                group.pending.insert(*id, StreamPending { id: *id, delivered_ms: times[0], count });
                group.consumers.get_mut(name).unwrap().pending.insert(*id);
            }
        }
        group
    }
}

fn any_stream() -> impl Strategy<Value = Collected> {
    let entries = prop::collection::btree_map(any_id(), any_fields(), 0..250);
    entries.prop_flat_map(|entries| {
        let ids: Vec<StreamId> = entries.keys().copied().take(20).collect();
        let groups = prop::collection::btree_map(any_bytes(), any_group(ids), 0..3);
        (Just(entries), groups, any_id(), any::<u64>()).prop_map(|(entries, groups, deleted, added)| {
            let history = StreamHistory {
                first_id: entries.keys().next().copied().unwrap_or_default(),
                max_deleted_id: deleted,
                entries_added: added.max(entries.len() as u64),
            };
            let last_id = entries.keys().last().copied().unwrap_or_default();
            let state = StreamState { len: entries.len() as u64, last_id, history: Some(history) };
            Collected::Stream(CollectedStream { entries: entries.into_iter().collect(), state, groups })
        })
    })
}

fn any_value() -> impl Strategy<Value = Collected> {
    let expiry = prop::option::of(1..1i64 << 47);
    prop_oneof![
        any_bytes().prop_map(Collected::String),
        prop::collection::vec(any_bytes(), 1..60).prop_map(Collected::List),
        prop::collection::btree_set(any_bytes(), 1..60).prop_map(Collected::Set),
        prop::collection::btree_set(any::<i64>().prop_map(|int| int.to_string().into_bytes()), 1..60)
            .prop_map(Collected::Set),
        prop::collection::btree_map(any_bytes(), any_score(), 1..60).prop_map(Collected::SortedSet),
        prop::collection::btree_map(any_bytes(), (any_bytes(), Just(None)), 1..60).prop_map(Collected::Hash),
        prop::collection::btree_map(any_bytes(), (any_bytes(), expiry), 1..60).prop_map(Collected::Hash),
        any_stream(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some() { 400 } else { 100 }))]

    #[test]
    fn what_is_written_is_read(value in any_value(), compress: bool, small: bool) {
        let mut encoder = Encoder::new(compress);
        value.encode(encoder.payload(), small);
        let version = encoder.version();
        let mut payload = encoder.take();
        seal_payload(&mut payload, version);
        let body = open_payload(&payload).expect("a good footer");
        prop_assert_eq!(decode(body).unwrap(), value);
        // Skipping ends where decoding ends.
        let mut cursor = cursor::Cursor::new(&body[1..], 0);
        skip::skip_value(body[0], &mut cursor).unwrap();
        prop_assert!(cursor.is_at_end());
    }

    #[test]
    fn a_cut_or_changed_value_is_refused_or_read(value in any_value(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut encoder = Encoder::new(true);
        value.encode(encoder.payload(), true);
        let mut body = encoder.take();
        let at = at.index(body.len());
        prop_assert!(decode(&body[..at]).is_err());
        body[at] = byte;
        let _ = decode(&body);
    }
}

#[test]
fn integers_of_packed_collections_come_as_integers() {
    let mut encoder = Encoder::new(false);
    encoder.payload().list(["1", "-70000", "x"].iter().map(|text| Text::Bytes(text.as_bytes())));
    let mut seen = Counter::default();
    decode_payload(encoder.bytes(), &mut seen, &mut Scratch::default()).unwrap();
    assert_eq!((seen.ints, seen.pieces), (2, 3));
}

#[test]
fn a_length_that_is_claimed_takes_no_memory() {
    for body in [&b"\x01\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x01a"[..], b"\x04\x80\xff\xff\xff\xff\x01a\x01b"] {
        assert!(matches!(decode(body), Err(RdbError::Truncated { .. })));
        let mut cursor = cursor::Cursor::new(&body[1..], 0);
        assert!(matches!(skip::skip_value(body[0], &mut cursor), Err(RdbError::Truncated { .. })));
    }
    let cursor = cursor::Cursor::new(b"abc", 0);
    assert_eq!(cursor.hint(u64::MAX), 3);
}

#[test]
fn duplicates_are_refused() {
    let member = Refused::DUPLICATE_MEMBER.0;
    let field = Refused::DUPLICATE_FIELD.0;
    assert_eq!(complaint(b"\x02\x02\x01a\x01a"), member);
    assert_eq!(complaint(b"\x02\x02\x0212\xc0\x0c"), member);
    assert_eq!(complaint(b"\x03\x02\x01a\x011\x01a\x012"), member);
    assert_eq!(complaint(b"\x04\x02\x01a\x01b\x01a\x01c"), field);
    let packed = |kind: u8, elements: &[&str]| [&[kind][..], &stored(&listpack(elements))].concat();
    assert_eq!(complaint(&packed(kind::SET_LISTPACK, &["a", "b", "a"])), member);
    assert_eq!(complaint(&packed(kind::SORTED_SET_LISTPACK, &["a", "1", "a", "2"])), member);
    assert_eq!(complaint(&packed(kind::HASH_LISTPACK, &["a", "1", "a", "2"])), field);
}

#[test]
fn what_cannot_be_in_a_packed_collection_is_refused() {
    let packed = |kind: u8, elements: &[&str]| complaint(&[&[kind][..], &stored(&listpack(elements))].concat());
    assert_eq!(packed(kind::HASH_LISTPACK, &["a"]), "a field without a value");
    assert_eq!(packed(kind::SORTED_SET_LISTPACK, &["a"]), "a member without a score");
    assert_eq!(packed(kind::SORTED_SET_LISTPACK, &["a", "b"]), "a score that is no number");
    assert_eq!(packed(kind::SORTED_SET_LISTPACK, &["a", "nan"]), "a score that is no number");
    assert_eq!(packed(kind::SET_INTSET, &["a"]), "an intset of integers of unknown width");
    assert_eq!(packed(kind::HASH_LISTPACK_EX_PRE_GA, &["a", "b"]), "a field without an expiry");
    assert_eq!(packed(kind::HASH_LISTPACK_EX_PRE_GA, &["a", "b", "x"]), "an expiry of a field that is out of range");
    assert_eq!(packed(kind::HASH_LISTPACK_EX_PRE_GA, &["a", "b", "-1"]), "an expiry of a field that is out of range");
    assert_eq!(complaint(b"\x0b\xc0\x05"), "a number in the place of a packed collection");
    assert_eq!(complaint(b"\x12\x01\x03\x01a"), "a node of a list of unknown form");
    let nan = [&b"\x05\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat();
    assert_eq!(complaint(&nan), "a score that is no number");
    assert_eq!(complaint(b"\x03\x01\x01a\xfd"), "a score that is no number");
    assert_eq!(complaint(b"\x00\x01ab"), "bytes behind the value");
    assert_eq!(complaint(b"\x1a\x01a"), "a value of an unknown type");
    assert_eq!(complaint(b"\xff"), "a value of an unknown type");
}

#[test]
fn collections_without_elements_are_told_apart() {
    for kind in
        [kind::LIST, kind::SET, kind::SORTED_SET_2, kind::HASH, kind::LIST_QUICKLIST_2, kind::HASH_METADATA_PRE_GA]
    {
        assert!(matches!(decode(&[kind, 0]), Err(RdbError::Empty { at: 1 })), "{kind}");
    }
    for kind in [kind::SET_LISTPACK, kind::SORTED_SET_LISTPACK, kind::HASH_LISTPACK, kind::HASH_LISTPACK_EX_PRE_GA] {
        let body = [&[kind][..], &stored(&listpack(&[]))].concat();
        assert!(matches!(decode(&body), Err(RdbError::Empty { at: 1 })), "{kind}");
    }
}

#[test]
fn fields_expire_as_their_encoding_says() {
    let of = |fields: [(&str, Option<i64>); 2]| {
        Collected::Hash(fields.map(|(name, expiry)| (name.as_bytes().to_vec(), (b"v".to_vec(), expiry))).into())
    };
    let expected = of([("a", None), ("b", Some(1000))]);
    let mut released = vec![kind::HASH_METADATA];
    released.extend_from_slice(&1000i64.to_le_bytes());
    released.extend_from_slice(b"\x02\x00\x01a\x01v\x01\x01b\x01v");
    assert_eq!(decode(&released).unwrap(), expected);
    assert_eq!(decode(b"\x16\x02\x00\x01a\x01v\x43\xe8\x01b\x01v").unwrap(), expected);
    let pairs = stored(&listpack(&["b", "v", "1000", "a", "v", "0"]));
    assert_eq!(decode(&[&[kind::HASH_LISTPACK_EX_PRE_GA][..], &pairs].concat()).unwrap(), expected);
    let released = [&[kind::HASH_LISTPACK_EX][..], &1000i64.to_le_bytes(), &pairs].concat();
    assert_eq!(decode(&released).unwrap(), expected);
    let mut late = vec![kind::HASH_METADATA];
    late.extend_from_slice(&i64::MAX.to_le_bytes());
    late.extend_from_slice(b"\x01\x01\x01a\x01v");
    assert_eq!(complaint(&late), "an expiry of a field that is out of range");
}

#[test]
fn values_of_modules_are_refused_by_name() {
    let letters = [17u64, 30, 9, 18, 14, 13, 62, 17, 11];
    let id = letters.iter().fold(0, |id, letter| id << 6 | letter) << 10 | 3;
    let body = [
        &[kind::MODULE_2, 0x81][..],
        &id.to_be_bytes(),
        b"\x02\x05\x05\x03abc\x04\0\0\0\0\0\0\0\0\x03\0\0\0\0\x01\x07\0",
    ];
    let error = decode(&body.concat()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a value of the module type ReJSON-RL, version 3, at byte 1: modules are not supported"
    );
    assert_eq!(complaint(b"\x07\x01\x06"), "data of a module of an unknown form");
}
