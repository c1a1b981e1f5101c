//! Repairs of a row that is read, checked, and changed: by one UPDATE.

use anabranch_sql::SourceFile;
use anabranch_types::Value;

use super::{golden, left_by, of, offered, shown};

/// Stock that is taken if there is enough, and refilled as in TPC-C.
pub(super) const STOCK: &str = "CREATE TABLE stock (
    id integer PRIMARY KEY,
    quantity integer,
    taken integer,
    kind varchar(8) NOT NULL
);

CREATE PROCEDURE take(p_id integer, p_amount integer)
LANGUAGE plpgsql AS $$
DECLARE
    there integer;
    least integer;
BEGIN
    SELECT quantity INTO there FROM stock WHERE id = p_id;
    least := p_amount + 2;
    IF there >= least THEN
        UPDATE stock SET quantity = quantity - p_amount, taken = taken + p_amount WHERE id = p_id;
    END IF;
END;
$$;

CREATE PROCEDURE order_line(p_id integer, p_amount integer)
LANGUAGE plpgsql AS $$
DECLARE
    item record;
BEGIN
    SELECT * INTO item FROM stock WHERE id = p_id;
    IF item.kind = 'few' AND item.quantity < p_amount THEN
        UPDATE stock SET quantity = 0, taken = item.taken + item.quantity WHERE id = p_id;
    ELSIF item.quantity >= p_amount + 10 THEN
        UPDATE stock SET quantity = item.quantity - p_amount WHERE id = p_id;
    ELSE
        UPDATE stock SET quantity = item.quantity - p_amount + 91 WHERE id = p_id;
    END IF;
END;
$$;
";

#[test]
fn the_update_makes_the_check() {
    let found = of(STOCK);
    golden("stock", &found);
    let repair = offered(&found, "repair-check-in-update");
    assert_eq!(repair.change.after.free, 2, "{}", shown(&found));
}

/// Called one after another, on rows that pass, on rows that fail, and on one that does not exist.
#[test]
fn run_serially_the_checked_update_gives_the_same_rows() {
    let rows = [
        "INSERT INTO stock VALUES (1, 30, 0, 'many')",
        "INSERT INTO stock VALUES (2, 4, 7, 'few')",
        "INSERT INTO stock VALUES (3, 12, 1, 'many')",
    ];
    let arguments: Vec<Vec<Value>> = (1..=4)
        .flat_map(|id| [3, 11, 1, 9].map(|n| vec![Value::Int(id), Value::Int(n)]))
        .collect();
    let calls: Vec<(&str, &[Value])> = arguments
        .iter()
        .flat_map(|of| [("take", of.as_slice()), ("order_line", of.as_slice())])
        .collect();
    let left = |files, calls: &[_]| left_by(files, &rows, calls, &["stock"]);
    let files = vec![SourceFile::new("app.sql", STOCK)];
    let found = of(STOCK);
    for count in 0..=calls.len() {
        let was = left(files.clone(), &calls[..count]);
        for repair in &found.offered {
            let now = left(repair.files.clone(), &calls[..count]);
            assert_eq!(now, was, "{count}: {}", repair.diff);
        }
    }
    // Each branch was taken, and none by all calls.
    let taken = left(files.clone(), &calls);
    assert_ne!(taken, left(files, &[]));
}

/// An IF that is not one UPDATE of the row that was read, or that tests something else, stays.
#[test]
fn a_check_that_decides_more_than_the_row_stays() {
    let update = "UPDATE stock SET quantity = quantity - p_amount, taken = taken + p_amount WHERE id = p_id;";
    for (what, from, to) in [
        ("an error", update, "RAISE EXCEPTION 'few';"),
        (
            "two statements",
            update,
            "UPDATE stock SET quantity = 0 WHERE id = p_id; UPDATE stock SET taken = 0 WHERE id = p_id;",
        ),
        (
            "another row",
            update,
            "UPDATE stock SET quantity = quantity - p_amount WHERE id = p_id + 1;",
        ),
        (
            "another condition",
            update,
            "UPDATE stock SET quantity = quantity - p_amount WHERE id = p_id AND taken = 0;",
        ),
        (
            "a query",
            "there >= least",
            "there >= least AND p_amount < (SELECT max(taken) FROM stock)",
        ),
        (
            "written between",
            "    least := p_amount + 2;",
            "    least := p_amount + 2; UPDATE stock SET quantity = 5 WHERE id = p_id;",
        ),
        (
            "asked for the outcome",
            "    END IF;\nEND;",
            "    END IF;\n    IF NOT FOUND THEN RAISE EXCEPTION 'none'; END IF;\nEND;",
        ),
    ] {
        let sql = STOCK.replacen(from, to, 1);
        assert_ne!(sql, STOCK, "{what}");
        let found = of(&sql);
        let mut checks = found.offered.iter();
        let first = checks.find(|of| {
            let of_take = of.diff.contains("-    IF there >= ");
            of.kind.code == "repair-check-in-update" && of_take
        });
        assert!(first.is_none(), "{what}: {}", shown(&found));
    }
}

/// A variable with the name of a column of the row would be taken for the column.
#[test]
fn a_variable_named_like_a_column_stays() {
    let sql = STOCK.replace("least", "taken");
    let sql = sql.replacen("taken integer;", "taken integer := 3;", 1);
    let sql = sql.replacen("    taken := p_amount + 2;\n", "", 1);
    let sql = sql.replacen(
        "quantity = quantity - p_amount, taken = taken + p_amount",
        "quantity = quantity - p_amount",
        1,
    );
    let found = of(&sql);
    let touched = found.offered.iter().any(|of| of.diff.contains("there >= "));
    assert!(!touched, "{}", shown(&found));
    // It is not even tried: SQL could not distinguish the two.
    let mut considered = found.considered.iter();
    let refused = considered.any(|of| of.reason.contains("ambiguous"));
    assert!(!refused, "{}", shown(&found));
    // With another name it works.
    let other = sql.replacen("there >= taken", "there >= most", 1);
    let other = other.replacen("taken integer :=", "most integer :=", 1);
    let touched = of(&other)
        .offered
        .iter()
        .any(|of| of.diff.contains("there >= "));
    assert!(touched, "{}", shown(&of(&other)));
}

/// Locking what is read gains nothing: what is read and changed is guarded anyway.
#[test]
fn locking_reads_is_tried_and_does_not_help() {
    let sql = STOCK.replace("        UPDATE stock SET quantity = quantity - p_amount, taken = taken + p_amount WHERE id = p_id;", "        RAISE EXCEPTION 'too many';");
    let sql = sql.replacen(
        "    END IF;\nEND;",
        "    END IF;\n    UPDATE stock SET quantity = there - p_amount WHERE id = p_id;\nEND;",
        1,
    );
    let found = of(&sql);
    let mut considered = found.considered.iter();
    let lock = considered.find(|of| of.kind.code == "repair-lock-read");
    let lock = lock.unwrap_or_else(|| panic!("{}", shown(&found)));
    assert!(lock.reason.starts_with("tried"), "{lock:?}");
}
