//! Integers are computed for sixteen rows at once. More rows, exceptional rows among them, and rows in another order
//! give the same as row by row.

use anabranch_sql::{TransactionError, testing::ready};
use anabranch_types::Value;

use crate::support::Database;

const SCHEMA: &str = "
CREATE TABLE part (
    id integer PRIMARY KEY,
    price numeric(6, 2) NOT NULL CHECK (price > 0),
    stock integer NOT NULL,
    sold smallint NOT NULL DEFAULT 0,
    counted bigint NOT NULL DEFAULT 0
);
CREATE FUNCTION restock(p_id integer) RETURNS void
LANGUAGE SQL BEGIN ATOMIC
    UPDATE part SET counted = stock + 1, stock = stock + 1 WHERE id = p_id;
END;
CREATE FUNCTION sell(p_ids integer[], p_counts integer[], p_home integer) RETURNS void
LANGUAGE SQL BEGIN ATOMIC
    UPDATE part
    SET stock = CASE WHEN stock >= l.n THEN stock - l.n ELSE stock - l.n + 100 END,
        sold = sold + CASE WHEN l.id = p_home THEN 0 ELSE 1 END
    FROM unnest(p_ids, p_counts) AS l (id, n)
    WHERE part.id = l.id;
END;
";

/// Forty parts: number n costs n + 0.25, and there are n of it.
fn filled() -> Database {
    let forty = "INSERT INTO part (id, price, stock)
                 SELECT n, n + 0.25, n FROM generate_series(1, 40) AS n";
    Database::with(SCHEMA, &[forty])
}

impl Database {
    /// Sells so many of each part, with or without reading them first.
    fn sell(&mut self, lines: &[(Option<i64>, i64)], home: i64, defer: bool) {
        let int = |int: Option<i64>| int.map_or(Value::Null, Value::Int);
        let arguments = [
            Value::Array(lines.iter().map(|(id, _)| int(*id)).collect()),
            Value::Array(lines.iter().map(|(_, n)| Value::Int(*n)).collect()),
            Value::Int(home),
        ];
        self.call("sell", &arguments, defer).expect("it runs");
    }

    /// Calls a function, or gives the error's code.
    fn call(&mut self, name: &str, arguments: &[Value], defer: bool) -> Result<(), &'static str> {
        let procedure = self.application.find(name).expect("it is there").clone();
        let mut transaction = self.store.begin();
        transaction.defer = defer;
        match ready(procedure.call(&mut transaction, arguments)) {
            Ok(_) => Ok(()),
            Err(TransactionError::Failed(error)) => {
                transaction.rollback();
                Err(error.code)
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn many_rows_are_inserted_and_joined_as_one_by_one() {
    let mut database = filled();
    let all = "SELECT count(*), sum(price), sum(stock), min(sold) FROM part";
    database.check(all, "40|830.00|820|0");
    let joined = "SELECT count(*), sum(price * n), sum(n) FROM generate_series(-3, 43) AS n
                  JOIN part ON id = n";
    database.check(joined, "40|22345.00|820");
    let reversed = "SELECT sum(price * l.n), array_agg(stock) FROM
                    unnest(ARRAY[40, 20, NULL, 1], ARRAY[1, 2, 3, NULL]) AS l (id, n)
                    JOIN part ON part.id = l.id";
    database.check(reversed, "80.75|{40,20,1}");
}

#[test]
fn one_row_of_many_is_refused_for_itself() {
    let mut database = filled();
    for (values, code) in [
        // A CHECK, the range of two types, a value that is missing, a key that is taken.
        ("n, 135 - n, 1", "23514"),
        ("n, 1, n + 2147483517", "22003"),
        ("n, n * 77, 1", "22003"),
        ("n, 1, CASE WHEN n <> 135 THEN n END", "23502"),
        ("135 - abs(135 - n), 1, 1", "23505"),
    ] {
        let rows = "generate_series(101, 140) AS n";
        let text = format!("INSERT INTO part (id, price, stock) SELECT {values} FROM {rows}");
        database.refuse(&text, code);
    }
    database.check("SELECT count(*) FROM part", "40");
}

#[test]
fn values_are_collected_in_the_order_asked_for() {
    let mut database = filled();
    for (keys, expected) in [
        ("1, 2, 3, 4", "{40,7,40,9}"),
        // Equal ones as they come.
        ("1, 1, 2, 2", "{40,7,40,9}"),
        ("4, 3, 2, 1", "{9,40,7,40}"),
        ("2, 1, 1, 3", "{7,40,40,9}"),
        ("NULL, 2, 1, 3", "{40,7,9,40}"),
    ] {
        let text = format!(
            "SELECT array_agg(stock ORDER BY l.k) FROM
             unnest(ARRAY[40, 7, 40, 9], ARRAY[{keys}]) AS l (id, k) JOIN part ON part.id = l.id"
        );
        database.check(&text, expected);
    }
    let many = "SELECT array_agg(stock ORDER BY n % 20) FROM generate_series(1, 40) AS n
                JOIN part ON id = n";
    let mut expected: Vec<u32> = (1..=40).collect();
    expected.sort_by_key(|n| n % 20);
    let expected: Vec<String> = expected.iter().map(u32::to_string).collect();
    let expected = format!("{{{}}}", expected.join(","));
    database.check(many, &expected);
}

#[test]
fn many_rows_are_updated_unread_as_they_are_read() {
    // One has no number, some an unknown number; part 7 is there twice.
    let mut lines: Vec<(Option<i64>, i64)> = (1..=45).map(|n| (Some(n), n % 9 * 5)).collect();
    lines[40].0 = None;
    lines.push((Some(7), 1));
    let everything = "SELECT id, stock, sold FROM part ORDER BY id";
    let [read, unread] = [false, true].map(|defer| {
        let mut database = filled();
        database.sell(&lines, 11, defer);
        database.run(everything).unwrap()
    });
    assert_eq!(read, unread);
    let rows: Vec<&str> = read.split(';').collect();
    // 30 - 15; 8 - 40 + 100; 11 is at home, and 27, sixteen later, is not.
    let some = [rows[29], rows[7], rows[10], rows[26]];
    assert_eq!(some, ["30|15|1", "8|68|1", "11|1|0", "27|27|1"]);
}

#[test]
fn columns_that_get_the_same_keep_their_own_ranges() {
    for defer in [false, true] {
        let mut database = filled();
        let mut restock = |stock: i64| {
            let set = format!("UPDATE part SET stock = {stock} WHERE id = 5");
            database.run(&set).unwrap();
            let answer = database.call("restock", &[Value::Int(5)], defer);
            let row = database.run("SELECT counted, stock FROM part WHERE id = 5");
            answer.map(|()| row.unwrap())
        };
        assert_eq!(restock(8), Ok("9|9".to_owned()));
        // An integer is full, though a bigint is not.
        assert_eq!(restock(2_147_483_647), Err("22003"));
        assert_eq!(restock(9), Ok("10|10".to_owned()));
    }
}
