//! The library `cjson`, version 2.1.0 as Redis has it: JSON and its options.
//!
//! Options last until the end of the script that sets them.

mod decode;
mod encode;

use crate::number::to_integer;
use crate::sandbox::add;
use crate::stack::{Kind, Outcome, Raised, Stack, TOP};

/// How to treat numbers that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    Refused,
    Written,
    Null,
}

/// The options of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Whether a sparse array becomes an object rather than an error.
    pub(crate) sparse_convert: bool,
    /// An array is sparse if its largest index is more than this many times the number of its elements…
    pub(crate) sparse_ratio: u32,
    /// … and more than this.
    pub(crate) sparse_safe: u32,
    pub(crate) encode_depth: u32,
    pub(crate) decode_depth: u32,
    /// Digits of a number.
    pub(crate) precision: u32,
    pub(crate) encode_invalid: Invalid,
    pub(crate) decode_invalid: bool,
    /// Has no effect: buffers are kept anyway.
    keep_buffer: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            precision: 14,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
            keep_buffer: true,
        }
    }
}

/// Most digits of a number.
const PRECISION_MAX: u32 = 14;

/// Adds `cjson` to the table on top.
pub(crate) fn open(stack: &Stack<'_>) {
    push_library(stack);
    stack.set_field(-2, "cjson");
}

fn push_library(stack: &Stack<'_>) {
    stack.push_table(0, 16);
    add(stack, "encode", encode::encode);
    add(stack, "decode", decode::decode);
    add(stack, "encode_sparse_array", sparse_array);
    add(stack, "encode_max_depth", |stack: &Stack<'_>| {
        number(stack, i32::MAX as u32, |options| &mut options.encode_depth)
    });
    add(stack, "decode_max_depth", |stack: &Stack<'_>| {
        number(stack, i32::MAX as u32, |options| &mut options.decode_depth)
    });
    add(stack, "encode_number_precision", |stack: &Stack<'_>| {
        number(stack, PRECISION_MAX, |options| &mut options.precision)
    });
    add(stack, "encode_keep_buffer", |stack: &Stack<'_>| switch(stack, |options| &mut options.keep_buffer));
    add(stack, "encode_invalid_numbers", encode_invalid_numbers);
    add(stack, "decode_invalid_numbers", |stack: &Stack<'_>| switch(stack, |options| &mut options.decode_invalid));
    add(stack, "new", |stack: &Stack<'_>| {
        push_library(stack);
        Ok(1)
    });
    stack.push_null_pointer();
    stack.set_field(-2, "null");
    for (name, text) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        stack.set_text(name, text.as_bytes());
    }
}

fn integer(stack: &Stack<'_>, nth: i32, setting: &mut u32, min: u32, max: u32) -> Result<(), Raised> {
    if stack.kind(nth) != Kind::Nil {
        let value = to_integer(stack.check_number(nth)?);
        *setting = u32::try_from(value)
            .ok()
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| stack.bad_argument(1, &format!("expected integer between {min} and {max}")))?;
    }
    stack.push_number(f64::from(*setting));
    Ok(())
}

/// Reads one of the words, or a boolean for the first two, from the first argument; pushes the present setting.
fn choice(stack: &Stack<'_>, setting: &mut usize, words: &[&str]) -> Result<(), Raised> {
    match stack.kind(1) {
        Kind::Nil => {}
        Kind::Boolean => *setting = usize::from(stack.truth(1)),
        _ => {
            let word = stack.check_text(1)?;
            let found = words.iter().position(|known| known.as_bytes() == word);
            *setting = found.ok_or_else(|| {
                let word = String::from_utf8_lossy(word).into_owned();
                stack.bad_argument(1, &format!("invalid option '{word}'"))
            })?;
        }
    }
    if *setting < 2 {
        stack.push_boolean(*setting == 1)
    } else {
        stack.push_bytes(words[*setting].as_bytes())
    }
    Ok(())
}

/// Reads or sets the setting from the first argument; pushes the present one.
fn on_or_off(stack: &Stack<'_>, setting: &mut bool) -> Result<(), Raised> {
    let mut now = usize::from(*setting);
    choice(stack, &mut now, &["off", "on"])?;
    *setting = now == 1;
    Ok(())
}

/// Has options changed by a function of at most so many arguments; missing ones become nil. It has pushed as many results.
fn change(stack: &Stack<'_>, args: i32, change: impl FnOnce(&mut Options) -> Result<(), Raised>) -> Outcome {
    stack.refuse_argument_if(stack.top() > args, args + 1, "found too many arguments")?;
    stack.set_top(args);
    let mut options = stack.world().json.get();
    let changed = change(&mut options);
    stack.world().json.set(options);
    changed.map(|()| args as usize)
}

fn sparse_array(stack: &Stack<'_>) -> Outcome {
    change(stack, 3, |options| {
        on_or_off(stack, &mut options.sparse_convert)?;
        integer(stack, 2, &mut options.sparse_ratio, 0, i32::MAX as u32)?;
        integer(stack, 3, &mut options.sparse_safe, 0, i32::MAX as u32)
    })
}

fn number(stack: &Stack<'_>, max: u32, setting: impl FnOnce(&mut Options) -> &mut u32) -> Outcome {
    change(stack, 1, |options| integer(stack, 1, setting(options), 1, max))
}

fn switch(stack: &Stack<'_>, setting: impl FnOnce(&mut Options) -> &mut bool) -> Outcome {
    change(stack, 1, |options| on_or_off(stack, setting(options)))
}

fn encode_invalid_numbers(stack: &Stack<'_>) -> Outcome {
    const CHOICES: [Invalid; 3] = [Invalid::Refused, Invalid::Written, Invalid::Null];
    change(stack, 1, |options| {
        let mut now = CHOICES.iter().position(|choice| *choice == options.encode_invalid).unwrap_or_default();
        choice(stack, &mut now, &["off", "on", "null"])?;
        options.encode_invalid = CHOICES[now];
        debug_assert_ne!(stack.kind(TOP), Kind::None);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::test_host::{Run, error, eval};
    use proptest::prelude::*;

    fn encoded(code: &str) -> String {
        let reply = eval(&format!("return cjson.encode({code})"));
        reply.split_once("\r\n").unwrap().1.trim_end().to_owned()
    }

    #[test]
    fn values_are_encoded_as_by_cjson() {
        let cases = [
            ("1e15", "1e+15"),
            ("123456789012345678", "1.2345678901235e+17"),
            ("-0", "-0"),
            ("0.1", "0.1"),
            ("nil", "null"),
            ("{}", "{}"),
            ("{1, nil, 3}", "[1,null,3]"),
            ("{[10] = 5}", "[null,null,null,null,null,null,null,null,null,5]"),
            ("{1, 2, a = 3}", r#"{"1":1,"2":2,"a":3}"#),
            ("{[1.5] = 1}", r#"{"1.5":1}"#),
            ("{cjson.null}", "[null]"),
            ("{[1e20] = 1}", r#"{"1e+20":1}"#),
            ("{a = 1, b = 2, c = 3, dd = 4, eee = 5, ffff = 6}", r#"{"a":1,"eee":5,"c":3,"b":2,"ffff":6,"dd":4}"#),
            (r#"'a"b\\c/d\n\1\127'"#, r#""a\"b\\c\/d\n\u0001\u007f""#),
        ];
        for (code, json) in cases {
            assert_eq!(encoded(code), json, "{code}");
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_an_error() {
        let cases = [
            ("1/0", "Cannot serialise number: must not be NaN or Inf"),
            ("{[11] = 5}", "Cannot serialise table: excessively sparse array"),
            ("{[true] = 1}", "Cannot serialise boolean: table key must be a number or string"),
            ("function() end", "Cannot serialise function: type not supported"),
            ("1, 2", "bad argument #1 to 'encode' (expected 1 argument)"),
        ];
        for (code, problem) in cases {
            assert_eq!(error(&format!("return cjson.encode({code})")), format!("ERR user_script:1: {problem}"));
        }
        let deep = error("local t = {} t[1] = t return cjson.encode(t)");
        assert_eq!(deep, "ERR user_script:1: Cannot serialise, excessive nesting (1001)");
    }

    #[test]
    fn what_cannot_be_decoded_is_an_error_that_says_where() {
        let cases = [
            (r#"'"\\ud83d"'"#, "Expected value but found invalid unicode escape code at character 2"),
            (r#"'"abc'"#, "Expected value but found unexpected end of string at character 5"),
            ("''", "Expected value but found T_END at character 1"),
            ("'[1 2]'", "Expected comma or array end but found T_NUMBER at character 4"),
            ("'[1,]'", "Expected value but found T_ARR_END at character 4"),
            (r#"'{"a"}'"#, "Expected colon but found T_OBJ_END at character 5"),
            ("'{a:1}'", "Expected object key string but found invalid token at character 2"),
            ("'[1]x'", "Expected the end but found invalid token at character 4"),
            ("'--1'", "Expected value but found invalid number at character 1"),
            ("'1e'", "Expected the end but found invalid token at character 2"),
            ("string.rep('[', 1001)", "Found too many nested data structures (1001) at character 1001"),
            (r"'\0[1]'", "JSON parser does not support UTF-16 or UTF-32"),
            ("{}", "bad argument #1 to 'decode' (string expected, got table)"),
        ];
        for (code, problem) in cases {
            assert_eq!(
                error(&format!("return cjson.decode({code})")),
                format!("ERR user_script:1: {problem}"),
                "{code}"
            );
        }
    }

    #[test]
    fn numbers_are_read_as_by_strtod() {
        let code = "local r = {} for _, s in ipairs({'01', '-0x10', '1e5', '1.', '+1', '1e999', 'NaN', '-inf', '[-Infinity]', '12345678901234567890'}) \
                    do local v = cjson.decode(s) r[#r + 1] = tostring(type(v) == 'table' and v[1] or v) end return table.concat(r, ' ')";
        let numbers = "1 -16 100000 1 1 inf nan -inf -inf 1.2345678901235e+19";
        assert_eq!(eval(code), format!("${}\r\n{numbers}\r\n", numbers.len()));
    }

    #[test]
    fn options_end_with_their_script() {
        let mut run = Run::new();
        assert_eq!(run.eval_with("cjson.decode_max_depth(1) return pcall(cjson.decode, '[[1]]')", &[]), b"$-1\r\n");
        assert_eq!(run.eval_with("return cjson.decode_max_depth()", &[]), b":1000\r\n");
        assert_eq!(
            error("cjson.encode_number_precision(17)"),
            "ERR user_script:1: bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14)"
        );
        assert_eq!(
            error("cjson.encode_invalid_numbers('x')"),
            "ERR user_script:1: bad argument #1 to 'encode_invalid_numbers' (invalid option 'x')"
        );
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("true".to_owned()),
            (-1_000_000i64..1_000_000).prop_map(|number| number.to_string()),
            "[a-z ]{0,12}".prop_map(|text| format!("\"{text}\"")),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop::collection::vec(inner, 1..6).prop_map(|list| format!("[{}]", list.join(",")))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn what_is_decoded_is_encoded_the_same(json in json()) {
            let reply = Run::new().eval_with("return cjson.encode(cjson.decode(ARGV[1]))", &[json.as_bytes()]);
            prop_assert_eq!(reply, format!("${}\r\n{json}\r\n", json.len()).into_bytes());
        }

        #[test]
        fn texts_of_any_kind_do_no_harm(text in "[\\[\\]{}\",:0-9.eE+tfn\\\\u \0-]{0,80}") {
            Run::new().eval_with("return {pcall(cjson.decode, ARGV[1])}", &[text.as_bytes()]);
        }
    }
}
