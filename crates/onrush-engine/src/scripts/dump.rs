//! The payload that FUNCTION DUMP returns: like DUMP's, but of libraries instead of a value.

use std::sync::Arc;

use onrush_persist::rdb::{Encoder, Item, open_payload, payload_items};

use super::Library;

/// The payload for some libraries; `compresses`: the setting `rdbcompression`.
pub(crate) fn dump(libraries: &[Arc<Library>], compresses: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(compresses);
    libraries.iter().for_each(|library| encoder.function(&library.text));
    encoder.seal().to_vec()
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Its version is too new, or its checksum is wrong.
    Footer,
    /// It holds something other than libraries.
    Content,
}

/// The texts of the libraries in a payload.
pub(crate) fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, Bad> {
    let mut items = payload_items(open_payload(payload).ok_or(Bad::Footer)?);
    let mut texts = Vec::new();
    while let Some(item) = items.next().map_err(|_| Bad::Content)? {
        let Item::Function(text) = item else { return Err(Bad::Content) };
        texts.push(text.to_vec());
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrush_persist::rdb::{VERSION_DEFAULT, seal_payload};

    #[test]
    fn what_is_dumped_is_restored() {
        let texts = [vec![b'x'; 10], vec![b'y'; 300], vec![b'z'; 70_000]];
        let library = |text: &Vec<u8>| Arc::new(Library::new(1, Vec::new(), text.clone(), Vec::new()));
        for (compresses, lens) in [(false, 70_310..71_000), (true, 10..2_000)] {
            let payload = dump(&texts.each_ref().map(library), compresses);
            assert!(lens.contains(&payload.len()), "{}", payload.len());
            assert_eq!(restore(&payload), Ok(texts.to_vec()));
            for at in [0, 5, payload.len() - 1] {
                let mut changed = payload.clone();
                changed[at] ^= 1;
                assert_eq!(restore(&changed), Err(Bad::Footer));
            }
        }
        assert_eq!(restore(b"x"), Err(Bad::Footer));
        assert_eq!(dump(&[], true), b"\n\0]\x9b\\@\x0f\x7f\xa2\xda");
    }

    #[test]
    fn any_content_is_read_without_harm() {
        for content in [
            &b"\xf5"[..],
            b"\xf5\x05abc",
            b"\xf5\xc3\x02\x05\x40\x00",
            b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xf4\x01a",
        ] {
            let mut payload = content.to_vec();
            seal_payload(&mut payload, VERSION_DEFAULT);
            assert_eq!(restore(&payload), Err(Bad::Content));
        }
    }
}
