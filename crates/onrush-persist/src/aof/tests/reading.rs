//! Reading: chunks, ends, damage.

use super::*;

fn reader(bytes: &[u8], is_last: bool) -> CommandReader {
    CommandReader::new(input(&bytes.into()), Vec::new(), 0, "f".into(), is_last)
}

/// All commands, and the error at the end.
fn read(bytes: &[u8]) -> (Vec<u8>, Result<(), AofError>) {
    let (mut reader, mut chunk, mut all) = (reader(bytes, true), Chunk::default(), Vec::new());
    loop {
        match reader.next_chunk(&mut chunk) {
            Ok(true) => all.extend_from_slice(chunk.bytes()),
            Ok(false) => return (all, Ok(())),
            Err(error) => return (all, Err(error)),
        }
    }
}

const GROUP: &[u8] = b"*1\r\n$5\r\nMULTI\r\n*1\r\n$1\r\nA\r\n*1\r\n$4\r\nEXEC\r\n";

#[test]
fn a_file_cut_at_any_byte_gives_what_is_whole_before() {
    let system = Faulty::new();
    let mut segment = Segment::new(0, system.create(Path::new("f")).unwrap(), 0, 0);
    // Where the file may end: after records, and after a SELECT before a record.
    let (mut ends, mut db, mut lsn) = (vec![0], None, 0);
    let size = if std::env::var_os("ONRUSH_TEST_NIGHTLY").is_some() { 100_000 } else { 25_000 };
    while segment.buffer.len() < size {
        lsn += 1;
        let commands = commands(lsn);
        let before = segment.buffer.len();
        if commands.first().is_some_and(|(first, _)| db != Some(*first)) {
            ends.push(before + b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n".len());
        }
        db = commands.last().map(|(last, _)| *last).or(db);
        segment.record(effects(lsn).record(0), None);
        ends.push(segment.buffer.len());
    }
    let bytes: Arc<[u8]> = segment.buffer[..].into();
    let (mut chunk, mut at) = (Chunk::default(), 0);
    for len in 0..=bytes.len() {
        while ends.get(at + 1).is_some_and(|end| *end <= len) {
            at += 1;
        }
        let cut = std::io::Read::take(input(&bytes), len as u64);
        let mut reader = CommandReader::new(Box::new(cut), Vec::new(), 0, "f".into(), true);
        let valid = ends[at];
        if valid > 0 {
            assert!(reader.next_chunk(&mut chunk).unwrap());
            assert!(chunk.bytes() == &bytes[..valid], "{len}");
        }
        match reader.next_chunk(&mut chunk) {
            Ok(false) => assert_eq!(valid, len),
            Err(AofError::Truncated { valid_len, len: told, .. }) => {
                assert_eq!((valid_len, told), (valid as u64, len as u64));
                assert!(valid < len);
            }
            other => panic!("{other:?} at {len}"),
        }
    }
}

#[test]
fn a_transaction_comes_as_a_whole_or_not_at_all() {
    let twice = [b"#TS:5\r\n*1\r\n$1\r\nB\r\n", GROUP, b"#TS:6\r\n"].concat();
    let mut chunk = Chunk::default();
    let mut whole = reader(&twice, true);
    assert!(whole.next_chunk(&mut chunk).unwrap());
    assert_eq!(chunk.bytes(), [b"*1\r\n$1\r\nB\r\n", GROUP].concat());
    let times = [Annotation { at: 0, unix_s: 5 }, Annotation { at: twice.len() as u64 - 7, unix_s: 6 }];
    assert_eq!((chunk.commands(), chunk.annotations()), (4, &times[..]));
    assert!(!whole.next_chunk(&mut chunk).unwrap());
    for len in 19..twice.len() - 7 {
        let (found, end) = read(&twice[..len]);
        assert_eq!(found, b"*1\r\n$1\r\nB\r\n");
        let Err(AofError::Truncated { valid_len: 18, .. }) = end else { panic!("{end:?}") };
    }
}

#[test]
fn damage_is_told_with_its_place_behind_what_is_whole() {
    let told = |bytes: &[u8]| {
        let (found, end) = read(&[b"*1\r\n$1\r\nB\r\n", bytes].concat());
        assert_eq!(found, b"*1\r\n$1\r\nB\r\n");
        let Err(error @ AofError::Corrupt { valid_len: 11, .. }) = end else { panic!("{end:?}") };
        error.to_string()
    };
    assert_eq!(
        told(b"*2\r\n$1\r\nA\r\n$x\r\n"),
        "f is damaged at byte 23: expected the length of an argument and the end of the line, found \"x\\r\\n\""
    );
    assert_eq!(
        told(b"\x00\x00*1"),
        "f is damaged at byte 11: expected * or #, the beginning of a command or of an annotation, found \"\\x00\\x00*1\""
    );
    assert_eq!(
        told(b"*1\r\n$4\r\nexec\r\n"),
        "f is damaged at byte 11: expected MULTI before EXEC, found \"*1\\r\\n$4\\r\\nexec\\r\\n\""
    );
    assert!(
        told(b"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n")
            .starts_with("f is damaged at byte 26: expected EXEC before")
    );
    assert!(told(&[b"x".repeat(3_000_000), GROUP.to_vec()].concat()).contains("byte 11"));
}

#[test]
fn zeros_at_the_end_are_a_part_that_was_not_written() {
    let whole = [GROUP, GROUP].concat();
    for zeros in [1, 100, 3_000_000] {
        for len in [GROUP.len(), GROUP.len() + 30, 2 * GROUP.len()] {
            let (found, end) = read(&[&whole[..len], &vec![0; zeros]].concat());
            let valid = len - len % GROUP.len();
            assert_eq!(found, whole[..valid]);
            let Err(AofError::Truncated { valid_len, len: told, .. }) = end else { panic!("{end:?}") };
            assert_eq!((valid_len as usize, told as usize), (valid, len + zeros));
        }
    }
}

#[test]
fn large_files_come_in_chunks() {
    let value = "x".repeat(1000);
    let command = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\n{value}\r\n").into_bytes();
    let large = format!("*2\r\n$1\r\nA\r\n$5000000\r\n{}\r\n", "y".repeat(5_000_000)).into_bytes();
    let bytes = [command.repeat(3000), large.clone(), command.repeat(2000)].concat();
    let (mut reader, mut chunk, mut lens) = (reader(&bytes, true), Chunk::default(), Vec::new());
    let mut all = Vec::new();
    while reader.next_chunk(&mut chunk).unwrap() {
        lens.push(chunk.bytes().len());
        all.extend_from_slice(chunk.bytes());
        assert_eq!(reader.offset(), all.len() as u64);
    }
    assert!(all == bytes);
    assert!(lens.len() >= 5 && lens.iter().filter(|len| **len > (1 << 20) + 2000).count() == 1, "{lens:?}");
}

#[test]
fn only_behind_empty_files_a_file_may_be_cut() {
    let system = Faulty::new();
    let manifest = Manifest::parse(b"file a seq 1 type i\nfile b seq 2 type i\n").unwrap();
    for (second, may_be_cut) in [(&b""[..], true), (GROUP, false)] {
        for (name, bytes) in [("a", &b"*1\r\n$1"[..]), ("b", second)] {
            write_all(&*system.create(&path(name)).unwrap(), bytes).unwrap();
        }
        let mut reader = Reader::new(Arc::new(system.clone()), Path::new(DIR), &manifest).unwrap();
        assert_eq!(reader.len_bytes(), 6 + second.len() as u64);
        let file = reader.next_file().unwrap().unwrap();
        let Content::Commands(mut commands) = file.content else { panic!("commands") };
        let error = commands.next_chunk(&mut Chunk::default()).unwrap_err();
        match error {
            AofError::Truncated { valid_len: 0, len: 6, .. } => assert!(may_be_cut),
            AofError::Corrupt { valid_len: 0, at: 6, .. } => {
                assert!(
                    !may_be_cut && error.to_string().ends_with("since other files follow, found its end"),
                    "{error}"
                );
            }
            other => panic!("{other}"),
        }
    }
    system.remove(&path("b")).unwrap();
    let missing = Reader::new(Arc::new(system), Path::new(DIR), &manifest).map(drop);
    assert_eq!(missing.unwrap_err().to_string(), "b is in the manifest but not in the folder");
}

#[test]
fn commands_may_stand_behind_a_base_in_rdb_form() {
    let system = Faulty::new();
    let rdb = b"REDIS0003\x00\x01k\x01v\xff";
    write_all(&*system.create(&path(NAME)).unwrap(), &[rdb, GROUP].concat()).unwrap();
    let manifest = Manifest { base: Some(ManifestFile { name: NAME.into(), seq: 1 }), ..Manifest::default() };
    let mut reader = Reader::new(Arc::new(system), Path::new(DIR), &manifest).unwrap();
    let file = reader.next_file().unwrap().unwrap();
    let Content::Rdb(mut rdb_reader) = file.content else { panic!("an RDB file") };
    let mut batch = crate::rdb::Batch::default();
    while rdb_reader.next_batch(&mut batch).unwrap() {}
    let (mut commands, mut chunk) = (LogFile::behind(file.name, file.is_last, rdb_reader), Chunk::default());
    assert!(commands.next_chunk(&mut chunk).unwrap());
    assert_eq!((chunk.bytes(), commands.offset()), (GROUP, (rdb.len() + GROUP.len()) as u64));
    assert!(!commands.next_chunk(&mut chunk).unwrap());
}

#[test]
fn commands_are_found_at_their_place_in_the_file() {
    let one = b"*1\r\n$1\r\nB\r\n";
    let bytes = [&one[..], b"#TS:5\r\n", one, &GROUP[..15], b"#TS:6\r\n", &GROUP[15..], one].concat();
    let (mut reader, mut chunk) = (reader(&bytes, true), Chunk::default());
    assert!(reader.next_chunk(&mut chunk).unwrap());
    let found: Vec<_> = (0..chunk.commands()).map(|index| chunk.command(index).unwrap()).collect();
    let at: Vec<u64> = found.iter().map(|found| found.at).collect();
    assert_eq!(at, [0, 18, 29, 51, 62, 76]);
    for Found { at, name } in found {
        let begin = bytes[at as usize..].splitn(3, |byte| *byte == b'\n').nth(2).unwrap();
        assert!(begin.starts_with(name));
    }
    assert_eq!(chunk.command(chunk.commands()), None);
}

#[test]
fn a_piece_ends_where_a_long_argument_begins() {
    let bytes = b"*3\r\n$3\r\nSET\r\n$5\r\nabcde\r\n$6\r\nfghijk\r\n*2\r\n$3\r\nGET\r\n$5\r\nabcde\r\n";
    let (mut reader, mut chunk) = (reader(bytes, true), Chunk::default());
    assert!(reader.next_chunk(&mut chunk).unwrap());
    let ends = [b"$5\r\nabcde\r\n$6\r\n".as_slice(), b"\n$3\r\nGET\r\n$5\r\n", b"abcde\r\n"];
    let pieces: Vec<_> = chunk.pieces(5).collect();
    assert_eq!(pieces.concat(), bytes);
    assert_eq!(pieces.len(), 4);
    assert!(pieces[1..].iter().zip(ends).all(|(piece, end)| piece.ends_with(end) || end.ends_with(piece)));
    assert_eq!(chunk.pieces(7).collect::<Vec<_>>(), [bytes]);
}

#[test]
fn a_length_that_swallows_commands_is_damage_and_no_cut_end() {
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nab\r\n";
    let swallows = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9992\r\nab\r\n";
    for behind in [&set[..], &set.repeat(9), &[&set[..], &set[..10]].concat()] {
        let (found, end) = read(&[&set[..], swallows, behind].concat());
        assert_eq!(found, set);
        let Err(AofError::Corrupt { valid_len, .. }) = end else { panic!("{end:?}") };
        assert_eq!(valid_len, set.len() as u64);
    }
    // A cut value, and a cut transaction.
    for cut in [&swallows[..], &GROUP[..GROUP.len() - 3], &[swallows, &set[..10]].concat()] {
        let (_, end) = read(&[&set[..], cut].concat());
        assert!(matches!(end, Err(AofError::Truncated { .. })), "{end:?}");
    }
}
