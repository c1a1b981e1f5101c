//! A change of the schema, applied to the rows of all partitions, while no transaction runs.
//!
//! A table whose rows are encoded and placed as before is moved with all its rows. Every other table is made anew: each
//! row is mapped, and loaded at its place. What is replaced is kept, so that the change can be [undone](Undo::undo).

use std::fmt;
use std::sync::Arc;

use anabranch_storage::rebuild::is_same_layout;
use anabranch_storage::{ApplyError, DetachedTable, LoadError, Store};
use anabranch_types::{EffectError, Key, PartitionId, Placement, Row, TableId, TableSchema};
use rustc_hash::FxHashSet;

use crate::application::PlannedApplication;
use crate::routing::Target;

/// Where the rows of a table come from.
#[derive(Clone, Copy)]
pub enum TableSource<'c> {
    /// It has none: it is new, or was emptied.
    Empty,
    /// From this table of the schema before, as they are.
    Kept(TableId),
    /// From this table of the schema before, each mapped.
    Mapped(TableId, RowMap<'c>),
}

/// Makes a row of the new table, with its key, from one of the old.
pub type RowMap<'c> = &'c dyn Fn(&Key, &Row) -> Result<(Key, Row), EffectError>;

impl fmt::Debug for TableSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableSource::Empty => f.write_str("Empty"),
            TableSource::Kept(table) => f.debug_tuple("Kept").field(table).finish(),
            TableSource::Mapped(table, _) => f.debug_tuple("Mapped").field(table).finish(),
        }
    }
}

impl TableSource<'_> {
    fn table(&self) -> Option<TableId> {
        match self {
            TableSource::Empty => None,
            TableSource::Kept(table) | TableSource::Mapped(table, _) => Some(*table),
        }
    }
}

/// The stores of all partitions after a change, and the way back.
pub struct ChangedStores {
    /// The stores, in the order of partitions.
    pub stores: Vec<Store>,
    /// Undoes the change.
    pub undo: Undo,
}

/// What a change has replaced.
pub struct Undo {
    before: Arc<PlannedApplication>,
    /// The tables that went on: their old and new ids.
    moved: Vec<(TableId, TableId)>,
    /// The others, of each partition.
    aside: Vec<Vec<(TableId, DetachedTable)>>,
}

impl fmt::Debug for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undo")
            .field("moved", &self.moved)
            .field("aside", &self.aside)
            .finish_non_exhaustive()
    }
}

impl Undo {
    /// The application before the change.
    pub fn before(&self) -> &Arc<PlannedApplication> {
        &self.before
    }

    /// The stores as they were before the change. What was written to tables that went on stays.
    pub fn undo(self, stores: Vec<Store>) -> Vec<Store> {
        let schema = self.before.schema();
        let partitions = stores.into_iter().zip(self.aside);
        let restored = partitions.map(|(store, aside)| {
            let mut old = store.successor(schema);
            let mut tables: Vec<Option<DetachedTable>> =
                store.into_tables().into_iter().map(Some).collect();
            for (before, after) in &self.moved {
                if let Some(table) = tables[after.index()].take() {
                    old.attach(*before, table);
                }
            }
            for (before, table) in aside {
                old.attach(before, table);
            }
            old.finish_attaching();
            old
        });
        restored.collect()
    }
}

/// Why a change was not made, and the stores as they were.
pub struct Unchanged {
    /// The stores, in the order of partitions.
    pub stores: Vec<Store>,
    /// The reason.
    pub error: EffectError,
}

impl fmt::Debug for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unchanged")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

/// Changes the stores of all partitions from one schema to another. `sources` has an entry for each table of the new
/// one.
///
/// # Errors
/// When a row cannot be mapped, or two have the same primary key.
///
/// # Panics
/// When there is not one source for each table, or a table is the source of two.
pub fn change_stores(
    stores: Vec<Store>,
    before: &Arc<PlannedApplication>,
    after: &PlannedApplication,
    sources: &[TableSource<'_>],
) -> Result<ChangedStores, Box<Unchanged>> {
    let schema = after.schema();
    assert_eq!(schema.tables.len(), sources.len(), "one source a table");
    let mut changed: Vec<Store> = stores.iter().map(|store| store.successor(schema)).collect();
    let old_schema = before.schema();
    let empty: Vec<Store> = stores
        .iter()
        .map(|store| store.successor(old_schema))
        .collect();
    let mut held: Vec<Vec<Option<DetachedTable>>> = stores
        .into_iter()
        .map(|store| store.into_tables().into_iter().map(Some).collect())
        .collect();
    let mut moved = Vec::new();
    let mut failed = None;
    for (table, source) in schema.tables.iter().zip(sources) {
        let Some(from) = source.table() else {
            continue;
        };
        if goes_on(before, after, from, &table.id, source) {
            moved.push((from, table.id));
            continue;
        }
        let map = match source {
            TableSource::Mapped(_, map) => Some(*map),
            TableSource::Empty | TableSource::Kept(_) => None,
        };
        let rows = held.iter().map(|tables| tables[from.index()].as_ref());
        let copies = match before.execution.router.placement(from) {
            // Each partition has all of them.
            Placement::Replicated => 1,
            Placement::Columns(_) | Placement::Whole => usize::MAX,
        };
        let rows: Vec<&DetachedTable> = rows.flatten().take(copies).collect();
        if let Err(error) = load(&mut changed, after, table, &rows, map) {
            failed = Some(error);
            break;
        }
    }
    if let Some(error) = failed {
        let mut stores = empty;
        for (store, tables) in stores.iter_mut().zip(held) {
            for (id, table) in (0..).map(TableId).zip(tables) {
                if let Some(table) = table {
                    store.attach(id, table);
                }
            }
            store.finish_attaching();
        }
        return Err(Box::new(Unchanged { stores, error }));
    }
    let mut aside = Vec::with_capacity(held.len());
    for (store, tables) in changed.iter_mut().zip(&mut held) {
        for (from, to) in &moved {
            let table = tables[from.index()].take();
            store.attach(*to, table.expect("a table is the source of one"));
        }
        store.finish_attaching();
        let left = (0..).map(TableId).zip(tables.drain(..));
        aside.push(
            left.filter_map(|(id, table)| Some((id, table?)))
                .collect::<Vec<_>>(),
        );
    }
    Ok(ChangedStores {
        stores: changed,
        undo: Undo {
            before: Arc::clone(before),
            moved,
            aside,
        },
    })
}

/// Whether a table's rows stay where and as they are.
fn goes_on(
    before: &PlannedApplication,
    after: &PlannedApplication,
    from: TableId,
    to: &TableId,
    source: &TableSource<'_>,
) -> bool {
    let (old, new) = (before.schema().table(from), after.schema().table(*to));
    let placements = (
        before.execution.router.placement(from),
        after.execution.router.placement(*to),
    );
    matches!(source, TableSource::Kept(_))
        && is_same_layout(old, new)
        && placements.0 == placements.1
}

/// Loads the rows of the partitions' parts of a table into the stores of a new one.
fn load(
    stores: &mut [Store],
    after: &PlannedApplication,
    table: &TableSchema,
    parts: &[&DetachedTable],
    map: Option<RowMap<'_>>,
) -> Result<(), EffectError> {
    // Where keys do not tell partitions, no store sees that a key is in another one.
    let is_apart = after.execution.router.is_apart(table.id) && !table.primary_key.is_empty();
    let mut keys: FxHashSet<Key> = FxHashSet::default();
    for part in parts {
        part.try_for_each(|key, row| {
            let (key, row) = match map {
                Some(map) => map(key, row)?,
                None => (key.clone(), row.clone()),
            };
            if is_apart && !keys.insert(key.clone()) {
                return Err(duplicated(table, &row));
            }
            match after.execution.router.row(table.id, &row) {
                Target::One(PartitionId(partition)) => {
                    load_row(&mut stores[usize::from(partition)], table, key, row)
                }
                Target::Anywhere | Target::Everywhere => stores
                    .iter_mut()
                    .try_for_each(|store| load_row(store, table, key.clone(), row.clone())),
            }
        })?;
    }
    Ok(())
}

fn load_row(store: &mut Store, table: &TableSchema, key: Key, row: Row) -> Result<(), EffectError> {
    match store.load(table.id, key, row.clone()) {
        Ok(()) => Ok(()),
        Err(LoadError::Duplicate { .. }) => Err(duplicated(table, &row)),
        Err(error) => Err(EffectError::new("XX000", error.to_string())),
    }
}

/// Passes each row of a table to `visit`, of all partitions.
///
/// # Errors
/// Those of `visit`.
pub fn each_row<E>(
    stores: &[Store],
    planned: &PlannedApplication,
    table: TableId,
    mut visit: impl FnMut(&Row) -> Result<(), E>,
) -> Result<(), E> {
    let copies = match planned.execution.router.placement(table) {
        // Each partition has all of them.
        Placement::Replicated => 1,
        Placement::Columns(_) | Placement::Whole => usize::MAX,
    };
    for store in stores.iter().take(copies) {
        store.try_for_each(table, |_, row| visit(row))?;
    }
    Ok(())
}

/// PostgreSQL's error of a primary key that is made of rows of which two agree on it.
fn duplicated(table: &TableSchema, row: &Row) -> EffectError {
    let ApplyError::Duplicate {
        table,
        constraint,
        key,
    } = ApplyError::duplicate_key(table, row)
    else {
        return EffectError::new("23505", "could not create a primary key");
    };
    EffectError::new(
        "23505",
        format!("could not create unique index \"{constraint}\""),
    )
    .of_table(table)
    .of_constraint(constraint)
    .with_detail(format!("Key {key} is duplicated."))
}
