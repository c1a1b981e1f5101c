//! Types that may do anything: the first stands for all, every type is ordered against it, and the report lists it
//! once.

use anabranch_analysis::plan::{Confluence, CoordinationClass, Plan};
use anabranch_analysis::report::{self, findings::findings};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::script::{self, Script};
use anabranch_sql::source::SourceFile;

const SCHEMA: &str = "CREATE TABLE shop (id bigint PRIMARY KEY, n bigint NOT NULL CHECK (n >= 0));
CREATE TABLE item (id uuid PRIMARY KEY, shop bigint REFERENCES shop (id), n bigint);
";

const KNOWN: &str = "-- name: Add :exec
INSERT INTO item (id, shop, n) VALUES (gen_random_uuid(), $1, $2);
-- name: More :exec
UPDATE shop SET n = n + 1 WHERE id = $1;
-- name: Look :many
SELECT n FROM item WHERE shop = $1;
";

/// The application, with so many additional types that may do anything.
fn read(odd: usize) -> Script {
    let odd: String = (0..odd)
        .map(|name| format!("-- name: Odd{name} :exec\nSELECT undeclared({name});\n"))
        .collect();
    let files = vec![
        SourceFile::new("schema.sql", SCHEMA),
        SourceFile::new("queries.sql", format!("{KNOWN}{odd}")),
    ];
    script::read(files).expect("the tables can be read")
}

fn plan(script: &Script, guarantee: Guarantee) -> Plan {
    let catalog = script.application.catalog();
    analyze(catalog, &script.summaries, Topology::Partitioned, guarantee)
}

/// The verdicts on an analysed type, without the names of other types.
fn said(plan: &Plan, name: &str) -> Vec<(usize, Confluence, &'static str)> {
    let entry = plan.entry(name).expect("it is there");
    let verdicts = entry.verdicts.iter();
    verdicts
        .map(|v| (v.invariant, v.confluent, v.rule))
        .collect()
}

#[test]
fn one_stands_for_all() {
    let [none, one, many] = [0, 1, 5].map(|odd| {
        let script = read(odd);
        let plan = plan(&script, Guarantee::Invariants);
        (script, plan)
    });
    for name in ["Add", "More", "Look"] {
        // Five such types affect it like one.
        assert_eq!(said(&one.1, name), said(&many.1, name), "{name}");
        let class = |of: &(Script, Plan)| of.1.entry(name).map(|entry| entry.class);
        assert_eq!(class(&one), class(&many), "{name}");
    }
    assert!(
        none.1
            .entries
            .iter()
            .all(|e| e.class == CoordinationClass::Free)
    );
    let add = many.1.entry("Add").expect("it is there");
    let deleted = add.verdicts.iter().find(|v| v.rule == "fk-delete");
    let deleted = deleted.expect("its shop may be deleted");
    assert_eq!(deleted.confluent, Confluence::No);
    assert!(deleted.because.contains(&"Odd0".to_owned()), "{deleted:?}");
    assert!(!deleted.because.contains(&"Odd1".to_owned()), "{deleted:?}");
    let more = many.1.entry("More").expect("it is there");
    assert_ne!(more.class, CoordinationClass::Free, "it may be set beside");
    let look = many.1.entry("Look").expect("it is there");
    assert_eq!(look.class, CoordinationClass::Free, "it only reads");
    for entry in many.1.entries.iter().filter(|e| e.name.starts_with("Odd")) {
        assert!(entry.may_change_any_table && entry.unknown.is_some());
        assert_eq!(entry.class, CoordinationClass::Global);
        assert!(entry.verdicts.is_empty() && entry.guards.is_empty() && !entry.read_only);
    }
}

#[test]
fn under_serializability_they_are_ordered_with_all() {
    let script = read(3);
    let plan = plan(&script, Guarantee::Serializable);
    let found = plan.partitioning.as_ref().expect("it is asked for");
    // Look writes nothing, so no type conflicts with it.
    let pairs = plan.entries.iter().zip(&found.types);
    for (entry, partitioned) in pairs.filter(|(entry, _)| !entry.read_only) {
        let is_global = partitioned.class == anabranch_analysis::partition::OperationClass::Global;
        assert!(
            is_global,
            "{}: a conflict with it concerns every table",
            entry.name
        );
        let needs = entry.class != CoordinationClass::Free;
        assert!(needs, "{}", entry.name);
    }
}

#[test]
fn each_is_a_finding_and_all_are_one_in_reports() {
    let script = read(5);
    let plan = plan(&script, Guarantee::Invariants);
    let catalog = script.application.catalog();
    let found = findings(&plan, catalog);
    let odd: Vec<_> = found
        .iter()
        .filter(|f| f.transaction.starts_with("Odd"))
        .collect();
    assert_eq!(odd.len(), 5, "one each");
    assert!(odd.iter().all(|f| f.rule.code == "not-analysed"));
    let add = found.iter().find(|f| f.transaction == "Add");
    let message = add.expect("it is found").message();
    assert!(
        message.contains("concurrent with transaction types that were not analysed"),
        "{message}"
    );
    let text = report::text::render(&plan, catalog, &script.summaries);
    assert!(text.contains("Not analysed\n"), "{text}");
    assert!(text.contains("● 5 transaction types\n"), "{text}");
    assert_eq!(text.matches("Odd3").count(), 1, "{text}");
    let together = "does not exist (5)\n      Odd0, Odd1, Odd2, Odd3, Odd4\n";
    assert!(text.contains(together), "{text}");
    // The graph has a node for them.
    let edges = plan.edges();
    assert!(!edges.is_empty());
    let first = plan.entries.iter().position(|e| e.may_change_any_table);
    let ends: Vec<usize> = edges.iter().flat_map(|e| [e.ends.0, e.ends.1]).collect();
    assert!(ends.contains(&first.expect("there are five")));
    let others = |at: &&usize| plan.entries[**at].may_change_any_table && Some(**at) != first;
    assert_eq!(ends.iter().filter(others).count(), 0);
}

/// A page with many pairs lists them by what they are ordered for, and draws none.
#[test]
fn many_pairs_are_listed_by_their_invariants() {
    let page = |types: usize| {
        let queries: String = (0..types)
            .map(|name| format!("-- name: Take{name} :exec\nUPDATE shop SET n = n - 1;\n"))
            .collect();
        let files = vec![
            SourceFile::new("schema.sql", SCHEMA),
            SourceFile::new("queries.sql", queries),
        ];
        let script = script::read(files).expect("the tables can be read");
        let plan = plan(&script, Guarantee::Invariants);
        let page = report::html::Page {
            plan: &plan,
            catalog: script.application.catalog(),
            summaries: &script.summaries,
            counterexamples: None,
            repairs: None,
            replayed_by: &|_| String::new(),
            findings: &[],
            skipped: &[],
            probable: &[],
            baseline: None,
        };
        (plan.edges().len(), page.render())
    };
    let (edges, few) = page(3);
    assert_eq!(edges, 6, "each with each, and with itself");
    assert!(
        few.contains("<svg") && few.contains("Take0, Take2"),
        "{few}"
    );
    let (edges, many) = page(30);
    assert_eq!(edges, 465);
    assert!(!many.contains("<svg"), "nothing is drawn");
    assert!(many.contains("The graph has 465 pairs"));
    assert!(many.contains("<td>shop_n_check</td><td>465</td><td>Take0, Take1, "));
    assert!(many.contains("Take19 and 10 more</td>"));
}
