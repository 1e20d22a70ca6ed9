//! What rules and names must not contain.

/// Whether a text could not be told apart from others in a list: it has white space or a NUL.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte.is_ascii_whitespace() || byte == 0x0b || byte == 0)
}
