//! The types of the fields of [`Settings`](super::Settings), and how a value of the table becomes one.

use std::fmt;

use onrush_engine::clients::share::Share;
use onrush_engine::messages::events::EventClasses;
use onrush_engine::settings::OutputLimits;

use super::value::{SavePoint, Value};

/// Bytes that no log may show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::ops::Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(empty)" } else { "(redacted)" })
    }
}

/// Who may use something that can harm the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    No,
    /// Everybody.
    Yes,
    /// Connections from this machine.
    Local,
}

impl Access {
    /// Whether a connection may use it; `local`: it comes from this machine.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => local,
        }
    }
}

/// A field type that a value of the table converts to.
pub(super) trait FromValue {
    /// The field's value. A table row of another kind is a mistake in this crate, which every test finds.
    fn from_value(value: &Value) -> Self;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $result:expr),+;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Self {
                match value {
                    $($pattern => $result,)+
                    other => unreachable!("{other:?} is no {}", stringify!($type)),
                }
            }
        }
    )*};
}

from_value! {
    bool: Value::Bool(value) => *value;
    i64: Value::Integer(n) => *n;
    u64: Value::Integer(n) => *n as u64, Value::Memory(bytes) => *bytes,
        Value::Permissions(mode) => u64::from(*mode);
    usize: Value::Integer(n) => *n as usize;
    Share: Value::Memory(bytes) => Share::Bytes(*bytes), Value::Percent(percent) => Share::Percent(*percent);
    &'static str: Value::Enum(word) => *word;
    Access: Value::Enum("yes") => Access::Yes, Value::Enum("local") => Access::Local, Value::Enum(_) => Access::No;
    String: Value::Text(text) => String::from_utf8_lossy(text).into_owned();
    Secret: Value::Text(text) => Secret(text.clone());
    Vec<&'static str>: Value::EnumSet(words) => words.clone();
    Vec<String>: Value::Addresses(list) =>
        list.iter().map(|address| String::from_utf8_lossy(address).into_owned()).collect();
    Vec<SavePoint>: Value::SavePoints(points) => points.clone();
    OutputLimits: Value::OutputLimits(limits) => *limits;
    EventClasses: Value::EventClasses(classes) => *classes;
    Vec<f64>: Value::Percentiles(list) => list.clone();
}
