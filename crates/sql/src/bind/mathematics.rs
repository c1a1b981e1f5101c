//! Binds mathematical functions and operators, and functions over bytes and moments that other modules do not have.

use anabranch_types::DataType;
use sqlparser::ast::{Expr, Spanned};

use super::{
    Bind, Binder, Bound,
    convert::{Context, unbounded, wider},
};
use crate::expression::{
    Domain, Expression, Function,
    encoding::Encoding,
    function::Clock,
    mathematics::{Mathematics, OfDouble},
};

/// The functions that are bound here, for some types of arguments.
pub(super) const SUPPORTED: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "convert_from",
    "convert_to",
    "cos",
    "cosh",
    "cot",
    "decode",
    "degrees",
    "div",
    "encode",
    "factorial",
    "gcd",
    "lcm",
    "log",
    "log10",
    "make_timestamp",
    "make_timestamptz",
    "min_scale",
    "overlay",
    "radians",
    "scale",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "to_date",
    "to_timestamp",
    "trim_scale",
    "width_bucket",
];

fn is_float(bound: &Bound) -> bool {
    matches!(bound.data_type, Some(DataType::Real | DataType::Double))
}

fn is_decimal(bound: &Bound) -> bool {
    matches!(bound.data_type, Some(DataType::Numeric(_)))
}

impl Binder<'_> {
    /// Mathematical functions. Where PostgreSQL has one for `double precision` and one for `numeric`, an argument that
    /// is a `numeric` chooses the second, if none is a float.
    pub(super) fn mathematical_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &Expr,
    ) -> Bind<Option<Bound>> {
        let is_exact = bounds.iter().any(is_decimal) && !bounds.iter().any(is_float);
        let numeric = DataType::Numeric(None);
        let (function, signature, data_type) = match name {
            "log" | "log10" if is_exact || bounds.len() == 2 => {
                return Err(self
                    .unsupported(&format!("{name} of numeric"), syntax)
                    .help("Cast to double precision."));
            }
            "atan2" => (Mathematics::Atan2, "dd", DataType::Double),
            "sqrt" if is_exact => (Mathematics::Sqrt, "n", numeric),
            "power" | "pow" if is_exact => (Mathematics::Power, "nn", numeric),
            "div" => (Mathematics::Div, "nn", numeric),
            "factorial" => (Mathematics::Factorial, "l", numeric),
            "scale" => (Mathematics::Scale, "n", DataType::Int4),
            "min_scale" => (Mathematics::MinScale, "n", DataType::Int4),
            "trim_scale" => (Mathematics::TrimScale, "n", numeric),
            "width_bucket" if is_exact => (Mathematics::WidthBucket, "nnni", DataType::Int4),
            "width_bucket" => (Mathematics::WidthBucket, "dddi", DataType::Int4),
            "gcd" | "lcm" => return self.divisor(name, bounds, syntax),
            _ => match OfDouble::named(name) {
                Some(function) => (Mathematics::OfDouble(function), "d", DataType::Double),
                None => return Ok(None),
            },
        };
        let Some(arguments) = self.fitting(bounds, signature, syntax)? else {
            return Ok(None);
        };
        let function = Function::Mathematics(function);
        Ok(Some(Self::call(function, arguments, data_type)))
    }

    /// `gcd` and `lcm`.
    fn divisor(&mut self, name: &str, bounds: &[Bound], syntax: &Expr) -> Bind<Option<Bound>> {
        let [left, right] = bounds else {
            return Ok(None);
        };
        let common = match (&left.data_type, &right.data_type) {
            // Both versions are as far away.
            (Some(DataType::Int2), Some(DataType::Int2)) => {
                let message = format!("function {name}(smallint, smallint) is not unique");
                return Err(self.error("42725", message, syntax).help(
                    "Could not choose a best candidate function. You might need to add explicit type casts.",
                ));
            }
            (Some(a), Some(b)) if a.is_numeric() && b.is_numeric() => wider(a, b),
            (Some(known), None) | (None, Some(known)) if known.is_numeric() => Some(known.clone()),
            (None, None) => {
                let message = format!("function {name}(unknown, unknown) is not unique");
                return Err(self.error("42725", message, syntax));
            }
            _ => None,
        };
        let common = match common.as_ref().map(unbounded) {
            Some(DataType::Int2) => DataType::Int4,
            Some(common @ (DataType::Int4 | DataType::Int8 | DataType::Numeric(_))) => common,
            _ => return Ok(None),
        };
        let domain = Domain::of(&common).expect("a number's type has a domain");
        let function = match name {
            "gcd" => Mathematics::Gcd(domain),
            _ => Mathematics::Lcm(domain),
        };
        let mut arguments = Vec::new();
        for bound in [left, right] {
            arguments.push(self.coerce(bound.clone(), &common, Context::Implicit, syntax)?);
        }
        let function = Function::Mathematics(function);
        Ok(Some(Self::call(function, arguments, common)))
    }

    /// Functions over bytes, and `overlay`.
    pub(super) fn byte_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &impl Spanned,
    ) -> Bind<Option<Bound>> {
        let (function, signature, data_type) = match name {
            "encode" => (Function::Encoding(Encoding::Encode), "bt", DataType::Text),
            "decode" => (Function::Encoding(Encoding::Decode), "tt", DataType::Bytea),
            "convert_from" => (
                Function::Encoding(Encoding::ConvertFrom),
                "bt",
                DataType::Text,
            ),
            "convert_to" => (
                Function::Encoding(Encoding::ConvertTo),
                "tt",
                DataType::Bytea,
            ),
            "overlay" => (Function::Overlay, "tti?i", DataType::Text),
            _ => return Ok(None),
        };
        let fitting = self.fitting(bounds, signature, syntax)?;
        Ok(fitting.map(|arguments| Self::call(function, arguments, data_type)))
    }

    /// Functions that make moments.
    pub(super) fn moment_function(
        &mut self,
        name: &str,
        bounds: &[Bound],
        syntax: &impl Spanned,
    ) -> Bind<Option<Bound>> {
        let zoned = DataType::TimestampTz;
        let (function, signature, data_type) = match (name, bounds.len()) {
            ("to_timestamp", 1) => (Function::OfEpoch, "d", zoned),
            ("to_timestamp", _) => (Function::ByTemplate(Clock::Zoned), "tt", zoned),
            ("to_date", _) => (
                Function::ByTemplate(Clock::AsGiven),
                "tt",
                DataType::Timestamp,
            ),
            ("make_timestamp", _) => (
                Function::MakeTimestamp(Clock::AsGiven),
                "iiiiid",
                DataType::Timestamp,
            ),
            ("make_timestamptz", 6) => (Function::MakeTimestamp(Clock::Zoned), "iiiiid", zoned),
            ("make_timestamptz", _) => {
                let construct = "make_timestamptz with a time zone";
                return Err(self.unsupported(construct, syntax));
            }
            _ => return Ok(None),
        };
        let Some(arguments) = self.fitting(bounds, signature, syntax)? else {
            return Ok(None);
        };
        let call = Self::call(function, arguments, data_type);
        if name != "to_date" {
            return Ok(Some(call));
        }
        let cast = Expression::Cast {
            operand: Box::new(call.expression),
            from: DataType::Timestamp,
            to: DataType::Date,
            explicit: true,
        };
        Ok(Some(Bound::new(cast.folded(), DataType::Date)))
    }

    /// `~`, `|/`, `||/` and `@` before an operand.
    pub(super) fn prefix_operator(
        &mut self,
        symbol: &str,
        operand: Bound,
        syntax: &Expr,
    ) -> Bind<Bound> {
        let known = operand.data_type.as_ref();
        let found = match (symbol, known) {
            ("~", Some(of)) if of.is_integer() => {
                let (of, function) = (of.clone(), Function::Mathematics(Mathematics::BitNot));
                Some(Self::call(function, vec![operand.expression.clone()], of))
            }
            ("|/" | "||/", of) if of.is_none_or(DataType::is_numeric) => {
                let of = self.coerce(
                    operand.clone(),
                    &DataType::Double,
                    Context::Implicit,
                    syntax,
                )?;
                let function = match symbol {
                    "|/" => Function::Sqrt,
                    _ => Function::Mathematics(Mathematics::OfDouble(OfDouble::Cbrt)),
                };
                Some(Self::call(function, vec![of], DataType::Double))
            }
            ("@", Some(of)) if of.is_numeric() => {
                self.number_function("abs", std::slice::from_ref(&operand), syntax)?
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let shown = known.map_or("unknown".to_owned(), |of| unbounded(of).to_string());
            let message = format!("operator does not exist: {symbol} {shown}");
            self.error("42883", message, syntax).help(
                "No operator matches the given name and argument type. You might need to add an explicit type cast.",
            )
        })
    }
}
