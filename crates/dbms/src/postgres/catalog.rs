//! What the belt has to know of a database's tables and sequences, read from its catalogs.

use postgres::GenericClient;

use super::quoted;

/// A table, with what capturing and applying its changes rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, in their order.
    pub columns: Vec<Column>,
    /// The columns of its key, as places in `columns`: the primary key, or else the first unique index over columns
    /// that are not null. Empty if it has neither.
    pub key: Vec<usize>,
    /// Whether it has another unique index or an exclusion constraint, so that the order of changes to its rows matters.
    pub has_other_unique: bool,
    /// Why changes of its rows cannot be captured, if so.
    pub unsupported: Option<&'static str>,
    /// Whether it has rows of its own: it is neither foreign nor the parent of partitions.
    pub has_rows: bool,
    /// Whether its rows are in another database.
    pub is_foreign: bool,
    /// Whether it is neither foreign nor part of a partitioned or an inherited table.
    pub is_plain: bool,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, with length or precision, as PostgreSQL writes it.
    pub type_name: String,
    /// Whether it is computed from other columns, and so never written.
    pub is_generated: bool,
    /// Whether two values that `=` takes for equal can differ (`1.0` and `1.00`), or the type has no `=`.
    pub equal_may_differ: bool,
    /// Whether equal values have the same text, whatever the settings of the connection that writes them.
    pub has_one_text: bool,
    /// The settings that its text form depends on.
    pub text_depends_on: &'static [TextSetting],
}

/// A setting that decides how values are written as text, and the value that every reader understands.
pub type TextSetting = (&'static str, &'static str);

/// A sequence that gives columns their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The distance of its numbers.
    pub increment: i64,
    /// Its largest number.
    pub max: i64,
    /// Whether it begins again at its end.
    pub cycles: bool,
    /// The number above which it goes on, if it is not new: its last number, or what a RESTART has left.
    pub last: Option<i64>,
    /// The table and the column that it belongs to, if it belongs to one.
    pub owner: Option<(String, String, String)>,
}

impl Table {
    /// Its name in statements.
    pub fn path(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// Its name in messages.
    pub fn title(&self) -> String {
        match self.schema.as_str() {
            "public" => self.name.clone(),
            schema => format!("{schema}.{}", self.name),
        }
    }

    /// Its key columns.
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.key.iter().map(|place| &self.columns[*place])
    }
}

impl Sequence {
    /// Its name in statements.
    pub fn path(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

/// Objects that applications own: not PostgreSQL's, not an extension's, and not the belt's.
const OWN: &str = "n.nspname NOT IN ('information_schema', 'anabranch') AND n.nspname NOT LIKE 'pg\\_%' \
    AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.objid = o.oid AND e.classid = o.tableoid AND e.deptype = 'e')";

/// The tables of all schemas, by schema and name.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn tables(client: &mut impl GenericClient) -> Result<Vec<Table>, postgres::Error> {
    let rows = client.query(
        &format!(
            "SELECT o.oid, n.nspname::text, o.relname::text, CASE \
             WHEN o.relkind = 'p' OR o.relispartition THEN 'partition' \
             WHEN o.relkind = 'f' THEN 'foreign' \
             WHEN EXISTS (SELECT FROM pg_inherits i WHERE o.oid IN (i.inhparent, i.inhrelid)) THEN 'inherits' \
             WHEN o.relpersistence = 'u' THEN 'unlogged' END, \
             coalesce((SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i WHERE i.indrelid = o.oid \
             AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL \
             AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = o.oid \
             AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AND NOT a.attnotnull) \
             ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1), '{{}}'), \
             (SELECT count(*) FROM pg_index i WHERE i.indrelid = o.oid AND (i.indisunique OR i.indisexclusion)), \
             o.relkind = 'r' FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace \
             WHERE {OWN} AND o.relkind IN ('r', 'p', 'f') ORDER BY n.nspname, o.relname"
        ),
        &[],
    )?;
    let mut tables = Vec::new();
    for row in rows {
        let oid: u32 = row.get(0);
        let (mut columns, mut numbers) = (Vec::new(), Vec::new());
        for row in client.query(
            "SELECT a.attnum, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attgenerated <> '', \
             CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE a.atttypid END, \
             a.atttypmod, coalesce((SELECT NOT l.collisdeterministic FROM pg_collation l WHERE l.oid = a.attcollation), false) \
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            &[&oid],
        )? {
            let number: i16 = row.get(0);
            let (type_oid, modifier, is_loose): (u32, i32, bool) =
                (row.get(4), row.get(5), row.get(6));
            let equal_may_differ = is_loose || equal_may_differ(type_oid, modifier);
            numbers.push(number);
            columns.push(Column {
                name: row.get(1),
                type_name: row.get(2),
                is_generated: row.get(3),
                equal_may_differ,
                has_one_text: !equal_may_differ && type_oid != TIMESTAMPTZ,
                text_depends_on: text_depends_on(type_oid),
            });
        }
        let key: Vec<i16> = row.get(4);
        let place = |number: &i16| numbers.iter().position(|n| n == number);
        let key: Vec<usize> = key.iter().filter_map(place).collect();
        let unique: i64 = row.get(5);
        let kind: Option<String> = row.get(3);
        tables.push(Table {
            schema: row.get(1),
            name: row.get(2),
            has_other_unique: unique > i64::from(!key.is_empty()),
            unsupported: match kind.as_deref() {
                Some("partition") => Some("it is partitioned"),
                Some("foreign") => Some("it is a foreign table"),
                Some("inherits") => Some("it inherits, or others inherit from it"),
                Some("unlogged") => Some("it is unlogged: a crash empties it"),
                _ if key.is_empty() => Some(
                    "it has no key: declare a PRIMARY KEY, or a UNIQUE constraint over columns that are NOT NULL",
                ),
                _ => None,
            },
            columns,
            key,
            has_rows: row.get(6),
            is_foreign: kind.as_deref() == Some("foreign"),
            is_plain: !matches!(
                kind.as_deref(),
                Some("partition" | "foreign" | "inherits")
            ),
        });
    }
    Ok(tables)
}

/// The sequences of all schemas, by schema and name.
///
/// # Errors
/// When the catalogs or the sequences cannot be read.
pub fn sequences(client: &mut impl GenericClient) -> Result<Vec<Sequence>, postgres::Error> {
    let rows = client.query(
        &format!(
            "SELECT n.nspname::text, o.relname::text, s.seqincrement, s.seqmax, \
             pg_sequence_last_value(o.oid), tn.nspname::text, t.relname::text, a.attname::text, s.seqcycle \
             FROM pg_sequence s JOIN pg_class o ON o.oid = s.seqrelid JOIN pg_namespace n ON n.oid = o.relnamespace \
             LEFT JOIN pg_depend d ON d.objid = o.oid AND d.classid = 'pg_class'::regclass \
             AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0 \
             LEFT JOIN pg_class t ON t.oid = d.refobjid LEFT JOIN pg_namespace tn ON tn.oid = t.relnamespace \
             LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
             WHERE {OWN} ORDER BY n.nspname, o.relname"
        ),
        &[],
    )?;
    let sequence = |row: &postgres::Row| {
        let owner: [Option<String>; 3] = [row.get(5), row.get(6), row.get(7)];
        Sequence {
            schema: row.get(0),
            name: row.get(1),
            increment: row.get(2),
            max: row.get(3),
            cycles: row.get(8),
            last: row.get(4),
            owner: match owner {
                [Some(schema), Some(table), Some(column)] => Some((schema, table, column)),
                _ => None,
            },
        }
    };
    let mut sequences: Vec<Sequence> = rows.iter().map(sequence).collect();
    for sequence in sequences.iter_mut().filter(|of| of.last.is_none()) {
        // It has given no number since it was made or restarted: `last_value` is its next one.
        let next = client.query_one(&format!("SELECT last_value FROM {}", sequence.path()), &[])?;
        sequence.last = next
            .get::<_, i64>(0)
            .checked_sub(1)
            .filter(|last| *last > 0);
    }
    Ok(sequences)
}

/// The parts of a schema that must be equal on all servers: for each object its name and a text that describes it.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn shape(client: &mut impl GenericClient) -> Result<Vec<(String, String)>, postgres::Error> {
    let mut shape = Vec::new();
    let title = "CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END";
    let queries = [
        format!(
            "SELECT 'table ' || {title} || o.relname, string_agg(concat_ws(' ', a.attname, \
             format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END, \
             CASE a.attidentity WHEN '' THEN NULL ELSE 'identity' END, pg_get_expr(d.adbin, d.adrelid), \
             nullif(a.attgenerated, '')), ', ' ORDER BY a.attnum) FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace \
             LEFT JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped \
             LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum \
             WHERE {OWN} AND o.relkind IN ('r', 'p') GROUP BY 1"
        ),
        format!(
            "SELECT 'constraint ' || k.conname || ' of ' || {title} || o.relname, pg_get_constraintdef(k.oid) \
             FROM pg_constraint k JOIN pg_class o ON o.oid = k.conrelid JOIN pg_namespace n ON n.oid = o.relnamespace \
             WHERE {OWN}"
        ),
        format!(
            "SELECT 'index ' || {title} || o.relname, pg_get_indexdef(o.oid) FROM pg_class o \
             JOIN pg_namespace n ON n.oid = o.relnamespace JOIN pg_index i ON i.indexrelid = o.oid WHERE {OWN}"
        ),
        format!(
            "SELECT 'view ' || {title} || o.relname, pg_get_viewdef(o.oid) FROM pg_class o \
             JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND o.relkind IN ('v', 'm')"
        ),
        format!(
            "SELECT 'routine ' || {title} || o.oid::regprocedure::text, pg_get_functiondef(o.oid) \
             FROM pg_proc o JOIN pg_namespace n ON n.oid = o.pronamespace WHERE {OWN} AND o.prokind IN ('f', 'p')"
        ),
        format!(
            "SELECT 'trigger ' || t.tgname || ' of ' || {title} || o.relname, \
             pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text FROM pg_trigger t JOIN pg_class o ON o.oid = t.tgrelid \
             JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND NOT t.tgisinternal \
             AND t.tgname NOT LIKE 'anabranch\\_%'"
        ),
        "SELECT 'type ' || format_type(t.oid, NULL), CASE t.typtype WHEN 'e' THEN \
             (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid) \
             ELSE format_type(t.typbasetype, t.typtypmod) || coalesce((SELECT string_agg(pg_get_constraintdef(k.oid), ' ' \
             ORDER BY k.conname) FROM pg_constraint k WHERE k.contypid = t.oid), '') END \
             FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype IN ('e', 'd') \
             AND n.nspname NOT IN ('information_schema', 'anabranch') AND n.nspname NOT LIKE 'pg\\_%'".to_owned(),
    ];
    for query in queries {
        for row in client.query(&query, &[])? {
            shape.push((
                row.get(0),
                row.get::<_, Option<String>>(1).unwrap_or_default(),
            ));
        }
    }
    shape.sort();
    Ok(shape)
}

/// The type whose text has the time zone of the connection in it.
const TIMESTAMPTZ: u32 = 1184;

/// Types whose `=` is equality of the stored bytes.
fn equal_may_differ(type_oid: u32, modifier: i32) -> bool {
    const NUMERIC: u32 = 1700;
    const BYTEWISE: [u32; 17] = [
        16, 17, 18, 19, 20, 21, 23, 25, 26, 1043, 1082, 1083, 1114, 1184, 2950, 869, 829,
    ];
    match type_oid {
        // With a declared scale all values have that many digits.
        NUMERIC => modifier < 0,
        other => !BYTEWISE.contains(&other),
    }
}

/// The settings that decide how a type is written as text.
fn text_depends_on(type_oid: u32) -> &'static [TextSetting] {
    const ALL: &[TextSetting] = &[
        ("extra_float_digits", "1"),
        ("IntervalStyle", "postgres"),
        ("DateStyle", "ISO"),
        ("bytea_output", "hex"),
        ("lc_monetary", "C"),
        ("xmloption", "content"),
        // Types such as regclass write names, which are read under this path.
        ("search_path", "pg_catalog, pg_temp"),
    ];
    /// Types whose text form depends on no setting: integers, text, uuid, numeric, boolean, json.
    const NONE: [u32; 15] = [
        16, 18, 19, 20, 21, 23, 25, 26, 114, 1042, 1043, 1560, 1562, 1700, 2950,
    ];
    match type_oid {
        oid if NONE.contains(&oid) || oid == 3802 => &[],
        700 | 701 => &ALL[0..1],
        1186 => &ALL[1..2],
        1082 | 1083 | 1114 | 1184 => &ALL[2..3],
        17 => &ALL[3..4],
        // Arrays, ranges, composite and other types may have any of these inside.
        _ => ALL,
    }
}
