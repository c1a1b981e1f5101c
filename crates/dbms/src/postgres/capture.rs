//! The triggers that capture what a global operation changes, as SQL.
//!
//! A replicated table has a statement trigger for each kind of statement. It writes what changed into a temporary table
//! of the connection, in the operation's own transaction: for each row its kind, its key, the columns that changed, and
//! their new values. Values are PostgreSQL's own text form of the table's row, which every type reads back exactly; a column
//! that did not change is NULL in it. Whole rows would overwrite columns that local operations of the receiver own.
//!
//! The order in which triggers fire is not the order of the changes: a user's trigger that changes a row again fires
//! before the statement trigger that captures the first change. So order is not recorded. Instead `anabranch.seal`, which runs
//! after the last statement, reads the final state of each row that was changed more than once (`net`). Then the operation
//! has one change for each row, and all of them become one row of `anabranch.outbox`.
//!
//! # What it costs
//!
//! A function with `SET` clauses changes the settings at each call and back, which costs as much as a statement. So the
//! triggers have none: their names and operators are all qualified, since they run under the search path of the writer,
//! and the settings that texts depend on are changed only where they differ. The table of changes is emptied by `seal`, row
//! by row: to truncate it at each commit, as `ON COMMIT DELETE ROWS` does, takes longer than to capture seven rows.
//!
//! # Who may write
//!
//! The setting `anabranch.hop` of the connection says what runs: a number, for a global operation under that hop;
//! `local`, for a local one; `provisional`, for a transaction of which is not known yet which it is, and which runs again
//! if it is global. Without it a write to a replicated table is refused, since no other server would learn of
//! it. A local operation may write only tables that are not whole: there some rows and columns belong to one server.

use super::catalog::{Column, Table, TextSetting};
use super::{literal, quoted};

/// A table whose changes by global operations all servers get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatedTable {
    /// Its number, the same on all servers.
    pub number: i16,
    /// The table.
    pub table: Table,
    /// Whether every server has all of its rows, and local operations never write it.
    pub is_whole: bool,
}

/// The statement kinds that are captured, with their transition tables.
const EVENTS: [(&str, &str); 4] = [
    ("insert", "REFERENCING NEW TABLE AS new_rows"),
    (
        "update",
        "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    ),
    ("delete", "REFERENCING OLD TABLE AS old_rows"),
    ("truncate", ""),
];

/// Functions here run with the rights of the role that has installed them, and write to a temporary table of the connection.
/// A table that another role has put in its place could have triggers, which would then run with these rights.
///
/// It is a statement of its own, before those that name the table: PostgreSQL plans each when it is first run, and while it plans
/// one it computes what it takes for constants of a view.
const IS_OWN: &str = "EXISTS (SELECT FROM pg_catalog.pg_class c \
    WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('pg_temp.anabranch_changes') \
    AND c.relkind OPERATOR(pg_catalog.=) 'r' AND NOT c.relhastriggers AND NOT c.relhasrules \
    AND c.relowner OPERATOR(pg_catalog.=) pg_catalog.to_regrole(pg_catalog.quote_ident(current_user)))";

const IS_FOREIGN: &str = "RAISE EXCEPTION 'the table of changes of this connection is not the belt''s' \
    USING ERRCODE = '42501', HINT = 'Reconnect.';";

/// The bytes that the table of changes may grow to before the next operation truncates it. `seal` deletes its rows, and
/// PostgreSQL reuses most of their room, but not all.
const CHANGES_BYTES_MAX: u32 = 1 << 20;

/// PostgreSQL's own operators, whatever the search path.
const EQUAL: &str = "OPERATOR(pg_catalog.=)";
const DIFFERENT: &str = "OPERATOR(pg_catalog.<>)";
const JOINED: &str = "OPERATOR(pg_catalog.||)";

/// Statements of a trigger that write texts under the settings that these depend on.
#[derive(Default)]
struct SettingsInPlace {
    /// Declarations.
    declared: String,
    /// What changes the settings that differ.
    set: String,
    /// What changes them back.
    reset: String,
}

impl ReplicatedTable {
    /// The names of its triggers.
    pub fn triggers() -> impl Iterator<Item = String> {
        EVENTS.iter().map(|(event, _)| format!("anabranch_{event}"))
    }

    /// Creates its triggers and their functions.
    pub fn capture(&self) -> String {
        let mut script = String::new();
        let SettingsInPlace {
            declared,
            set,
            reset,
        } = self.settings_in_place();
        for (event, transitions) in EVENTS {
            let function = format!("anabranch.{event}_{}", self.number);
            let body = match event {
                "insert" => self.captured_rows("I", "new_rows"),
                "delete" => self.captured_rows("D", "old_rows"),
                "update" => self.captured_update(),
                _ => format!(
                    "INSERT INTO pg_temp.anabranch_changes (relation, kind, key) \
                     VALUES ({}, 'T', '');",
                    self.number
                ),
            };
            script.push_str(&format!(
                "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $capture$\n\
                 DECLARE hop pg_catalog.text := pg_catalog.current_setting('anabranch.hop', true);{declared}\n\
                 BEGIN\n    \
                 {guard}\n    \
                 {set}{body}{reset}\n    \
                 RETURN NULL;\n\
                 END\n\
                 $capture$;\n\
                 CREATE TRIGGER anabranch_{event} AFTER {upper} ON {path} {transitions} FOR EACH STATEMENT \
                 EXECUTE FUNCTION {function}();\n",
                guard = self.guard(),
                upper = event.to_uppercase(),
                path = self.table.path(),
            ));
        }
        script.push_str(&self.net());
        script
    }

    /// What a trigger does before it captures anything.
    fn guard(&self) -> String {
        let title = literal(&self.table.title());
        let local = match self.is_whole {
            false => format!("IF hop {EQUAL} 'local' THEN RETURN NULL; END IF;"),
            true => format!(
                "IF hop {EQUAL} 'local' THEN RAISE EXCEPTION 'a local operation writes \"%\", which all servers have', {title} \
                 USING ERRCODE = '55000', HINT = 'It has to be called as the operation that the application declares.'; END IF;"
            ),
        };
        let wrote = match self.is_whole {
            true => "PERFORM pg_catalog.set_config('anabranch.wrote', 'on', true); ",
            false => "",
        };
        format!(
            "{local}\n    \
             IF hop IS NULL OR hop {EQUAL} '' THEN RAISE EXCEPTION 'rows of \"%\" are on several servers, and this connection is not one of the belt''s', {title} \
             USING ERRCODE = '55000', HINT = 'Connect to the middleware of the belt instead of to this server.'; END IF;\n    \
             IF hop {EQUAL} 'provisional' THEN {wrote}RETURN NULL; END IF;\n    \
             IF NOT {IS_OWN} THEN {IS_FOREIGN} END IF;\n    \
             IF hop {EQUAL} 'sealed' THEN RAISE EXCEPTION 'rows of \"%\" change after the end of the operation', {title} \
             USING ERRCODE = '55000'; END IF;"
        )
    }

    /// The settings that the text form of its columns depends on, with their values.
    fn settings(&self) -> Vec<TextSetting> {
        let mut settings = Vec::new();
        for setting in self.table.columns.iter().flat_map(|c| c.text_depends_on) {
            if !settings.contains(setting) {
                settings.push(*setting);
            }
        }
        settings
    }

    /// `SET` clauses for these settings.
    fn set_clauses(&self) -> String {
        let clauses = self.settings().into_iter();
        let clauses = clauses.filter(|(name, _)| *name != "search_path");
        clauses
            .map(|(name, value)| format!(" SET {name} = {}", literal(value)))
            .collect()
    }

    /// Changes those of the settings that differ, and changes them back. (An error changes them back, too.)
    fn settings_in_place(&self) -> SettingsInPlace {
        let mut all = SettingsInPlace::default();
        for (place, (name, value)) in self.settings().into_iter().enumerate() {
            let (was, name) = (format!("was_{place}"), literal(name));
            let wanted = literal(value);
            let differs = match value {
                // The order of day and month that follows is one of input.
                "ISO" => format!("pg_catalog.left({was}, 3) {DIFFERENT} {wanted}"),
                // Above that are the same digits.
                "1" => format!("{was} {DIFFERENT} ALL (ARRAY['1', '2', '3'])"),
                _ => format!("{was} {DIFFERENT} {wanted}"),
            };
            all.declared.push_str(&format!(
                " {was} pg_catalog.text := pg_catalog.current_setting({name});"
            ));
            all.set.push_str(&format!(
                "IF {differs} THEN PERFORM pg_catalog.set_config({name}, {wanted}, true); END IF;\n    "
            ));
            all.reset.push_str(&format!(
                "\n    IF {differs} THEN PERFORM pg_catalog.set_config({name}, {was}, true); END IF;"
            ));
        }
        all
    }

    /// The text of a row with the given value for each column.
    fn image(&self, value: impl Fn(usize, &Column) -> String) -> String {
        let columns = self.table.columns.iter().enumerate();
        let values: Vec<String> = columns.map(|(place, c)| value(place, c)).collect();
        format!("ROW({})::pg_catalog.text", values.join(", "))
    }

    /// The text of a row's key.
    fn key(&self, of: &str) -> String {
        let columns: Vec<String> = self
            .table
            .key_columns()
            .map(|c| format!("{of}.{}", quoted(&c.name)))
            .collect();
        format!("ROW({})::pg_catalog.text", columns.join(", "))
    }

    fn captured_rows(&self, kind: &str, rows: &str) -> String {
        let image = self.image(|place, column| {
            match kind == "I" && !column.is_generated || self.table.key.contains(&place) {
                true => format!("r.{}", quoted(&column.name)),
                false => "NULL".to_owned(),
            }
        });
        format!(
            "INSERT INTO pg_temp.anabranch_changes (relation, kind, key, image) \
             SELECT {}, '{kind}', {}, {image} FROM {rows} r;",
            self.number,
            self.key("r"),
        )
    }

    /// Rows are the same before and after by their key: one whose key changed is deleted and inserted. So is one whose key is
    /// equal and not identical, such as `1.0` and `1.00`.
    fn captured_update(&self) -> String {
        let is_key = |place: usize| self.table.key.contains(&place);
        let same: Vec<String> = self
            .table
            .key_columns()
            .map(|c| {
                let name = quoted(&c.name);
                match c.equal_may_differ {
                    false => format!("o.{name} {EQUAL} n.{name}"),
                    true => format!(
                        "ROW(o.{name})::pg_catalog.text {EQUAL} ROW(n.{name})::pg_catalog.text"
                    ),
                }
            })
            .collect();
        let first = quoted(&self.table.columns[self.table.key[0]].name);
        let changed = |column: &Column| {
            let name = quoted(&column.name);
            format!("pg_catalog.record_image_ne(ROW(o.{name}), ROW(n.{name}))")
        };
        let written = |place: usize, column: &Column| !is_key(place) && !column.is_generated;
        let columns = self.table.columns.iter().enumerate();
        let bits: Vec<String> = columns
            .map(|(place, column)| match written(place, column) {
                true => format!("CASE WHEN {} THEN B'1' ELSE B'0' END", changed(column)),
                false => "B'0'".to_owned(),
            })
            .collect();
        // `x IS NULL` is also true of a composite value all of whose fields are NULL; `IS NOT DISTINCT FROM NULL` is not.
        // Of a row that is there before and after, the columns that changed; of a new one all; of a deleted one none.
        let image = self.image(|place, column| {
            let name = quoted(&column.name);
            match written(place, column) {
                _ if is_key(place) => format!("COALESCE(n.{name}, o.{name})"),
                true => format!(
                    "CASE WHEN o.{first} IS NOT DISTINCT FROM NULL OR {} THEN n.{name} END",
                    changed(column)
                ),
                false => "NULL".to_owned(),
            }
        });
        let key: Vec<String> = self
            .table
            .key_columns()
            .map(|c| format!("COALESCE(n.{0}, o.{0})", quoted(&c.name)))
            .collect();
        let of_both = |row: &str| {
            let columns = self.table.columns.iter().enumerate();
            let written = columns.filter(|(place, column)| written(*place, column));
            let values: Vec<String> = written
                .map(|(_, column)| format!("{row}.{}", quoted(&column.name)))
                .collect();
            format!("ROW({})", values.join(", "))
        };
        format!(
            "INSERT INTO pg_temp.anabranch_changes (relation, kind, columns, key, image) \
             SELECT {number}, CASE WHEN n.{first} IS NOT DISTINCT FROM NULL THEN 'D' WHEN o.{first} IS NOT DISTINCT FROM NULL THEN 'I' ELSE 'U' END, \
             CASE WHEN n.{first} IS DISTINCT FROM NULL AND o.{first} IS DISTINCT FROM NULL THEN {bits} END, \
             ROW({key})::pg_catalog.text, {image} \
             FROM old_rows o FULL JOIN new_rows n ON {same} \
             WHERE n.{first} IS NOT DISTINCT FROM NULL OR o.{first} IS NOT DISTINCT FROM NULL OR pg_catalog.record_image_ne({before}, {after});",
            number = self.number,
            bits = bits.join(&format!(" {JOINED} ")),
            key = key.join(", "),
            same = same.join(" AND "),
            before = of_both("o"),
            after = of_both("n"),
        )
    }

    /// Replaces the changes of rows that were changed more than once by one change each, with the row's final state.
    fn net(&self) -> String {
        let path = self.table.path();
        let at_key = |row: &str| {
            self.table
                .key_columns()
                .map(|c| {
                    let name = quoted(&c.name);
                    format!("t.{name} OPERATOR(pg_catalog.=) ({row}).{name}")
                })
                .collect::<Vec<_>>()
                .join(" AND ")
        };
        let first = quoted(&self.table.columns[self.table.key[0]].name);
        let is_key = |place: usize| self.table.key.contains(&place);
        let inserted = self.image(|_, column| match column.is_generated {
            false => format!("t.{}", quoted(&column.name)),
            true => "NULL".to_owned(),
        });
        let updated = self.image(|place, column| {
            let name = quoted(&column.name);
            match is_key(place) {
                true => format!("t.{name}"),
                false if column.is_generated => "NULL".to_owned(),
                false => {
                    format!("CASE WHEN pg_catalog.get_bit(c.columns, {place}) OPERATOR(pg_catalog.=) 1 THEN t.{name} END")
                }
            }
        });
        let all: String = self
            .table
            .columns
            .iter()
            .enumerate()
            .map(
                |(place, column)| match is_key(place) || column.is_generated {
                    true => '0',
                    false => '1',
                },
            )
            .collect();
        format!(
            "CREATE FUNCTION anabranch.net_{number}() RETURNS void LANGUAGE plpgsql SECURITY DEFINER \
             SET search_path = pg_catalog, pg_temp{settings} AS $net$\n\
             BEGIN\n    \
             IF EXISTS (SELECT FROM pg_temp.anabranch_changes WHERE relation = {number} AND kind = 'T') THEN\n        \
             DELETE FROM pg_temp.anabranch_changes WHERE relation = {number};\n        \
             INSERT INTO pg_temp.anabranch_changes (relation, kind, key) VALUES ({number}, 'T', '');\n        \
             INSERT INTO pg_temp.anabranch_changes (relation, kind, key, image) \
             SELECT {number}, 'I', {key}, {inserted} FROM {path} t;\n        \
             RETURN;\n    \
             END IF;\n    \
             WITH several AS (SELECT key FROM pg_temp.anabranch_changes WHERE relation = {number} GROUP BY key HAVING count(*) > 1), \
             removed AS (DELETE FROM pg_temp.anabranch_changes c USING several s WHERE c.relation = {number} AND c.key = s.key RETURNING c.key, c.kind, c.columns, c.image), \
             rows AS (SELECT key, (min(image))::{path} AS image, \
             count(*) FILTER (WHERE kind = 'I') - count(*) FILTER (WHERE kind = 'D') AS gained, \
             bit_or(CASE kind WHEN 'U' THEN columns ELSE B'{all}' END) AS columns FROM removed GROUP BY key), \
             now AS (SELECT c.key, c.image, c.columns, t.{first} IS DISTINCT FROM NULL AS is_there, \
             (t.{first} IS DISTINCT FROM NULL)::int - c.gained = 1 AS was_there, {inserted} AS inserted, {updated} AS updated \
             FROM rows c LEFT JOIN {path} t ON {at_key}) \
             INSERT INTO pg_temp.anabranch_changes (relation, kind, columns, key, image) \
             SELECT {number}, \
             CASE WHEN NOT is_there THEN 'D' WHEN was_there THEN 'U' ELSE 'I' END, \
             CASE WHEN is_there AND was_there THEN columns END, key, \
             CASE WHEN NOT is_there THEN image::text WHEN was_there THEN updated ELSE inserted END \
             FROM now WHERE is_there OR was_there;\n\
             END\n\
             $net$;\n",
            number = self.number,
            settings = self.set_clauses(),
            key = self.key("t"),
            at_key = at_key("c.image"),
        )
    }
}

/// Creates `anabranch.prepare`, which makes a connection ready for global operations, and `anabranch.enter` and
/// `anabranch.seal`, which begin and end one.
///
/// A connection's changes are in a temporary table until the end of the operation: a table that all operations share
/// would have them conflict with each other under PostgreSQL's serializable isolation, by the pages of its index.
pub fn seal(tables: &[ReplicatedTable]) -> String {
    let net: Vec<String> = tables
        .iter()
        .map(|table| {
            format!(
                "WHEN again {EQUAL} {0} THEN PERFORM anabranch.net_{0}();",
                table.number
            )
        })
        .collect();
    let net = match net.is_empty() {
        true => String::new(),
        false => format!(
            "FOR again IN SELECT DISTINCT c.relation FROM (SELECT n.relation FROM pg_temp.anabranch_changes n GROUP BY n.relation, n.key {SEVERAL}) c LOOP\n        \
             CASE\n            {}\n        END CASE;\n    \
             END LOOP;",
            net.join("\n            ")
        ),
    };
    format!(
        "CREATE FUNCTION anabranch.prepare() RETURNS void LANGUAGE plpgsql SECURITY DEFINER \
         SET search_path = pg_catalog, pg_temp AS $prepare$\n\
         BEGIN\n    \
         IF to_regclass('pg_temp.anabranch_changes') IS NOT NULL THEN\n        \
         IF NOT {IS_OWN} THEN {IS_FOREIGN} END IF;\n        \
         RETURN;\n    \
         END IF;\n    \
         CREATE TEMP TABLE anabranch_changes (relation smallint NOT NULL, kind \"char\" NOT NULL, columns varbit, \
         key text NOT NULL, image text);\n\
         END\n\
         $prepare$;\n\
         CREATE FUNCTION anabranch.enter(asked bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $enter$\n\
         DECLARE held bigint;\n\
         BEGIN\n    \
         SELECT h.received INTO held FROM anabranch.hold h WHERE h.passed OPERATOR(pg_catalog.<) h.received \
         AND h.promised {EQUAL} h.epoch AND h.promised_server {EQUAL} h.epoch_server;\n    \
         IF held IS NULL OR held {DIFFERENT} asked THEN RAISE EXCEPTION 'hop % is not held here', asked \
         USING ERRCODE = '40001', DETAIL = pg_catalog.format('The hold is of hop %s.', held); END IF;\n    \
         IF NOT {IS_OWN} THEN {IS_FOREIGN} END IF;\n    \
         IF (EXISTS (SELECT FROM pg_temp.anabranch_changes) \
         OR pg_catalog.pg_relation_size('pg_temp.anabranch_changes') OPERATOR(pg_catalog.>) {CHANGES_BYTES_MAX}) \
         AND pg_catalog.current_setting('transaction_read_only') {EQUAL} 'off' \
         AND COALESCE(pg_catalog.current_setting('anabranch.hop', true), '') OPERATOR(pg_catalog.!~) '^[0-9]' THEN\n        \
         TRUNCATE pg_temp.anabranch_changes;\n    \
         END IF;\n    \
         PERFORM pg_catalog.set_config('anabranch.hop', asked::pg_catalog.text, true);\n    \
         RETURN held;\n\
         END\n\
         $enter$;\n\
         CREATE FUNCTION anabranch.settle() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $settle$\n\
         BEGIN\n    \
         IF pg_catalog.current_setting('anabranch.wrote', true) {EQUAL} 'on' THEN RAISE EXCEPTION 'the transaction has written rows of all servers, and was not global' \
         USING ERRCODE = '55000'; END IF;\n\
         END\n\
         $settle$;\n\
         CREATE FUNCTION anabranch.seal() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $seal$\n\
         DECLARE drawn bigint; again smallint; hop pg_catalog.text := pg_catalog.current_setting('anabranch.hop', true);\n\
         BEGIN\n    \
         PERFORM pg_catalog.set_config('anabranch.hop', 'sealed', true);\n    \
         IF NOT {IS_OWN} THEN {IS_FOREIGN} END IF;\n    \
         IF NOT EXISTS (SELECT FROM pg_temp.anabranch_changes) THEN RETURN NULL; END IF;\n    \
         {net}\n    \
         WITH gone AS (DELETE FROM pg_temp.anabranch_changes RETURNING *) \
         INSERT INTO anabranch.outbox (number, hop, relations, kinds, columns, images) \
         SELECT pg_catalog.nextval('anabranch.number'), hop::bigint, pg_catalog.array_agg(c.relation), pg_catalog.array_agg(c.kind), \
         pg_catalog.array_agg(c.columns), pg_catalog.array_agg(c.image) FROM gone c \
         HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0 RETURNING number INTO drawn;\n    \
         RETURN drawn;\n\
         END\n\
         $seal$;\n",
    )
}

/// Rows that were changed more than once, or a table that was truncated.
const SEVERAL: &str = "HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 \
    OR pg_catalog.bool_or(n.kind OPERATOR(pg_catalog.=) 'T')";
