//! The paper's Table 2 once more, row by row, from SQL alone: what is confluent withstands every case that is
//! tried, and what is not has a counterexample.

use anabranch_analysis::explore::{Counterexample, Effort, Explorer};
use anabranch_analysis::plan::Confluence;
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::SourceFile;

/// A row of the table, and as SQL: one transaction type `t`, perhaps beside others.
struct Row {
    number: u32,
    title: &'static str,
    invariant: &'static str,
    confluent: bool,
    sql: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        number: 1,
        title: "Attribute Equality, Any",
        invariant: "users_kind_check",
        confluent: true,
        sql: "CREATE TABLE users (id uuid PRIMARY KEY, kind text CHECK (kind IN ('a', 'b')));
              CREATE PROCEDURE t(p uuid, k text) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE users SET kind = k WHERE id = p; END;",
    },
    Row {
        number: 2,
        title: "Attribute Inequality, Any",
        invariant: "users_not_null",
        confluent: true,
        sql: "CREATE TABLE users (id uuid PRIMARY KEY, last_name text NOT NULL);
              CREATE PROCEDURE t(p uuid, n text) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE users SET last_name = n WHERE id = p; END;",
    },
    Row {
        number: 3,
        title: "Uniqueness, Choose specific value",
        invariant: "users_pkey",
        confluent: false,
        sql: "CREATE TABLE users (id integer PRIMARY KEY, last_name text);
              CREATE PROCEDURE t(p integer, n text) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO users VALUES (p, n); END;",
    },
    Row {
        number: 3,
        title: "Uniqueness of another column, Choose specific value",
        invariant: "users_name_key",
        confluent: false,
        sql: "CREATE TABLE users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text UNIQUE);
              CREATE PROCEDURE t(n text) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO users (name) VALUES (n); END;",
    },
    Row {
        number: 4,
        title: "Uniqueness, Choose some value",
        invariant: "users_pkey",
        confluent: true,
        sql: "CREATE TABLE users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text);
              CREATE PROCEDURE t(n text) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO users (name) VALUES (n); END;",
    },
    Row {
        number: 4,
        title: "Uniqueness, Choose some value, by identity",
        invariant: "users_pkey",
        confluent: true,
        sql: "CREATE TABLE users (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
              CREATE PROCEDURE t(n text) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO users (name) VALUES (n); END;",
    },
    Row {
        number: 5,
        title: "AUTO_INCREMENT, Insert: the greatest and one",
        invariant: "entry_pkey",
        confluent: false,
        sql: "CREATE TABLE entry (n integer PRIMARY KEY, body text);
              CREATE PROCEDURE t(b text) LANGUAGE plpgsql AS $$
              DECLARE v integer;
              BEGIN
                  SELECT coalesce(max(n), 0) INTO v FROM entry;
                  INSERT INTO entry VALUES (v + 1, b);
              END; $$;",
    },
    Row {
        number: 5,
        title: "AUTO_INCREMENT, Insert: from a counter",
        invariant: "entry_pkey",
        confluent: false,
        sql: "CREATE TABLE series (s integer PRIMARY KEY, next integer NOT NULL);
              CREATE TABLE entry (s integer, n integer, PRIMARY KEY (s, n));
              CREATE PROCEDURE t(p integer) LANGUAGE plpgsql AS $$
              DECLARE v integer;
              BEGIN
                  UPDATE series SET next = next + 1 WHERE s = p RETURNING next INTO v;
                  INSERT INTO entry VALUES (p, v);
              END; $$;",
    },
    Row {
        number: 6,
        title: "Foreign Key, Insert",
        invariant: "emp_dept_fkey",
        confluent: true,
        sql: "CREATE TABLE dept (id integer PRIMARY KEY);
              CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                dept integer NOT NULL REFERENCES dept (id));
              CREATE PROCEDURE t(d integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO emp (dept) VALUES (d); END;
              CREATE PROCEDURE open_dept(d integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO dept VALUES (d); END;",
    },
    Row {
        number: 7,
        title: "Foreign Key, Delete",
        invariant: "emp_dept_fkey",
        confluent: false,
        sql: "CREATE TABLE dept (id integer PRIMARY KEY);
              CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                dept integer NOT NULL REFERENCES dept (id));
              CREATE PROCEDURE hire(d integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO emp (dept) VALUES (d); END;
              CREATE PROCEDURE t(d integer) LANGUAGE SQL BEGIN ATOMIC
                  DELETE FROM dept WHERE id = d; END;",
    },
    Row {
        number: 8,
        title: "Foreign Key, Cascading Delete, by a merge that does not cascade",
        invariant: "emp_dept_fkey",
        confluent: false,
        sql: "CREATE TABLE dept (id integer PRIMARY KEY);
              CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                dept integer NOT NULL REFERENCES dept (id) ON DELETE CASCADE);
              CREATE PROCEDURE hire(d integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO emp (dept) VALUES (d); END;
              CREATE PROCEDURE t(d integer) LANGUAGE SQL BEGIN ATOMIC
                  DELETE FROM dept WHERE id = d; END;",
    },
    Row {
        number: 8,
        title: "Foreign Key, Cascading Delete, without references",
        invariant: "emp_dept_fkey",
        confluent: true,
        sql: "CREATE TABLE dept (id integer PRIMARY KEY);
              CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                dept integer NOT NULL REFERENCES dept (id) ON DELETE CASCADE);
              CREATE PROCEDURE t(d integer) LANGUAGE SQL BEGIN ATOMIC
                  DELETE FROM dept WHERE id = d; END;",
    },
    Row {
        number: 9,
        title: "Secondary Indexing, Update",
        invariant: "users_by_n",
        confluent: true,
        sql: "CREATE TABLE users (id integer PRIMARY KEY, n integer);
              CREATE INDEX users_by_n ON users (n);
              CREATE PROCEDURE t(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE users SET n = x WHERE id = p; END;",
    },
    Row {
        number: 10,
        title: "Materialized Views, Update",
        invariant: "totals",
        confluent: true,
        sql: "CREATE TABLE dept (id integer PRIMARY KEY, total integer NOT NULL);
              CREATE TABLE emp (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                dept integer NOT NULL REFERENCES dept (id), pay integer NOT NULL);
              CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT * FROM dept WHERE total <>
                  (SELECT coalesce(sum(pay), 0) FROM emp WHERE emp.dept = dept.id)));
              CREATE PROCEDURE t(d integer, p integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO emp (dept, pay) VALUES (d, p);
                  UPDATE dept SET total = total + p WHERE id = d; END;",
    },
    Row {
        number: 11,
        title: ">, Increment [Counter]",
        invariant: "account_n_check",
        confluent: true,
        sql: "CREATE TABLE account (id integer PRIMARY KEY, n integer CHECK (n > 0));
              CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE account SET n = n + 1 WHERE id = p; END;",
    },
    Row {
        number: 12,
        title: "<, Increment [Counter]",
        invariant: "account_n_check",
        confluent: false,
        sql: "CREATE TABLE account (id integer PRIMARY KEY, n integer CHECK (n < 3));
              CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE account SET n = n + 1 WHERE id = p; END;",
    },
    Row {
        number: 13,
        title: ">, Decrement [Counter]",
        invariant: "account_n_check",
        confluent: false,
        sql: "CREATE TABLE account (id integer PRIMARY KEY, n integer CHECK (n > 0));
              CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE account SET n = n - 1 WHERE id = p; END;",
    },
    Row {
        number: 14,
        title: "<, Decrement [Counter]",
        invariant: "account_n_check",
        confluent: true,
        sql: "CREATE TABLE account (id integer PRIMARY KEY, n integer CHECK (n < 3));
              CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
                  UPDATE account SET n = n - 1 WHERE id = p; END;",
    },
    Row {
        number: 15,
        title: "CONTAINS, Any [Set]",
        invariant: "has_one",
        confluent: true,
        sql: "CREATE TABLE member (id integer PRIMARY KEY);
              CREATE ASSERTION has_one CHECK (EXISTS (SELECT * FROM member WHERE id = 1));
              CREATE PROCEDURE t(p integer) LANGUAGE SQL BEGIN ATOMIC
                  DELETE FROM member WHERE id = p; END;",
    },
    Row {
        number: 16,
        title: "NOT CONTAINS, Any [Set]",
        invariant: "has_no_one",
        confluent: true,
        sql: "CREATE TABLE member (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kind integer);
              CREATE ASSERTION has_no_one CHECK (NOT EXISTS (SELECT * FROM member WHERE kind = 1));
              CREATE PROCEDURE t(k integer) LANGUAGE SQL BEGIN ATOMIC
                  INSERT INTO member (kind) VALUES (k); END;",
    },
    Row {
        number: 17,
        title: "SIZE=, Mutation [Set]",
        invariant: "exactly_one",
        confluent: false,
        sql: "CREATE TABLE member (id integer PRIMARY KEY);
              CREATE ASSERTION exactly_one CHECK ((SELECT count(*) FROM member) = 1);
              CREATE PROCEDURE t(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
                  DELETE FROM member WHERE id = p;
                  INSERT INTO member VALUES (q); END;",
    },
];

const EFFORT: Effort = Effort {
    cases: 1_000,
    before_max: 1,
    calls_max: 2,
};

fn counterexample(row: &Row) -> Option<Counterexample> {
    let files = vec![SourceFile::new("row.sql", row.sql)];
    let application = anabranch_sql::load(files.clone())
        .and_then(anabranch_sql::Application::compile)
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    let index = plan.invariants.iter().position(|i| i.name == row.invariant);
    let index = index.unwrap_or_else(|| panic!("{}: {} is missing", row.number, row.invariant));
    let verdict = plan
        .entry("t")
        .and_then(|t| t.verdict(index))
        .expect("a verdict");
    let said = verdict.confluent == Confluence::Yes;
    assert_eq!(
        said, row.confluent,
        "row {}, {}: {verdict:?}",
        row.number, row.title
    );
    let explorer = Explorer::new(&application, &plan);
    assert_eq!(
        explorer.attack(1, EFFORT),
        None,
        "row {}, {}",
        row.number,
        row.title
    );
    let mut found = explorer.counterexamples(1, EFFORT).into_iter();
    found.find(|c| c.invariant == row.invariant)
}

#[test]
fn every_row_agrees_with_the_paper_and_has_a_counterexample() {
    for row in ROWS {
        let found = counterexample(row);
        assert_eq!(
            found.is_none(),
            row.confluent,
            "row {}, {}: {found:#?}",
            row.number,
            row.title
        );
    }
    let rows: std::collections::BTreeSet<u32> = ROWS.iter().map(|r| r.number).collect();
    assert!(rows.into_iter().eq(1..=17));
}

#[test]
fn a_counterexample_is_as_small_as_it_gets() {
    let row = ROWS.iter().find(|r| r.number == 13).expect("the row");
    let found = counterexample(row).expect("a counterexample");
    assert_eq!(
        found.initial,
        ["INSERT INTO account (id, n) VALUES (2, 2);"]
    );
    assert_eq!(found.replicas[0], ["CALL t(p => 2);"]);
    assert_eq!(found.replicas[1], ["CALL t(p => 2);"]);
    assert_eq!(found.merged, ["INSERT INTO account (id, n) VALUES (2, 0);"]);
}

#[test]
fn hiring_beside_the_closing_of_a_department() {
    let row = ROWS.iter().find(|r| r.number == 7).expect("the row");
    let found = counterexample(row).expect("a counterexample");
    // Neither the department nor either call can be left out.
    assert_eq!(found.initial.len(), 1);
    assert_eq!(found.replicas.iter().map(Vec::len).sum::<usize>(), 2);
    assert_eq!(found.transactions, ["hire", "t"]);
    assert_eq!(found.emptied, ["dept"]);
}
