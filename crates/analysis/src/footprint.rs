//! What each transaction type does to each table: the facts that every rule starts from.
//!
//! A type's summary lists the tables of each statement. The footprint adds the effects that follow from the catalog
//! (rows that a cascade deletes or changes), follows terms back to the parameters they come from, and records for
//! each table which types insert, delete and update which column. Analysis is closed-world: a column is *settled*
//! if no type updates it, and a row exists for good if no type deletes from its table.

use anabranch_sql::catalog::{Catalog, ForeignKey, ReferentialAction};
use anabranch_sql::summary::{
    ColumnWrite, Comparison, Condition, Deferral, ResultUse, Role, StatementId, StatementSummary,
    TableAccess, Term, TransactionSummary, WriteClass,
};
use anabranch_types::{ColumnIndex, TableId, TableSchema, Value};

use crate::nullability::Nullability;
use crate::sign::{Sign, Signs};

/// The most terms that one term is followed to.
const STEPS_MAX: usize = 16;

/// The most cascaded effects of one deletion; each table counts once at most.
const CASCADES_MAX: usize = 1_000;

/// An access of one statement of one transaction type to one table.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    /// The type, as an index into [`Footprint::types`].
    pub(crate) owner: usize,
    /// The statement.
    pub(crate) statement: StatementId,
    /// The index of the access in the statement (for a foreign key's action: of the access that it follows from).
    pub(crate) place: usize,
    /// The access. Terms are resolved (see [`resolve`]).
    pub(crate) access: TableAccess,
    /// How the statement's result is used.
    pub(crate) result: ResultUse,
    /// Whether the statement's UPDATE can be deferred to the row's owner.
    pub(crate) deferral: Deferral,
    /// Whether the statement may run more than once in a call.
    pub(crate) in_loop: bool,
    /// Whether the statement writes anything.
    pub(crate) writing: bool,
    /// Whether it is a query that finds no row in each call that writes.
    pub(crate) finds_none: bool,
    /// Whether a foreign key's action does this, not the statement itself.
    pub(crate) cascaded: bool,
    /// Whether this is the implicit write of a row's other columns when an UPDATE changes its primary key.
    pub(crate) carried: bool,
}

impl Action {
    /// The term that fixes `column` in every row accessed: the inserted value, or the value that the WHERE clause
    /// requires.
    pub(crate) fn fixed(&self, column: ColumnIndex) -> Option<&Term> {
        if self.access.role == Role::Insert {
            return match &self.write(column)?.class {
                WriteClass::Assign(term) => Some(term),
                _ => None,
            };
        }
        self.access
            .conditions
            .iter()
            .filter(|c| c.column == column && c.comparison == Comparison::Equal)
            .map(|c| &c.term)
            .min_by_key(|term| informativeness(term))
    }

    /// How `column` is written, if it is.
    pub(crate) fn write(&self, column: ColumnIndex) -> Option<&ColumnWrite> {
        self.access.writes.iter().find(|w| w.column == column)
    }

    /// Whether it changes rows of its table.
    pub(crate) fn is_write(&self) -> bool {
        self.access.role != Role::Read
    }
}

/// Which types write one table, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableFacts {
    /// Types that insert, delete, or update at least one column; each ascending and once.
    pub(crate) inserters: Vec<usize>,
    /// See `inserters`.
    pub(crate) deleters: Vec<usize>,
    /// Types that update each column.
    pub(crate) updaters: Vec<Vec<usize>>,
    /// Whether a row may be deleted and another inserted under its key: what was read of the first then does not
    /// hold of the second.
    pub(crate) rows_may_be_reinserted: bool,
}

impl TableFacts {
    /// Whether any type writes the table.
    pub(crate) fn is_written(&self) -> bool {
        !self.inserters.is_empty()
            || !self.deleters.is_empty()
            || self.updaters.iter().any(|u| !u.is_empty())
    }
}

/// One transaction type.
#[derive(Clone, Debug)]
pub(crate) struct TypeFootprint<'a> {
    /// Its summary.
    pub(crate) summary: &'a TransactionSummary,
    /// Its accesses, statement by statement.
    pub(crate) actions: Vec<Action>,
}

/// The footprints of all transaction types of an application.
#[derive(Clone, Debug)]
pub(crate) struct Footprint<'a> {
    /// The declarations.
    pub(crate) catalog: &'a Catalog,
    /// The types, in order of declaration.
    pub(crate) types: Vec<TypeFootprint<'a>>,
    /// One entry a table of the catalog.
    pub(crate) tables: Vec<TableFacts>,
    signs: Signs,
    nullability: Nullability,
}

impl<'a> Footprint<'a> {
    /// Collects what `summaries` do to the tables of `catalog`. Accesses to tables or columns that the catalog does
    /// not have are skipped: the binder has refused them before.
    pub(crate) fn new(catalog: &'a Catalog, summaries: &'a [TransactionSummary]) -> Footprint<'a> {
        let types = summaries
            .iter()
            .enumerate()
            .map(|(owner, summary)| TypeFootprint {
                summary,
                actions: actions_of(catalog, owner, summary),
            })
            .collect();
        let signs = Signs::new(catalog, summaries);
        let mut footprint = Footprint {
            catalog,
            types,
            tables: Vec::new(),
            signs,
            nullability: Nullability::new(catalog, summaries),
        };
        footprint.tables = footprint.gather_tables();
        for table in &catalog.schema.tables {
            let again = {
                let mut inserts = footprint.on_table(table.id);
                inserts.any(|action| footprint.may_replace(action))
            };
            footprint.tables[table.id.index()].rows_may_be_reinserted = again;
        }
        footprint
    }

    fn gather_tables(&self) -> Vec<TableFacts> {
        let mut tables: Vec<TableFacts> = self
            .catalog
            .schema
            .tables
            .iter()
            .map(|t| TableFacts {
                updaters: vec![Vec::new(); t.columns.len()],
                ..TableFacts::default()
            })
            .collect();
        for action in self.actions() {
            let facts = &mut tables[action.access.table.index()];
            match action.access.role {
                Role::Read => {}
                Role::Insert => note(&mut facts.inserters, action.owner),
                Role::Delete => note(&mut facts.deleters, action.owner),
                // Columns that move with their row do not change.
                Role::Update if action.carried => {}
                Role::Update => {
                    for write in &action.access.writes {
                        note(&mut facts.updaters[write.column.index()], action.owner);
                    }
                }
            }
        }
        tables
    }

    /// The accesses of all types.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &Action> {
        self.types.iter().flat_map(|t| &t.actions)
    }

    /// The accesses of one type to one table.
    pub(crate) fn on(&self, owner: usize, table: TableId) -> impl Iterator<Item = &Action> {
        self.types[owner]
            .actions
            .iter()
            .filter(move |a| a.access.table == table)
    }

    /// The accesses of all types to one table.
    pub(crate) fn on_table(&self, table: TableId) -> impl Iterator<Item = &Action> {
        self.actions().filter(move |a| a.access.table == table)
    }

    /// The table's schema.
    pub(crate) fn table(&self, table: TableId) -> &TableSchema {
        self.catalog.schema.table(table)
    }

    /// Which types write the table, and how.
    pub(crate) fn facts(&self, table: TableId) -> &TableFacts {
        &self.tables[table.index()]
    }

    /// Whether no type changes the column in an existing row.
    pub(crate) fn is_settled(&self, table: TableId, column: ColumnIndex) -> bool {
        self.facts(table).updaters[column.index()].is_empty()
    }

    /// Whether the column's value under a key may change: some type updates it, or a row may be deleted and
    /// inserted again.
    pub(crate) fn may_change(&self, table: TableId, column: ColumnIndex) -> bool {
        !self.is_settled(table, column) || self.facts(table).rows_may_be_reinserted
    }

    /// Whether the plan defers an UPDATE to the row's owner. An UPDATE that returns columns is deferred only if no
    /// type changes these columns: else reading them would have to be ordered.
    pub(crate) fn is_deferred(&self, deferral: Deferral, access: &TableAccess) -> bool {
        match deferral {
            Deferral::None => false,
            Deferral::Unread => true,
            Deferral::AfterReading => {
                let mut returned = access.columns_returned.iter();
                returned.all(|column| !self.may_change(access.table, *column))
            }
        }
    }

    /// Whether an INSERT may reuse the key of an earlier row: the key is not generated, and some type deletes rows
    /// or changes their keys.
    pub(crate) fn may_replace(&self, insert: &Action) -> bool {
        let table = insert.access.table;
        let key = &self.table(table).primary_key;
        let generated = |c: &ColumnIndex| matches!(insert.fixed(*c), Some(Term::Generated));
        insert.access.role == Role::Insert
            && !key.iter().any(generated)
            && (!self.facts(table).deleters.is_empty()
                || key.iter().any(|c| !self.is_settled(table, *c)))
    }

    /// The column as `table.column`.
    pub(crate) fn column_name(&self, table: TableId, column: ColumnIndex) -> String {
        let table = self.table(table);
        format!("{}.{}", table.name, table.columns[column.index()].name)
    }

    /// Whether an UPDATE changes a column from which another computes `column` of the same row: the owner then
    /// computes another value than the one that was checked.
    pub(crate) fn feeds(&self, action: &Action, column: ColumnIndex) -> bool {
        let computed = |a: &Action| {
            a.write(column)
                .is_some_and(|w| matches!(w.class, WriteClass::FromRow))
        };
        action.access.role == Role::Update
            && !computed(action)
            && self.on_table(action.access.table).any(|a| {
                let read = |c: &ColumnIndex| action.write(*c).is_some();
                computed(a) && a.access.columns_read.iter().any(read)
            })
    }

    /// Whether an UPDATE may make a column NULL by adding NULL to it: then the amount is no increment.
    pub(crate) fn may_add_null(&self, action: &Action, column: ColumnIndex) -> bool {
        let described = &self.table(action.access.table).columns[column.index()];
        let Some(ColumnWrite {
            class: WriteClass::Add { .. },
            amount_null_by,
            ..
        }) = action.write(column)
        else {
            return false;
        };
        described.nullable
            && !amount_null_by
                .as_ref()
                .is_some_and(|terms| terms.iter().all(|term| self.is_never_null(action, term)))
    }

    /// Whether an UPDATE may assign NULL to a column.
    pub(crate) fn may_assign_null(&self, action: &Action, column: ColumnIndex) -> bool {
        // The term as in the summary: what it equals is not NULL where it is, if a query has found no row.
        let statement = self.statement(action.owner, action.statement);
        let access = statement.and_then(|statement| statement.accesses.get(action.place));
        let mut writes = access.into_iter().flat_map(|access| &access.writes);
        let write = writes.find(|write| write.column == column);
        let described = &self.table(action.access.table).columns[column.index()];
        described.nullable
            && match write.map(|write| &write.class) {
                Some(WriteClass::Assign(term)) if !action.cascaded => {
                    !self.is_never_null(action, term)
                }
                _ => true,
            }
    }

    /// Whether a value is known not to be NULL wherever this action changes a row. The term is as in the summary.
    fn is_never_null(&self, action: &Action, term: &Term) -> bool {
        let summary = self.types[action.owner].summary;
        self.statement(action.owner, action.statement)
            .is_some_and(|statement| {
                self.nullability.never_null(
                    self.catalog,
                    (action.owner, summary),
                    statement,
                    &action.access,
                    term,
                )
            })
    }

    /// The sign of a term of `owner`, as far as it is known.
    pub(crate) fn sign(&self, owner: usize, term: &Term) -> Sign {
        self.signs.of(owner, self.types[owner].summary, term)
    }

    /// A statement of a type.
    pub(crate) fn statement(
        &self,
        owner: usize,
        statement: StatementId,
    ) -> Option<&StatementSummary> {
        let mut statements = self.types[owner].summary.statements.iter();
        statements.find(|s| s.id == statement)
    }

    /// The name of a type.
    pub(crate) fn type_name(&self, owner: usize) -> &str {
        &self.types[owner].summary.name
    }

    /// The UPDATE of `owner` that increments `column` in statement `statement`, with the step; `None` if the step
    /// is not a constant.
    pub(crate) fn increment(
        &self,
        owner: usize,
        statement: StatementId,
        column: ColumnIndex,
    ) -> Option<(&Action, i64)> {
        self.types[owner].actions.iter().find_map(|action| {
            if action.statement != statement || action.access.role != Role::Update {
                return None;
            }
            match &action.write(column)?.class {
                WriteClass::Add {
                    term: Term::Constant(Value::Int(n)),
                    negated,
                } => Some((action, if *negated { -n } else { *n })),
                _ => None,
            }
        })
    }
}

fn note(list: &mut Vec<usize>, owner: usize) {
    if list.last() != Some(&owner) && !list.contains(&owner) {
        list.push(owner);
    }
}

fn actions_of(catalog: &Catalog, owner: usize, summary: &TransactionSummary) -> Vec<Action> {
    let mut actions = Vec::new();
    for statement in &summary.statements {
        let writing = statement.accesses.iter().any(|a| a.role != Role::Read);
        for (place, access) in statement.accesses.iter().enumerate() {
            if !is_known(catalog, access) {
                continue;
            }
            let mut access = access.clone();
            for condition in &mut access.conditions {
                condition.term = resolve(summary, &condition.term);
            }
            for write in &mut access.writes {
                if let WriteClass::Assign(term) | WriteClass::Add { term, .. } = &mut write.class {
                    *term = resolve(summary, term);
                }
            }
            let action = Action {
                owner,
                statement: statement.id,
                place,
                access,
                result: result_use(summary, statement),
                deferral: statement.deferral,
                in_loop: statement.in_loop,
                writing,
                finds_none: statement.finds_none,
                cascaded: false,
                carried: false,
            };
            let first = actions.len();
            actions.push(action);
            // Cascades are part of what such a type may do anyway.
            if !summary.may_change_any_table {
                let deleted = actions.last().expect("it was just pushed");
                let cascades = cascades_of(catalog, deleted);
                actions.extend(cascades);
            }
            let moved = actions[first..].iter();
            let carried: Vec<Action> = moved.filter_map(|a| carried(catalog, a)).collect();
            actions.extend(carried);
        }
    }
    actions
}

/// The columns that an UPDATE of the primary key writes implicitly. Merging treats the moved rows as new ones:
/// concurrent changes of the old rows are lost.
fn carried(catalog: &Catalog, update: &Action) -> Option<Action> {
    let table = catalog.schema.table(update.access.table);
    let is_key = |column: &ColumnIndex| table.primary_key.contains(column);
    let moves = update.access.role == Role::Update
        && update
            .access
            .writes
            .iter()
            .any(|write| is_key(&write.column));
    let columns = (0..table.columns.len()).map(|column| ColumnIndex(column as u16));
    let others = columns.filter(|column| update.write(*column).is_none());
    let writes: Vec<ColumnWrite> = others
        .map(|column| ColumnWrite {
            column,
            class: WriteClass::FromData,
            null_by: Vec::new(),
            amount_null_by: None,
        })
        .collect();
    let access = TableAccess {
        writes,
        ..update.access.clone()
    };
    (moves && !access.writes.is_empty()).then(|| Action {
        access,
        carried: true,
        deferral: Deferral::None,
        ..update.clone()
    })
}

/// How a statement's result is used: as *used* if another statement refers to its rows.
fn result_use(summary: &TransactionSummary, statement: &StatementSummary) -> ResultUse {
    let of_it = |term: &Term| {
        matches!(term, Term::Column { statement: s, .. } | Term::Aggregate { statement: s, .. }
            if *s == statement.id)
    };
    let named = summary
        .statements
        .iter()
        .filter(|s| s.id != statement.id)
        .any(|s| {
            s.accesses.iter().any(|a| {
                a.conditions.iter().any(|c| of_it(&c.term))
                    || a.writes.iter().any(|w| match &w.class {
                        WriteClass::Assign(term) | WriteClass::Add { term, .. } => of_it(term),
                        WriteClass::FromRow | WriteClass::FromData => false,
                    })
            })
        });
    match statement.result {
        ResultUse::Unused if named => ResultUse::Used,
        other => other,
    }
}

fn is_known(catalog: &Catalog, access: &TableAccess) -> bool {
    let Some(table) = catalog.schema.tables.get(access.table.index()) else {
        return false;
    };
    let fits = |c: ColumnIndex| c.index() < table.columns.len();
    access.columns_read.iter().all(|c| fits(*c))
        && access.columns_returned.iter().all(|c| fits(*c))
        && access.writes.iter().all(|w| fits(w.column))
        && access.conditions.iter().all(|c| fits(c.column))
}

/// Follows a column that was read through the equalities of the reading statement, joins included, and returns the
/// most informative of the terms that it equals.
fn resolve(summary: &TransactionSummary, term: &Term) -> Term {
    let mut equal = vec![term.clone()];
    let mut next = 0;
    while let Some(Term::Column {
        statement,
        access,
        column,
    }) = equal.get(next).cloned()
    {
        next += 1;
        let found = summary
            .statements
            .iter()
            .find(|s| s.id == statement)
            .and_then(|s| s.accesses.get(access));
        let conditions = found.into_iter().flat_map(|a| &a.conditions);
        for condition in conditions {
            let equals = condition.column == column && condition.comparison == Comparison::Equal;
            if equals && !equal.contains(&condition.term) && equal.len() < STEPS_MAX {
                // Columns come before the terms that they lead to, so that all of them are followed.
                let is_column = matches!(condition.term, Term::Column { .. });
                let place = if is_column { next } else { equal.len() };
                equal.insert(place, condition.term.clone());
            }
        }
    }
    // Among equal columns the one that is read first, so that two ways to one value resolve alike.
    let first = |term: &Term| match term {
        Term::Column {
            statement, access, ..
        } => Some((*statement, *access)),
        _ => None,
    };
    equal
        .into_iter()
        .min_by_key(|term| (informativeness(term), first(term)))
        .unwrap_or_else(|| term.clone())
}

/// How informative a term is: 0 is best.
fn informativeness(term: &Term) -> u8 {
    match term {
        Term::Parameter(_) => 0,
        Term::Constant(_) => 1,
        Term::Incremented { .. } | Term::Aggregate { .. } => 2,
        Term::Element(_) => 3,
        Term::Column { .. } | Term::Now | Term::Generated => 4,
        Term::Pure | Term::Negated(_) => 5,
        Term::Unknown => 6,
    }
}

/// The deletions and updates that foreign keys add to a deletion or to a change of keys, through all levels. Rows
/// of one table that are reached in two ways satisfy only the conditions of both.
fn cascades_of(catalog: &Catalog, action: &Action) -> Vec<Action> {
    let mut found: Vec<Action> = Vec::new();
    let mut pending = vec![action.clone()];
    while let Some(parent) = pending.pop() {
        for child in &catalog.tables {
            let keys = child.foreign_keys.iter();
            for key in keys.filter(|k| k.parent == parent.access.table) {
                let Some(mut cascade) = cascade(&parent, child.id, key) else {
                    continue;
                };
                compute(catalog, &mut cascade, &key.columns);
                let same = |a: &&mut Action| {
                    a.access.table == cascade.access.table
                        && a.access.role == cascade.access.role
                        && a.access.writes == cascade.access.writes
                };
                let full = found.len() >= CASCADES_MAX;
                match found.iter_mut().find(same) {
                    None if !full => {
                        pending.push(cascade.clone());
                        found.push(cascade);
                    }
                    None => {}
                    Some(seen) => {
                        let demanded = seen.access.conditions.len();
                        let also = |c: &Condition| cascade.access.conditions.contains(c);
                        seen.access.conditions.retain(also);
                        if seen.access.conditions.len() < demanded {
                            pending.push(seen.clone());
                        }
                    }
                }
            }
        }
    }
    found
}

/// Adds what changes with what an action of a foreign key assigns, the columns of its `key`: generated columns, and those that
/// triggers assign.
fn compute(catalog: &Catalog, cascade: &mut Action, key: &[ColumnIndex]) {
    let access = &mut cascade.access;
    if access.role != Role::Update {
        return;
    }
    let computed = catalog.computed_by_update(access.table, key);
    // What a trigger assigns wins.
    access
        .writes
        .retain(|write| !computed.iter().any(|(column, _)| *column == write.column));
    for (column, reads) in computed {
        access.writes.push(ColumnWrite {
            column,
            class: WriteClass::FromData,
            null_by: Vec::new(),
            amount_null_by: None,
        });
        for read in reads {
            if !access.columns_read.contains(&read) {
                access.columns_read.push(read);
            }
        }
    }
}

/// The action of a foreign key of `child` on a write to its parent.
fn cascade(parent: &Action, child: TableId, key: &ForeignKey) -> Option<Action> {
    let columns = || key.columns.iter().zip(&key.parent_columns);
    let all = |class: WriteClass| -> Vec<ColumnWrite> {
        let of = |column: &ColumnIndex| ColumnWrite {
            column: *column,
            class: class.clone(),
            null_by: Vec::new(),
            amount_null_by: None,
        };
        key.columns.iter().map(of).collect()
    };
    let null = || WriteClass::Assign(Term::Constant(Value::Null));
    let (action, gone) = match parent.access.role {
        Role::Delete => (key.on_delete, true),
        Role::Update if columns().any(|(_, p)| parent.write(*p).is_some()) => {
            (key.on_update, false)
        }
        _ => return None,
    };
    let (role, writes) = match action {
        ReferentialAction::NoAction | ReferentialAction::Restrict => return None,
        ReferentialAction::Cascade if gone => (Role::Delete, Vec::new()),
        ReferentialAction::Cascade => {
            // The child's columns follow the parent's columns that change.
            let follow = |(column, of_parent): (&ColumnIndex, &ColumnIndex)| {
                let class = match &parent.write(*of_parent)?.class {
                    WriteClass::Assign(term) => WriteClass::Assign(term.clone()),
                    _ => WriteClass::FromData,
                };
                Some(ColumnWrite {
                    column: *column,
                    class,
                    null_by: Vec::new(),
                    amount_null_by: None,
                })
            };
            (Role::Update, columns().filter_map(follow).collect())
        }
        ReferentialAction::SetNull => (Role::Update, all(null())),
        ReferentialAction::SetDefault => (Role::Update, all(WriteClass::Assign(Term::Pure))),
    };
    let conditions = columns()
        .filter_map(|(column, of_parent)| {
            Some(Condition {
                column: *column,
                comparison: Comparison::Equal,
                term: parent.fixed(*of_parent)?.clone(),
            })
        })
        .collect();
    Some(Action {
        access: TableAccess {
            table: child,
            role,
            columns_read: key.columns.clone(),
            columns_returned: Vec::new(),
            writes,
            conditions,
            has_other_conditions: true,
            listed: Vec::new(),
            draws_key: false,
            span: parent.access.span,
        },
        result: ResultUse::Unused,
        deferral: Deferral::None,
        cascaded: true,
        carried: false,
        ..parent.clone()
    })
}
