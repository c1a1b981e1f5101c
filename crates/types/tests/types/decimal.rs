//! Decimals against PostgreSQL's documented results, and against their own identities.

use anabranch_types::{Decimal, DecimalError, NumericBounds};
use proptest::prelude::*;

fn d(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[test]
fn text_keeps_its_scale() {
    for text in [
        "0",
        "1.10",
        "-0.001",
        "12345678901234567890.123456789012345678",
        "0.00",
    ] {
        assert_eq!(d(text).to_string(), text);
    }
    for (text, printed) in [
        ("1e3", "1000"),
        ("1.5e1", "15"),
        ("1.10e1", "11.0"),
        ("1e-3", "0.001"),
        (" +.5 ", "0.5"),
        ("7.", "7"),
        ("-0", "0"),
        ("-0.0", "0.0"),
    ] {
        assert_eq!(d(text).to_string(), printed);
    }
}

#[test]
fn bad_text_is_refused() {
    for text in [
        "", ".", "-", "1e", "e5", "1.2.3", "1 2", "0x1", "1_000", "++1",
    ] {
        assert_eq!(Decimal::parse(text), Err(DecimalError::Syntax), "{text}");
    }
    for text in ["NaN", "Infinity", "-inf"] {
        assert_eq!(Decimal::parse(text), Err(DecimalError::NotFinite), "{text}");
    }
    for text in ["1e38", "1e999999999999", "1e-17000", &"9".repeat(39)] {
        assert_eq!(Decimal::parse(text), Err(DecimalError::Overflow), "{text}");
    }
    assert!(Decimal::parse(&"9".repeat(38)).is_ok());
}

/// Rows printed by PostgreSQL 15.
#[test]
fn quotients_have_postgres_scales() {
    for (left, right, quotient) in [
        ("1", "3", "0.33333333333333333333"),
        ("10", "3", "3.3333333333333333"),
        ("1000000", "3", "333333.333333333333"),
        ("1", "7.0000", "0.14285714285714285714"),
        ("2.5", "5", "0.50000000000000000000"),
        ("0", "3", "0.00000000000000000000"),
        ("-22", "7", "-3.1428571428571429"),
        ("0.0001", "30000", "0.0000000033333333333333333333"),
        // Exactly half a unit of the last place, on either side of zero.
        ("1", "33554432", "0.000000029802322387695313"),
        ("-1", "33554432", "-0.000000029802322387695313"),
    ] {
        assert_eq!(
            d(left).try_div(d(right)).unwrap().to_string(),
            quotient,
            "{left} / {right}"
        );
    }
}

#[test]
fn rounding_is_half_away_from_zero() {
    for (text, places, rounded) in [
        ("2.5", 0, "3"),
        ("-2.5", 0, "-3"),
        ("2.45", 1, "2.5"),
        ("1.5", 3, "1.500"),
        ("1250", -2, "1300"),
        ("49", -2, "0"),
        ("50", -2, "100"),
        ("0.4", 0, "0"),
        (&"9".repeat(38), -39, "0"),
    ] {
        assert_eq!(
            d(text).round(places).unwrap().to_string(),
            rounded,
            "{text} to {places}"
        );
    }
    assert_eq!(d("-2.59").trunc(1).unwrap().to_string(), "-2.5");
    assert_eq!(
        (d("-2.5").ceil().to_string(), d("-2.5").floor().to_string()),
        ("-2".into(), "-3".into())
    );
}

#[test]
fn fields_overflow() {
    let bounds = NumericBounds {
        precision: 4,
        scale: 2,
    };
    assert_eq!(d("99.994").rescale(bounds).unwrap().to_string(), "99.99");
    assert_eq!(
        d("99.995").rescale(bounds),
        Err(DecimalError::FieldOverflow)
    );
    assert_eq!(d("1e37").rescale(bounds), Err(DecimalError::FieldOverflow));
}

#[test]
fn what_does_not_fit_is_an_error() {
    let largest = d(&"9".repeat(38));
    assert_eq!(largest.try_add(d("1")), Err(DecimalError::Overflow));
    assert_eq!(largest.try_add(largest), Err(DecimalError::Overflow));
    assert_eq!(
        largest.negated().try_sub(largest),
        Err(DecimalError::Overflow)
    );
    assert_eq!(largest.try_mul(d("10")), Err(DecimalError::Overflow));
    assert_eq!(largest.try_add(d("0.1")), Err(DecimalError::Overflow));
    assert_eq!(d("1").try_div(d("0.00")), Err(DecimalError::DivisionByZero));
    assert_eq!(d("1").try_rem(d("0")), Err(DecimalError::DivisionByZero));
}

#[test]
fn floats_come_over_with_postgres_digits() {
    assert_eq!(Decimal::from_f64(0.1).unwrap().to_string(), "0.1");
    assert_eq!(
        Decimal::from_f64(1.0 / 3.0).unwrap().to_string(),
        "0.333333333333333"
    );
    assert_eq!(
        Decimal::from_f64(1e20).unwrap().to_string(),
        "100000000000000000000"
    );
    assert_eq!(
        Decimal::from_f32(1.0 / 3.0).unwrap().to_string(),
        "0.333333"
    );
    assert_eq!(Decimal::from_f64(f64::NAN), Err(DecimalError::NotFinite));
    assert_eq!(d("0.1").to_f64(), 0.1);
    assert_eq!(
        d("123456789012345678901234567890").to_f64(),
        123456789012345678901234567890.0
    );
}

fn decimals() -> impl Strategy<Value = Decimal> {
    let mantissa = prop_oneof![
        (-1000i128..1000).boxed(),
        any::<i64>().prop_map(i128::from).boxed(),
        (-(10i128.pow(38) - 1)..10i128.pow(38)).boxed(),
    ];
    (mantissa, 0u16..45).prop_map(|(m, s)| Decimal::from_parts(m, s).unwrap())
}

proptest! {
    #[test]
    fn text_round_trips(a in decimals()) {
        let back = d(&a.to_string());
        prop_assert_eq!((back.mantissa(), back.scale()), (a.mantissa(), a.scale()));
    }

    #[test]
    fn order_is_that_of_differences(a in decimals(), b in decimals()) {
        if let Ok(difference) = a.try_sub(b) {
            prop_assert_eq!(a.cmp(&b) as i32, difference.signum());
        }
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.normalized(), a);
    }

    #[test]
    fn a_quotient_times_the_divisor_is_near(a in decimals(), b in decimals()) {
        if let Ok(quotient) = a.try_div(b)
            && let Ok(product) = quotient.try_mul(b)
            && let Ok(error) = product.try_sub(a)
        {
            // Half a unit of the quotient's last place, times the divisor.
            let unit = Decimal::from_parts(5, quotient.scale() + 1).unwrap();
            if let Ok(bound) = unit.try_mul(b.abs()) {
                prop_assert!(error.abs() <= bound, "{a} / {b} = {quotient}");
            }
        }
    }

    #[test]
    fn remainder_completes_the_quotient(a in decimals(), b in decimals()) {
        if let Ok(remainder) = a.try_rem(b) {
            prop_assert!(remainder.abs() < b.abs());
            prop_assert!(remainder.is_zero() || remainder.is_negative() == a.is_negative());
        }
    }
}
