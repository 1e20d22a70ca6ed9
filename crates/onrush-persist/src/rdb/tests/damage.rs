//! Damaged files: no panic, no endless loop, no unbounded memory; and a part of a file never counts as the whole.

use std::collections::BTreeMap;

use super::*;

/// A file of about `len` bytes with values of every type and encoding.
fn file(len: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(true);
    encoder.aux(b"redis-ver", Text::Bytes(b"7.2.0"));
    encoder.function(b"#!lua name=lib\nredis.register_function('f', function() return 1 end)");
    encoder.select_db(9);
    for round in 0.. {
        let texts: Vec<String> = (0..20 + round % 50).map(|index| format!("{}:{}", index * round, round)).collect();
        let as_text = |text: &String| text.clone().into_bytes();
        let numbers = (0..30).map(|index: i64| (index * round as i64 * 70_001).to_string().into_bytes());
        let id = |index: usize| StreamId { ms: 1_700_000_000_000 + 1000 * index as u64, seq: (index % 3) as u64 };
        let entry = |index: usize| (id(index), vec![(vec![b'f'; 1 + index / 20], as_text(&texts[index % 20]))]);
        let pending = StreamPending { id: id(3), delivered_ms: 5, count: 6 };
        let consumer = CollectedConsumer { pending: [id(3)].into(), ..CollectedConsumer::default() };
        let group = CollectedGroup {
            pending: [(id(3), pending)].into(),
            consumers: [(b"consumer".to_vec(), consumer)].into(),
            ..CollectedGroup::default()
        };
        let stream = CollectedStream {
            entries: (0..30).map(entry).collect(),
            state: StreamState { len: 30, last_id: id(29), history: Some(StreamHistory::default()) },
            groups: [(b"group".to_vec(), group)].into(),
        };
        let hash = |every: usize| -> BTreeMap<_, _> {
            let expiry =
                |index: usize| (every > 0 && index.is_multiple_of(every)).then_some(1_800_000_000_000 + index as i64);
            texts.iter().enumerate().map(|(index, text)| (as_text(text), (as_text(&texts[0]), expiry(index)))).collect()
        };
        let values = [
            Collected::String(texts.concat().into_bytes()),
            Collected::List(texts.iter().map(as_text).collect()),
            Collected::Set(texts.iter().map(as_text).collect()),
            Collected::Set(numbers.collect()),
            Collected::SortedSet(
                texts.iter().enumerate().map(|(index, text)| (as_text(text), index as f64 / 3.0)).collect(),
            ),
            Collected::Hash(hash(0)),
            Collected::Hash(hash(3)),
            Collected::Stream(stream),
        ];
        for (index, value) in values.iter().enumerate() {
            let name = format!("key:{round}:{index}");
            let expires_at_ms = (index % 2 == 0).then_some(1_900_000_000_000);
            let key = KeyRecord { name: name.as_bytes(), expires_at_ms, ..KeyRecord::default() };
            value.encode(encoder.key(&key), round % 2 == 0);
        }
        if encoder.bytes().len() >= len {
            break;
        }
    }
    let mut writer = FileWriter::new(Vec::new(), encoder.version(), true).unwrap();
    writer.write(encoder.bytes()).unwrap();
    writer.finish().unwrap()
}

/// Reads all of a file without checking its checksum, and counts the pieces of its values.
fn read(file: &[u8], batch: &mut Batch) -> Result<usize, RdbError> {
    let mut reader = FileReader::new(file)?.without_checksum();
    let mut counter = Counter::default();
    while reader.next_batch(batch)? {
        let mut items = batch.items();
        while let Some(item) = items.next()? {
            if let Item::Key(_) = item {
                items.value(&mut counter)?;
            }
        }
    }
    Ok(counter.pieces)
}

/// Reads a file with its checksum, without decoding values.
fn read_framed(file: &[u8], batch: &mut Batch) -> Result<(), RdbError> {
    let mut reader = FileReader::new(file)?;
    while reader.next_batch(batch)? {}
    Ok(())
}

#[test]
fn a_file_that_is_cut_anywhere_is_never_read_to_its_end() {
    let (file, mut batch) = (file(8_000), Batch::default());
    assert!(read(&file, &mut batch).is_ok());
    for len in 0..file.len() {
        assert!(
            matches!(read(&file[..len], &mut batch), Err(RdbError::Truncated { .. } | RdbError::Signature)),
            "{len}"
        );
    }
}

/// By day a file is smaller, as what reads it whole for each byte takes four times as long for twice the bytes.
fn sized(at_night: usize, by_day: usize) -> Vec<u8> {
    file(if std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some() { at_night } else { by_day })
}

/// Flips one bit of each byte, and with `ONRUSH_TEST_ALL_BITS` all bits.
#[test]
fn a_flipped_bit_in_any_byte_is_found() {
    let (mut file, mut batch) = (sized(64 << 10, 8 << 10), Batch::default());
    assert!(read_framed(&file, &mut batch).is_ok());
    let has_all = std::env::var_os("ONRUSH_TEST_ALL_BITS").is_some();
    for at in 0..file.len() {
        for bit in (0..8).filter(|bit| has_all || at % 8 == *bit) {
            file[at] ^= 1 << bit;
            assert!(read_framed(&file, &mut batch).is_err(), "bit {bit} of byte {at}");
            file[at] ^= 1 << bit;
        }
    }
}

/// Reads the next item with its value; returns whether there was one.
fn step(items: &mut Items<'_>, counter: &mut Counter) -> Result<bool, RdbError> {
    match items.next()? {
        Some(Item::Key(_)) => items.value(counter)?,
        Some(_) => {}
        None => return Ok(false),
    }
    Ok(true)
}

fn items_from(file: &[u8], start: u64) -> Items<'_> {
    Items::new(cursor::Cursor::new(&file[start as usize..], start), 0)
}

/// Reads from the item with the flipped bit to a place where an item of the original file ends: from there on the files
/// are equal.
#[test]
fn a_flipped_bit_without_a_checksum_does_no_harm() {
    let mut file = sized(64 << 10, 16 << 10);
    let end = file.len() - 9;
    let mut counter = Counter::default();
    let mut whole = items_from(&file[..end], 9);
    let mut ends = vec![9];
    while step(&mut whole, &mut counter).unwrap() {
        ends.push(whole.offset());
    }
    let (mut errors, mut ends_met) = (0, 0);
    for at in 9..end as u64 {
        let start = ends[ends.partition_point(|end| *end <= at) - 1];
        for bit in 0..8 {
            file[at as usize] ^= 1 << bit;
            let mut items = items_from(&file[..end], start);
            loop {
                match step(&mut items, &mut counter) {
                    Err(_) => errors += 1,
                    Ok(true) if items.offset() <= at || ends.binary_search(&items.offset()).is_err() => continue,
                    Ok(_) => ends_met += 1,
                }
                break;
            }
            file[at as usize] ^= 1 << bit;
        }
    }
    // Only the checksum finds flips within strings.
    assert!(errors > 1000 && ends_met > 1000, "{errors} {ends_met}");
}
