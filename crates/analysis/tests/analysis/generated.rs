//! Generated columns: what is merged column by column still fits.

use anabranch_analysis::plan::Confluence::{No, Yes};

use crate::regressions::{explored, is_not, meet};
use crate::support::expect;

/// A generated column fits the columns that it is computed from, although the merge takes columns one by one.
#[test]
fn generated_columns_fit_their_rows() {
    let procedure = |name: &str, set: &str| {
        format!(
            "CREATE PROCEDURE {name}(i integer, x integer) LANGUAGE SQL BEGIN ATOMIC
                 UPDATE k SET {set} WHERE id = i; END;"
        )
    };
    let of_one = "CREATE TABLE k (id integer PRIMARY KEY, a integer NOT NULL, n integer,
                      b integer GENERATED ALWAYS AS (a * 2) STORED);";
    let put = procedure("put", "a = x");
    let plan = explored(&format!("{of_one} {put} {}", procedure("other", "n = x")));
    expect(&plan, "put", "k_b_generated", Yes, "row-together");
    is_not(&plan, "other", "k_b_generated", No);
    // The increments add up, and what each of them computes does not.
    let grow = procedure("grow", "a = a + x");
    let plan = explored(&format!("{of_one} {put} {grow}"));
    for name in ["put", "grow"] {
        expect(&plan, name, "k_b_generated", No, "row-mixed");
    }
    meet(&plan, "grow", "grow", "k");
    let of_two = "CREATE TABLE k (id integer PRIMARY KEY, a integer NOT NULL, c integer NOT NULL,
                      b integer GENERATED ALWAYS AS (a + c) STORED);";
    let plan = explored(&format!("{of_two} {put} {}", procedure("place", "c = x")));
    for name in ["put", "place"] {
        expect(&plan, name, "k_b_generated", No, "row-mixed");
    }
    meet(&plan, "put", "place", "k");
    // What a foreign key's action sets, too.
    let by_action = format!(
        "CREATE TABLE p (id integer PRIMARY KEY);
         CREATE TABLE k (id integer PRIMARY KEY, a integer REFERENCES p ON DELETE SET NULL, c integer NOT NULL,
             b integer GENERATED ALWAYS AS (coalesce(a, 0) + c) STORED);
         CREATE PROCEDURE leave(i integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM p WHERE id = i; END;
         {}",
        procedure("place", "c = x")
    );
    let plan = explored(&by_action);
    for name in ["leave", "place"] {
        expect(&plan, name, "k_b_generated", No, "row-mixed");
    }
}

/// The column of a partial index fits the column that it is of and the condition, although a condition on the row cannot name it.
#[test]
fn partial_indexes_fit_their_rows() {
    let procedure = |name: &str, set: &str| {
        format!(
            "CREATE PROCEDURE {name}(i integer, x text) LANGUAGE SQL BEGIN ATOMIC
                 UPDATE k SET {set} WHERE id = i; END;"
        )
    };
    let schema = "CREATE TABLE k (id integer PRIMARY KEY, email text, live boolean NOT NULL);
         CREATE INDEX k_live ON k (email) WHERE live;";
    let plan = explored(&format!(
        "{schema} {} {}",
        procedure("put", "email = x, live = true"),
        procedure("wake", "live = true")
    ));
    for name in ["put", "wake"] {
        expect(&plan, name, "k_live_1_generated", No, "row-mixed");
    }
    meet(&plan, "put", "wake", "k");
}
