//! Conversion of values to and from text: [`anabranch_types::text`], where no session's time zone is at hand.

use anabranch_types::{
    DataType, EffectError, TimeZone, Value,
    text::{format_value, parse_value},
};

/// A value of a type as PostgreSQL's output functions write it, in UTC. As [`format_value`].
pub fn format_text(value: &Value, data_type: &DataType) -> String {
    format_value(value, data_type, &TimeZone::UTC)
}

/// A value as a constant of SQL, for people: `42`, `'O''Hara'`, `NULL`, `'{1,2}'`.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(_) | Value::Numeric(_) => format_text(value, &DataType::Numeric(None)),
        // The type only decides how a real is rounded and whether a time zone is written.
        _ => {
            let text = format_text(value, &DataType::Array(Box::new(DataType::Text)));
            format!("'{}'", text.replace('\'', "''"))
        }
    }
}

/// The value that PostgreSQL's input function of a type makes of a text, in UTC. As [`parse_value`].
///
/// # Errors
/// When the text is not a value of the type, with PostgreSQL's SQLSTATE and message.
pub fn parse_text(text: &str, data_type: &DataType) -> Result<Value, EffectError> {
    parse_value(text, data_type, &TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use anabranch_types::Decimal;

    use super::*;

    #[test]
    fn literals_are_sql() {
        let numbers = Value::Array([Value::Int(1), Value::Null].into());
        let decimal = Value::Numeric(Decimal::from_scaled(-250, 2));
        for (value, text) in [
            (Value::Null, "NULL"),
            (Value::Bool(true), "true"),
            (Value::Int(-7), "-7"),
            (decimal, "-2.50"),
            (Value::text("O'Hara"), "'O''Hara'"),
            (Value::Date(0), "'2000-01-01'"),
            (Value::Timestamp(0), "'2000-01-01 00:00:00'"),
            (Value::Bytes([1, 255].into()), "'\\x01ff'"),
            (numbers, "'{1,NULL}'"),
        ] {
            assert_eq!(literal(&value), text);
        }
    }

    #[test]
    fn text_is_postgresqls() {
        let double = |f: f64| format_text(&Value::Float(f), &DataType::Double);
        assert_eq!(double(0.1), "0.1");
        assert_eq!(double(1e15), "1e+15");
        assert_eq!(double(123_456_789_012_345.0), "123456789012345");
        assert_eq!(double(0.00001), "1e-05");
        assert_eq!(double(0.0001), "0.0001");
        assert_eq!(double(-0.0), "-0");
        assert_eq!(double(1.5e300), "1.5e+300");
        let real = |f: f64| format_text(&Value::Float(f), &DataType::Real);
        assert_eq!(real(f64::from(0.1f32)), "0.1");
        assert_eq!(real(1e6), "1e+06");
        assert_eq!(real(123_456.0), "123456");
        let array = DataType::Array(Box::new(DataType::Text));
        let value = parse_text("{a, \"b c\",NULL,\"NULL\",\"\"}", &array).unwrap();
        assert_eq!(
            format_text(&value, &array),
            "{a,\"b c\",NULL,\"NULL\",\"\"}"
        );
        assert_eq!(format_text(&Value::text("ab"), &DataType::Char(4)), "ab  ");
        let bytes = parse_text("\\x00ff", &DataType::Bytea).unwrap();
        assert_eq!(format_text(&bytes, &DataType::Bytea), "\\x00ff");
    }

    #[test]
    fn bad_text_is_refused_with_postgresqls_code() {
        let code = |text: &str, data_type: DataType| parse_text(text, &data_type).unwrap_err().code;
        assert_eq!(code("1x", DataType::Int4), "22P02");
        assert_eq!(code("3000000000", DataType::Int4), "22003");
        assert_eq!(code("", DataType::Int4), "22P02");
        assert_eq!(code("maybe", DataType::Bool), "22P02");
        assert_eq!(
            code("{1,", DataType::Array(Box::new(DataType::Int4))),
            "22P02"
        );
        assert_eq!(code("abcd", DataType::Varchar(Some(3))), "22001");
    }
}
