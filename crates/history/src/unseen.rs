//! What scans did not find: reads of versions that have no place in the range.
//!
//! A scan reads a version of every item that its range is about, the ones that it does not return
//! included (Adya 1999, §4.1.3; ramp.txt, Definition 3.13: the version set). Of an item that it did
//! not find it read the version that stood at its sequence or, where the history has no
//! sequences, the only version that is not in the range; if several are not, nothing is concluded, and
//! they are counted.

use rustc_hash::FxHashSet;

use crate::builder::ItemOrder;
use crate::history::{
    Direct, DirectKind, History, ItemNumber, Position, ReadFact, TransactionNumber,
};
use crate::record::split_item;

/// Adds a read for each item that a committed transaction's scan was about and did not find. Returns of
/// how many nothing could be concluded, since several versions are not in the range.
pub(crate) fn add(
    history: &History,
    ordered: &[ItemOrder],
    scanners: &[(TransactionNumber, u32)],
    found: &FxHashSet<(u32, ItemNumber)>,
    reads: &mut Vec<(TransactionNumber, ReadFact)>,
    direct: &mut Vec<Direct>,
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
                        // An aborted version takes its row's place; nothing is concluded.
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
                // It stood there, and the scan has not found it.
                direct.push(Direct {
                    what: DirectKind::WrongVersion,
                    transaction: *transaction,
                    item,
                    other: history.writer(item, position),
                });
                continue;
            }
            if let Some(mut read) = unseen(history, number, item, position) {
                read.step = *step;
                reads.push((*transaction, read));
            }
        }
    }
    unjudged
}

/// The only version of the item that has no place in the range, the initial one among them.
fn only_unmatched(history: &History, scan: u32, item: ItemNumber) -> Option<Position> {
    let count = history.versions_of(item).len() as u32;
    let mut unmatched = (0..=count).filter(|position| !history.matches(scan, item, *position));
    unmatched.next().filter(|_| unmatched.next().is_none())
}

/// The read of a version that is not in the range. Nothing if no version ever was.
fn unseen(history: &History, scan: u32, item: ItemNumber, position: Position) -> Option<ReadFact> {
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
        unseen: true,
    })
}

/// Where items have been, by space.
struct Map {
    /// (space, position, item), sorted by space and position.
    places: Vec<(u32, Box<str>, ItemNumber)>,
}

impl Map {
    fn new(history: &History) -> Map {
        let mut places = Vec::new();
        for item in 0..history.items.len() as ItemNumber {
            let (own, place) = split_item(history.item(item));
            // Of a space that nobody scans nothing has to be known.
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
