//! DEBUG PROTOCOL: a reply of each type, for tests of clients.

use crate::ctx::{CommandResult, Ctx};
use crate::error::CommandError;

const NO_RESP2: CommandError = CommandError::fixed("ERR RESP2 is not supported by this command");
const BAD_PROTOCOL: CommandError = CommandError::fixed(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);

/// `DEBUG PROTOCOL type`
#[expect(clippy::approx_constant, reason = "the double that Redis answers")]
pub(crate) fn protocol(ctx: &mut Ctx<'_>) -> CommandResult {
    let out = &mut *ctx.out;
    match ctx.argv.get(2).to_ascii_lowercase().as_slice() {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.int(12345),
        b"double" => out.double(3.141),
        b"null" => out.null(),
        b"array" | b"set" => {
            if ctx.argv.get(2).eq_ignore_ascii_case(b"set") {
                out.set(3)
            } else {
                out.array(3)
            }
            (0..3).for_each(|n| out.int(n));
        }
        b"map" => {
            out.map(3);
            for n in 0..3 {
                out.int(n);
                out.bool(n == 1);
            }
        }
        b"attrib" => {
            if out.is_resp3() {
                out.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" if !out.is_resp3() => return Err(NO_RESP2.into()),
        b"push" => {
            // A message never comes before the reply of the command that has caused it.
            out.bulk(b"Some real reply following the push reply");
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.int(42);
        }
        b"verbatim" => out.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => out.bool(true),
        b"false" => out.bool(false),
        b"bignum" if out.is_resp3() => out.raw(b"(1234567999999999999999999999999999999\r\n"),
        b"bignum" => out.bulk(b"1234567999999999999999999999999999999"),
        _ => return Err(BAD_PROTOCOL.into()),
    }
    Ok(())
}
