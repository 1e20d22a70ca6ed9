//! The library `cmsgpack`: MessagePack, in the version of 2012 with `str8`, as Redis has it.
//!
//! Format: <https://github.com/msgpack/msgpack/blob/master/spec.md>

use crate::number::to_integer;
use crate::sandbox::add;
use crate::stack::{BYTES_PER_STEP, Kind, NESTING_MAX, Outcome, Raised, Stack, TOP};
use crate::unfold::ValuesLeft;

/// Tables nested deeper than this are packed as nil.
const PACKED_NESTING_MAX: usize = 16;

/// Adds `cmsgpack` to the table on top.
pub(crate) fn open(stack: &Stack<'_>) {
    stack.push_table(0, 8);
    add(stack, "pack", pack);
    add(stack, "unpack", |stack: &Stack<'_>| unpack(stack, 0, 0));
    add(stack, "unpack_one", unpack_one);
    add(stack, "unpack_limit", unpack_limit);
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        stack.set_text(name, text.as_bytes());
    }
    stack.set_field(-2, "cmsgpack");
}

fn pack(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    stack.refuse_argument_if(count == 0, 0, "MessagePack pack needs input.")?;
    if !stack.has_space(4 * PACKED_NESTING_MAX + 8) {
        return Err(stack.raise("Too many arguments for MessagePack pack."));
    }
    stack.world().with_scratch(|out| {
        let mut packer = Packer { stack, out, left: ValuesLeft::new(stack.heap()) };
        for nth in 1..=count {
            stack.push_value(nth);
            packer.value(0)?;
        }
        stack.push_bytes(packer.out);
        Ok(1)
    })
}

struct Packer<'a> {
    stack: &'a Stack<'a>,
    out: &'a mut Vec<u8>,
    left: ValuesLeft,
}

impl Packer<'_> {
    /// Packs the value on top and pops it.
    fn value(&mut self, depth: usize) -> Result<(), Raised> {
        let Self { stack, out, .. } = self;
        stack.work(4)?;
        if !self.left.take() {
            return Err(stack.raise("Too many values for MessagePack pack."));
        }
        match stack.kind(TOP) {
            Kind::String => {
                let bytes = stack.bytes(TOP).unwrap_or_default();
                stack.work(bytes.len() / BYTES_PER_STEP)?;
                pack_string(out, bytes);
            }
            Kind::Boolean => out.push(if stack.truth(TOP) { 0xc3 } else { 0xc2 }),
            Kind::Number => pack_number(out, stack.number(TOP).unwrap_or_default()),
            Kind::Table if depth < PACKED_NESTING_MAX => self.table(depth)?,
            _ => out.push(0xc0),
        }
        self.stack.pop(1);
        let is_too_long = self.out.len() > self.stack.heap().max_bytes();
        if is_too_long { Err(self.stack.raise_plain("not enough memory")) } else { Ok(()) }
    }

    /// A table whose keys are 1 to their number is an array, any other table is a map.
    fn table(&mut self, depth: usize) -> Result<(), Raised> {
        let stack = self.stack;
        let (count, is_array) = survey(stack)?;
        if is_array {
            header(self.out, count, [0x90, 0xdc, 0xdd]);
            for nth in 1..=count {
                stack.get_nth(TOP, nth as i32);
                self.value(depth + 1)?;
            }
        } else {
            header(self.out, count, [0x80, 0xde, 0xdf]);
            stack.push_nil();
            while stack.next(-2) {
                stack.push_value(-2);
                self.value(depth + 1)?;
                self.value(depth + 1)?;
            }
        }
        Ok(())
    }
}

fn pack_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = bytes.len();
    match len {
        0..32 => out.push(0xa0 | len as u8),
        32..=0xff => out.extend_from_slice(&[0xd9, len as u8]),
        0x100..=0xffff => tagged(out, 0xda, &(len as u16).to_be_bytes()),
        _ => tagged(out, 0xdb, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn pack_number(out: &mut Vec<u8>, value: f64) {
    const BEYOND: f64 = (1_u64 << 63) as f64;
    if (-BEYOND..BEYOND).contains(&value) && value.trunc() == value {
        pack_integer(out, value as i64);
    } else if f64::from(value as f32) == value {
        tagged(out, 0xca, &(value as f32).to_be_bytes());
    } else {
        tagged(out, 0xcb, &value.to_be_bytes());
    }
}

fn pack_integer(out: &mut Vec<u8>, value: i64) {
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, value as u8]),
        0x100..=0xffff => tagged(out, 0xcd, &(value as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => tagged(out, 0xce, &(value as u32).to_be_bytes()),
        0x1_0000_0000.. => tagged(out, 0xcf, &value.to_be_bytes()),
        -32..0 => out.push(value as u8),
        -128..-32 => out.extend_from_slice(&[0xd0, value as u8]),
        -0x8000..-128 => tagged(out, 0xd1, &(value as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => tagged(out, 0xd2, &(value as i32).to_be_bytes()),
        _ => tagged(out, 0xd3, &value.to_be_bytes()),
    }
}

fn header(out: &mut Vec<u8>, count: usize, [short, medium, long]: [u8; 3]) {
    match count {
        0..16 => out.push(short | count as u8),
        16..=0xffff => tagged(out, medium, &(count as u16).to_be_bytes()),
        _ => tagged(out, long, &(count as u32).to_be_bytes()),
    }
}

/// The number of fields of the table on top, and whether it is an array.
fn survey(stack: &Stack<'_>) -> Result<(usize, bool), Raised> {
    let (mut count, mut largest, mut is_array) = (0, 0.0_f64, true);
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        stack.work(1)?;
        count += 1;
        let key = (stack.kind(TOP) == Kind::Number).then(|| stack.number(TOP).unwrap_or_default());
        match key {
            Some(key) if key >= 1.0 && key.trunc() == key => largest = largest.max(key),
            _ => is_array = false,
        }
    }
    Ok((count, is_array && largest == count as f64))
}

fn unpack_one(stack: &Stack<'_>) -> Outcome {
    unpack_from(stack, 1, 2)
}

fn unpack_limit(stack: &Stack<'_>) -> Outcome {
    let limit = to_integer(stack.check_number(2)?);
    unpack_from(stack, limit, 3)
}

/// As [`unpack`]; argument `nth` is the offset, if it is given.
fn unpack_from(stack: &Stack<'_>, limit: i64, nth: i32) -> Outcome {
    let offset = if stack.is_given(nth) { to_integer(stack.check_number(nth)?) } else { 0 };
    stack.set_top(stack.top().min(1));
    unpack(stack, limit, offset)
}

/// Unpacks up to `limit` objects from `offset` on; all if both are 0. Otherwise the first result is the offset of the
/// next object.
fn unpack(stack: &Stack<'_>, limit: i64, offset: i64) -> Outcome {
    let bytes = stack.check_text(1)?;
    let len = bytes.len() as i64;
    if offset < 0 || limit < 0 {
        return Err(stack.raise(format!("Invalid request to unpack with offset of {offset} and limit of {len}.")));
    }
    if offset > len {
        return Err(stack.raise(format!("Start offset {offset} greater than input length {len}.")));
    }
    let is_full = limit == 0 && offset == 0;
    let limit = if is_full { i64::MAX } else { limit };
    let mut reader = Reader { stack, bytes, at: offset as usize, depth: 0 };
    let mut count = 0;
    while count < limit && reader.at < bytes.len() {
        if !stack.has_space(8) {
            return Err(stack.raise("stack overflow (in function mp_unpack)"));
        }
        reader.value().map_err(|problem| reader.raise(problem))?;
        count += 1;
    }
    if is_full {
        return Ok(count as usize);
    }
    stack.push_number(if reader.at < bytes.len() { reader.at as f64 } else { -1.0 });
    stack.insert(2);
    Ok(count as usize + 1)
}

/// Why bytes cannot be unpacked.
enum Problem {
    Missing,
    BadFormat,
    TooDeep,
    BadKey(&'static str),
    Raised(Raised),
}

struct Reader<'a, 's> {
    stack: &'a Stack<'s>,
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

impl Reader<'_, '_> {
    #[cold]
    fn raise(&self, problem: Problem) -> Raised {
        match problem {
            Problem::Missing => self.stack.raise("Missing bytes in input."),
            Problem::BadFormat => self.stack.raise("Bad data format in input."),
            Problem::TooDeep => self.stack.raise("stack overflow (in function mp_decode_to_lua_array)"),
            Problem::BadKey(message) => self.stack.raise_plain(message),
            Problem::Raised(raised) => raised,
        }
    }

    fn take(&mut self, len: usize) -> Result<&[u8], Problem> {
        let end = self.at.checked_add(len).ok_or(Problem::Missing)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Problem::Missing)?;
        self.at = end;
        Ok(bytes)
    }

    fn unsigned(&mut self, len: usize) -> Result<u64, Problem> {
        Ok(self.take(len)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Pushes one value.
    fn value(&mut self) -> Result<(), Problem> {
        self.stack.work(4).map_err(Problem::Raised)?;
        let tag = self.take(1)?[0];
        let number = match tag {
            0x00..=0x7f => f64::from(tag),
            0xe0..=0xff => f64::from(tag as i8),
            0xcc => self.unsigned(1)? as f64,
            0xcd => self.unsigned(2)? as f64,
            0xce => self.unsigned(4)? as f64,
            // Both are read as signed, as in Redis.
            0xcf | 0xd3 => self.unsigned(8)? as i64 as f64,
            0xd0 => f64::from(self.unsigned(1)? as i8),
            0xd1 => f64::from(self.unsigned(2)? as i16),
            0xd2 => f64::from(self.unsigned(4)? as i32),
            0xca => f64::from(f32::from_bits(self.unsigned(4)? as u32)),
            0xcb => f64::from_bits(self.unsigned(8)?),
            _ => return self.other(tag),
        };
        self.stack.push_number(number);
        Ok(())
    }

    fn other(&mut self, tag: u8) -> Result<(), Problem> {
        match tag {
            0xc0 => self.stack.push_nil(),
            0xc2 | 0xc3 => self.stack.push_boolean(tag == 0xc3),
            0xa0..=0xbf => self.string(usize::from(tag & 0x1f))?,
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))? as usize;
                self.string(len)?;
            }
            0x90..=0x9f => self.array(usize::from(tag & 0xf))?,
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (tag - 0xdc))? as usize;
                self.array(len)?;
            }
            0x80..=0x8f => self.map(usize::from(tag & 0xf))?,
            0xde | 0xdf => {
                let len = self.unsigned(2 << (tag - 0xde))? as usize;
                self.map(len)?;
            }
            _ => return Err(Problem::BadFormat),
        }
        Ok(())
    }

    fn string(&mut self, len: usize) -> Result<(), Problem> {
        let stack = self.stack;
        stack.push_bytes(self.take(len)?);
        stack.check_memory().map_err(Problem::Raised)
    }

    fn descend(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth <= NESTING_MAX && self.stack.has_space(8) { Ok(()) } else { Err(Problem::TooDeep) }
    }

    fn array(&mut self, len: usize) -> Result<(), Problem> {
        self.descend()?;
        self.stack.push_table(0, 0);
        for nth in 1..=len {
            self.value()?;
            self.stack.set_nth(-2, nth as i32);
        }
        self.depth -= 1;
        self.stack.check_memory().map_err(Problem::Raised)
    }

    fn map(&mut self, len: usize) -> Result<(), Problem> {
        self.descend()?;
        self.stack.push_table(0, 0);
        for _ in 0..len {
            self.value()?;
            self.value()?;
            if self.stack.is_no_key(-2) {
                let is_nil = self.stack.kind(-2) == Kind::Nil;
                return Err(Problem::BadKey(if is_nil { "table index is nil" } else { "table index is NaN" }));
            }
            self.stack.set(-3);
        }
        self.depth -= 1;
        self.stack.check_memory().map_err(Problem::Raised)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_host::{Run, error, eval, eval_bytes};
    use proptest::prelude::*;

    fn packed(code: &str) -> Vec<u8> {
        let reply = eval_bytes(&format!("return cmsgpack.pack({code})"));
        let start = reply.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        reply[start..reply.len() - 2].to_vec()
    }

    #[test]
    fn values_are_packed_in_the_fewest_bytes() {
        let cases: [(&str, &[u8]); 14] = [
            ("1, 2, 'a'", b"\x01\x02\xa1a"),
            ("128", b"\xcc\x80"),
            ("65536", b"\xce\x00\x01\x00\x00"),
            ("-33", b"\xd0\xdf"),
            ("-2147483649", b"\xd3\xff\xff\xff\xff\x7f\xff\xff\xff"),
            ("1.5", b"\xca?\xc0\x00\x00"),
            ("0.1", b"\xcb?\xb9\x99\x99\x99\x99\x99\x9a"),
            ("2^63", b"\xca_\x00\x00\x00"),
            ("{}", b"\x90"),
            ("{1, nil, 3}", b"\x82\x01\x01\x03\x03"),
            ("{[true] = false}", b"\x81\xc3\xc2"),
            ("function() end", b"\xc0"),
            ("nil", b"\xc0"),
            ("string.rep('a', 32):sub(1, 32)", b"\xd9 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ];
        for (code, bytes) in cases {
            assert_eq!(packed(code), bytes, "{code}");
        }
        assert_eq!(eval("local t = {} t.t = t return #cmsgpack.pack(t)"), ":49\r\n");
    }

    #[test]
    fn what_cannot_be_unpacked_is_an_error() {
        for code in ["'\\205'", "'\\161'", "'\\146\\1'", "'\\221\\255\\255\\255\\255\\1'"] {
            assert_eq!(
                error(&format!("return cmsgpack.unpack({code})")),
                "ERR user_script:1: Missing bytes in input.",
                "{code}"
            );
        }
        for code in ["'\\193'", "'\\212\\1\\2'", "'\\196\\3abc'"] {
            assert_eq!(
                error(&format!("return cmsgpack.unpack({code})")),
                "ERR user_script:1: Bad data format in input."
            );
        }
        assert_eq!(error("return cmsgpack.unpack('\\129\\192\\1')"), "ERR table index is nil");
        let deep = error("return cmsgpack.unpack(string.rep('\\145', 100000))");
        assert_eq!(deep, "ERR user_script:1: stack overflow (in function mp_decode_to_lua_array)");
    }

    #[test]
    fn parts_are_unpacked_from_an_offset() {
        assert_eq!(eval("return {cmsgpack.unpack_one('\\1\\2\\3', 1)}"), "*2\r\n:2\r\n:2\r\n");
        assert_eq!(eval("return {cmsgpack.unpack_limit('\\1\\2\\3', 2, 1)}"), "*3\r\n:-1\r\n:2\r\n:3\r\n");
        assert_eq!(eval("return {cmsgpack.unpack_limit('\\1\\2\\3', 0)}"), "*3\r\n:1\r\n:2\r\n:3\r\n");
        assert_eq!(eval("return {cmsgpack.unpack_limit('\\1\\2\\3', 0, 1)}"), "*1\r\n:1\r\n");
        let beyond = error("return cmsgpack.unpack_one('\\1\\2\\3', 4)");
        assert_eq!(beyond, "ERR user_script:1: Start offset 4 greater than input length 3.");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn bytes_of_any_kind_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut run = Run::new();
            run.eval_with("return {pcall(cmsgpack.unpack, ARGV[1])}", &[&bytes]);
            let again = "local t = {cmsgpack.unpack(ARGV[1])} return cmsgpack.pack(unpack(t))";
            prop_assert!(!run.eval_with(again, &[&[b"\x93", &b"\x01\xa1x\xc3"[..]].concat()]).starts_with(b"-"));
        }

        #[test]
        fn what_is_packed_is_unpacked_the_same(numbers in prop::collection::vec(any::<i32>(), 1..40), text in ".{0,300}") {
            let list = numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let code = format!(
                "local t = {{{list}}} local u = cmsgpack.unpack(cmsgpack.pack({{t, ARGV[1]}})) \
                 for i, n in ipairs(t) do if u[1][i] ~= n then return i end end return u[2] == ARGV[1] and #u[1] == #t"
            );
            prop_assert_eq!(Run::new().eval_with(&code, &[text.as_bytes()]), b":1\r\n");
        }
    }
}
