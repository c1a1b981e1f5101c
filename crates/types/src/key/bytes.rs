//! The bytes of a key: short ones inline, longer ones behind a pointer.
//!
//! Keys are built, cloned, compared and dropped more often than anything else, and nearly all are
//! a few integers: these touch no allocator, and a column is appended with one store.

use std::cmp::Ordering;

/// The most bytes that stay inline: all that 24 bytes leave beside a tag and a length.
const INLINE: usize = 22;

/// Bytes that grow at their end.
pub(super) enum KeyBytes {
    /// `bytes` are zeros from `len` on.
    Inline { len: u8, bytes: [u8; INLINE] },
    /// The first `len` of `bytes`.
    Heap { len: u32, bytes: Box<[u8]> },
}

impl KeyBytes {
    pub(super) const EMPTY: KeyBytes = KeyBytes::Inline {
        len: 0,
        bytes: [0; INLINE],
    };

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            KeyBytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            KeyBytes::Heap { len, bytes } => &bytes[..*len as usize],
        }
    }

    #[inline]
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            KeyBytes::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            KeyBytes::Heap { len, bytes } => &mut bytes[..*len as usize],
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            KeyBytes::Inline { len, .. } => usize::from(*len),
            KeyBytes::Heap { len, .. } => *len as usize,
        }
    }

    /// The first 16 bytes as a big-endian number, zeros after the end.
    #[inline]
    pub(super) fn head(&self) -> u128 {
        let bytes = match self {
            KeyBytes::Inline { bytes, .. } => bytes.as_slice(),
            KeyBytes::Heap { len, bytes } => &bytes[..*len as usize],
        };
        match bytes.first_chunk() {
            Some(head) => u128::from_be_bytes(*head),
            None => {
                // A long key that was truncated.
                let mut head = [0; 16];
                head[..bytes.len()].copy_from_slice(bytes);
                u128::from_be_bytes(head)
            }
        }
    }

    /// Appends so many bytes that the compiler knows how many.
    #[inline]
    pub(super) fn push_array<const N: usize>(&mut self, array: [u8; N]) {
        if let KeyBytes::Inline { len, bytes } = self
            && let Some(rest) = bytes.get_mut(usize::from(*len)..)
            && let Some(place) = rest.first_chunk_mut::<N>()
        {
            *place = array;
            *len += N as u8;
        } else {
            self.extend(&array);
        }
    }

    pub(super) fn extend(&mut self, slice: &[u8]) {
        match self {
            KeyBytes::Inline { len, bytes } if usize::from(*len) + slice.len() <= INLINE => {
                let begin = usize::from(*len);
                bytes[begin..begin + slice.len()].copy_from_slice(slice);
                *len += slice.len() as u8;
            }
            KeyBytes::Heap { len, bytes } if *len as usize + slice.len() <= bytes.len() => {
                let begin = *len as usize;
                bytes[begin..begin + slice.len()].copy_from_slice(slice);
                *len += slice.len() as u32;
            }
            _ => self.grow(slice),
        }
    }

    #[cold]
    fn grow(&mut self, slice: &[u8]) {
        let old = self.as_slice();
        let len = old.len() + slice.len();
        let len_stored = u32::try_from(len).expect("a key is shorter than 4 GiB");
        let mut bytes = Vec::with_capacity(len.max(2 * old.len()));
        bytes.extend_from_slice(old);
        bytes.extend_from_slice(slice);
        bytes.resize(bytes.capacity(), 0);
        *self = KeyBytes::Heap {
            len: len_stored,
            bytes: bytes.into_boxed_slice(),
        };
    }

    /// Shortens to the first `new_len` bytes; nothing happens where there are no more.
    pub(super) fn truncate(&mut self, new_len: usize) {
        match self {
            KeyBytes::Inline { len, bytes } => {
                if let Some(rest) = bytes.get_mut(new_len..usize::from(*len)) {
                    rest.fill(0);
                    *len = new_len as u8;
                }
            }
            KeyBytes::Heap { len, .. } => *len = (*len).min(new_len as u32),
        }
    }
}

/// The last 8 bytes as a big-endian number.
#[inline]
fn tail(bytes: &[u8; INLINE]) -> u64 {
    bytes
        .last_chunk()
        .map_or(0, |tail| u64::from_be_bytes(*tail))
}

impl From<&[u8]> for KeyBytes {
    #[inline]
    fn from(slice: &[u8]) -> KeyBytes {
        let mut bytes = KeyBytes::EMPTY;
        bytes.extend(slice);
        bytes
    }
}

impl Clone for KeyBytes {
    #[inline]
    fn clone(&self) -> KeyBytes {
        match self {
            KeyBytes::Inline { len, bytes } => KeyBytes::Inline {
                len: *len,
                bytes: *bytes,
            },
            KeyBytes::Heap { len, bytes } => KeyBytes::Heap {
                len: *len,
                bytes: Box::from(&bytes[..*len as usize]),
            },
        }
    }
}

impl Ord for KeyBytes {
    #[inline]
    fn cmp(&self, other: &KeyBytes) -> Ordering {
        match self.head().cmp(&other.head()) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
        match (self, other) {
            (
                KeyBytes::Inline { len, bytes },
                KeyBytes::Inline {
                    len: other_len,
                    bytes: other_bytes,
                },
            ) => {
                // Where all bytes are equal, one is the other and zeros.
                let tails = tail(bytes).cmp(&tail(other_bytes));
                tails.then(len.cmp(other_len))
            }
            _ => self.as_slice().cmp(other.as_slice()),
        }
    }
}

impl PartialOrd for KeyBytes {
    #[inline]
    fn partial_cmp(&self, other: &KeyBytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyBytes {
    #[inline]
    fn eq(&self, other: &KeyBytes) -> bool {
        match (self, other) {
            (
                KeyBytes::Inline { len, bytes },
                KeyBytes::Inline {
                    len: other_len,
                    bytes: other_bytes,
                },
            ) => len == other_len && bytes == other_bytes,
            _ => self.as_slice() == other.as_slice(),
        }
    }
}

impl Eq for KeyBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a vector would hold, built and compared every way around the inline limit.
    #[test]
    fn behaves_as_a_vector_does() {
        let mut all: Vec<(Vec<u8>, KeyBytes)> = Vec::new();
        for len in 0..60usize {
            for fill in [0u8, 1, 255] {
                let model = vec![fill; len];
                all.push((model.clone(), KeyBytes::from(model.as_slice())));
                let mut pushed = KeyBytes::EMPTY;
                for _ in 0..len / 4 {
                    pushed.push_array([fill; 4]);
                }
                pushed.extend(&vec![fill; len % 4]);
                all.push((model.clone(), pushed));
                let mut cut = KeyBytes::from([7; 64].as_slice());
                cut.truncate(len / 2);
                cut.extend(&model);
                let mut expected = vec![7; len / 2];
                expected.extend(&model);
                all.push((expected, cut));
                let mut short = KeyBytes::from([7; 20].as_slice());
                short.truncate(len.min(20) / 2);
                all.push((vec![7; len.min(20) / 2], short));
            }
        }
        for (model, bytes) in &all {
            assert_eq!(model, bytes.as_slice());
            assert_eq!(model.len(), bytes.len());
            assert!(*bytes == bytes.clone());
            let mut head = [0; 16];
            let known = model.len().min(16);
            head[..known].copy_from_slice(&model[..known]);
            assert_eq!(bytes.head(), u128::from_be_bytes(head));
            for (other_model, other) in &all {
                assert_eq!(model.cmp(other_model), bytes.cmp(other));
                assert_eq!(model == other_model, bytes == other);
            }
        }
        assert_eq!(size_of::<KeyBytes>(), 24);
    }
}
