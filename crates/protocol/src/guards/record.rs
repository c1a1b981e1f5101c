//! Log records of sites that order over guards, beside the orderer's.

use anabranch_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::certification::{AccessSet, Certificate};
use crate::order::{BatchId, SiteId};

use super::commit::StreamCommit;
use super::effects::EffectLogs;
use super::stream::StreamState;
use super::versions::GuardVersions;

/// A record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GuardRecord {
    /// This site has committed a transaction alone.
    Own {
        /// The commit.
        commit: StreamCommit,
        /// Its guard accesses: guards whose home is this site.
        accesses: AccessSet,
    },
    /// A commit of another site has arrived, and all before it in its stream.
    Received {
        /// The site.
        origin: SiteId,
        /// The commit.
        commit: StreamCommit,
    },
    /// In a checkpoint: everything but the rows and the orderer.
    State(GuardState),
}

/// The state of a site beside its rows and its orderer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardState {
    /// The streams.
    pub streams: StreamState,
    /// The effects of rows.
    pub logs: EffectLogs,
    /// The versions of guards.
    pub versions: GuardVersions,
    /// What waits to be applied, in order of arrival.
    pub pending: Vec<Pending>,
    /// By site: no transaction of it at or below this is still to come.
    pub floors: Vec<Timestamp>,
    /// A digest of all decisions so far.
    pub decisions: u64,
}

/// A transaction that waits until what was seen in it is applied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Pending {
    /// A commit of another site's stream.
    Stream {
        /// The site.
        origin: SiteId,
        /// The commit.
        commit: StreamCommit,
    },
    /// An ordered transaction that has committed.
    Ordered {
        /// Its batch.
        batch: BatchId,
        /// Its certificate.
        certificate: Certificate,
    },
}
