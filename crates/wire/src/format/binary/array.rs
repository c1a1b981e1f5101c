//! The binary form of a one-dimensional array.
//!
//! `ndim: i32, has_nulls: i32, element OID: u32`, for each dimension `length: i32, lower_bound: i32`, then each element
//! with its length before it, -1 for NULL. An empty array has no dimension.

use anabranch_types::{DataType, EffectError, Value};
use bytes::{BufMut, BytesMut};

use super::{Input, decode_binary, encode_binary, with_length};
use crate::format::oid::{data_type_of, oid_of};

/// PostgreSQL's limit of dimensions.
const DIMENSIONS_MAX: i32 = 6;

/// Appends an array whose subscripts begin at `lower_bound`.
pub(super) fn encode(
    elements: &[Value],
    element_type: &DataType,
    lower_bound: i32,
    out: &mut BytesMut,
) -> Result<(), EffectError> {
    let length = i32::try_from(elements.len())
        .map_err(|_| EffectError::new("54000", "array size exceeds the maximum allowed"))?;
    out.put_i32(i32::from(length > 0));
    out.put_i32(i32::from(elements.iter().any(Value::is_null)));
    out.put_u32(oid_of(element_type));
    if length == 0 {
        return Ok(());
    }
    out.put_i32(length);
    out.put_i32(lower_bound);
    for element in elements {
        if element.is_null() {
            out.put_i32(-1);
        } else {
            with_length(out, |out| encode_binary(element, element_type, out))?;
        }
    }
    Ok(())
}

/// Reads an array.
pub(super) fn decode(input: &mut Input<'_>, element_type: &DataType) -> Result<Value, EffectError> {
    let dimensions = i32::from_be_bytes(input.take()?);
    if dimensions < 0 {
        return Err(input.wrong(format!("invalid number of dimensions: {dimensions}")));
    }
    if dimensions > DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({dimensions}) exceeds the maximum allowed \
             ({DIMENSIONS_MAX})"
        );
        return Err(EffectError::new("54000", message));
    }
    let flags = i32::from_be_bytes(input.take()?);
    if !matches!(flags, 0 | 1) {
        return Err(input.wrong("invalid array flags"));
    }
    let oid = u32::from_be_bytes(input.take()?);
    if oid != oid_of(element_type) {
        return Err(wrong_element(oid, element_type));
    }
    if dimensions == 0 {
        return Ok(Value::Array([].into()));
    }
    if dimensions > 1 {
        let message = "an array of several dimensions is not supported";
        return Err(EffectError::new("0A000", message));
    }
    let length = i32::from_be_bytes(input.take()?);
    let lower_bound = i32::from_be_bytes(input.take()?);
    let length = usize::try_from(length)
        .map_err(|_| EffectError::new("54000", "array size exceeds the maximum allowed"))?;
    if lower_bound != 1 && length > 0 {
        let message = format!(
            "an array whose first element has the index {lower_bound} is not supported; it must \
             be 1"
        );
        return Err(EffectError::new("0A000", message));
    }
    // Each element takes four bytes at least: the number is held against them before memory is taken.
    if length > input.remaining() / 4 {
        let message = format!("insufficient data left in message for {length} array elements");
        return Err(EffectError::new("08P01", message));
    }
    let mut elements = Vec::with_capacity(length);
    for _ in 0..length {
        let size = i32::from_be_bytes(input.take()?);
        elements.push(match usize::try_from(size) {
            Ok(size) => decode_binary(input.take_slice(size)?, element_type)?,
            Err(_) if size == -1 => Value::Null,
            Err(_) => return Err(input.wrong("insufficient data left in message")),
        });
    }
    Ok(Value::Array(elements.into()))
}

fn wrong_element(oid: u32, expected: &DataType) -> EffectError {
    let name = match data_type_of(oid) {
        Ok(Some(data_type)) => format!(" ({data_type})"),
        _ => String::new(),
    };
    let message = format!(
        "binary data has array element type {oid}{name} instead of expected {} ({expected})",
        oid_of(expected)
    );
    EffectError::new("42804", message)
}
