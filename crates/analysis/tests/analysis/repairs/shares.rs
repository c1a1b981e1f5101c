//! The rest of a bounded number, split into shares of sites.

use anabranch_sql::SourceFile;
use anabranch_types::Value;

use super::{golden, left_by, of, offered, shown};

/// A cart takes from two rows, which lie on two partitions; a truck adds some; a third transaction reads.
pub(super) const CART: &str = "CREATE TABLE stock (
    warehouse integer NOT NULL,
    item integer NOT NULL,
    quantity integer NOT NULL CHECK (quantity >= 2),
    name varchar(10) NOT NULL,
    PRIMARY KEY (warehouse, item)
);
CREATE TABLE looked (
    who integer PRIMARY KEY,
    saw integer
);

CREATE PROCEDURE buy(p_one integer, p_item integer, p_other integer, p_second integer, p_amount integer)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stock SET quantity = quantity - p_amount WHERE warehouse = p_one AND item = p_item;
    UPDATE stock SET quantity = quantity - p_amount WHERE warehouse = p_other AND item = p_second;
END;
$$;

CREATE PROCEDURE bring(p_warehouse integer, p_item integer, p_amount integer)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stock SET quantity = quantity + p_amount WHERE warehouse = p_warehouse AND item = p_item;
END;
$$;

CREATE PROCEDURE look(p_who integer, p_warehouse integer, p_item integer)
LANGUAGE plpgsql AS $$
DECLARE
    there integer;
BEGIN
    SELECT quantity INTO there FROM stock WHERE warehouse = p_warehouse AND item = p_item;
    UPDATE looked SET saw = there WHERE who = p_who;
END;
$$;
";

#[test]
fn a_call_that_takes_from_two_rows_takes_at_one_site() {
    let found = of(CART);
    golden("cart", &found);
    let repair = offered(&found, "repair-escrow");
    let buy = repair.change.types.iter().find(|of| of.name == "buy");
    let buy = buy.unwrap_or_else(|| panic!("{}", shown(&found)));
    assert_eq!(buy.after.routing, ["p_site"]);
    let classes = [buy.before.class, buy.after.class].map(|class| format!("{class:?}"));
    assert_eq!(classes, ["Global", "Local"]);
}

/// If one site has all that is left above the bound, its calls are accepted and refused as before, and the results
/// and the total of the share and the row are the same.
#[test]
fn a_site_with_all_shares_does_what_the_original_did() {
    let found = of(CART);
    let changed = offered(&found, "repair-escrow").files.clone();
    let looked = "INSERT INTO looked VALUES (1, NULL)";
    let stock = |of: [i64; 2]| {
        let [one, other] = of;
        format!("INSERT INTO stock VALUES (1, 5, {one}, 'pen'), (2, 5, {other}, 'ink')")
    };
    let before = [stock([10, 7]), looked.to_owned()];
    let shares = "INSERT INTO stock_quantity_share VALUES (1, 5, 3, 8), (2, 5, 3, 5), (1, 5, 4, 0)";
    let after = [stock([2, 2]), looked.to_owned(), shares.to_owned()];
    let int = |numbers: &[i64]| numbers.iter().map(|n| Value::Int(*n)).collect::<Vec<_>>();
    // The last argument of each but `look` would be the site.
    let calls = [
        ("look", int(&[1, 1, 5])),
        ("buy", int(&[1, 5, 2, 5, 4, 3])),
        // There are not so many.
        ("buy", int(&[1, 5, 2, 5, 4, 3])),
        ("bring", int(&[2, 5, 6, 3])),
        ("look", int(&[1, 2, 5])),
        ("buy", int(&[1, 5, 2, 5, 4, 3])),
        // A row that does not exist.
        ("buy", int(&[1, 5, 9, 5, 1, 3])),
        ("look", int(&[1, 1, 5])),
        ("look", int(&[1, 9, 5])),
    ];
    let number = |value: &Value| match value {
        Value::Int(n) => *n,
        other => panic!("{other:?}"),
    };
    for count in 0..=calls.len() {
        let called = |has_site: bool| -> Vec<(&str, &[Value])> {
            let calls = calls[..count].iter();
            calls
                .map(|(name, arguments)| match (*name, has_site) {
                    ("look", _) | (_, true) => (*name, arguments.as_slice()),
                    (_, false) => (*name, &arguments[..arguments.len() - 1]),
                })
                .collect()
        };
        let tables = ["stock", "looked"];
        let rows: Vec<&str> = before.iter().map(String::as_str).collect();
        let files = vec![SourceFile::new("app.sql", CART)];
        let was = left_by(files, &rows, &called(false), &tables);
        let tables = ["stock", "looked", "stock_quantity_share"];
        let rows: Vec<&str> = after.iter().map(String::as_str).collect();
        let now = left_by(changed.clone(), &rows, &called(true), &tables);
        assert_eq!(now[1], was[1], "{count}: what was told");
        for (row, then) in was[0].iter().zip(&now[0]) {
            let of_row = |share: &&Vec<Value>| share[..2] == row[..2];
            let shares: i64 = now[2]
                .iter()
                .filter(of_row)
                .map(|share| number(&share[3]))
                .sum();
            assert_eq!(
                shares + number(&then[2]),
                number(&row[2]),
                "{count}: {row:?}"
            );
        }
    }
}

/// A site without enough is refused though another has some, and no share falls below 0: that is what the
/// application gives up.
#[test]
fn a_site_takes_from_its_own_share_alone() {
    let found = of(CART);
    let repair = offered(&found, "repair-escrow");
    assert!(
        repair
            .accepts
            .iter()
            .any(|of| of.contains("even if other sites have some left"))
    );
    let rows = [
        "INSERT INTO stock VALUES (1, 5, 2, 'pen'), (2, 5, 2, 'ink')",
        "INSERT INTO stock_quantity_share VALUES (1, 5, 3, 10), (2, 5, 3, 10), (1, 5, 4, 2), (2, 5, 4, 2)",
    ];
    let arguments = [1, 5, 2, 5, 4, 4].map(Value::Int);
    let table = ["stock_quantity_share"];
    let left = |calls: &[(&str, &[Value])]| left_by(repair.files.clone(), &rows, calls, &table);
    assert_eq!(left(&[("buy", &arguments)]), left(&[]));
    let other = [1, 5, 2, 5, 4, 3].map(Value::Int);
    assert_ne!(left(&[("buy", &other)]), left(&[]));
}

/// A number of uncertain shape is named, and not changed.
#[test]
fn other_uses_of_the_number_prevent_shares() {
    let read =
        "SELECT quantity INTO there FROM stock WHERE warehouse = p_warehouse AND item = p_item;";
    for (what, from, to) in [
        (
            "rows come",
            read,
            "INSERT INTO stock VALUES (p_warehouse, p_item, 3, 'new');",
        ),
        (
            "rows go",
            read,
            "DELETE FROM stock WHERE warehouse = p_warehouse AND item = p_item;",
        ),
        (
            "it is set",
            read,
            "UPDATE stock SET quantity = 5 WHERE warehouse = p_warehouse AND item = p_item;",
        ),
        (
            "more is written with it",
            "SET quantity = quantity + p_amount",
            "SET quantity = quantity + p_amount, name = 'more'",
        ),
        (
            "rows are found by it",
            read,
            "SELECT quantity INTO there FROM stock WHERE warehouse = p_warehouse AND item = p_item AND quantity > 3;",
        ),
        (
            "another row by another condition",
            "WHERE warehouse = p_other AND item = p_second;",
            "WHERE warehouse = p_other AND item = p_second AND name = 'ink';",
        ),
        (
            "bounded from above",
            "CHECK (quantity >= 2)",
            "CHECK (quantity >= 2) CHECK (quantity <= 100)",
        ),
        ("no number", "quantity integer NOT NULL", "quantity integer"),
        (
            "its outcome is asked for",
            "WHERE warehouse = p_other AND item = p_second;",
            "WHERE warehouse = p_other AND item = p_second; IF NOT FOUND THEN RAISE EXCEPTION 'none'; END IF;",
        ),
        (
            "an assertion counts it",
            "CREATE PROCEDURE buy",
            "CREATE ASSERTION few CHECK ((SELECT sum(quantity) FROM stock) <= 900);\nCREATE PROCEDURE buy",
        ),
    ] {
        let sql = CART.replacen(from, to, 1);
        assert_ne!(sql, CART, "{what}");
        let found = of(&sql);
        let told = shown(&found);
        let split = found.offered.iter().any(|of| of.diff.contains("_share"));
        assert!(!split, "{what}: {told}");
        let mut considered = found.considered.iter();
        let named = considered.find(|of| of.kind.code == "repair-escrow");
        let named = named.unwrap_or_else(|| panic!("{what}: {told}"));
        assert!(
            named.reason.starts_with("the result may differ"),
            "{what}: {named:?}"
        );
    }
}
