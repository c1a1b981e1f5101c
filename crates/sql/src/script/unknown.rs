//! What is not understood, told so that it makes nothing safe: whatever a text names, it may read and
//! write, all of it.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, TableId, TableSchema};

use super::{
    lost::{Lost, declared, is_cascade, is_policy, is_trigger_function, routine},
    peculiar::Peculiar,
    scan::{Part, words},
    tokens::{Token, begin, closing, listed, name_of, tokens},
};
use crate::{
    bind::builtin::is_builtin,
    catalog::{Catalog, ReferentialAction},
    source::Span,
    summary::{
        ColumnWrite, Deferral, ResultUse, Role, StatementId, StatementSummary, TableAccess, Term,
        TransactionSummary, WriteClass,
    },
};

/// A transaction type of which something is not understood.
#[derive(Clone, Debug)]
pub(super) struct Unknown {
    pub(super) name: String,
    pub(super) span: Span,
    /// What is wrong with it.
    pub(super) reason: String,
    /// The texts of its statements.
    pub(super) statements: Vec<Text>,
    /// Whether that is a whole routine, whose words are of several statements.
    pub(super) whole: bool,
}

/// A statement's text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// Whether more of it follows that nobody knows.
    pub(super) cut: bool,
}

impl Text {
    /// A text of which nothing is missing.
    pub(super) fn whole(text: &str) -> Text {
        Text {
            text: text.to_owned(),
            cut: false,
        }
    }
}

/// What a text may do.
#[derive(Clone, Debug, PartialEq)]
enum Reach {
    /// Read these.
    Reads(Vec<TableId>),
    /// Anything to these.
    Any(Vec<TableId>),
    /// Read these, and of one of them only so much.
    Only {
        reads: Vec<TableId>,
        target: TableId,
        role: Role,
        /// What of it an UPDATE may write.
        updates: Vec<ColumnIndex>,
    },
}

impl Unknown {
    /// All that it may do. `lost` are declarations that are left out, `declares` is whether routines are
    /// declared beside what clients run, `numbers` the next statement's number.
    pub(super) fn summary(
        &self,
        catalog: &Catalog,
        lost: &Lost<'_>,
        declares: bool,
        numbers: &mut u32,
    ) -> TransactionSummary {
        let mut reaches: Vec<Reach> = Vec::new();
        for Text { text, cut } in &self.statements {
            let more = match cut {
                true => cut_reach(text, catalog, lost, declares),
                false => vec![reach(text, catalog, lost, self.whole, Some(&self.name))],
            };
            for reach in more {
                if !reaches.contains(&reach) {
                    reaches.push(reach);
                }
            }
        }
        // Who may do anything to everything may do no more besides.
        let everything = catalog.schema.tables.len();
        let is_all = |reach: &Reach| matches!(reach, Reach::Any(all) if all.len() == everything);
        let does_anything = reaches.iter().any(is_all);
        let only_reads = reaches.iter().all(|r| matches!(r, Reach::Reads(_)));
        if does_anything {
            reaches.clear();
        }
        let statements = reaches
            .iter()
            .map(|reach| statement(catalog, reach, self.span, numbers))
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
            does_anything,
        }
    }
}

impl TransactionSummary {
    /// Its statements; behind them, where it may do anything to every table, one that does.
    pub fn all_it_may_do(&self, catalog: &Catalog) -> Vec<StatementSummary> {
        let mut statements = self.statements.clone();
        if self.does_anything {
            let numbers = statements.iter().map(|of| of.id.0 + 1);
            let next = StatementId(numbers.max().unwrap_or(0));
            statements.push(anything(catalog, self.span, next));
        }
        statements
    }
}

/// A statement that may do anything to every table.
pub fn anything(catalog: &Catalog, span: Span, id: StatementId) -> StatementSummary {
    let reach = Reach::Any(everything(catalog));
    let StatementId(mut number) = id;
    statement(catalog, &reach, span, &mut number)
}

fn everything(catalog: &Catalog) -> Vec<TableId> {
    catalog.schema.tables.iter().map(|t| t.id).collect()
}

/// A statement that may do that.
fn statement(catalog: &Catalog, reach: &Reach, span: Span, numbers: &mut u32) -> StatementSummary {
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
    match reach {
        Reach::Reads(tables) => {
            done.extend(tables.iter().map(|table| (*table, Role::Read, Vec::new())));
        }
        Reach::Any(tables) => {
            for table in tables {
                done.extend(ALL.map(|role| (*table, role, columns(*table))));
            }
        }
        Reach::Only {
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
            Role::Update => Some(WriteClass::OfData),
            Role::Read | Role::Delete => None,
        };
        let write = |column, class: &WriteClass| ColumnWrite {
            column,
            class: class.clone(),
            null_by: columns(table),
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
            filtered_otherwise: true,
            listed: Vec::new(),
            span,
        });
    }
    StatementSummary {
        id,
        span,
        in_loop: true,
        path: Vec::new(),
        may_leave_out: true,
        inserts_one: false,
        accesses,
        result: ResultUse::Used,
        deferral: Deferral::None,
    }
}

/// What a text may reach by the names in it.
fn reach(text: &str, catalog: &Catalog, lost: &Lost<'_>, whole: bool, own: Option<&str>) -> Reach {
    const WRITING: [&str; 13] = [
        "insert", "update", "delete", "merge", "truncate", "call", "execute", "do", "copy",
        "perform", "replace", "nextval", "setval",
    ];
    // Those whose effects are not where their names are.
    const ELSEWHERE: [&str; 4] = ["execute", "truncate", "prepare", "perform"];
    // What holds rows, and does nothing.
    const IS_DATA: [&str; 2] = ["table", "view"];
    let mut named: Vec<String> = words(text).collect();
    lost.through_views(&mut named);
    let names = |name: &str| named.iter().any(|word| word == name);
    let everything = || catalog.schema.tables.iter().map(|t| t.id).collect();
    let routines = catalog.procedures.iter().map(|p| p.name.as_str());
    let is_own = |name: &str| own == Some(name);
    let calls = routines.filter(|name| !is_own(name)).any(names)
        || lost
            .declared()
            .any(|(kind, name)| !IS_DATA.contains(&kind) && !is_own(name) && names(name));
    // In a string, a body hides what it does from who looks for words alone.
    let body = || text.contains("$$") || whole && text.contains('\'');
    let inside = || {
        let unquoted = text.replace(['\'', '$'], " ");
        let strange = calls_strange(&unquoted, catalog, lost, own);
        let mut inside: Vec<String> = words(&unquoted).collect();
        lost.through_views(&mut inside);
        (inside, strange)
    };
    let (named, strange) = match body() {
        true => inside(),
        false => (named.clone(), calls_strange(text, catalog, lost, own)),
    };
    let names = |name: &str| named.iter().any(|word| word.eq_ignore_ascii_case(name));
    let strange = strange
        || lost
            .views()
            .any(|(name, query)| names(name) && calls_strange(query, catalog, lost, own));
    let tables: Vec<TableId> = catalog
        .schema
        .tables
        .iter()
        .filter(|t| names(&t.name))
        .map(|t| t.id)
        .collect();
    let writes = WRITING.iter().any(|word| names(word)) || names("into") && !whole;
    let of_lost = lost
        .declared()
        .any(|(kind, name)| kind == "table" && names(name));
    let is_block = named.first().is_some_and(|first| first == "do");
    let elsewhere = is_block || ELSEWHERE.iter().any(|word| names(word));
    if whole && is_foreign(text) || elsewhere || calls || strange {
        Reach::Any(everything())
    } else if !writes {
        Reach::Reads(tables)
    } else if tables.is_empty() && !of_lost {
        Reach::Any(everything())
    } else {
        match of_one(text, catalog).filter(|_| !whole) {
            Some((target, role, updates)) => Reach::Only {
                reads: tables,
                target,
                role,
                updates,
            },
            None => Reach::Any(tables),
        }
    }
}

/// What stands in a text for what is not known of it.
const HOLE: char = '…';

/// Whether a text calls a function that nobody knows: neither declared, nor among those that do nothing.
fn calls_strange(text: &str, catalog: &Catalog, lost: &Lost<'_>, own: Option<&str>) -> bool {
    let all = tokens(text);
    let holds_rows = |name: &str| {
        let mut lost = lost.declared();
        catalog.schema.tables.iter().any(|table| table.name == name)
            || lost.any(|(kind, of)| kind == "table" && of == name)
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

/// The table that an INSERT or an UPDATE writes, and nothing else: its words before the first bracket tell.
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
    // One table, perhaps by another name: MySQL's UPDATE may change several.
    let is_set = |at: usize| all.get(at).is_some_and(|t| t.is("set"));
    let renamed = next + 1 + usize::from(all.get(next).is_some_and(|t| t.is("as")));
    if role == Role::Update && !is_set(next) && !is_set(renamed) {
        return None;
    }
    let table = catalog.schema.tables.iter().find(|t| t.name == name)?;
    // A change to a key goes on to those that refer to it.
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

/// Whether a routine is in a language whose words do not tell what it does.
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

/// What a statement may reach of which not all is known: in the place of what is not stands [`HOLE`]. What it writes is
/// known where its beginning names it; what it reads may be anything. A hole is taken for a part of the statement:
/// a name, a condition, a list.
fn cut_reach(text: &str, catalog: &Catalog, lost: &Lost<'_>, declares: bool) -> Vec<Reach> {
    let head = text.split(HOLE).next().unwrap_or_default();
    let everything: Vec<TableId> = catalog.schema.tables.iter().map(|t| t.id).collect();
    let known: Vec<String> = words(head).take(3).collect();
    let word = |at: usize| known.get(at).map_or("", String::as_str);
    let at = match (word(0), word(1)) {
        ("select", _) => None,
        ("update", _) => Some(1),
        ("insert" | "replace", "into") | ("delete", "from") => Some(2),
        _ => return vec![Reach::Any(everything)],
    };
    // What is not known may call a routine, which may write; and what is known behind it may be anything.
    let routines = lost.texts().any(|text| routine(text).is_some());
    let filled = text.replace(HOLE, "hole");
    let all = tokens(&filled);
    let is_last = |token: &Token<'_>| token.end == all.last().map_or(0, |last| last.end);
    let goes_on = all
        .iter()
        .any(|token| token.is_sign(';') && !is_last(token));
    if routines || declares || goes_on || calls_strange(&filled, catalog, lost, None) {
        return vec![Reach::Any(everything)];
    }
    let Some(at) = at else {
        return vec![Reach::Reads(everything)];
    };
    // A name that goes on where the text is cut is another's.
    let ends = head.ends_with(|c: char| c.is_whitespace() || c == '(') || known.len() > at + 1;
    let target = catalog.schema.tables.iter().find(|t| t.name == word(at));
    match target {
        Some(target) if ends => vec![Reach::Any(vec![target.id]), Reach::Reads(everything)],
        _ => vec![Reach::Any(everything)],
    }
}

/// A table of whose rows a declaration demands something that is not understood.
struct Constrained {
    table: TableId,
    /// The columns that it is about, where it is about each row that is inserted or changed and nothing else.
    columns: Option<Vec<ColumnIndex>>,
}

impl Constrained {
    /// Whether an access may violate what is demanded.
    fn is_violated_by(&self, access: &TableAccess) -> bool {
        let written = |columns: &Vec<ColumnIndex>| match access.role {
            Role::Insert => true,
            Role::Update => access.writes.iter().any(|w| columns.contains(&w.column)),
            // Fewer rows violate no condition on each of them, and on no two.
            Role::Read | Role::Delete => false,
        };
        let any = access.role != Role::Read;
        access.table == self.table && any && self.columns.as_ref().is_none_or(written)
    }
}

/// The tables of whose rows a declaration demands something that is not understood.
fn constrained(text: &str, catalog: &Catalog, lost: &Lost<'_>) -> Vec<Constrained> {
    let mut all: Vec<String> = words(text).collect();
    if matches!(declared(text), Some((kind, _)) if kind == "assertion") {
        lost.through_views(&mut all);
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
    // It is about the rows of the table that is named first, one by one, unless that is named again, as a whole row is.
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

/// The same, as words.
fn constrained_names(text: &str, catalog: &Catalog, lost: &Lost<'_>) -> Option<String> {
    let found = constrained(text, catalog, lost);
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

/// Whoever writes what a declaration that is left out demands something of may violate it.
pub(super) fn constrain(
    declaration: &str,
    catalog: &Catalog,
    lost: &Lost<'_>,
    peculiar: &Peculiar,
    summaries: &mut [TransactionSummary],
) {
    let mut demanded = constrained(declaration, catalog, lost);
    // Who writes what a column is computed from changes that one, too.
    for ((table, column), sources) in peculiar.computed(catalog) {
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
            let why = format!("a constraint on {table} is not understood");
            summary.unknown.get_or_insert(why);
        }
    }
}

/// What it means that a declaration is left out.
pub(super) fn meaning(text: &str, catalog: &Catalog, lost: &Lost<'_>) -> String {
    let Some((kind, name)) = declared(text) else {
        return "whatever it declares is not considered".to_owned();
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
    if let Some(tables) = constrained_names(text, catalog, lost) {
        return format!("transactions that write {tables} are unknown: they may violate it");
    }
    match kind.as_str() {
        "table" if is_cascade(text) => format!(
            "the foreign key of {name} has no verdict, and transactions that write the tables that it \
             names are taken to do anything to them"
        ),
        "table" if words(text).next().as_deref() == Some("alter") => format!(
            "what it changes of {name} is not considered: a constraint that it declares has no verdict"
        ),
        "table" => format!(
            "{name} and its constraints have no verdicts, and transactions that name it are unknown"
        ),
        "view" => format!("{name} is not there, and transactions that name it are unknown"),
        "function" | "procedure" if is_trigger_function(text) => {
            format!("what {name} does counts wherever a trigger runs it")
        }
        "function" | "procedure" | "event" => {
            format!("{name} is taken to do anything to the tables that it names")
        }
        "rule" => match on_table(text, catalog) {
            Some(table) => format!(
                "transactions that write {} are taken to do anything to every table",
                catalog.schema.table(table).name
            ),
            None => "transactions that write are taken to do anything to every table".to_owned(),
        },
        "trigger" => match on_table(text, catalog) {
            Some(table) => format!(
                "transactions that write {} are taken to do anything to it and to what its function names",
                catalog.schema.table(table).name
            ),
            None => "transactions that write are taken to do anything to every table".to_owned(),
        },
        "policy" => match on_table(text, catalog) {
            Some(table) => format!(
                "transactions that use {} are taken to do anything to every table",
                catalog.schema.table(table).name
            ),
            None => "transactions are taken to do anything to every table".to_owned(),
        },
        "assertion" => format!("{name} has no verdict, and is not enforced"),
        "index" => "it makes some answers faster, and no verdict differs".to_owned(),
        _ => "whatever it declares is not considered".to_owned(),
    }
}

/// The table that a trigger, a policy or a rule is on; none for a rule about those who read it.
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

/// Whether one statement may do anything to each of these tables: read, insert, delete and change any rows in any way,
/// however often.
fn does_anything_to(tables: &[TableId], catalog: &Catalog, summary: &TransactionSummary) -> bool {
    summary.statements.iter().any(|statement| {
        let any = statement.in_loop && statement.may_leave_out && statement.path.is_empty();
        let does = |table: TableId, role: Role| {
            let all = catalog.schema.table(table).columns.len();
            let changes_all = |writes: &[ColumnWrite]| {
                writes.len() == all && writes.iter().all(|w| w.class == WriteClass::OfData)
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

/// Whoever writes the table of a trigger does what the trigger may do.
pub(super) fn fire(
    trigger: &str,
    catalog: &Catalog,
    lost: &Lost<'_>,
    summaries: &mut [TransactionSummary],
    numbers: &mut u32,
) {
    let on = match is_cascade(trigger) {
        true => None,
        false => on_table(trigger, catalog),
    };
    let called: Vec<String> = words(trigger).collect();
    let function = lost.texts().find(|text| {
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
            let (Reach::Reads(mut tables)
            | Reach::Any(mut tables)
            | Reach::Only {
                reads: mut tables, ..
            }) = reach(function, catalog, lost, true, own.as_deref());
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
            // What it may do in any case is not told again: there are types that fire dozens of triggers.
            if is_all {
                summary.does_anything = true;
            } else if !summary.does_anything && !does_anything_to(&tables, catalog, summary) {
                let reach = Reach::Any(tables.clone());
                summary
                    .statements
                    .push(statement(catalog, &reach, span, numbers));
            }
            summary.may_end_early = true;
            summary.only_reads = false;
            summary.keeps.clear();
            let why = || {
                "what runs with it, a trigger, a policy or a foreign key's action, is not understood"
                    .to_owned()
            };
            summary.unknown.get_or_insert_with(why);
        }
    }
}
