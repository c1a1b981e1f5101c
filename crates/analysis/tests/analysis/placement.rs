//! Where rows live, what routes a transaction, and the serializable plan.

use anabranch_analysis::Guarantee;
use anabranch_analysis::plan::CoordinationClass::{Free, Global, Local};
use anabranch_sql::SourceFile;
use anabranch_sql::summary::ResultUse::Used;
use anabranch_types::Placement;

use crate::support::{Application, entry};

const BANK: &str = "CREATE TABLE account (branch integer, id integer, balance integer \
                    CHECK (balance >= 0), PRIMARY KEY (branch, id));";

#[test]
fn a_guard_by_another_parameter_makes_a_type_global() {
    let mut app = Application::new(BANK);
    app.transaction("transfer", &["p_b", "p_from", "p_c", "p_to"])
        .update(
            "account",
            &[("balance", "-=1")],
            &[("branch", "p_b"), ("id", "p_from")],
        )
        .update(
            "account",
            &[("balance", "+=1")],
            &[("branch", "p_c"), ("id", "p_to")],
        )
        .done();
    // Only the withdrawal is ordered, so that one parameter routes it.
    assert_eq!(entry(&app.plan(), "transfer").class, Local);
    assert_eq!(entry(&app.plan(), "transfer").routing, [0]);
    app.transaction("collect", &["p_b", "p_from", "p_c", "p_to"])
        .update(
            "account",
            &[("balance", "-=1")],
            &[("branch", "p_b"), ("id", "p_from")],
        )
        .update(
            "account",
            &[("balance", "-=1")],
            &[("branch", "p_c"), ("id", "p_to")],
        )
        .done();
    assert_eq!(entry(&app.plan(), "collect").class, Global);
}

#[test]
fn the_column_that_most_guards_agree_on_places_a_table() {
    let mut app = Application::new(BANK);
    let withdraw = |app: &mut Application, name: &str| {
        app.transaction(name, &["p_id"])
            .update(
                "account",
                &[("balance", "-=1")],
                &[("branch", "?"), ("id", "p_id")],
            )
            .done();
    };
    withdraw(&mut app, "a");
    withdraw(&mut app, "b");
    let plan = app.plan();
    assert_eq!(
        plan.placements[0],
        Placement::Columns(vec![app.column(app.table("account"), "id")])
    );
    assert_eq!(entry(&plan, "a").class, Local);
}

#[test]
fn a_unique_index_without_the_key_keeps_a_table_whole() {
    let mut app = Application::new(
        "CREATE TABLE users (id integer PRIMARY KEY, email text UNIQUE);
         CREATE TABLE tagged (id integer, tag text, PRIMARY KEY (id, tag), UNIQUE (tag));",
    );
    app.transaction("sign_up", &["p_id", "p_email"])
        .insert("users", &[("id", "p_id"), ("email", "p_email")])
        .done();
    app.transaction("tag", &["p_id", "p_tag"])
        .insert("tagged", &[("id", "p_id"), ("tag", "p_tag")])
        .done();
    let plan = app.plan();
    assert_eq!(plan.placements[0], Placement::Whole);
    assert!(
        plan.placement_reasons[0].contains("unique"),
        "{}",
        plan.placement_reasons[0]
    );
    assert_eq!(entry(&plan, "sign_up").class, Local);
    // If the unique columns are part of the key, they place the table.
    assert_eq!(
        plan.placements[1],
        Placement::Columns(vec![app.column(app.table("tagged"), "tag")])
    );
    assert_eq!(entry(&plan, "tag").routing, [1]);
}

#[test]
fn a_table_that_no_type_writes_is_everywhere() {
    let mut app = Application::new(BANK);
    app.transaction("look", &["p_b"])
        .select("account", &["balance"], &[("branch", "p_b")])
        .done();
    let plan = app.plan();
    assert_eq!(plan.placements, [Placement::Replicated]);
    assert_eq!(entry(&plan, "look").class, Free);
    assert!(entry(&plan, "look").read_only);
    assert!(entry(&plan, "look").routing.is_empty());
}

#[test]
fn many_types_are_searched_one_at_a_time() {
    let mut app = Application::new(BANK);
    for i in 0..40 {
        app.transaction(
            &format!("withdraw_{i}"),
            &["p_x", "p_y", "p_branch", "p_id"],
        )
        .update(
            "account",
            &[("balance", "-=1")],
            &[("branch", "p_branch"), ("id", "p_id")],
        )
        .done();
        app.transaction(&format!("look_{i}"), &["p_id"])
            .select("account", &["balance"], &[("id", "p_id")])
            .result(Used)
            .done();
    }
    let plan = app.plan();
    let placed = app.column(app.table("account"), "id");
    assert_eq!(plan.placements[0], Placement::Columns(vec![placed]));
    assert!(plan.entries.iter().all(|e| e.class != Global));
    assert_eq!(entry(&plan, "withdraw_7").routing, [3]);
}

#[test]
fn serializable_is_the_largest_choice_of_guards() {
    let tpcc = Application::example("tpcc");
    let plan = tpcc.plan_for(Guarantee::Serializable);
    for found in &plan.entries {
        assert!(found.serializable && found.protocol == "locking");
    }
    assert_eq!(entry(&plan, "new_order").class, Global);
    assert_eq!(entry(&plan, "payment").class, Global);
    assert_eq!(entry(&plan, "delivery").class, Local);
    let summary = &tpcc.types[1];
    let payment = entry(&plan, "payment");
    // All of its statements read or write what some type writes.
    let statements: Vec<_> = summary.statements.iter().map(|s| s.id).collect();
    assert_eq!(payment.guarded_reads, statements);
    assert_eq!(payment.guarded_writes, statements[5..]);
    // Only tables that no type writes are not guarded.
    let new_order = entry(&plan, "new_order");
    assert!(new_order.guards.iter().all(|g| g.item != "item"));
    // The placement is the same, so that both plans run on the same data. But payments, which conflict with most
    // others at the customer, are routed to the customer's warehouse; no type reads what they append.
    let history = tpcc.table("history").index();
    for (table, placement) in plan.placements.iter().enumerate() {
        let expected = match table == history {
            true => &Placement::Columns(vec![tpcc.column(tpcc.table("history"), "h_c_w_id")]),
            false => &tpcc.plan().placements[table],
        };
        assert_eq!(placement, expected);
    }
}

#[test]
fn joins_lead_to_the_parameter() {
    let mut app = Application::new(
        "CREATE TABLE a (k integer PRIMARY KEY, v integer);
         CREATE TABLE b (k integer PRIMARY KEY, v integer);
         CREATE TABLE c (k integer PRIMARY KEY, v integer);",
    );
    app.transaction("look", &["p_k"])
        .select("a", &["v"], &[("k", "p_k")])
        .join("b", &["v"], &[("k", "@0.k")])
        .done();
    for table in ["a", "b", "c"] {
        app.transaction(table, &["p_k"])
            .select("a", &["v"], &[("k", "p_k")])
            .update(table, &[("v", "@0.v")], &[("k", "@0.k")])
            .done();
    }
    let plan = app.plan();
    for entry in &plan.entries {
        assert_eq!(entry.routing, [0], "{}", entry.name);
        assert!(entry.class <= Local, "{}", entry.name);
    }
}

/// If keys come in an array, its elements route: with `= ANY` and with `unnest`, and the array by which most
/// accesses find their rows. A parameter that finds a row by itself takes precedence.
#[test]
fn arrays_route_what_no_parameter_does() {
    let plan = Application::compiled(vec![SourceFile {
        name: "arrays.sql".into(),
        text: "CREATE TABLE items (id bigint PRIMARY KEY, name text);
         CREATE TABLE tags (item bigint, tag text, PRIMARY KEY (item, tag));
         CREATE FUNCTION look(p_name text, p_ids bigint[]) RETURNS SETOF text LANGUAGE SQL STABLE BEGIN ATOMIC
             SELECT name FROM items WHERE id = ANY (p_ids); END;
         CREATE PROCEDURE rename(p_name text, p_ids bigint[]) LANGUAGE SQL BEGIN ATOMIC
             UPDATE items SET name = p_name FROM unnest(p_ids) AS chosen (id) WHERE items.id = chosen.id; END;
         CREATE FUNCTION two(p_few bigint[], p_many bigint[]) RETURNS SETOF text LANGUAGE SQL BEGIN ATOMIC
             UPDATE items SET name = 'x' WHERE id = ANY (p_many);
             SELECT name FROM items WHERE id = ANY (p_few); END;
         CREATE PROCEDURE tag(p_item bigint, p_others bigint[], p_tag text) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO tags VALUES (p_item, p_tag);
             UPDATE items SET name = p_tag WHERE id = ANY (p_others); END;
         CREATE FUNCTION others(p_ids bigint[]) RETURNS SETOF text LANGUAGE SQL STABLE BEGIN ATOMIC
             SELECT name FROM items WHERE id <> ALL (p_ids); END;
         CREATE FUNCTION named(p_names text[]) RETURNS SETOF bigint LANGUAGE SQL STABLE BEGIN ATOMIC
             SELECT id FROM items WHERE name = ANY (p_names); END;".into(),
    }])
    .plan();
    for (name, routing, array) in [
        ("look", &[][..], Some(1)),
        ("rename", &[], Some(1)),
        ("two", &[], Some(1)),
        ("tag", &[0], None),
        ("others", &[], None),
        ("named", &[], None),
    ] {
        let entry = entry(&plan, name);
        assert_eq!(entry.routing, routing, "{name}");
        assert_eq!(entry.routing_array, array, "{name}");
        assert_eq!(
            entry.routed_to.is_some(),
            array.is_some() || !routing.is_empty(),
            "{name}"
        );
    }
}
