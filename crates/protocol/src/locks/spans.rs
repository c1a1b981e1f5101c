//! The spans that owners hold in one index.
//!
//! Spans of one owner and mode that overlap or adjoin are kept as one, so they are disjoint, and what concerns an owner
//! is found in the order of keys: a join locks a span for each of its rows.

use std::collections::BTreeMap;

use anabranch_types::Key;
use smallvec::SmallVec;

use super::mode::{LockOwner, Mode};
use crate::span::Span;

/// Disjoint spans: the high end of each by its low end.
#[derive(Clone, Debug, Default)]
struct SpanSet(BTreeMap<Key, Option<Key>>);

impl SpanSet {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last span that begins at or below `key`.
    fn at_or_below(&self, key: &Key) -> Option<(&Key, &Option<Key>)> {
        self.0.range(..=key).next_back()
    }

    /// Adds a span that is not empty.
    fn insert(&mut self, mut span: Span) {
        if let Some((low, high)) = self.at_or_below(&span.low)
            && high.as_ref().is_none_or(|high| *high >= span.low)
        {
            span.low = low.clone();
        }
        // Those that begin inside of it, or at its end, become part of it.
        while let Some((low, high)) = self.0.range(&span.low..).next()
            && span.high.as_ref().is_none_or(|end| low <= end)
        {
            let low = low.clone();
            if let Some(end) = &span.high
                && high.as_ref().is_none_or(|high| high > end)
            {
                span.high = high.clone();
            }
            self.0.remove(&low);
        }
        self.0.insert(span.low, span.high);
    }

    fn contains(&self, key: &Key) -> bool {
        let below = self.at_or_below(key);
        below.is_some_and(|(_, high)| high.as_ref().is_none_or(|high| key < high))
    }

    /// The lowest key of `span`, which is not empty, that may be in one of these.
    fn first_in<'s>(&'s self, span: &'s Span) -> Option<&'s Key> {
        if self.contains(&span.low) {
            return Some(&span.low);
        }
        let (low, _) = self.0.range(span.bounds()).next()?;
        Some(low)
    }

    /// The part of a span that remains without the ends that these cover.
    fn uncovered(&self, mut span: Span) -> Option<Span> {
        if let Some((_, high)) = self.at_or_below(&span.low) {
            match high {
                None => return None,
                Some(high) if *high > span.low => span.low = high.clone(),
                Some(_) => {}
            }
        }
        if span.is_empty() {
            return None;
        }
        if let Some((low, high)) = self.0.range(span.bounds()).next_back()
            && high
                .as_ref()
                .is_none_or(|high| span.high.as_ref().is_some_and(|end| high >= end))
        {
            span.high = Some(low.clone());
        }
        (!span.is_empty()).then_some(span)
    }

    /// Whether all are below `place`.
    fn is_below(&self, place: &Key) -> bool {
        let last = self.0.last_key_value();
        last.is_none_or(|(_, high)| high.as_ref().is_some_and(|high| high <= place))
    }

    fn iter(&self) -> impl Iterator<Item = Span> {
        self.0.iter().map(|(low, high)| Span {
            low: low.clone(),
            high: high.clone(),
        })
    }
}

/// One owner's spans.
#[derive(Clone, Debug)]
struct Held {
    owner: LockOwner,
    shared: SpanSet,
    exclusive: SpanSet,
}

impl Held {
    /// The spans whose locks conflict with `mode`.
    fn against(&self, mode: Mode) -> impl Iterator<Item = &SpanSet> {
        let shared = (mode == Mode::Exclusive).then_some(&self.shared);
        shared.into_iter().chain([&self.exclusive])
    }

    /// The spans whose locks are as strong as `mode`.
    fn at_least(&self, mode: Mode) -> impl Iterator<Item = &SpanSet> {
        let shared = (mode == Mode::Shared).then_some(&self.shared);
        shared.into_iter().chain([&self.exclusive])
    }
}

/// The span locks of an index, by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// Owners that hold some, in no order: there are few at a time.
    owners: Vec<Held>,
}

impl Spans {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    fn of(&self, owner: LockOwner) -> Option<&Held> {
        self.owners.iter().find(|held| held.owner == owner)
    }

    fn of_others(&self, owner: LockOwner) -> impl Iterator<Item = &Held> {
        self.owners.iter().filter(move |held| held.owner != owner)
    }

    /// Grants a span that is not empty; returns whether it is the owner's first here.
    pub(crate) fn hold(&mut self, owner: LockOwner, mode: Mode, span: Span) -> bool {
        let known = self.owners.iter().position(|held| held.owner == owner);
        let at = known.unwrap_or(self.owners.len());
        if known.is_none() {
            self.owners.push(Held {
                owner,
                shared: SpanSet::default(),
                exclusive: SpanSet::default(),
            });
        }
        match mode {
            Mode::Shared => self.owners[at].shared.insert(span),
            Mode::Exclusive => self.owners[at].exclusive.insert(span),
        }
        known.is_none()
    }

    /// Takes the owner's spans of at most `mode` away; returns them, and whether it holds any still.
    pub(crate) fn release(&mut self, owner: LockOwner, mode: Mode) -> (Vec<Span>, bool) {
        let Some(at) = self.owners.iter().position(|held| held.owner == owner) else {
            return (Vec::new(), false);
        };
        let held = &mut self.owners[at];
        let mut released: Vec<Span> = std::mem::take(&mut held.shared).iter().collect();
        if mode == Mode::Exclusive {
            released.extend(std::mem::take(&mut held.exclusive).iter());
        }
        let is_left = !held.exclusive.is_empty();
        if !is_left {
            self.owners.swap_remove(at);
        }
        (released, is_left)
    }

    /// Whether a span of the owner, held in `mode` or a stronger one, contains `key`.
    pub(crate) fn covers(&self, owner: LockOwner, key: &Key, mode: Mode) -> bool {
        let held = self.of(owner);
        held.is_some_and(|held| held.at_least(mode).any(|set| set.contains(key)))
    }

    /// The other owners whose spans contain `key` and conflict with `mode`.
    pub(crate) fn holders_against(
        &self,
        owner: LockOwner,
        key: &Key,
        mode: Mode,
    ) -> impl Iterator<Item = LockOwner> {
        self.of_others(owner)
            .filter(move |held| held.against(mode).any(|set| set.contains(key)))
            .map(|held| held.owner)
    }

    /// The lowest key of `span`, which is not empty, at which another owner's span conflicts with `mode`.
    pub(crate) fn blocker<'s>(
        &'s self,
        owner: LockOwner,
        span: &'s Span,
        mode: Mode,
    ) -> Option<&'s Key> {
        let sets = self.of_others(owner).flat_map(|held| held.against(mode));
        sets.filter_map(|set| set.first_in(span)).min()
    }

    /// The part of a span that remains without the ends that the owner's own spans cover.
    pub(crate) fn uncovered(&self, owner: LockOwner, span: Span, mode: Mode) -> Option<Span> {
        let sets: SmallVec<[&SpanSet; 2]> = match self.of(owner) {
            Some(held) => held.at_least(mode).collect(),
            None => SmallVec::new(),
        };
        let remaining = (!span.is_empty()).then_some(span);
        sets.into_iter()
            .fold(remaining, |span, set| set.uncovered(span?))
    }

    /// Whether all spans of the owner are below `place`.
    pub(crate) fn are_below(&self, owner: LockOwner, place: &Key) -> bool {
        let held = self.of(owner);
        held.is_none_or(|held| held.shared.is_below(place) && held.exclusive.is_below(place))
    }

    /// The owner's spans.
    pub(crate) fn held(&self, owner: LockOwner) -> impl Iterator<Item = (Mode, Span)> {
        self.of(owner).into_iter().flat_map(|held| {
            let shared = held.shared.iter().map(|span| (Mode::Shared, span));
            let exclusive = held.exclusive.iter().map(|span| (Mode::Exclusive, span));
            shared.chain(exclusive)
        })
    }

    /// LOCK-I1 for spans: two owners and the place at which both hold what conflicts.
    pub(crate) fn conflict(&self) -> Option<(LockOwner, LockOwner, Key)> {
        self.owners.iter().find_map(|held| {
            self.held(held.owner).find_map(|(mode, span)| {
                let (other, place) = self.of_others(held.owner).find_map(|other| {
                    let place = other.against(mode).find_map(|set| set.first_in(&span));
                    Some((other.owner, place?.clone()))
                })?;
                Some((held.owner, other, place))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::random::Random;

    fn key(number: u64) -> Key {
        Key::from_bytes(&[number as u8])
    }

    fn span(random: &mut Random) -> Span {
        let low = random.below(20);
        Span {
            low: key(low),
            high: random.percent(90).then(|| key(low + 1 + random.below(7))),
        }
    }

    /// The numbers whose keys are in one of the spans.
    fn numbers(spans: &[Span]) -> Vec<u64> {
        let in_some = |number: &u64| spans.iter().any(|span| span.contains(&key(*number)));
        (0..40).filter(in_some).collect()
    }

    /// The set answers as a list of all spans that were added does.
    #[test]
    fn a_set_of_spans_is_their_union() {
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let spans: Vec<Span> = (0..random.below(10)).map(|_| span(&mut random)).collect();
            let asked = span(&mut random);
            let mut set = SpanSet::default();
            spans.iter().for_each(|span| set.insert(span.clone()));
            let kept: Vec<Span> = set.iter().collect();
            let expected = numbers(&spans);
            assert_eq!(numbers(&kept), expected, "{spans:?}");
            for pair in kept.windows(2) {
                let high = pair[0].high.as_ref();
                assert!(high.is_some_and(|high| *high < pair[1].low), "{kept:?}");
            }
            for number in 0..40 {
                let is_held = expected.contains(&number);
                assert_eq!(set.contains(&key(number)), is_held, "{spans:?}");
                let is_below = expected.iter().all(|held| *held < number);
                assert_eq!(set.is_below(&key(number)), is_below, "{spans:?}");
            }
            let inside = numbers(std::slice::from_ref(&asked));
            let shared = inside.iter().find(|number| expected.contains(number));
            let shared = shared.map(|number| key(*number));
            assert_eq!(set.first_in(&asked), shared.as_ref(), "{spans:?} {asked:?}");
            // What remains begins and ends with a key that no span has.
            let is_free = |number: &&u64| !expected.contains(number);
            let left: Vec<&u64> = inside.iter().filter(is_free).collect();
            let remaining = set.uncovered(asked.clone());
            let remaining = numbers(remaining.as_slice());
            assert_eq!(
                remaining.first().as_ref(),
                left.first(),
                "{spans:?} {asked:?}"
            );
            assert_eq!(
                remaining.last().as_ref(),
                left.last(),
                "{spans:?} {asked:?}"
            );
        }
    }
}
