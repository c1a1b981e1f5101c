//! Errors with their fields, on PostgreSQL and on ours: message, detail, hint, and the names of what is concerned.

use anabranch_sql::source::SourceFile;
use anabranch_types::EffectError;

use crate::oracle::Postgres;
use crate::oracle::ours::Ours;

const SCHEMA: &str = "
CREATE TABLE parent (
    id integer PRIMARY KEY,
    code char(4) UNIQUE,
    a integer,
    b text,
    CONSTRAINT both_once UNIQUE (a, b)
);
CREATE TABLE child (
    id integer PRIMARY KEY,
    parent_id integer REFERENCES parent,
    pa integer,
    pb text,
    word varchar(3),
    amount numeric(5, 2) NOT NULL CONSTRAINT positive CHECK (amount > 0),
    small smallint,
    at timestamptz,
    note text,
    CONSTRAINT of_both FOREIGN KEY (pa, pb) REFERENCES parent (a, b)
);
CREATE TABLE tight (id integer PRIMARY KEY, n numeric(2, 2), m numeric(3, 0));
";

const ROUTINES: &str = "
CREATE FUNCTION with_fields(p integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no %', p USING ERRCODE = 'check_violation', DETAIL = 'only ' || p, HINT = 'take another',
        CONSTRAINT = 'taken', TABLE = 'parent', COLUMN = 'id', SCHEMA = 'public', DATATYPE = 'integer';
END $$;
CREATE FUNCTION with_message(p integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE USING MESSAGE = 'no ' || p, DETAIL = p;
END $$;
CREATE FUNCTION with_null(p integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v text; BEGIN
    RAISE EXCEPTION 'no' USING HINT = v;
END $$;
CREATE FUNCTION plain(p integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no';
END $$;
";

const ROWS: &str = "
INSERT INTO parent VALUES (1, 'x', 1, 'one'), (2, 'y', 2, NULL), (3, NULL, 3, 'three');
INSERT INTO child VALUES (1, 1, 1, 'one', 'abc', 5, 7, '2024-05-06 07:08:09.5+00', 'short');
INSERT INTO tight VALUES (1, 0.5, 5);
";

/// Each fails on both.
const STATEMENTS: [&str; 28] = [
    "INSERT INTO parent VALUES (1, 'z', 9, 'nine')",
    "INSERT INTO parent VALUES (4, 'x', 9, 'nine')",
    "INSERT INTO parent VALUES (4, 'z', 1, 'one')",
    "UPDATE parent SET id = 2 WHERE id = 1 AND code = 'nothing' OR id = 3",
    "UPDATE parent SET code = 'y' WHERE id = 3",
    "INSERT INTO child (id, parent_id, amount) VALUES (2, 77, 1)",
    "INSERT INTO child (id, pa, pb, amount) VALUES (2, 1, 'two', 1)",
    "UPDATE child SET parent_id = 78 WHERE id = 1",
    "DELETE FROM parent WHERE id = 1",
    "UPDATE parent SET id = 9 WHERE id = 1",
    "UPDATE parent SET b = 'uno' WHERE id = 1",
    "INSERT INTO child (id) VALUES (2)",
    "INSERT INTO child (id, amount, at) VALUES (2, NULL, '2024-05-06 07:08:09.5+00')",
    "UPDATE child SET amount = NULL WHERE id = 1",
    "UPDATE child SET amount = NULL, note = 'changed' WHERE id = 1",
    "INSERT INTO child (id, amount) VALUES (2, -1)",
    "UPDATE child SET amount = -amount WHERE id = 1",
    "UPDATE child SET amount = amount - 5 WHERE id = 1",
    "INSERT INTO child (id, amount, note) VALUES (2, -1, '0123456789012345678901234567890123456789012345678901234567890123')",
    "INSERT INTO child (id, amount, note) VALUES (2, -1, '01234567890123456789012345678901234567890123456789012345678901234')",
    "INSERT INTO child (id, amount, note) VALUES (2, -1, 'ä12345678901234567890123456789012345678901234567890123456789012ä4')",
    "UPDATE child SET word = note WHERE id = 1",
    "UPDATE child SET amount = amount * 1000 WHERE id = 1",
    "UPDATE tight SET n = n * 2 WHERE id = 1",
    "UPDATE tight SET m = m * 1000 WHERE id = 1",
    "UPDATE child SET small = small * id * 30000 WHERE id = 1",
    "UPDATE child SET parent_id = CAST(note AS integer) WHERE id = 1",
    "UPDATE child SET amount = CAST(note AS numeric) WHERE id = 1",
];

const ROUTINE_NAMES: [&str; 4] = ["with_fields", "with_message", "with_null", "plain"];

/// The fields of an error, as text.
fn shown(error: &EffectError) -> String {
    let fields = error.fields.as_deref().cloned().unwrap_or_default();
    format!(
        "{} {}\n  detail {:?}\n  hint {:?}\n  names {:?}",
        error.code,
        error.message,
        fields.detail,
        fields.hint,
        [
            fields.schema,
            fields.table,
            fields.column,
            fields.data_type,
            error.constraint.clone()
        ]
    )
}

fn of_postgres(theirs: &mut Postgres, statement: &str) -> String {
    let error = theirs.client.batch_execute(statement).expect_err(statement);
    let error = error.as_db_error().expect("PostgreSQL answers");
    let owned = |text: Option<&str>| text.map(str::to_owned);
    format!(
        "{} {}\n  detail {:?}\n  hint {:?}\n  names {:?}",
        error.code().code(),
        error.message(),
        error.detail(),
        error.hint(),
        [
            owned(error.schema()),
            owned(error.table()),
            owned(error.column()),
            owned(error.datatype()),
            owned(error.constraint())
        ]
    )
}

#[test]
fn errors_have_the_fields_that_they_have_on_postgresql() {
    let mut theirs = Postgres::start();
    let all = format!("SET TIME ZONE 'UTC'; {SCHEMA}{ROUTINES}{ROWS}");
    theirs
        .client
        .batch_execute(&all)
        .expect("PostgreSQL takes it");
    let files = [("schema.sql", SCHEMA), ("routines.sql", ROUTINES)];
    let files = files.map(|(name, text)| SourceFile::new(name, text));
    let mut ours = Ours::new(files.to_vec()).unwrap_or_else(|error| panic!("{error}"));
    ours.load(&mut theirs);
    let mut wrong = Vec::new();
    let mut compare = |statement: &str, ours: &EffectError, theirs: String| {
        let ours = shown(ours);
        if ours != theirs {
            wrong.push(format!("{statement}\n ours: {ours}\n PostgreSQL: {theirs}"));
        }
    };
    for statement in STATEMENTS {
        let expected = of_postgres(&mut theirs, statement);
        compare(statement, &ours.error(statement), expected);
    }
    for name in ROUTINE_NAMES {
        let expected = of_postgres(&mut theirs, &format!("SELECT {name}(7)"));
        compare(name, &ours.call_error(name, 7), expected);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
