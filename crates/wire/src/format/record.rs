//! A row as one value: the binary form of type `record`.

use anabranch_types::{DataType, EffectError, TimeZone, Value};
use bytes::{BufMut, BytesMut};

use super::{Format, encode, oid_of};

/// Appends a row in binary form: the number of columns, then each one's OID, its length or -1 for NULL, and its bytes.
pub(super) fn encode_record(
    columns: &[Value],
    types: &[DataType],
    out: &mut BytesMut,
) -> Result<(), EffectError> {
    let count = i32::try_from(columns.len())
        .map_err(|_| EffectError::new("54011", "a row has too many columns"))?;
    out.put_i32(count);
    for (value, data_type) in columns.iter().zip(types) {
        out.put_u32(oid_of(data_type));
        // The binary form depends on no time zone.
        encode(value, data_type, Format::Binary, &TimeZone::UTC, out)?;
    }
    Ok(())
}
