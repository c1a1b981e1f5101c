//! Plans for sites that order transactions over guards: what is drawn at commit, what has a home, and what is refused.

use anabranch_analysis::{Guarantee, Topology as Shape, analyze};
use anabranch_engine::{NoProgram, PlannedApplication};
use anabranch_sql::application::Application;
use anabranch_sql::source::SourceFile;
use anabranch_sql::summary::Deferral;
use std::sync::Arc;

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

const START_AGAIN: &str = "
CREATE PROCEDURE start_again(p_id integer, p_first integer) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE counters SET next = p_first WHERE id = p_id;
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

fn over_guards(sql: &str) -> Result<Arc<PlannedApplication>, NoProgram> {
    let files = vec![SourceFile::new("application.sql", sql)];
    let catalog = anabranch_sql::catalog::load(files).unwrap_or_else(|p| panic!("{p:?}"));
    let application = Application::compile(catalog).unwrap_or_else(|p| panic!("{p:?}"));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Shape::Partitioned,
        Guarantee::Invariants,
    );
    PlannedApplication::over_guards(application, plan, 3)
}

/// Whether the UPDATE that draws a number is evaluated when its transaction is applied.
fn draws(planned: &PlannedApplication) -> bool {
    let statements = planned.application.summaries().iter();
    let mut statements = statements.flat_map(|summary| &summary.statements);
    let update = statements.find(|statement| statement.deferral == Deferral::Unread);
    planned
        .execution
        .is_deferred(update.expect("the UPDATE can be deferred").id)
}

/// Increments are the same in any order. After an assignment, and after a deletion, numbers would come again.
#[test]
fn numbers_are_drawn_from_counters_that_only_grow() {
    let sites = over_guards(NUMBERS).expect("it can be ordered over guards");
    assert!(draws(&sites));
    for other in [START_AGAIN, LEAVE] {
        let sites = over_guards(&format!("{NUMBERS}{other}"));
        assert!(
            !draws(&sites.expect("it can be ordered over guards")),
            "{other}"
        );
    }
}

#[test]
fn guards_of_types_on_one_partition_have_homes() {
    let sites = over_guards(NUMBERS).expect("it can be ordered over guards");
    let homed = sites.homed_tables();
    assert!(!homed.is_empty());
    assert!(
        sites.is_homed(0, &homed),
        "take_number runs at its counter's home"
    );
}

#[test]
fn an_update_that_could_be_sent_only_as_values_is_refused() {
    let refused = over_guards(&format!("{NUMBERS}{BY_RANGE}"));
    let refused = refused
        .map(|_| ())
        .expect_err("its rows are found by a range");
    assert_eq!(refused.procedure, "skip_numbers");
    assert_eq!(refused.table, "counters");
}
