//! Words in texts that the compiler reads, and the tables of what they stand for.

/// Declares flags, each with its bit and its name, and the table of their names.
macro_rules! named_flags {
    (
        $(#[$($attribute:tt)*])*
        pub struct $Flags:ident: $Bits:ty, named in $NAMES:ident {
            $($(#[$($doc:tt)*])* $FLAG:ident = $bit:literal, $name:literal;)*
        }
    ) => {
        bitflags::bitflags! {
            $(#[$($attribute)*])*
            pub struct $Flags: $Bits {
                $($(#[$($doc)*])* const $FLAG = 1 << $bit;)*
            }
        }

        #[doc = concat!("The names of [`", stringify!($Flags), "`], in the order of their bits.")]
        pub(crate) const $NAMES: &[($Flags, &str)] = &[$(($Flags::$FLAG, $name)),*];
    };
}

pub(crate) use named_flags;

/// The place of the first of some words, which single spaces separate, in a table of names, and the words behind it.
///
/// # Panics
/// With the message `unknown`, on a word that is not in the table.
pub(super) const fn next_place<'w, T>(names: &[(T, &str)], words: &'w [u8], unknown: &str) -> (usize, &'w [u8]) {
    let (word, rest) = split_word(words);
    let mut place = 0;
    while place < names.len() {
        if same(names[place].1.as_bytes(), word) {
            return (place, rest);
        }
        place += 1;
    }
    panic!("{}", unknown)
}

/// The first word, and the rest after the space.
const fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while end < text.len() && text[end] != b' ' {
        end += 1;
    }
    let (word, rest) = text.split_at(end);
    if rest.is_empty() { (word, rest) } else { (word, rest.split_at(1).1) }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}
