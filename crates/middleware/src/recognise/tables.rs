//! Statements that are no transaction type: judged by the tables that they name.
//!
//! The analysis knows, for the rows and for each column of a table, whether all servers have what was written
//! ([`Spread`]). A statement may run
//!
//! * at once on any server, if it only reads, and all servers have what it reads;
//! * at once on one server, if it only reads, and of what others do not have it reads the rows of one key;
//! * as a global operation, if it also writes, and its writes are captured, or are to rows of one key;
//! * not at all otherwise.
//!
//! What it reads and writes is taken from its words, rather too much than too little: a word that is the name of a table
//! counts as the table, and one that is the name of a column as that column of each table.

mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_analysis::partition::{Distribution, Partitioning, Spread, WrittenParts};
use anabranch_sql::catalog::ReferentialAction;
use anabranch_sql::script::Script;
use anabranch_types::DataType;

use super::Refusal;
use super::call::{is_system, touches_no_rows};
use super::operand::Operand;
use super::shape::value;
use super::words::{Lexeme, Relation, Use, closing, conjuncts, functions, lexemes, relations};
use writes::Where;

/// The tables of an application, and which servers have what is written to them.
#[derive(Debug)]
pub(super) struct Tables {
    tables: Vec<Table>,
    by_name: BTreeMap<String, usize>,
    /// The queries of views, by name.
    views: BTreeMap<String, String>,
    /// Routines of the application, and whether each is known to touch no rows.
    routines: BTreeMap<String, bool>,
    /// Tables that the application's files do not declare, and whose changes all servers get.
    shipped: BTreeSet<String>,
    has_triggers: bool,
    /// Whether some servers have rows that others have not.
    is_partitioned: bool,
}

#[derive(Debug)]
struct Table {
    name: String,
    columns: Vec<Column>,
    distribution: Distribution,
    written: WrittenParts,
    /// The columns of its primary key, unique indexes and foreign keys.
    keys: BTreeSet<usize>,
    /// The columns of its primary key and of each unique index.
    unique: Vec<Vec<usize>>,
    /// Its generated columns, each with the columns that it is computed from.
    computed: Vec<(usize, Vec<usize>)>,
    references: Vec<Reference>,
    /// The tables that refer to it, with their references.
    referring: Vec<(usize, Reference)>,
}

#[derive(Debug)]
struct Column {
    name: String,
    data_type: DataType,
    is_generated: bool,
}

/// A foreign key.
#[derive(Clone, Debug)]
struct Reference {
    parent: usize,
    columns: Vec<usize>,
    parent_columns: Vec<usize>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
}

/// What a statement that is no transaction type may do.
#[derive(Clone, Debug)]
pub(super) enum Judgement {
    /// It touches no rows of the application.
    Nothing,
    /// It touches rows of tables.
    Rows(RowAccess),
    /// The ring cannot run it.
    Refused(Refusal),
}

/// What a statement touches.
#[derive(Clone, Debug)]
pub(super) struct RowAccess {
    /// Whether it writes, and so has to be global.
    pub(super) writes: bool,
    /// Whether no transaction type writes what it reads, so that it may be added to any operation.
    pub(super) is_constant: bool,
    /// Keys of rows that one server has; all of them have to be of one server.
    pub(super) keys: Vec<RowKey>,
    pub(super) why: Arc<str>,
}

/// The key of rows that one server has.
#[derive(Clone, Debug)]
pub(super) struct RowKey {
    pub(super) operand: Operand,
    pub(super) data_type: DataType,
    /// The column, for messages.
    pub(super) column: String,
}

/// How many views within views are followed.
const VIEWS_MAX: usize = 16;

const HINT: &str =
    "call a routine of the application instead, or add the statement to the application's files";

impl Tables {
    pub(super) fn new(
        script: &Script,
        partitioning: &Partitioning,
        clients: &BTreeSet<&str>,
    ) -> Tables {
        let catalog = script.application.catalog();
        let index = |columns: &[anabranch_types::ColumnIndex]| -> Vec<usize> {
            columns.iter().map(|column| column.index()).collect()
        };
        let mut tables: Vec<Table> = Vec::new();
        for (declared, schema) in catalog.tables.iter().zip(&catalog.schema.tables) {
            let place = schema.id.index();
            let references = declared.foreign_keys.iter().map(|key| Reference {
                parent: key.parent.index(),
                columns: index(&key.columns),
                parent_columns: index(&key.parent_columns),
                on_delete: key.on_delete,
                on_update: key.on_update,
            });
            let references: Vec<Reference> = references.collect();
            let indexes = schema.indexes.iter().filter(|index| index.unique);
            let unique = indexes.map(|of| index(&of.columns));
            let unique: Vec<Vec<usize>> = unique
                .chain([index(&schema.primary_key)])
                .filter(|of| !of.is_empty())
                .collect();
            let mut keys: BTreeSet<usize> = unique.iter().flatten().copied().collect();
            keys.extend(references.iter().flat_map(|key| key.columns.clone()));
            let columns = schema.columns.iter().zip(&declared.defaults);
            let columns = columns.map(|(column, default)| Column {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                is_generated: default.draws_number(),
            });
            let computed = catalog.generated_columns(schema.id).into_iter();
            tables.push(Table {
                computed: computed
                    .map(|(column, reads)| (column.index(), index(&reads)))
                    .collect(),
                name: schema.name.clone(),
                columns: columns.collect(),
                distribution: partitioning.tables[place].clone(),
                written: partitioning.written[place].clone(),
                keys,
                unique,
                references,
                referring: Vec::new(),
            });
        }
        for child in 0..tables.len() {
            for reference in tables[child].references.clone() {
                tables[reference.parent].referring.push((child, reference));
            }
        }
        let routines = script
            .summaries
            .iter()
            .filter(|of| !clients.contains(of.name.as_str()));
        let routines = routines.map(|of| {
            let touches_none = of.unknown.is_none()
                && !of.may_change_any_table
                && of
                    .statements
                    .iter()
                    .all(|statement| statement.accesses.is_empty());
            (of.name.clone(), touches_none)
        });
        let is_own = |table: &Table| {
            table.written.rows == Spread::OwnServer
                || table.written.columns.contains(&Spread::OwnServer)
        };
        let views = catalog.views.iter();
        Tables {
            by_name: (0..tables.len())
                .map(|at| (tables[at].name.clone(), at))
                .collect(),
            views: views
                .map(|view| (view.name.clone(), view.query.to_string()))
                .collect(),
            routines: routines.collect(),
            shipped: BTreeSet::new(),
            has_triggers: script.has_triggers(),
            is_partitioned: tables.iter().any(is_own),
            tables,
        }
    }

    /// Judges a statement with these tokens; `None` if a constant, a name or a comment in it does not end.
    pub(super) fn judge(&self, statement: &str, of: Option<&[Lexeme]>) -> Judgement {
        let Some(mut of) = of else {
            return Judgement::Refused(Refusal {
                code: "42601",
                message: "this statement has a constant, a name or a comment that does not end, or a name with escapes".to_owned(),
                hint: "end it, and write names without U&".to_owned(),
            });
        };
        // EXPLAIN ANALYZE runs what it explains.
        if of.first().is_some_and(|first| first.is("explain")) {
            let mut at = 1;
            while of.get(at).is_some_and(|token| {
                token.is_any(&["analyze", "analyse", "verbose"]) || token.is_symbol('(') && at == 1
            }) {
                at = match of[at].is_symbol('(') {
                    true => closing(of, at) + 1,
                    false => at + 1,
                };
            }
            of = of.get(at..).unwrap_or_default();
        }
        let mut touched = RowAccess {
            writes: false,
            is_constant: true,
            keys: Vec::new(),
            why: "".into(),
        };
        let mut named = BTreeSet::new();
        match self.collect(statement, of, &mut touched, &mut named, 0) {
            Err(refusal) => Judgement::Refused(refusal),
            Ok(()) if named.is_empty() && touched.is_constant && !touched.writes => {
                Judgement::Nothing
            }
            Ok(()) => {
                let names: Vec<&str> = named
                    .iter()
                    .map(|at| self.tables[*at].name.as_str())
                    .collect();
                let verb = if touched.writes { "writes" } else { "reads" };
                touched.why = match names.is_empty() {
                    true => "no transaction type: it names tables or functions that the application does not declare".into(),
                    false => format!("no transaction type: it {verb} {}", names.join(", ")).into(),
                };
                Judgement::Rows(touched)
            }
        }
    }

    /// Notes what a statement, or the query of a view, touches.
    fn collect(
        &self,
        statement: &str,
        of: &[Lexeme],
        touched: &mut RowAccess,
        named: &mut BTreeSet<usize>,
        views: usize,
    ) -> Result<(), Refusal> {
        let relations = relations(of);
        let written = relations.iter().filter(|of| of.used != Use::Read).count();
        if written != verbs(of) {
            return Err(Refusal::unsupported(
                "what this statement writes could not be read",
                HINT,
            ));
        }
        if of.first().is_some_and(|first| first.is("truncate"))
            && of.iter().any(|token| token.is("cascade"))
        {
            return Err(Refusal::unsupported(
                "TRUNCATE with CASCADE is not followed to other tables",
                "name all tables, without CASCADE",
            ));
        }
        self.check_functions(of, &relations, touched)?;
        for (at, token) in of.iter().enumerate() {
            let is_into = token.is("into") && !(at > 0 && of[at - 1].is_any(&["insert", "merge"]));
            if is_into {
                return Err(Refusal::unsupported(
                    "SELECT INTO makes a table, which other servers would not have",
                    "declare the table in the application's files",
                ));
            }
        }
        for relation in &relations {
            let is_catalog = relation.schema.as_deref().is_some_and(is_system)
                || relation.schema.as_deref() == Some("anabranch")
                || relation.schema.is_none() && relation.name.starts_with("pg_");
            if is_catalog {
                if relation.used != Use::Read {
                    return Err(Refusal::unsupported(
                        format!(
                            "{} is not the application's: it is not written here",
                            relation.name
                        ),
                        "connect to the database itself",
                    ));
                }
                continue;
            }
            if self.by_name.contains_key(&relation.name) {
                continue;
            }
            if self.shipped.contains(&relation.name) {
                touched.is_constant = false;
                touched.writes |= relation.used != Use::Read || verbs(of) > 0;
                continue;
            }
            let Some(query) = self.views.get(&relation.name) else {
                return Err(Refusal::unsupported(
                    format!(
                        "the application's files declare no table {}: what is written there stays on its server",
                        relation.name
                    ),
                    "add the table and its statements to the application's files",
                ));
            };
            if relation.used != Use::Read {
                return Err(Refusal::unsupported(
                    format!(
                        "{} is a view: which rows a write to it changes is not known",
                        relation.name
                    ),
                    "write to its tables",
                ));
            }
            if views > VIEWS_MAX {
                return Err(Refusal::unsupported("views are nested too deeply", HINT));
            }
            let inner = lexemes(query).unwrap_or_default();
            self.collect(query, &inner, touched, named, views + 1)?;
        }
        let tables: BTreeSet<usize> = of
            .iter()
            .filter(|token| token.is_name())
            .filter_map(|token| self.by_name.get(&token.text).copied())
            .collect();
        named.extend(&tables);
        let locks = of
            .windows(2)
            .any(|pair| pair[0].is("for") && pair[1].is_any(&["update", "share", "no", "key"]));
        touched.writes |= locks || of.first().is_some_and(|first| first.is("lock"));
        for table in tables {
            let mut of_table = Reader {
                tables: self,
                statement,
                of,
                relations: &relations,
                table,
            };
            of_table.collect(touched)?;
        }
        Ok(())
    }

    /// Adds tables whose changes all servers get, unless the application declares them.
    pub(super) fn ship(&mut self, names: impl IntoIterator<Item = String>) {
        let undeclared = names
            .into_iter()
            .filter(|name| !self.by_name.contains_key(name) && !self.views.contains_key(name));
        self.shipped = undeclared.collect();
    }

    /// Whether the functions that a statement calls touch rows.
    fn check_functions(
        &self,
        of: &[Lexeme],
        relations: &[Relation],
        touched: &mut RowAccess,
    ) -> Result<(), Refusal> {
        for (schema, name) in functions(of, relations) {
            let is_system = schema.is_some_and(is_system);
            match self.routines.get(name) {
                Some(true) if !is_system => continue,
                Some(false) if !is_system => {
                    return Err(Refusal::unsupported(
                        format!("this statement calls {name} beside other things"),
                        format!("call {name} in a statement of its own"),
                    ));
                }
                _ if (schema.is_none() || is_system) && touches_no_rows(name) => continue,
                _ if schema == Some("pg_catalog") && !runs_text(name) => continue,
                _ => {}
            }
            if self.is_partitioned {
                return Err(Refusal::unsupported(
                    format!(
                        "nothing is known of the function {name}: it may need rows of several servers"
                    ),
                    "declare it in the application's files",
                ));
            }
            touched.writes = true;
            touched.is_constant = false;
        }
        Ok(())
    }
}

/// How many times a statement says that it writes a relation.
fn verbs(of: &[Lexeme]) -> usize {
    let first = of.first().filter(|first| first.is("truncate"));
    if first.is_some() {
        // Its relations are a list.
        return relations(of).len();
    }
    let mut count = 0;
    for (at, token) in of.iter().enumerate() {
        let after = |keywords: &[&str]| at > 0 && of[at - 1].is_any(keywords);
        let is_verb = match () {
            () if token.is_any(&["insert", "delete"]) => !after(&["then"]),
            () if token.is("update") => !after(&["then", "do", "for", "key"]),
            () => token.is_any(&["merge", "truncate"]),
        };
        count += usize::from(is_verb);
    }
    count
}

/// Whether a function of the system runs a text as SQL, or locks what other servers do not know of.
fn runs_text(name: &str) -> bool {
    name.contains("query_to") || name.contains("_to_xml") || name.contains("advisory")
}

/// Reads what a statement does with one table.
struct Reader<'t> {
    tables: &'t Tables,
    statement: &'t str,
    of: &'t [Lexeme],
    relations: &'t [Relation],
    table: usize,
}

impl Reader<'_> {
    fn table(&self) -> &Table {
        &self.tables.tables[self.table]
    }

    /// Its places among the statement's relations.
    fn places(&self) -> impl Iterator<Item = &Relation> {
        let name = &self.table().name;
        self.relations
            .iter()
            .filter(move |relation| relation.name == *name)
    }

    fn collect(&mut self, touched: &mut RowAccess) -> Result<(), Refusal> {
        let inserts_alone = {
            let mut places = self.places().peekable();
            places.peek().is_some() && places.all(|place| place.used == Use::Insert)
        };
        let conflicts = self.of.iter().any(|token| token.is("conflict"));
        if !inserts_alone || conflicts {
            let columns = self.columns_named();
            let table = self.table();
            let unwritten = table.written.rows == Spread::Unwritten
                && columns
                    .iter()
                    .all(|c| table.written.columns[*c] == Spread::Unwritten);
            touched.is_constant &= unwritten;
            match self.is_everywhere(&columns) {
                true => {}
                false if !inserts_alone => touched.keys.push(self.key_of_rows()?),
                // The row that an inserted one meets has the same key.
                false if table.written.rows == Spread::OwnServer => {}
                false => {
                    return Err(self.refused(
                        "has columns that not every server has, and this INSERT reads them where rows are there already",
                    ));
                }
            }
        }
        let used: Vec<(Use, usize)> = self.places().map(|place| (place.used, place.end)).collect();
        for (used, end) in used {
            if used == Use::Read {
                continue;
            }
            touched.writes = true;
            touched.is_constant = false;
            if self.tables.has_triggers {
                return Err(self.refused(
                    "is written by a statement that is no transaction type, and what the triggers of the application's tables do \
                     then is not known",
                ));
            }
            match used {
                Use::Read => {}
                Use::Insert => {
                    self.insert(end, touched)?;
                    if conflicts && self.of.iter().any(|token| token.is("set")) {
                        self.update()?;
                    }
                }
                Use::Update => self.update()?,
                Use::Delete => self.delete()?,
                Use::Merge => {
                    // Where it inserts by key is not read.
                    self.check_insert(Where::Everywhere)?;
                    self.update()?;
                    self.delete()?;
                }
            }
        }
        Ok(())
    }

    /// What some tokens are where a value of the type is wanted.
    fn operand(&self, range: std::ops::Range<usize>, wanted: &DataType) -> Operand {
        let tokens = self.of.get(range.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return Operand::Expression;
        };
        match value(self.statement, self.of, range.start) {
            Some((written, end)) if end == range.end => written.operand(wanted),
            _ => Operand::parse(&self.statement[first.start..last.end], wanted),
        }
    }

    fn refused(&self, what: &str) -> Refusal {
        Refusal::unsupported(format!("{} {what}", self.table().name), HINT)
    }

    /// The columns that the statement may read.
    fn columns_named(&self) -> BTreeSet<usize> {
        let table = self.table();
        let all = || (0..table.columns.len()).collect();
        let aliases: BTreeSet<&str> = self.places().map(|place| place.alias.as_str()).collect();
        for (at, token) in self.of.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &self.of[before]);
            let is_star = token.is_symbol('*')
                && before.is_some_and(|before| {
                    before.is_any(&["select", "distinct", "all", "returning"])
                        || before.is_symbol(',')
                        || before.is_symbol('.')
                });
            let is_place = self
                .relations
                .iter()
                .any(|place| (place.at..place.end).contains(&at));
            let follows_dot = before.is_some_and(|before| before.is_symbol('.'));
            // A row as a value: its alias, not before a point.
            let is_row = token.is_name()
                && (aliases.contains(token.text.as_str()) || token.text == table.name)
                && !is_place
                && !follows_dot
                && !self.of.get(at + 1).is_some_and(|next| next.is_symbol('.'));
            if is_star || is_row || token.is("natural") || token.is("table") {
                return all();
            }
        }
        let names = self.of.iter().filter(|token| token.is_name());
        let columns = names.filter_map(|token| {
            table
                .columns
                .iter()
                .position(|column| column.name == token.text)
        });
        columns.collect()
    }

    /// Whether every server has these columns of all rows.
    fn is_everywhere(&self, columns: &BTreeSet<usize>) -> bool {
        let written = &self.table().written;
        written.rows != Spread::OwnServer
            && columns
                .iter()
                .all(|column| written.columns[*column] != Spread::OwnServer)
    }

    /// Whether every server has all of it.
    fn is_whole(&self) -> bool {
        self.is_everywhere(&(0..self.table().columns.len()).collect())
    }

    /// Whether changes of it are captured.
    fn is_captured(&self) -> bool {
        matches!(
            self.table().distribution,
            Distribution::Everywhere | Distribution::Mixed
        )
    }

    /// The key of the rows that the statement finds, which one server has.
    fn key_of_rows(&self) -> Result<RowKey, Refusal> {
        let table = self.table();
        let Some(column) = table.written.key else {
            return Err(self.refused(
                "has rows or columns that not every server has, and no single column tells which server",
            ));
        };
        let place = column.index();
        let name = &table.columns[place].name;
        let missing = || {
            self.refused(&format!(
                "has rows on several servers, and this statement does not say on which: it needs the condition {name} = a constant or \
                 a parameter"
            ))
        };
        let mut places = self.places();
        let (Some(relation), None) = (places.next(), places.next()) else {
            return Err(missing());
        };
        if relation.depth != 0 {
            return Err(missing());
        }
        let others = self
            .relations
            .iter()
            .filter(|other| other.at != relation.at);
        let is_only = others
            .filter_map(|other| self.tables.by_name.get(&other.name))
            .all(|other| {
                let columns = &self.tables.tables[*other].columns;
                columns.iter().all(|column| column.name != *name)
            });
        for range in conjuncts(self.of) {
            let part = &self.of[range.clone()];
            let behind = match part {
                [column, equal, ..]
                    if is_only
                        && column.is_name()
                        && column.text == *name
                        && equal.is_symbol('=') =>
                {
                    2
                }
                [alias, point, column, equal, ..]
                    if alias.is_name()
                        && alias.text == relation.alias
                        && point.is_symbol('.')
                        && column.is_name()
                        && column.text == *name
                        && equal.is_symbol('=') =>
                {
                    4
                }
                _ => continue,
            };
            let data_type = &table.columns[place].data_type;
            let operand = self.operand(range.start + behind..range.end, data_type);
            if operand != Operand::Expression {
                return Ok(RowKey {
                    operand,
                    data_type: data_type.clone(),
                    column: name.clone(),
                });
            }
        }
        Err(missing())
    }
}
