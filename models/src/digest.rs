//! A digest of a state, by which visited states are recognised.
//!
//! It hashes the output of `Debug` while that is written, so nodes need no other trait. Hash maps write
//! their entries in an arbitrary order; so the contents of braces count as a set, and the digests of its
//! entries are added up. A struct's fields are in braces, too, with their names. Sequences and tuples
//! have other brackets, and keep their order.
//!
//! It has 128 bits: among a hundred million states two have the same digest with a probability below
//! 10^-20, if the hash is uniform.

use std::fmt::{self, Write};

/// FNV-1a's offset and prime, for 128 bits.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The digest of a value's `Debug` output.
pub fn of(value: &impl fmt::Debug) -> u128 {
    let mut digest = Digest::default();
    write!(digest, "{value:?}").expect("hashing does not fail");
    digest.finish()
}

/// The digest of a sequence of digests.
pub fn of_all(digests: impl IntoIterator<Item = u128>) -> u128 {
    let mut hash = OFFSET;
    for digest in digests {
        hash = mixed((hash ^ digest).wrapping_mul(PRIME));
    }
    hash
}

/// Mixes the bits of a hash.
fn mixed(mut hash: u128) -> u128 {
    hash ^= hash >> 67;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    hash ^= hash >> 61;
    hash = hash.wrapping_mul(0xda94_2042_e4dd_58b5_d1b5_4a32_d192_ed03);
    hash ^ hash >> 64
}

/// The contents of a pair of brackets.
struct Group {
    is_set: bool,
    /// The sum of the complete entries' hashes.
    sum: u128,
    /// The hash of the current entry, or of the whole group if it keeps its order.
    hash: u128,
}

impl Group {
    fn new(is_set: bool) -> Group {
        Group {
            is_set,
            sum: 0,
            hash: OFFSET,
        }
    }

    fn add(&mut self, byte: u8) {
        self.hash = (self.hash ^ u128::from(byte)).wrapping_mul(PRIME);
    }

    fn end_entry(&mut self) {
        if self.hash != OFFSET {
            self.sum = self.sum.wrapping_add(mixed(self.hash));
            self.hash = OFFSET;
        }
    }
}

/// Hashes the text that is written to it.
struct Digest {
    groups: Vec<Group>,
    /// In a string: whether the last byte was a backslash.
    string: Option<bool>,
}

impl Default for Digest {
    fn default() -> Self {
        Digest {
            groups: vec![Group::new(false)],
            string: None,
        }
    }
}

impl Digest {
    fn top(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the outermost group stays")
    }

    fn take(&mut self, byte: u8) {
        if let Some(escaped) = self.string {
            self.string = match byte {
                b'"' if !escaped => None,
                b'\\' => Some(!escaped),
                _ => Some(false),
            };
            return self.top().add(byte);
        }
        match byte {
            b'{' | b'[' | b'(' => {
                self.top().add(byte);
                self.groups.push(Group::new(byte == b'{'));
            }
            b'}' | b']' | b')' => {
                let mut group = self.groups.pop().expect("brackets are in pairs");
                if group.is_set {
                    group.end_entry();
                    group.hash = group.sum;
                }
                let inner = mixed(group.hash);
                let top = self.top();
                top.hash = mixed((top.hash ^ inner).wrapping_mul(PRIME));
            }
            b',' if self.top().is_set => self.top().end_entry(),
            b' ' if self.top().hash == OFFSET => {}
            b'"' => {
                self.string = Some(false);
                self.top().add(byte);
            }
            _ => self.top().add(byte),
        }
    }

    fn finish(mut self) -> u128 {
        mixed(self.top().hash)
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.take(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// A value with this `Debug` output.
    struct Text(&'static str);

    impl Debug for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    fn same(left: &'static str, right: &'static str) -> bool {
        of(&Text(left)) == of(&Text(right))
    }

    #[test]
    fn braces_contain_a_set() {
        assert!(same("{1: A, 2: B}", "{2: B, 1: A}"));
        assert!(same(
            "M { m: {1: (2, 3), 4: [5]} }",
            "M { m: {4: [5], 1: (2, 3)} }"
        ));
        assert!(!same("{1: A, 2: B}", "{1: B, 2: A}"));
        assert!(!same("{1, 2}", "{1, 2, 2}"));
        assert!(!same("{1, 2}", "{1}"));
        assert!(!same("{}", "{1}"));
    }

    #[test]
    fn other_brackets_keep_order_and_nesting() {
        assert!(!same("[1, 2]", "[2, 1]"));
        assert!(!same("(1, 2)", "(2, 1)"));
        assert!(!same("[[1], 2]", "[[1, 2]]"));
        assert!(!same("{[1, 2]}", "{[2, 1]}"));
        assert!(!same("{a: [1], b: []}", "{a: [], b: [1]}"));
        assert!(!same("S { a: 1, b: 2 }", "S { a: 2, b: 1 }"));
    }

    #[test]
    fn brackets_in_strings_are_text() {
        assert!(!same(r#"["}", 1]"#, r#"["]", 1]"#));
        assert!(!same(r#"["\"{", 1]"#, r#"["\"[", 1]"#));
        assert!(same(r#"{"}": 1, 2: 3}"#, r#"{2: 3, "}": 1}"#));
    }

    #[test]
    fn sequences_of_digests_keep_their_order() {
        assert_ne!(of_all([1, 2]), of_all([2, 1]));
        assert_ne!(of_all([0]), of_all([0, 0]));
    }
}
