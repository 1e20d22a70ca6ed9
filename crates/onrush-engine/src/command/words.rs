//! Words in texts that the compiler reads.

/// The first word, and the rest after the space.
pub(super) const fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while end < text.len() && text[end] != b' ' {
        end += 1;
    }
    let (word, rest) = text.split_at(end);
    if rest.is_empty() { (word, rest) } else { (word, rest.split_at(1).1) }
}

pub(super) const fn same(a: &[u8], b: &[u8]) -> bool {
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
