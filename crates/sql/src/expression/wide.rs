//! Natural numbers of any size, for what is computed exactly before it is rounded: variances, roots, powers.

use std::cmp::Ordering;

use anabranch_types::{
    Decimal,
    decimal::{DecimalError, SCALE_MAX},
};

/// `numeric.c`: a quotient or root has at least this many significant digits.
pub(crate) const SIGNIFICANT_DIGITS_MIN: i32 = 16;

/// `numeric.c`: no quotient has more digits after the point.
const SCALE_LIMIT: i32 = 1_000;

/// `numeric.c` counts weights in digits of base 10,000.
const DIGITS_PER_WEIGHT: i32 = 4;

/// A natural number: its digits in base 2^32, the lowest first, without zeros at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wide(Vec<u32>);

impl Wide {
    /// The number.
    pub(crate) fn of(number: u128) -> Wide {
        let digits = (0..4).map(|place| (number >> (32 * place)) as u32);
        Wide(digits.collect()).trimmed()
    }

    /// `10 ^ exponent`.
    pub(crate) fn power_of_ten(exponent: u32) -> Wide {
        Wide::of(10).power(exponent)
    }

    fn trimmed(mut self) -> Wide {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// Whether it is 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of its binary digits.
    pub(crate) fn bits(&self) -> usize {
        let top = self.0.last().map_or(0, |digit| digit.leading_zeros());
        self.0.len() * 32 - top as usize
    }

    /// The sum.
    pub(crate) fn plus(&self, other: &Wide) -> Wide {
        let mut carry = 0;
        let mut sum = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for place in 0..self.0.len().max(other.0.len()) {
            carry += u64::from(self.digit(place)) + u64::from(other.digit(place));
            sum.push(carry as u32);
            carry >>= 32;
        }
        sum.push(carry as u32);
        Wide(sum).trimmed()
    }

    /// The difference to a number that is not larger.
    pub(crate) fn minus(&self, other: &Wide) -> Wide {
        let mut borrow = 0i64;
        let mut difference = Vec::with_capacity(self.0.len());
        for place in 0..self.0.len() {
            let digit = i64::from(self.digit(place)) - i64::from(other.digit(place)) + borrow;
            difference.push(digit as u32);
            borrow = digit >> 32;
        }
        Wide(difference).trimmed()
    }

    /// The product.
    pub(crate) fn times(&self, other: &Wide) -> Wide {
        let mut product = vec![0u32; self.0.len() + other.0.len()];
        for (place, left) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (further, right) in other.0.iter().enumerate() {
                let at = &mut product[place + further];
                carry += u64::from(*left) * u64::from(*right) + u64::from(*at);
                *at = carry as u32;
                carry >>= 32;
            }
            product[place + other.0.len()] = carry as u32;
        }
        Wide(product).trimmed()
    }

    /// `self ^ exponent`.
    pub(crate) fn power(&self, exponent: u32) -> Wide {
        let (mut result, mut base, mut left) = (Wide::of(1), self.clone(), exponent);
        while left > 0 {
            if left & 1 == 1 {
                result = result.times(&base);
            }
            left >>= 1;
            if left > 0 {
                base = base.times(&base);
            }
        }
        result
    }

    fn digit(&self, place: usize) -> u32 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// Divides it by a small number. Returns the remainder.
    fn divide_small(&mut self, divisor: u32) -> u32 {
        let mut remainder = 0u64;
        for digit in self.0.iter_mut().rev() {
            let of = (remainder << 32) | u64::from(*digit);
            *digit = (of / u64::from(divisor)) as u32;
            remainder = of % u64::from(divisor);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder as u32
    }

    /// The quotient, rounded down, with a divisor that is not 0.
    pub(crate) fn over(&self, divisor: &Wide) -> Wide {
        let mut quotient = vec![0u32; self.0.len()];
        let mut remainder = Wide::default();
        for bit in (0..self.bits()).rev() {
            remainder.double();
            if self.0[bit / 32] >> (bit % 32) & 1 == 1 {
                match remainder.0.first_mut() {
                    Some(lowest) => *lowest |= 1,
                    None => remainder.0.push(1),
                }
            }
            if remainder >= *divisor {
                remainder = remainder.minus(divisor);
                quotient[bit / 32] |= 1 << (bit % 32);
            }
        }
        Wide(quotient).trimmed()
    }

    fn double(&mut self) {
        let mut carry = 0;
        for digit in &mut self.0 {
            let next = *digit >> 31;
            *digit = *digit << 1 | carry;
            carry = next;
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    /// The square root, rounded down, by Newton's method.
    pub(crate) fn root(&self) -> Wide {
        if self.is_zero() {
            return Wide::default();
        }
        let mut guess = Wide::of(2).power(self.bits().div_ceil(2) as u32);
        loop {
            let mut next = guess.plus(&self.over(&guess));
            next.divide_small(2);
            if next >= guess {
                return guess;
            }
            guess = next;
        }
    }

    /// `self / 10 ^ digits`, rounded half up.
    pub(crate) fn without_digits(mut self, digits: u32) -> Wide {
        if digits == 0 {
            return self;
        }
        let mut left = digits - 1;
        while left > 0 {
            let now = left.min(9);
            self.divide_small(10u32.pow(now));
            left -= now;
        }
        let last = self.divide_small(10);
        self.plus(&Wide::of(u128::from(last >= 5)))
    }

    fn digits(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.is_zero() {
            groups.push(rest.divide_small(1_000_000_000));
        }
        let mut out = String::new();
        for (place, group) in groups.iter().rev().enumerate() {
            match place {
                0 => out.push_str(&group.to_string()),
                _ => out.push_str(&format!("{group:09}")),
            }
        }
        out
    }

    /// The weight of `self / 10 ^ scale` in `numeric.c`, and its first digit there.
    fn weight(&self, scale: i32) -> (i32, u32) {
        let digits = self.digits();
        if digits.is_empty() {
            return (0, 0);
        }
        let whole = digits.len() as i32 - scale;
        let weight = (whole - 1).div_euclid(DIGITS_PER_WEIGHT);
        let first = whole - weight * DIGITS_PER_WEIGHT;
        let mut leading: String = digits.chars().take(first as usize).collect();
        while leading.len() < first as usize {
            leading.push('0');
        }
        (weight, leading.parse().unwrap_or(0))
    }

    /// `self / 10 ^ scale` as a decimal.
    ///
    /// # Errors
    /// Beyond 38 digits.
    pub(crate) fn decimal(&self, negative: bool, scale: u32) -> Result<Decimal, DecimalError> {
        let scale = u16::try_from(scale)
            .ok()
            .filter(|scale| *scale <= SCALE_MAX);
        let (Some(scale), true) = (scale, self.bits() < 127) else {
            return Err(DecimalError::Overflow);
        };
        let mantissa = (0..4).fold(0i128, |sum, place| {
            sum | i128::from(self.digit(place)) << (32 * place)
        });
        Decimal::from_parts(if negative { -mantissa } else { mantissa }, scale)
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Wide) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `dividend / 10 ^ scale / divisor`, rounded half up to the digits that PostgreSQL gives a quotient.
pub(crate) fn quotient(dividend: &Wide, scale: u32, divisor: &Wide) -> (Wide, u32) {
    let (weight, first) = dividend.weight(scale as i32);
    let (other_weight, other_first) = divisor.weight(0);
    let quotient_weight = weight - other_weight - i32::from(first <= other_first);
    let digits = SIGNIFICANT_DIGITS_MIN - quotient_weight * DIGITS_PER_WEIGHT;
    let digits = digits.max(scale as i32).clamp(0, SCALE_LIMIT) as u32;
    let shifted = dividend.times(&Wide::power_of_ten(digits + 1 - scale.min(digits + 1)));
    (shifted.over(divisor).without_digits(1), digits)
}

/// The square root of `number / 10 ^ scale`, rounded half up to so many digits.
pub(crate) fn root(number: &Wide, scale: u32, digits: u32) -> Wide {
    let shift = 2 * (digits + 1) - scale.min(2 * (digits + 1));
    let shifted = number.times(&Wide::power_of_ten(shift));
    shifted.root().without_digits(1)
}

/// The digits behind the point that PostgreSQL gives the square root of a decimal.
pub(crate) fn root_digits(number: &Wide, scale: u32) -> u32 {
    let (weight, _) = number.weight(scale as i32);
    let digits = SIGNIFICANT_DIGITS_MIN - ((weight + 1) * DIGITS_PER_WEIGHT / 2 - 1);
    digits.max(scale as i32).clamp(0, SCALE_LIMIT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_are_computed_with() {
        let big = Wide::of(u128::MAX);
        assert_eq!(big.times(&big).over(&big), big);
        assert_eq!(big.times(&big).root(), big);
        assert_eq!(big.plus(&big).minus(&big), big);
        assert_eq!(
            Wide::power_of_ten(60).digits(),
            format!("1{}", "0".repeat(60))
        );
        assert_eq!(Wide::of(12_345).without_digits(2), Wide::of(123));
        assert_eq!(Wide::of(12_350).without_digits(2), Wide::of(124));
        assert_eq!(Wide::of(12_345).weight(0), (1, 1));
        assert_eq!(Wide::of(12_345).weight(2), (0, 123));
        assert_eq!(Wide::of(5).weight(3), (-1, 50));
        assert_eq!(Wide::of(5).weight(5), (-2, 5_000));
    }
}
