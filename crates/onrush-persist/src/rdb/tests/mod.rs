//! Values and files as a whole: written and read, in old encodings, damaged.

mod damage;
mod files;
mod old;
mod values;

use super::*;

/// Decodes type and bytes of a value.
fn decode(body: &[u8]) -> Result<Collected, RdbError> {
    let mut collector = Collector::default();
    decode_payload(body, &mut collector, &mut Scratch::default())?;
    Ok(collector.into_value().expect("a value that has been decoded"))
}

/// The error of a bad value, without the place.
fn complaint(body: &[u8]) -> String {
    let error = decode(body).expect_err("it is wrong").to_string();
    error.rsplit_once(", at byte").map_or(error.clone(), |(what, _)| what.to_string())
}

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn listpack(elements: &[&str]) -> Vec<u8> {
    let mut builder = listpack::ListpackBuilder::default();
    builder.clear();
    elements.iter().for_each(|element| builder.push(Text::Bytes(element.as_bytes())));
    builder.finish().to_vec()
}

/// A string without compression.
fn stored(bytes: &[u8]) -> Vec<u8> {
    [&[0x80][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Counts pieces, and those that are integers. Does not check for duplicates.
#[derive(Default)]
struct Counter {
    pieces: usize,
    ints: usize,
}

impl Counter {
    fn see(&mut self, text: Text<'_>) -> Told {
        self.pieces += 1;
        self.ints += usize::from(matches!(text, Text::Int(_)));
        Ok(())
    }
}

impl Visitor for Counter {
    fn string(&mut self, value: Text<'_>) -> Told {
        self.see(value)
    }

    fn collection(&mut self, _: CollectionKind, _: usize) -> Told {
        Ok(())
    }

    fn element(&mut self, element: Text<'_>) -> Told {
        self.see(element)
    }

    fn member(&mut self, member: Text<'_>) -> Told {
        self.see(member)
    }

    fn scored(&mut self, member: Text<'_>, _: f64) -> Told {
        self.see(member)
    }

    fn field(&mut self, name: Text<'_>, value: Text<'_>, _: Option<i64>) -> Told {
        self.see(name)?;
        self.see(value)
    }

    fn stream(&mut self) -> Told {
        Ok(())
    }

    fn stream_entry(&mut self, entry: StreamEntry<'_>) -> Told {
        assert_eq!(entry.names.len(), entry.values.len());
        entry.values.iter().try_for_each(|value| self.see(*value))
    }

    fn stream_state(&mut self, _: &StreamState) -> Told {
        Ok(())
    }

    fn group(&mut self, group: StreamGroup<'_>) -> Told {
        self.see(group.name)
    }

    fn pending(&mut self, _: StreamPending) -> Told {
        Ok(())
    }

    fn consumer(&mut self, consumer: StreamConsumer<'_>) -> Told {
        self.see(consumer.name)
    }

    fn consumer_pending(&mut self, _: StreamId) -> Told {
        Ok(())
    }

    fn group_end(&mut self) -> Told {
        Ok(())
    }
}
