//! Attacks on proofs: random tables with one CHECK over several columns and types that update them, explored for a
//! merge that violates what is called proved.

use std::fmt::Write;

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::Confluence;
use anabranch_analysis::solve::Solver;
use anabranch_types::SplitMix64;

use crate::proofs::{as_assertion, compiled, plan};

/// A pseudo-random number generator.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        (self.0.bits() >> 16) % n
    }

    fn of<'l>(&mut self, list: &[&'l str]) -> &'l str {
        list[self.below(list.len() as u64) as usize]
    }
}

const TESTS: [&str; 22] = [
    "a <= b",
    "a < b",
    "a <> b",
    "a = b",
    "a + b <= 4",
    "a + b = 3",
    "a - b >= 0",
    "a <= 2 * b",
    "a + c >= 1",
    "a IS NULL",
    "c IS NOT NULL",
    "b > 1",
    "b BETWEEN 0 AND 2",
    "b IN (0, 2)",
    "f",
    "NOT f",
    "f = g",
    "s = 'x'",
    "s <> 'x'",
    "s IS NULL",
    "n >= b",
    "n + a <= 4.5",
];

const ASSIGNMENTS: [&str; 28] = [
    "a = a + 1",
    "a = a - 1",
    "a = a + 2",
    "a = a + p_n",
    "a = a - p_n",
    "a = p_n",
    "a = 0",
    "b = b + 1",
    "b = b - 1",
    "b = b + p_n",
    "b = b - p_n",
    "b = p_n",
    "b = greatest(b, p_n)",
    "c = c + 1",
    "c = c + p_n",
    "c = p_n",
    "c = NULL",
    "n = n + 1",
    "n = n - 0.5",
    "n = n + p_n",
    "n = 2",
    "f = true",
    "f = false",
    "g = true",
    "g = f",
    "s = 'x'",
    "s = NULL",
    "s = p_s",
];

fn made_up(random: &mut Random) -> String {
    let mut check = random.of(&TESTS).to_owned();
    for _ in 0..1 + random.below(2) {
        let more = random.of(&TESTS);
        let joined = random.of(&["AND", "OR", "OR"]);
        check = format!("({check}) {joined} {more}");
    }
    let mut text = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer{}, b integer NOT NULL, c integer, n numeric{} NOT NULL, \
         f boolean NOT NULL, g boolean, s text, CONSTRAINT it CHECK ({check}));\n",
        random.of(&["", " NOT NULL"]),
        random.of(&["", "(8,0)"]),
    );
    for number in 0..2 + random.below(3) {
        let mut set: Vec<&str> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let one = random.of(&ASSIGNMENTS);
            if set
                .iter()
                .all(|other| other.as_bytes()[0] != one.as_bytes()[0])
            {
                set.push(one);
            }
        }
        let refused = random.of(&["", "IF p_n < 0 THEN RAISE EXCEPTION 'no'; END IF;"]);
        let _ = writeln!(
            text,
            "CREATE PROCEDURE t{number}(p_id integer, p_n integer, p_s text) LANGUAGE plpgsql AS \
             $$ BEGIN {refused} UPDATE t SET {} WHERE id = p_id; END $$;",
            set.join(", ")
        );
    }
    text
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("ANABRANCH_ANALYSIS_SEEDS").ok();
    let range = given.as_deref().and_then(|text| {
        let (first, last) = text.split_once("..")?;
        Some(first.parse().ok()?..last.parse().ok()?)
    });
    range.unwrap_or(0..200)
}

#[test]
fn no_proof_is_broken() {
    let tally = attack(seeds(), str::to_owned);
    if seeds() == (0..200) {
        let Tally {
            whole,
            in_part,
            shown,
        } = tally;
        assert!(
            whole > 12 && in_part > 10 && shown > 4,
            "{whole} {in_part} {shown}"
        );
    }
}

/// The same with an assertion in the place of the CHECK: it forbids rows where the condition is false, or where it
/// is true.
#[test]
fn no_proof_of_an_assertion_is_broken() {
    let tally = attack(seeds().step_by(2), |text| {
        as_assertion(text, |check| match check.len() % 2 {
            0 => format!("NOT ({check})"),
            _ => check.to_owned(),
        })
    });
    if seeds() == (0..200) {
        let Tally {
            whole,
            in_part,
            shown,
        } = tally;
        assert!(
            whole > 4 && in_part > 3 && shown > 1,
            "{whole} {in_part} {shown}"
        );
    }
}

/// How many applications had a proof for all types, or for some; and how many were shown to break.
struct Tally {
    whole: u32,
    in_part: u32,
    shown: usize,
}

/// Explores the applications of these seeds, changed in this way.
fn attack(seeds: impl Iterator<Item = u64>, changed: impl Fn(&str) -> String) -> Tally {
    let effort = Effort {
        cases: 200,
        before_max: 1,
        calls_max: 3,
    };
    let (mut whole, mut in_part, mut shown, mut broken) = (0, 0, 0, Vec::new());
    for seed in seeds {
        let mut random = Random(SplitMix64::stream(seed, "proofs", 0));
        let text = changed(&made_up(&mut random));
        let application = compiled(&text);
        let plan = plan(&application, Solver::default());
        let it = plan.invariants.iter().position(|i| i.name == "it").unwrap();
        let verdicts = || plan.entries.iter().filter_map(|entry| entry.verdict(it));
        let explorer = Explorer::new(&application, &plan);
        if verdicts().any(|verdict| verdict.rule == "solver") {
            match verdicts().all(|verdict| verdict.confluent == Confluence::Yes) {
                true => whole += 1,
                false => in_part += 1,
            }
            if let Some(found) = explorer.attack(seed, effort) {
                broken.push(format!("seed {seed}:\n{text}\n{found:#?}"));
            }
        }
        // One in eight also without guards: what is not proved breaks.
        let needs = verdicts().any(|verdict| verdict.confluent != Confluence::Yes);
        if needs && seed.is_multiple_of(8) {
            let found = explorer.counterexamples(seed, effort);
            shown += usize::from(found.iter().any(|found| found.invariant == "it"));
        }
    }
    println!("{whole} proved, {in_part} in part, {shown} shown to break");
    let first = &broken[..broken.len().min(3)];
    assert!(
        broken.is_empty(),
        "{} proofs, of which three are:\n{}",
        broken.len(),
        first.join("\n")
    );
    Tally {
        whole,
        in_part,
        shown,
    }
}
