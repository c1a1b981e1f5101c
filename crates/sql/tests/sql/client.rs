//! What clients' texts mean: `client/*.txt` have texts (lines that begin with `> `) and below each what it parses and
//! compiles to. A line `types: …` names the parameter types. `UPDATE_CLIENT=1` rewrites what is expected.

use std::{env, fmt::Write, fs, path::Path, sync::Arc};

use anabranch_sql::{
    Application, Diagnostic, SourceFile,
    application::ResultSet,
    client::{ClientContext, ClientPlan, ClientStatementKind, ClientWork, SessionValue, parse},
    load, render,
};
use anabranch_types::text::format_value;
use anabranch_types::{DataType, TimeZone, Value};

const SCHEMA: &str = include_str!("client/schema.sql");

fn application() -> Application {
    let files = vec![SourceFile::new("schema.sql", SCHEMA)];
    load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, &files)))
}

#[test]
fn texts_have_their_meaning() {
    let application = application();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/client");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt"))
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    let mut different = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let golden = fs::read_to_string(&path).unwrap();
        let shown = rewritten(&application, &golden);
        if env::var_os("UPDATE_CLIENT").is_some() {
            fs::write(&path, &shown).unwrap();
        } else {
            different.extend(difference(&name, &golden, &shown));
        }
    }
    assert!(
        different.is_empty(),
        "{}\nUPDATE_CLIENT=1 accepts what is shown now",
        different.join("\n")
    );
}

/// The file with what its texts mean now.
fn rewritten(application: &Application, golden: &str) -> String {
    let mut out = String::new();
    for block in golden.split("\n\n") {
        let mut text: Vec<&str> = Vec::new();
        let mut types = "";
        for line in block.trim_end().lines() {
            if let Some(line) = line.strip_prefix("> ").or(line.strip_prefix('>')) {
                text.push(line);
            } else if let Some(named) = line.strip_prefix("types: ") {
                types = named;
            } else if line.starts_with('#') {
                let _ = writeln!(out, "{line}");
            }
        }
        if !text.is_empty() {
            for line in &text {
                let _ = writeln!(out, "> {line}");
            }
            if !types.is_empty() {
                let _ = writeln!(out, "types: {types}");
            }
            out.push_str(&meaning(application, &text.join("\n"), &named_types(types)));
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

fn named_types(text: &str) -> Vec<Option<DataType>> {
    let names = text.split(", ").filter(|name| !name.is_empty());
    let named = names.map(|name| {
        let text = format!("PREPARE p ({name}) AS SELECT 1");
        match parse(&text).unwrap().remove(0).kind {
            ClientStatementKind::Prepare {
                mut parameter_types,
                ..
            } => parameter_types.remove(0),
            other => panic!("{other:?}"),
        }
    });
    named.collect()
}

/// What a text means, a line or more a statement.
fn meaning(application: &Application, text: &str, types: &[Option<DataType>]) -> String {
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(problem) => return refusal(&problem, text, "refused"),
    };
    if statements.is_empty() {
        return "empty\n".into();
    }
    let mut out = String::new();
    for statement in statements {
        assert!(text[statement.start..].starts_with(&*statement.text));
        let compiled = |runnable: &anabranch_sql::client::Runnable, types: &[_]| {
            let own = &text[runnable.start()..];
            assert!(own.starts_with(&**runnable.text()));
            match application.client_statement(runnable, types) {
                Ok(plan) => planned(application, &plan),
                Err(problems) => refusal(&problems[0], runnable.text(), "error"),
            }
        };
        match &statement.kind {
            ClientStatementKind::Run(runnable) => out.push_str(&compiled(runnable, types)),
            ClientStatementKind::Explain { options, statement } => {
                let _ = writeln!(out, "explain {options:?}");
                out.push_str(&compiled(statement, types));
            }
            ClientStatementKind::Prepare {
                name,
                parameter_types,
                statement,
            } => {
                let _ = writeln!(out, "prepare {name} {parameter_types:?}");
                out.push_str(&compiled(statement, parameter_types));
            }
            ClientStatementKind::Execute { name, arguments } => {
                let _ = writeln!(out, "execute {name} with {} arguments", arguments.len());
            }
            ClientStatementKind::Change(change) => {
                let _ = writeln!(out, "change {}: {}", change.tag(), change.text());
            }
            ClientStatementKind::Unsupported(problem) => {
                out.push_str(&refusal(problem, &statement.text, "unsupported"));
            }
            other => {
                let _ = writeln!(out, "{other:?}");
            }
        }
    }
    out
}

fn planned(application: &Application, plan: &ClientPlan) -> String {
    let mut out = plan.tag.complete(2);
    if plan.writes {
        out.push_str(", writes");
    }
    match &plan.work {
        ClientWork::Statement(_) => {}
        ClientWork::Constant(_) => out.push_str(", constant"),
        ClientWork::Call {
            procedure,
            arguments,
            shape,
        } => {
            let name = application.procedures[*procedure].name();
            let types: Vec<String> = arguments.types().iter().map(ToString::to_string).collect();
            let _ = write!(out, ", {name}({}) {shape:?}", types.join(", "));
        }
        other => panic!("{other:?}"),
    }
    out.push('\n');
    if let Some(columns) = &plan.columns {
        let columns: Arc<[(String, DataType)]> = columns.clone();
        let shown: Vec<String> = columns
            .iter()
            .map(|(name, of)| format!("{name} {of}"))
            .collect();
        let _ = writeln!(out, "  columns: {}", shown.join(", "));
    }
    if !plan.parameters.is_empty() {
        let shown: Vec<String> = plan.parameters.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "  parameters: {}", shown.join(", "));
    }
    if !plan.session_values.is_empty() {
        let shown: Vec<String> = plan
            .session_values
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(out, "  session: {}", shown.join(", "));
    }
    out
}

/// A refusal with its position in characters, as PostgreSQL counts, and what stands there.
fn refusal(problem: &Diagnostic, text: &str, what: &str) -> String {
    let mut out = format!("{what} {}: {}\n", problem.code, problem.message);
    match problem.span {
        Some(span) => {
            let start = (span.start as usize).min(text.len());
            let position = text[..start].chars().count() + 1;
            let at: String = text[start..]
                .lines()
                .next()
                .unwrap_or("")
                .chars()
                .take(12)
                .collect();
            let _ = writeln!(out, "  at {position}: {at}");
        }
        None => out.push_str("  nowhere\n"),
    }
    if let Some(help) = &problem.help {
        let _ = writeln!(out, "  hint: {help}");
    }
    out
}

fn difference(name: &str, golden: &str, shown: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        golden.split("\n\n").collect(),
        shown.split("\n\n").collect(),
    );
    let pairs = old
        .iter()
        .zip(&new)
        .filter(|(old, new)| old.trim() != new.trim());
    let mut found: Vec<String> = pairs
        .map(|(old, new)| format!("{name}:\n-----\n{old}\n+++++\n{new}"))
        .collect();
    if old.len() != new.len() {
        found.push(format!("{name} has another number of blocks"));
    }
    found
}

/// The plan of a text's first statement.
fn plan(application: &Application, text: &str) -> ClientPlan {
    match &parse(text).unwrap()[0].kind {
        ClientStatementKind::Run(runnable) => application
            .client_statement(runnable, &[])
            .unwrap_or_else(|problems| panic!("{text}: {problems:?}")),
        other => panic!("{other:?}"),
    }
}

/// Values of the connection stand behind all of the client's parameters, whatever the order in the text.
#[test]
fn values_of_the_connection_are_bound_behind_the_parameters() {
    let application = application();
    let plan = plan(
        &application,
        "SELECT current_user || $2, $1 || current_database(), current_user",
    );
    let ClientWork::Constant(constant) = &plan.work else {
        panic!("{:?}", plan.work)
    };
    let texts = |texts: &[&str]| texts.iter().map(Value::text).collect::<Vec<_>>();
    let bound = texts(&["one", "two", "anna", "shop"]);
    let result = constant.evaluate(&bound, &ClientContext::at(0)).unwrap();
    let result = result.expect("it ends before a pause");
    assert_eq!(result.rows, [texts(&["annatwo", "oneshop", "anna"])]);
    let missing = constant.evaluate(&bound[..3], &ClientContext::at(0));
    assert_eq!(missing.unwrap_err().code, "08P01");
}

/// The arguments of `set_config` may be parameters and values of the connection, which come before it.
#[test]
fn set_config_has_arguments() {
    let application = application();
    let plan = plan(
        &application,
        "SELECT set_config('a.b', $1 || current_user, true)",
    );
    let [
        SessionValue::CurrentUser,
        SessionValue::SetConfig(arguments),
    ] = &plan.session_values[..]
    else {
        panic!("{:?}", plan.session_values)
    };
    let bound = [Value::text("x"), Value::text("anna")];
    let values = arguments.evaluate(&bound, &ClientContext::at(0)).unwrap();
    assert_eq!(
        values,
        [Value::text("a.b"), Value::text("xanna"), Value::Bool(true)]
    );
}

/// Arguments by name and defaults are in the order of the parameters, in the parameters' types.
#[test]
fn arguments_are_in_the_order_of_the_parameters() {
    let application = application();
    let evaluated = |text: &str, bound: &[Value], now: i64| match &plan(&application, text).work {
        ClientWork::Call { arguments, .. } => {
            arguments.evaluate(bound, &ClientContext::at(now)).unwrap()
        }
        other => panic!("{other:?}"),
    };
    let two = decimal("2");
    assert_eq!(
        evaluated(
            "CALL deposit(p_note := $1, p_amount => 2, p_id => 1)",
            &[Value::text("n")],
            0
        ),
        [Value::Int(1), two.clone(), Value::text("n")]
    );
    assert_eq!(
        evaluated("CALL deposit(1, 2)", &[], 0),
        [Value::Int(1), two, Value::text("by hand")]
    );
    // The default is evaluated when the call is, and an OUT parameter's argument is not.
    assert_eq!(
        evaluated("SELECT total('{3}')", &[], 77),
        [
            Value::Array(vec![Value::Int(3)].into()),
            Value::Timestamp(77)
        ]
    );
    assert_eq!(
        evaluated("CALL counted(1, 2, 1 / 0)", &[], 0),
        [Value::Int(1), Value::Int(2)]
    );
}

fn decimal(text: &str) -> Value {
    Value::Numeric(anabranch_types::Decimal::parse(text).unwrap())
}

#[test]
fn a_row_is_one_value_in_a_select_of_a_function() {
    let application = application();
    let plan = plan(&application, "SELECT look(1)");
    let ClientWork::Call {
        shape, procedure, ..
    } = &plan.work
    else {
        panic!("{:?}", plan.work)
    };
    let columns = application.procedures[*procedure].columns().clone();
    let shown = |owner: Value, balance: &str| {
        let rows = vec![vec![owner, decimal(balance)]];
        let result = ResultSet {
            columns: columns.clone(),
            rows,
            count: 1,
            messages: Vec::new(),
        };
        let shaped = shape.of(result, plan.columns.as_ref());
        let (name, data_type) = &shaped.columns[0];
        assert_eq!(name, "look");
        assert!(matches!(data_type, DataType::Record(_)), "{data_type}");
        format_value(&shaped.rows[0][0], data_type, &TimeZone::UTC)
    };
    assert_eq!(shown(Value::text("anna"), "1.50"), "(anna,1.50)");
    assert_eq!(shown(Value::text("a \"b\\"), "-1"), "(\"a \"\"b\\\\\",-1)");
    assert_eq!(shown(Value::text(""), "0"), "(\"\",0)");
    assert_eq!(shown(Value::Null, "0"), "(,0)");
}

/// Only the arguments' number and types decide whether EXECUTE fits.
#[test]
fn arguments_of_execute_get_the_parameters_types() {
    let application = application();
    let executed = |text: &str, types: &[DataType]| match &parse(text).unwrap()[0].kind {
        ClientStatementKind::Execute { name, arguments } => application
            .execute_arguments(name, arguments, types)
            .map(|(list, session)| {
                let session: Vec<Value> = session.iter().map(|_| Value::text("anna")).collect();
                list.evaluate(&session, &ClientContext::at(5)).unwrap()
            })
            .map_err(|problems| problems[0].code),
        other => panic!("{other:?}"),
    };
    let types = [DataType::Int8, DataType::Text];
    assert_eq!(
        executed("EXECUTE p('1', current_user)", &types),
        Ok(vec![Value::Int(1), Value::text("anna")])
    );
    assert_eq!(executed("EXECUTE p(1)", &types), Err("42601"));
    assert_eq!(executed("EXECUTE p(true, 'a')", &types), Err("42804"));
    assert_eq!(
        executed("EXECUTE p($1, current_user)", &types),
        Err("42P02")
    );
    assert_eq!(executed("EXECUTE p((SELECT 1), 'a')", &types), Err("0A000"));
}

#[test]
fn plans_can_be_shared_by_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<ClientPlan>();
    is_shared::<anabranch_sql::client::ClientStatement>();
}

/// Texts that nest deeply, or go on for long, are answered or refused. Test threads have stacks of 2 MiB, as the
/// threads of a server have.
#[test]
fn deep_and_long_texts_are_no_danger() {
    let application = application();
    let many = |text: &str| text.repeat(10_000);
    let refused = [
        ("brackets", format!("SELECT {}1{}", many("("), many(")"))),
        ("open brackets", format!("SELECT {}", many("("))),
        ("brackets at the start", many("(")),
        (
            "queries in brackets",
            format!("{}SELECT 1{}", many("("), many(")")),
        ),
        (
            "subqueries",
            format!("SELECT {}1{}", many("(SELECT "), many(")")),
        ),
        ("calls", format!("SELECT {}1{}", many("abs("), many(")"))),
        ("arrays", format!("SELECT {}1{}", many("ARRAY["), many("]"))),
        ("subscripts", format!("SELECT $1{}", many("[1]"))),
        ("signs", format!("SELECT {}1", many("- "))),
        ("negations", format!("SELECT {}true", many("NOT "))),
        ("casts", format!("SELECT 1{}", many("::int"))),
        (
            "cases",
            format!("SELECT {}1{}", many("CASE WHEN true THEN "), many(" END")),
        ),
        ("unions", format!("SELECT 1{}", many(" UNION SELECT 1"))),
        ("conjuncts", format!("SELECT true{}", many(" AND true"))),
        ("sums", format!("SELECT 1{}", many(" + 1"))),
        (
            "joins",
            format!("SELECT 1 FROM account{}", many(" CROSS JOIN account")),
        ),
        (
            "sources",
            format!("SELECT 1 FROM account{}", many(", account")),
        ),
        (
            "explained brackets",
            format!("EXPLAIN {}SELECT 1", many("(")),
        ),
        ("set brackets", format!("SET x = {}", many("("))),
        ("executed brackets", format!("EXECUTE p({}", many("("))),
        (
            "called brackets",
            format!("CALL deposit({}1{}, 2)", many("("), many(")")),
        ),
        (
            "inserted brackets",
            format!("INSERT INTO entry VALUES ({}1{})", many("("), many(")")),
        ),
        (
            "operators in and behind brackets",
            format!("SELECT ((1{0}){0}){0}", " + 1".repeat(400)),
        ),
        ("explains", format!("{}SELECT 1", many("EXPLAIN "))),
        ("withs", format!("{}SELECT 1", many("WITH a AS ("))),
        ("types", format!("SELECT 1::int{}", many("[]"))),
        (
            "prepared types",
            format!("PREPARE p({}) AS SELECT 1", many("(")),
        ),
    ];
    for (what, text) in &refused {
        let problem = match parse(text) {
            Err(problem) => problem,
            Ok(statements) => match &statements[0].kind {
                ClientStatementKind::Run(runnable) => {
                    let mut problems = application.client_statement(runnable, &[]).unwrap_err();
                    problems.remove(0)
                }
                other => panic!("{what}: {other:?}"),
            },
        };
        println!(
            "{what}: {} {}",
            problem.code,
            problem.message.chars().take(80).collect::<String>()
        );
        assert!(
            ["54001", "42601", "0A000", "42712"].contains(&problem.code),
            "{what}: {problem:?}"
        );
    }
    let brackets = parse(&refused[0].1).unwrap_err();
    assert_eq!(brackets.code, "54001");
    let fine = [
        ("comments", format!("{}{} SELECT 1", many("/*"), many("*/"))),
        ("statements", many("SELECT 1; ")),
        ("a list", format!("SELECT 1 IN (1{})", many(", 1"))),
        ("columns", format!("SELECT 1{}", ", 1".repeat(1_600))),
        ("rows", format!("VALUES (1){}", many(", (1)"))),
        (
            "brackets beside each other",
            format!("SELECT 1{}", " + (1 + 1 + 1 + 1 + 1 + 1)".repeat(150)),
        ),
        (
            "rows in brackets",
            format!(
                "SELECT a FROM (VALUES (1 + 1, 'a'){}) AS v (a, b)",
                many(", (1 + 1, 'a')")
            ),
        ),
        (
            "inserted rows",
            format!(
                "INSERT INTO account (id, owner) VALUES (1, 'a'){}",
                many(", ($1, $2)")
            ),
        ),
    ];
    for (what, text) in fine {
        let statements = parse(&text).unwrap_or_else(|problem| panic!("{what}: {problem:?}"));
        let ClientStatementKind::Run(runnable) = &statements[0].kind else {
            panic!("{what}")
        };
        let plan = application.client_statement(runnable, &[]);
        plan.unwrap_or_else(|problems| panic!("{what}: {problems:?}"));
    }
}
