//! Rows that scans missed, as reads of versions outside of the range.
//!
//! A scan reads a version of every item that its range is about, including items that it does not return (Adya 1999,
//! §4.1.3; ramp.txt, Definition 3.13: the version set). For an item that it missed, this is the version at the scan's
//! sequence or, in a history without sequences, the only version outside of the range. If several versions are
//! outside, nothing is concluded, and the case is counted.

use rustc_hash::FxHashSet;

use crate::history::{DirectAnomaly, DirectAnomalyKind, History, ReadFact};
use crate::item_order::ItemOrder;
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::record::split_item;

/// Adds a read for each item that a committed transaction's scan was about and missed. Returns the number of items
/// for which nothing could be concluded.
pub(crate) fn add(
    history: &History,
    ordered: &[ItemOrder],
    scanners: &[(TransactionNumber, u32)],
    found: &FxHashSet<(u32, ItemNumber)>,
    reads: &mut Vec<(TransactionNumber, ReadFact)>,
    direct: &mut Vec<DirectAnomaly>,
) -> u64 {
    let mut unjudged = 0;
    if history.scans.is_empty() {
        return unjudged;
    }
    let map = Map::new(history);
    let mut seen: FxHashSet<ItemNumber> = FxHashSet::default();
    for (number, (transaction, step)) in scanners.iter().enumerate() {
        let number = number as u32;
        if !history.facts(*transaction).committed {
            continue;
        }
        seen.clear();
        for item in map.in_range(history, number) {
            if !seen.insert(item) || found.contains(&(number, item)) {
                continue;
            }
            let order = &ordered[item as usize];
            let at = history.scans[number as usize].at;
            let position = match at {
                Some(at) => {
                    if order.partition().is_some_and(|on| on != at.partition) {
                        continue;
                    }
                    match order.visible(at.sequence) {
                        None => Some(0),
                        // An aborted version hides the row; nothing is concluded.
                        Some(writer) => history.position(writer, item),
                    }
                }
                None => {
                    let only = only_unmatched(history, number, item);
                    unjudged += u64::from(only.is_none());
                    only
                }
            };
            let Some(position) = position else { continue };
            if history.matches(number, item, position) {
                // The version lies in the range, and the scan missed it.
                direct.push(DirectAnomaly {
                    what: DirectAnomalyKind::WrongVersion,
                    transaction: *transaction,
                    item,
                    other: history.writer(item, position),
                });
                continue;
            }
            if let Some(mut read) = absent(history, number, item, position) {
                read.step = *step;
                reads.push((*transaction, read));
            }
        }
    }
    unjudged
}

/// The only version of the item outside of the range, the initial one included.
fn only_unmatched(history: &History, scan: u32, item: ItemNumber) -> Option<Position> {
    let count = history.versions_of(item).len() as u32;
    let mut unmatched = (0..=count).filter(|position| !history.matches(scan, item, *position));
    unmatched.next().filter(|_| unmatched.next().is_none())
}

/// The read of a version outside of the range; `None` if no version is ever inside.
fn absent(history: &History, scan: u32, item: ItemNumber, position: Position) -> Option<ReadFact> {
    let count = history.versions_of(item).len() as u32;
    let matches = |position: &Position| history.matches(scan, item, *position);
    let next = (position + 1..=count).find(matches);
    let last = (1..=position).rev().find(matches);
    if next.is_none() && last.is_none() {
        return None;
    }
    Some(ReadFact {
        item,
        position,
        next,
        shown: last.map_or(0, |last| last + 1),
        step: 0,
        scan: Some(scan),
        absent: true,
    })
}

/// The positions of items, by space.
struct Map {
    /// (space, position, item), sorted by space and position.
    places: Vec<(u32, Box<str>, ItemNumber)>,
}

impl Map {
    fn new(history: &History) -> Map {
        let mut places = Vec::new();
        for item in 0..history.items.len() as ItemNumber {
            let (own, place) = split_item(history.item(item));
            // Spaces without scans are not needed.
            if let Some(space) = history.spaces.find(own)
                && !history.versions_of(item).is_empty()
            {
                places.push((space, place.into(), item));
            }
        }
        // tidy: order-free because it is sorted below.
        for ((item, _, space), place) in &history.placed {
            places.push((*space, place.clone(), *item));
        }
        places.sort_unstable();
        places.dedup();
        Map { places }
    }

    fn in_range<'m>(
        &'m self,
        history: &'m History,
        scan: u32,
    ) -> impl Iterator<Item = ItemNumber> + 'm {
        let scan = &history.scans[scan as usize];
        let start = self.places.partition_point(|(space, place, _)| {
            (*space, Some(&**place)) < (scan.space, scan.lower.as_deref())
        });
        self.places[start..]
            .iter()
            .take_while(|(space, place, _)| *space == scan.space && scan.contains(place))
            .map(|(_, _, item)| *item)
    }
}
