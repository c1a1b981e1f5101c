//! The random inputs that TPC-C defines (clauses 2.1.6, 4.3.2).

use fastrand::Rng;

/// The constants C of the non-uniform distribution: one set for the load, one for the run
/// (2.1.6.1 wants their difference for last names between 65 and 119, not 96 or 112).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub last_name: i64,
    pub customer: i64,
    pub item: i64,
}

pub(crate) const LOAD: Constants = Constants {
    last_name: 157,
    customer: 501,
    item: 3_017,
};
pub(crate) const RUN: Constants = Constants {
    last_name: 223,
    customer: 259,
    item: 7_911,
};

/// NURand(A, low, high) of 2.1.6.
pub(crate) fn non_uniform(rng: &mut Rng, a: i64, c: i64, low: i64, high: i64) -> i64 {
    (((rng.i64(0..=a) | rng.i64(low..=high)) + c) % (high - low + 1)) + low
}

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// The last name that a number from 0 to 999 stands for (4.3.2.3).
pub(crate) fn last_name(number: i64) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10]
        .map(|digit| SYLLABLES[digit as usize])
        .concat()
}

/// Between `low` and `high` letters and digits (4.3.2.2).
pub(crate) fn letters(rng: &mut Rng, low: usize, high: usize) -> String {
    const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let length = rng.usize(low..=high);
    (0..length)
        .map(|_| ALPHABET[rng.usize(..ALPHABET.len())] as char)
        .collect()
}

/// Exactly `length` digits.
pub(crate) fn digits(rng: &mut Rng, length: usize) -> String {
    (0..length).map(|_| rng.digit(10)).collect()
}

/// A zip code: four digits and 11111 (4.3.2.7).
pub(crate) fn zip(rng: &mut Rng) -> String {
    digits(rng, 4) + "11111"
}

/// 26 to 50 letters, one in ten of them with ORIGINAL inside (4.3.3.1).
pub(crate) fn data(rng: &mut Rng) -> String {
    let mut data = letters(rng, 26, 50);
    if rng.u8(0..10) == 0 {
        let at = rng.usize(0..=data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}
