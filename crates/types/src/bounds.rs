//! The bounds of types: the precision of a numeric, the length of a text.

use compact_str::CompactString;

use crate::{DataType, Decimal, DecimalError, EffectError, NumericBounds, Value};

impl From<DecimalError> for EffectError {
    /// The SQLSTATE that PostgreSQL gives for it. What only our decimals lack is `0A000`.
    fn from(error: DecimalError) -> EffectError {
        let code = match error {
            DecimalError::DivisionByZero => "22012",
            DecimalError::Syntax => "22P02",
            DecimalError::NotFinite => "0A000",
            DecimalError::Overflow | DecimalError::FieldOverflow => "22003",
        };
        EffectError::new(code, error.to_string())
    }
}

/// A decimal rounded to the scale of a `numeric(p, s)` and checked against its precision.
///
/// # Errors
/// `22003` if it has too many digits.
#[inline]
pub fn bound_decimal(decimal: Decimal, data_type: &DataType) -> Result<Decimal, EffectError> {
    match data_type {
        DataType::Numeric(Some(bounds)) => decimal.rescale(*bounds).map_err(|error| {
            let failure = EffectError::from(error);
            match error {
                DecimalError::FieldOverflow => failure.with_detail(field_overflow(*bounds)),
                _ => failure,
            }
        }),
        _ => Ok(decimal),
    }
}

/// The detail of a number with too many digits before its point.
#[cold]
fn field_overflow(NumericBounds { precision, scale }: NumericBounds) -> String {
    let digits = i32::from(precision) - i32::from(scale);
    // PostgreSQL writes 1 in place of 10^0.
    let limit = match digits {
        0 => "1".to_owned(),
        more => format!("10^{more}"),
    };
    format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
    )
}

/// As [`bound_decimal`], as a value.
///
/// # Errors
/// As [`bound_decimal`].
pub fn bound_numeric(decimal: Decimal, data_type: &DataType) -> Result<Value, EffectError> {
    bound_decimal(decimal, data_type).map(Value::Numeric)
}

/// The bytes that a `name` holds.
const NAME_BYTES_MAX: usize = 63;

/// The last place of a text up to `bytes` where a character begins.
fn boundary_at(text: &str, bytes: usize) -> usize {
    let end = bytes.min(text.len());
    (0..=end)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// A text checked against the length of `varchar(n)` or `char(n)`. Blanks at the end may be cut always, other
/// characters only by an explicit cast; `char(n)` is held without them.
///
/// # Errors
/// `22001` if it is too long.
pub fn bound_text(
    mut text: CompactString,
    data_type: &DataType,
    explicit: bool,
) -> Result<CompactString, EffectError> {
    let (limit, padded) = match data_type {
        DataType::Varchar(Some(limit)) => (*limit as usize, false),
        DataType::Char(limit) => (*limit as usize, true),
        DataType::Name => {
            text.truncate(boundary_at(&text, NAME_BYTES_MAX));
            return Ok(text);
        }
        DataType::SingleByte => {
            text.truncate(1.min(boundary_at(&text, 1)));
            return Ok(text);
        }
        _ => return Ok(text),
    };
    // No text has more characters than bytes.
    if text.len() > limit
        && let Some((cut, _)) = text.char_indices().nth(limit)
    {
        if !explicit && !text[cut..].bytes().all(|byte| byte == b' ') {
            let message = format!("value too long for type {data_type}");
            return Err(EffectError::new("22001", message));
        }
        text.truncate(cut);
    }
    if padded {
        let kept = text.trim_end_matches(' ').len();
        text.truncate(kept);
    }
    Ok(text)
}
