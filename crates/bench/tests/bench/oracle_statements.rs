//! Random single statements, on PostgreSQL and on ours: the same rows, counts, errors and tables.
//!
//! A statement that violates several constraints may report any of them: we check uniqueness at commit, after
//! foreign keys, and PostgreSQL checks it before them. So a violation that only we report has to be one that
//! PostgreSQL reports as well, once its other constraints are dropped.
//!
//! `ANABRANCH_STATEMENT_SEED` and `ANABRANCH_STATEMENTS` choose another run. Statements that we refuse as not
//! supported (SQLSTATE 0A000), or because a numeric needs more digits than ours have, are not sent to PostgreSQL.
//! They are counted and named, and have to stay below [`REFUSED_PERCENT_MAX`].

use std::collections::BTreeMap;

use anabranch_sql::source::SourceFile;

use crate::oracle::ours::Ours;
use crate::oracle::{Answer, Postgres, TextRow, difference, setting};
use crate::statements::{Drawn, Generator, SCHEMA, TABLES};

/// The most statements of 100 that may be refused as not supported.
const REFUSED_PERCENT_MAX: usize = 3;

/// A run ends after this many differences.
const DIFFERENCES_MAX: usize = 25;

const NOT_SUPPORTED: &str = "0A000";

/// Our numerics have 38 digits, PostgreSQL's 131,072 before the point and 16,383 after it.
const TOO_MANY_DIGITS: &str = "value overflows numeric format: at most 38 digits are supported";

#[test]
fn statements_are_answered_as_by_postgresql() {
    let seed = setting("ANABRANCH_STATEMENT_SEED", 1);
    let count = setting("ANABRANCH_STATEMENTS", 10_000);
    println!("ANABRANCH_STATEMENT_SEED={seed} ANABRANCH_STATEMENTS={count}");
    let mut comparison = Comparison::new();
    let mut generator = Generator::new(seed);
    let fill = generator.fill();
    for drawn in fill {
        comparison.compare(&drawn);
    }
    for number in 1..=count {
        let before = comparison.differences.len();
        comparison.compare(&generator.draw());
        if comparison.differences.len() > before {
            println!(
                "statement {number}: {}\n  again: ANABRANCH_STATEMENT_SEED={seed} \
                 ANABRANCH_STATEMENTS={number} cargo test -p anabranch-bench --test \
                 bench oracle_statements:: -- --nocapture",
                comparison.differences[before]
            );
        }
        if comparison.differences.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    comparison.report();
}

/// Former differences that a seed found, each reduced to the smallest statement that has it.
#[test]
fn differences_found_before_do_not_come_back() {
    let mut comparison = Comparison::new();
    let place = "INSERT INTO place (id, name, area) VALUES (1, 'North', 12.5), (2, 'South', 0)";
    let stories = [
        // An invalid digit has its own SQLSTATE, and so has an invalid time of day.
        "SELECT '\\xzz'::bytea",
        "SELECT '\\xabc'::bytea",
        "SELECT '25:00'::timestamp",
        "SELECT '12:00'::timestamp",
        // SET DEFAULT to the deleted row itself: its children would lose their parent.
        place,
        "INSERT INTO person (id, place_id) VALUES (1, 1), (2, 2)",
        "INSERT INTO visit (place_id, number, guide_id, day) VALUES (1, 1, 1, '2026-01-01')",
        "DELETE FROM person WHERE id = 1",
        "INSERT INTO visit (place_id, number, guide_id, day) VALUES (1, 2, 2, '2026-01-01')",
        "DELETE FROM person WHERE id = 2",
        "SELECT guide_id FROM visit ORDER BY number",
        // A key changes to another one, and its children may not follow.
        "UPDATE place SET id = 2 WHERE id = 1",
    ];
    for text in stories {
        let text = text.to_owned();
        comparison.compare(&Drawn {
            text,
            ordered: true,
            scale_open: false,
        });
    }
    comparison.report();
}

/// Both databases, in the same state, and the results of comparing them.
struct Comparison {
    ours: Ours,
    theirs: Postgres,
    asked: usize,
    /// Constructs that we do not support, with a statement each.
    refused: BTreeMap<String, (usize, String)>,
    /// How often each SQLSTATE occurred; the empty one counts statements that succeeded.
    codes: BTreeMap<String, usize>,
    rows: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn new() -> Comparison {
        let mut theirs = Postgres::start();
        theirs
            .client
            .batch_execute(SCHEMA)
            .expect("the schema is PostgreSQL's");
        Comparison {
            ours: Ours::new(vec![SourceFile::new(
                "tests/bench/statements/schema.sql",
                SCHEMA,
            )])
            .unwrap_or_else(|error| panic!("{error}")),
            theirs,
            asked: 0,
            refused: BTreeMap::new(),
            codes: BTreeMap::new(),
            rows: 0,
            differences: Vec::new(),
        }
    }

    fn compare(&mut self, drawn: &Drawn) {
        self.asked += 1;
        let ours = self.ours.ask(&drawn.text);
        if let Answer::Failed { code, message, .. } = &ours
            && (code == NOT_SUPPORTED || message == TOO_MANY_DIGITS)
        {
            let seen = self
                .refused
                .entry(message.clone())
                .or_insert((0, drawn.text.clone()));
            seen.0 += 1;
            return;
        }
        let theirs = self.theirs.ask(&drawn.text);
        *self
            .codes
            .entry(theirs.code().unwrap_or_default().to_owned())
            .or_default() += 1;
        if let Answer::Done { rows, .. } = &theirs {
            self.rows += rows.len();
        }
        let is_query = drawn.text.starts_with("SELECT") || drawn.text.starts_with("WITH");
        let mut found = Vec::new();
        // Of several violated constraints, any may be reported.
        let alike = same(drawn, &ours, &theirs)
            || (ours.is_violation() && self.theirs.also_violates(&drawn.text, &ours));
        if !alike {
            found.push(format!("  ours\n{ours}\n  PostgreSQL's\n{theirs}"));
        }
        if !is_query && (ours.code().is_none() || theirs.code().is_none()) {
            found.extend(self.compare_tables());
        }
        if found.is_empty() {
            return;
        }
        self.differences
            .push(format!("{}\n{}", drawn.text, found.join("\n")));
        if !is_query {
            self.ours.load(&mut self.theirs);
        }
    }

    fn compare_tables(&mut self) -> Option<String> {
        let mut found = None;
        for table in TABLES {
            let (ours, theirs) = (
                self.ours.contents(table.name),
                self.theirs.contents(table.name),
            );
            let difference = difference(&ours, &theirs);
            found = found.or(difference.map(|d| format!("  table {}:\n{d}", table.name)));
        }
        found
    }

    fn report(self) {
        let refused: usize = self.refused.values().map(|(count, _)| count).sum();
        println!(
            "{} statements, {} rows compared",
            self.asked - refused,
            self.rows
        );
        println!("by SQLSTATE: {:?}", self.codes);
        for (message, (count, example)) in &self.refused {
            println!("refused {count}: {message}\n    such as {example}");
        }
        assert!(
            self.differences.is_empty(),
            "{} of {} statements differ; the first:\n{}",
            self.differences.len(),
            self.asked,
            self.differences[0]
        );
        assert!(
            refused * 100 <= self.asked * REFUSED_PERCENT_MAX,
            "{refused} of {} statements are refused as not supported",
            self.asked
        );
        // A run proves nothing about events that it does not have.
        for code in ["", "22012", "22003", "23502", "23503", "23505", "23514"] {
            assert!(
                self.asked < 5_000 || self.codes.contains_key(code),
                "never {code:?}"
            );
        }
    }
}

/// Whether two answers are the same, as far as the statement determines them.
fn same(drawn: &Drawn, ours: &Answer, theirs: &Answer) -> bool {
    let (
        Answer::Done {
            rows: ours,
            count: our_count,
        },
        Answer::Done {
            rows: theirs,
            count: their_count,
        },
    ) = (ours, theirs)
    else {
        return ours.is_same_failure(theirs);
    };
    let settled = |rows: &[TextRow]| {
        let mut rows = rows.to_vec();
        if drawn.scale_open {
            rows.iter_mut()
                .flatten()
                .flatten()
                .for_each(|cell| *cell = short(cell));
        }
        if !drawn.ordered || drawn.scale_open {
            rows.sort();
        }
        rows
    };
    our_count == their_count && settled(ours) == settled(theirs)
}

/// A number without the zeros at its end; any other text as it is.
fn short(cell: &str) -> String {
    let is_number = cell.contains('.')
        && cell
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'-');
    match is_number {
        true => cell.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => cell.to_owned(),
    }
}
