//! Doubles as decimal digits, by the algorithm Grisu2.
//!
//! Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers" (PLDI 2010), section 5. Its digits
//! always read back to the same double. They are nearly always the fewest: of random doubles one in some thousands gets one digit
//! more, which is why another algorithm would not do: Redis writes doubles this way since 7.2, and its replies and
//! digests show the digits. Both must also take the same one of the powers of ten that are near enough.

/// Most digits of a double.
pub(crate) const DIGITS_MAX: usize = 18;

/// A number `fraction * 2^exponent`.
#[derive(Clone, Copy)]
struct Scaled {
    fraction: u64,
    exponent: i32,
}

/// Digits that stand for `digits * 10^scale`.
pub(crate) struct Digits {
    digits: [u8; DIGITS_MAX],
    len: usize,
    pub(crate) scale: i32,
}

const FRACTION_BITS: i32 = 52;
const HIDDEN_BIT: u64 = 1 << FRACTION_BITS;

/// Of the smallest normal double, as an integer is multiplied by it.
const EXPONENT_MIN: i32 = -1074;

impl Digits {
    /// The digits of a finite number above 0, in ASCII. O(1).
    pub(crate) fn of(value: f64) -> Self {
        debug_assert!(value.is_finite() && value > 0.0);
        let [low, value, high] = neighbours(value);
        let (power, decimal_exponent) = power_for(high.exponent);
        let (low, value, high) = (low.times(power), value.times(power), high.times(power));
        // The products are off by one at most.
        let mut digits = Digits { digits: [0; DIGITS_MAX], len: 0, scale: -decimal_exponent };
        digits.generate(high.fraction - 1, value.fraction, low.fraction + 1, -high.exponent as u32);
        digits
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    fn push(&mut self, digit: u64) {
        if digit > 0 || self.len > 0 {
            self.digits[self.len] = b'0' + digit as u8;
            self.len += 1;
        }
    }

    /// The digits of a number between `low` and `high`, as near to `value` as that many digits are. All have `point` bits behind
    /// the point.
    fn generate(&mut self, high: u64, value: u64, low: u64, point: u32) {
        let (mut to_value, mut width) = (high - value, high - low);
        let behind = (1 << point) - 1;
        let (mut whole, mut part) = (high >> point, high & behind);
        let mut unit = 1_000_000_000;
        for left in (0..10).rev() {
            self.push(whole / unit);
            whole %= unit;
            let rest = (whole << point) + part;
            if rest <= width {
                self.scale += left;
                return self.approach(rest, to_value, width, unit << point);
            }
            unit /= 10;
        }
        loop {
            (part, width, to_value) = (part * 10, width * 10, to_value * 10);
            self.scale -= 1;
            self.push(part >> point);
            part &= behind;
            if part < width {
                return self.approach(part, to_value, width, 1 << point);
            }
        }
    }

    /// Lowers the last digit, which counts `unit`, while that comes nearer to the value and stays above the low end. The digits
    /// are `rest` below the high end, the value is `to_value` below it, and the low end `width`.
    fn approach(&mut self, mut rest: u64, to_value: u64, width: u64, unit: u64) {
        while rest < to_value
            && width - rest >= unit
            && (rest + unit < to_value || to_value - rest > rest + unit - to_value)
        {
            self.digits[self.len - 1] -= 1;
            rest += unit;
        }
    }
}

impl Scaled {
    /// With the highest bit set.
    fn normalized(self) -> Self {
        let zeros = self.fraction.leading_zeros();
        Self { fraction: self.fraction << zeros, exponent: self.exponent - zeros as i32 }
    }

    /// Rounded to 64 bits.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.fraction) * u128::from(other.fraction) + (1 << 63);
        Self { fraction: (product >> 64) as u64, exponent: self.exponent + other.exponent + 64 }
    }
}

/// Half-way to the double below, the double, and half-way to the double above, with the same exponent.
fn neighbours(value: f64) -> [Scaled; 3] {
    let bits = value.to_bits();
    let (biased, bits) = ((bits >> FRACTION_BITS) as i32, bits & (HIDDEN_BIT - 1));
    let (fraction, exponent) = match biased {
        0 => (bits, EXPONENT_MIN),
        _ => (bits | HIDDEN_BIT, EXPONENT_MIN - 1 + biased),
    };
    let high = Scaled { fraction: 2 * fraction + 1, exponent: exponent - 1 }.normalized();
    // The double below a power of two is nearer.
    let shift = if fraction == HIDDEN_BIT { 2 } else { 1 };
    let low = ((fraction << shift) - 1) << (exponent - shift - high.exponent);
    let value = Scaled { fraction, exponent }.normalized();
    [Scaled { fraction: low, ..high }, value, high]
}

/// Exponents of two that a product with a power of ten may have, so that its whole part fits 32 bits.
const PRODUCT_EXPONENTS: std::ops::RangeInclusive<i32> = -60..=-32;

/// A power of ten that brings numbers with this exponent of two to [`PRODUCT_EXPONENTS`], and its exponent of ten.
fn power_for(exponent: i32) -> (Scaled, i32) {
    const LOG10_OF_2: f64 = 0.301_029_995_663_981_14;
    // Where Redis begins to look.
    let about = (f64::from(-(exponent + POWERS.len() as i32)) * LOG10_OF_2) as i32;
    let mut at = ((about - POWER_FIRST) / POWER_STEP) as usize;
    loop {
        let tens = POWER_FIRST + POWER_STEP * at as i32;
        // The whole part of the logarithm to base 2.
        let power = Scaled { fraction: POWERS[at], exponent: ((tens * 1_741_647) >> 19) - 63 };
        let product = exponent + power.exponent + 64;
        if PRODUCT_EXPONENTS.contains(&product) {
            return (power, tens);
        }
        if product < *PRODUCT_EXPONENTS.start() { at += 1 } else { at -= 1 }
    }
}

const POWER_FIRST: i32 = -348;
const POWER_STEP: i32 = 8;

/// The highest 64 bits, rounded, of the powers of ten from 10^-348 to 10^340 in steps of 8.
#[rustfmt::skip]
const POWERS: [u64; 87] = [
    0xfa8f_d5a0_081c_0288, 0xbaae_e17f_a23e_bf76, 0x8b16_fb20_3055_ac76, 0xcf42_894a_5dce_35ea, 0x9a6b_b0aa_5565_3b2d,
    0xe61a_cf03_3d1a_45df, 0xab70_fe17_c79a_c6ca, 0xff77_b1fc_bebc_dc4f, 0xbe56_91ef_416b_d60c, 0x8dd0_1fad_907f_fc3c,
    0xd351_5c28_3155_9a83, 0x9d71_ac8f_ada6_c9b5, 0xea9c_2277_23ee_8bcb, 0xaecc_4991_4078_536d, 0x823c_1279_5db6_ce57,
    0xc210_9436_4dfb_5637, 0x9096_ea6f_3848_984f, 0xd774_85cb_2582_3ac7, 0xa086_cfcd_97bf_97f4, 0xef34_0a98_172a_ace5,
    0xb238_67fb_2a35_b28e, 0x84c8_d4df_d2c6_3f3b, 0xc5dd_4427_1ad3_cdba, 0x936b_9fce_bb25_c996, 0xdbac_6c24_7d62_a584,
    0xa3ab_6658_0d5f_daf6, 0xf3e2_f893_dec3_f126, 0xb5b5_ada8_aaff_80b8, 0x8762_5f05_6c7c_4a8b, 0xc9bc_ff60_34c1_3053,
    0x964e_858c_91ba_2655, 0xdff9_7724_7029_7ebd, 0xa6df_bd9f_b8e5_b88f, 0xf8a9_5fcf_8874_7d94, 0xb944_7093_8fa8_9bcf,
    0x8a08_f0f8_bf0f_156b, 0xcdb0_2555_6531_31b6, 0x993f_e2c6_d07b_7fac, 0xe45c_10c4_2a2b_3b06, 0xaa24_2499_6973_92d3,
    0xfd87_b5f2_8300_ca0e, 0xbce5_0864_9211_1aeb, 0x8cbc_cc09_6f50_88cc, 0xd1b7_1758_e219_652c, 0x9c40_0000_0000_0000,
    0xe8d4_a510_0000_0000, 0xad78_ebc5_ac62_0000, 0x813f_3978_f894_0984, 0xc097_ce7b_c907_15b3, 0x8f7e_32ce_7bea_5c70,
    0xd5d2_38a4_abe9_8068, 0x9f4f_2726_179a_2245, 0xed63_a231_d4c4_fb27, 0xb0de_6538_8cc8_ada8, 0x83c7_088e_1aab_65db,
    0xc45d_1df9_4271_1d9a, 0x924d_692c_a61b_e758, 0xda01_ee64_1a70_8dea, 0xa26d_a399_9aef_774a, 0xf209_787b_b47d_6b85,
    0xb454_e4a1_79dd_1877, 0x865b_8692_5b9b_c5c2, 0xc835_53c5_c896_5d3d, 0x952a_b45c_fa97_a0b3, 0xde46_9fbd_99a0_5fe3,
    0xa59b_c234_db39_8c25, 0xf6c6_9a72_a398_9f5c, 0xb7dc_bf53_54e9_bece, 0x88fc_f317_f222_41e2, 0xcc20_ce9b_d35c_78a5,
    0x9816_5af3_7b21_53df, 0xe2a0_b5dc_971f_303a, 0xa8d9_d153_5ce3_b396, 0xfb9b_7cd9_a4a7_443c, 0xbb76_4c4c_a7a4_4410,
    0x8bab_8eef_b640_9c1a, 0xd01f_ef10_a657_842c, 0x9b10_a4e5_e991_3129, 0xe710_9bfb_a19c_0c9d, 0xac28_20d9_623b_f429,
    0x8044_4b5e_7aa7_cf85, 0xbf21_e440_03ac_dd2d, 0x8e67_9c2f_5e44_ff8f, 0xd433_179d_9c8c_b841, 0x9e19_db92_b4e3_1ba9,
    0xeb96_bf6e_badf_77d9, 0xaf87_023b_9bf0_ee6b,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let digits = Digits::of(value);
        format!("{}e{}", String::from_utf8_lossy(digits.as_bytes()), digits.scale)
    }

    #[test]
    fn digits_read_back_and_are_few() {
        let mut state = 1_u64;
        let mut longer = 0;
        for round in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = match round % 4 {
                0 => f64::from_bits(state >> 1),
                1 => (state >> 11) as f64 / 1e9,
                2 => (state >> 40) as f64 * 0.001,
                _ => f64::from_bits(state >> 12 & 0xf_ffff),
            };
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            let text = text(value);
            assert_eq!(text.parse::<f64>(), Ok(value), "{text}");
            let fewest = format!("{value:e}").split('e').next().map_or(0, |digits| digits.replace('.', "").len());
            longer += usize::from(Digits::of(value).as_bytes().len() > fewest);
        }
        assert!(longer < 1_000, "{longer} have more digits than they need");
    }

    #[test]
    fn digits_are_those_of_redis() {
        for (value, digits) in [
            (1.0, "1e0"),
            (0.1, "1e-1"),
            (382.8293721197916, "38282937211979163e-14"),
            (523.261146735973, "5232611467359731e-13"),
            (1741250068.974877, "17412500689748771e-7"),
            (71596021207396384.0, "71596021207396384e0"),
            (f64::MAX, "17976931348623157e292"),
            (f64::MIN_POSITIVE, "22250738585072014e-324"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(text(value), digits);
        }
    }
}
