//! The analyser's counterexamples of the examples, replayed on nodes: each violates its invariant without coordination,
//! and none does with the plan.

use anabranch_analysis::explore::{Counterexample, Effort, Purpose};
use anabranch_analysis::plan::Plan;
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sim::replay::{Replayed, Replayer};
use anabranch_sql::{Application, SourceFile};
use anabranch_types::{ColumnIndex, Placement};

const EFFORT: Effort = Effort {
    cases: 400,
    before_max: 1,
    calls_max: 2,
};

/// The files of an example.
fn example(folder: &str) -> Vec<SourceFile> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let names = ["schema.sql", "assertions.sql", "procedures.sql"];
    let files = names.iter().filter_map(|name| {
        let text = std::fs::read_to_string(format!("{root}/{folder}/{name}")).ok()?;
        Some(SourceFile::new(*name, text))
    });
    files.collect()
}

fn compiled(files: &[SourceFile]) -> Application {
    let compiled = anabranch_sql::load(files.to_vec()).and_then(Application::compile);
    compiled.unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, files)))
}

fn planned(application: &Application) -> Plan {
    analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    )
}

fn replayer(files: &[SourceFile]) -> Replayer {
    let application = compiled(files);
    let plan = planned(&application);
    Replayer::new(application, compiled(files), plan)
}

/// Replays a counterexample, `interleavings` times with the plan.
#[track_caller]
fn replayed(replayer: &Replayer, counterexample: &Counterexample, interleavings: u32) -> Replayed {
    let replayed_run = replayer.replay(counterexample, interleavings);
    replayed_run.unwrap_or_else(|error| panic!("{}: {error}", counterexample.id()))
}

#[track_caller]
fn of<'c>(counterexample: &'c [Counterexample], id: &str) -> &'c Counterexample {
    let found = counterexample.iter().find(|one| one.id() == id);
    let known = || {
        counterexample
            .iter()
            .map(Counterexample::id)
            .collect::<Vec<_>>()
    };
    found.unwrap_or_else(|| panic!("{id} is none of {:?}", known()))
}

#[test]
fn each_counterexample_breaks_without_coordination_and_holds_with_the_plan() {
    let mut ran = 0;
    for folder in [
        "auctionmark",
        "payroll",
        "seats",
        "smallbank",
        "tatp",
        "tpcc",
        "voter",
        "wikipedia",
    ] {
        let replayer = replayer(&example(folder));
        for counterexample in &replayer.counterexamples(1, EFFORT) {
            let replayed_run = replayed(&replayer, counterexample, 8);
            assert!(
                replayed_run.confirms_analysis(),
                "{folder}: {counterexample:#?} {replayed_run:#?}"
            );
            ran += 1;
        }
    }
    assert!(ran >= 15, "{ran}");
}

/// The delays reveal a plan that orders nothing: here, the plan without its guards.
#[test]
fn without_guards_some_interleaving_breaks_the_invariant() {
    let files = example("payroll");
    let application = compiled(&files);
    let unguarded = planned(&application).without_guards(application.summaries());
    let replayer = replayer(&files).with_plan(application, unguarded);
    let counterexample = replayer.counterexamples(1, EFFORT);
    for id in [
        "somebody_is_employed/dismiss",
        "employees_department_id_fkey/close_department+hire",
    ] {
        let replayed_run = replayed(&replayer, of(&counterexample, id), 32);
        assert!(replayed_run.without.is_broken, "{id}: {replayed_run:#?}");
        assert!(
            replayed_run.with.broken.is_some(),
            "{id}: {replayed_run:#?}"
        );
        assert!(!replayed_run.confirms_analysis());
    }
}

/// A prediction alone does not make a violation.
#[test]
fn what_does_not_break_is_not_reported_as_broken() {
    let replayer = replayer(&example("payroll"));
    let counterexample = replayer.counterexamples(1, EFFORT);
    let mut dismissed = of(&counterexample, "somebody_is_employed/dismiss").clone();
    // Both dismiss the same employee: the other stays.
    dismissed.calls[1].arguments = dismissed.calls[0].arguments.clone();
    let replayed_run = replayed(&replayer, &dismissed, 4);
    assert!(
        !replayed_run.without.is_broken && !replayed_run.confirms_analysis(),
        "{replayed_run:#?}"
    );
    assert!(replayed_run.with.broken.is_none(), "{replayed_run:#?}");
    // The same without one of its calls.
    let mut alone = of(
        &counterexample,
        "employees_department_id_fkey/close_department+hire",
    )
    .clone();
    alone.calls.pop();
    assert!(!replayed(&replayer, &alone, 1).without.is_broken);
}

/// A lost update is detected by comparison with the serial runs.
#[test]
fn an_update_is_lost_without_coordination_and_kept_with_the_plan() {
    let files = [SourceFile::new(
        "stock.sql",
        "CREATE TABLE stock (id integer PRIMARY KEY, n integer NOT NULL, seen timestamp);
         CREATE PROCEDURE take(p_id integer, p_n integer) LANGUAGE plpgsql AS $$
         DECLARE had integer;
         BEGIN
             SELECT n INTO had FROM stock WHERE id = p_id;
             UPDATE stock SET n = had - p_n, seen = now() WHERE id = p_id;
         END; $$;",
    )];
    let replayer = replayer(&files);
    let counterexample = replayer.counterexamples(1, EFFORT);
    let lost = of(&counterexample, "isolation(stock)/take");
    let replayed_run = replayed(&replayer, lost, 32);
    assert!(
        replayed_run.confirms_analysis(),
        "{lost:#?} {replayed_run:#?}"
    );
    // Without coordination one of the two withdrawals has no effect.
    let application = compiled(&files);
    let unguarded = planned(&application).without_guards(application.summaries());
    assert!(unguarded.guarded().is_none());
}

/// Rows that live apart from their keys: a boat is not rented twice, and cancellations by key go to every partition.
#[test]
fn a_check_is_kept_where_rows_live_apart_from_their_keys() {
    let files = [SourceFile::new(
        "rental.sql",
        "CREATE TABLE rental (id bigserial PRIMARY KEY, boat integer NOT NULL, low integer NOT NULL, high integer NOT NULL);
         CREATE PROCEDURE rent(b integer, l integer, h integer) LANGUAGE plpgsql AS $$
         BEGIN
             IF EXISTS (SELECT 1 FROM rental WHERE boat = b AND low < h AND high > l) THEN
                 RAISE EXCEPTION 'taken';
             END IF;
             INSERT INTO rental (boat, low, high) VALUES (b, l, h);
         END; $$;
         CREATE PROCEDURE cancel(p bigint) LANGUAGE SQL BEGIN ATOMIC DELETE FROM rental WHERE id = p; END;",
    )];
    let placed = planned(&compiled(&files)).placements;
    assert_eq!(placed, [Placement::Columns(vec![ColumnIndex(1)])]);
    let replayer = replayer(&files);
    let counterexample = replayer.counterexamples(1, EFFORT);
    let double = of(&counterexample, "isolation(rental)/rent");
    let replayed_run = replayed(&replayer, double, 64);
    assert!(
        replayed_run.confirms_analysis(),
        "{double:#?} {replayed_run:#?}"
    );
}

/// The same files give the same results, and other seeds other delays.
#[test]
fn a_replay_can_be_repeated() {
    let replayer = replayer(&example("payroll"));
    let counterexample = replayer.counterexamples(1, EFFORT);
    let results = |_: u32| -> Vec<String> {
        let each = counterexample
            .iter()
            .map(|one| replayed(&replayer, one, 16));
        each.map(|replayed_run| format!("{replayed_run:?}"))
            .collect()
    };
    assert_eq!(results(1), results(2));
    let refused = |results: &[String]| results.iter().filter(|t| t.contains("SQLSTATE")).count();
    assert!(refused(&results(1)) > 0, "{:#?}", results(1));
}

/// Without coordination each replica generates the numbers that an owner assigns at commit: they occur twice.
#[test]
fn numbers_are_generated_twice_without_coordination() {
    let files = [SourceFile::new(
        "orders.sql",
        "CREATE TABLE districts (id integer PRIMARY KEY, next integer NOT NULL);
         CREATE TABLE orders (
             district_id integer NOT NULL, number integer NOT NULL, note integer NOT NULL,
             PRIMARY KEY (district_id, number)
         );
         CREATE ASSERTION no_gap CHECK (
             NOT EXISTS (SELECT * FROM districts
                         WHERE next - 1 <> (SELECT coalesce(max(number), 0) FROM orders
                                            WHERE district_id = districts.id))
         );
         -- anabranch: keeps no_gap
         CREATE FUNCTION place(p_district integer, p_note integer, OUT p_number integer)
         LANGUAGE plpgsql AS $$
         BEGIN
             UPDATE districts SET next = next + 1 WHERE id = p_district
             RETURNING next - 1 INTO p_number;
             INSERT INTO orders (district_id, number, note) VALUES (p_district, p_number, p_note);
         END;
         $$;",
    )];
    let replayer = replayer(&files);
    let deferred = |plan: &Plan| plan.entries[0].deferred.len();
    assert_eq!(deferred(replayer.plan()), 1);
    let counterexample = replayer.counterexamples(1, EFFORT);
    let twice = of(&counterexample, "no_gap/place");
    let replayed_run = replayed(&replayer, twice, 32);
    assert!(
        replayed_run.confirms_analysis(),
        "{twice:#?} {replayed_run:#?}"
    );
    let refused = replayed_run.with.refused.iter().map(|calls| calls.len());
    assert_eq!(refused.sum::<usize>(), 0, "both get a number of their own");
}

/// Removes each guard of an example alone and replays what then breaks. Returns how many guards are shown to be needed.
fn needed(folder: &str) -> usize {
    let mut needed = 0;
    let mut replayer = replayer(&example(folder));
    let plan = replayer.plan().clone();
    for (entry, of) in plan.entries.iter().enumerate() {
        for guard in 0..of.guards.len() {
            let id = plan.guard_id(entry, guard);
            let purpose = replayer.purpose(entry, guard, 1, Effort::FOR_GUARDS);
            let Purpose::Keeps(counterexample) = purpose else {
                continue;
            };
            replayer = replayer.without_guard(entry, guard);
            let replayed_run = replayed(&replayer, &counterexample, 8);
            assert!(
                replayed_run.confirms_analysis(),
                "{folder}: {id}: {counterexample:#?} {replayed_run:#?}"
            );
            needed += 1;
        }
    }
    needed
}

/// Without any single guard an invariant breaks on replicas with all other guards; with the whole plan it holds.
#[test]
fn what_a_guard_is_for_breaks_without_it_alone() {
    let folders = ["bank", "payroll", "seats", "smallbank"];
    let needed = folders.map(needed);
    assert_eq!(needed, [2, 9, 3, 8]);
}

/// Orders have generated numbers, and lines that refer to them; the numbers differ between interleavings.
#[test]
fn numbers_that_other_rows_refer_to_are_not_compared() {
    assert_eq!(needed("tpcw"), 5);
}

/// A guard is not needed if the rest of the plan preserves the invariant.
#[test]
fn what_breaks_nothing_does_not_break_without_a_guard() {
    let replayer = replayer(&example("payroll"));
    let plan = replayer.plan().clone();
    let dismiss = plan.entries.iter().position(|of| of.name == "dismiss");
    let dismiss = dismiss.expect("there is one");
    let Purpose::Keeps(counterexample) = replayer.purpose(dismiss, 0, 1, Effort::FOR_GUARDS) else {
        panic!("it is needed");
    };
    let mut alone = (*counterexample).clone();
    alone.calls.pop();
    let replayer = replayer.without_guard(dismiss, 0);
    let replayed_run = replayed(&replayer, &alone, 4);
    assert!(
        !replayed_run.without.is_broken && !replayed_run.confirms_analysis(),
        "{replayed_run:#?}"
    );
}
