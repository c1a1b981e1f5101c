//! TPC-C: the paper's Table 3, and the plan that the engine runs, from the SQL by general rules.

use crate::support::{Application, entry, try_verdict};
use anabranch_analysis::plan::Confluence::{No, Yes};
use anabranch_analysis::plan::{CoordinationClass, GuardKeeping};
use anabranch_sql::summary::Role;
use anabranch_types::Placement;

#[test]
fn table_3_of_the_paper() {
    let plan = Application::example("tpcc").plan();
    // Which types each condition concerns, and whether they are confluent.
    let expected: [(u32, &[&str], bool); 12] = [
        (1, &["payment"], true),
        (2, &["new_order", "delivery"], false),
        (3, &["new_order", "delivery"], false),
        (4, &["new_order"], true),
        (5, &["new_order", "delivery"], true),
        (6, &["new_order"], true),
        (7, &["new_order", "delivery"], true),
        (8, &["payment"], true),
        (9, &["payment"], true),
        (10, &["payment", "delivery"], true),
        (11, &["new_order", "delivery"], true),
        (12, &["payment", "delivery"], true),
    ];
    let mut wrong = Vec::new();
    for (number, types, confluent) in expected {
        for name in [
            "new_order",
            "payment",
            "order_status",
            "delivery",
            "stock_level",
        ] {
            let found = try_verdict(&plan, name, &format!("condition_{number}"));
            let wanted = types
                .contains(&name)
                .then_some(if confluent { Yes } else { No });
            if found.map(|v| v.confluent) != wanted {
                wrong.push(format!("{number} {name}: {found:?}, expected {wanted:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_plan_coordinates_only_where_needed() {
    let tpcc = Application::example("tpcc");
    let plan = tpcc.plan();
    let class = |name: &str| entry(&plan, name).class;
    assert_eq!(class("new_order"), CoordinationClass::Local);
    assert_eq!(class("payment"), CoordinationClass::Free);
    assert_eq!(class("order_status"), CoordinationClass::Free);
    assert_eq!(class("delivery"), CoordinationClass::Local);
    assert_eq!(class("stock_level"), CoordinationClass::Free);
    let [guard] = entry(&plan, "new_order").guards.as_slice() else {
        panic!("one guard")
    };
    assert_eq!(guard.item, "district.d_next_o_id");
    assert_eq!(guard.keeping, GuardKeeping::AtCommit);
    let key: Vec<_> = guard
        .key
        .iter()
        .map(|k| (k.name.as_str(), k.from.as_str()))
        .collect();
    assert_eq!(key, [("d_w_id", "p_w_id"), ("d_id", "p_d_id")]);
    let [guard] = entry(&plan, "delivery").guards.as_slice() else {
        panic!("one guard")
    };
    assert_eq!(guard.item, "new_order");
    assert_eq!(guard.keeping, GuardKeeping::Validated);
    let key: Vec<_> = guard.key.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(key, ["no_w_id", "no_d_id"]);
    assert_eq!(guard.key[0].from, "p_w_id");
    // Two deliveries cannot both take an order: its row is read and written under the guard. The range in which it
    // is the first is not validated, since new orders are appended behind it.
    let delivery = tpcc
        .types
        .iter()
        .find(|t| t.name == "delivery")
        .expect("the type");
    let delete = delivery
        .statements
        .iter()
        .find(|s| s.accesses[0].role == Role::Delete);
    let delete = delete.expect("a DELETE").id;
    assert_eq!(entry(&plan, "delivery").guarded_reads, [delete]);
    assert_eq!(entry(&plan, "delivery").guarded_writes, [delete]);
    for name in ["new_order", "payment", "order_status", "stock_level"] {
        assert!(entry(&plan, name).guarded_reads.is_empty(), "{name}");
        assert!(entry(&plan, name).guarded_writes.is_empty(), "{name}");
    }
    assert_eq!(entry(&plan, "new_order").deferred.len(), 2);
    assert!(plan.needs_coordination());
    let placement = |name: &str| plan.placements[tpcc.table(name).index()].clone();
    let by = |table: &str, column: &str| {
        Placement::Columns(vec![tpcc.column(tpcc.table(table), column)])
    };
    assert_eq!(placement("item"), Placement::Replicated);
    for (table, column) in [
        ("warehouse", "w_id"),
        ("district", "d_w_id"),
        ("customer", "c_w_id"),
        ("history", "h_w_id"),
        ("orders", "o_w_id"),
        ("new_order", "no_w_id"),
        ("order_line", "ol_w_id"),
        ("stock", "s_w_id"),
    ] {
        assert_eq!(placement(table), by(table, column), "{table}");
    }
    for entry in &plan.entries {
        assert_eq!(entry.routing, [0], "{} is routed by p_w_id", entry.name);
    }
}

#[test]
fn the_report_fits_a_screen() {
    let tpcc = Application::example("tpcc");
    let text = anabranch_analysis::report::text::render(&tpcc.plan(), &tpcc.catalog, &tpcc.types);
    println!("{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "too long: {line}");
        assert_eq!(line.trim_end(), line, "blanks at the end");
    }
    assert!(
        text.contains("◐ new_order     local  routed by p_w_id"),
        "{text}"
    );
}
