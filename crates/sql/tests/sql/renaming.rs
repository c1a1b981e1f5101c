//! Renamed things are the same as if they had been declared under their final names.

use anabranch_sql::script::{Script, read};
use anabranch_sql::{SourceFile, render};

fn script(text: &str) -> Script {
    let files = vec![SourceFile::new("a.sql", text)];
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

/// All declarations, without places.
fn declared(script: &Script) -> Vec<String> {
    let catalog = script.application.catalog();
    let mut all = Vec::new();
    for (table, more) in catalog.schema.tables.iter().zip(&catalog.tables) {
        for (column, default) in table.columns.iter().zip(&more.defaults) {
            let default = format!("{default:?}");
            let default = default.split('(').next().unwrap_or_default().to_owned();
            let name = (&table.name, &column.name, column.data_type.to_string());
            all.push(format!("{name:?} {} {default}", column.nullable));
        }
        for index in &table.indexes {
            let is_unique = index.unique;
            all.push(format!("index {:?} {is_unique}", index.columns));
        }
        for check in &more.checks {
            let text = check.expression.to_string().replace('"', "");
            all.push(format!("{} {text}", check.name));
        }
        for key in &more.foreign_keys {
            let parent = &catalog.schema.table(key.parent).name;
            let columns = (&key.columns, &key.parent_columns, key.on_delete);
            all.push(format!("{} {columns:?} of {parent}", key.name));
        }
    }
    for view in &catalog.views {
        let query = view.query.to_string().replace('"', "");
        all.push(format!("view {} {query}", view.name));
    }
    for assertion in &catalog.assertions {
        all.push(assertion.expression.to_string().replace('"', ""));
    }
    all
}

/// What is skipped: the first words at its place.
fn skipped(script: &Script) -> Vec<String> {
    let all = script.skipped.iter().map(|left| {
        let span = left.diagnostic.span.expect("it has a place");
        let file = &script.application.catalog().files[usize::from(span.file)];
        format!("{}: {}", file.slice(span), left.diagnostic.message)
    });
    all.collect()
}

/// Both texts declare the same, and nothing is skipped.
fn same(migrated: &str, written: &str) {
    let (migrated, written) = (script(migrated), script(written));
    assert_eq!(declared(&migrated), declared(&written));
    assert_eq!(skipped(&migrated), [""; 0]);
    assert_eq!(skipped(&written), [""; 0]);
    assert_eq!(migrated.summaries.len(), written.summaries.len());
    for (one, other) in migrated.summaries.iter().zip(&written.summaries) {
        assert_eq!(one.unknown, other.unknown);
        let accesses = |of: &anabranch_sql::summary::TransactionSummary| {
            let all = of.statements.iter().flat_map(|s| &s.accesses);
            let placeless = all.map(|a| (a.table, a.role, a.writes.clone(), a.conditions.clone()));
            placeless.collect::<Vec<_>>()
        };
        assert_eq!(accesses(one), accesses(other), "{}", one.name);
    }
}

const USES: &str = "
-- name: Change :exec
UPDATE person SET years = years + 1, mood = 'blue', changed = $2 WHERE id = $1;
-- name: Write :exec
INSERT INTO post (id, writer, title) VALUES ($1, $2, $3);
";

#[test]
fn tables_columns_constraints_and_types() {
    let migrated = "CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE public.users (
    id bigint PRIMARY KEY, age integer NOT NULL CHECK (age >= 0 AND users.age < 200), mood public.mood DEFAULT 'ok'::mood,
    date date, changed timestamp, number numeric(3, 1),
    CONSTRAINT old CHECK (lower(mood::text) <> 'x'), CHECK (date > date '2001-01-01'));
CREATE TABLE post (id bigint PRIMARY KEY, author bigint NOT NULL, title text,
    CONSTRAINT post_author_fkey FOREIGN KEY (author) REFERENCES users (id) ON DELETE CASCADE);
CREATE UNIQUE INDEX ON ONLY users USING btree (age, lower(mood)) WHERE date IS NOT NULL;
CREATE INDEX by_author ON post (author);
CREATE VIEW grown AS SELECT users.id FROM users JOIN post AS p ON p.id = users.id;
ALTER TABLE users RENAME COLUMN age TO years;
ALTER TABLE IF EXISTS ONLY users RENAME date TO day;
ALTER TABLE users RENAME TO people;
ALTER TABLE people ADD CHECK (years <> 3);
ALTER TABLE people RENAME TO person;
ALTER TABLE person RENAME CONSTRAINT old TO young;
ALTER TABLE post RENAME author TO writer;
ALTER TYPE mood RENAME TO feeling;
ALTER TYPE feeling RENAME VALUE 'sad' TO 'blue';
ALTER TYPE feeling ADD VALUE 'glad';
ALTER VIEW grown RENAME TO old_enough;";
    let written = "CREATE TYPE feeling AS ENUM ('blue', 'ok', 'glad');
CREATE TABLE person (
    id bigint PRIMARY KEY, years integer NOT NULL CHECK (years >= 0 AND person.years < 200), mood feeling DEFAULT 'ok',
    day date, changed timestamp, number numeric(3, 1),
    CONSTRAINT young CHECK (lower(mood::text) <> 'x'), CHECK (day > date '2001-01-01'));
CREATE TABLE post (id bigint PRIMARY KEY, writer bigint NOT NULL, title text,
    CONSTRAINT post_author_fkey FOREIGN KEY (writer) REFERENCES person (id) ON DELETE CASCADE);
CREATE UNIQUE INDEX ON person (years, lower(mood)) WHERE day IS NOT NULL;
CREATE INDEX by_author ON post (writer);
CREATE VIEW old_enough AS SELECT users.id FROM person AS users JOIN post AS p ON p.id = users.id;
ALTER TABLE person ADD CHECK (years <> 3);";
    same(&format!("{migrated}{USES}"), &format!("{written}{USES}"));
}

/// A name that passes from one thing to another means two things.
#[test]
fn names_that_pass_from_one_thing_to_another() {
    let migrated = "CREATE TABLE a (id bigint PRIMARY KEY, n integer CHECK (n > 0), m integer CHECK (m > 1), o text);
CREATE TABLE b (id bigint PRIMARY KEY, x integer CHECK (x > 7));
ALTER TABLE a DROP COLUMN o;
ALTER TABLE a RENAME n TO o;
ALTER TABLE a RENAME m TO n;
ALTER TABLE a RENAME o TO m;
ALTER TABLE a RENAME TO c;
ALTER TABLE b RENAME TO a;
ALTER TABLE c RENAME TO b;
CREATE TABLE c (id bigint PRIMARY KEY, k bigint REFERENCES b);";
    let written =
        "CREATE TABLE b (id bigint PRIMARY KEY, m integer CHECK (m > 0), n integer CHECK (n > 1));
CREATE TABLE a (id bigint PRIMARY KEY, x integer CHECK (x > 7));
CREATE TABLE c (id bigint PRIMARY KEY, k bigint REFERENCES b);";
    same(migrated, written);
}

/// A table that is rebuilt under another name, as where no column can be altered: foreign keys to it stay.
#[test]
fn a_table_that_is_rebuilt() {
    let migrated = "CREATE TABLE t (id bigint PRIMARY KEY, n integer UNIQUE CHECK (n > 0));
CREATE TABLE child (id bigint PRIMARY KEY, t bigint REFERENCES t (id));
CREATE INDEX by_n ON t (n);
CREATE TABLE t_new (id bigint PRIMARY KEY, n integer NOT NULL CHECK (n > 5));
DROP TABLE t;
ALTER TABLE t_new RENAME TO t;
CREATE INDEX by_n_again ON t (n);";
    let written = "CREATE TABLE child (id bigint PRIMARY KEY, t bigint REFERENCES t (id));
CREATE TABLE t (id bigint PRIMARY KEY, n integer NOT NULL CHECK (n > 5));
CREATE INDEX by_n_again ON t (n);";
    let (migrated, written) = (script(migrated), script(written));
    let about_t = |script: &Script| {
        let mut all = declared(script);
        all.sort();
        all
    };
    assert_eq!(about_t(&migrated).len(), about_t(&written).len());
    for one in about_t(&written) {
        // The order of the tables decides the names that PostgreSQL gives.
        assert!(about_t(&migrated).contains(&one), "{one}");
    }
    assert_eq!(skipped(&migrated), [""; 0]);
}

/// An enumeration that loses a label, in the way of PostgreSQL's manual.
#[test]
fn a_type_that_is_rebuilt() {
    let migrated = "CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (id bigint PRIMARY KEY, m mood);
ALTER TYPE mood RENAME TO mood_old;
CREATE TYPE mood AS ENUM ('ok');
ALTER TABLE t ALTER COLUMN m TYPE mood USING m::text::mood;
DROP TYPE mood_old;";
    let written = "CREATE TYPE mood AS ENUM ('ok');
CREATE TABLE t (id bigint PRIMARY KEY, m mood);";
    same(migrated, written);
}

/// Reported at places of the file: a rename of something undeclared, and a declaration that cannot be rewritten.
#[test]
fn what_is_not_followed_is_reported() {
    let script = script(
        "CREATE TABLE t (id bigint PRIMARY KEY, a integer CHECK (a > 0), b xyz);
CREATE VIEW v AS SELECT a FROM t;
CREATE VIEW w AS SELECT x.id FROM s, t AS x;
ALTER TABLE t RENAME a TO amount;
ALTER TABLE t RENAME TO total;
ALTER TABLE missing RENAME TO found;
ALTER TABLE total ADD CHECK (amount > wrong);",
    );
    let told = skipped(&script);
    let expected = [
        "xyz: unknown type \"xyz\"",
        "CREATE VIEW v AS SELECT a FROM t: a query over \"a\" of \"total\" from before its rename is not supported",
        "CREATE VIEW w AS SELECT x.id FROM s, t AS x: a query over \"t\" from before its rename is not supported",
        "RENAME: ALTER TABLE … RENAME TO is not supported",
        "wrong: column \"wrong\" does not exist",
    ];
    assert_eq!(told, expected);
}

/// MySQL's forms.
#[test]
fn mysql_renames_several_at_once() {
    let migrated = "CREATE TABLE `a` (`id` int NOT NULL AUTO_INCREMENT, `n` int unsigned, PRIMARY KEY (`id`), KEY `by_n` (`n`)) ENGINE=InnoDB;
CREATE TABLE `b` (`id` int NOT NULL, `a` int, PRIMARY KEY (`id`), CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `a` (`id`)) ENGINE=InnoDB;
RENAME TABLE `a` TO `c`, `b` TO `a`;
ALTER TABLE `c` RENAME COLUMN `n` TO `m`;
ALTER TABLE a RENAME d;";
    let written = "CREATE TABLE `c` (`id` int NOT NULL AUTO_INCREMENT, `m` int unsigned, PRIMARY KEY (`id`), KEY `by_n` (`m`)) ENGINE=InnoDB;
CREATE TABLE `d` (`id` int NOT NULL, `a` int, PRIMARY KEY (`id`), CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `c` (`id`)) ENGINE=InnoDB;";
    same(migrated, written);
}

/// A dropped thing is not declared, and another may be created under its name.
#[test]
fn dropped_things_are_not_declared() {
    let migrated = "CREATE TABLE t (id bigint PRIMARY KEY, a integer, b integer, s text);
CREATE UNIQUE INDEX once ON t (a);
CREATE UNIQUE INDEX lowered ON t (lower(s)) WHERE a > 0;
CREATE INDEX CONCURRENTLY many ON t (b);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t; RETURN NEW; END $$;
CREATE TRIGGER fired AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
CREATE RULE r AS ON INSERT TO t DO ALSO DELETE FROM t;
CREATE VIEW v AS SELECT a FROM t;
CREATE MATERIALIZED VIEW m AS SELECT b FROM t;
ALTER INDEX once RENAME TO twice;
CREATE UNIQUE INDEX once ON t (b);
DROP INDEX CONCURRENTLY IF EXISTS public.twice, lowered;
DROP VIEW v;
DROP MATERIALIZED VIEW m;
DROP TRIGGER fired ON t;
DROP RULE r ON t;
DROP FUNCTION f();
DROP INDEX IF EXISTS nothing;
DROP EXTENSION IF EXISTS citext;
CREATE VIEW v AS SELECT b FROM t;
CREATE TABLE gone (id bigint PRIMARY KEY, n integer);
CREATE UNIQUE INDEX of_gone ON gone (n) WHERE n > 0;
CREATE TRIGGER fired AFTER UPDATE ON gone FOR EACH ROW EXECUTE FUNCTION g();
ALTER TABLE gone ADD COLUMN m integer CHECK (m > 0);
DROP TABLE gone;
CREATE TABLE gone (id bigint PRIMARY KEY, m integer);
-- name: Put :exec
UPDATE t SET a = 1 WHERE id = $1;";
    let written = "CREATE TABLE t (id bigint PRIMARY KEY, a integer, b integer, s text);
CREATE INDEX CONCURRENTLY many ON t (b);
CREATE UNIQUE INDEX once ON t (b);
CREATE VIEW v AS SELECT b FROM t;
CREATE TABLE gone (id bigint PRIMARY KEY, m integer);
-- name: Put :exec
UPDATE t SET a = 1 WHERE id = $1;";
    same(migrated, written);
}

/// A drop of an overloaded routine drops none of the routines.
#[test]
fn an_overloaded_routine_stays() {
    let routine = |parameters: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION f({parameters}) RETURNS void LANGUAGE SQL BEGIN ATOMIC DELETE FROM t; END;\n"
        )
    };
    let table = "CREATE TABLE t (id bigint PRIMARY KEY);\n";
    let drop = "DROP FUNCTION f(int);\n";
    let (one, other) = (routine("a int"), routine("b text"));
    for (text, there) in [
        (format!("{table}{one}{drop}"), false),
        (format!("{table}{one}{one}{drop}"), false),
        (format!("{table}{one}{drop}{other}"), true),
        (format!("{table}{one}{other}{drop}"), true),
    ] {
        let script = script(&text);
        let found = script.summaries.iter().any(|s| s.name == "f");
        assert_eq!(found, there, "{text}");
    }
}

/// A trigger of the same name on another table stays; a drop of something undeclared is reported.
#[test]
fn other_things_stay() {
    let script = script(
        "CREATE TABLE t (id bigint PRIMARY KEY, n integer);
CREATE TABLE u (id bigint PRIMARY KEY);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM u; RETURN NEW; END $$;
CREATE TRIGGER fired AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
CREATE TRIGGER fired AFTER UPDATE ON u FOR EACH ROW EXECUTE FUNCTION f();
DROP TRIGGER fired ON u;
DROP INDEX nothing;
-- name: Put :exec
UPDATE t SET n = 1 WHERE id = $1;",
    );
    let triggers = script.skipped.iter().map(|left| left.diagnostic.span);
    let lines: Vec<u32> = triggers
        .flatten()
        .map(|span| {
            script.application.catalog().files[0]
                .line_column(span.start)
                .0
        })
        .collect();
    // The function, the trigger on t, and the statement that drops nothing.
    assert_eq!(lines, [3, 4, 7], "{:#?}", script.skipped);
    assert!(script.summaries[0].unknown.is_some());
}
