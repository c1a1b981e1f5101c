//! Plans for sites that order transactions over guards: what is drawn at delivery, what has a home, and what is refused.

use std::sync::Arc;

use anabranch_analysis::plan::CoordinationClass;
use anabranch_analysis::{Guarantee, Topology as Shape, analyze};
use anabranch_engine::over_guards::UnsupportedChange;
use anabranch_engine::{NotOverGuards, PlannedApplication};
use anabranch_sql::application::Application;
use anabranch_sql::source::SourceFile;
use anabranch_sql::summary::{Deferral, Role, StatementId};
use anabranch_types::{PartitionId, TableId, Value};

const SITES: u16 = 3;

const NUMBERS: &str = "
CREATE TABLE counters (id integer PRIMARY KEY, next integer NOT NULL);
CREATE TABLE numbered (
    counter integer NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (counter, number)
);

CREATE PROCEDURE take_number(p_id integer) LANGUAGE plpgsql AS $$
DECLARE
    taken integer;
BEGIN
    UPDATE counters SET next = next + 1 WHERE id = p_id RETURNING next - 1 INTO taken;
    INSERT INTO numbered (counter, number) VALUES (p_id, taken);
END;
$$;
";

/// Its guards may be at two sites: the counter's and the name's.
const TAKE_NAMED: &str = "
CREATE TABLE names (name text PRIMARY KEY, counter integer NOT NULL);
CREATE PROCEDURE take_named(p_id integer, p_name text) LANGUAGE plpgsql AS $$
DECLARE
    taken integer;
BEGIN
    INSERT INTO names (name, counter) VALUES (p_name, p_id);
    UPDATE counters SET next = next + 1 WHERE id = p_id RETURNING next - 1 INTO taken;
    INSERT INTO numbered (counter, number) VALUES (p_id, taken);
END;
$$;
";

const START_AGAIN: &str = "
CREATE PROCEDURE start_again(p_id integer, p_first integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE counters SET next = p_first WHERE id = p_id;
END;
";

/// An increment that has no guard: sites have it at different times.
const SKIP: &str = "
CREATE PROCEDURE skip(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE counters SET next = next + 10 WHERE id = p_id;
END;
";

const LEAVE: &str = "
CREATE PROCEDURE leave(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM counters WHERE id = p_id;
END;
";

const BY_RANGE: &str = "
CREATE PROCEDURE skip_numbers(p_from integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE counters SET next = next + 1 WHERE id > p_from;
END;
";

fn over_guards(sql: &str) -> Result<Arc<PlannedApplication>, NotOverGuards> {
    let files = vec![SourceFile::new("application.sql", sql)];
    let catalog = anabranch_sql::catalog::load(files).unwrap_or_else(|p| panic!("{p:?}"));
    let application = Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Shape::Partitioned,
        Guarantee::Invariants,
    );
    PlannedApplication::over_guards(application, plan, SITES)
}

#[track_caller]
fn planned(sql: &str) -> Arc<PlannedApplication> {
    over_guards(sql).unwrap_or_else(|why| panic!("{why}"))
}

#[track_caller]
fn refused(sql: &str) -> NotOverGuards {
    over_guards(sql).map(|_| ()).expect_err("it is refused")
}

/// The UPDATEs of a procedure.
fn updates(planned: &PlannedApplication, procedure: &str) -> Vec<StatementId> {
    let mut summaries = planned.application.summaries().iter();
    let of = summaries
        .find(|it| it.name == procedure)
        .expect("it exists");
    let updating = of
        .statements
        .iter()
        .filter(|it| it.accesses.iter().any(|it| it.role == Role::Update));
    updating.map(|statement| statement.id).collect()
}

/// Whether each number of a procedure is drawn at delivery. A deferred UPDATE without a guard is evaluated at its site.
fn draws(planned: &PlannedApplication, procedure: &str) -> bool {
    let execution = &planned.execution;
    let mut updates = updates(planned, procedure).into_iter();
    updates.all(|id| execution.is_deferred(id) && execution.guards_writes(id))
}

/// Increments under guards are applied in one order. Others are at different sites at different times, and after an
/// assignment or a deletion numbers would come again.
#[test]
fn numbers_are_drawn_from_counters_that_guarded_increments_alone_change() {
    assert!(draws(&planned(NUMBERS), "take_number"));
    for other in [START_AGAIN, LEAVE, SKIP] {
        let sites = planned(&format!("{NUMBERS}{other}"));
        assert!(!draws(&sites, "take_number"), "{other}");
    }
    // It is taken by a read, then, and two that read the same number do not both commit.
    let sites = planned(&format!("{NUMBERS}{SKIP}"));
    for id in updates(&sites, "take_number") {
        assert!(sites.execution.guards_writes(id));
    }
}

#[test]
fn an_update_that_draws_a_number_is_a_guards() {
    let sites = planned(&format!("{NUMBERS}{TAKE_NAMED}"));
    let entry = sites.plan.entry("take_named").expect("it has an entry");
    assert_eq!(entry.class, CoordinationClass::Global);
    for procedure in ["take_number", "take_named"] {
        let found = updates(&sites, procedure);
        assert!(!found.is_empty());
        for id in found {
            assert!(sites.execution.guards_writes(id), "{procedure}");
        }
        assert!(draws(&sites, procedure), "{procedure}");
    }
    // One type has guards at two sites, so that all counters are ordered.
    let tables = sites.guard_tables();
    assert!(tables.is_contended(TableId(0)) && !tables.is_homed(TableId(0)));
    assert!(!tables.runs_at_home(0) && !tables.runs_at_home(1));
}

#[test]
fn guards_of_types_on_one_partition_have_homes() {
    let sites = planned(NUMBERS);
    let tables = sites.guard_tables();
    assert!(tables.is_homed(TableId(0)));
    let homes: Vec<Option<PartitionId>> = (0..4)
        .map(|id| tables.home(&sites.execution, 0, &[Value::Int(id)]))
        .collect();
    assert_eq!(homes, [0, 1, 2, 0].map(|site| Some(PartitionId(site))));
}

/// A department's employees are guards of its dissolution; each employee's pay is a guard of its own, elsewhere.
const DEPARTMENTS: &str = "
CREATE TABLE departments (id integer PRIMARY KEY, floor integer NOT NULL);
CREATE TABLE employees (
    id integer PRIMARY KEY,
    department integer NOT NULL REFERENCES departments (id),
    pay integer NOT NULL
);
CREATE PROCEDURE dissolve(p_department integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM departments WHERE id = p_department;
END;
CREATE PROCEDURE hire(p_employee integer, p_department integer) LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO employees (id, department, pay) VALUES (p_employee, p_department, 1);
END;
CREATE PROCEDURE shift(p_employee integer, p_department integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE employees SET department = p_department WHERE id = p_employee;
END;
";

/// Transactions at a home know nothing of those that are ordered, and the other way round: no table is of both kinds.
#[test]
fn tables_of_a_guards_statements_have_one_home_or_none() {
    let sites = planned(DEPARTMENTS);
    let tables = sites.guard_tables();
    let [departments, employees] = [TableId(0), TableId(1)];
    assert!(tables.is_contended(departments) && tables.is_contended(employees));
    assert!(!tables.is_homed(departments) && !tables.is_homed(employees));
    for procedure in 0..3 {
        assert!(!tables.runs_at_home(procedure), "{procedure}");
    }
}

/// A nickname can be any row's, so that the table is on one partition as a whole.
const USERS: &str = "
CREATE TABLE users (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    nickname varchar(20) NOT NULL UNIQUE
);
CREATE PROCEDURE register(p_nickname varchar) LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO users (nickname) VALUES (p_nickname);
END;
";

#[test]
fn guards_of_a_whole_table_have_their_home_at_the_first_site() {
    let sites = planned(USERS);
    let entry = sites.plan.entry("register").expect("it has an entry");
    assert_eq!(entry.class, CoordinationClass::Local);
    let tables = sites.guard_tables();
    assert!(tables.is_homed(TableId(0)));
    let home = tables.home(&sites.execution, 0, &[Value::text("a")]);
    assert_eq!(home, Some(PartitionId(0)));
}

#[test]
fn an_update_that_could_be_sent_only_as_values_is_refused() {
    let why = refused(&format!("{NUMBERS}{BY_RANGE}"));
    assert_eq!(why.procedure, "skip_numbers");
    assert_eq!(why.table, "counters");
    assert_eq!(why.reason, UnsupportedChange::Computed);
}

#[test]
fn a_change_of_a_primary_key_is_refused() {
    let move_it = "
CREATE PROCEDURE move_it(p_id integer, p_to integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE counters SET id = p_to WHERE id = p_id;
END;
";
    let why = refused(&format!("{NUMBERS}{move_it}"));
    assert_eq!((&*why.procedure, &*why.table), ("move_it", "counters"));
    assert_eq!(why.reason, UnsupportedChange::Key);
    let text = why.to_string();
    assert!(
        text.contains("primary key") && text.contains("insert another"),
        "{text}"
    );
}

/// The rows that refer to a row whose code changes, or that is deleted, follow it with their primary keys.
#[test]
fn a_primary_key_that_a_foreign_key_changes_is_refused() {
    let tables = |actions: &str| {
        format!(
            "
CREATE TABLE countries (id integer PRIMARY KEY, code integer NOT NULL UNIQUE);
CREATE TABLE cities (
    country integer NOT NULL DEFAULT 0,
    name text NOT NULL,
    PRIMARY KEY (country, name),
    FOREIGN KEY (country) REFERENCES countries (code) {actions}
);
CREATE PROCEDURE recode(p_id integer, p_code integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE countries SET code = p_code WHERE id = p_id;
END;
CREATE PROCEDURE leave(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM countries WHERE id = p_id;
END;
"
        )
    };
    for (actions, procedure) in [
        ("ON UPDATE CASCADE", "recode"),
        ("ON DELETE SET DEFAULT", "leave"),
    ] {
        let why = refused(&tables(actions));
        assert_eq!((&*why.procedure, &*why.table), (procedure, "cities"));
        assert_eq!(why.reason, UnsupportedChange::Key);
    }
    planned(&tables("ON DELETE CASCADE"));
}

/// What succeeds at one site has to succeed at all, where the row may have become another one.
#[test]
fn a_program_that_may_fail_on_another_row_is_refused() {
    let change = |set: &str| {
        format!(
            "
CREATE TABLE notes (id integer PRIMARY KEY, text varchar(10) NOT NULL, much numeric NOT NULL, few integer);
CREATE PROCEDURE change(p_id integer, p_text varchar, p_much numeric) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE notes SET {set} WHERE id = p_id;
END;
CREATE PROCEDURE replace(p_id integer, p_text varchar, p_much numeric, p_few integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE notes SET text = p_text, much = p_much, few = p_few WHERE id = p_id;
END;
"
        )
    };
    for set in [
        "text = text || p_text",
        "much = p_much / much",
        "few = few + 100 / few",
        "few = text::integer",
    ] {
        let why = refused(&change(set));
        assert_eq!((&*why.procedure, &*why.table), ("change", "notes"), "{set}");
        assert_eq!(why.reason, UnsupportedChange::MayFail, "{set}");
        assert!(why.to_string().contains("may fail"), "{why}");
    }
    for set in [
        "text = left(p_text || text, 10)",
        "much = much + p_much",
        "few = few * 2",
        "text = p_text",
        "much = CASE WHEN much > p_much THEN much - p_much ELSE much END",
        // The plan orders these with the type that may make few NULL.
        "much = few",
        "much = much + 1 / few",
    ] {
        planned(&change(set));
    }
}

/// Where the owner of a row evaluates an UPDATE once, it may read what the UPDATE has returned; at other sites nothing
/// is returned, and still nothing may fail.
#[test]
fn an_output_that_may_fail_on_another_row_is_refused() {
    let returning = |output: &str| {
        format!(
            "
CREATE TABLE levels (id integer PRIMARY KEY, level integer NOT NULL);
CREATE FUNCTION raise(p_id integer, OUT now_at integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE levels SET level = level + 1 WHERE id = p_id RETURNING {output} INTO now_at;
END;
$$;
CREATE PROCEDURE level_out(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE levels SET level = 0 WHERE id = p_id;
END;
"
        )
    };
    let why = refused(&returning("100 / level"));
    assert_eq!(why.reason, UnsupportedChange::MayFail);
    let sites = planned(&returning("level"));
    let mut statements = sites.application.summaries().iter();
    let of_raise = statements.find(|it| it.name == "raise").expect("it exists");
    assert_eq!(of_raise.statements[0].deferral, Deferral::Unread);
}
