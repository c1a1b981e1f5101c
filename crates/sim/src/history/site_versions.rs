//! What each of several sites has installed: the versions that a read there has missed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_engine::{AttemptOutcome, AttemptRecord};
use anabranch_storage::{Installed, InstalledKind, StateOrigin};
use anabranch_types::{IndexId, Key, NodeId, PartitionId, Recorded, TableId, Timestamp};

/// The attempt that made a read, for what it did not find.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// The site where it ran.
    pub(super) site: NodeId,
    /// Its timestamp, if it has committed.
    committed: Option<Timestamp>,
}

impl Reader {
    pub(super) fn of(record: &AttemptRecord) -> Reader {
        let committed = match record.outcome {
            AttemptOutcome::Committed(timestamp) => Some(timestamp),
            _ => None,
        };
        Reader {
            site: record.transaction.node,
            committed,
        }
    }
}

/// A version of an item at a site.
#[derive(Clone)]
pub(super) struct SiteVersion {
    sequence: u64,
    timestamp: Timestamp,
    /// Its entries in secondary indexes; `None` of a deletion.
    pub(super) entries: Option<Vec<(IndexId, Key)>>,
}

/// What each of several sites has installed, in its order.
#[derive(Default)]
pub(super) struct SiteVersions {
    /// By site: the versions of each item, in order.
    versions: Vec<BTreeMap<(TableId, Key), Vec<SiteVersion>>>,
}

impl SiteVersions {
    /// # Panics
    /// When a state that a site has taken is not one of its origin.
    pub(super) fn new(sites: u16, installed: &[(u16, PartitionId, Installed)]) -> SiteVersions {
        let none = (0..sites).map(|_| BTreeMap::new()).collect();
        let mut all = SiteVersions { versions: none };
        let mut left: Vec<VecDeque<&Installed>> = (0..sites).map(|_| VecDeque::new()).collect();
        for (site, _, one) in installed {
            left[usize::from(*site)].push_back(one);
        }
        for own in &mut left {
            own.make_contiguous().sort_by_key(|one| one.sequence);
        }
        // A state that a site has taken is complete at its origin before.
        let is_complete = |left: &[VecDeque<&Installed>], origin: StateOrigin| {
            let next = left[origin.node.index()].front();
            next.is_none_or(|one| one.sequence > origin.sequence)
        };
        while left.iter().any(|own| !own.is_empty()) {
            let mut goes_on = false;
            for site in 0..usize::from(sites) {
                while let Some(one) = left[site].front()
                    && one.origin.is_none_or(|of| is_complete(&left, of))
                {
                    all.add(site, one);
                    left[site].pop_front();
                    goes_on = true;
                }
            }
            assert!(
                goes_on,
                "a state was taken from a site that was never in it"
            );
        }
        all
    }

    fn add(&mut self, site: usize, one: &Installed) {
        if let Some(origin) = one.origin {
            return self.take(site, one.sequence.0, origin);
        }
        let items = &mut self.versions[site];
        for change in &one.changes {
            let item = (change.table, change.key.clone());
            let is_row = change.kind != InstalledKind::Delete;
            items.entry(item).or_default().push(SiteVersion {
                sequence: one.sequence.0,
                timestamp: one.timestamp,
                entries: is_row.then(|| change.entries.clone()),
            });
        }
    }

    /// Adds what a state has that a site had not installed, as of the commit as which the site has taken the state.
    fn take(&mut self, site: usize, sequence: u64, origin: StateOrigin) {
        let mut missed: Vec<((TableId, Key), SiteVersion)> = Vec::new();
        let own = &self.versions[site];
        for (item, versions) in &self.versions[origin.node.index()] {
            let known = own.get(item).map_or(&[][..], Vec::as_slice);
            let in_state = versions
                .iter()
                .filter(|version| version.sequence <= origin.sequence.0);
            let new = in_state.filter(|version| {
                let mut known = known.iter();
                !known.any(|it| it.timestamp == version.timestamp)
            });
            missed.extend(new.map(|version| {
                let version = SiteVersion {
                    sequence,
                    ..version.clone()
                };
                (item.clone(), version)
            }));
        }
        for (item, version) in missed {
            self.versions[site].entry(item).or_default().push(version);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    fn of(&self, site: NodeId, table: TableId, key: &Key) -> &[SiteVersion] {
        let item = (table, key.clone());
        let versions = self.versions[site.index()].get(&item);
        versions.map_or(&[], Vec::as_slice)
    }

    /// When a reader was certified; `None` if it was not.
    fn certified(&self, reader: Reader) -> Option<Timestamp> {
        let sites = self.versions.len();
        reader.committed.filter(|it| it.node().index() < sites)
    }

    /// The version of a row that a point read did not find: the last deletion before the reader, if it was certified,
    /// since there was no version to certify, and a row that is absent again is as absent; otherwise the version in the
    /// state that was read.
    pub(super) fn absent(
        &self,
        reader: Reader,
        recorded: &Recorded,
        (table, key): (TableId, &Key),
    ) -> Option<Timestamp> {
        let versions = self.of(reader.site, table, key);
        if let Some(timestamp) = self.certified(reader) {
            let before = versions
                .iter()
                .rfind(|version| version.timestamp < timestamp);
            if let Some(version) = before.filter(|version| version.entries.is_none()) {
                return Some(version.timestamp);
            }
        }
        let included =
            |version: &&SiteVersion| recorded.state.includes(version.sequence, version.timestamp);
        let last = versions.iter().rfind(included);
        last.map(|version| version.timestamp)
    }

    /// The version with which an item had left a range that was scanned without it; the initial version (`None`) if it
    /// had not been there. No result if the next version is outside of the range, too: a scan does not depend on the
    /// order of these, and a read would.
    pub(super) fn left(
        &self,
        reader: Reader,
        recorded: &Recorded,
        (table, key): (TableId, &Key),
        is_in: impl Fn(&SiteVersion) -> bool,
    ) -> Option<Option<Timestamp>> {
        let versions = self.of(reader.site, table, key);
        let certified = self.certified(reader);
        let seen =
            |version: &SiteVersion| recorded.state.includes(version.sequence, version.timestamp);
        // Versions in the range, and those that leave it, are ordered against a certified reader by timestamp.
        let precedes = |version: &SiteVersion| {
            seen(version) || certified.is_some_and(|it| version.timestamp < it)
        };
        let mut places = (0..versions.len()).rev();
        let before = places.find(|at| is_in(&versions[*at]) && precedes(&versions[*at]));
        let left = before.map_or(0, |at| at + 1);
        let next = if before.is_some() { left + 1 } else { left };
        if versions.get(next).is_some_and(|version| !is_in(version)) {
            return None;
        }
        match before {
            None => Some(None),
            // If it had not left, the scan has missed it: this read of the version in the range shows that.
            Some(at) => {
                let version = versions.get(left).filter(|version| precedes(version));
                Some(Some(version.unwrap_or(&versions[at]).timestamp))
            }
        }
    }

    /// The items of a table with a version of this kind at some site.
    pub(super) fn items(
        &self,
        table: TableId,
        is_meant: impl Fn(&Key, &SiteVersion) -> bool,
    ) -> BTreeSet<&Key> {
        let all = self.versions.iter().flatten();
        let meant = all.filter(|((of, key), versions)| {
            *of == table && versions.iter().any(|version| is_meant(key, version))
        });
        meant.map(|((_, key), _)| key).collect()
    }
}
