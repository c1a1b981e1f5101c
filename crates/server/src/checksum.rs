//! The checksum of a data folder's small files.

/// A CRC-32 in hexadecimal: it tells every change of one byte.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}
