//! Merge policies of columns: which statements agree on one, and which combinations are refused.

use anabranch_sql::merging::ColumnPolicy;
use anabranch_sql::{Application, SourceFile, load};
use anabranch_types::{ColumnIndex, ColumnSet, ProgramId, TableId};

const TABLE: &str = "CREATE TABLE t (
    id integer NOT NULL PRIMARY KEY,
    n bigint,
    small integer,
    price numeric(10, 2),
    ratio double precision,
    word text,
    flag boolean,
    on_day date
);";

/// The table, and one procedure for each statement, an UPDATE of a row by its key.
fn application(schema: &str, sets: &[&str]) -> Application {
    let mut sql = schema.to_owned();
    for (number, set) in sets.iter().enumerate() {
        sql += &format!(
            "CREATE PROCEDURE p{number}(p_id integer, x bigint, s integer, a numeric, r double precision, \
             w text, f boolean, d date) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET {set} WHERE id = p_id; END;"
        );
    }
    let catalog = load(vec![SourceFile::new("t.sql", sql)]).unwrap();
    Application::compile(catalog).unwrap()
}

/// The policy of a column after these statements, each an UPDATE of a row by its key.
fn policy(column: &str, sets: &[&str]) -> Option<ColumnPolicy> {
    let application = application(TABLE, sets);
    let columns = &application.schema().tables[0].columns;
    let index = columns
        .iter()
        .position(|c| c.name == column)
        .expect("it is there");
    application.policy(TableId(0), ColumnIndex(index as u16))
}

#[test]
fn a_column_merges_as_its_statements_agree() {
    use ColumnPolicy::{Counter, Greatest, LastWriter, Least};
    let cases: [(&str, &[&str], Option<ColumnPolicy>); 24] = [
        ("n", &[], Some(LastWriter)),
        ("n", &["n = x"], Some(LastWriter)),
        ("n", &["n = x", "n = 7"], Some(LastWriter)),
        ("n", &["n = n + x"], Some(Counter)),
        ("n", &["n = x + n - 1", "n = n - x"], Some(Counter)),
        ("small", &["small = small + s"], Some(Counter)),
        ("n", &["n = greatest(n, x)"], Some(Greatest)),
        (
            "n",
            &["n = greatest(3, n, x)", "n = greatest(x, n)"],
            Some(Greatest),
        ),
        ("word", &["word = least(word, w)"], Some(Least)),
        ("flag", &["flag = greatest(flag, f)"], Some(Greatest)),
        ("on_day", &["on_day = greatest(on_day, d)"], Some(Greatest)),
        // Two ways beside each other.
        ("n", &["n = n + x", "n = x"], None),
        ("n", &["n = n + x", "n = greatest(n, x)"], None),
        ("n", &["n = greatest(n, x)", "n = least(n, x)"], None),
        // The order matters.
        ("n", &["n = x - n"], None),
        ("n", &["n = n * x"], None),
        ("n", &["n = n + small"], None),
        ("n", &["n = n + n"], None),
        ("n", &["n = small"], None),
        ("n", &["n = greatest(n, small)"], None),
        (
            "n",
            &["n = CASE WHEN n > 0 THEN n + x ELSE n + 1 END"],
            None,
        ),
        // Rounded, or not the same when they are equal.
        ("price", &["price = price + a"], None),
        ("price", &["price = greatest(price, a)"], None),
        ("ratio", &["ratio = ratio + r"], None),
    ];
    for (column, sets, expected) in cases {
        assert_eq!(policy(column, sets), expected, "{column}: {sets:?}");
    }
}

/// An assignment is replaced by another assignment of the column, not by a statement that computes from its value.
#[test]
fn a_statement_replaces_only_assignments_to_its_columns() {
    let wide: Vec<String> = (1..70).map(|n| format!("c{n} bigint")).collect();
    let wide = format!(
        "CREATE TABLE t (id integer PRIMARY KEY, {});",
        wide.join(", ")
    );
    let replaces = |schema: &str, set: &str| {
        let programs = application(schema, &[set]).programs();
        programs.replaces(ProgramId(0))
    };
    let columns = |columns: &[u16]| {
        let columns = columns.iter().map(|column| ColumnIndex(*column));
        Some(columns.fold(ColumnSet::EMPTY, ColumnSet::with))
    };
    for (schema, set, expected) in [
        (TABLE, "n = x", columns(&[1])),
        (TABLE, "n = x + 1, word = w", columns(&[1, 5])),
        (TABLE, "n = n + x", None),
        (TABLE, "n = greatest(n, x)", None),
        (TABLE, "n = x, small = small + s", None),
        (TABLE, "n = small", None),
        (&wide, "c62 = x", columns(&[62])),
        // From here on columns are not told apart.
        (&wide, "c63 = x", None),
        (&wide, "c1 = x, c69 = x", None),
    ] {
        assert_eq!(replaces(schema, set), expected, "{set}");
    }
}
