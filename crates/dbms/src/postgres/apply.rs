//! The functions that apply another server's changes, as SQL.
//!
//! They run in the role of a replica (`session_replication_role`): no trigger fires, so nothing is captured again and no
//! user's trigger does its work twice; no foreign key is checked, since rows that only the sender has may be referred to.
//!
//! Changes of one operation come together, one for each row. In a table whose rows have further unique values, a row may
//! take a value that another one gives up in the same operation. So there all rows concerned are deleted and then
//! inserted, with the changed columns replaced.

use super::capture::ReplicatedTable;
use super::catalog::Column;
use super::{literal, quoted};

impl ReplicatedTable {
    fn same_key(&self, one: &str, other: &str) -> String {
        self.table
            .key_columns()
            .map(|c| {
                let name = quoted(&c.name);
                format!("{one}.{name} = {other}.{name}")
            })
            .collect::<Vec<_>>()
            .join(" AND ")
    }

    /// The columns that have values of their own.
    fn written(&self) -> Vec<(usize, &Column)> {
        let columns = self.table.columns.iter().enumerate();
        columns.filter(|(_, c)| !c.is_generated).collect()
    }

    /// The rows of changes of the given kinds, with their columns and `changed`.
    fn rows(&self, kinds: &str) -> String {
        let columns: Vec<String> = self
            .written()
            .iter()
            .map(|(_, c)| format!("(c.r).{0} AS {0}", quoted(&c.name)))
            .collect();
        // OFFSET 0 keeps the text from being read again for each column.
        format!(
            "(SELECT c.kind, c.changed, {} FROM (SELECT u.kind, u.changed, u.image::{} AS r \
             FROM unnest(kinds, changes, images) AS u(kind, changed, image) WHERE u.kind IN ({kinds}) OFFSET 0) c)",
            columns.join(", "),
            self.table.path()
        )
    }

    /// Creates the function that applies changes of this table.
    pub fn apply(&self) -> String {
        let path = self.table.path();
        let names: Vec<String> = self
            .written()
            .iter()
            .map(|(_, c)| quoted(&c.name))
            .collect();
        let names = names.join(", ");
        let merged = |(place, column): &(usize, &Column), now: &str| {
            let name = quoted(&column.name);
            match self.table.key.contains(place) {
                true => format!("u.{name}"),
                false => {
                    format!(
                        "CASE WHEN get_bit(u.changed, {place}) = 1 THEN u.{name} ELSE {now}.{name} END"
                    )
                }
            }
        };
        let expect = |what: &str, kind: &str| match self.is_whole {
            false => String::new(),
            true => format!(
                "GET DIAGNOSTICS done = ROW_COUNT;\n    \
                 IF done <> (SELECT count(*) FROM unnest(kinds) AS k(kind) WHERE k.kind = '{kind}') THEN \
                 RAISE EXCEPTION 'the servers differ: rows of \"%\" that another server {what} are not here', {} \
                 USING ERRCODE = 'XX001'; END IF;",
                literal(&self.table.title())
            ),
        };
        let deletes = format!(
            "DELETE FROM {path} t USING {} u WHERE {};\n    {}",
            self.rows("'D'"),
            self.same_key("t", "u"),
            expect("deletes", "D")
        );
        let inserts = format!(
            "INSERT INTO {path} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM {} u;",
            self.rows("'I'")
        );
        let updates = match self.table.has_other_unique {
            false => {
                let assignments: Vec<String> = self
                    .written()
                    .iter()
                    .filter(|(place, _)| !self.table.key.contains(place))
                    .map(|column| format!("{} = {}", quoted(&column.1.name), merged(column, "t")))
                    .collect();
                match assignments.is_empty() {
                    true => String::new(),
                    false => format!(
                        "UPDATE {path} t SET {} FROM {} u WHERE {};\n    {}",
                        assignments.join(", "),
                        self.rows("'U'"),
                        self.same_key("t", "u"),
                        expect("updates", "U")
                    ),
                }
            }
            true => {
                let values: Vec<String> = self.written().iter().map(|c| merged(c, "t")).collect();
                format!(
                    "CREATE TEMP TABLE IF NOT EXISTS anabranch_rows_{number} (LIKE {path}) ON COMMIT DELETE ROWS;\n    \
                     WITH gone AS (DELETE FROM {path} t USING {rows} u WHERE {same} RETURNING {values}) \
                     INSERT INTO pg_temp.anabranch_rows_{number} ({names}) SELECT * FROM gone;\n    \
                     {expected}\n    \
                     INSERT INTO {path} ({names}) OVERRIDING SYSTEM VALUE SELECT {names} FROM pg_temp.anabranch_rows_{number};\n    \
                     DELETE FROM pg_temp.anabranch_rows_{number};",
                    number = self.number,
                    rows = self.rows("'U'"),
                    same = self.same_key("t", "u"),
                    values = values.join(", "),
                    expected = expect("updates", "U"),
                )
            }
        };
        format!(
            "CREATE FUNCTION anabranch.apply_{number}(kinds \"char\"[], changes varbit[], images text[]) RETURNS void \
             LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $apply$\n\
             DECLARE done bigint;\n\
             BEGIN\n    \
             IF 'T' = ANY (kinds) THEN DELETE FROM {path}; END IF;\n    \
             {deletes}\n    \
             {updates}\n    \
             {inserts}\n\
             END\n\
             $apply$;\n",
            number = self.number,
        )
    }
}

/// Creates `anabranch.apply`, which applies one operation's changes of all tables.
pub fn apply(tables: &[ReplicatedTable]) -> String {
    let of_table: Vec<String> = tables
        .iter()
        .map(|table| {
            format!(
                "WHEN {0} THEN PERFORM anabranch.apply_{0}(part.kinds, part.changes, part.images);",
                table.number
            )
        })
        .collect();
    let of_table = match of_table.is_empty() {
        true => String::new(),
        false => format!(
            "CASE part.relation\n            {}\n        END CASE;",
            of_table.join("\n            ")
        ),
    };
    format!(
        "CREATE FUNCTION anabranch.apply(relations smallint[], kinds \"char\"[], changes varbit[], images text[]) \
         RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $apply$\n\
         DECLARE part record;\n\
         BEGIN\n    \
         IF current_setting('session_replication_role') <> 'replica' THEN RAISE EXCEPTION 'changes of other servers are \
         applied in the role of a replica' USING ERRCODE = '55000'; END IF;\n    \
         FOR part IN SELECT u.relation, array_agg(u.kind) AS kinds, array_agg(u.changed) AS changes, \
         array_agg(u.image) AS images FROM unnest(relations, kinds, changes, images) \
         AS u(relation, kind, changed, image) GROUP BY u.relation LOOP\n        \
         {of_table}\n    \
         END LOOP;\n\
         END\n\
         $apply$;\n"
    )
}
