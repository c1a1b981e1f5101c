//! Dates, timestamps, UUIDs and bytes as PostgreSQL writes and reads them.

use anabranch_types::text::{bytes, moment::*, *};
use anabranch_types::{DataType, TimeZone, Value};
use proptest::prelude::*;

fn date_text(days: i32) -> String {
    format_value(&Value::Date(days), &DataType::Date, &TimeZone::UTC)
}

fn timestamp_text(micros: i64, data_type: &DataType) -> String {
    format_value(&Value::Timestamp(micros), data_type, &TimeZone::UTC)
}

/// Rows printed by PostgreSQL 15.
#[test]
fn dates_are_postgres_dates() {
    for (days, text) in [
        (0, "2000-01-01"),
        (-92_014, "1748-01-28"),
        (240_293, "2657-11-25"),
        (-1, "1999-12-31"),
        (59, "2000-02-29"),
        (-730_119, "0001-01-01"),
        (-730_120, "0001-12-31 BC"),
        (-2_451_545, "4714-11-24 BC"),
        (2_145_031_948, "5874897-12-31"),
    ] {
        assert_eq!(date_text(days), text);
        assert_eq!(parse_date(text), Ok(days));
    }
    for (text, code) in [
        ("2001-02-29", "22008"),
        ("1900-02-29", "22008"),
        ("2000-13-01", "22008"),
        ("2000-00-01", "22008"),
        ("2000-01-00", "22008"),
        ("x", "22007"),
        ("20-1-1", "22007"),
        ("0000-01-01", "22008"),
        ("2000-01-01-01", "22007"),
        ("4714-11-23 BC", "22008"),
        ("5874898-01-01", "22008"),
        ("infinity", "0A000"),
    ] {
        assert_eq!(parse_date(text).unwrap_err().code, code, "{text}");
    }
}

#[test]
fn timestamps_keep_microseconds() {
    let utc = &TimeZone::UTC;
    for (text, micros) in [
        ("2000-01-01 00:00:01.5", 1_500_000),
        ("2000-01-01T00:01", 60_000_000),
        ("20000101T000100", 60_000_000),
        ("2000-01-02", 86_400_000_000),
        ("2000-01-01 24:00:00", 86_400_000_000),
        ("2000-01-01 00:00:00.0000005", 0),
        ("2000-01-01 00:00:00.0000015", 2),
        ("2000-01-01 02:00:00+02", 7_200_000_000),
    ] {
        assert_eq!(parse_timestamp(text), Ok(micros), "{text}");
    }
    for (text, micros) in [
        ("2000-01-01 02:00:00+02", 0),
        ("2000-01-01 00:00:00 -0130", 5_400_000_000),
        ("2000-01-01 00:53:28+00:53:28", 0),
        ("2000-01-01 00:00:00Z", 0),
        ("2000-01-01 01:00:00 Europe/Berlin", 0),
    ] {
        assert_eq!(parse_timestamptz(text, utc), Ok(micros), "{text}");
    }
    assert_eq!(
        timestamp_text(-1, &DataType::Timestamp),
        "1999-12-31 23:59:59.999999"
    );
    assert_eq!(
        timestamp_text(250_000, &DataType::TimestampTz),
        "2000-01-01 00:00:00.25+00"
    );
    for (text, code) in [
        ("2000-01-01 24:00:01", "22008"),
        ("2000-01-01 1", "22007"),
        ("2000-01-01 10:60", "22008"),
        ("2000-01-01 10:00 moon", "22007"),
        ("2000-01-01 10:00:00:00", "22007"),
        ("2000-01-01 10:00:00.x", "22007"),
        ("2000-01-01 10:00:00+16", "22009"),
        ("2000-01-01 10:00 Moon/Base", "22023"),
        ("294277-01-01", "22008"),
        ("", "22007"),
        ("now", "0A000"),
    ] {
        assert_eq!(parse_timestamp(text).unwrap_err().code, code, "{text}");
    }
}

#[test]
fn uuids_and_bytes_have_several_forms() {
    let uuid = bytes::parse_uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").unwrap();
    assert_eq!(
        format_value(&Value::Uuid(uuid), &DataType::Uuid, &TimeZone::UTC),
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    );
    assert_eq!(
        bytes::parse_uuid("{A0EEBC999C0B4EF8-BB6D6BB9-BD380A11}"),
        Some(uuid)
    );
    for text in [
        "",
        "a0",
        "a0eebc99--9c0b4ef8bb6d6bb9bd380a11",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        "a0eebc999c0b4ef8bb6d6bb9bd380a1122",
    ] {
        assert_eq!(bytes::parse_uuid(text), None, "{text}");
    }
    assert_eq!(bytes::parse_bytea("\\x00ff 0A"), Ok(vec![0, 255, 10]));
    assert_eq!(bytes::parse_bytea("a\\\\\\001"), Ok(vec![b'a', b'\\', 1]));
    for (text, code) in [
        ("\\x0", "22023"),
        ("\\xg0", "22023"),
        ("\\", "22P02"),
        ("\\400", "22P02"),
        ("\\12", "22P02"),
    ] {
        assert_eq!(bytes::parse_bytea(text).unwrap_err().code, code, "{text}");
    }
}

proptest! {
    #[test]
    fn timestamps_round_trip(micros in -200_000_000_000_000_000i64..9_000_000_000_000_000_000) {
        for data_type in [DataType::Timestamp, DataType::TimestampTz] {
            let text = timestamp_text(micros, &data_type);
            let parsed = parse_value(&text, &data_type, &TimeZone::UTC);
            prop_assert_eq!(parsed, Ok(Value::Timestamp(micros)));
        }
    }

    #[test]
    fn dates_round_trip(days in -2_451_545i32..2_145_031_948) {
        prop_assert_eq!(parse_date(&date_text(days)), Ok(days));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,30}|[0-9 :.TBCZ+-]{0,30}|[{}\",\\\\ a0-9NUL]{0,30}") {
        for data_type in [
            DataType::Bool,
            DataType::Int4,
            DataType::Numeric(None),
            DataType::Double,
            DataType::Char(3),
            DataType::Bytea,
            DataType::Uuid,
            DataType::Timestamp,
            DataType::TimestampTz,
            DataType::Date,
            DataType::Json,
            DataType::Jsonb,
        ] {
            let _ = parse_value(&text, &data_type, &TimeZone::UTC);
            let array = DataType::Array(Box::new(data_type));
            let _ = parse_value(&text, &array, &TimeZone::UTC);
        }
        let _ = TimeZone::named(&text);
    }
}
