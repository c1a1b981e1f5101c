//! Dates, timestamps, UUIDs and bytes as PostgreSQL writes and reads them.

use anabranch_types::text::*;
use proptest::prelude::*;

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
    ] {
        assert_eq!(format_date(days), text);
        assert_eq!(parse_date(text), Some(days));
    }
    for text in [
        "2001-02-29",
        "1900-02-29",
        "2000-13-01",
        "2000-00-01",
        "2000-01-00",
        "x",
        "20-1-1",
        "0000-01-01",
        "2000-01-01-01",
    ] {
        assert_eq!(parse_date(text), None, "{text}");
    }
}

#[test]
fn timestamps_keep_microseconds() {
    assert_eq!(parse_timestamp("2000-01-01 00:00:01.5"), Some(1_500_000));
    assert_eq!(parse_timestamp("2000-01-01T00:01"), Some(60_000_000));
    assert_eq!(parse_timestamp("2000-01-02"), Some(86_400_000_000));
    assert_eq!(parse_timestamp("2000-01-01 24:00:00"), Some(86_400_000_000));
    assert_eq!(parse_timestamp("2000-01-01 00:00:00.0000005"), Some(1));
    assert_eq!(parse_timestamptz("2000-01-01 02:00:00+02"), Some(0));
    assert_eq!(
        parse_timestamptz("2000-01-01 00:00:00 -0130"),
        Some(5_400_000_000)
    );
    assert_eq!(
        parse_timestamp("2000-01-01 02:00:00+02"),
        Some(7_200_000_000)
    );
    assert_eq!(format_timestamp(-1), "1999-12-31 23:59:59.999999");
    assert_eq!(format_timestamptz(250_000), "2000-01-01 00:00:00.25+00");
    for text in [
        "2000-01-01 24:00:01",
        "2000-01-01 1",
        "2000-01-01 10:60",
        "2000-01-01 10:00 moon",
        "2000-01-01 10:00:00:00",
        "2000-01-01 10:00:00.x",
        "",
        "now",
    ] {
        assert_eq!(parse_timestamp(text), None, "{text}");
    }
}

#[test]
fn uuids_and_bytes_have_several_forms() {
    let uuid = parse_uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").unwrap();
    assert_eq!(format_uuid(&uuid), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
    assert_eq!(
        parse_uuid("{A0EEBC999C0B4EF8-BB6D6BB9-BD380A11}"),
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
        assert_eq!(parse_uuid(text), None, "{text}");
    }
    assert_eq!(parse_bytea("\\x00ff 0A"), Some(vec![0, 255, 10]));
    assert_eq!(parse_bytea("a\\\\\\001"), Some(vec![b'a', b'\\', 1]));
    for text in ["\\x0", "\\xg0", "\\", "\\400", "\\12"] {
        assert_eq!(parse_bytea(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn timestamps_round_trip(micros in -200_000_000_000_000_000i64..9_000_000_000_000_000_000) {
        prop_assert_eq!(parse_timestamp(&format_timestamp(micros)), Some(micros));
        prop_assert_eq!(parse_timestamptz(&format_timestamptz(micros)), Some(micros));
    }

    #[test]
    fn dates_round_trip(days in -2_400_000i32..106_000_000) {
        prop_assert_eq!(parse_date(&format_date(days)), Some(days));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,30}|[0-9 :.TBCZ+-]{0,30}") {
        let _ = (parse_date(&text), parse_timestamp(&text), parse_timestamptz(&text));
        let _ = (parse_uuid(&text), parse_bytea(&text));
    }
}
