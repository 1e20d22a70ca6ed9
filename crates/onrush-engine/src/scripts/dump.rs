//! The payload that FUNCTION DUMP returns: like DUMP's, but of libraries instead of a value.

use std::sync::Arc;

use onrush_persist::rdb::{Encoder, FUNCTION, FUNCTION_PRE_GA, Item, open_payload, payload_items};

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
    Kind,
    /// It holds a library in a form that only releases before 7.0 had.
    PreGa,
    /// The text of a library is not whole.
    Text,
}

/// The texts of the libraries in a payload, and what ends them before its end. They come first: what is wrong with one of
/// them is told before that.
///
/// # Errors
/// It is no payload.
pub(crate) fn restore(payload: &[u8]) -> Result<(Vec<Vec<u8>>, Option<Bad>), Bad> {
    let body = open_payload(payload).ok_or(Bad::Footer)?;
    let mut items = payload_items(body);
    let mut texts = Vec::new();
    let bad = loop {
        match body.get(items.offset() as usize) {
            None => break None,
            Some(&FUNCTION) => match items.next() {
                Ok(Some(Item::Function(text))) => texts.push(text.to_vec()),
                _ => break Some(Bad::Text),
            },
            Some(&FUNCTION_PRE_GA) => break Some(Bad::PreGa),
            Some(_) => break Some(Bad::Kind),
        }
    };
    Ok((texts, bad))
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
            assert_eq!(restore(&payload), Ok((texts.to_vec(), None)));
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
        for (content, bad) in [
            (&b"\xf5"[..], Bad::Text),
            (b"\xf5\x05abc", Bad::Text),
            (b"\xf5\xc3\x02\x05\x40\x00", Bad::Text),
            (b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff", Bad::Text),
            (b"\xf6\x01a", Bad::PreGa),
            (b"\xf4\x01a", Bad::Kind),
            (b"\x00\x01a\x01b", Bad::Kind),
            (b"\xff", Bad::Kind),
        ] {
            for texts in [vec![], vec![b"x".to_vec()]] {
                let mut payload =
                    texts.iter().flat_map(|text| [b"\xf5\x01", text.as_slice()].concat()).collect::<Vec<u8>>();
                payload.extend_from_slice(content);
                seal_payload(&mut payload, VERSION_DEFAULT);
                assert_eq!(restore(&payload), Ok((texts, Some(bad))), "{content:?}");
            }
        }
    }
}
