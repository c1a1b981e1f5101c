//! Drops guards that order nothing that other guards do not order.
//!
//! Guards on one item, for one invariant, order pairs of calls that name the item by the same key. Suppose that
//! both types of each such pair hold another item, too, and that naming the first alike implies naming the second
//! alike. Then the second orders every pair that the first does, and all guards on the first item leave the plan
//! together.
//!
//! A guard is more than an order: what was read for it is validated, and what is written for it is a write intent.
//! So its statements and its invariants move to the guard that covers it, and nodes do what they did before. That
//! is also why nothing is lost where the covering guard stands in another branch than the covered one.
//!
//! Implication is decided by parameters and constants alone; values that a call reads may be anything. A guard
//! stays if it makes its type coordinate with more partitions than the type's other guards do, for else the plan
//! would not say why the type does.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anabranch_sql::summary::Term;
use anabranch_types::{TableId, Value};

use crate::guard::KeyedGuard;
use crate::plan::{CoordinationClass, GuardKeeping};

/// A guard: its type, and its index among the type's guards.
type Place = (usize, usize);

/// Removes the guards that others cover. `class` returns how far a type with some guards must coordinate.
pub(crate) fn remove_redundant(
    held: &mut [Vec<KeyedGuard>],
    class: impl Fn(usize, &[KeyedGuard]) -> CoordinationClass,
) {
    while let Some((covered, covers)) = find(held, &class) {
        for (place, cover) in covered.iter().zip(&covers) {
            let taken = held[place.0][place.1].clone();
            held[cover.0][cover.1].take_needs_of(&taken);
        }
        for (owner, place) in covered.into_iter().rev() {
            held[owner].remove(place);
        }
    }
}

/// Finds a set of guards that conflict with each other and with no others, in order, and what covers each of them.
/// Those with the longest keys go first.
fn find(
    held: &[Vec<KeyedGuard>],
    class: &impl Fn(usize, &[KeyedGuard]) -> CoordinationClass,
) -> Option<(Vec<Place>, Vec<Place>)> {
    let owners = held.iter().enumerate();
    let mut candidates: Vec<Place> = owners
        .flat_map(|(owner, guards)| (0..guards.len()).map(move |place| (owner, place)))
        .collect();
    candidates.sort_by_key(|(owner, place)| std::cmp::Reverse(held[*owner][*place].terms.len()));
    let groups = conflict_groups(held);
    let mut looked_at = BTreeSet::new();
    candidates.into_iter().find_map(|candidate| {
        // Each type of a group has what covers the group's guards, so any of them can be examined.
        let group = &groups[&candidate];
        if !looked_at.insert(group.first().copied()) {
            return None;
        }
        let covered: &[Place] = group;
        let owners: BTreeSet<usize> = covered.iter().map(|(owner, _)| *owner).collect();
        let stays_in_class = |owner: usize| {
            let left = held[owner].iter().enumerate();
            let left = left.filter(|(place, _)| covered.binary_search(&(owner, *place)).is_err());
            let left: Vec<KeyedGuard> = left.map(|(_, guard)| guard.clone()).collect();
            class(owner, &left) == class(owner, &held[owner])
        };
        if !owners.into_iter().all(stays_in_class) {
            return None;
        }
        let own = held[candidate.0].iter().enumerate();
        own.map(|(place, guard)| ((candidate.0, place), guard))
            .filter(|(place, _)| covered.binary_search(place).is_err())
            .flat_map(|(cover, guard)| guard.guard.invariants.iter().map(move |i| (cover, *i)))
            .find_map(|(cover, invariant)| covers(held, covered, cover, invariant))
            .map(|covers| (covered.to_vec(), covers))
    })
}

/// Maps each guard to its group: those that it conflicts with, those that these conflict with, and so on; in order.
fn conflict_groups(held: &[Vec<KeyedGuard>]) -> BTreeMap<Place, Rc<[Place]>> {
    // By invariant and table: there a guard conflicts with those on its item, and one on rows with all.
    let mut beside: BTreeMap<(usize, TableId), Vec<Place>> = BTreeMap::new();
    for (owner, guards) in held.iter().enumerate() {
        for (place, held) in guards.iter().enumerate() {
            for invariant in &held.guard.invariants {
                let key = (*invariant, held.guard.table);
                beside.entry(key).or_default().push((owner, place));
            }
        }
    }
    let mut links: BTreeMap<Place, Vec<Place>> = BTreeMap::new();
    let item = |place: &Place| held[place.0][place.1].guard.item.as_str();
    for places in beside.values() {
        let whole = places.iter().find(|place| is_whole(item(place)));
        let mut first: BTreeMap<&str, Place> = BTreeMap::new();
        for place in places {
            let known = *first.entry(item(place)).or_insert(*place);
            let to = whole.copied().unwrap_or(known);
            links.entry(*place).or_default().push(to);
            links.entry(to).or_default().push(*place);
        }
    }
    let mut groups: BTreeMap<Place, Rc<[Place]>> = BTreeMap::new();
    let owners = held.iter().enumerate();
    for one in owners.flat_map(|(owner, guards)| (0..guards.len()).map(move |at| (owner, at))) {
        if groups.contains_key(&one) {
            continue;
        }
        let mut found = BTreeSet::from([one]);
        let mut open = vec![one];
        while let Some(next) = open.pop() {
            let new = links.get(&next).into_iter().flatten();
            open.extend(new.copied().filter(|place| found.insert(*place)));
        }
        let group: Rc<[Place]> = found.into_iter().collect();
        groups.extend(group.iter().map(|place| (*place, Rc::clone(&group))));
    }
    groups
}

/// Whether two guards order calls against each other if they name their items alike.
fn conflict(one: &KeyedGuard, other: &KeyedGuard) -> bool {
    let (a, b) = (&one.guard, &other.guard);
    let same = a.item == b.item || a.table == b.table && (is_whole(&a.item) || is_whole(&b.item));
    // Both are sorted.
    let shares = |i: &usize| b.invariants.binary_search(i).is_ok();
    same && a.invariants.iter().any(shares)
}

/// Whether the item is a row: a guard on a row covers those on its columns.
fn is_whole(item: &str) -> bool {
    !item.contains('.')
}

/// What covers each of some guards: the guards on the item of `cover` that exist for one invariant.
fn covers(
    held: &[Vec<KeyedGuard>],
    covered: &[Place],
    cover: Place,
    invariant: usize,
) -> Option<Vec<Place>> {
    let item = &held[cover.0][cover.1].guard.item;
    let is_validated = |guard: &KeyedGuard| guard.guard.keeping == GuardKeeping::Validated;
    let of_type = |(owner, _): &Place| -> Option<Place> {
        let mut guards = held[*owner]
            .iter()
            .enumerate()
            .filter(|(_, g)| g.guard.item == *item && g.guard.invariants.contains(&invariant));
        let (place, guard) = guards.next()?;
        // With several it would be open which of them each pair means.
        let is_one = guards.next().is_none();
        let fits =
            is_one && is_validated(guard) && covered.binary_search(&(*owner, place)).is_err();
        fits.then_some((*owner, place))
    };
    let covers: Vec<Place> = covered.iter().map(of_type).collect::<Option<_>>()?;
    let at = |(owner, place): Place| &held[owner][place];
    if !covered.iter().all(|place| is_validated(at(*place))) {
        return None;
    }
    let pairs = covered.iter().zip(&covers);
    let all_implied = pairs.clone().all(|(a, over_a)| {
        pairs.clone().all(|(b, over_b)| {
            !conflict(at(*a), at(*b)) || implied([at(*a), at(*b)], [at(*over_a), at(*over_b)])
        })
    });
    (all_implied && !joins_more(held, covered, &covers)).then_some(covers)
}

/// Whether naming the items of one pair alike implies naming those of the other pair alike.
fn implied(covered: [&KeyedGuard; 2], covers: [&KeyedGuard; 2]) -> bool {
    // The values that two guards give to the key columns they share.
    let shared = |[a, b]: [&KeyedGuard; 2]| -> Vec<[Term; 2]> {
        let of_a = a.guard.key.iter();
        of_a.filter_map(|key| {
            let of_b = b.guard.key.iter().find(|k| k.column == key.column)?;
            Some([key.term.clone(), of_b.term.clone()])
        })
        .collect()
    };
    let known = |term: &Term| matches!(term, Term::Parameter(_) | Term::Constant(_));
    let alike = shared(covered);
    shared(covers).iter().all(|[a, b]| {
        // NULL does not equal NULL.
        let constant = matches!(a, Term::Constant(v) if *v != Value::Null) && a == b;
        constant || known(a) && known(b) && alike.iter().any(|[c, d]| a == c && b == d)
    })
}

/// Whether guards would conflict with more guards than before, had they the invariants of those that they cover.
fn joins_more(held: &[Vec<KeyedGuard>], covered: &[Place], covers: &[Place]) -> bool {
    let more = covered.iter().zip(covers).map(|(place, cover)| {
        let before = &held[cover.0][cover.1];
        let mut after = before.clone();
        after.take_needs_of(&held[place.0][place.1]);
        (before, after)
    });
    more.into_iter().any(|(before, after)| {
        held.iter().enumerate().any(|(owner, guards)| {
            let mut guards = guards.iter().enumerate();
            guards.any(|(place, other)| {
                covered.binary_search(&(owner, place)).is_err()
                    && conflict(&after, other)
                    && !conflict(before, other)
            })
        })
    })
}
