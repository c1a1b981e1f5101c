//! Attacks on free verdicts: every small set of transaction types that the analyser calls free runs on two replicas
//! from a common ancestor; the columns' policies merge them, and every invariant is checked. For each rule, sets
//! that it forbids must be breakable, or the attack would prove nothing.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::plan::{Confluence, CoordinationClass};
use anabranch_types::SplitMix64;

use crate::support::Application;

const TABLES: &str = "
    CREATE TABLE dept (id integer PRIMARY KEY, total integer NOT NULL, n integer NOT NULL, state integer);
    CREATE TABLE emp (id integer PRIMARY KEY, dept integer NOT NULL REFERENCES dept (id),
                      pay integer NOT NULL, done integer);";

/// A declaration besides the keys, and whether a state satisfies it.
type Declaration = (&'static str, fn(&State) -> bool);

const DECLARED: [Declaration; 7] = [
    ("", |_| true),
    (
        "CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM dept WHERE total <> \
         (SELECT coalesce(sum(pay), 0) FROM emp WHERE emp.dept = dept.id)));",
        |s| {
            s.dept.iter().all(|(id, d)| {
                d[TOTAL]
                    == Some(
                        s.emp
                            .values()
                            .filter(|e| e[DEPT] == Some(*id))
                            .filter_map(|e| e[PAY])
                            .sum(),
                    )
            })
        },
    ),
    ("ALTER TABLE dept ADD CONSTRAINT it CHECK (n >= 0);", |s| {
        s.dept.values().all(|d| d[N] >= Some(0))
    }),
    ("ALTER TABLE dept ADD CONSTRAINT it CHECK (n <= 3);", |s| {
        s.dept.values().all(|d| d[N] <= Some(3))
    }),
    (
        "CREATE ASSERTION it CHECK (EXISTS (SELECT * FROM emp));",
        |s| !s.emp.is_empty(),
    ),
    (
        "CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM dept JOIN emp ON emp.dept = dept.id \
         WHERE (state IS NULL) <> (done IS NULL)));",
        |s| {
            s.emp.values().all(|e| {
                let dept = e[DEPT].and_then(|d| s.dept.get(&d));
                dept.is_none_or(|d| d[STATE].is_none() == e[DONE].is_none())
            })
        },
    ),
    (
        "CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM dept WHERE n > 2 AND state IS NOT NULL));",
        |s| {
            let wrong = |d: &Row| d[N] > Some(2) && d[STATE].is_some();
            !s.dept.values().any(wrong)
        },
    ),
];

type Row = [Option<i64>; 4];
const TOTAL: usize = 1;
const N: usize = 2;
const STATE: usize = 3;
const DEPT: usize = 1;
const PAY: usize = 2;
const DONE: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    dept: BTreeMap<i64, Row>,
    emp: BTreeMap<i64, Row>,
    /// Keys that were inserted twice.
    twice: bool,
    /// Keys that were deleted: they do not return.
    gone: BTreeSet<(bool, i64)>,
}

/// An operation of a transaction; the flag distinguishes `dept` from `emp`.
#[derive(Clone, Debug)]
enum Op {
    Insert(bool, i64, Row),
    Add(bool, i64, usize, i64),
    Set(bool, i64, usize, Option<i64>),
    Delete(bool, i64),
}

impl State {
    fn table(&mut self, dept: bool) -> &mut BTreeMap<i64, Row> {
        if dept { &mut self.dept } else { &mut self.emp }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Insert(t, key, row) => {
                if self.gone.contains(&(*t, *key)) {
                    return;
                }
                self.twice |= self.table(*t).insert(*key, *row).is_some();
            }
            Op::Add(t, key, column, by) => {
                if let Some(value) = self
                    .table(*t)
                    .get_mut(key)
                    .and_then(|r| r[*column].as_mut())
                {
                    *value += by;
                }
            }
            Op::Set(t, key, column, to) => {
                if let Some(row) = self.table(*t).get_mut(key) {
                    row[*column] = *to;
                }
            }
            Op::Delete(t, key) => {
                self.table(*t).remove(key);
                self.gone.insert((*t, *key));
            }
        }
    }

    fn is_valid(&self, declared: fn(&State) -> bool) -> bool {
        !self.twice
            && self
                .emp
                .values()
                .all(|e| e[DEPT].is_some_and(|d| self.dept.contains_key(&d)))
            && declared(self)
    }
}

/// A transaction type twice: for the analyser, and to run.
struct Template {
    name: &'static str,
    declare: fn(&mut Application),
    run: fn(&State, &mut SplitMix64, i64) -> Vec<Op>,
}

fn pick(random: &mut SplitMix64) -> i64 {
    1 + random.below(3) as i64
}

const TEMPLATES: &[Template] = &[
    Template {
        name: "hire",
        declare: |app| {
            app.transaction("hire", &["p_dept", "p_pay"])
                .insert(
                    "emp",
                    &[("id", "fresh"), ("dept", "p_dept"), ("pay", "p_pay")],
                )
                .update("dept", &[("total", "+p_pay")], &[("id", "p_dept")])
                .done();
        },
        run: |_, r, fresh| {
            let (dept, pay) = (pick(r), pick(r));
            let row = [Some(fresh), Some(dept), Some(pay), None];
            vec![
                Op::Insert(false, fresh, row),
                Op::Add(true, dept, TOTAL, pay),
            ]
        },
    },
    Template {
        name: "hire_as",
        declare: |app| {
            app.transaction("hire_as", &["p_id", "p_dept", "p_pay"])
                .insert(
                    "emp",
                    &[("id", "p_id"), ("dept", "p_dept"), ("pay", "p_pay")],
                )
                .update("dept", &[("total", "+p_pay")], &[("id", "p_dept")])
                .done();
        },
        run: |_, r, _| {
            let (id, dept, pay) = (pick(r), pick(r), pick(r));
            let row = [Some(id), Some(dept), Some(pay), None];
            vec![Op::Insert(false, id, row), Op::Add(true, dept, TOTAL, pay)]
        },
    },
    Template {
        name: "dismiss",
        declare: |app| {
            app.transaction("dismiss", &["p_id"])
                .delete("emp", &[("id", "p_id")])
                .update("dept", &[("total", "-?")], &[("id", "?")])
                .done();
        },
        run: |s, r, _| {
            let id = pick(r);
            match s.emp.get(&id) {
                Some([_, Some(dept), Some(pay), _]) => {
                    vec![Op::Delete(false, id), Op::Add(true, *dept, TOTAL, -pay)]
                }
                _ => Vec::new(),
            }
        },
    },
    Template {
        name: "raise",
        declare: |app| {
            app.transaction("raise", &["p_id", "p_dept"])
                .update("emp", &[("pay", "+=1")], &[("id", "p_id")])
                .update("dept", &[("total", "+=1")], &[("id", "?")])
                .done();
        },
        run: |s, r, _| {
            let id = pick(r);
            match s.emp.get(&id) {
                Some([_, Some(dept), ..]) => {
                    vec![Op::Add(false, id, PAY, 1), Op::Add(true, *dept, TOTAL, 1)]
                }
                _ => Vec::new(),
            }
        },
    },
    Template {
        name: "close",
        declare: |app| {
            app.transaction("close", &["p_id"])
                .delete("dept", &[("id", "p_id")])
                .done()
        },
        run: |_, r, _| vec![Op::Delete(true, pick(r))],
    },
    Template {
        name: "recount",
        declare: |app| {
            app.transaction("recount", &["p_id"])
                .update("dept", &[("total", "?")], &[("id", "p_id")])
                .done();
        },
        run: |s, r, _| {
            let id = pick(r);
            let sum = s
                .emp
                .values()
                .filter(|e| e[DEPT] == Some(id))
                .filter_map(|e| e[PAY])
                .sum();
            vec![Op::Set(true, id, TOTAL, Some(sum))]
        },
    },
    Template {
        name: "up",
        declare: |app| {
            app.transaction("up", &["p_id"])
                .update("dept", &[("n", "+=1")], &[("id", "p_id")])
                .done();
        },
        run: |_, r, _| vec![Op::Add(true, pick(r), N, 1)],
    },
    Template {
        name: "down",
        declare: |app| {
            app.transaction("down", &["p_id"])
                .update("dept", &[("n", "-=1")], &[("id", "p_id")])
                .done();
        },
        run: |_, r, _| vec![Op::Add(true, pick(r), N, -1)],
    },
    Template {
        name: "put",
        declare: |app| {
            app.transaction("put", &["p_id", "p_n"])
                .update("dept", &[("n", "p_n")], &[("id", "p_id")])
                .done();
        },
        run: |_, r, _| vec![Op::Set(true, pick(r), N, Some(r.below(5) as i64))],
    },
    Template {
        name: "finish",
        declare: |app| {
            app.transaction("finish", &["p_id"])
                .update("dept", &[("state", "=1")], &[("id", "p_id")])
                .update("emp", &[("done", "=1")], &[("dept", "p_id")])
                .done();
        },
        run: |s, r, _| turn(s, pick(r), Some(1)),
    },
    Template {
        name: "reopen",
        declare: |app| {
            app.transaction("reopen", &["p_id"])
                .update("dept", &[("state", "null")], &[("id", "p_id")])
                .update("emp", &[("done", "null")], &[("dept", "p_id")])
                .done();
        },
        run: |s, r, _| turn(s, pick(r), None),
    },
    Template {
        name: "half_hire",
        declare: |app| {
            app.transaction("half_hire", &["p_dept"])
                .insert("emp", &[("id", "fresh"), ("dept", "p_dept"), ("pay", "=0")])
                .done();
        },
        run: |_, r, fresh| {
            vec![Op::Insert(
                false,
                fresh,
                [Some(fresh), Some(pick(r)), Some(0), None],
            )]
        },
    },
];

fn turn(s: &State, dept: i64, to: Option<i64>) -> Vec<Op> {
    let mut ops = vec![Op::Set(true, dept, STATE, to)];
    let inside = s.emp.iter().filter(|(_, e)| e[DEPT] == Some(dept));
    ops.extend(inside.map(|(id, _)| Op::Set(false, *id, DONE, to)));
    ops
}

fn start() -> State {
    let mut state = State::default();
    for id in 1..=2 {
        state.dept.insert(id, [Some(id), Some(0), Some(1), None]);
    }
    for (id, pay) in [(1, 2), (2, 3)] {
        state.emp.insert(id, [Some(id), Some(1), Some(pay), None]);
        state.apply(&Op::Add(true, 1, TOTAL, pay));
    }
    state
}

/// Runs up to `calls` transactions of `types` on one replica; those that would be invalid there abort.
fn replica(
    state: &mut State,
    types: &[&Template],
    calls: u64,
    declared: fn(&State) -> bool,
    random: &mut SplitMix64,
    name_space: i64,
) -> Vec<Vec<Op>> {
    let mut log = Vec::new();
    for call in 0..random.below(calls + 1) as i64 {
        let template = types[random.below(types.len() as u64) as usize];
        let ops = (template.run)(state, random, name_space + call);
        let mut next = state.clone();
        ops.iter().for_each(|op| next.apply(op));
        if next.is_valid(declared) {
            *state = next;
            log.push(ops);
        }
    }
    log
}

/// Merges two logs in a random order of timestamps that respects each, and applies the result.
fn merge(ancestor: &State, logs: [Vec<Vec<Op>>; 2], random: &mut SplitMix64) -> State {
    let mut merged = ancestor.clone();
    let [a, b] = logs;
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let first = match (a.peek().is_some(), b.peek().is_some()) {
            (false, false) => return merged,
            (true, false) => true,
            (false, true) => false,
            (true, true) => random.below(2) == 0,
        };
        let ops = if first { a.next() } else { b.next() };
        ops.unwrap_or_default()
            .iter()
            .for_each(|op| merged.apply(op));
    }
}

/// Returns a merged state that violates something, if one is found.
fn attack(types: &[&Template], declared: fn(&State) -> bool, seed: u64) -> Option<State> {
    let mut random = SplitMix64::new(seed);
    for _ in 0..400 {
        let mut ancestor = start();
        replica(&mut ancestor, types, 2, declared, &mut random, 100);
        let (mut left, mut right) = (ancestor.clone(), ancestor.clone());
        let a = replica(&mut left, types, 3, declared, &mut random, 200);
        let b = replica(&mut right, types, 3, declared, &mut random, 300);
        let merged = merge(&ancestor, [a, b], &mut random);
        if !merged.is_valid(declared) {
            return Some(merged);
        }
    }
    None
}

fn subsets() -> Vec<Vec<&'static Template>> {
    let mut sets = Vec::new();
    for (i, a) in TEMPLATES.iter().enumerate() {
        sets.push(vec![a]);
        for (j, b) in TEMPLATES.iter().enumerate().skip(i + 1) {
            sets.push(vec![a, b]);
            sets.extend(TEMPLATES[j + 1..].iter().map(|c| vec![a, b, c]));
        }
    }
    sets
}

#[test]
fn free_sets_cannot_be_broken_and_others_can() {
    let mut free = 0;
    let mut proved = 0;
    let mut broken_by_rule: BTreeSet<&'static str> = BTreeSet::new();
    for (seed, (sql, declared)) in DECLARED.iter().enumerate() {
        for types in subsets() {
            let mut app = Application::new(&format!("{TABLES}{sql}"));
            types.iter().for_each(|t| (t.declare)(&mut app));
            let plan = app.plan();
            let is_free = plan
                .entries
                .iter()
                .all(|e| e.class == CoordinationClass::Free);
            let found = attack(&types, *declared, seed as u64 * 1_000_003 + 7);
            if is_free {
                free += 1;
                let mut verdicts = plan.entries.iter().flat_map(|e| &e.verdicts);
                proved += u32::from(verdicts.any(|v| v.rule == "solver"));
                let names: Vec<&str> = types.iter().map(|t| t.name).collect();
                assert_eq!(found, None, "{names:?} under {sql:?} is called free");
            } else if found.is_some() {
                let verdicts = plan.entries.iter().flat_map(|e| &e.verdicts);
                broken_by_rule.extend(
                    verdicts
                        .filter(|v| v.confluent == Confluence::No)
                        .map(|v| v.rule),
                );
            }
        }
    }
    assert!(free > 300, "only {free} sets were free");
    assert!(proved > 3, "only {proved} sets were free by a proof");
    for rule in [
        "unique-chosen",
        "fk-delete",
        "mv-overwrite",
        "mv-transition",
        "gt-decrement",
        "lt-increment",
        "nonempty-delete",
        "iff-two-way",
        "row-mixed",
    ] {
        assert!(
            broken_by_rule.contains(rule),
            "nothing that {rule} forbids was broken"
        );
    }
}
