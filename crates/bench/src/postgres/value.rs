//! Our values in PostgreSQL's binary format.
//!
//! The format of each type is that of its `…_recv` function: see `src/backend/utils/adt` in PostgreSQL's source.

use std::error::Error;

use anabranch_types::{Decimal, Value};
use bytes::{BufMut, BytesMut};
use postgres::types::{Format, IsNull, Kind, ToSql, Type};

/// A value as a parameter of a prepared statement.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'v>(pub &'v Value);

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if self.0.is_null() {
            return Ok(IsNull::Yes);
        }
        write_value(self.0, ty, out)?;
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // Which pairs of a value and a type there are is known where they are written.
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    fn to_sql_checked(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(ty, out)
    }
}

/// Writes a value that is not NULL.
///
/// # Errors
/// When PostgreSQL's type does not hold such a value.
fn write_value(
    value: &Value,
    ty: &Type,
    out: &mut BytesMut,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    match (value, ty) {
        (Value::Bool(truth), &Type::BOOL) => out.put_u8(u8::from(*truth)),
        (Value::Int(int), &Type::INT2) => out.put_i16(i16::try_from(*int)?),
        (Value::Int(int), &Type::INT4) => out.put_i32(i32::try_from(*int)?),
        (Value::Int(int), &Type::INT8) => out.put_i64(*int),
        (Value::Float(float), &Type::FLOAT4) => out.put_f32(*float as f32),
        (Value::Float(float), &Type::FLOAT8) => out.put_f64(*float),
        (Value::Numeric(decimal), &Type::NUMERIC) => write_numeric(*decimal, out),
        (Value::Int(int), &Type::NUMERIC) => write_numeric(Decimal::from_i64(*int), out),
        (Value::Text(text), &Type::TEXT | &Type::VARCHAR | &Type::BPCHAR) => {
            out.put_slice(text.as_bytes());
        }
        (Value::Bytes(bytes), &Type::BYTEA) => out.put_slice(bytes),
        (Value::Uuid(bytes), &Type::UUID) => out.put_slice(bytes),
        (Value::Timestamp(micros), &Type::TIMESTAMP | &Type::TIMESTAMPTZ) => out.put_i64(*micros),
        (Value::Date(days), &Type::DATE) => out.put_i32(*days),
        (Value::Array(values), ty) => match ty.kind() {
            Kind::Array(element) => write_array(values, element, out)?,
            _ => return Err(unfit(value, ty)),
        },
        _ => return Err(unfit(value, ty)),
    }
    Ok(())
}

fn unfit(value: &Value, ty: &Type) -> Box<dyn Error + Sync + Send> {
    format!("{value:?} is no value of PostgreSQL's type {ty}").into()
}

/// Writes a value after its length, NULL as the length -1: the format of COPY's fields and of arrays' elements.
///
/// # Errors
/// When PostgreSQL's type does not hold such a value.
pub(super) fn write_field(
    value: &Value,
    ty: &Type,
    out: &mut BytesMut,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    if value.is_null() {
        out.put_i32(-1);
        return Ok(());
    }
    let before = out.len();
    out.put_i32(0);
    write_value(value, ty, out)?;
    let length = i32::try_from(out.len() - before - 4)?;
    out[before..before + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_array(
    values: &[Value],
    element: &Type,
    out: &mut BytesMut,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    out.put_i32(i32::from(!values.is_empty()));
    out.put_i32(i32::from(values.iter().any(Value::is_null)));
    out.put_u32(element.oid());
    if !values.is_empty() {
        out.put_i32(i32::try_from(values.len())?);
        out.put_i32(1);
    }
    values
        .iter()
        .try_for_each(|value| write_field(value, element, out))
}

/// Digits in base 10,000, the weight of the first, the sign, the number of digits after the point.
fn write_numeric(decimal: Decimal, out: &mut BytesMut) {
    let scale = decimal.scale();
    // Whole groups of four decimal digits on both sides of the point.
    let padding = (4 - scale % 4) % 4;
    let digits = format!(
        "{}{}",
        decimal.mantissa().unsigned_abs(),
        "0".repeat(padding.into())
    );
    let digits = format!("{}{digits}", "0".repeat((4 - digits.len() % 4) % 4));
    let groups: Vec<i16> = digits
        .as_bytes()
        .chunks(4)
        .map(|group| {
            group
                .iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
        })
        .collect();
    let mut weight = groups.len() as i32 - i32::from((scale + padding) / 4) - 1;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups[leading..]
        .iter()
        .rev()
        .take_while(|group| **group == 0)
        .count();
    let groups = &groups[leading..groups.len() - trailing];
    weight = if groups.is_empty() {
        0
    } else {
        weight - leading as i32
    };
    out.put_i16(groups.len() as i16);
    out.put_i16(weight as i16);
    out.put_u16(if decimal.is_negative() { 0x4000 } else { 0 });
    out.put_u16(scale);
    groups.iter().for_each(|group| out.put_i16(*group));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(mantissa: i128, scale: u16) -> Vec<i16> {
        let mut out = BytesMut::new();
        write_numeric(
            Decimal::from_parts(mantissa, scale).expect("in range"),
            &mut out,
        );
        out.chunks(2)
            .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
            .collect()
    }

    #[test]
    fn numerics_are_groups_of_four_digits() {
        assert_eq!(numeric(0, 2), [0, 0, 0, 2]);
        assert_eq!(numeric(1, 0), [1, 0, 0, 0, 1]);
        assert_eq!(numeric(-1_234_567, 2), [3, 1, 0x4000, 2, 1, 2345, 6700]);
        assert_eq!(numeric(1, 5), [1, -2, 0, 5, 1000]);
        assert_eq!(numeric(100_000_000, 0), [1, 2, 0, 0, 1]);
        assert_eq!(numeric(500, 3), [1, -1, 0, 3, 5000]);
    }

    #[test]
    fn fields_and_arrays_carry_their_lengths() {
        let mut out = BytesMut::new();
        let array = Value::Array(vec![Value::Int(7), Value::Null].into());
        write_field(&array, &Type::INT4_ARRAY, &mut out).expect("it fits");
        let words: Vec<i32> = out
            .chunks(4)
            .map(|w| i32::from_be_bytes([w[0], w[1], w[2], w[3]]))
            .collect();
        assert_eq!(words, [32, 1, 1, 23, 2, 1, 4, 7, -1]);
        assert!(write_field(&Value::Int(70_000), &Type::INT2, &mut out).is_err());
        assert!(write_field(&Value::Bool(true), &Type::DATE, &mut out).is_err());
    }
}
