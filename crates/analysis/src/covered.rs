//! Guards that order nothing that others do not.
//!
//! Guards on one item, for one invariant, are there for pairs of calls that name it by the same key. Where each
//! such pair of types holds another item, too, and naming the first alike implies naming the second alike, then
//! the first orders nobody: whom it orders, the second does. All guards on the first item leave the plan together.
//!
//! A guard is more than an order: what was read for it is validated, and what is written for it is held. So
//! its statements and its invariants go to the guard that covers it, and nodes do what they did. That is also why
//! nothing is lost where the covering guard stands in another branch than the covered one.
//!
//! What is implied is decided by parameters and constants alone. What a call finds out in its course may be
//! anything. A guard that makes its type wait for more partitions than the others do stays, for else the plan
//! would not tell why it does.

use anabranch_sql::summary::Term;
use anabranch_types::Value;

use crate::guard::Held;
use crate::plan::{CoordinationClass, GuardKeeping};

/// A guard: its type, and its place among the type's.
type Place = (usize, usize);

/// Takes out the guards that others cover. `class` tells how far a type with some guards must coordinate.
pub(crate) fn leave_out(
    held: &mut [Vec<Held>],
    class: impl Fn(usize, &[Held]) -> CoordinationClass,
) {
    while let Some((covered, covers)) = find(held, &class) {
        for (place, cover) in covered.iter().zip(&covers) {
            let taken = held[place.0][place.1].clone();
            held[cover.0][cover.1].take_over(&taken);
        }
        for (owner, place) in covered.into_iter().rev() {
            held[owner].remove(place);
        }
    }
}

/// Guards that conflict with each other and with no more, in order, and what covers each of them. Those that tell
/// more apart go first.
fn find(
    held: &[Vec<Held>],
    class: &impl Fn(usize, &[Held]) -> CoordinationClass,
) -> Option<(Vec<Place>, Vec<Place>)> {
    let all = || {
        let owners = held.iter().enumerate();
        owners.flat_map(|(owner, guards)| (0..guards.len()).map(move |place| (owner, place)))
    };
    let mut candidates: Vec<Place> = all().collect();
    candidates.sort_by_key(|(owner, place)| std::cmp::Reverse(held[*owner][*place].terms.len()));
    candidates.into_iter().find_map(|candidate| {
        let covered = together(held, candidate);
        let stays_in_class = |owner: usize| {
            let left = held[owner].iter().enumerate();
            let left = left.filter(|(place, _)| !covered.contains(&(owner, *place)));
            let left: Vec<Held> = left.map(|(_, guard)| guard.clone()).collect();
            class(owner, &left) == class(owner, &held[owner])
        };
        if !covered.iter().all(|(owner, _)| stays_in_class(*owner)) {
            return None;
        }
        let beside = |place: &Place| place.0 == candidate.0 && !covered.contains(place);
        all()
            .filter(beside)
            .flat_map(|cover| {
                held[cover.0][cover.1]
                    .guard
                    .invariants
                    .iter()
                    .map(move |i| (cover, *i))
            })
            .find_map(|(cover, invariant)| covers(held, &covered, cover, invariant))
            .map(|covers| (covered.clone(), covers))
    })
}

/// A guard, those that it conflicts with, those that these conflict with, and so on; in order.
fn together(held: &[Vec<Held>], first: Place) -> Vec<Place> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        next += 1;
        for (owner, guards) in held.iter().enumerate() {
            for (place, other) in guards.iter().enumerate() {
                if !found.contains(&(owner, place)) && conflict(&held[one.0][one.1], other) {
                    found.push((owner, place));
                }
            }
        }
    }
    found.sort_unstable();
    found
}

/// Whether two guards order calls against each other where they name their items alike.
fn conflict(one: &Held, other: &Held) -> bool {
    let (a, b) = (&one.guard, &other.guard);
    // A guard on a row covers those on its columns.
    let is_whole = |item: &str| !item.contains('.');
    let same = a.item == b.item || a.table == b.table && (is_whole(&a.item) || is_whole(&b.item));
    same && a.invariants.iter().any(|i| b.invariants.contains(i))
}

/// What covers each of some guards: the guards on the item of `cover` that are there for one invariant.
fn covers(
    held: &[Vec<Held>],
    covered: &[Place],
    cover: Place,
    invariant: usize,
) -> Option<Vec<Place>> {
    let item = &held[cover.0][cover.1].guard.item;
    let is_validated = |guard: &Held| guard.guard.keeping == GuardKeeping::Validated;
    let of_type = |(owner, _): &Place| -> Option<Place> {
        let mut guards = held[*owner]
            .iter()
            .enumerate()
            .filter(|(_, g)| g.guard.item == *item && g.guard.invariants.contains(&invariant));
        let (place, guard) = guards.next()?;
        // Which of several is meant would be another question for each pair.
        let is_one = guards.next().is_none();
        let fits = is_one && is_validated(guard) && !covered.contains(&(*owner, place));
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

/// Whether naming the items of one pair alike implies that of the other pair.
fn implied(covered: [&Held; 2], covers: [&Held; 2]) -> bool {
    // The values that two guards give to the columns that both tell.
    let shared = |[a, b]: [&Held; 2]| -> Vec<[Term; 2]> {
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
        // NULL is not alike.
        let constant = matches!(a, Term::Constant(v) if *v != Value::Null) && a == b;
        constant || known(a) && known(b) && alike.iter().any(|[c, d]| a == c && b == d)
    })
}

/// Whether guards would conflict with others than before, had they the invariants of those that they cover.
fn joins_more(held: &[Vec<Held>], covered: &[Place], covers: &[Place]) -> bool {
    let more = covered.iter().zip(covers).map(|(place, cover)| {
        let before = &held[cover.0][cover.1];
        let mut after = before.clone();
        after.take_over(&held[place.0][place.1]);
        (before, after)
    });
    more.into_iter().any(|(before, after)| {
        held.iter().enumerate().any(|(owner, guards)| {
            let mut guards = guards.iter().enumerate();
            guards.any(|(place, other)| {
                !covered.contains(&(owner, place))
                    && conflict(&after, other)
                    && !conflict(before, other)
            })
        })
    })
}
