//! The library `bit`: operations on 32 bits, as Mike Pall's Lua BitOp documents them.

use crate::sandbox::add;
use crate::stack::{Kind, Outcome, Raised, Stack};

/// Adds `bit` to the table on top.
pub(crate) fn open(stack: &Stack<'_>) {
    stack.push_table(0, 16);
    add(stack, "tobit", |stack: &Stack<'_>| result(stack, argument(stack, 1)?));
    add(stack, "bnot", |stack: &Stack<'_>| result(stack, !argument(stack, 1)?));
    add(stack, "band", |stack: &Stack<'_>| fold(stack, |a, b| a & b));
    add(stack, "bor", |stack: &Stack<'_>| fold(stack, |a, b| a | b));
    add(stack, "bxor", |stack: &Stack<'_>| fold(stack, |a, b| a ^ b));
    add(stack, "lshift", |stack: &Stack<'_>| shift(stack, |a, n| a.wrapping_shl(n)));
    add(stack, "rshift", |stack: &Stack<'_>| shift(stack, |a, n| a.wrapping_shr(n)));
    add(stack, "arshift", |stack: &Stack<'_>| shift(stack, |a, n| (a as i32).wrapping_shr(n) as u32));
    add(stack, "rol", |stack: &Stack<'_>| shift(stack, |a, n| a.rotate_left(n & 31)));
    add(stack, "ror", |stack: &Stack<'_>| shift(stack, |a, n| a.rotate_right(n & 31)));
    add(stack, "bswap", |stack: &Stack<'_>| result(stack, argument(stack, 1)?.swap_bytes()));
    add(stack, "tohex", tohex);
    stack.set_field(-2, "bit");
}

/// The lowest 32 bits of a number, rounded to an integer.
fn argument(stack: &Stack<'_>, nth: i32) -> Result<u32, Raised> {
    // 2^52 + 2^51: added to a number, it leaves the number's integer part in the lowest bits of the mantissa.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    Ok((stack.check_number(nth)? + ROUNDER).to_bits() as u32)
}

fn result(stack: &Stack<'_>, bits: u32) -> Outcome {
    stack.push_number(f64::from(bits as i32));
    Ok(1)
}

fn fold(stack: &Stack<'_>, join: impl Fn(u32, u32) -> u32) -> Outcome {
    let mut bits = argument(stack, 1)?;
    for nth in 2..=stack.top() {
        bits = join(bits, argument(stack, nth)?);
    }
    result(stack, bits)
}

fn shift(stack: &Stack<'_>, join: impl Fn(u32, u32) -> u32) -> Outcome {
    let bits = argument(stack, 1)?;
    result(stack, join(bits, argument(stack, 2)?))
}

fn tohex(stack: &Stack<'_>) -> Outcome {
    let bits = argument(stack, 1)?;
    let digits = if stack.kind(2) == Kind::None { 8 } else { argument(stack, 2)? as i32 };
    let len = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    stack.push_bytes(&text.as_bytes()[8 - len..]);
    Ok(1)
}

#[cfg(test)]
mod tests {
    use crate::test_host::eval;

    #[test]
    fn bits_are_those_of_32_bit_integers() {
        let code = "return {bit.tobit(2^31), bit.tobit(2^32 + 5), bit.tobit(-1.5), bit.tobit(1.5), bit.bnot(0), bit.band(7, 3), \
                    bit.bor(1, 2, 4), bit.bxor(7, 2), bit.lshift(1, 31), bit.lshift(1, 33), bit.rshift(-1, 1), bit.arshift(-8, 1), \
                    bit.rol(0x12345678, 4), bit.ror(0x12345678, 4), bit.bswap(0x12345678), bit.tobit(1e20), bit.tobit(0/0)}";
        let numbers = [
            -2_147_483_648_i64,
            5,
            -2,
            2,
            -1,
            3,
            7,
            5,
            -2_147_483_648,
            2,
            2_147_483_647,
            -4,
            591_751_041,
            -2_128_394_905,
            2_018_915_346,
            2_025_163_840,
            0,
        ];
        let expected: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
        assert_eq!(eval(code), format!("*{}\r\n{expected}", numbers.len()));
        let code = "return table.concat({bit.tohex(255), bit.tohex(255, 2), bit.tohex(255, -4), bit.tohex(255, 0), bit.tohex(-1, 20)}, ',')";
        assert_eq!(eval(code), "$26\r\n000000ff,ff,00FF,,ffffffff\r\n");
    }
}
