//! Write intents of prepared transactions, from the vote to the commit or abort.
//!
//! A participant that has voted yes has promised that the effects can be installed later, whatever commits in
//! between. Write intents protect what could break the promise, and the guards. A transaction that meets a
//! conflicting intent aborts and retries, so there is no deadlock.
//!
//! Intents are on items, by their 8-byte tags. Two items with the same tag conflict needlessly, once in 2^48; never
//! wrongly.

use anabranch_storage::recording::index_entry;
use anabranch_storage::{ItemTag, Store};
use anabranch_types::{
    ColumnSet, Effect, IndexId, KeyRange, Read, Row, RowPrograms, TableId, Timestamp,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The kind of a write intent on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// A row program will run that cannot fail beside the others that are prepared.
    Update,
    /// As `Update`, and the row must be there: the program has outputs.
    Present,
    /// A row program will run that may violate a constraint: no other transaction may change the row.
    Exclusive,
    /// The key will be taken.
    Insert,
    /// The row will go.
    Delete,
    /// A guard was read and must stay as it is.
    GuardRead,
    /// A guard will be written.
    GuardWrite,
    /// Of a table ([`ItemTag::unknown`]): a row with a key that is known will be inserted.
    KnownKey,
    /// Of a table: a row will be inserted whose key is drawn at commit, which may still fail.
    Drawn,
    /// Of a table: a row will be inserted whose key is drawn at commit, which must not fail.
    DrawnHeld,
    /// Of a table: a key of a unique secondary index may be taken.
    Unique,
    /// As `Update`, and the program assigns these columns and does nothing else: beside others that
    /// assign the same ones it cannot fail, whichever comes last.
    Replace(ColumnSet),
}

impl Mode {
    /// Whether one transaction may not have `self` while another has `other`.
    fn excludes(self, other: Mode) -> bool {
        use Mode::*;
        let one_way = |a, b| {
            matches!(
                (a, b),
                (Exclusive, Exclusive | Update | Replace(_) | Present)
                    | (Insert | Delete, Update | Replace(_) | Present | Exclusive)
                    | (Insert, Insert | Delete)
                    | (GuardWrite, GuardWrite | GuardRead)
                    | (
                        GuardRead,
                        Update | Replace(_) | Present | Exclusive | Insert | Delete
                    )
                    | (KnownKey, Drawn | DrawnHeld)
                    | (DrawnHeld, Drawn | DrawnHeld)
                    | (Unique, Unique)
            )
        };
        one_way(self, other) || one_way(other, self)
    }

    /// Whether a row program will run.
    fn is_update(self) -> bool {
        use Mode::*;
        matches!(self, Update | Replace(_) | Present | Exclusive)
    }
}

/// The write intents on one item.
#[derive(Clone, Debug, Default)]
struct ItemIntents {
    /// Each with its owner, in order: those of one transaction lie together.
    by: SmallVec<[(Timestamp, Mode); 2]>,
    /// The modes among them, each once, whatever columns are replaced: there are few, however many owners.
    modes: SmallVec<[Mode; 2]>,
    updates: Updates,
}

/// What the row programs do that are prepared on an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Updates {
    #[default]
    None,
    /// Each assigns these columns, and does nothing else.
    Replace(ColumnSet),
    /// Something else, as far as is known.
    Various,
}

impl ItemIntents {
    fn push(&mut self, owner: Timestamp, mode: Mode) {
        self.by.push((owner, mode));
        if !self.modes.iter().any(|other| same_kind(*other, mode)) {
            self.modes.push(mode);
        }
        self.updates = match (self.updates, mode) {
            (Updates::None, Mode::Replace(columns)) => Updates::Replace(columns),
            (Updates::Replace(columns), Mode::Replace(others)) if columns == others => self.updates,
            (updates, mode) if !mode.is_update() => updates,
            _ => Updates::Various,
        };
    }

    /// Takes away all intents of one transaction.
    fn release(&mut self, owner: Timestamp) {
        let Some(first) = self.by.iter().position(|(by, _)| *by == owner) else {
            return;
        };
        let more = self.by[first..].iter();
        let end = first + more.take_while(|(by, _)| *by == owner).count();
        let gone: SmallVec<[Mode; 2]> = self.by.drain(first..end).map(|(_, mode)| mode).collect();
        for mode in gone {
            if !self.by.iter().any(|(_, other)| same_kind(*other, mode)) {
                self.modes.retain(|other| !same_kind(*other, mode));
            }
        }
        if !self.modes.iter().any(|mode| mode.is_update()) {
            self.updates = Updates::None;
        }
    }

    fn excludes(&self, mode: Mode) -> bool {
        self.modes.iter().any(|other| mode.excludes(*other))
    }
}

/// Whether two modes are one but for the columns.
fn same_kind(a: Mode, b: Mode) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// The write intents that a transaction needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestedIntents {
    pub(crate) items: SmallVec<[(ItemTag, Mode); 8]>,
    /// Ranges read as guards.
    pub(crate) ranges: Vec<GuardRange>,
}

/// A range read as a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardRange {
    table: TableId,
    /// The secondary index; `None` for the primary key.
    index: Option<IndexId>,
    range: KeyRange,
}

impl GuardRange {
    pub(crate) fn of(read: &Read) -> Option<GuardRange> {
        match read {
            Read::Point { .. } => None,
            Read::Range {
                table,
                index,
                range,
                ..
            } => Some(GuardRange {
                table: *table,
                index: *index,
                range: range.clone(),
            }),
        }
    }

    /// Whether the effect may change a row of the range, add one or remove one, guarded or not. A row that another
    /// prepared transaction may move into the range need not be considered: that transaction is excluded itself.
    pub(crate) fn covers(
        &self,
        effect: &Effect,
        store: &Store,
        programs: &dyn RowPrograms,
    ) -> bool {
        if effect.table() != self.table {
            return false;
        }
        let is_drawn = matches!(effect, Effect::Insert { patches, .. } if !patches.is_empty());
        let schema = store.schema(self.table);
        let index = schema.indexes.iter().find(|of| Some(of.id) == self.index);
        let Some(index) = index else {
            return is_drawn || self.range.contains(effect.key());
        };
        let has = |row: &Row| {
            let entry = index_entry(schema, index, row, effect.key());
            self.range.contains(&entry)
        };
        let has_now = || {
            let item = store.item(self.table, effect.key());
            item.and_then(|item| item.latest().row()).is_some_and(has)
        };
        match effect {
            Effect::Insert { row, .. } => is_drawn || has(row),
            Effect::Update { program, .. } => match programs.replaces(*program) {
                Some(columns) if !index.columns.iter().any(|of| columns.contains(*of)) => has_now(),
                _ => true,
            },
            Effect::Delete { .. } => has_now(),
        }
    }
}

/// All write intents of one participant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intents {
    items: FxHashMap<ItemTag, ItemIntents>,
    ranges: Vec<(Timestamp, GuardRange)>,
}

impl Intents {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.ranges.is_empty()
    }

    /// Whether there is an intent of any mode on the item.
    pub(crate) fn has_intent(&self, item: ItemTag) -> bool {
        !self.items.is_empty() && self.items.contains_key(&item)
    }

    /// Whether an intent on the item excludes this one.
    pub(crate) fn excludes(&self, item: ItemTag, mode: Mode) -> bool {
        self.items
            .get(&item)
            .is_some_and(|item_intents| item_intents.excludes(mode))
    }

    /// Whether a row program is prepared on the item.
    pub(crate) fn has_update(&self, item: ItemTag) -> bool {
        self.excludes(item, Mode::Exclusive)
    }

    /// The columns that all row programs prepared on the item assign, if they do nothing else.
    pub(crate) fn replaced(&self, item: ItemTag) -> Option<ColumnSet> {
        match self.items.get(&item)?.updates {
            Updates::Replace(columns) => Some(columns),
            Updates::None | Updates::Various => None,
        }
    }

    /// The transactions with an intent on an item.
    pub(crate) fn owners(&self, item: ItemTag) -> impl Iterator<Item = Timestamp> {
        let item_intents = self
            .items
            .get(&item)
            .into_iter()
            .flat_map(|item_intents| &item_intents.by);
        let mut last = None;
        item_intents
            .map(|(owner, _)| *owner)
            .filter(move |owner| last.replace(*owner) != Some(*owner))
    }

    /// The ranges that were read as guards.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &GuardRange> {
        self.ranges.iter().map(|(_, range)| range)
    }

    /// Whether an intent on an item excludes some of these.
    pub(crate) fn excludes_any(&self, requested: &RequestedIntents) -> bool {
        let mut items = requested.items.iter();
        !self.items.is_empty() && items.any(|(item, mode)| self.excludes(*item, *mode))
    }

    /// Takes intents that no other excludes. Returns the items to give back.
    pub(crate) fn take(
        &mut self,
        prepared: Timestamp,
        requested: RequestedIntents,
    ) -> SmallVec<[(ItemTag, Mode); 8]> {
        for (item, mode) in &requested.items {
            self.items.entry(*item).or_default().push(prepared, *mode);
        }
        self.ranges
            .extend(requested.ranges.into_iter().map(|range| (prepared, range)));
        requested.items
    }

    /// Gives back what was taken.
    pub(crate) fn release(&mut self, prepared: Timestamp, items: &[(ItemTag, Mode)]) {
        for (item, _) in items {
            if let Some(item_intents) = self.items.get_mut(item) {
                item_intents.release(prepared);
                if item_intents.by.is_empty() {
                    self.items.remove(item);
                }
            }
        }
        if !self.ranges.is_empty() {
            self.ranges.retain(|(owner, _)| *owner != prepared);
        }
    }

    /// How many items have intents, and how many intents there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        (
            self.items.len(),
            // tidy: order-free because a sum commutes
            self.items
                .values()
                .map(|item_intents| item_intents.by.len())
                .sum(),
        )
    }

    /// RAMP-I5: the intents on an item that exclude each other are one transaction's.
    pub(crate) fn check_invariants(
        &self,
        is_prepared: impl Fn(Timestamp) -> bool,
    ) -> Result<(), String> {
        // tidy: order-free because they are sorted next
        let mut items: Vec<_> = self.items.iter().collect();
        items.sort_unstable_by_key(|(item, _)| **item);
        for (item, item_intents) in items {
            let item_intents = &item_intents.by;
            for (at, (owner, mode)) in item_intents.iter().enumerate() {
                if !is_prepared(*owner) {
                    return Err(format!(
                        "RAMP-I5: {owner} has a write intent on {item:?} and is not prepared"
                    ));
                }
                let clash = item_intents[..at]
                    .iter()
                    .find(|(o, m)| o != owner && m.excludes(*mode));
                if let Some((other, _)) = clash {
                    return Err(format!(
                        "RAMP-I5: {owner} and {other} have conflicting write intents on {item:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{ColumnIndex, Key, NodeId};

    use super::*;

    /// A row read as a guard excludes writers: a value computed from it would overwrite an increment between the vote
    /// and the commit.
    #[test]
    fn a_row_read_as_a_guard_excludes_writers() {
        use Mode::*;
        let replace = Replace(ColumnSet::ALL);
        for moves in [
            Update, replace, Present, Exclusive, Insert, Delete, GuardWrite,
        ] {
            assert!(GuardRead.excludes(moves), "{moves:?}");
            assert!(moves.excludes(GuardRead), "{moves:?}");
        }
        assert!(!GuardRead.excludes(GuardRead), "readers share");
        assert!(!Update.excludes(Update), "increments share");
    }

    /// The modes and replaced columns of one item, while intents are taken and released.
    #[test]
    fn released_intents_exclude_nothing() {
        let columns = |column| ColumnSet::EMPTY.with(ColumnIndex(column));
        let (first, second) = (Mode::Replace(columns(1)), Mode::Replace(columns(2)));
        let item = ItemTag::of(TableId(0), &Key::from_bytes(b"row"));
        let by = |logical| Timestamp::new(logical, NodeId(0));
        let mut intents = Intents::default();
        let take = |intents: &mut Intents, logical, modes: &[Mode]| {
            let items = modes.iter().map(|mode| (item, *mode)).collect();
            intents.take(
                by(logical),
                RequestedIntents {
                    items,
                    ..RequestedIntents::default()
                },
            );
        };
        take(&mut intents, 1, &[first]);
        take(&mut intents, 2, &[first]);
        assert_eq!(intents.replaced(item), Some(columns(1)));
        take(&mut intents, 3, &[second]);
        assert_eq!(intents.replaced(item), None, "not the same columns");
        let item_intents = |mode| [(item, mode)];
        intents.release(by(3), &item_intents(second));
        assert_eq!(
            intents.replaced(item),
            None,
            "unknown until all are released"
        );
        intents.release(by(1), &item_intents(first));
        assert!(
            intents.excludes(item, Mode::Delete),
            "the second has an intent"
        );
        intents.release(by(2), &item_intents(first));
        assert!(!intents.excludes(item, Mode::Delete) && intents.is_empty());

        take(&mut intents, 4, &[Mode::GuardRead]);
        take(&mut intents, 5, &[first, Mode::Present]);
        assert_eq!(intents.replaced(item), None, "its row must stay present");
        intents.release(by(5), &item_intents(first));
        assert!(!intents.has_update(item) || intents.excludes(item, Mode::GuardWrite));
        assert_eq!(intents.owners(item).collect::<Vec<_>>(), [by(4)]);
        take(&mut intents, 6, &[first]);
        assert_eq!(intents.replaced(item), Some(columns(1)));
    }
}
