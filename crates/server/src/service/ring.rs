//! A server whose database is in a ring of the Conveyor Belt (`docs/protocols/belt.md`, *In our own database*): one node
//! under locking, with its rows in memory.
//!
//! A global operation is a transaction of a connection that has set `anabranch.hop` to the hop of the hold; it commits
//! under that hold. The belt's own transactions come through a [`BeltConnection`].

use std::sync::Arc;

use anabranch_engine::{BeltAnswer, BeltLook, BeltWork, CallError, Work};
use anabranch_types::NodeId;

pub use super::options::{RingDescription, RingPlace, RingType};

use super::exclusive::NodesSlot;
use super::nodes::Caller;
use super::options::{Guarantee, ServiceOptions};
use super::{Served, Service, ServiceError};
use crate::cluster::ClusterError;
use crate::ring_look::LookAtRing;

/// Why a transaction of the belt did not take place.
#[derive(Debug)]
pub enum BeltError {
    /// The database refuses it, or has aborted it.
    Refused(CallError),
    /// The server has ended, or failed.
    Ended(String),
}

impl std::fmt::Display for BeltError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BeltError::Refused(error) => error.fmt(f),
            BeltError::Ended(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for BeltError {}

/// Where connections for the belt's transactions come from.
#[derive(Clone)]
pub struct BeltSource {
    slot: Arc<NodesSlot>,
}

impl BeltSource {
    /// Connects to the database.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn connect(&self) -> Result<BeltConnection, BeltError> {
        let caller = self.slot.caller();
        let caller = caller.ok_or_else(|| BeltError::Ended("no nodes run".to_owned()))?;
        Ok(BeltConnection { caller })
    }
}

impl std::fmt::Debug for BeltSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BeltSource").finish_non_exhaustive()
    }
}

/// Runs the belt's transactions in the database of a server, one after the other.
pub struct BeltConnection {
    caller: Box<dyn Caller>,
}

impl BeltConnection {
    /// Runs a transaction of the belt, and waits for its end.
    ///
    /// # Errors
    /// When it did not take place.
    pub fn run(&mut self, work: BeltWork) -> Result<BeltAnswer, BeltError> {
        let work = Work::Belt(Arc::new(work));
        let outcome = self.caller.call(NodeId(0), work, [].into());
        let outcome = outcome.map_err(|error| BeltError::Ended(error.to_string()))?;
        let result = outcome.result.map_err(BeltError::Refused)?;
        BeltAnswer::of(&result).map_err(BeltError::Ended)
    }
}

impl std::fmt::Debug for BeltConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BeltConnection").finish_non_exhaustive()
    }
}

impl LookAtRing for NodesSlot {
    fn look(&self) -> Result<BeltLook, String> {
        let caller = self.caller().ok_or("the server ends")?;
        let answer = BeltConnection { caller }.run(BeltWork::Look);
        match answer.map_err(|error| error.to_string())? {
            BeltAnswer::Looked(look) => Ok(look),
            other => Err(format!("a transaction of the belt gave {other:?}")),
        }
    }
}

impl Service {
    /// Starts a server whose database is in a ring. Its belt's tables are empty: [`BeltWork::Create`] is the first
    /// transaction.
    ///
    /// # Errors
    /// As [`Service::start`]; when the database has more than one partition, is not serializable, or has a data folder.
    pub fn start_in_ring(
        served: Served,
        ring: RingPlace,
        options: ServiceOptions,
    ) -> Result<Service, ServiceError> {
        let fits = served.stores.len() == 1
            && served.guarantee == Guarantee::Serializable
            && served.data.is_none();
        if !fits {
            let message = "the database of a ring has one partition in memory, and is serializable";
            return Err(ServiceError::Cluster(ClusterError::Failed(
                message.to_owned(),
            )));
        }
        Service::start_at(served, Some(ring), options)
    }

    /// Where connections for the belt's transactions come from.
    pub fn belt(&self) -> BeltSource {
        BeltSource {
            slot: Arc::clone(&self.slot),
        }
    }
}
