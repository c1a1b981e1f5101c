//! Functions with a language of their own, on PostgreSQL and on ours: templates of `to_char` and `format`, and
//! time zones. Templates are random; most are of no use, and each has an answer.
//!
//! `ANABRANCH_FUNCTION_SEED` and `ANABRANCH_FUNCTIONS` choose another run. What we refuse as not supported (0A000) is
//! not sent to PostgreSQL, and counted.

use anabranch_sql::source::SourceFile;
use anabranch_types::SplitMix64;

use crate::oracle::ours::Ours;
use crate::oracle::{Answer, Postgres, setting};

/// A run ends after this many differences.
const DIFFERENCES_MAX: usize = 20;

const SCHEMA: &str = "CREATE TABLE nothing (id integer PRIMARY KEY);";

struct Comparison {
    ours: Ours,
    theirs: Postgres,
    same: usize,
    failed: usize,
    refused: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn new() -> Comparison {
        let mut theirs = Postgres::start();
        theirs
            .client
            .batch_execute(SCHEMA)
            .expect("the schema is PostgreSQL's");
        let files = vec![SourceFile::new("schema.sql", SCHEMA)];
        Comparison {
            ours: Ours::new(files).unwrap_or_else(|error| panic!("{error}")),
            theirs,
            same: 0,
            failed: 0,
            refused: 0,
            differences: Vec::new(),
        }
    }

    fn compare(&mut self, text: &str) {
        let ours = self.ours.ask(text);
        if ours.code() == Some("0A000") {
            self.refused += 1;
            return;
        }
        let theirs = self.theirs.ask(text);
        let is_same = match (&ours, &theirs) {
            (Answer::Done { .. }, Answer::Done { .. }) => ours == theirs,
            _ => ours.is_same_failure(&theirs),
        };
        self.failed += usize::from(theirs.code().is_some());
        match is_same {
            true => self.same += 1,
            false => self
                .differences
                .push(format!("{text}\n  ours\n{ours}\n  PostgreSQL's\n{theirs}")),
        }
    }

    /// Asks for random ones until there are enough, or too many differences.
    fn run(mut self, seed: u64, draw: impl Fn(&mut SplitMix64) -> String) {
        let count = setting("ANABRANCH_FUNCTIONS", 2_000);
        let seed = setting("ANABRANCH_FUNCTION_SEED", seed);
        let mut random = SplitMix64::new(seed);
        for _ in 0..count {
            let text = draw(&mut random);
            self.compare(&text);
            if self.differences.len() >= DIFFERENCES_MAX {
                break;
            }
        }
        self.report();
    }

    fn report(self) {
        println!(
            "{} alike, of which {} fail; {} refused",
            self.same, self.failed, self.refused
        );
        assert!(
            self.differences.is_empty(),
            "{} differ:\n{}",
            self.differences.len(),
            self.differences.join("\n")
        );
        assert!(self.refused < self.same, "most are refused");
        assert!(self.failed < self.same / 2, "most fail");
    }
}

fn pick<'t>(random: &mut SplitMix64, list: &[&'t str]) -> &'t str {
    list[random.below(list.len() as u64) as usize]
}

/// Up to `most` of a list, one behind the other.
fn several(random: &mut SplitMix64, list: &[&str], most: u64) -> String {
    let count = 1 + random.below(most);
    (0..count).map(|_| pick(random, list)).collect()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn numbers_are_written_by_templates() {
    Comparison::new().run(1, |random| {
        let digits = several(
            random,
            &[
                "9", "9", "9", "99", "999", "0", "00", "9,", "9G", "90", "9 ",
            ],
            4,
        );
        let fraction = match random.below(3) {
            0 => String::new(),
            1 => format!(".{}", several(random, &["9", "0", "99"], 3)),
            _ => format!("D{}", several(random, &["9", "0", "90"], 2)),
        };
        let front = pick(
            random,
            &[
                "", "", "", "FM", "FM", "S", "MI", "PL", "SG", "L", "\"a\"", "FMS", "B",
            ],
        );
        let back = pick(
            random,
            &[
                "", "", "", "", "S", "MI", "PL", "SG", "PR", "th", "TH", "V9", "x", "\\",
            ],
        );
        let template = format!("{front}{digits}{fraction}{back}");
        let sign = pick(random, &["", "", "-"]);
        let length = 1 + random.below(6) as u32;
        let whole = random.below(10u64.pow(length));
        let number = match random.below(4) {
            0 => format!("({sign}{whole})::integer"),
            1 => format!("({sign}{whole})::bigint"),
            2 => format!("({sign}{whole}.{})::numeric", random.below(1_000)),
            _ => format!("({sign}{whole}.{})::double precision", random.below(100)),
        };
        let number = match random.below(8) {
            0 => format!("{sign}0.{:02}::numeric", random.below(100)),
            1 => "0::numeric".to_owned(),
            _ => number,
        };
        format!("SELECT to_char({number}, {})", literal(&template))
    });
}

#[test]
fn moments_are_written_by_templates() {
    const FIELDS: &[&str] = &[
        "YYYY", "YYY", "YY", "Y", "Y,YYY", "IYYY", "IYY", "IY", "I", "MM", "MONTH", "Month",
        "month", "MON", "Mon", "mon", "DAY", "Day", "day", "DY", "Dy", "dy", "DDD", "IDDD", "DD",
        "D", "ID", "W", "WW", "IW", "CC", "J", "Q", "RM", "rm", "HH", "HH12", "HH24", "MI", "SS",
        "MS", "US", "FF1", "FF3", "FF6", "SSSS", "AM", "am", "P.M.", "AD", "b.c.", "yyyy", "dd",
        "hh24", "ss", "TZH", "TZM", "OF", "FX",
    ];
    Comparison::new().run(2, |random| {
        let mut template = String::new();
        for _ in 0..1 + random.below(5) {
            template += pick(random, &["", "", "", "FM"]);
            template += pick(random, FIELDS);
            template += pick(random, &["", "", "", "th", "TH"]);
            template += pick(
                random,
                &["-", " ", ":", "", "\"T\"", "/", ".", "\"\\\"\"", "ä"],
            );
        }
        let year = match random.below(4) {
            0 => 1 + random.below(9_998),
            _ => 1990 + random.below(60),
        };
        let (month, day) = (1 + random.below(12), 1 + random.below(28));
        let (hour, minute) = (random.below(24), random.below(60));
        let (second, fraction) = (random.below(60), random.below(1_000_000));
        let era = pick(random, &["", "", "", "", "", " BC"]);
        let moment = format!(
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction:06}{era}"
        );
        let data_type = pick(random, &["timestamp", "timestamptz", "date"]);
        format!(
            "SELECT to_char({}::{data_type}, {})",
            literal(&moment),
            literal(&template)
        )
    });
}

#[test]
fn texts_are_filled_into_templates() {
    const ARGUMENTS: &[&str] = &[
        "'plain'",
        "'it''s'",
        "'Two words'",
        "'select'",
        "'a\\b'",
        "NULL",
        "7",
        "-1.50",
        "true",
        "''",
        "'ü'",
        "'2026-01-02'::date",
        "ARRAY['a b', NULL]",
        "'\"'",
    ];
    Comparison::new().run(3, |random| {
        let mut template = String::new();
        for _ in 0..random.below(5) {
            template += pick(random, &["", "a", " ", "%%", "ö|"]);
            template += "%";
            template += pick(random, &["", "", "", "", "", "1$", "2$", "3$", "0$"]);
            template += pick(
                random,
                &["", "", "", "-", "8", "-8", "*", "*2$", "-12", "08"],
            );
            template += pick(random, &["s", "s", "s", "s", "I", "L", "L", "s", "L", "d"]);
        }
        let count = 3 + random.below(4);
        let arguments: String = (0..count)
            .map(|_| format!(", {}", pick(random, ARGUMENTS)))
            .collect();
        format!("SELECT format({}{arguments})", literal(&template))
    });
}

#[test]
fn clocks_of_time_zones_and_checksums_are_postgresqls() {
    let mut comparison = Comparison::new();
    for text in [
        "SELECT '2024-07-01 12:00'::timestamp AT TIME ZONE 'Europe/Berlin'",
        "SELECT '2024-07-01 12:00+00'::timestamptz AT TIME ZONE 'America/New_York'",
        "SELECT '2024-03-31 02:30'::timestamp AT TIME ZONE 'Europe/Berlin'",
        "SELECT '2024-10-27 02:30'::timestamp AT TIME ZONE 'Europe/Berlin'",
        "SELECT '2024-07-01 12:00+00' AT TIME ZONE 'UTC'",
        "SELECT '2024-07-01'::date AT TIME ZONE 'Asia/Tokyo'",
        "SELECT timezone('Asia/Tokyo', '2024-07-01 12:00'::timestamp)",
        "SELECT '2024-07-01 12:00'::timestamp AT TIME ZONE 'utc' AT TIME ZONE 'Asia/Tokyo'",
        "SELECT '2024-07-01 12:00'::timestamp AT TIME ZONE 'Mars/Olympus'",
        "SELECT '2024-07-01 12:00'::timestamp AT TIME ZONE NULL",
        "SELECT 7 AT TIME ZONE 'UTC'",
        "SELECT md5(''), md5('abc'), md5('ü'), md5('\\x00ff'::bytea), md5(NULL)",
        "SELECT quote_ident('a b'), quote_literal('it''s'), quote_literal(7), quote_nullable(NULL), quote_literal(NULL)",
        "SELECT quote_literal('2026-01-02'::date), quote_ident('order'), quote_ident('name')",
        "SELECT random() >= 0 AND random() < 1",
        "SELECT count(DISTINCT r) FROM (SELECT random() AS r FROM generate_series(1, 100)) AS drawn",
        "SELECT to_char(NULL::numeric, '9'), to_char(7, NULL), to_char(7, ''), to_char(now(), '')",
        "SELECT format(NULL, 1), format('plain'), format('%s and %L', 'a', 'b')",
        "SELECT regexp_like('abc', 'B'), 'abc' ~ NULL, NULL ~ 'a'",
        "SELECT n FROM (VALUES ('apple'), ('pear'), ('fig')) AS t (n) WHERE n ~ '^[a-f]' ORDER BY n",
        "SELECT n FROM (VALUES ('apple', '^a'), ('pear', 'x')) AS t (n, p) WHERE n !~ p",
        "SELECT 1 ~ 'a'",
    ] {
        comparison.compare(text);
    }
    comparison.report();
}
