//! RDB files and payloads.

use onrush_persist::rdb::{
    Batch, Collected, CollectedStream, Collector, Encoder, FileReader, Item, RdbError, Scratch, StreamHistory,
    StreamId, StreamState, decode_payload, payload_items,
};

/// Any bytes as a value, and a value made of them, whole and changed in a few places: what is accepted is written and read again.
pub fn rdb_value(data: &[u8]) {
    read_again(data);
    let (changes, content) = data.split_at(data.len().min(8));
    let Some(value) = made_of(content) else { return };
    for small in [true, false] {
        let mut body = encoded(&value, small);
        assert_eq!(decoded(&body).expect("what is written is read"), value);
        for change in changes.chunks_exact(2) {
            let at = usize::from(change[0]) * body.len() / 256;
            body[at] ^= change[1];
            read_again(&body);
        }
    }
}

/// Any bytes as a file: batches and what they hold.
pub fn rdb_file(data: &[u8]) {
    let (version, items) = data.split_at(data.len().min(1));
    let version = version.first().map_or(1, |byte| byte % 14);
    let file = [format!("REDIS00{version:02}").as_bytes(), items].concat();
    let Ok(mut reader) = FileReader::new(&file[..]) else { return };
    let mut batch = Batch::default();
    while let Ok(true) = reader.next_batch(&mut batch) {
        let mut items = batch.items();
        // What has been found whole is complete, whatever it holds.
        loop {
            let is_key = match items.next() {
                Ok(Some(item)) => matches!(item, Item::Key(_)),
                Ok(None) => break,
                Err(RdbError::Truncated { at }) => panic!("a batch that is cut at {at}"),
                Err(_) => break,
            };
            match is_key.then(|| items.value(&mut Collector::default())) {
                Some(Err(RdbError::Truncated { at })) => panic!("a value that is cut at {at}"),
                Some(Err(RdbError::Empty { .. }) | Ok(())) | None => {}
                Some(Err(_)) => break,
            }
        }
    }
}

fn decoded(body: &[u8]) -> Result<Collected, RdbError> {
    let mut collector = Collector::default();
    decode_payload(body, &mut collector, &mut Scratch::default())?;
    Ok(collector.into_value().expect("a value"))
}

fn encoded(value: &Collected, small: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(small);
    value.encode(encoder.payload(), small);
    encoder.take()
}

fn read_again(body: &[u8]) {
    let Ok(value) = decoded(body) else { return };
    for small in [true, false] {
        let again = decoded(&encoded(&value, small)).expect("what is written is read");
        match (&again, &value) {
            // What only some forms of streams have is not kept.
            (Collected::Stream(again), Collected::Stream(value)) => assert_eq!(again.entries, value.entries),
            _ => assert_eq!(again, value),
        }
    }
    // Going past it ends where decoding ends.
    let item = [&body[..1], b"\x01k", &body[1..]].concat();
    let mut items = payload_items(&item);
    assert!(matches!(items.next(), Ok(Some(Item::Key(_)))));
    assert_eq!(items.raw_value().map(|raw| raw.len_bytes()).ok(), Some(body.len() - 1));
}

/// A value whose type is the first byte and whose elements are the rest, each behind its length.
fn made_of(content: &[u8]) -> Option<Collected> {
    let (&kind, mut rest) = content.split_first()?;
    let mut pieces = Vec::new();
    while let Some((&len, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(behind.len().min(usize::from(len)));
        // Some are long, and compress.
        let repeated = if len > 250 { 1000 } else { 1 };
        pieces.push(if len % 5 == 0 { len.to_string().into_bytes() } else { piece.repeat(repeated) });
        rest = behind;
    }
    let first = pieces.first()?.clone();
    let numbered = pieces.iter().cloned().enumerate();
    Some(match kind % 7 {
        0 => Collected::String(first),
        1 => Collected::List(pieces),
        2 => Collected::Set(pieces.into_iter().collect()),
        3 => Collected::Set(pieces.iter().map(|piece| (piece.len() as i64 * 7919).to_string().into_bytes()).collect()),
        4 => Collected::SortedSet(numbered.map(|(index, member)| (member, index as f64 / 4.0)).collect()),
        5 => {
            let expiry = |index: usize| (kind > 128 && index.is_multiple_of(2)).then_some(1 + index as i64 * 1_000_003);
            Collected::Hash(numbered.map(|(index, name)| (name, (first.clone(), expiry(index)))).collect())
        }
        _ => {
            let id = |index: usize| StreamId { ms: u64::from(kind) + index as u64 / 3, seq: 1 + index as u64 % 3 };
            let entry = |(index, value)| (id(index), vec![(vec![b'f'; index / 5], value)]);
            let (len, last_id) = (pieces.len() as u64, id(pieces.len() - 1));
            let history = Some(StreamHistory { first_id: id(0), entries_added: len, ..StreamHistory::default() });
            Collected::Stream(CollectedStream {
                entries: numbered.map(entry).collect(),
                state: StreamState { len, last_id, history },
                ..CollectedStream::default()
            })
        }
    })
}
