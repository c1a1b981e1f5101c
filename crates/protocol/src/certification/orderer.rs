//! The orderers of certificates.

use crate::order::Orderer;
use crate::order::epaxos::{EpaxosSite, record::EpaxosRecord};
use crate::order::multipaxos::{MultiPaxosSite, record::MultiPaxosRecord};
use crate::order::pob::{PobSite, record::PobRecord};
use crate::record::Record;

use super::certificate::Certificate;

/// An orderer of certificates whose records a log can hold.
pub trait LoggedOrderer: Orderer<Payload = Certificate> {
    /// Its record as a record of the log.
    fn into_record(record: Self::Record) -> Record;

    /// The inverse of [`LoggedOrderer::into_record`].
    ///
    /// # Errors
    /// The record, if it is another protocol's.
    fn from_record(record: Record) -> Result<Self::Record, Box<Record>>;
}

impl LoggedOrderer for PobSite<Certificate> {
    fn into_record(record: PobRecord<Certificate>) -> Record {
        Record::Pob(Box::new(record))
    }

    fn from_record(record: Record) -> Result<PobRecord<Certificate>, Box<Record>> {
        match record {
            Record::Pob(record) => Ok(*record),
            other => Err(Box::new(other)),
        }
    }
}

impl LoggedOrderer for EpaxosSite<Certificate> {
    fn into_record(record: EpaxosRecord<Certificate>) -> Record {
        Record::Epaxos(Box::new(record))
    }

    fn from_record(record: Record) -> Result<EpaxosRecord<Certificate>, Box<Record>> {
        match record {
            Record::Epaxos(record) => Ok(*record),
            other => Err(Box::new(other)),
        }
    }
}

impl LoggedOrderer for MultiPaxosSite<Certificate> {
    fn into_record(record: MultiPaxosRecord<Certificate>) -> Record {
        Record::MultiPaxos(Box::new(record))
    }

    fn from_record(record: Record) -> Result<MultiPaxosRecord<Certificate>, Box<Record>> {
        match record {
            Record::MultiPaxos(record) => Ok(*record),
            other => Err(Box::new(other)),
        }
    }
}
