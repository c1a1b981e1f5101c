//! Upper bounds of what text that was not analysed may do: it may read and write every table that it names, whole.
//!
//! Skipped transactions, triggers and constraints count towards the verdicts through these bounds, so that
//! skipping them never makes an application look safer than it is.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, TableId, TableSchema};

use super::{
    column_properties::ColumnProperties,
    scan::{Part, words},
    tokens::{Token, begin, closing, listed, name_of, tokens},
    undeclared::{Undeclared, declared, is_cascade, is_policy, is_trigger_function, routine},
};
use crate::{
    catalog::{Catalog, ReferentialAction, builtin::is_builtin},
    source::Span,
    summary::{
        ColumnWrite, Deferral, ResultUse, Role, StatementId, StatementSummary, TableAccess, Term,
        TransactionSummary, WriteClass,
    },
};

/// A transaction type that was not analysed, or not completely.
#[derive(Clone, Debug)]
pub(super) struct Unparsed {
    pub(super) name: String,
    pub(super) span: Span,
    /// Why it was not analysed.
    pub(super) reason: String,
    /// The texts of its statements.
    pub(super) statements: Vec<StatementText>,
    /// Whether the text is a whole routine, and so holds the words of several statements.
    pub(super) whole: bool,
}

/// A statement's text.
#[derive(Clone, Debug)]
pub(super) struct StatementText {
    pub(super) text: String,
    /// Whether the text is only the known part of a statement.
    pub(super) cut: bool,
}

impl StatementText {
    /// A complete text.
    pub(super) fn whole(text: &str) -> StatementText {
        StatementText {
            text: text.to_owned(),
            cut: false,
        }
    }
}

/// The most that a text may do.
#[derive(Clone, Debug, PartialEq)]
enum Effects {
    /// Read these tables.
    Reads(Vec<TableId>),
    /// Read and write these tables in any way.
    Any(Vec<TableId>),
    /// Read these tables, and write one of them in one way.
    Only {
        reads: Vec<TableId>,
        target: TableId,
        role: Role,
        /// The columns of it that an UPDATE may write.
        updates: Vec<ColumnIndex>,
    },
}

impl Unparsed {
    /// The most that the transaction may do. `undeclared` are the skipped declarations, `declares` is whether there are
    /// routines beside what clients run, `numbers` the next statement's number.
    pub(super) fn summary(
        &self,
        catalog: &Catalog,
        undeclared: &Undeclared<'_>,
        declares: bool,
        numbers: &mut u32,
    ) -> TransactionSummary {
        let mut all_effects: Vec<Effects> = Vec::new();
        for StatementText { text, cut } in &self.statements {
            let more = match cut {
                true => fragment_effects(text, catalog, undeclared, declares),
                false => vec![possible_effects(
                    text,
                    catalog,
                    undeclared,
                    self.whole,
                    Some(&self.name),
                )],
            };
            for possible_effects in more {
                if !all_effects.contains(&possible_effects) {
                    all_effects.push(possible_effects);
                }
            }
        }
        // Any effect on every table includes all others.
        let everything = catalog.schema.tables.len();
        let is_all = |possible_effects: &Effects| matches!(possible_effects, Effects::Any(all) if all.len() == everything);
        let may_change_any_table = all_effects.iter().any(is_all);
        let only_reads = all_effects.iter().all(|r| matches!(r, Effects::Reads(_)));
        if may_change_any_table {
            all_effects.clear();
        }
        let statements = all_effects
            .iter()
            .map(|possible_effects| statement(catalog, possible_effects, self.span, numbers))
            .collect();
        TransactionSummary {
            name: self.name.clone(),
            span: self.span,
            parameters: Vec::new(),
            statements,
            may_end_early: true,
            keeps: Vec::new(),
            unknown: Some(self.reason.clone()),
            only_reads,
            may_change_any_table,
        }
    }
}

impl TransactionSummary {
    /// Its statements, followed by [`anything`] where it may do anything to every table.
    pub fn possible_statements(&self, catalog: &Catalog) -> Vec<StatementSummary> {
        let mut statements = self.statements.clone();
        if self.may_change_any_table {
            let numbers = statements.iter().map(|of| of.id.0 + 1);
            let next = StatementId(numbers.max().unwrap_or(0));
            statements.push(anything(catalog, self.span, next));
        }
        statements
    }
}

/// A statement that may do anything to every table.
pub fn anything(catalog: &Catalog, span: Span, id: StatementId) -> StatementSummary {
    let possible_effects = Effects::Any(everything(catalog));
    let StatementId(mut number) = id;
    statement(catalog, &possible_effects, span, &mut number)
}

fn everything(catalog: &Catalog) -> Vec<TableId> {
    catalog.schema.tables.iter().map(|t| t.id).collect()
}

/// A statement with these effects.
fn statement(
    catalog: &Catalog,
    possible_effects: &Effects,
    span: Span,
    numbers: &mut u32,
) -> StatementSummary {
    let id = StatementId(*numbers);
    *numbers += 1;
    const ALL: [Role; 4] = [Role::Read, Role::Insert, Role::Update, Role::Delete];
    let columns = |table: TableId| -> Vec<ColumnIndex> {
        let columns = catalog.schema.table(table).columns.len();
        (0..columns)
            .map(|c| ColumnIndex(u16::try_from(c).unwrap_or(u16::MAX)))
            .collect()
    };
    let mut done: Vec<(TableId, Role, Vec<ColumnIndex>)> = Vec::new();
    match possible_effects {
        Effects::Reads(tables) => {
            done.extend(tables.iter().map(|table| (*table, Role::Read, Vec::new())));
        }
        Effects::Any(tables) => {
            for table in tables {
                done.extend(ALL.map(|role| (*table, role, columns(*table))));
            }
        }
        Effects::Only {
            reads,
            target,
            role,
            updates,
        } => {
            done.extend(reads.iter().map(|table| (*table, Role::Read, Vec::new())));
            if *role == Role::Insert {
                done.push((*target, Role::Insert, columns(*target)));
            }
            if !updates.is_empty() {
                done.push((*target, Role::Update, updates.clone()));
            }
        }
    }
    let mut accesses = Vec::new();
    for (table, role, written) in done {
        let class = match role {
            Role::Insert => Some(WriteClass::Assign(Term::Unknown)),
            Role::Update => Some(WriteClass::FromData),
            Role::Read | Role::Delete => None,
        };
        let write = |column, class: &WriteClass| ColumnWrite {
            column,
            class: class.clone(),
            null_by: columns(table),
            amount_null_by: None,
        };
        let writes = class.map_or_else(Vec::new, |class| {
            let written = written.into_iter();
            written.map(|column| write(column, &class)).collect()
        });
        accesses.push(TableAccess {
            table,
            role,
            columns_read: columns(table),
            columns_returned: columns(table),
            writes,
            conditions: Vec::new(),
            has_other_conditions: true,
            listed: Vec::new(),
            draws_key: false,
            span,
        });
    }
    StatementSummary {
        id,
        span,
        in_loop: true,
        path: Vec::new(),
        may_skip_rows: true,
        inserts_one: false,
        finds_none: false,
        accesses,
        result: ResultUse::Used,
        deferral: Deferral::None,
        has_program: false,
        may_fail: false,
    }
}

/// The most that a text may do, judged by the names in it.
fn possible_effects(
    text: &str,
    catalog: &Catalog,
    undeclared: &Undeclared<'_>,
    whole: bool,
    own: Option<&str>,
) -> Effects {
    const WRITING: [&str; 13] = [
        "insert", "update", "delete", "merge", "truncate", "call", "execute", "do", "copy",
        "perform", "replace", "nextval", "setval",
    ];
    // Words with effects on tables that the text need not name.
    const ELSEWHERE: [&str; 4] = ["execute", "truncate", "prepare", "perform"];
    // Declarations that hold rows and run nothing.
    const IS_DATA: [&str; 2] = ["table", "view"];
    let mut named: Vec<String> = words(text).collect();
    undeclared.through_views(&mut named);
    let names = |name: &str| named.iter().any(|word| word == name);
    let everything = || catalog.schema.tables.iter().map(|t| t.id).collect();
    let routines = catalog.procedures.iter().map(|p| p.name.as_str());
    let is_own = |name: &str| own == Some(name);
    let calls = routines.filter(|name| !is_own(name)).any(names)
        || undeclared
            .declared()
            .any(|(kind, name)| !IS_DATA.contains(&kind) && !is_own(name) && names(name));
    // A body in a string: its words are inside the quotes.
    let body = || text.contains("$$") || whole && text.contains('\'');
    let inside = || {
        let unquoted = text.replace(['\'', '$'], " ");
        let strange = calls_unknown_function(&unquoted, catalog, undeclared, own);
        let mut inside: Vec<String> = words(&unquoted).collect();
        undeclared.through_views(&mut inside);
        (inside, strange)
    };
    let (named, strange) = match body() {
        true => inside(),
        false => (
            named.clone(),
            calls_unknown_function(text, catalog, undeclared, own),
        ),
    };
    let names = |name: &str| named.iter().any(|word| word.eq_ignore_ascii_case(name));
    let strange = strange
        || undeclared.views().any(|(name, query)| {
            names(name) && calls_unknown_function(query, catalog, undeclared, own)
        });
    let tables: Vec<TableId> = catalog
        .schema
        .tables
        .iter()
        .filter(|t| names(&t.name))
        .map(|t| t.id)
        .collect();
    let writes = WRITING.iter().any(|word| names(word)) || names("into") && !whole;
    let of_undeclared = undeclared
        .declared()
        .any(|(kind, name)| kind == "table" && names(name));
    let is_block = named.first().is_some_and(|first| first == "do");
    let elsewhere = is_block || ELSEWHERE.iter().any(|word| names(word));
    if whole && is_foreign(text) || elsewhere || calls || strange {
        Effects::Any(everything())
    } else if !writes {
        Effects::Reads(tables)
    } else if tables.is_empty() && !of_undeclared {
        Effects::Any(everything())
    } else {
        match of_one(text, catalog).filter(|_| !whole) {
            Some((target, role, updates)) => Effects::Only {
                reads: tables,
                target,
                role,
                updates,
            },
            None => Effects::Any(tables),
        }
    }
}

/// Stands in a text for the parts of it that are not known.
const HOLE: char = '…';

/// Whether a text calls an unknown function: neither declared, nor a built-in without effects.
fn calls_unknown_function(
    text: &str,
    catalog: &Catalog,
    undeclared: &Undeclared<'_>,
    own: Option<&str>,
) -> bool {
    let all = tokens(text);
    let holds_rows = |name: &str| {
        let mut undeclared = undeclared.declared();
        catalog.schema.tables.iter().any(|table| table.name == name)
            || undeclared.any(|(kind, of)| kind == "table" && of == name)
    };
    (1..all.len())
        .filter(|at| all[*at].is_sign('('))
        .any(|open| {
            let Some(name) = all[open - 1].name() else {
                return false;
            };
            // Behind its schema.
            let mut first = open - 1;
            while first >= 2 && all[first - 1].is_sign('.') {
                first -= 2;
            }
            let before = first.checked_sub(1).map(|at| &all[at]);
            let is_named = before.is_some_and(|token| {
                const BEFORE: [&str; 8] = [
                    "as",
                    "into",
                    "with",
                    "recursive",
                    "table",
                    "function",
                    "procedure",
                    "trigger",
                ];
                token.is_sign(')') || BEFORE.iter().any(|word| token.is(word))
            });
            let is_cte = || {
                let after = closing(&all, open).map_or(&[][..], |close| &all[close + 1..]);
                begin(after, &["as"])
                    && after.get(1).is_some_and(|token| {
                        token.is_sign('(') || token.is("not") || token.is("materialized")
                    })
            };
            !is_named
                && !is_builtin(&name.to_lowercase())
                && own != Some(name.as_str())
                && !holds_rows(&name)
                && !is_cte()
        })
}

/// The only table that an INSERT or an UPDATE writes, by the words before its first bracket.
fn of_one(text: &str, catalog: &Catalog) -> Option<(TableId, Role, Vec<ColumnIndex>)> {
    let all = tokens(text);
    // A string without an end may hide anything.
    let is_open = |token: &Token<'_>| match token.part {
        Part::Quoted(quoted) => quoted.len() < 2 || !quoted.ends_with(['\'', '"', '`', '$']),
        _ => false,
    };
    if all.iter().any(is_open) {
        return None;
    }
    let (at, role) = match () {
        () if begin(&all, &["update", "only"]) => (2, Role::Update),
        () if begin(&all, &["update"]) => (1, Role::Update),
        () if begin(&all, &["insert", "into"]) => (2, Role::Insert),
        () => return None,
    };
    let (name, next) = name_of(&all, at)?;
    // One table, perhaps with an alias: MySQL's UPDATE may change several.
    let is_set = |at: usize| all.get(at).is_some_and(|t| t.is("set"));
    let renamed = next + 1 + usize::from(all.get(next).is_some_and(|t| t.is("as")));
    if role == Role::Update && !is_set(next) && !is_set(renamed) {
        return None;
    }
    let table = catalog.schema.tables.iter().find(|t| t.name == name)?;
    // A change to a key may cascade to the rows that refer to it.
    let goes_on = catalog
        .tables
        .iter()
        .flat_map(|t| &t.foreign_keys)
        .any(|key| {
            let stays = [ReferentialAction::NoAction, ReferentialAction::Restrict];
            key.parent == table.id && !stays.contains(&key.on_update)
        });
    if goes_on {
        return None;
    }
    let every = || -> Vec<ColumnIndex> {
        let columns = (0..).map(ColumnIndex).zip(&table.columns);
        columns.map(|(column, _)| column).collect()
    };
    let updates = match role {
        Role::Update => set(&all, table).unwrap_or_else(every),
        _ if all.iter().any(|t| t.is("conflict") || t.is("duplicate")) => every(),
        _ => Vec::new(),
    };
    Some((table.id, role, updates))
}

/// The columns that an UPDATE sets.
fn set(all: &[Token<'_>], table: &TableSchema) -> Option<Vec<ColumnIndex>> {
    let start = all.iter().position(|t| t.is("set"))? + 1;
    let mut depth = 0_usize;
    let end = all[start..].iter().position(|token| {
        match token.part {
            Part::Sign('(') => depth += 1,
            Part::Sign(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
            && ["from", "where", "returning"]
                .iter()
                .any(|word| token.is(word))
    });
    let end = end.map_or(all.len(), |end| start + end);
    let column = |name: String| {
        let at = table.columns.iter().position(|c| c.name == name)?;
        Some(ColumnIndex(u16::try_from(at).ok()?))
    };
    let mut found = Vec::new();
    for assigned in listed(&all[start..end]) {
        // A column of a table by its name, or a part of a column.
        if assigned.get(1)?.is_sign('.') {
            return None;
        }
        match assigned.first()?.is_sign('(') {
            true => {
                let close = closing(assigned, 0)?;
                for one in listed(&assigned[1..close]) {
                    found.push(column(one.first()?.name()?)?);
                }
            }
            false => found.push(column(assigned.first()?.name()?)?),
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Whether a routine is in a language other than SQL and PL/pgSQL, where words do not show what it does.
fn is_foreign(text: &str) -> bool {
    let words: Vec<String> = words(text).collect();
    let mut languages = words.windows(2).filter(|pair| pair[0] == "language");
    let known = |name: &str| name == "sql" || name == "plpgsql";
    let quoted = || {
        let text = text.to_lowercase();
        text.contains("'sql'") || text.contains("'plpgsql'")
    };
    languages.any(|pair| !known(&pair[1]) && !quoted())
}

/// The most that a partly known statement may do; [`HOLE`] stands for the unknown parts. Its beginning may name the
/// table that it writes; it may read any table. A hole is taken for a part of the statement: a name, a condition, a
/// list.
fn fragment_effects(
    text: &str,
    catalog: &Catalog,
    undeclared: &Undeclared<'_>,
    declares: bool,
) -> Vec<Effects> {
    let head = text.split(HOLE).next().unwrap_or_default();
    let everything: Vec<TableId> = catalog.schema.tables.iter().map(|t| t.id).collect();
    let known: Vec<String> = words(head).take(3).collect();
    let word = |at: usize| known.get(at).map_or("", String::as_str);
    let at = match (word(0), word(1)) {
        ("select", _) => None,
        ("update", _) => Some(1),
        ("insert" | "replace", "into") | ("delete", "from") => Some(2),
        _ => return vec![Effects::Any(everything)],
    };
    // The unknown part may call a routine, which may write; and the known part after it may be anything.
    let routines = undeclared.texts().any(|text| routine(text).is_some());
    let filled = text.replace(HOLE, "hole");
    let all = tokens(&filled);
    let is_last = |token: &Token<'_>| token.end == all.last().map_or(0, |last| last.end);
    let goes_on = all
        .iter()
        .any(|token| token.is_sign(';') && !is_last(token));
    if routines || declares || goes_on || calls_unknown_function(&filled, catalog, undeclared, None)
    {
        return vec![Effects::Any(everything)];
    }
    let Some(at) = at else {
        return vec![Effects::Reads(everything)];
    };
    // A name that continues in the unknown part is another name.
    let ends = head.ends_with(|c: char| c.is_whitespace() || c == '(') || known.len() > at + 1;
    let target = catalog.schema.tables.iter().find(|t| t.name == word(at));
    match target {
        Some(target) if ends => vec![Effects::Any(vec![target.id]), Effects::Reads(everything)],
        _ => vec![Effects::Any(everything)],
    }
}

/// A table under a constraint that was not analysed.
struct Constrained {
    table: TableId,
    /// The constrained columns, if the constraint is about single inserted or changed rows alone.
    columns: Option<Vec<ColumnIndex>>,
}

impl Constrained {
    /// Whether an access may violate the constraint.
    fn is_violated_by(&self, access: &TableAccess) -> bool {
        let written = |columns: &Vec<ColumnIndex>| match access.role {
            Role::Insert => true,
            Role::Update => access.writes.iter().any(|w| columns.contains(&w.column)),
            // Fewer rows violate no condition on single rows, and none on pairs.
            Role::Read | Role::Delete => false,
        };
        let any = access.role != Role::Read;
        access.table == self.table && any && self.columns.as_ref().is_none_or(written)
    }
}

/// The tables that a skipped declaration constrains.
fn constrained(text: &str, catalog: &Catalog, undeclared: &Undeclared<'_>) -> Vec<Constrained> {
    let mut all: Vec<String> = words(text).collect();
    if matches!(declared(text), Some((kind, _)) if kind == "assertion") {
        undeclared.through_views(&mut all);
    }
    let has = |word: &str| all.iter().any(|w| w == word);
    let demands = ["unique", "check", "exclude", "references", "primary"];
    let altered = all.first().is_some_and(|word| word == "alter");
    let constrains = match all.first().map(String::as_str) {
        Some("alter") => has("table") && demands.into_iter().any(has) && !is_cascade(text),
        Some("create") if has("index") => has("unique"),
        _ => matches!(declared(text), Some((kind, _)) if kind == "assertion"),
    };
    let named = |table: &&Arc<TableSchema>| constrains && has(&table.name);
    let tables: Vec<&Arc<TableSchema>> = catalog.schema.tables.iter().filter(named).collect();
    let named_at = |name: &str| all.iter().position(|word| word == name);
    let first = tables
        .iter()
        .map(|t| t.name.as_str())
        .min_by_key(|name| named_at(name));
    let kinds = demands.into_iter().filter(|kind| has(kind)).count();
    let of_rows = match altered {
        true => has("add") && kinds == 1,
        false => has("index"),
    };
    // It is about single rows of the table that is named first, unless that is named again, as a whole row is.
    let columns = |table: &TableSchema| {
        let named = (0..).map(ColumnIndex).zip(&table.columns);
        let named = named.filter(|(_, column)| has(&column.name));
        let columns: Vec<ColumnIndex> = named.map(|(column, _)| column).collect();
        let once = all.iter().filter(|word| **word == table.name).count() == 1;
        let known = of_rows && once && first == Some(&table.name) && !columns.is_empty();
        known.then_some(columns)
    };
    tables
        .iter()
        .map(|table| Constrained {
            table: table.id,
            columns: columns(table),
        })
        .collect()
}

/// The constrained tables and columns, for a message.
fn constrained_names(text: &str, catalog: &Catalog, undeclared: &Undeclared<'_>) -> Option<String> {
    let found = constrained(text, catalog, undeclared);
    let shown = |found: &Constrained| {
        let table = catalog.schema.table(found.table);
        let columns = found.columns.iter().flatten();
        let columns: Vec<&str> = columns
            .map(|column| table.columns[column.index()].name.as_str())
            .collect();
        match columns.is_empty() {
            true => table.name.clone(),
            false => format!("{} ({})", table.name, columns.join(", ")),
        }
    };
    let shown: Vec<String> = found.iter().map(shown).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Marks as unknown the transactions that may violate a skipped constraint, since they write what it is about.
pub(super) fn mark_possible_violations(
    declaration: &str,
    catalog: &Catalog,
    undeclared: &Undeclared<'_>,
    properties: &ColumnProperties,
    summaries: &mut [TransactionSummary],
) {
    let mut demanded = constrained(declaration, catalog, undeclared);
    // A write to a source of a generated column changes that column, too.
    for ((table, column), sources) in properties.computed(catalog) {
        for of in demanded.iter_mut().filter(|of| of.table == table) {
            let columns = of.columns.iter_mut();
            columns
                .filter(|columns| columns.contains(&column))
                .for_each(|columns| columns.extend(&sources));
        }
    }
    for summary in summaries {
        let mut accesses = summary.statements.iter().flat_map(|s| &s.accesses);
        let written = accesses.find(|a| demanded.iter().any(|of| of.is_violated_by(a)));
        if let Some(written) = written {
            let table = &catalog.schema.table(written.table).name;
            let why = format!("a constraint on {table} was not analysed");
            summary.unknown.get_or_insert(why);
        }
    }
}

/// The consequence of skipping a declaration.
pub(super) fn meaning(text: &str, catalog: &Catalog, undeclared: &Undeclared<'_>) -> String {
    let Some((kind, name)) = declared(text) else {
        return "the analysis ignores it".to_owned();
    };
    let altered = || {
        let mut words = words(text).skip_while(|word| word != "table").skip(1);
        words
            .find(|word| !["only", "if", "exists", "public"].contains(&word.as_str()))
            .unwrap_or_default()
    };
    let (kind, name) = match kind.as_str() {
        "alter" => (name, altered()),
        _ => (kind, name),
    };
    if let Some(tables) = constrained_names(text, catalog, undeclared) {
        return format!("transactions that write {tables} are unknown: they may violate it");
    }
    match kind.as_str() {
        "table" if is_cascade(text) => format!(
            "the foreign key of {name} has no verdict; the analysis assumes that transactions which \
             write the tables that it names may do anything to them"
        ),
        "table" if words(text).next().as_deref() == Some("alter") => {
            format!("the analysis ignores this change to {name}: a constraint in it has no verdict")
        }
        "table" => format!(
            "{name} and its constraints have no verdicts, and transactions that name it are unknown"
        ),
        "view" => {
            format!("the analysis does without {name}: transactions that name it are unknown")
        }
        "function" | "procedure" if is_trigger_function(text) => {
            format!("its effects count for every trigger that runs {name}")
        }
        "function" | "procedure" | "event" => {
            format!("the analysis assumes that {name} may do anything to the tables that it names")
        }
        "rule" => match on_table(text, catalog) {
            Some(table) => format!(
                "the analysis assumes that transactions which write {} may do anything to every table",
                catalog.schema.table(table).name
            ),
            None => {
                "the analysis assumes that transactions which write may do anything to every table"
                    .to_owned()
            }
        },
        "trigger" => match on_table(text, catalog) {
            Some(table) => format!(
                "the analysis assumes that transactions which write {} may do anything to it and to the tables \
                 that its function names",
                catalog.schema.table(table).name
            ),
            None => {
                "the analysis assumes that transactions which write may do anything to every table"
                    .to_owned()
            }
        },
        "policy" => match on_table(text, catalog) {
            Some(table) => format!(
                "the analysis assumes that transactions which use {} may do anything to every table",
                catalog.schema.table(table).name
            ),
            None => "the analysis assumes that every transaction may do anything to every table"
                .to_owned(),
        },
        "assertion" => format!("{name} has no verdict, and is not enforced"),
        "index" => "an index changes no verdict".to_owned(),
        _ => "the analysis ignores it".to_owned(),
    }
}

/// The table of a trigger, a policy or a rule; none for a rule ON SELECT.
fn on_table(text: &str, catalog: &Catalog) -> Option<TableId> {
    let words: Vec<String> = words(text).collect();
    // `CREATE RULE name AS ON INSERT TO t DO …`, and `… ON t …` elsewhere.
    let is_rule = matches!(declared(text), Some((kind, _)) if kind == "rule");
    let before = if is_rule { "to" } else { "on" };
    let mut events = words.iter().skip_while(|word| *word != "on").skip(1);
    if is_rule && events.next().is_some_and(|event| event == "select") {
        return None;
    }
    let mut after = words.iter().skip_while(|word| *word != before).skip(1);
    let name = after.find(|word| *word != "public")?;
    let tables = catalog.schema.tables.iter();
    tables.clone().find(|t| t.name == *name).map(|t| t.id)
}

/// Whether one statement of the transaction may already do anything to each of these tables: read, insert, delete and
/// change any rows in any way, any number of times.
fn does_anything_to(tables: &[TableId], catalog: &Catalog, summary: &TransactionSummary) -> bool {
    summary.statements.iter().any(|statement| {
        let any = statement.in_loop && statement.may_skip_rows && statement.path.is_empty();
        let does = |table: TableId, role: Role| {
            let all = catalog.schema.table(table).columns.len();
            let changes_all = |writes: &[ColumnWrite]| {
                writes.len() == all && writes.iter().all(|w| w.class == WriteClass::FromData)
            };
            statement.accesses.iter().any(|access| {
                access.table == table
                    && access.role == role
                    && access.conditions.is_empty()
                    && (role != Role::Read || access.columns_read.len() == all)
                    && (role != Role::Update || changes_all(&access.writes))
            })
        };
        let roles = [Role::Read, Role::Insert, Role::Update, Role::Delete];
        any && tables
            .iter()
            .all(|table| roles.iter().all(|role| does(*table, *role)))
    })
}

/// Adds the effects of a trigger to every transaction that writes its table.
pub(super) fn add_trigger_effects(
    trigger: &str,
    catalog: &Catalog,
    undeclared: &Undeclared<'_>,
    summaries: &mut [TransactionSummary],
    numbers: &mut u32,
) {
    let on = match is_cascade(trigger) {
        true => None,
        false => on_table(trigger, catalog),
    };
    let called: Vec<String> = words(trigger).collect();
    let function = undeclared.texts().find(|text| {
        is_trigger_function(text) && declared(text).is_some_and(|(_, name)| called.contains(&name))
    });
    let named: Vec<TableId> = catalog
        .schema
        .tables
        .iter()
        .filter(|t| called.contains(&t.name))
        .map(|t| t.id)
        .collect();
    let tables = match (on, function) {
        _ if is_cascade(trigger) => named.clone(),
        (Some(on), Some(function)) => {
            let own = declared(function).map(|(_, name)| name);
            let (Effects::Reads(mut tables)
            | Effects::Any(mut tables)
            | Effects::Only {
                reads: mut tables, ..
            }) = possible_effects(function, catalog, undeclared, true, own.as_deref());
            if !tables.contains(&on) {
                tables.push(on);
            }
            tables
        }
        _ => everything(catalog),
    };
    let is_all = tables.len() == catalog.schema.tables.len();
    let concerns = |table: TableId| match on {
        Some(on) => table == on,
        None => !is_cascade(trigger) || named.contains(&table),
    };
    for summary in summaries {
        let mut accesses = summary.statements.iter().flat_map(|s| &s.accesses);
        let reads_count = is_policy(trigger);
        let fires = accesses.any(|a| (reads_count || a.role != Role::Read) && concerns(a.table));
        if fires {
            let span = summary.span;
            // Effects that it has anyway are not added again: there are types that fire dozens of triggers.
            if is_all {
                summary.may_change_any_table = true;
            } else if !summary.may_change_any_table && !does_anything_to(&tables, catalog, summary)
            {
                let possible_effects = Effects::Any(tables.clone());
                summary
                    .statements
                    .push(statement(catalog, &possible_effects, span, numbers));
            }
            summary.may_end_early = true;
            summary.only_reads = false;
            summary.keeps.clear();
            let why = || {
                "it fires a trigger, a policy or a foreign key's action that was not analysed"
                    .to_owned()
            };
            summary.unknown.get_or_insert_with(why);
        }
    }
}
