//! Glob patterns, as KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules use them.
//!
//! `*` stands for any bytes, `?` for one byte, `[abc]`, `[a-z]` and `[^a]` for one byte of a set, and `\` takes the
//! next byte as it is. Patterns and subjects are bytes, not text.

/// Steps of a match, as many as any string may take, and those that each of its bytes may take.
const STEPS_MIN: usize = 1 << 21;
const STEPS_PER_BYTE: usize = 4;

/// An element of the pattern counts as one step more for each of these bytes that it has.
const BYTES_PER_STEP: usize = 4;

/// Strings that are no longer than this are matched in no time.
const SHORT_LEN: usize = 64;

/// Steps in the time in which a command looks at one element.
const STEPS_PER_ELEMENT: usize = 16;

/// How long the longest part of a pattern is that stands behind a star, up to the next one: each byte of a string may be
/// compared with so much. O(pattern).
pub fn widened_len(pattern: &[u8]) -> usize {
    pattern.split(|&byte| byte == b'*').skip(1).map(<[u8]>::len).max().unwrap_or(0)
}

/// The elements that a command could look at while patterns whose [`widened_len`] is that together are matched with a string of
/// that length, at worst. O(1).
pub fn match_work(widened_len: usize, string_len: usize) -> usize {
    if string_len <= SHORT_LEN { 0 } else { widened_len.saturating_mul(string_len) / STEPS_PER_ELEMENT }
}

/// Whether `string` as a whole matches `pattern`; with `nocase`, ASCII letters match in either case.
///
/// Odd patterns mean what they mean in Redis: a set that is never closed ends with the pattern, a range may be written
/// backwards, and a lone backslash at the end stands for itself.
///
/// Only the latest `*` is ever widened, which is enough because every other element takes exactly one byte. So the
/// cost is at most `pattern.len() * string.len()`, however many stars there are. Nobody needs that much: a match that
/// takes many times as long as reading the string is given up, and counts as none.
///
/// ```
/// use onrush_engine::formats::glob::glob_match;
/// assert!(glob_match(b"user:*:na[mn]e", b"user:17:name", false));
/// assert!(!glob_match(b"user:?", b"user:17", false));
/// ```
pub fn glob_match(pattern: &[u8], string: &[u8], nocase: bool) -> bool {
    let mut steps = usize::MAX;
    match_within(pattern, string, nocase, &mut steps)
}

/// The same for one of several matches that may take so many steps together; when these are over, a star is widened no more.
pub(crate) fn match_within(pattern: &[u8], string: &[u8], nocase: bool, steps: &mut usize) -> bool {
    let most = (STEPS_MIN + STEPS_PER_BYTE * string.len()).min(*steps);
    let mut left = most;
    let matches = match_steps(pattern, string, nocase, &mut left);
    *steps -= most - left;
    matches
}

fn match_steps(pattern: &[u8], string: &[u8], nocase: bool, steps_left: &mut usize) -> bool {
    if string.is_empty() {
        // As in Redis, where several stars do not match the empty string.
        return matches!(pattern, b"" | b"*");
    }
    let (mut p, mut s) = (0, 0);
    // Where the latest star's remainder begins in the pattern, and how far into the string the star reaches.
    let mut star: Option<(usize, usize)> = None;
    while s < string.len() {
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            star = Some((p, s));
            continue;
        }
        let element = pattern.get(p..).filter(|rest| !rest.is_empty());
        let tried = element.map(|rest| match_byte(rest, string[s], nocase));
        *steps_left = steps_left.saturating_sub(1 + tried.as_ref().map_or(0, |tried| tried.len / BYTES_PER_STEP));
        match tried {
            Some(Tried { matches: true, len }) => {
                p += len;
                s += 1;
            }
            _ => match &mut star {
                Some(_) if *steps_left == 0 => return false,
                Some((rest, reach)) => {
                    *reach += 1;
                    (p, s) = (*rest, *reach);
                }
                None => return false,
            },
        }
    }
    // An empty subject matches an empty pattern alone unless stars are all there is.
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// The result of comparing a byte with the first element of a pattern.
struct Tried {
    /// Whether the element stands for the byte.
    matches: bool,
    /// Bytes of the element.
    len: usize,
}

/// Compares `byte` with the first element of `pattern`, which is not empty and does not begin with a star.
fn match_byte(pattern: &[u8], byte: u8, nocase: bool) -> Tried {
    match pattern[0] {
        b'?' => Tried { matches: true, len: 1 },
        b'[' => match_set(pattern, byte, nocase),
        b'\\' if pattern.len() > 1 => Tried { matches: same(pattern[1], byte, nocase), len: 2 },
        literal => Tried { matches: same(literal, byte, nocase), len: 1 },
    }
}

/// Compares `byte` with the set at the start of `pattern`.
fn match_set(pattern: &[u8], byte: u8, nocase: bool) -> Tried {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= same(*escaped, byte, nocase);
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= in_range(*from, *to, byte, nocase);
                at += 3;
            }
            [literal, ..] => {
                found |= same(*literal, byte, nocase);
                at += 1;
            }
        }
    }
    Tried { matches: found != negated, len: at }
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    a == b || (nocase && a.eq_ignore_ascii_case(&b))
}

fn in_range(from: u8, to: u8, byte: u8, nocase: bool) -> bool {
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    let (low, high) = (from.min(to), from.max(to));
    (fold(low).min(fold(high))..=fold(low).max(fold(high))).contains(&fold(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_stands_behind_a_star_makes_a_match_slow() {
        for (pattern, len) in [(&b"abc"[..], 0), (b"abc*", 0), (b"*", 0), (b"*abc", 3), (b"a*bc*def*g", 3)] {
            assert_eq!(widened_len(pattern), len, "{}", String::from_utf8_lossy(pattern));
        }
        assert_eq!((match_work(70, 64), match_work(70, 160), match_work(0, 1 << 20)), (0, 700, 0));
    }

    #[test]
    fn matches_share_their_steps() {
        let (pattern, string) = ([b"*", &[b'a'; 99][..], b"b"].concat(), [&[b'a'; 500][..], b"b"].concat());
        let mut steps = 100_000;
        assert!(match_within(&pattern, &string, false, &mut steps));
        let each = 100_000 - steps;
        assert!((401..=50_500).contains(&each), "{each}");
        steps = each + each / 2;
        assert!(match_within(&pattern, &string, false, &mut steps));
        assert!(!match_within(&pattern, &string, false, &mut steps));
        assert_eq!(steps, 0);
        // What needs no star that is widened takes as long as it is.
        assert!(match_within(b"*", &string, false, &mut steps) && match_within(b"ab?", b"abc", false, &mut steps));
    }

    #[test]
    fn a_match_that_takes_for_ever_is_given_up() {
        let string = vec![b'a'; 1 << 18];
        for part in ["a", "?", "[a-z]", "[abcdefghijklmnopqrstuvwxyz0123456789]", "\\a"] {
            let started = std::time::Instant::now();
            assert!(!glob_match(format!("*{}b*", part.repeat(100_000)).as_bytes(), &string, false));
            assert!(started.elapsed() < std::time::Duration::from_secs(10), "{part}: {:?}", started.elapsed());
        }
        // What takes long without being tried again and again is not.
        assert!(glob_match("a".repeat(1 << 18).as_bytes(), &string, false));
        assert!(glob_match(b"*[!-~]*[!-~]a", &string, false));
        assert!(glob_match(format!("*{}", "a".repeat(8)).as_bytes(), &string, false));
    }

    /// What a place in a pattern takes: any run of bytes, or one byte of some.
    enum Part {
        Star,
        One(Vec<u8>),
    }

    /// Takes a pattern apart byte by byte.
    fn parts(pattern: &[u8], nocase: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = pattern.iter().copied().peekable();
        let all = || (0..=255u8).collect::<Vec<u8>>();
        while let Some(byte) = rest.next() {
            let taken = match byte {
                b'*' => {
                    parts.push(Part::Star);
                    continue;
                }
                b'?' => all(),
                b'[' => {
                    let negated = rest.next_if_eq(&b'^').is_some();
                    let mut inside: Vec<u8> = Vec::new();
                    while let Some(byte) = rest.next() {
                        let left: Vec<u8> = rest.clone().take(2).collect();
                        match (byte, &left[..]) {
                            (b'\\', [escaped, ..]) => {
                                inside.push(*escaped);
                                rest.next();
                            }
                            (b']', _) => break,
                            (from, [b'-', to]) => {
                                let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() } else { byte };
                                let (from, to) = (fold(from), fold(*to));
                                // What is compared with a range is folded too.
                                inside.extend((from.min(to)..=from.max(to)).filter(|byte| fold(*byte) == *byte));
                                rest.nth(1);
                            }
                            (literal, _) => inside.push(literal),
                        }
                    }
                    let is_inside = |byte: &u8| {
                        inside.iter().any(|other| other == byte || nocase && other.eq_ignore_ascii_case(byte))
                    };
                    all().into_iter().filter(|byte| is_inside(byte) != negated).collect()
                }
                b'\\' => vec![rest.next().unwrap_or(b'\\')],
                literal => vec![literal],
            };
            parts.push(Part::One(taken));
        }
        parts
    }

    /// The definition: which parts of the pattern can have been passed after each byte of the string.
    fn reference(pattern: &[u8], string: &[u8], nocase: bool) -> bool {
        let parts = parts(pattern, nocase);
        let mut passed = vec![false; parts.len() + 1];
        passed[0] = true;
        for part in 0..parts.len() {
            passed[part + 1] = passed[part] && matches!(parts[part], Part::Star);
        }
        for &byte in string {
            let before = passed.clone();
            passed[0] = false;
            for (at, part) in parts.iter().enumerate() {
                passed[at + 1] = match part {
                    Part::Star => before[at + 1] || passed[at],
                    Part::One(bytes) => {
                        let is_same = |other: &u8| *other == byte || nocase && other.eq_ignore_ascii_case(&byte);
                        before[at] && bytes.iter().any(is_same)
                    }
                };
            }
        }
        passed[parts.len()]
    }

    fn matches(pattern: &str, string: &str) -> bool {
        glob_match(pattern.as_bytes(), string.as_bytes(), false)
    }

    #[test]
    fn stars_and_question_marks() {
        assert!(matches("*", ""));
        assert!(matches("", ""));
        assert!(!matches("", "a"));
        assert!(!matches("?", ""));
        assert!(matches("h?llo", "hello"));
        assert!(matches("h*llo", "hllo"));
        assert!(matches("*a*b*c", "xxaxxbxbxc"));
        assert!(!matches("*a*b*c", "xxaxxbxbx"));
        assert!(matches("a**", "a"));
    }

    #[test]
    fn the_empty_string_is_matched_by_one_star_and_not_by_two() {
        assert!(matches("*", "") && matches("", ""));
        assert!(!matches("**", "") && !matches("?", "") && !matches("[^a]", ""));
    }

    #[test]
    fn sets_ranges_and_negation() {
        assert!(matches("h[ae]llo", "hallo"));
        assert!(!matches("h[ae]llo", "hillo"));
        assert!(matches("h[^e]llo", "hallo"));
        assert!(!matches("h[^e]llo", "hello"));
        assert!(matches("[a-c]x", "bx"));
        assert!(matches("[c-a]x", "bx"));
        assert!(matches("[\\]]", "]"));
        assert!(matches("[a\\-c]", "-"));
        assert!(!matches("[a\\-c]", "b"));
    }

    #[test]
    fn unfinished_sets_and_escapes_stand_for_what_they_can() {
        assert!(matches("[ab", "a"));
        assert!(!matches("[", "a"));
        assert!(matches("[^", "a"));
        assert!(!matches("[]", "]"));
        assert!(matches("a\\", "a\\"));
        assert!(matches("\\*", "*"));
        assert!(!matches("\\*", "a"));
    }

    #[test]
    fn case_is_ignored_only_when_asked() {
        assert!(glob_match(b"H[A-C]*", b"hbLLO", true));
        assert!(!glob_match(b"H*", b"hello", false));
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = b"a*".repeat(2_000);
        let string = vec![b'a'; 4_000];
        assert!(glob_match(&pattern, &string, false));
        let mut pattern = pattern;
        pattern.push(b'b');
        assert!(!glob_match(&pattern, &string, false));
        assert!(glob_match(&b"*".repeat(50_000), b"a", false));
        assert!(glob_match(&b"*?".repeat(50_000), &vec![b'a'; 50_000], false));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            pattern in "[abAB*?\\[\\]\\\\^-]{0,24}",
            string in "[abcAB\\]-]{1,20}",
            nocase: bool,
        ) {
            prop_assert_eq!(
                glob_match(pattern.as_bytes(), string.as_bytes(), nocase),
                reference(pattern.as_bytes(), string.as_bytes(), nocase)
            );
        }
    }
}
