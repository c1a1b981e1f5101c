//! The versions of guards: the last transactions that have written each.

use std::collections::BTreeMap;

use anabranch_storage::CommitSequence;
use anabranch_types::{Key, Timestamp};
use serde::{Deserialize, Serialize};

use crate::certification::access_set::{AccessSet, PointAccess, Space, SpanAccess};
use crate::certification::guarded::GuardVersion;
use crate::span::Span;

/// The last transaction that has written a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Writer {
    timestamp: Timestamp,
    /// When its effects were installed here; `None` while they wait.
    installed: Option<CommitSequence>,
}

/// The versions of all guards at a site.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuardVersions {
    points: BTreeMap<Space, BTreeMap<Key, Writer>>,
    spans: Vec<(Space, Span, Writer)>,
}

impl GuardVersions {
    /// The versions of each access: of the points, then of the spans. The same at all sites if these have delivered the
    /// same conflicting transactions.
    pub(crate) fn of(&self, accesses: &AccessSet) -> Vec<Vec<GuardVersion>> {
        let named = |found: Vec<(&Key, Writer)>| {
            let mut found: Vec<GuardVersion> = found
                .into_iter()
                .map(|(key, writer)| (key.clone(), writer.timestamp))
                .collect();
            found.sort_unstable();
            found
        };
        let points = accesses.points.iter().map(|point| self.at_point(point));
        let spans = accesses.spans.iter().map(|span| self.at_span(span));
        points.chain(spans).map(named).collect()
    }

    /// Whether a snapshot includes the effects of the last writers of all these guards.
    pub(crate) fn are_seen(&self, accesses: &AccessSet, snapshot: CommitSequence) -> bool {
        let seen = |found: Vec<(&Key, Writer)>| {
            let mut writers = found.iter();
            writers.all(|(_, writer)| writer.installed.is_some_and(|it| it <= snapshot))
        };
        let mut points = accesses.points.iter();
        let mut spans = accesses.spans.iter();
        points.all(|point| seen(self.at_point(point))) && spans.all(|span| seen(self.at_span(span)))
    }

    fn at_point(&self, point: &PointAccess) -> Vec<(&Key, Writer)> {
        let of_space = self.points.get(&point.space);
        let own = of_space.and_then(|keys| keys.get_key_value(&point.key));
        let spans = self.spans.iter();
        let around =
            spans.filter(|(space, span, _)| *space == point.space && span.contains(&point.key));
        own.map(|(key, writer)| (key, *writer))
            .into_iter()
            .chain(around.map(|(_, span, writer)| (&span.low, *writer)))
            .collect()
    }

    fn at_span(&self, access: &SpanAccess) -> Vec<(&Key, Writer)> {
        let of_space = self.points.get(&access.space).into_iter();
        let within = of_space.flat_map(|keys| {
            keys.range(access.span.low.clone()..)
                .take_while(|(key, _)| access.span.contains(key))
        });
        let spans = self.spans.iter();
        let around =
            spans.filter(|(space, span, _)| *space == access.space && span.overlaps(&access.span));
        within
            .map(|(key, writer)| (key, *writer))
            .chain(around.map(|(_, span, writer)| (&span.low, *writer)))
            .collect()
    }

    /// A transaction that has committed is the last writer of the guards that it writes.
    pub(crate) fn write(
        &mut self,
        accesses: &AccessSet,
        timestamp: Timestamp,
        installed: Option<CommitSequence>,
    ) {
        let writer = Writer {
            timestamp,
            installed,
        };
        for point in accesses.points.iter().filter(|point| point.writes) {
            let keys = self.points.entry(point.space).or_default();
            keys.insert(point.key.clone(), writer);
        }
        for access in accesses.spans.iter().filter(|span| span.writes) {
            let same = |(space, span, _): &&mut (Space, Span, Writer)| {
                *space == access.space && *span == access.span
            };
            match self.spans.iter_mut().find(same) {
                Some((_, _, held)) => *held = writer,
                None => self.spans.push((access.space, access.span.clone(), writer)),
            }
        }
    }

    /// The effects of a transaction have been installed.
    pub(crate) fn installed(
        &mut self,
        accesses: &AccessSet,
        timestamp: Timestamp,
        sequence: CommitSequence,
    ) {
        for point in accesses.points.iter().filter(|point| point.writes) {
            let keys = self.points.get_mut(&point.space);
            let writer = keys.and_then(|keys| keys.get_mut(&point.key));
            if let Some(writer) = writer.filter(|writer| writer.timestamp == timestamp) {
                writer.installed = Some(sequence);
            }
        }
        let spans = self.spans.iter_mut();
        for (_, _, writer) in spans.filter(|(_, _, writer)| writer.timestamp == timestamp) {
            writer.installed = Some(sequence);
        }
    }
}
