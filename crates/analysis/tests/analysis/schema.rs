//! The JSON report against its published schema, by a validator of the keywords that it uses.

use anabranch_analysis::Guarantee;
use anabranch_analysis::report::json::{Sections, render};
use serde_json::Value;

use crate::support::Application;

const SCHEMA: &str = include_str!("../../../../docs/schemas/analyze.schema.json");

/// The errors of `value`; empty if it is valid. Properties that the schema does not name are errors here, so that
/// none is added without being published.
fn validate(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(path) => root
            .pointer(path.trim_start_matches('#'))
            .expect("a definition"),
        None => schema,
    };
    for keyword in schema.as_object().expect("an object").keys() {
        let known = [
            "$schema",
            "$id",
            "$defs",
            "title",
            "description",
            "type",
            "required",
            "properties",
            "items",
            "const",
            "enum",
            "minimum",
        ];
        assert!(
            known.contains(&keyword.as_str()),
            "the validator does not know {keyword}"
        );
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        _ => panic!("the validator does not know the type {kind}"),
    };
    if schema["type"].as_str().is_some_and(|kind| !is(kind)) {
        wrong.push(format!("{at}: {value} is no {}", schema["type"]));
    }
    if schema.get("const").is_some_and(|c| c != value) {
        wrong.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|e| !e.contains(value))
    {
        wrong.push(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    if let (Some(least), Some(n)) = (schema["minimum"].as_i64(), value.as_i64())
        && n < least
    {
        wrong.push(format!("{at}: {n} is below {least}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().expect("a name")).is_none() {
            wrong.push(format!("{at}: {name} is missing"));
        }
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object())
    {
        for (name, field) in fields {
            match properties.get(name) {
                Some(schema) => validate(root, schema, field, &format!("{at}.{name}"), wrong),
                None => wrong.push(format!("{at}: {name} is not published")),
            }
        }
    }
    if let (Some(schema), Some(items)) = (schema.get("items"), value.as_array()) {
        for (i, item) in items.iter().enumerate() {
            validate(root, schema, item, &format!("{at}[{i}]"), wrong);
        }
    }
}

/// The errors of a report.
pub(crate) fn check(report: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let mut wrong = Vec::new();
    validate(&schema, &schema, report, "$", &mut wrong);
    wrong
}

fn report(app: &Application, guarantee: Guarantee) -> Value {
    let plan = app.plan_for(guarantee);
    serde_json::from_str(&render(
        &plan,
        &app.catalog,
        &app.types,
        Sections::default(),
    ))
    .expect("the report is JSON")
}

#[test]
fn reports_follow_the_schema() {
    for guarantee in [Guarantee::Invariants, Guarantee::Serializable] {
        for name in ["tpcc", "rubis"] {
            assert_eq!(
                check(&report(&Application::example(name), guarantee)),
                Vec::<String>::new(),
                "{name}"
            );
        }
    }
    let empty = Application::new("");
    assert_eq!(
        check(&report(&empty, Guarantee::Invariants)),
        Vec::<String>::new()
    );
}

#[test]
fn the_validator_can_fail() {
    let mut report = report(&Application::example("tpcc"), Guarantee::Invariants);
    report["transactions"][0]["class"] = "lazy".into();
    report["transactions"][1]["routing"] = "p_w_id".into();
    report["columns"][0]
        .as_object_mut()
        .expect("an object")
        .remove("merge");
    report["more"] = true.into();
    assert_eq!(check(&report).len(), 4);
}

#[test]
fn new_order_reads_as_the_issue_asks() {
    let report = report(&Application::example("tpcc"), Guarantee::Invariants);
    assert_eq!(report["version"], 1);
    let new_order = &report["transactions"][0];
    assert_eq!(new_order["name"], "new_order");
    assert_eq!(new_order["class"], "local");
    assert_eq!(new_order["routing"], serde_json::json!(["p_w_id"]));
    assert_eq!(new_order["guards"][0]["item"], "district.d_next_o_id");
    assert_eq!(
        new_order["guards"][0]["key"],
        serde_json::json!(["d_w_id", "d_id"])
    );
    assert_eq!(new_order["protocol"], "ramp-fast");
    assert_eq!(new_order["deferred"].as_array().map(Vec::len), Some(2));
    let s_quantity = report["columns"]
        .as_array()
        .and_then(|c| c.iter().find(|c| c["column"] == "s_quantity"))
        .expect("the column");
    assert_eq!(
        (&s_quantity["table"], &s_quantity["merge"]),
        (&"stock".into(), &"owner-order".into())
    );
}
