//! How two replies to the same command are compared.

use crate::resp::Value;

/// The ways to compare; everything but [`Compare::Exact`] must be declared in [`crate::exceptions`].
///
/// In every way but [`Compare::Anything`] and [`Compare::Literal`], if one reply is an error, the other must be the
/// same error.
#[derive(Clone, Debug, PartialEq)]
pub enum Compare {
    /// Byte by byte.
    Exact,
    /// Not at all, as long as there is a reply.
    Anything,
    /// The reply must be these bytes; the oracle is not asked.
    Literal(Vec<u8>),
    /// Same type of reply, its contents are free.
    Type,
    /// Same types all the way down and same lengths of arrays, maps and sets.
    Shape,
    /// Arrays, sets and maps with the same items in any order.
    Unordered,
    /// Maps (or flat arrays of pairs, as RESP2 has them) with the same pairs in any order.
    Pairs,
    /// Integers not further apart than this; negative ones must be equal.
    Within(i64),
    /// Arrays of such integers.
    EachWithin(i64),
    /// Maps with the same keys; values are compared byte by byte except for the named keys, whose types count.
    FieldsExcept(&'static [&'static str]),
    /// The same all the way down, but for values behind one of these names, which are free but for the sign of integers, and for
    /// Unix times in milliseconds, which may differ by the delay between the servers.
    Tree(&'static [&'static str]),
    /// Lines of `name=value` words: the named words must be the same, others are free. `flags-e` stands for the flags without `e`.
    Words(&'static [&'static str]),
    /// The same items in the same order; a number may be spelled in another way, and be off by its last digits.
    Numbers,
    /// Arrays with the same items in any order, where a number may be spelled in another way.
    UnorderedNumbers,
    /// XPENDING: idle times may differ by the delay between the servers.
    Pending,
    /// Names of encodings: a small set or list of 7.2 may be a listpack where the oracle has other forms.
    Encoding,
    /// The same, but that one may call a string embedded where the other calls it raw, a listpack one with expiries, a set or a hash
    /// a listpack where the other has a table, and a list a listpack where the other has nodes.
    StringEncoding,
    /// COMMAND INFO: name, arity, flags, key positions and categories must be the same, the rest is free.
    CommandInfo,
}

impl Compare {
    /// Compares our raw reply with the oracle's. The error says what differs.
    pub fn judge(&self, ours: &[u8], theirs: &[u8]) -> Result<(), String> {
        match self {
            Compare::Anything => return Ok(()),
            Compare::Literal(want) if ours == want.as_slice() => return Ok(()),
            Compare::Literal(want) => {
                return Err(format!("expected literally:\n{}", crate::resp::pretty(want)));
            }
            _ if ours == theirs => return Ok(()),
            Compare::Exact => return Err("replies differ".into()),
            _ => {}
        }
        let (ours, theirs) = (Value::parse(ours)?, Value::parse(theirs)?);
        if ours.is_error() || theirs.is_error() {
            return Err("error replies differ".into());
        }
        self.judge_values(&ours, &theirs)
    }

    fn judge_values(&self, ours: &Value, theirs: &Value) -> Result<(), String> {
        match self {
            Compare::Type => same_type(ours, theirs),
            Compare::Shape => same_shape(ours, theirs),
            Compare::Unordered if sorted(ours) == sorted(theirs) => Ok(()),
            Compare::Unordered => Err("the items differ, in whatever order".into()),
            Compare::Pairs => same_pairs(ours, theirs),
            Compare::Within(distance) => within(ours, theirs, *distance),
            Compare::EachWithin(distance) => each_within(ours, theirs, *distance),
            Compare::FieldsExcept(free) => same_fields(ours, theirs, free),
            Compare::Words(names) => same_words(ours, theirs, names),
            Compare::Tree(free) => same_tree(ours, theirs, free),
            Compare::CommandInfo => same_command_infos(ours, theirs),
            Compare::Encoding => same_encoding(ours, theirs),
            Compare::StringEncoding => same_string_encoding(ours, theirs),
            Compare::Numbers => same_numbers(ours, theirs),
            Compare::UnorderedNumbers => Compare::Unordered.judge_values(&respelled(ours), &respelled(theirs)),
            Compare::Pending => same_pending(ours, theirs),
            Compare::Exact | Compare::Anything | Compare::Literal(_) => unreachable!("judged raw"),
        }
    }
}

fn same_numbers(ours: &Value, theirs: &Value) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| same_numbers(a, b))
        }
        (Value::Bulk(a), Value::Bulk(b)) | (Value::Double(a), Value::Double(b))
            if number(a).zip(number(b)).is_some_and(|(a, b)| a == b || (a - b).abs() <= 1e-12 * a.abs().max(1.0)) =>
        {
            Ok(())
        }
        _ => Err("the replies differ in more than the spelling of numbers".into()),
    }
}

/// The value with numbers spelled in one way.
fn respelled(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(respelled).collect()),
        Value::Bulk(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
            Value::Bulk(number.map_or_else(|| text.clone(), |number| number.to_string().into_bytes()))
        }
        other => other.clone(),
    }
}

fn same_pending(ours: &Value, theirs: &Value) -> Result<(), String> {
    let rows = |value: &Value| -> Option<Vec<Vec<Value>>> {
        value.items()?.iter().map(|row| Some(row.items()?.to_vec())).collect()
    };
    let (Some(ours), Some(theirs)) = (rows(ours), rows(theirs)) else { return Err("the replies differ".into()) };
    let same_row = |(a, b): (Vec<Value>, Vec<Value>)| match (&a[..], &b[..]) {
        ([id, consumer, idle, count], [id_b, consumer_b, idle_b, count_b]) => {
            within(idle, idle_b, crate::exceptions::DELAY_MS_MAX)?;
            let same = (id, consumer, count) == (id_b, consumer_b, count_b);
            if same { Ok(()) } else { Err(format!("{id} {consumer} {count}, not {id_b} {consumer_b} {count_b}")) }
        }
        _ => Err("not entries that are pending".into()),
    };
    if ours.len() != theirs.len() {
        return Err(format!("{} entries, not {}", ours.len(), theirs.len()));
    }
    ours.into_iter().zip(theirs).try_for_each(same_row)
}

fn same_encoding(ours: &Value, theirs: &Value) -> Result<(), String> {
    let name = |value: &Value| format!("{value:?}");
    let (ours, theirs) = (name(ours), name(theirs));
    let is = |value: &str, encoding: &[u8]| value == name(&Value::Bulk(encoding.to_vec()));
    let newer =
        is(&ours, b"listpack") && [&b"hashtable"[..], b"quicklist", b"intset"].iter().any(|old| is(&theirs, old));
    // 7.2 looks at how many members a command brings, whether or not they are new.
    let expecting = is(&ours, b"hashtable") && is(&theirs, b"intset");
    if newer || expecting { Ok(()) } else { Err("the encodings differ".into()) }
}

fn same_string_encoding(ours: &Value, theirs: &Value) -> Result<(), String> {
    let is_text = |value: &Value| ["embstr", "raw"].contains(&value.text().as_str());
    let names = (ours.text(), theirs.text());
    let is_other_form = matches!(
        (names.0.as_str(), names.1.as_str()),
        ("listpack", "listpackex" | "hashtable" | "quicklist")
            | ("listpackex", "hashtable")
            | ("hashtable", "listpack")
    );
    if is_text(ours) && is_text(theirs) || is_other_form { Ok(()) } else { Err("the encodings differ".into()) }
}

fn same_type(ours: &Value, theirs: &Value) -> Result<(), String> {
    if std::mem::discriminant(ours) == std::mem::discriminant(theirs) {
        Ok(())
    } else {
        Err("the types of the replies differ".into())
    }
}

fn same_shape(ours: &Value, theirs: &Value) -> Result<(), String> {
    same_type(ours, theirs)?;
    if let (Some(a), Some(b)) = (ours.items(), theirs.items()) {
        if a.len() != b.len() {
            return Err(format!("{} items, not {}", a.len(), b.len()));
        }
        return a.iter().zip(b).try_for_each(|(a, b)| same_shape(a, b));
    }
    if let (Value::Map(a), Value::Map(b)) = (ours, theirs) {
        if a.len() != b.len() {
            return Err(format!("{} pairs, not {}", a.len(), b.len()));
        }
        for ((key_a, value_a), (key_b, value_b)) in a.iter().zip(b) {
            same_shape(key_a, key_b)?;
            same_shape(value_a, value_b)?;
        }
    }
    Ok(())
}

/// The value with every array, set and map in one canonical order.
fn sorted(value: &Value) -> Value {
    let by_text = |items: &[Value]| {
        let mut items: Vec<Value> = items.iter().map(sorted).collect();
        items.sort_by_cached_key(|item| format!("{item:?}"));
        items
    };
    match value {
        Value::Array(items) => Value::Array(by_text(items)),
        Value::Set(items) => Value::Set(by_text(items)),
        Value::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().map(|(k, v)| (sorted(k), sorted(v))).collect();
            pairs.sort_by_cached_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

fn same_pairs(ours: &Value, theirs: &Value) -> Result<(), String> {
    same_type(ours, theirs)?;
    match (ours.pairs(), theirs.pairs()) {
        (Some(a), Some(b)) if sorted(&Value::Map(a.clone())) == sorted(&Value::Map(b.clone())) => Ok(()),
        (Some(_), Some(_)) => Err("the pairs differ, in whatever order".into()),
        _ => Err("not two maps".into()),
    }
}

/// From here on an integer is a Unix time in milliseconds.
const UNIX_MS_MIN: i64 = 1_000_000_000_000;

fn same_tree(ours: &Value, theirs: &Value, free: &[&str]) -> Result<(), String> {
    let is_free = |name: &Value| free.contains(&name.text().as_str());
    let same_free = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) if a.is_negative() != b.is_negative() => Err(format!("{a}, not {b}")),
        _ => Ok(()),
    };
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (ours, theirs)) in a.iter().zip(b).enumerate() {
                if index % 2 == 1 && is_free(&b[index - 1]) {
                    same_free(ours, theirs)?;
                } else {
                    same_tree(ours, theirs, free)?;
                }
            }
            Ok(())
        }
        (Value::Map(a), Value::Map(b)) if a.len() == b.len() => a.iter().zip(b).try_for_each(|(a, b)| {
            same_tree(&a.0, &b.0, free)?;
            if is_free(&b.0) { same_free(&a.1, &b.1) } else { same_tree(&a.1, &b.1, free) }
        }),
        (Value::Int(a), Value::Int(b)) if *a.min(b) > UNIX_MS_MIN => {
            within(ours, theirs, crate::exceptions::DELAY_MS_MAX)
        }
        _ if ours == theirs => Ok(()),
        _ => Err(format!("{ours}, not {theirs}")),
    }
}

fn each_within(ours: &Value, theirs: &Value, distance: i64) -> Result<(), String> {
    match (ours.items(), theirs.items()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            a.iter().zip(b).filter(|(a, b)| a != b).try_for_each(|(a, b)| within(a, b, distance))
        }
        _ => Err("not two arrays of the same length".into()),
    }
}

fn within(ours: &Value, theirs: &Value, distance: i64) -> Result<(), String> {
    match (ours, theirs) {
        (Value::Int(a), Value::Int(b)) if *a >= 0 && *b >= 0 && a.abs_diff(*b) <= distance as u64 => Ok(()),
        (Value::Int(a), Value::Int(b)) => Err(format!("{a} is not within {distance} of {b}")),
        _ => Err("not two integers".into()),
    }
}

fn same_fields(ours: &Value, theirs: &Value, free: &[&str]) -> Result<(), String> {
    same_type(ours, theirs)?;
    let (Some(ours), Some(theirs)) = (ours.pairs(), theirs.pairs()) else {
        return Err("not two maps".into());
    };
    let keys = |pairs: &[(Value, Value)]| pairs.iter().map(|(k, _)| k.text()).collect::<Vec<_>>();
    if keys(&ours) != keys(&theirs) {
        return Err(format!("fields {:?}, not {:?}", keys(&ours), keys(&theirs)));
    }
    for ((key, a), (_, b)) in ours.iter().zip(&theirs) {
        if free.contains(&key.text().as_str()) {
            same_type(a, b).map_err(|e| format!("field {}: {e}", key.text()))?;
        } else if a != b {
            return Err(format!("field {} differs", key.text()));
        }
    }
    Ok(())
}

fn same_words(ours: &Value, theirs: &Value, names: &[&str]) -> Result<(), String> {
    same_type(ours, theirs)?;
    let (ours, theirs) = (ours.text(), theirs.text());
    let word = |text: &str, name: &str| {
        let (word, is_without) = name.strip_suffix("-e").map_or((name, false), |word| (word, true));
        let mut values = text.split_whitespace().filter_map(|w| w.strip_prefix(word)?.strip_prefix('='));
        let without_no_evict = |flags: &str| match flags.replace('e', "") {
            rest if rest.is_empty() => "N".to_owned(),
            rest => rest,
        };
        let value = values.next();
        value.map(|v| if is_without { without_no_evict(v) } else { v.to_owned() })
    };
    for name in names {
        let (a, b) = (word(&ours, name), word(&theirs, name));
        if a != b {
            return Err(format!("{name} is {a:?}, not {b:?}"));
        }
    }
    Ok(())
}

/// Name, arity, flags (a set), first and last key, step, categories (a set).
fn same_command_infos(ours: &Value, theirs: &Value) -> Result<(), String> {
    let (Some(ours), Some(theirs)) = (ours.items(), theirs.items()) else {
        return Err("not two arrays".into());
    };
    if ours.len() != theirs.len() {
        return Err(format!("{} commands, not {}", ours.len(), theirs.len()));
    }
    ours.iter().zip(theirs).try_for_each(|(a, b)| same_command_info(a, b))
}

fn same_command_info(ours: &Value, theirs: &Value) -> Result<(), String> {
    let (a, b) = match (ours.items(), theirs.items()) {
        (Some(a), Some(b)) => (a, b),
        _ => return same_type(ours, theirs),
    };
    if a.len() != b.len() {
        return Err(format!("an entry of {} fields, not {}", a.len(), b.len()));
    }
    let fields = ["name", "arity", "flags", "first key", "last key", "step", "categories"];
    for (index, field) in fields.iter().enumerate().take(b.len()) {
        if sorted(&a[index]) != sorted(&b[index]) {
            return Err(format!("{} of {}:\n{}\nnot\n{}", field, b[0].text(), a[index], b[index]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_always_compared_exactly() {
        assert!(Compare::Type.judge(b"-ERR a\r\n", b"-ERR b\r\n").is_err());
        assert!(Compare::Shape.judge(b":1\r\n", b"-ERR b\r\n").is_err());
        assert!(Compare::Type.judge(b"-ERR a\r\n", b"-ERR a\r\n").is_ok());
    }

    #[test]
    fn order_is_free_only_where_declared() {
        let (a, b) = (b"*2\r\n:1\r\n:2\r\n", b"*2\r\n:2\r\n:1\r\n");
        assert!(Compare::Unordered.judge(a, b).is_ok());
        assert!(Compare::Exact.judge(a, b).is_err());
        assert!(Compare::Unordered.judge(a, b"*2\r\n:2\r\n:2\r\n").is_err());
    }

    #[test]
    fn tolerance_ends_at_zero() {
        assert!(Compare::Within(5).judge(b":100\r\n", b":97\r\n").is_ok());
        assert!(Compare::Within(5).judge(b":100\r\n", b":90\r\n").is_err());
        assert!(Compare::Within(5).judge(b":-1\r\n", b":-2\r\n").is_err());
        assert!(Compare::Within(5).judge(b":1\r\n", b":-1\r\n").is_err());
    }

    #[test]
    fn trees_are_the_same_but_for_times_and_named_values() {
        let tree = Compare::Tree(&["idle"]);
        let reply = |idle: i64, at: i64, count: i64| {
            format!("*1\r\n*4\r\n$4\r\nidle\r\n:{idle}\r\n$1\r\nx\r\n*2\r\n:{at}\r\n:{count}\r\n").into_bytes()
        };
        let ours = reply(5, 1_800_000_000_000, 3);
        assert!(tree.judge(&ours, &reply(9, 1_800_000_000_700, 3)).is_ok());
        assert!(tree.judge(&ours, &reply(-1, 1_800_000_000_000, 3)).is_err());
        assert!(tree.judge(&ours, &reply(5, 1_800_000_009_000, 3)).is_err());
        assert!(tree.judge(&ours, &reply(5, 1_800_000_000_000, 4)).is_err());
    }

    #[test]
    fn words_and_fields_pick_what_counts() {
        let words = Compare::Words(&["db"]);
        assert!(words.judge(b"$10\r\nid=1 db=3 \r\n", b"$10\r\nid=22 db=3\r\n").is_ok());
        assert!(words.judge(b"$9\r\nid=1 db=3\r\n", b"$9\r\nid=1 db=4\r\n").is_err());
        let fields = Compare::FieldsExcept(&["id"]);
        assert!(fields.judge(b"*2\r\n$2\r\nid\r\n:1\r\n", b"*2\r\n$2\r\nid\r\n:2\r\n").is_ok());
        assert!(fields.judge(b"*2\r\n$2\r\nxd\r\n:1\r\n", b"*2\r\n$2\r\nxd\r\n:2\r\n").is_err());
    }
}
