//! The system catalogs: what psql and drivers ask of them, compared with what PostgreSQL 15 answers for the same schema.

use std::fmt::Write;

use anabranch_sql::{
    Application, SourceFile,
    client::{ClientContext, ClientPlan, ClientStatementKind, ClientWork, SessionValue, parse},
    expression::text::format_text,
    load, render,
    testing::{Store, ready},
};
use anabranch_types::{DataType, Value};

const SCHEMA: &str = include_str!("system/schema.sql");
const QUERIES: &str = include_str!("system/queries.txt");

fn application(schema: &str) -> Application {
    let files = vec![SourceFile::new("schema.sql", schema)];
    load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, &files)))
}

/// The plan of a query, or why it has none.
fn plan(application: &Application, text: &str) -> Result<ClientPlan, String> {
    let mut statements = parse(text).map_err(|problem| format!("{problem:?}"))?;
    match statements.remove(0).kind {
        ClientStatementKind::Run(runnable) => application
            .client_statement(&runnable, &[])
            .map_err(|problems| format!("{} {}", problems[0].code, problems[0].message)),
        other => Err(format!("{other:?}")),
    }
}

/// A query's rows, a line each, as psql writes them with `-At`.
fn answer(application: &Application, text: &str) -> Result<String, String> {
    let plan = plan(application, text)?;
    let session: Vec<Value> = plan.session_values.iter().map(session_value).collect();
    let result = match &plan.work {
        ClientWork::Constant(constant) => constant
            .evaluate(&session, &ClientContext::at(0))
            .map_err(|error| format!("{} {}", error.code, error.message))?
            .ok_or("it pauses")?,
        // It reads sequences.
        ClientWork::Statement(statement) => {
            let mut store = Store::new(application);
            let run = ready(statement.execute(&mut store.begin(), &session));
            run.map_err(|error| format!("{error:?}"))?
        }
        other => return Err(format!("it is called: {other:?}")),
    };
    let columns = plan.columns.expect("a query has columns");
    let mut out = String::new();
    for row in &result.rows {
        let texts: Vec<String> = row
            .iter()
            .zip(columns.iter())
            .map(|(value, (_, data_type))| format_text(value, data_type))
            .collect();
        let _ = writeln!(out, "{}", texts.join("|"));
    }
    Ok(out)
}

fn session_value(value: &SessionValue) -> Value {
    let list = |names: &[&str]| Value::Array(names.iter().map(Value::text).collect());
    match value {
        SessionValue::CurrentUser | SessionValue::SessionUser => Value::text("postgres"),
        SessionValue::Database => Value::text("s"),
        SessionValue::CurrentSchemas { implicit: false } => list(&["public"]),
        SessionValue::CurrentSchemas { implicit: true } => list(&["pg_catalog", "public"]),
        SessionValue::Cursors(_) => list(&[]),
        other => panic!("{other}"),
    }
}

#[test]
fn queries_have_postgresqls_answers() {
    let application = application(SCHEMA);
    let mut different = Vec::new();
    let mut count = 0;
    for block in QUERIES.split("\n\n") {
        let lines = |mark: &str| -> Vec<&str> {
            block
                .lines()
                .filter_map(|line| line.strip_prefix(mark))
                .collect()
        };
        let text = lines("> ").join("\n");
        if text.is_empty() {
            continue;
        }
        count += 1;
        let expected: String = lines("= ").iter().map(|line| format!("{line}\n")).collect();
        let got = answer(&application, &text);
        if got.as_deref() != Ok(&expected) {
            let got = got.unwrap_or_else(|problem| format!("{problem}\n"));
            different.push(format!(
                "{text}\n----- expected\n{expected}+++++ got\n{got}"
            ));
        }
    }
    assert!(count > 60, "{count} queries");
    assert!(
        different.is_empty(),
        "{} of {count} queries differ:\n{}",
        different.len(),
        different.join("\n=====\n")
    );
}

/// An object's OID does not depend on what other tables declare.
#[test]
fn oids_are_stable() {
    let query = "SELECT oid FROM pg_class WHERE relname IN ('b', 'b_pkey', 'b_n_key')
                 UNION ALL SELECT oid FROM pg_constraint WHERE conname IN ('b_pkey', 'b_n_key')
                 ORDER BY oid";
    let small = "CREATE TABLE a (id int); CREATE TABLE b (id int PRIMARY KEY, n int UNIQUE);";
    let large = "CREATE TABLE a (id serial PRIMARY KEY, n int UNIQUE, CHECK (n > 0));
                 CREATE TABLE b (id int PRIMARY KEY, n int UNIQUE);
                 CREATE TABLE c (id int PRIMARY KEY);
                 CREATE VIEW v AS SELECT * FROM a;";
    let (small, large) = (application(small), application(large));
    let oids = answer(&small, query).unwrap();
    assert_eq!(oids.lines().count(), 5, "{oids}");
    assert_eq!(answer(&large, query).unwrap(), oids);
    assert_eq!(
        answer(&small, "SELECT 'a'::regclass::oid").unwrap(),
        "16384\n"
    );
}

/// No two objects have the same OID, and each column's relation and type is there.
#[test]
fn the_catalogs_agree_with_each_other() {
    let application = application(SCHEMA);
    for nothing in [
        "SELECT oid FROM pg_class GROUP BY oid HAVING count(*) > 1",
        "SELECT attname FROM pg_attribute WHERE attrelid NOT IN (SELECT oid FROM pg_class)",
        "SELECT attname, atttypid FROM pg_attribute WHERE atttypid NOT IN (SELECT oid FROM pg_type)",
        "SELECT relname FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace)",
        "SELECT relname FROM pg_class c WHERE relnatts <>
           (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid)",
        "SELECT typname FROM pg_type WHERE typelem <> 0 AND typelem NOT IN (SELECT oid FROM pg_type)",
        "SELECT conname FROM pg_constraint WHERE conindid <> 0
           AND conindid NOT IN (SELECT indexrelid FROM pg_index)",
        "SELECT adrelid, adnum FROM pg_attrdef d WHERE NOT EXISTS (SELECT 1 FROM pg_attribute
           WHERE attrelid = d.adrelid AND attnum = d.adnum AND atthasdef)",
        "SELECT 1 FROM pg_attribute WHERE atthasdef
           AND (attrelid, attnum) NOT IN (SELECT adrelid, adnum FROM pg_attrdef)",
    ] {
        assert_eq!(
            answer(&application, nothing).as_deref(),
            Ok(""),
            "{nothing}"
        );
    }
}

#[test]
fn every_relation_can_be_read_whole() {
    let application = application(SCHEMA);
    let all = "SELECT n.nspname || '.' || c.relname FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname <> 'public'";
    let names = answer(&application, all).unwrap();
    assert!(names.lines().count() > 60, "{names}");
    for name in names
        .lines()
        .filter(|name| *name != "pg_catalog.pg_settings")
    {
        answer(&application, &format!("SELECT * FROM {name}"))
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let application = application(SCHEMA);
    for (text, refusal) in [
        (
            "SELECT * FROM pg_catalog.pg_nothing",
            "42P01 relation \"pg_catalog.pg_nothing\" does not exist",
        ),
        (
            "SELECT 'nothing'::regclass",
            "42P01 relation \"nothing\" does not exist",
        ),
        (
            "SELECT 'nothing'::regtype",
            "42704 type \"nothing\" does not exist",
        ),
        ("SELECT 'a b'::regclass", "42602 invalid name syntax"),
        (
            "SELECT 'a' ~ '('",
            "2201B invalid regular expression: parentheses () not balanced",
        ),
        ("SELECT -1::oid", "42883 operator does not exist: - oid"),
        ("SELECT (-1)::oid", "22003 OID out of range"),
        (
            "SELECT 'x'::oid",
            "22P02 invalid input syntax for type oid: \"x\"",
        ),
        (
            "SELECT rank()",
            "42809 window function rank requires an OVER clause",
        ),
        (
            "SELECT 1 WHERE row_number() OVER () = 1",
            "42P20 window functions are not allowed in WHERE",
        ),
        (
            "INSERT INTO pg_class (oid) VALUES (1)",
            "42P01 relation \"pg_class\" does not exist",
        ),
    ] {
        assert_eq!(
            answer(&application, text),
            Err(refusal.to_owned()),
            "{text}"
        );
    }
}

/// A table of the application that has a catalog's name is found with its schema.
#[test]
fn the_catalogs_come_before_the_application() {
    let application = application("CREATE TABLE pg_class (id int PRIMARY KEY);");
    assert_eq!(
        answer(
            &application,
            "SELECT count(*) FROM pg_class WHERE relname = 'pg_class'"
        ),
        Ok("2\n".to_owned())
    );
    let own = plan(&application, "SELECT id FROM public.pg_class").unwrap();
    assert!(matches!(own.work, ClientWork::Statement(_)));
    let columns = own.columns.unwrap();
    assert_eq!(columns[..], [("id".to_owned(), DataType::Int4)]);
}

/// What psql's `\dT+` and drivers ask of types.
#[test]
fn enumerations_are_types() {
    let application = application(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE TABLE t (
             id integer PRIMARY KEY, m mood NOT NULL DEFAULT 'ok', ms mood[],
             CHECK (m = ANY (ARRAY['sad'::public.mood, 'ok'::public.mood]))
         );
         CREATE FUNCTION f(a mood) RETURNS mood LANGUAGE sql AS 'SELECT a';
         CREATE FUNCTION g() RETURNS TABLE (a mood) LANGUAGE sql AS 'SELECT m FROM t';",
    );
    for (query, expected) in [
        (
            "SELECT n.nspname AS \"Schema\", pg_catalog.format_type(t.oid, NULL) AS \"Name\", t.typname,
                 CASE WHEN t.typrelid != 0 THEN CAST('tuple' AS pg_catalog.text)
                      WHEN t.typlen < 0 THEN CAST('var' AS pg_catalog.text)
                      ELSE CAST(t.typlen AS pg_catalog.text) END AS \"Size\",
                 pg_catalog.array_to_string(ARRAY(
                     SELECT e.enumlabel FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder
                 ), '+') AS \"Elements\",
                 pg_catalog.pg_get_userbyid(t.typowner) AS \"Owner\",
                 pg_catalog.obj_description(t.oid, 'pg_type') AS \"Description\"
             FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
             WHERE (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid))
                 AND NOT EXISTS (
                     SELECT 1 FROM pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid
                 )
                 AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'
                 AND pg_catalog.pg_type_is_visible(t.oid)
             ORDER BY 1, 2",
            "public|mood|mood|4|sad+ok+happy|postgres|\n",
        ),
        (
            "SELECT column_name, data_type, udt_schema, udt_name, column_default FROM information_schema.columns
             WHERE table_name = 't' ORDER BY ordinal_position",
            "id|integer|pg_catalog|int4|\nm|USER-DEFINED|public|mood|'ok'::mood\nms|ARRAY|public|_mood|\n",
        ),
        (
            "SELECT routine_name, data_type, type_udt_schema, type_udt_name FROM information_schema.routines
             ORDER BY routine_name",
            "f|USER-DEFINED|public|mood\ng|USER-DEFINED|public|mood\n",
        ),
        (
            "SELECT pg_get_function_result(oid), pg_get_function_arguments(oid) FROM pg_proc
             WHERE proname IN ('f', 'g') ORDER BY proname",
            "mood|a mood\nTABLE(a mood)|\n",
        ),
        (
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 't_m_check'",
            "CHECK ((m = ANY (ARRAY['sad'::mood, 'ok'::mood])))\n",
        ),
        // psycopg's TypeInfo, and its EnumInfo.
        (
            "SELECT t.typname AS name, t.oid > 16384 AS own, t.typarray::bigint - t.oid::bigint AS array,
                 t.oid::regtype::text AS regtype, t.typdelim AS delimiter
             FROM pg_type t WHERE t.oid = to_regtype('mood') ORDER BY t.oid",
            "mood|t|1|mood|,\n",
        ),
        (
            "SELECT name, array_agg(label) AS labels FROM (
                 SELECT t.typname AS name, e.enumlabel AS label FROM pg_type t
                 LEFT JOIN pg_enum e ON e.enumtypid = t.oid
                 WHERE t.oid = to_regtype('mood') ORDER BY e.enumsortorder
             ) x GROUP BY name",
            "mood|{sad,ok,happy}\n",
        ),
        // A part of asyncpg's, of domains, which there are not.
        (
            "SELECT t.typname, CASE WHEN t.typtype = 'd' THEN (
                 WITH RECURSIVE bases (oid, depth) AS (
                     SELECT b.typbasetype, 0 FROM pg_type b WHERE b.oid = t.oid
                     UNION ALL
                     SELECT b.typbasetype, bases.depth + 1 FROM pg_type b, bases
                     WHERE bases.oid = b.oid AND b.typbasetype != 0
                 ) SELECT oid FROM bases ORDER BY depth DESC LIMIT 1
             ) END FROM pg_type t WHERE t.oid = 'mood'::regtype",
            "mood|\n",
        ),
        // pgjdbc, of a type that it does not know.
        (
            "SELECT n.nspname = ANY (current_schemas(true)), n.nspname, t.typname FROM pg_catalog.pg_type t
             JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid WHERE t.oid = 'mood'::regtype",
            "t|public|mood\n",
        ),
        (
            "SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array, typtype, typname, pg_type.oid > 0
             FROM pg_catalog.pg_type WHERE typname = 'mood'",
            "f|e|mood|t\n",
        ),
    ] {
        assert_eq!(answer(&application, query).as_deref(), Ok(expected), "{query}");
    }
}

/// Generated columns, as psql's `\d`, pg_dump and information_schema show them.
#[test]
fn generated_columns_have_their_expressions() {
    let application = application(
        "CREATE TABLE t (
             a integer DEFAULT 3, b bigint GENERATED ALWAYS AS (a * 2) STORED, c text,
             d text GENERATED ALWAYS AS (lower(t.c) || 'x') STORED, e integer GENERATED ALWAYS AS (a) STORED
         );",
    );
    for (query, expected) in [
        (
            "SELECT attname, attgenerated, atthasdef, attidentity,
                 (SELECT pg_get_expr(d.adbin, d.adrelid, true) FROM pg_attrdef d
                  WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef)
             FROM pg_attribute a WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum",
            "a||t||3\nb|s|t||(a * 2)\nc||f||\nd|s|t||lower(c) || 'x'::text\ne|s|t||a\n",
        ),
        (
            "SELECT column_name, column_default, is_generated, generation_expression, is_updatable
             FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position",
            "a|3|NEVER||YES\nb||ALWAYS|(a * 2)|YES\nc||NEVER||YES\nd||ALWAYS|(lower(c) || 'x'::text)|YES\n\
             e||ALWAYS|a|YES\n",
        ),
        (
            "SELECT a.adnum, d.refobjsubid, d.deptype FROM pg_depend d JOIN pg_attrdef a ON a.oid = d.objid
             WHERE d.classid = 'pg_attrdef'::regclass ORDER BY 1, 2",
            "1|1|a\n2|1|n\n2|2|i\n4|3|n\n4|4|i\n5|1|n\n5|5|i\n",
        ),
    ] {
        assert_eq!(answer(&application, query).as_deref(), Ok(expected), "{query}");
    }
}

/// Indexes of expressions and partial indexes, as psql's `\d`, pg_dump and information_schema show them.
#[test]
fn indexes_have_their_expressions() {
    let application = application(
        "CREATE TABLE o (id integer PRIMARY KEY, t integer, name text);
         CREATE INDEX o_name ON o (upper(name)) WHERE t IS NOT NULL AND id > 0;
         CREATE INDEX o_sum ON o (id, (id + t), (name IS NULL));
         CREATE UNIQUE INDEX o_some ON o (t) WHERE name = 'x';",
    );
    for (query, expected) in [
        (
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'o' ORDER BY ordinal_position",
            "id\nt\nname\n",
        ),
        (
            "SELECT c.relname, attname, attnum, format_type(atttypid, atttypmod) FROM pg_attribute a
             JOIN pg_class c ON c.oid = attrelid WHERE relname LIKE 'o%' AND attnum > 0 ORDER BY 1, 3",
            "o|id|1|integer\no|t|2|integer\no|name|3|text\no_name|upper|1|text\no_pkey|id|1|integer\n\
             o_some|t|1|integer\no_sum|id|1|integer\no_sum|expr|2|integer\no_sum|expr1|3|boolean\n",
        ),
        (
            "SELECT c.relname, indkey, pg_get_expr(indexprs, indrelid), pg_get_expr(indpred, indrelid),
                 pg_get_expr(indpred, indrelid, true), pg_get_indexdef(indexrelid, 1, true)
             FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'o'::regclass ORDER BY 1",
            "o_name|0|upper(name)|((t IS NOT NULL) AND (id > 0))|t IS NOT NULL AND id > 0|upper(name)\n\
             o_pkey|1||||id\no_some|2||(name = 'x'::text)|name = 'x'::text|t\n\
             o_sum|1 0 0|(id + t), (name IS NULL)|||id\n",
        ),
        (
            "SELECT pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 0, true), pg_get_indexdef(indexrelid, 2, true)
             FROM pg_index JOIN pg_class c ON c.oid = indexrelid
             WHERE indrelid = 'o'::regclass AND NOT indisprimary ORDER BY relname",
            "CREATE INDEX o_name ON public.o USING btree (upper(name)) WHERE ((t IS NOT NULL) AND (id > 0))|\
             CREATE INDEX o_name ON o USING btree (upper(name)) WHERE t IS NOT NULL AND id > 0|\n\
             CREATE UNIQUE INDEX o_some ON public.o USING btree (t) WHERE (name = 'x'::text)|\
             CREATE UNIQUE INDEX o_some ON o USING btree (t) WHERE name = 'x'::text|\n\
             CREATE INDEX o_sum ON public.o USING btree (id, ((id + t)), ((name IS NULL)))|\
             CREATE INDEX o_sum ON o USING btree (id, (id + t), (name IS NULL))|(id + t)\n",
        ),
    ] {
        assert_eq!(answer(&application, query).as_deref(), Ok(expected), "{query}");
    }
}
