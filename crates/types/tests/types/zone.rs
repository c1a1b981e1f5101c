//! Names of time zones as PostgreSQL's `SET TIME ZONE` takes them, and their offsets.

use anabranch_types::TimeZone;

/// 2024-01-15 12:00 and 2024-07-15 12:00 UTC, in microseconds since 2000-01-01.
const WINTER: i64 = 758_635_200_000_000;
const SUMMER: i64 = 774_360_000_000_000;

/// What PostgreSQL 15 shows for each name, and the offsets in winter and summer.
#[test]
fn names_are_those_of_postgresql() {
    for (text, name, winter, summer) in [
        ("utc", "UTC", 0, 0),
        (":UTC", "UTC", 0, 0),
        ("zulu", "Zulu", 0, 0),
        ("EUROPE/berlin", "Europe/Berlin", 3_600, 7_200),
        (":Europe/Berlin", "Europe/Berlin", 3_600, 7_200),
        ("US/Pacific", "US/Pacific", -28_800, -25_200),
        (
            "america/argentina/buenos_aires",
            "America/Argentina/Buenos_Aires",
            -10_800,
            -10_800,
        ),
        ("est5edt", "EST5EDT", -18_000, -14_400),
        ("PST8PDT", "PST8PDT", -28_800, -25_200),
        ("Etc/GMT+5", "Etc/GMT+5", -18_000, -18_000),
        ("gmt0", "GMT0", 0, 0),
        ("GB", "GB", 0, 3_600),
        ("2", "<+02>-02", 7_200, 7_200),
        ("+02", "<+02>-02", 7_200, 7_200),
        (" 3", "<+03>-03", 10_800, 10_800),
        ("-2.5", "<-02:30>+02:30", -9_000, -9_000),
        (".5", "<+00:30>-00:30", 1_800, 1_800),
        ("5.", "<+05>-05", 18_000, 18_000),
        ("1e1", "<+10>-10", 36_000, 36_000),
        ("1.123456", "<+01:07:24>-01:07:24", 4_044, 4_044),
        ("-0.0001", "<+00>-00", 0, 0),
        ("25", "<+25>-25", 90_000, 90_000),
        ("167", "<+167>-167", 601_200, 601_200),
        ("+05:30", "+05:30", -19_800, -19_800),
        ("-05:30", "-05:30", 19_800, 19_800),
        ("foo+3", "FOO+3", -10_800, -10_800),
        ("A3", "A3", -10_800, -10_800),
        ("3FOO", "3FOO", -10_800, -7_200),
        ("<foo bar>5", "<FOO BAR>5", -18_000, -18_000),
        ("<+03>-3", "<+03>-3", 10_800, 10_800),
        ("UTC+1", "UTC+1", -3_600, -3_600),
        ("FOO167", "FOO167", -601_200, -601_200),
        ("AAA3BBB", "AAA3BBB", -10_800, -7_200),
        ("AAA3BBB2,J60,J300", "AAA3BBB2,J60,J300", -10_800, -7_200),
        ("AAA3BBB,60,300", "AAA3BBB,60,300", -10_800, -7_200),
        (
            "AAA3BBB,M3.2.0/25,M11.1.0/-5",
            "AAA3BBB,M3.2.0/25,M11.1.0/-5",
            -10_800,
            -7_200,
        ),
    ] {
        let zone = TimeZone::named(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(zone.name(), name, "{text}");
        let offsets = (zone.offset_at(WINTER), zone.offset_at(SUMMER));
        assert_eq!(offsets, (winter, summer), "{text}");
        // What SHOW prints is a name of the same zone. PostgreSQL refuses the one with seconds, too.
        match TimeZone::named(name) {
            Ok(again) => assert_eq!(again, zone, "{name}"),
            Err(_) => assert_ne!(winter % 60, 0, "{name}"),
        }
    }
    for (text, code) in [
        ("", "22023"),
        ("PST", "22023"),
        ("Z", "22023"),
        ("FOO", "22023"),
        ("FOO168", "22023"),
        ("FOO3:60", "22023"),
        ("FOO3:30:30", "22023"),
        ("168", "22023"),
        ("-168", "22023"),
        ("inf", "22023"),
        ("nan", "22023"),
        ("Etc/Unknown", "22023"),
        ("Europe", "22023"),
        ("Europe/Berlin ", "22023"),
        ("Europe/../UTC", "22023"),
        ("EST5EDT,M3.2.0", "22023"),
        ("FOO3BAR;M3.2.0;M11.1.0", "22023"),
        ("interval '1 hour'", "0A000"),
    ] {
        let error = TimeZone::named(text).expect_err(text);
        assert_eq!(error.code, code, "{text}: {}", error.message);
    }
}

#[test]
fn rules_go_on_beyond_the_year_9999() {
    let zone = TimeZone::named("Europe/Berlin").unwrap();
    let cycle = 146_097 * 86_400_000_000;
    for cycles in [0, 1, 20, 21, 100, 600] {
        let of_winter = WINTER + cycles * cycle;
        let of_summer = SUMMER + cycles * cycle;
        assert_eq!(zone.offset_at(of_winter), 3_600);
        assert_eq!(zone.offset_at(of_summer), 7_200);
        for moment in [of_winter, of_summer] {
            let local = zone.to_local(moment).unwrap();
            assert_eq!(zone.to_utc(local), Some(moment));
        }
    }
    for edge in [i64::MIN, i64::MAX] {
        let _ = (zone.to_local(edge), zone.to_utc(edge), zone.offset_at(edge));
    }
}
