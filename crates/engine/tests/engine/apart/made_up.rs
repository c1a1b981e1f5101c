//! Made-up applications with tables that columns outside their keys place, over one partition and over three, under each
//! protocol. The reference is one partition, where every row is in one place.
//!
//! *One call after the other*: each call has the answer that it has on one partition, and leaves the same rows. *Calls at
//! the same time*: what the application's checks keep in every serial order holds at the end, no key is there twice, and
//! a look-up at the partition of a value finds all rows with the value.
//!
//! A row is named by a tag that its inserter gives, since keys are other ones for another number of nodes.
//! `ANABRANCH_PLACEMENT_SEEDS=FIRST..LAST` tries other seeds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anabranch_analysis::Options;
use anabranch_engine::{CallError, CallId, NodeOptions, PlannedApplication};
use anabranch_types::{ColumnIndex, Placement, Value};
use fastrand::Rng;

use crate::support::{Answer, Cluster, args, plan_with, under_each_planned};

const PARTITIONS: u16 = 3;

/// A procedure with parameters p (a boat), t (a tag), k (the key of a row), q and r.
struct Form {
    body: &'static str,
    /// Whether it keeps, in every serial order, that rentals of one boat do not overlap.
    keeps: bool,
}

const fn keeping(body: &'static str) -> Form {
    Form { body, keeps: true }
}

const fn breaking(body: &'static str) -> Form {
    Form { body, keeps: false }
}

const TAKEN: &str = "boat = p AND low < q + 3 AND high > q";

const FORMS: [Form; 41] = [
    // Inserts, after a look at the rows of one boat.
    keeping("IF EXISTS (SELECT 1 FROM rental WHERE TAKEN) THEN RAISE EXCEPTION 'taken'; END IF; INSERT"),
    keeping("SELECT count(*) INTO v FROM rental WHERE TAKEN; IF v > 0 THEN RETURN; END IF; INSERT"),
    keeping("PERFORM 1 FROM rental WHERE TAKEN LIMIT 1; IF FOUND THEN RETURN; END IF; INSERT"),
    keeping("INSERT INTO rental (tag, boat, low, high) SELECT t, p, q, q + 3 WHERE NOT EXISTS (SELECT 1 FROM rental WHERE TAKEN);"),
    keeping("IF NOT EXISTS (SELECT 1 FROM rental WHERE boat = p) THEN INSERT END IF;"),
    breaking("INSERT"),
    breaking("INSERT INTO rental (tag, boat, low, high) VALUES (t, p, q, q + 1), (t + 1000, p + 1, q, q + 1);"),
    breaking("INSERT INTO rental (tag, boat, low, high) SELECT tag + 2000 + t, boat + 1, low, high FROM rental WHERE boat = p;"),
    breaking("INSERT INTO rental (tag, boat, low, high) VALUES (t, p, q, q + 1) ON CONFLICT DO NOTHING;"),
    // Boats that another row's counter gives out: it is deferred unless the boat is referred to.
    breaking("UPDATE boat SET n = n + 1 WHERE id = p RETURNING n INTO w; INSERT INTO rental (tag, boat, low, high) VALUES (t, w, q, q + 1);"),
    breaking("UPDATE boat SET n = n + 1 WHERE id = p RETURNING n INTO w; INSERT INTO rental (tag, boat, low, high) VALUES (t, p, w, w + 1);"),
    breaking("INSERT INTO rental (tag, boat, low, high) VALUES (t, NULL, q, q + 1);"),
    // Rows found by their key.
    keeping("DELETE FROM rental WHERE id = k;"),
    keeping("DELETE FROM rental WHERE id = k AND boat = p;"),
    keeping("DELETE FROM rental WHERE id = k AND note < r RETURNING note INTO v; IF NOT FOUND THEN RAISE EXCEPTION 'none'; END IF;"),
    keeping("UPDATE rental SET note = r WHERE id = k;"),
    keeping("UPDATE rental SET note = note + r WHERE id = k;"),
    keeping("UPDATE rental SET note = note + 1 WHERE id = k RETURNING tag INTO v;"),
    keeping("SELECT note INTO v FROM rental WHERE id = k; UPDATE rental SET note = v + 1 WHERE id = k;"),
    keeping("UPDATE rental SET note = CASE WHEN note > 3 THEN 0 ELSE note END WHERE id = k AND boat = p;"),
    keeping("SELECT tag INTO v FROM rental WHERE id = k FOR UPDATE;"),
    breaking("UPDATE rental SET low = low + 1, high = high + 2 WHERE id = k;"),
    keeping("SELECT note INTO v FROM rental WHERE id = k AND boat = p;"),
    keeping("SELECT b.n INTO v FROM rental AS x JOIN boat AS b ON b.id = x.boat WHERE x.id = k;"),
    keeping("SELECT count(*) INTO v FROM rental WHERE id IN (k, k + 1, k + 2);"),
    keeping("SELECT count(*) INTO v FROM rental WHERE id BETWEEN k AND k + 4;"),
    // Rows found by other columns.
    keeping("DELETE FROM rental WHERE boat = p;"),
    keeping("DELETE FROM rental WHERE low > q AND note > r;"),
    keeping("UPDATE rental SET note = note + 1 WHERE boat = p;"),
    keeping("UPDATE rental SET note = note + 1 WHERE low <= q;"),
    keeping("SELECT sum(note) INTO v FROM rental WHERE boat = p;"),
    keeping("SELECT tag INTO v FROM rental ORDER BY tag DESC LIMIT 1;"),
    keeping("SELECT tag INTO v FROM rental WHERE boat = p AND low >= q ORDER BY low, tag LIMIT 1;"),
    keeping("SELECT count(*) INTO v FROM boat AS b WHERE EXISTS (SELECT 1 FROM rental AS x WHERE x.boat = b.id AND x.note > r);"),
    keeping("SELECT count(*) INTO v FROM boat AS b LEFT JOIN rental AS x ON x.boat = b.id AND x.boat = p;"),
    keeping("SELECT max(x.low) INTO v FROM rental AS x JOIN rental AS y ON x.boat = y.boat AND x.tag < y.tag WHERE x.boat = p;"),
    // Own rows again.
    breaking("INSERT INTO rental (tag, boat, low, high) VALUES (t, p, q, q + 3) RETURNING id INTO v;
        UPDATE rental SET note = 7 WHERE id = v; SELECT note INTO v FROM rental WHERE id = v;"),
    keeping("INSERT INTO rental (tag, boat, low, high) VALUES (t, p, q, q + 3) RETURNING id INTO v;
        SELECT count(*) INTO w FROM rental WHERE boat = p + 1; DELETE FROM rental WHERE id = v; v := w;"),
    keeping("UPDATE rental SET note = 5 WHERE id = k; SELECT sum(note) INTO v FROM rental WHERE boat = p; DELETE FROM rental WHERE id = k;"),
    // Rows that refer to them by their key.
    keeping("INSERT INTO payment (tag, rental) VALUES (t, k);"),
    keeping("SELECT count(*) INTO v FROM payment AS y JOIN rental AS x ON x.id = y.rental WHERE x.boat = p;"),
];

/// Forms that only some schemas and plans allow.
const FURTHER: [Form; 3] = [
    keeping("DELETE FROM boat WHERE id = p;"),
    // Keys that a client gives.
    breaking("INSERT INTO rental (id, tag, boat, low, high) VALUES (t, t, p, q, q + 1);"),
    // Rows that would move.
    breaking("UPDATE rental SET boat = p WHERE id = k;"),
];

struct MadeUp {
    sql: String,
    procedures: usize,
    keeps: bool,
    /// Whether a procedure gives keys or changes the column that may place rentals.
    is_excluded: bool,
    /// Whether each rental's boat has to be there.
    refers: bool,
}

fn made_up(seed: u64) -> MadeUp {
    let mut random = Rng::with_seed(seed);
    let cascade = [" ON DELETE CASCADE", ""][random.usize(..2)];
    // Without a reference, values of other rows may be carried there. A value of a column that may be null is at another
    // partition than the same one of a column that may not.
    let refers = match random.u8(..3) {
        0 => String::new(),
        _ => format!(" REFERENCES boat (id){cascade}"),
    };
    let null = [" NOT NULL", " NOT NULL", ""][random.usize(..3)];
    let unique = ["", "", ", UNIQUE (boat, tag)"][random.usize(..3)];
    let index = [
        "",
        "CREATE INDEX ON rental (boat);",
        "CREATE INDEX ON rental (low, boat);",
        "CREATE INDEX ON rental (boat, low);",
    ][random.usize(..4)];
    let key = [
        "id bigserial PRIMARY KEY",
        "id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    ][random.usize(..3)];
    let mut sql = format!(
        "CREATE TABLE boat (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE rental ({key}, tag integer NOT NULL, boat integer{null}{refers},
             low integer NOT NULL, high integer NOT NULL, note integer NOT NULL DEFAULT 0{unique});
         CREATE TABLE payment (id serial PRIMARY KEY, tag integer NOT NULL,
             rental bigint NOT NULL REFERENCES rental (id){cascade});
         {index}\n"
    );
    let procedures = 2 + random.usize(..5);
    let (mut keeps, mut is_excluded) = (true, false);
    for number in 0..procedures {
        let form = match random.u8(..12) {
            // PostgreSQL refuses the given key of a column that is always generated.
            0 if key.contains("ALWAYS") => &FURTHER[2 * random.usize(..2)],
            0 => &FURTHER[random.usize(..3)],
            1..=4 => &FORMS[random.usize(..5)],
            5 => &FORMS[12],
            6 => &FORMS[9],
            _ => &FORMS[random.usize(..FORMS.len())],
        };
        keeps &= form.keeps;
        is_excluded |= form.body == FURTHER[1].body || form.body == FURTHER[2].body;
        let body = form.body.replace("TAKEN", TAKEN);
        let insert = "INSERT INTO rental (tag, boat, low, high) VALUES (t, p, q, q + 3);";
        let body = body
            .replace("THEN INSERT END", &format!("THEN {insert} END"))
            .replace("; INSERT;", "; INSERT");
        let body = match body.strip_suffix("INSERT") {
            Some(before) => format!("{before}{insert}"),
            None => body,
        };
        sql += &format!(
            "CREATE FUNCTION f{number}(p integer, t integer, k bigint, q integer, r integer, OUT v bigint)
             LANGUAGE plpgsql AS $$ DECLARE w bigint; BEGIN {body} END; $$;\n"
        );
    }
    MadeUp {
        sql,
        procedures,
        keeps,
        is_excluded,
        refers: !refers.is_empty(),
    }
}

/// The application with its plan. `forced`: rentals and payments are placed by columns outside their keys wherever that is
/// allowed, and not only where the analysis gains by it.
fn planned(made_up: &MadeUp, partitions: u16, forced: bool) -> Arc<PlannedApplication> {
    let own = plan_with(&made_up.sql, partitions, &Options::default());
    if !forced {
        return own;
    }
    let mut placements = own.plan.placements.clone();
    for (table, column) in [(1, 2), (2, 2)] {
        if placements[table] != Placement::Replicated {
            placements[table] = Placement::Columns(vec![ColumnIndex(column)]);
        }
    }
    let options = Options {
        placements: Some(placements),
        ..Options::default()
    };
    plan_with(&made_up.sql, partitions, &options)
}

fn rows() -> Vec<(u16, Vec<Value>)> {
    (0..6).map(|id| (0, args([id, id * 3]).to_vec())).collect()
}

/// The arguments of a call: a boat, a new tag, the tag of the row whose key is given, and two numbers.
fn drawn(random: &mut Rng, turn: i64) -> [i64; 5] {
    let tag = match random.u8(..4) {
        0 => turn - 1,
        _ => random.i64(0..turn.max(1)),
    };
    [
        random.i64(0..5),
        turn,
        tag,
        random.i64(0..8),
        random.i64(0..4),
    ]
}

fn key_of(cluster: &mut dyn Cluster, tag: i64) -> i64 {
    let sql = format!("SELECT id FROM rental WHERE tag = {tag} ORDER BY boat, low, high, note");
    let found = cluster.ints(0, &sql);
    found.first().map_or(-1, |row| row[0])
}

/// What a call says, without keys.
fn said(answer: &Answer) -> String {
    match answer {
        Ok(rows) => format!("{rows:?}"),
        Err(CallError::Failed(error)) => error.code.to_owned(),
        Err(other) => format!("{other:?}"),
    }
}

const DUMPS: [&str; 3] = [
    "SELECT id, n FROM boat ORDER BY id",
    "SELECT tag, coalesce(boat, -1), low, high, note FROM rental ORDER BY tag, boat, low, note",
    "SELECT y.tag, x.tag FROM payment AS y JOIN rental AS x ON x.id = y.rental ORDER BY y.tag, x.tag",
];

/// Calls one after the other, each at another node: what each says, and the rows at the end.
fn one_by_one(seed: u64, made_up: &MadeUp, cluster: &mut dyn Cluster, nodes: u16) -> Vec<String> {
    let mut random = Rng::with_seed(seed ^ 0x5EED);
    let mut lines = Vec::new();
    for turn in 0..24 {
        let procedure = format!("f{}", random.usize(..made_up.procedures));
        let [p, t, tag, q, r] = drawn(&mut random, turn);
        let node = random.u16(..u16::MAX) % nodes;
        // Rows are inserted with and without a key that another row has, in the same order of keys.
        let key = key_of(cluster, tag);
        let answer = cluster.call(node, &procedure, &args([p, t, key, q, r]));
        lines.push(format!(
            "{procedure}({p}, {t}, key of {tag}, {q}, {r}): {}",
            said(&answer)
        ));
    }
    lines.extend(DUMPS.map(|sql| format!("{:?}", cluster.ints(0, sql))));
    cluster.assert_idle();
    lines
}

/// Whether an answer depends on the keys that are drawn, which differ with the number of nodes: by keys next to one, or by
/// keys that are given and may be drawn as well.
fn shows_keys(sql: &str) -> bool {
    ["id IN (k", "id BETWEEN k", "(id, tag"]
        .iter()
        .any(|form| sql.contains(form))
}

/// Calls at the same time, and what must hold afterwards.
fn at_once(seed: u64, made_up: &MadeUp, cluster: &mut dyn Cluster, tally: &mut Tally) {
    let mut random = Rng::with_seed(seed ^ 0xA11);
    for round in 0..4 {
        let mut calls: Vec<CallId> = Vec::new();
        let keys = cluster.ints(0, "SELECT id FROM rental");
        for turn in 0..6 {
            let procedure = format!("f{}", random.usize(..made_up.procedures));
            let [p, _, _, q, r] = drawn(&mut random, turn);
            let key = match keys.is_empty() {
                true => -1,
                false => keys[random.usize(..keys.len())][0],
            };
            // Few boats and times, so that calls meet.
            let arguments = args([p % 2 * 2 + 1, round * 10 + turn, key, q / 3, r]);
            calls.push(cluster.begin(random.u16(..PARTITIONS), &procedure, &arguments));
        }
        let outcomes = cluster.run();
        for call in calls {
            match &outcomes[&call].result {
                Ok(_) => tally.done += 1,
                Err(CallError::Failed(error)) if error.code != "0A000" && error.code != "XX000" => {
                    tally.failed += 1;
                }
                Err(other) => panic!("seed {seed}: {other:?}\n{}", made_up.sql),
            }
        }
    }
    let sql = &made_up.sql;
    let all = cluster.ints(0, "SELECT id, coalesce(boat, -1), low, high FROM rental");
    let mut keys: Vec<i64> = all.iter().map(|row| row[0]).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(
        keys.len(),
        all.len(),
        "seed {seed}: a key is there twice\n{sql}"
    );
    let mut of_boat: BTreeMap<i64, i64> = BTreeMap::new();
    for row in &all {
        *of_boat.entry(row[1]).or_default() += 1;
        let found = cluster.ints(
            1,
            &format!(
                "SELECT coalesce(boat, -1) FROM rental WHERE id = {}",
                row[0]
            ),
        );
        assert_eq!(found, [[row[1]]], "seed {seed}: {row:?}\n{sql}");
    }
    for boat in (0..7).chain(of_boat.keys().copied().filter(|boat| *boat >= 7)) {
        let found = cluster.ints(
            2,
            &format!("SELECT count(*) FROM rental WHERE boat = {boat}"),
        );
        let expected = of_boat.get(&boat).copied().unwrap_or(0);
        assert_eq!(found, [[expected]], "seed {seed}: boat {boat}\n{sql}");
    }
    let orphans = "SELECT y.id FROM payment AS y WHERE NOT EXISTS (SELECT 1 FROM rental AS x WHERE x.id = y.rental)";
    assert!(
        cluster.ints(0, orphans).is_empty(),
        "seed {seed}: a payment has no rental\n{sql}"
    );
    let homeless = "SELECT x.id FROM rental AS x WHERE x.boat IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM boat AS b WHERE b.id = x.boat)";
    assert!(
        !made_up.refers || cluster.ints(0, homeless).is_empty(),
        "seed {seed}: a rental has no boat\n{sql}"
    );
    if made_up.keeps {
        let overlap =
            |x: &Vec<i64>, y: &Vec<i64>| x[0] < y[0] && x[1] == y[1] && x[2] < y[3] && y[2] < x[3];
        let clash = all
            .iter()
            .find_map(|x| all.iter().find(|y| overlap(x, y)).map(|y| (x, y)));
        assert_eq!(clash, None, "seed {seed}: two rentals overlap\n{sql}");
        tally.kept += 1;
    }
    cluster.assert_idle();
}

#[derive(Debug, Default)]
struct Tally {
    applications: u32,
    /// Those that the analysis places by a column outside the key, and those that allow it.
    chosen: u32,
    allowed: u32,
    done: u32,
    failed: u32,
    kept: u32,
}

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("ANABRANCH_PLACEMENT_SEEDS") else {
        return usual;
    };
    let ends = text
        .split_once("..")
        .and_then(|(first, last)| Some(first.parse().ok()?..last.parse().ok()?));
    ends.unwrap_or_else(|| panic!("ANABRANCH_PLACEMENT_SEEDS is FIRST..LAST, not {text}"))
}

#[test]
fn rows_apart_from_their_keys_behave_like_any_others() {
    let usual = 0..40;
    let seeds = seeds(usual.clone());
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        let made_up = made_up(seed);
        tally.applications += 1;
        let chosen = planned(&made_up, PARTITIONS, false);
        let forced = planned(&made_up, PARTITIONS, true);
        let is_apart = |planned: &PlannedApplication| {
            let tables = planned.schema().tables.iter();
            tables
                .filter(|table| planned.execution.router.is_apart(table.id))
                .count()
        };
        let rentals = |planned: &PlannedApplication| {
            planned
                .execution
                .router
                .is_apart(anabranch_types::TableId(1))
        };
        assert!(
            !made_up.is_excluded || !rentals(&chosen) && !rentals(&forced),
            "seed {seed}: keys are given, or rows move\n{}",
            made_up.sql
        );
        tally.chosen += u32::from(is_apart(&chosen) > 0);
        tally.allowed += u32::from(is_apart(&forced) > 0);
        let plan = match (is_apart(&chosen), is_apart(&forced)) {
            (0, 0) => continue,
            (0, _) => forced,
            (_, 0) => chosen,
            (..) if seed % 2 == 0 => chosen,
            (..) => forced,
        };
        if !shows_keys(&made_up.sql) {
            let reference = planned(&made_up, 1, false);
            let expected = std::cell::RefCell::new(None);
            under_each_planned(&reference, &rows(), NodeOptions::default(), |cluster| {
                let lines = one_by_one(seed, &made_up, cluster, 1);
                let known = expected
                    .borrow_mut()
                    .get_or_insert_with(|| lines.clone())
                    .clone();
                assert_eq!(known, lines, "seed {seed}, one partition\n{}", made_up.sql);
            });
            under_each_planned(&plan, &rows(), NodeOptions::default(), |cluster| {
                let lines = one_by_one(seed, &made_up, cluster, PARTITIONS);
                let expected = expected.borrow();
                assert_eq!(
                    expected.as_ref(),
                    Some(&lines),
                    "seed {seed}\n{}",
                    made_up.sql
                );
            });
        }
        let met = std::cell::RefCell::new(&mut tally);
        under_each_planned(&plan, &rows(), NodeOptions::default(), |cluster| {
            at_once(seed, &made_up, cluster, &mut met.borrow_mut());
        });
    }
    println!("{tally:#?}");
    if seeds == usual {
        assert!(tally.chosen >= 5 && tally.allowed > 20, "{tally:#?}");
        assert!(
            tally.kept >= 5 && tally.done > 500 && tally.failed > 20,
            "{tally:#?}"
        );
    }
}
