//! Files: batches, items, ends.

use std::io::Read;

use super::*;

/// A source that gives few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = self.1.min(buf.len());
        self.0.read(&mut buf[..len])
    }
}

/// The content of a file, one line for each item.
pub(super) fn lines(file: impl Read) -> Result<Vec<String>, RdbError> {
    let (mut reader, mut batch, mut lines) = (FileReader::new(file)?, Batch::default(), Vec::new());
    while reader.next_batch(&mut batch)? {
        let mut items = batch.items();
        while let Some(item) = items.next()? {
            lines.push(match item {
                Item::Key(key) => {
                    let mut collector = Collector::default();
                    items.value(&mut collector)?;
                    let value = collector.into_value().unwrap();
                    format!(
                        "{} {:?} {:?} {:?} {:?} {value:?}",
                        key.db, &*key.name, key.expires_at_ms, key.idle_s, key.freq
                    )
                }
                Item::Aux { name, value } => format!("{:?} {:?}", &*name, &*value),
                other => format!("{other:?}"),
            });
        }
    }
    Ok(lines)
}

fn file_of(encode: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::new(true);
    encode(&mut encoder);
    let mut writer = FileWriter::new(Vec::new(), encoder.version(), true).unwrap();
    writer.write(encoder.bytes()).unwrap();
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read_whatever_the_source_gives_at_a_time() {
    let file = file_of(|encoder| {
        encoder.aux(b"redis-ver", Text::Bytes(b"7.0.15"));
        encoder.aux(b"ctime", Text::Int(1_700_000_000));
        encoder.function(b"#!lua name=x\n");
        encoder.select_db(0);
        encoder.sizes(2, 1);
        encoder.key(&KeyRecord { name: b"12", expires_at_ms: Some(-5), ..KeyRecord::default() }).string(Text::Int(-7));
        let long = [b'k'; 100];
        encoder.key(&KeyRecord { name: &long, idle_s: Some(300), ..KeyRecord::default() }).string(Text::Bytes(b"x"));
        encoder.select_db(70_000);
        let key = KeyRecord { name: b"", freq: Some(200), ..KeyRecord::default() };
        encoder.key(&key).list([Text::Int(1), Text::Bytes(b"a")].into_iter());
    });
    assert_eq!(&file[..9], b"REDIS0010");
    let whole = lines(&file[..]).unwrap();
    assert_eq!(whole.len(), 7);
    assert_eq!(whole[4], "0 [49, 50] Some(-5) None None String([45, 55])");
    assert_eq!(whole[6], "70000 [] None None Some(200) List([[49], [97]])");
    for step in [1, 7, 4096] {
        assert_eq!(lines(Slow(&file, step)).unwrap(), whole);
    }
}

#[test]
fn large_files_come_in_batches_and_large_values_in_one_piece() {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(5_000_000).collect();
    let file = file_of(|encoder| {
        encoder.select_db(1);
        for index in 0..60_000u32 {
            let name = index.to_string();
            encoder.key(&KeyRecord { name: name.as_bytes(), ..KeyRecord::default() }).string(Text::Bytes(&noise[..50]));
            if index == 20_000 {
                encoder.key(&KeyRecord { name: b"large", ..KeyRecord::default() }).string(Text::Bytes(&noise));
                encoder.select_db(2);
            }
        }
    });
    let (mut reader, mut batch) = (FileReader::new(&file[..]).unwrap(), Batch::default());
    let (mut batches, mut counts, mut bytes) = (0, [0; 3], 9);
    while reader.next_batch(&mut batch).unwrap() {
        batches += 1;
        bytes += batch.len_bytes();
        let mut items = batch.items();
        while let Some(item) = items.next().unwrap() {
            let Item::Key(key) = item else { panic!("no key") };
            counts[key.db as usize] += 1;
            if key.name.len() == 5 && key.name.starts_with(b"l") {
                let raw = items.raw_value().unwrap();
                assert!(raw.len_bytes() > noise.len());
                let mut collector = Collector::default();
                raw.decode(&mut collector, &mut Scratch::default()).unwrap();
                assert!(collector.into_value() == Some(Collected::String(noise.clone())));
            }
        }
    }
    assert_eq!(counts, [0, 20_002, 39_999]);
    assert!((3..10).contains(&batches), "{batches}");
    assert_eq!(bytes + 9, file.len());
    assert_eq!(reader.offset(), file.len() as u64);
}

#[test]
fn empty_collections_can_be_passed_over() {
    let file = b"REDIS0003\x01\x01a\x00\x00\x01b\x01v\xff";
    let (mut reader, mut batch) = (FileReader::new(&file[..]).unwrap(), Batch::default());
    assert!(reader.next_batch(&mut batch).unwrap());
    let mut items = batch.items();
    let mut names = Vec::new();
    while let Some(Item::Key(key)) = items.next().unwrap() {
        if !matches!(items.value(&mut Collector::default()), Err(RdbError::Empty { at: 12 })) {
            names.push(key.name.to_vec());
        }
    }
    assert_eq!(names, [b"b"]);
}

#[test]
fn a_wrong_checksum_is_told_and_none_is_allowed() {
    let mut file = file_of(|encoder| encoder.select_db(3));
    let at = file.len() - 1;
    file[at] ^= 1;
    assert!(matches!(lines(&file[..]), Err(RdbError::Checksum { .. })));
    let mut unchecked = FileReader::new(&file[..]).unwrap().without_checksum();
    assert!(unchecked.next_batch(&mut Batch::default()).unwrap());
    file[at - 7..].fill(0);
    assert!(lines(&file[..]).is_ok());
}

#[test]
fn what_is_no_file_is_told() {
    let told = |file: &[u8]| lines(file).unwrap_err().to_string();
    assert_eq!(told(b"VALKEY080"), "the file does not begin as an RDB file does");
    assert_eq!(told(b"REDIS00x1"), "the file does not begin as an RDB file does");
    assert_eq!(told(b"REDIS0013"), "RDB version 13 is not known (versions 1 to 12 are)");
    assert_eq!(told(b"REDIS0000"), "RDB version 0 is not known (versions 1 to 12 are)");
    assert_eq!(told(b"REDIS00"), "the data ends in the middle, at byte 7");
    assert_eq!(told(b"REDIS0009\xfe"), "the data ends in the middle, at byte 10");
    assert_eq!(told(b"REDIS0009\xff\x01"), "the data ends in the middle, at byte 11");
    assert_eq!(told(b"REDIS0009\xfc\0\0\0\0\0\0\0\0\xff"), "an expiry or an access time without a key, at byte 9");
    assert_eq!(told(b"REDIS0010\xf6\x01x"), "functions from before the release of Redis 7, at byte 9");
    assert_eq!(told(b"REDIS0003\x06\x01x\x01\x00"), "a value of a module from before Redis 4, at byte 12");
    assert_eq!(told(b"REDIS0003\x63\x01x\x01\x00"), "a value of an unknown type, at byte 9");
    assert_eq!(told(b"REDIS0003\x00\x81\xff\0\0\0\0\0\0\0k"), "a length that no string has, at byte 19");
}

#[test]
fn slots_and_data_of_modules_are_passed_over() {
    let file = b"REDIS0003\xf4\x05\x01\x00\xf7\x40\x00\x02\x01\x05\x03abc\x00\x00\x01k\x01v\xff";
    let lines = lines(&file[..]).unwrap();
    assert_eq!(lines, ["ModuleAux(ModuleId(0))", "0 [107] None None None String([118])"]);
}
