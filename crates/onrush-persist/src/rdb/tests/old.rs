//! Encodings that Redis no longer writes, built by the published formats.

use super::*;

/// A ziplist of short strings.
fn ziplist(texts: &[&str]) -> Vec<u8> {
    let (mut body, mut before_len, mut tail) = (Vec::new(), 0, 10);
    for text in texts {
        tail = 10 + body.len();
        body.extend_from_slice(&[before_len, text.len() as u8]);
        body.extend_from_slice(text.as_bytes());
        before_len = text.len() as u8 + 2;
    }
    let header = [(11 + body.len() as u32).to_le_bytes(), (tail as u32).to_le_bytes()].concat();
    [&header[..], &(texts.len() as u16).to_le_bytes(), &body, &[0xff]].concat()
}

fn of_kind(kind: u8, packed: &[u8]) -> Vec<u8> {
    [&[kind][..], &stored(packed)].concat()
}

fn hash(pairs: [(&str, &str); 2]) -> Collected {
    Collected::Hash(pairs.map(|(name, value)| (name.as_bytes().to_vec(), (value.as_bytes().to_vec(), None))).into())
}

#[test]
fn plain_collections_of_redis_2_are_read() {
    assert_eq!(decode(b"\x01\x02\x01a\xc0\x05").unwrap(), Collected::List(bytes(&["a", "5"])));
    assert_eq!(decode(b"\x02\x02\x01b\x01a").unwrap(), Collected::Set(bytes(&["a", "b"]).into_iter().collect()));
    assert_eq!(decode(b"\x04\x02\x01a\x011\x01b\x012").unwrap(), hash([("a", "1"), ("b", "2")]));
    let scored = decode(b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff").unwrap();
    let expected = [("a", 1.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)];
    assert_eq!(scored, Collected::SortedSet(expected.map(|(name, score)| (name.as_bytes().to_vec(), score)).into()));
}

#[test]
fn ziplists_and_zipmaps_are_read() {
    let list = Collected::List(bytes(&["a", "bc", "7"]));
    assert_eq!(decode(&of_kind(kind::LIST_ZIPLIST, &ziplist(&["a", "bc", "7"]))).unwrap(), list);
    let nodes = [&[kind::LIST_QUICKLIST, 2][..], &stored(&ziplist(&["a"])), &stored(&ziplist(&["bc", "7"]))].concat();
    assert_eq!(decode(&nodes).unwrap(), list);
    let pairs = hash([("f", "1"), ("g", "xyz")]);
    assert_eq!(decode(&of_kind(kind::HASH_ZIPLIST, &ziplist(&["f", "1", "g", "xyz"]))).unwrap(), pairs);
    assert_eq!(decode(&of_kind(kind::HASH_ZIPMAP, b"\x02\x01f\x01\x001\x01g\x03\x01xyz_\xff")).unwrap(), pairs);
    let scored = decode(&of_kind(kind::SORTED_SET_ZIPLIST, &ziplist(&["m", "-1.5", "n", "2"]))).unwrap();
    assert_eq!(scored, Collected::SortedSet([(b"m".to_vec(), -1.5), (b"n".to_vec(), 2.0)].into()));
}

#[test]
fn old_collections_that_contradict_themselves_are_refused() {
    assert_eq!(complaint(&of_kind(kind::HASH_ZIPLIST, &ziplist(&["f", "1", "g"]))), "a field without a value");
    assert_eq!(complaint(&of_kind(kind::HASH_ZIPLIST, &ziplist(&["f", "1", "f", "2"]))), "a field that comes twice");
    assert_eq!(complaint(&of_kind(kind::HASH_ZIPMAP, b"\x01\x01f\xff")), "a field without a value");
    assert_eq!(complaint(&of_kind(kind::SORTED_SET_ZIPLIST, &ziplist(&["m", "x"]))), "a score that is no number");
    assert!(matches!(decode(&of_kind(kind::LIST_ZIPLIST, &ziplist(&[]))), Err(RdbError::Empty { at: 1 })));
    for kind in
        [kind::LIST_ZIPLIST, kind::HASH_ZIPLIST, kind::SORTED_SET_ZIPLIST, kind::HASH_ZIPMAP, kind::LIST_QUICKLIST]
    {
        assert!(decode(&of_kind(kind, b"")).is_err());
    }
}

/// A node with an entry of each form: two with the first entry's fields, one of them deleted, and one with its own.
fn node() -> Vec<u8> {
    let master = ["2", "1", "1", "f", "0"];
    let entries = ["2", "0", "0", "v1", "4", "3", "0", "1", "v2", "4", "0", "5", "-1", "1", "g", "v3", "6"];
    listpack(&[&master[..], &entries].concat())
}

/// A stream of the first form: no history, and a group with a consumer.
fn stream(node: &[u8], len: u8, last_ms: u8, group: &[u8]) -> Vec<u8> {
    let id = StreamId { ms: 7, seq: 3 }.to_bytes();
    [&[kind::STREAM, 1, 16][..], &id, &stored(node), &[len, last_ms, 2], group].concat()
}

const ID: [u8; 16] = StreamId { ms: 7, seq: 3 }.to_bytes();

fn group(pending: &[[u8; 16]], consumers: &[(&[u8], &[[u8; 16]])]) -> Vec<u8> {
    let mut bytes = vec![1, 1, b'g', 7, 3, pending.len() as u8];
    for id in pending {
        bytes.extend_from_slice(&[&id[..], &5000i64.to_le_bytes(), &[2]].concat());
    }
    bytes.push(consumers.len() as u8);
    for (name, pending) in consumers {
        bytes.extend_from_slice(
            &[&[name.len() as u8][..], name, &6000i64.to_le_bytes(), &[pending.len() as u8]].concat(),
        );
        pending.iter().for_each(|id| bytes.extend_from_slice(id));
    }
    bytes
}

#[test]
fn streams_of_redis_5_are_read() {
    let body = stream(&node(), 2, 12, &group(&[ID], &[(b"c", &[ID]), (b"d", &[])]));
    let Collected::Stream(stream) = decode(&body).unwrap() else { panic!("no stream") };
    let entry = |ms, seq, name: &str, value: &str| {
        (StreamId { ms, seq }, vec![(name.as_bytes().to_vec(), value.as_bytes().to_vec())])
    };
    assert_eq!(stream.entries, [entry(7, 3, "f", "v1"), entry(12, 2, "g", "v3")]);
    assert_eq!(stream.state, StreamState { len: 2, last_id: StreamId { ms: 12, seq: 2 }, history: None });
    let group = &stream.groups[&b"g"[..]];
    assert_eq!((group.entries_read, group.pending.len(), group.consumers.len()), (None, 1, 2));
    assert_eq!(group.consumers[&b"c"[..]].seen_ms, 6000);
    assert!(group.consumers[&b"c"[..]].pending.contains(&StreamId { ms: 7, seq: 3 }));
}

#[test]
fn streams_that_contradict_themselves_are_refused() {
    let plain = |node: &[u8]| complaint(&stream(node, 2, 12, &[0]));
    let other = StreamId { ms: 9, seq: 9 }.to_bytes();
    let with = |group: Vec<u8>| complaint(&stream(&node(), 2, 12, &group));
    assert_eq!(complaint(&stream(&node(), 3, 12, &[0])), "a stream with another number of entries than it says");
    assert_eq!(complaint(&stream(&node(), 2, 11, &[0])), "a stream with an entry behind its last identifier");
    assert_eq!(with(group(&[ID], &[(b"c", &[])])), Refused::UNOWNED_PENDING.0);
    assert_eq!(with(group(&[ID], &[(b"c", &[ID]), (b"d", &[ID])])), Refused::FOREIGN_PENDING.0);
    assert_eq!(with(group(&[ID], &[(b"c", &[other])])), Refused::FOREIGN_PENDING.0);
    assert_eq!(with(group(&[ID, ID], &[(b"c", &[ID])])), Refused::DUPLICATE_PENDING.0);
    assert_eq!(with(group(&[ID], &[(b"c", &[ID]), (b"c", &[])])), Refused::DUPLICATE_CONSUMER.0);
    assert_eq!(plain(&listpack(&["2", "0", "1", "f", "1"])), "a node of a stream without the mark behind its fields");
    assert_eq!(plain(&listpack(&["-2", "0", "1", "f", "0"])), "a negative count in a node of a stream");
    assert_eq!(plain(&listpack(&["x"])), "a string in the place of a number, in a node of a stream");
    assert_eq!(plain(&listpack(&["1", "0", "1", "f", "0"])), "a node of a stream that ends within an entry");
    let wrong = |entries: &[&str]| plain(&listpack(&[&["2", "0", "1", "f", "0"][..], entries].concat()));
    assert_eq!(wrong(&["2", "0", "0", "v", "5"]), "an entry of a stream with a wrong length behind it");
    assert_eq!(wrong(&["2", "-1", "0", "v", "4"]), "entries of a stream that are not in ascending order");
    let equal = ["2", "0", "0", "v", "4", "2", "0", "0", "v", "4"];
    assert_eq!(wrong(&equal), "entries of a stream that are not in ascending order");
    assert_eq!(wrong(&["0", "0", "0", "0", "4"]), "an entry of a stream without fields");
    let deleted = ["2", "0", "0", "v", "4", "3", "1", "0", "v", "4"];
    assert_eq!(wrong(&deleted), "a node of a stream with another number of deleted entries than it says");
    let more = ["2", "0", "0", "v", "4", "2", "1", "0", "v", "4", "2", "2", "0", "v", "4"];
    assert_eq!(wrong(&more), "a node of a stream with more entries than it says");
    assert_eq!(
        plain(&listpack(&["9223372036854775807", "0", "1", "f", "0"])),
        "a node of a stream that ends within an entry"
    );
    assert_eq!(
        complaint(&[&[kind::STREAM, 1, 2, b'i', b'd'][..], &stored(&node())].concat()),
        "a node of a stream without an identifier"
    );
}

#[test]
fn files_of_every_version_are_read() {
    for version in 1..=12u32 {
        let mut file = format!("REDIS{version:04}").into_bytes();
        file.extend_from_slice(b"\xfe\x00\xfd\x01\x00\x00\x00\x00\x01k\x01v\xff");
        if version >= 5 {
            let sum = crc64::crc64(&file);
            file.extend_from_slice(&sum.to_le_bytes());
        }
        file.extend_from_slice(b"rest");
        let mut reader = FileReader::new(&file[..]).unwrap();
        let mut batch = Batch::default();
        assert!(reader.next_batch(&mut batch).unwrap());
        let mut items = batch.items();
        let Some(Item::Key(key)) = items.next().unwrap() else { panic!("no key") };
        assert_eq!((&*key.name, key.expires_at_ms), (&b"k"[..], Some(1000)));
        assert!(items.next().unwrap().is_none());
        assert!(!reader.next_batch(&mut batch).unwrap());
        assert_eq!((reader.version(), reader.offset()), (version, file.len() as u64 - 4));
        assert_eq!(reader.into_rest().0, b"rest");
    }
}
