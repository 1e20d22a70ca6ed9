//! Rust values as command arguments.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use crate::values::encode::NUMBER_END;

/// A receiver of arguments.
pub trait RedisWrite {
    /// Adds one argument.
    fn write_arg(&mut self, arg: &[u8]);

    /// Adds one argument by its text form.
    fn write_arg_fmt(&mut self, arg: impl Display)
    where
        Self: Sized,
    {
        self.write_arg(arg.to_string().as_bytes());
    }

    /// Adds a number below 100,000,000, for receivers that write it faster than its text.
    #[doc(hidden)]
    fn write_number(&mut self, number: u32) {
        self.write_arg(itoa::Buffer::new().format(number).as_bytes());
    }
}

impl RedisWrite for Vec<Vec<u8>> {
    fn write_arg(&mut self, arg: &[u8]) {
        self.push(arg.to_vec());
    }
}

/// A value that becomes one or more arguments of a command.
///
/// Strings and numbers are one argument; sequences and tuples give the arguments of their elements, maps key and value
/// in turn; `None` gives no argument at all. Bytes (`&[u8]`, `Vec<u8>`, `[u8; N]`) are one argument.
pub trait ToRedisArgs {
    /// Writes the arguments.
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W);

    /// How many arguments [`write_redis_args`](Self::write_redis_args) will write.
    fn num_of_args(&self) -> usize {
        1
    }

    /// Writes a slice of such values: each in turn, or, for bytes, all as one argument.
    #[doc(hidden)]
    fn write_slice<W: RedisWrite + ?Sized>(items: &[Self], out: &mut W)
    where
        Self: Sized,
    {
        items.iter().for_each(|item| item.write_redis_args(out));
    }

    /// How many arguments [`write_slice`](Self::write_slice) will write.
    #[doc(hidden)]
    fn num_of_slice(items: &[Self]) -> usize
    where
        Self: Sized,
    {
        items.iter().map(Self::num_of_args).sum()
    }

    /// The arguments as owned bytes.
    fn to_redis_args(&self) -> Vec<Vec<u8>> {
        let mut args = Vec::new();
        self.write_redis_args(&mut args);
        args
    }
}

/// A value that becomes one argument, or none at all if it is `None`: a field's value, and what else must not be several.
pub trait ToSingleRedisArg: ToRedisArgs {}

macro_rules! single {
    ($($kind:ty)*) => {
        $(impl ToSingleRedisArg for $kind {})*
    };
}

single! {
    i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 char bool
    str String [u8] Vec<u8> bytes::Bytes bytes::BytesMut
}

impl<const N: usize> ToSingleRedisArg for [u8; N] {}
impl<T: ToSingleRedisArg> ToSingleRedisArg for Option<T> {}
impl<T: ToSingleRedisArg + ?Sized> ToSingleRedisArg for &T {}
impl<T: ToSingleRedisArg + ?Sized> ToSingleRedisArg for &mut T {}
impl<T: ToSingleRedisArg + ?Sized> ToSingleRedisArg for Box<T> {}
impl<T: ToSingleRedisArg + ?Sized> ToSingleRedisArg for Arc<T> {}
impl<T: ToSingleRedisArg + ?Sized> ToSingleRedisArg for Rc<T> {}
impl<T: ToSingleRedisArg + ToOwned + ?Sized> ToSingleRedisArg for Cow<'_, T> {}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl ToRedisArgs for $kind {
            #[inline]
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                match u32::try_from(*self) {
                    Ok(number) if number < NUMBER_END => out.write_number(number),
                    _ => out.write_arg(itoa::Buffer::new().format(*self).as_bytes()),
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u16 u32 u64 u128 usize);

impl ToRedisArgs for u8 {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        out.write_arg(itoa::Buffer::new().format(*self).as_bytes());
    }

    fn write_slice<W: RedisWrite + ?Sized>(items: &[u8], out: &mut W) {
        out.write_arg(items);
    }

    fn num_of_slice(_: &[u8]) -> usize {
        1
    }
}

macro_rules! by_display {
    ($($kind:ty)*) => {$(
        impl ToRedisArgs for $kind {
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                out.write_arg(self.to_string().as_bytes());
            }
        }
    )*};
}

by_display!(f32 f64 char);

impl ToRedisArgs for bool {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        out.write_arg(if *self { b"1" } else { b"0" });
    }
}

macro_rules! bytes {
    ($($kind:ty)*) => {$(
        impl ToRedisArgs for $kind {
            #[inline]
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                out.write_arg(self.as_ref());
            }
        }
    )*};
}

bytes!(str String bytes::Bytes bytes::BytesMut);

macro_rules! deref {
    ($([$($more:tt)*] $kind:ty;)*) => {$(
        impl<T: ToRedisArgs + $($more)* ?Sized> ToRedisArgs for $kind {
            #[inline]
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                (**self).write_redis_args(out);
            }

            fn num_of_args(&self) -> usize {
                (**self).num_of_args()
            }
        }
    )*};
}

deref! {
    [] &T;
    [] &mut T;
    [] Box<T>;
    [] Arc<T>;
    [] Rc<T>;
    [ToOwned +] Cow<'_, T>;
}

impl<T: ToRedisArgs> ToRedisArgs for Option<T> {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
        if let Some(value) = self {
            value.write_redis_args(out);
        }
    }

    fn num_of_args(&self) -> usize {
        self.as_ref().map_or(0, T::num_of_args)
    }
}

macro_rules! slices {
    ($([$($params:tt)*] $kind:ty;)*) => {$(
        impl<T: ToRedisArgs, $($params)*> ToRedisArgs for $kind {
            #[inline]
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                T::write_slice(self, out);
            }

            fn num_of_args(&self) -> usize {
                T::num_of_slice(self)
            }
        }
    )*};
}

slices! {
    [] [T];
    [const N: usize] [T; N];
    [] Vec<T>;
}

macro_rules! collections {
    ($([$($params:tt)*] $kind:ty, $item:pat => $args:expr;)*) => {$(
        impl<$($params)*> ToRedisArgs for $kind {
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                for $item in self {
                    $args.write_redis_args(out);
                }
            }

            fn num_of_args(&self) -> usize {
                self.iter().map(|$item| $args.num_of_args()).sum()
            }
        }
    )*};
}

collections! {
    [T: ToRedisArgs, S: BuildHasher] HashSet<T, S>, item => item;
    [T: ToRedisArgs] BTreeSet<T>, item => item;
    [K: ToRedisArgs, V: ToRedisArgs, S: BuildHasher] HashMap<K, V, S>, (key, value) => (key, value);
    [K: ToRedisArgs, V: ToRedisArgs] BTreeMap<K, V>, (key, value) => (key, value);
}

impl ToRedisArgs for () {
    fn write_redis_args<W: RedisWrite + ?Sized>(&self, _: &mut W) {}

    fn num_of_args(&self) -> usize {
        0
    }
}

macro_rules! tuples {
    ($first:ident $($rest:ident)*) => {
        impl<$first: ToRedisArgs, $($rest: ToRedisArgs),*> ToRedisArgs for ($first, $($rest,)*) {
            #[inline]
            #[allow(non_snake_case)]
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                let ($first, $($rest,)*) = self;
                $first.write_redis_args(out);
                $($rest.write_redis_args(out);)*
            }

            #[allow(non_snake_case)]
            fn num_of_args(&self) -> usize {
                let ($first, $($rest,)*) = self;
                $first.num_of_args() $(+ $rest.num_of_args())*
            }
        }
        tuples!($($rest)*);
    };
    () => {};
}

tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: impl ToRedisArgs) -> String {
        let written = args.to_redis_args();
        assert_eq!(written.len(), args.num_of_args());
        written.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn bytes_are_one_argument_and_other_slices_are_many() {
        assert_eq!(shown(b"abc"), "abc");
        assert_eq!(shown(b"abc".to_vec()), "abc");
        assert_eq!(shown(&[1u16, 2, 3][..]), "1|2|3");
        assert_eq!(shown(["a", "b"]), "a|b");
    }

    #[test]
    fn tuples_maps_and_options_are_flattened() {
        assert_eq!(shown((1, "two", Some(3.5), None::<i32>, true)), "1|two|3.5|1");
        assert_eq!(shown(BTreeMap::from([("a", 1), ("b", 2)])), "a|1|b|2");
        assert_eq!(shown(vec![("k", 1), ("l", 2)]), "k|1|l|2");
        assert_eq!(shown(f64::NEG_INFINITY), "-inf");
    }
}
