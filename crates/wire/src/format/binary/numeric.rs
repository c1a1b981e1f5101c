//! The binary form of `numeric`: a sign and digits of base 10,000.
//!
//! `ndigits: i16, weight: i16, sign: u16, dscale: u16, digits: [i16]`. The first digit counts `10000^weight`; `dscale`
//! is the number of decimal digits after the point.

use anabranch_types::decimal::SCALE_MAX;
use anabranch_types::{Decimal, DecimalError, EffectError};
use bytes::{BufMut, BytesMut};

use super::Input;

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POSITIVE_INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Decimal digits in a digit of the binary form.
const GROUP: u32 = 4;

/// Appends a decimal.
pub(super) fn encode(decimal: Decimal, out: &mut BytesMut) {
    let scale = u32::from(decimal.scale());
    // The groups begin at the point, so the lowest may need zeros behind it; its weight is `lowest`.
    let padding = (GROUP - scale % GROUP) % GROUP;
    let lowest = -(scale.div_ceil(GROUP) as i32);
    let mut rest = decimal.mantissa().unsigned_abs();
    let mut groups: [u16; 12] = [0; 12];
    let mut count = 0;
    while rest > 0 {
        // Only the lowest group is padded.
        let room = if count == 0 { GROUP - padding } else { GROUP };
        let unit = 10u128.pow(room);
        groups[count] = (rest % unit) as u16;
        if count == 0 {
            groups[count] *= 10u16.pow(padding);
        }
        rest /= unit;
        count += 1;
    }
    // PostgreSQL sends no zeros at the end.
    let zeros = groups[..count]
        .iter()
        .take_while(|group| **group == 0)
        .count();
    let weight = match count {
        0 => 0,
        _ => lowest + count as i32 - 1,
    };
    out.put_i16((count - zeros) as i16);
    out.put_i16(weight as i16);
    out.put_u16(if decimal.is_negative() {
        NEGATIVE
    } else {
        POSITIVE
    });
    out.put_u16(decimal.scale());
    for group in groups[zeros..count].iter().rev() {
        out.put_u16(*group);
    }
}

/// Reads a decimal. Digits below its scale are cut off, as PostgreSQL does.
pub(super) fn decode(input: &mut Input<'_>) -> Result<Decimal, EffectError> {
    let count = u16::from_be_bytes(input.take()?);
    let weight = i16::from_be_bytes(input.take()?);
    let sign = u16::from_be_bytes(input.take()?);
    let scale = u16::from_be_bytes(input.take()?);
    let negative = match sign {
        POSITIVE => false,
        NEGATIVE => true,
        NAN | POSITIVE_INFINITY | NEGATIVE_INFINITY => {
            return Err(DecimalError::NotFinite.into());
        }
        _ => return Err(input.wrong("invalid sign in external \"numeric\" value")),
    };
    if scale > SCALE_MAX {
        return Err(input.wrong("invalid scale in external \"numeric\" value"));
    }
    if usize::from(count) * 2 > input.remaining() {
        return Err(input.wrong("invalid length in external \"numeric\" value"));
    }
    let mut mantissa: u128 = 0;
    // The decimal exponent of the digit's last decimal digit, above the scale.
    let mut shift = i32::from(weight) * GROUP as i32 + i32::from(scale);
    for _ in 0..count {
        let digit = u16::from_be_bytes(input.take()?);
        if digit >= 10_000 {
            return Err(input.wrong("invalid digit in external \"numeric\" value"));
        }
        if digit > 0 {
            mantissa = shifted(u128::from(digit), shift)
                .and_then(|part| mantissa.checked_add(part))
                .ok_or(DecimalError::Overflow)?;
        }
        shift -= GROUP as i32;
    }
    let mantissa = i128::try_from(mantissa).map_err(|_| DecimalError::Overflow)?;
    let signed = if negative { -mantissa } else { mantissa };
    Ok(Decimal::from_parts(signed, scale)?)
}

/// `digit × 10^shift`, cut off to an integer.
fn shifted(digit: u128, shift: i32) -> Option<u128> {
    let power = 10u128.checked_pow(shift.unsigned_abs());
    match (shift >= 0, power) {
        (true, power) => digit.checked_mul(power?),
        (false, Some(power)) => Some(digit / power),
        (false, None) => Some(0),
    }
}
