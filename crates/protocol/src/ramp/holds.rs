//! What prepared transactions hold until they commit or abort.
//!
//! A participant that has voted yes has promised that the effects can be installed later, whatever
//! commits in between. So it holds what could break the promise, and the guards. Nobody waits for
//! a hold: whoever meets one that excludes him is aborted and tries again, so there is no deadlock.
//!
//! Items are held by their 8-byte tags. Two items with the same tag exclude each other needlessly,
//! once in 2^48; never wrongly.

use anabranch_storage::ItemTag;
use anabranch_types::{ColumnSet, Key, KeyRange, Read, TableId, Timestamp};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// How an item is held, or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    /// A row program will run that cannot fail beside the others that are prepared.
    Update,
    /// As `Update`, and the row must be there: the program has outputs.
    Present,
    /// A row program will run that may violate a constraint: nobody else may move the row.
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
    Known,
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
    /// Whether one transaction may not have `self` while another holds `other`.
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
                    | (Known, Drawn | DrawnHeld)
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

/// How one item is held.
#[derive(Clone, Debug, Default)]
struct Held {
    /// By whom, in the order in which it was taken: what one transaction holds lies together.
    by: SmallVec<[(Timestamp, Mode); 2]>,
    /// The modes among them, each once, whatever columns are replaced: there are few, however many hold it.
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

impl Held {
    fn push(&mut self, holder: Timestamp, mode: Mode) {
        self.by.push((holder, mode));
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

    /// Takes away all that one transaction holds.
    fn release(&mut self, holder: Timestamp) {
        let Some(first) = self.by.iter().position(|(by, _)| *by == holder) else {
            return;
        };
        let more = self.by[first..].iter();
        let end = first + more.take_while(|(by, _)| *by == holder).count();
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

/// What a transaction wants to hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub(super) items: SmallVec<[(ItemTag, Mode); 8]>,
    /// Ranges read as guards.
    pub(super) ranges: Vec<GuardRange>,
    /// Guards written: what a range read may cover.
    pub(super) guard_writes: Vec<(TableId, Option<Key>)>,
}

/// A range read as a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GuardRange {
    table: TableId,
    /// `None` for a range of a secondary index: any write to the table may be in it.
    range: Option<KeyRange>,
}

impl GuardRange {
    pub(super) fn of(read: &Read) -> Option<GuardRange> {
        match read {
            Read::Point { .. } => None,
            Read::Range {
                table,
                index,
                range,
                ..
            } => Some(GuardRange {
                table: *table,
                range: index.is_none().then(|| range.clone()),
            }),
        }
    }

    fn covers(&self, table: TableId, key: Option<&Key>) -> bool {
        self.table == table
            && match (&self.range, key) {
                (Some(range), Some(key)) => range.contains(key),
                _ => true,
            }
    }
}

/// All holds of one participant.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds {
    items: FxHashMap<ItemTag, Held>,
    ranges: Vec<(Timestamp, GuardRange)>,
    guard_writes: Vec<(Timestamp, TableId, Option<Key>)>,
}

impl Holds {
    /// Whether nothing is held.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.ranges.is_empty() && self.guard_writes.is_empty()
    }

    /// Whether somebody holds the item, however.
    pub(super) fn is_held(&self, item: ItemTag) -> bool {
        !self.items.is_empty() && self.items.contains_key(&item)
    }

    /// Whether somebody else's hold excludes this one.
    pub(super) fn excludes(&self, item: ItemTag, mode: Mode) -> bool {
        self.items
            .get(&item)
            .is_some_and(|held| held.excludes(mode))
    }

    /// Whether a row program of somebody else is prepared on the item.
    pub(super) fn has_update(&self, item: ItemTag) -> bool {
        self.excludes(item, Mode::Exclusive)
    }

    /// The columns that all row programs prepared on the item assign, if they do nothing else.
    pub(super) fn replaced(&self, item: ItemTag) -> Option<ColumnSet> {
        match self.items.get(&item)?.updates {
            Updates::Replace(columns) => Some(columns),
            Updates::None | Updates::Various => None,
        }
    }

    /// The transactions that hold an item.
    pub(super) fn holders(&self, item: ItemTag) -> impl Iterator<Item = Timestamp> {
        let held = self.items.get(&item).into_iter().flat_map(|held| &held.by);
        let mut last = None;
        held.map(|(holder, _)| *holder)
            .filter(move |holder| last.replace(*holder) != Some(*holder))
    }

    /// Whether somebody else holds a range that covers this write of a guard.
    pub(super) fn range_excludes(&self, table: TableId, key: Option<&Key>) -> bool {
        self.ranges
            .iter()
            .any(|(_, range)| range.covers(table, key))
    }

    /// Whether somebody else will write a guard in this range.
    pub(super) fn write_excludes(&self, range: &GuardRange) -> bool {
        self.guard_writes
            .iter()
            .any(|(_, table, key)| range.covers(*table, key.as_ref()))
    }

    /// Whether somebody's hold excludes something of this.
    pub(super) fn exclude(&self, wanted: &Wanted) -> bool {
        !self.is_empty()
            && (wanted
                .items
                .iter()
                .any(|(item, mode)| self.excludes(*item, *mode))
                || wanted.ranges.iter().any(|range| self.write_excludes(range))
                || wanted
                    .guard_writes
                    .iter()
                    .any(|(t, key)| self.range_excludes(*t, key.as_ref())))
    }

    /// Takes what nobody's hold excludes. Returns the items to give back.
    pub(super) fn take(
        &mut self,
        prepared: Timestamp,
        wanted: Wanted,
    ) -> SmallVec<[(ItemTag, Mode); 8]> {
        for (item, mode) in &wanted.items {
            self.items.entry(*item).or_default().push(prepared, *mode);
        }
        self.ranges
            .extend(wanted.ranges.into_iter().map(|range| (prepared, range)));
        self.guard_writes.extend(
            wanted
                .guard_writes
                .into_iter()
                .map(|(table, key)| (prepared, table, key)),
        );
        wanted.items
    }

    /// Gives back what was taken.
    pub(super) fn release(&mut self, prepared: Timestamp, items: &[(ItemTag, Mode)]) {
        for (item, _) in items {
            if let Some(held) = self.items.get_mut(item) {
                held.release(prepared);
                if held.by.is_empty() {
                    self.items.remove(item);
                }
            }
        }
        if !self.ranges.is_empty() {
            self.ranges.retain(|(holder, _)| *holder != prepared);
        }
        if !self.guard_writes.is_empty() {
            self.guard_writes
                .retain(|(holder, _, _)| *holder != prepared);
        }
    }

    /// How many items are held, with how many holds.
    pub(super) fn count(&self) -> (usize, usize) {
        (
            self.items.len(),
            // tidy: order-free because a sum commutes
            self.items.values().map(|held| held.by.len()).sum(),
        )
    }

    /// RAMP-I5: the holds on an item that exclude each other are one transaction's.
    pub(super) fn check_invariants(
        &self,
        is_prepared: impl Fn(Timestamp) -> bool,
    ) -> Result<(), String> {
        // tidy: order-free because they are sorted next
        let mut items: Vec<_> = self.items.iter().collect();
        items.sort_unstable_by_key(|(item, _)| **item);
        for (item, held) in items {
            let held = &held.by;
            for (at, (holder, mode)) in held.iter().enumerate() {
                if !is_prepared(*holder) {
                    return Err(format!(
                        "RAMP-I5: {holder} holds {item:?} and is not prepared"
                    ));
                }
                let clash = held[..at]
                    .iter()
                    .find(|(o, m)| o != holder && m.excludes(*mode));
                if let Some((other, _)) = clash {
                    return Err(format!("RAMP-I5: {holder} and {other} both hold {item:?}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{ColumnIndex, NodeId};

    use super::*;

    /// A value computed from a row that was read would overwrite an increment that comes between
    /// the vote and the commit.
    #[test]
    fn a_row_read_as_a_guard_is_moved_by_nobody_else() {
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

    /// What is held of one item while others take and release: its modes, and what is replaced of it.
    #[test]
    fn what_is_released_is_held_no_more() {
        let columns = |column| ColumnSet::EMPTY.with(ColumnIndex(column));
        let (first, second) = (Mode::Replace(columns(1)), Mode::Replace(columns(2)));
        let item = ItemTag::of(TableId(0), &Key::from_bytes(b"row"));
        let by = |logical| Timestamp::new(logical, NodeId(0));
        let mut holds = Holds::default();
        let take = |holds: &mut Holds, logical, modes: &[Mode]| {
            let items = modes.iter().map(|mode| (item, *mode)).collect();
            holds.take(
                by(logical),
                Wanted {
                    items,
                    ..Wanted::default()
                },
            );
        };
        take(&mut holds, 1, &[first]);
        take(&mut holds, 2, &[first]);
        assert_eq!(holds.replaced(item), Some(columns(1)));
        take(&mut holds, 3, &[second]);
        assert_eq!(holds.replaced(item), None, "not the same columns");
        let held = |mode| [(item, mode)];
        holds.release(by(3), &held(second));
        assert_eq!(holds.replaced(item), None, "it is not known again");
        holds.release(by(1), &held(first));
        assert!(holds.excludes(item, Mode::Delete), "the second holds it");
        holds.release(by(2), &held(first));
        assert!(!holds.excludes(item, Mode::Delete) && holds.is_empty());

        take(&mut holds, 4, &[Mode::GuardRead]);
        take(&mut holds, 5, &[first, Mode::Present]);
        assert_eq!(holds.replaced(item), None, "its row is looked at");
        holds.release(by(5), &held(first));
        assert!(!holds.has_update(item) || holds.excludes(item, Mode::GuardWrite));
        assert_eq!(holds.holders(item).collect::<Vec<_>>(), [by(4)]);
        take(&mut holds, 6, &[first]);
        assert_eq!(holds.replaced(item), Some(columns(1)));
    }
}
