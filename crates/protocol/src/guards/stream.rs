//! The streams of all sites: what each has committed alone, in order, sent to every site until all have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_types::Ticks;
use serde::{Deserialize, Serialize};

use crate::order::SiteId;

use super::commit::StreamCommit;
use super::message::GuardMessage;

/// The most commits that are sent again to a site at once.
const RESENT_MAX: usize = 64;

/// The streams of all sites, as one of them has them.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    site: SiteId,
    state: StreamState,
    /// Commits that came before others of their stream.
    early: BTreeMap<(SiteId, u64), Arc<StreamCommit>>,
    /// What each site is known to have of each stream.
    known: Vec<Vec<u64>>,
    /// When commits of the own stream were last sent, by number.
    sent: BTreeMap<u64, Ticks>,
}

/// What a site keeps of the streams in a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamState {
    /// By site: how many commits have arrived without gaps; of the own stream, how many there are.
    received: Vec<u64>,
    /// By site: how many are applied.
    applied: Vec<u64>,
    /// By site: the commits that some site may lack, by number.
    kept: Vec<BTreeMap<u64, Arc<StreamCommit>>>,
}

/// Messages to sites.
pub(crate) type Sent<M> = Vec<(SiteId, GuardMessage<M>)>;

impl Streams {
    pub(crate) fn new(site: SiteId, sites: usize) -> Streams {
        Streams {
            site,
            state: StreamState {
                received: vec![0; sites],
                applied: vec![0; sites],
                kept: vec![BTreeMap::new(); sites],
            },
            early: BTreeMap::new(),
            known: vec![vec![0; sites]; sites],
            sent: BTreeMap::new(),
        }
    }

    pub(crate) fn state(&self) -> StreamState {
        self.state.clone()
    }

    pub(crate) fn restore(&mut self, state: StreamState) {
        self.state = state;
    }

    /// By site: how many commits are applied.
    pub(crate) fn applied(&self) -> &[u64] {
        &self.state.applied
    }

    /// By site: how many commits have arrived.
    pub(crate) fn received(&self) -> &[u64] {
        &self.state.received
    }

    /// The number of the next commit of this site.
    pub(crate) fn next_number(&self) -> u64 {
        self.state.received[self.site.index()] + 1
    }

    /// The other sites.
    fn others(&self) -> impl Iterator<Item = SiteId> + use<> {
        let own = self.site;
        (0..self.known.len() as u8)
            .map(SiteId)
            .filter(move |site| *site != own)
    }

    /// Adds a commit of this site, which has applied it.
    pub(crate) fn add_own(&mut self, commit: Arc<StreamCommit>) {
        let own = self.site.index();
        debug_assert_eq!(commit.number, self.next_number());
        self.state.received[own] = commit.number;
        self.state.applied[own] = commit.number;
        if self.known.len() > 1 {
            self.state.kept[own].insert(commit.number, commit);
        }
    }

    /// Sends a commit of this site to all others.
    pub(crate) fn publish<M>(&mut self, now: Ticks, commit: &Arc<StreamCommit>, out: &mut Sent<M>) {
        if self.known.len() > 1 {
            self.sent.insert(commit.number, now);
        }
        for site in self.others() {
            out.push((
                site,
                GuardMessage::Commit {
                    origin: self.site,
                    commit: Arc::clone(commit),
                },
            ));
        }
    }

    /// Whether a commit of another site is the next of its stream here. One that comes before others of its stream is
    /// kept until these have come: [`Streams::next_early`].
    pub(crate) fn accepts(&mut self, origin: SiteId, commit: &Arc<StreamCommit>) -> bool {
        let next = self.state.received[origin.index()] + 1;
        if origin != self.site && commit.number > next {
            self.early
                .insert((origin, commit.number), Arc::clone(commit));
        }
        origin != self.site && commit.number == next
    }

    /// Takes a commit that came before others of its stream, and is the next one now.
    pub(crate) fn next_early(&mut self) -> Option<(SiteId, Arc<StreamCommit>)> {
        let received = &self.state.received;
        self.early
            .retain(|(origin, number), _| *number > received[origin.index()]);
        let mut places = self.early.keys();
        let next = places.find(|(origin, number)| *number == received[origin.index()] + 1);
        let place = *next?;
        let commit = self.early.remove(&place)?;
        Some((place.0, commit))
    }

    /// By site: the last commit of its stream that a majority of the sites is known to have, and with it all before.
    fn at_majority(&self) -> Vec<u64> {
        let sites = self.known.len();
        let of_stream = |origin: usize| {
            let mut held: Vec<u64> = (0..sites)
                .map(|site| match site == self.site.index() || site == origin {
                    true => self.state.received[origin],
                    false => self.known[site][origin],
                })
                .collect();
            held.sort_unstable();
            held[sites - 1 - sites / 2]
        };
        (0..sites).map(of_stream).collect()
    }

    /// The commits that are applied here and not known to be at a majority of the sites, by stream, in order.
    pub(crate) fn at_few(&self) -> Vec<(SiteId, Arc<StreamCommit>)> {
        let mut few = Vec::new();
        for (origin, after) in self.at_majority().into_iter().enumerate() {
            let applied = self.state.applied[origin];
            let commits = self.state.kept[origin].range(after + 1..);
            let commits = commits.take_while(|(number, _)| **number <= applied);
            few.extend(commits.map(|(_, commit)| (SiteId(origin as u8), Arc::clone(commit))));
        }
        few
    }

    /// Adds a commit of another site that has arrived.
    pub(crate) fn add_received(&mut self, origin: SiteId, commit: Arc<StreamCommit>) {
        self.state.received[origin.index()] = commit.number;
        self.state.kept[origin.index()].insert(commit.number, commit);
    }

    /// A commit of another site has been applied.
    pub(crate) fn add_applied(&mut self, origin: SiteId, number: u64) {
        self.state.applied[origin.index()] = number;
    }

    /// Takes what another site says that it has. Returns whether it does not know what this site has.
    pub(crate) fn learn(&mut self, from: SiteId, received: &[u64], known: &[u64]) -> bool {
        let of_sender = &mut self.known[from.index()];
        for (held, now) in of_sender.iter_mut().zip(received) {
            *held = (*held).max(*now);
        }
        self.prune();
        self.state
            .received
            .iter()
            .zip(known)
            .any(|(received, known)| known < received)
    }

    /// Drops the commits that all sites have.
    fn prune(&mut self) {
        for origin in 0..self.known.len() {
            let others = self.others();
            let everywhere = others.map(|site| self.known[site.index()][origin]).min();
            let everywhere = everywhere.unwrap_or(u64::MAX);
            let kept = &mut self.state.kept[origin];
            while let Some(first) = kept.first_entry()
                && *first.key() <= everywhere
            {
                first.remove();
            }
        }
        let own = &self.state.kept[self.site.index()];
        self.sent.retain(|number, _| own.contains_key(number));
    }

    /// What this site has of each stream, for another site.
    pub(crate) fn report<M>(&self, to: SiteId) -> GuardMessage<M> {
        GuardMessage::Received {
            received: self.state.received.clone(),
            known: self.known[to.index()].clone(),
        }
    }

    /// The same for all other sites.
    pub(crate) fn report_to_all<M>(&self, out: &mut Sent<M>) {
        for site in self.others() {
            out.push((site, self.report(site)));
        }
    }

    /// Whether another site has said that it has what this one lacks.
    pub(crate) fn lacks(&self) -> bool {
        let received = &self.state.received;
        self.others().any(|site| {
            let known = self.known[site.index()].iter();
            known
                .zip(received)
                .any(|(known, received)| known > received)
        })
    }

    /// Asks all other sites for what this one lacks.
    pub(crate) fn fetch<M>(&self, out: &mut Sent<M>) {
        for site in self.others() {
            let received = self.state.received.clone();
            out.push((site, GuardMessage::Fetch { received }));
        }
    }

    /// Sends what a site lacks, of all streams.
    pub(crate) fn answer<M>(&self, to: SiteId, received: &[u64], out: &mut Sent<M>) {
        for (origin, (kept, after)) in self.state.kept.iter().zip(received).enumerate() {
            let origin = SiteId(origin as u8);
            if origin != to {
                let lacking = kept.range(after + 1..).take(RESENT_MAX);
                out.extend(lacking.map(|(_, commit)| {
                    let commit = Arc::clone(commit);
                    (to, GuardMessage::Commit { origin, commit })
                }));
            }
        }
    }

    /// Sends commits of this site again that others have not acknowledged for `patience`, and reports what this site has
    /// to sites that may not know.
    pub(crate) fn repeat<M>(&mut self, now: Ticks, patience: Ticks, out: &mut Sent<M>) {
        let own = self.site.index();
        for site in self.others() {
            let known = &self.known[site.index()];
            let lacking = self.state.kept[own].range(known[own] + 1..);
            let due = lacking.filter(|(number, _)| {
                let sent = self.sent.get(number).copied().unwrap_or_default();
                now.since(sent) >= patience
            });
            out.extend(due.take(RESENT_MAX).map(|(_, commit)| {
                let (origin, commit) = (self.site, Arc::clone(commit));
                (site, GuardMessage::Commit { origin, commit })
            }));
            if *known != self.state.received {
                out.push((site, self.report(site)));
            }
        }
        for sent in self.sent.values_mut() {
            if now.since(*sent) >= patience {
                *sent = now;
            }
        }
    }

    /// Another site has restarted: what was sent to it may be lost.
    pub(crate) fn restarted(&mut self) {
        self.sent.clear();
    }

    /// Whether all sites are known to have all commits that this one has, and those are applied here.
    pub(crate) fn is_at_rest(&self) -> bool {
        let received = &self.state.received;
        self.early.is_empty()
            && self.state.applied == *received
            && self
                .others()
                .all(|site| self.known[site.index()] == *received)
    }

    /// Whether a commit waits for another of its stream.
    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }
}
