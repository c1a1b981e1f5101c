//! Aggregates over the distribution of numbers: variances, regressions, percentiles, modes.

use anabranch_types::{DataType, Value, ValueRef};

use super::collected::Collected;
use crate::{
    bind::aggregate::{Regression, Statistic},
    expression::{
        Failure,
        arithmetic::decimal_failure,
        failure,
        wide::{self, Wide},
    },
};

/// What a variance or regression keeps of the values so far.
#[derive(Clone, Debug)]
pub(super) enum Sums {
    /// The sums of exact numbers, in units of `10 ^ -scale`, and of their squares, in units of `10 ^ -2 scale`.
    Exact {
        scale: u32,
        positive: Wide,
        negative: Wide,
        squares: Wide,
    },
    /// PostgreSQL's sums of doubles, by the algorithm of Youngs and Cramer: of `x` and `y`, and of the squares and
    /// products of their distances from their means.
    Double {
        count: f64,
        x: f64,
        xx: f64,
        y: f64,
        yy: f64,
        xy: f64,
    },
}

impl Sums {
    /// No sums, for values of this type.
    pub(super) fn new(input: Option<&DataType>) -> Sums {
        match input {
            Some(DataType::Real | DataType::Double) => Sums::Double {
                count: 0.0,
                x: 0.0,
                xx: 0.0,
                y: 0.0,
                yy: 0.0,
                xy: 0.0,
            },
            _ => Sums::Exact {
                scale: 0,
                positive: Wide::default(),
                negative: Wide::default(),
                squares: Wide::default(),
            },
        }
    }

    /// Adds a value; for a regression it is the independent one, and `dependent` the other.
    pub(super) fn add(
        &mut self,
        value: ValueRef<'_>,
        dependent: Option<f64>,
    ) -> Result<(), Failure> {
        match (self, value) {
            (exact @ Sums::Exact { .. }, ValueRef::Int(int)) => {
                exact.add_exact(int < 0, int.unsigned_abs().into(), 0);
            }
            (exact @ Sums::Exact { .. }, ValueRef::Numeric(decimal)) => {
                let mantissa = decimal.mantissa().unsigned_abs();
                exact.add_exact(decimal.is_negative(), mantissa, decimal.scale().into());
            }
            (double @ Sums::Double { .. }, ValueRef::Other(Value::Float(float))) => {
                double.add_double(*float, dependent)?;
            }
            _ => {
                let message = "a value known only at commit cannot be aggregated";
                return Err(failure("XX000", message));
            }
        }
        Ok(())
    }

    fn add_exact(&mut self, is_negative: bool, mantissa: u128, of: u32) {
        let Sums::Exact {
            scale,
            positive,
            negative,
            squares,
        } = self
        else {
            return;
        };
        if of > *scale {
            let factor = Wide::power_of_ten(of - *scale);
            *positive = positive.times(&factor);
            *negative = negative.times(&factor);
            *squares = squares.times(&factor).times(&factor);
            *scale = of;
        }
        let mut number = Wide::of(mantissa);
        if of < *scale {
            number = number.times(&Wide::power_of_ten(*scale - of));
        }
        *squares = squares.plus(&number.times(&number));
        let sum = if is_negative { negative } else { positive };
        *sum = sum.plus(&number);
    }

    fn add_double(&mut self, new_x: f64, dependent: Option<f64>) -> Result<(), Failure> {
        let Sums::Double {
            count,
            x,
            xx,
            y,
            yy,
            xy,
        } = self
        else {
            return Ok(());
        };
        let new_y = dependent.unwrap_or(0.0);
        let before = *count;
        *count += 1.0;
        let was_finite = x.is_finite() && y.is_finite();
        *x += new_x;
        *y += new_y;
        if before > 0.0 {
            let (from_x, from_y) = (new_x * *count - *x, new_y * *count - *y);
            let of_count = *count * before;
            // PostgreSQL divides for one variable, and multiplies by the quotient for two.
            match dependent {
                None => *xx += from_x * from_x / of_count,
                Some(_) => {
                    let scale = 1.0 / of_count;
                    *xx += from_x * from_x * scale;
                    *yy += from_y * from_y * scale;
                    *xy += from_x * from_y * scale;
                }
            }
            let is_infinite = [&x, &xx, &y, &yy, &xy].iter().any(|sum| sum.is_infinite());
            if is_infinite {
                if was_finite && new_x.is_finite() && new_y.is_finite() {
                    return Err(failure("22003", "value out of range: overflow"));
                }
                for sum in [xx, yy, xy] {
                    if sum.is_infinite() {
                        *sum = f64::NAN;
                    }
                }
            }
        } else {
            if !new_x.is_finite() {
                (*xx, *xy) = (f64::NAN, f64::NAN);
            }
            if !new_y.is_finite() {
                (*yy, *xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    /// The result of a variance.
    pub(super) fn statistic(&self, statistic: Statistic, count: i64) -> Result<Value, Failure> {
        let Statistic { is_sample, is_root } = statistic;
        if is_sample && count < 2 {
            return Ok(Value::Null);
        }
        match self {
            Sums::Double { xx, .. } => {
                let of = if is_sample { count - 1 } else { count };
                let variance = xx / of as f64;
                Ok(Value::Float(if is_root {
                    variance.sqrt()
                } else {
                    variance
                }))
            }
            Sums::Exact {
                scale,
                positive,
                negative,
                squares,
            } => {
                let sum = match positive >= negative {
                    true => positive.minus(negative),
                    false => negative.minus(positive),
                };
                let count = Wide::of(count.unsigned_abs().into());
                let numerator = count.times(squares).minus(&sum.times(&sum));
                if numerator.is_zero() {
                    return Ok(Value::Numeric(anabranch_types::Decimal::ZERO));
                }
                let less = match is_sample {
                    true => count.minus(&Wide::of(1)),
                    false => count.clone(),
                };
                let (variance, digits) = wide::quotient(&numerator, 2 * scale, &count.times(&less));
                let result = match is_root {
                    true => wide::root(&variance, digits, digits),
                    false => variance,
                };
                let result = result.decimal(false, digits).map_err(decimal_failure)?;
                Ok(Value::Numeric(result))
            }
        }
    }

    /// The result of a regression of at least one pair.
    pub(super) fn regression(&self, regression: Regression) -> Value {
        let &Sums::Double {
            count,
            x,
            xx,
            y,
            yy,
            xy,
        } = self
        else {
            return Value::Null;
        };
        let known = |is_known: bool, value: f64| match is_known {
            true => Value::Float(value),
            false => Value::Null,
        };
        match regression {
            Regression::Corr => known(xx != 0.0 && yy != 0.0, xy / (xx * yy).sqrt()),
            Regression::CovarPop => Value::Float(xy / count),
            Regression::CovarSamp => known(count >= 2.0, xy / (count - 1.0)),
            Regression::Slope => known(xx != 0.0, xy / xx),
            Regression::Intercept => known(xx != 0.0, (y - x * xy / xx) / count),
            Regression::R2 if xx == 0.0 => Value::Null,
            Regression::R2 if yy == 0.0 => Value::Float(1.0),
            Regression::R2 => Value::Float((xy * xy) / (xx * yy)),
            Regression::AverageX => Value::Float(x / count),
            Regression::AverageY => Value::Float(y / count),
            Regression::SumXx => Value::Float(xx),
            Regression::SumYy => Value::Float(yy),
            Regression::SumXy => Value::Float(xy),
            Regression::Count => Value::Int(count as i64),
        }
    }
}

/// Checks a fraction.
fn fraction(of: f64) -> Result<f64, Failure> {
    match (0.0..=1.0).contains(&of) {
        true => Ok(of),
        false => {
            let message = format!("percentile value {of} is not between 0 and 1");
            Err(failure("22003", message))
        }
    }
}

/// The result of `percentile_cont` or `percentile_disc`, for one fraction or an array of them, of sorted values.
pub(super) fn percentile(sorted: &[Collected], is_continuous: bool) -> Result<Value, Failure> {
    let of = |at: f64| -> Result<Value, Failure> {
        let count = sorted.len();
        let at = fraction(at)?;
        if !is_continuous {
            let place = (at * count as f64).ceil() as usize;
            return Ok(sorted[place.clamp(1, count) - 1].value.clone());
        }
        let place = at * (count - 1) as f64;
        let (low, high) = (place.floor(), place.ceil());
        let value = |place: f64| match &sorted[(place as usize).min(count - 1)].value {
            Value::Float(float) => Ok(*float),
            other => Err(failure("XX000", format!("{other:?} has no percentile"))),
        };
        let (below, above) = (value(low)?, value(high)?);
        Ok(Value::Float(match low == high {
            true => below,
            false => below + (place - low) * (above - below),
        }))
    };
    match sorted.first().map(|first| &first.separator) {
        Some(Value::Float(at)) => of(*at),
        Some(Value::Array(list)) => {
            let found = list.iter().map(|at| match at {
                Value::Float(at) => of(*at),
                _ => Ok(Value::Null),
            });
            Ok(Value::Array(found.collect::<Result<_, _>>()?))
        }
        _ => Ok(Value::Null),
    }
}

/// The most frequent of sorted values; the first of several.
pub(super) fn mode(sorted: &[Collected]) -> Value {
    let runs = sorted.chunk_by(|a, b| a.value.total_cmp(&b.value).is_eq());
    let longest = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
    longest.map_or(Value::Null, |run| run[0].value.clone())
}
