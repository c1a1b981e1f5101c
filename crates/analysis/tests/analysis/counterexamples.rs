//! Counterexamples of the examples: each has an edge in the coordination graph, and nothing of it can be left out.

use std::collections::BTreeSet;

use anabranch_analysis::explore::{Counterexample, Effort, Explorer};
use anabranch_analysis::plan::{MergePolicy, Plan};
use anabranch_analysis::report;
use anabranch_sql::SourceFile;

use crate::support::Application;

/// The examples, by folder.
pub(crate) const EXAMPLES: [&str; 13] = [
    "auctionmark",
    "bank",
    "counter",
    "epinions",
    "payroll",
    "register",
    "replies",
    "seats",
    "smallbank",
    "tatp",
    "twitter",
    "voter",
    "wikipedia",
];

/// Calls `look` with each example's counterexamples.
fn each(mut look: impl FnMut(&str, &Plan, &Explorer<'_>, Vec<Counterexample>)) {
    for example in EXAMPLES {
        let loaded = Application::example(example);
        let plan = loaded.plan();
        let application = anabranch_sql::Application::compile(loaded.catalog);
        let application = application.unwrap_or_else(|found| panic!("{example}: {found:?}"));
        let explorer = Explorer::new(&application, &plan);
        let found = explorer.counterexamples(1, Effort::default());
        look(example, &plan, &explorer, found);
    }
}

/// Whether the graph has an edge, for the broken invariant, between a type on one replica and a type on the other.
pub(crate) fn names_an_edge(plan: &Plan, shown: &Counterexample) -> bool {
    let on = |replica: usize| {
        shown
            .calls
            .iter()
            .filter(move |call| call.replica == replica)
    };
    let edges = plan.edges();
    on(0).any(|left| {
        on(1).any(|right| {
            let ends = [left.procedure, right.procedure];
            edges.iter().any(|edge| {
                let joins = edge.ends == (ends[0], ends[1]) || edge.ends == (ends[1], ends[0]);
                let mut names = edge.invariants.keys().map(|i| &plan.invariants[*i].name);
                joins && names.any(|name| *name == shown.invariant)
            })
        })
    })
}

#[test]
fn each_names_an_edge_and_has_a_name_of_its_own() {
    let mut shown = BTreeSet::new();
    each(|example, plan, explorer, found| {
        for one in found {
            assert!(explorer.shows(&one), "{example}: {one:#?}");
            assert!(names_an_edge(plan, &one), "{example}: {one:#?}");
            let id = format!("{example}: {}", one.id());
            assert!(shown.insert(id.clone()), "{id} twice");
        }
    });
    for id in [
        "payroll: somebody_is_employed/dismiss",
        "payroll: employees_department_id_fkey/close_department+hire",
        "payroll: isolation(employees)/dismiss",
        "smallbank: savings_balance_check/transact_savings+amalgamate",
    ] {
        assert!(shown.contains(id), "{id} is not among {shown:#?}");
    }
}

/// Two cuts that each leave an allowed salary merge into one that is not: that breaks the CHECK, and no reading of
/// either would have prevented it. It is no lost update.
#[test]
fn what_breaks_a_check_is_not_called_a_lost_update() {
    each(|example, _, _, found| {
        if example == "payroll" {
            let of_isolation = |c: &&Counterexample| c.invariant == "isolation(employees)";
            for one in found.iter().filter(of_isolation) {
                assert!(
                    !["cut_salary", "hire_as"].contains(&one.transactions.join("+").as_str()),
                    "{one:#?}"
                );
            }
        }
    });
}

#[test]
fn no_row_and_no_call_can_be_left_out() {
    let mut rows = 0;
    each(|example, _, explorer, found| {
        for one in found {
            for place in 0..one.rows.len() {
                rows += 1;
                let mut less = one.clone();
                let left_out = less.rows.remove(place);
                assert!(
                    !explorer.shows(&less),
                    "{example}: {left_out:?} is not needed: {one:#?}"
                );
            }
            for place in 0..one.calls.len() {
                let mut less = one.clone();
                let left_out = less.calls.remove(place);
                assert!(
                    !explorer.shows(&less),
                    "{example}: {left_out:?} is not needed: {one:#?}"
                );
            }
        }
    });
    assert!(rows > 10, "{rows}");
}

/// A value that a row's owner computes is computed again when two replicas merge, also if its writer is ordered for
/// another invariant (seed 936 of the random applications): nothing is lost.
#[test]
fn a_column_that_an_owner_computes_is_no_register() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, a integer NOT NULL);
        CREATE PROCEDURE raise(p integer) LANGUAGE SQL BEGIN ATOMIC
            UPDATE grp SET a = greatest(a + 1, 3) WHERE id = p;
        END;
        CREATE PROCEDURE drop_high(p integer) LANGUAGE SQL BEGIN ATOMIC
            DELETE FROM grp WHERE id = p AND a > 0;
        END;";
    let loaded = Application::compiled(vec![SourceFile::new("grp.sql", sql)]);
    let plan = loaded.plan();
    let column = plan.columns.iter().find(|c| c.column.index() == 1);
    let policy = column.map(|c| c.policy);
    assert_eq!(policy, Some(MergePolicy::OwnerOrder), "{:#?}", plan.columns);
    let application = anabranch_sql::Application::compile(loaded.catalog).expect("it compiles");
    let found = Explorer::new(&application, &plan).counterexamples(1, Effort::default());
    let of_two: Vec<&Counterexample> = found
        .iter()
        .filter(|one| one.transactions == ["raise"])
        .collect();
    assert!(of_two.is_empty(), "{of_two:#?}");
}

/// If there are too many verdicts, every invariant gets a turn as far as the limit allows, and the search lists
/// those that get none.
#[test]
fn invariants_without_a_search_are_reported() {
    let mut sql = String::new();
    for number in 0..1_010 {
        sql += &format!(
            "CREATE TABLE t{number} (id integer PRIMARY KEY);
             CREATE PROCEDURE p{number}(p integer) LANGUAGE SQL BEGIN ATOMIC
                 INSERT INTO t{number} (id) VALUES (p);
             END;\n"
        );
    }
    let loaded = Application::compiled(vec![SourceFile::new("many.sql", sql)]);
    let plan = loaded.plan();
    let application = anabranch_sql::Application::compile(loaded.catalog).expect("it compiles");
    let search = Explorer::new(&application, &plan).search(1, Effort::default());
    assert_eq!(
        (search.asked, search.searched, search.cases),
        (1_010, 1_000, 50)
    );
    assert_eq!(search.unsearched.len(), 10);
    assert_eq!(search.unsearched[9], "t1009_pkey");
    assert_eq!(search.found.len(), 1_000);
    let told = report::counterexample::render(&plan, &search, &|shown| shown.id());
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Searched 1000 of 1010 verdicts for counterexamples, up to 50 cases each",
        "Not searched: t1000_pkey, t1001_pkey,",
    ] {
        assert!(told.contains(words), "{words}");
    }
    assert!(
        !told.contains("Found no counterexample"),
        "every search found one"
    );
}
