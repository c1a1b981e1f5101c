//! Exact fractions. A result that does not fit into 128 bits is an error, never a wrong number.

use std::cmp::Ordering;
use std::fmt;

/// A number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number does not fit into 128 bits")
    }
}

impl std::error::Error for Overflow {}

/// A fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: i128,
    /// Positive.
    denominator: i128,
}

impl Rational {
    /// 0
    pub const ZERO: Rational = Rational::whole(0);
    /// 1
    pub const ONE: Rational = Rational::whole(1);

    /// A whole number.
    pub const fn whole(number: i128) -> Rational {
        Rational {
            numerator: number,
            denominator: 1,
        }
    }

    /// `numerator / denominator`.
    ///
    /// # Errors
    /// If the denominator is 0, or either overflows.
    pub fn new(numerator: i128, denominator: i128) -> Result<Rational, Overflow> {
        if denominator == 0 || numerator == i128::MIN || denominator == i128::MIN {
            return Err(Overflow);
        }
        let divisor = common_divisor(numerator, denominator) * denominator.signum();
        Ok(Rational {
            numerator: numerator / divisor,
            denominator: denominator / divisor,
        })
    }

    /// The numerator, in lowest terms.
    pub fn numerator(self) -> i128 {
        self.numerator
    }

    /// The denominator, in lowest terms: positive.
    pub fn denominator(self) -> i128 {
        self.denominator
    }

    /// Whether it is 0.
    pub fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Whether it is above 0.
    pub fn is_positive(self) -> bool {
        self.numerator > 0
    }

    /// Whether it is below 0.
    pub fn is_negative(self) -> bool {
        self.numerator < 0
    }

    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        self.denominator == 1
    }

    /// The greatest whole number that is not above it.
    pub fn floor(self) -> Rational {
        Rational::whole(self.numerator.div_euclid(self.denominator))
    }

    /// The negated number.
    pub fn negated(self) -> Rational {
        Rational {
            numerator: -self.numerator,
            denominator: self.denominator,
        }
    }

    /// The sum.
    ///
    /// # Errors
    /// If it overflows.
    pub fn plus(self, other: Rational) -> Result<Rational, Overflow> {
        let divisor = common_divisor(self.denominator, other.denominator);
        let (mine, theirs) = (self.denominator / divisor, other.denominator / divisor);
        let left = self.numerator.checked_mul(theirs).ok_or(Overflow)?;
        let right = other.numerator.checked_mul(mine).ok_or(Overflow)?;
        let denominator = self.denominator.checked_mul(theirs).ok_or(Overflow)?;
        Rational::new(left.checked_add(right).ok_or(Overflow)?, denominator)
    }

    /// The difference.
    ///
    /// # Errors
    /// If it overflows.
    pub fn minus(self, other: Rational) -> Result<Rational, Overflow> {
        self.plus(other.negated())
    }

    /// The product.
    ///
    /// # Errors
    /// If it overflows.
    pub fn times(self, other: Rational) -> Result<Rational, Overflow> {
        // Divides crosswise first, so that no product is larger than necessary.
        let one = Rational::new(self.numerator, other.denominator)?;
        let two = Rational::new(other.numerator, self.denominator)?;
        let numerator = one.numerator.checked_mul(two.numerator).ok_or(Overflow)?;
        let denominator = one.denominator.checked_mul(two.denominator);
        Rational::new(numerator, denominator.ok_or(Overflow)?)
    }

    /// The quotient.
    ///
    /// # Errors
    /// If it overflows, or the divisor is 0.
    pub fn over(self, other: Rational) -> Result<Rational, Overflow> {
        self.times(Rational::new(other.denominator, other.numerator)?)
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Rational) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rational {
    /// Compares by continued fractions, which need no product that might overflow.
    fn cmp(&self, other: &Rational) -> Ordering {
        let (mut a, mut b) = (
            (self.numerator, self.denominator),
            (other.numerator, other.denominator),
        );
        let mut turned = false;
        loop {
            let (whole_a, whole_b) = (a.0.div_euclid(a.1), b.0.div_euclid(b.1));
            let (rest_a, rest_b) = (a.0.rem_euclid(a.1), b.0.rem_euclid(b.1));
            let found = match whole_a.cmp(&whole_b) {
                Ordering::Equal if rest_a == 0 || rest_b == 0 => rest_a.min(1).cmp(&rest_b.min(1)),
                Ordering::Equal => {
                    // Of two fractions below 1, the greater has the smaller reciprocal.
                    (a, b) = ((a.1, rest_a), (b.1, rest_b));
                    turned = !turned;
                    continue;
                }
                unequal => unequal,
            };
            return if turned { found.reverse() } else { found };
        }
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

/// The greatest common divisor: positive, unless both are 0. Neither number is the least of its type.
pub(super) fn common_divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(numerator: i128, denominator: i128) -> Rational {
        Rational::new(numerator, denominator).unwrap()
    }

    #[test]
    fn fractions_are_added_exactly() {
        let half = fraction(1, 2);
        assert_eq!(half.plus(fraction(1, 3)).unwrap(), fraction(5, 6));
        assert_eq!(half.minus(fraction(1, 2)).unwrap(), Rational::ZERO);
        assert_eq!(
            fraction(-2, 3).times(fraction(3, 4)).unwrap(),
            fraction(-1, 2)
        );
        assert_eq!(half.over(fraction(-1, 4)).unwrap(), fraction(-2, 1));
        assert_eq!(fraction(-7, 2).floor(), Rational::whole(-4));
        assert_eq!(fraction(3, -6), fraction(-1, 2));
        assert_eq!(half.over(Rational::ZERO), Err(Overflow));
    }

    #[test]
    fn fractions_are_ordered_like_their_cross_products() {
        for a in -6..=6 {
            for b in 1..=6 {
                for c in -6..=6 {
                    for d in 1..=6 {
                        let by_products = (a * d).cmp(&(c * b));
                        assert_eq!(
                            fraction(a, b).cmp(&fraction(c, d)),
                            by_products,
                            "{a}/{b} {c}/{d}"
                        );
                    }
                }
            }
        }
        // Beyond what a product could hold.
        let large = i128::MAX;
        assert!(fraction(large, large - 1) < fraction(large - 1, large - 2));
    }

    #[test]
    fn overflow_is_an_error() {
        let large = Rational::whole(i128::MAX);
        assert_eq!(large.plus(Rational::ONE), Err(Overflow));
        assert_eq!(large.times(fraction(3, 2)), Err(Overflow));
        assert_eq!(large.times(fraction(1, 2)).unwrap(), fraction(i128::MAX, 2));
    }
}
