//! Log records and recovery of a site: those of its orderer, since certification decides again as it did before; and
//! those of state transfers.

use anabranch_storage::Store;
use anabranch_types::Ticks;

use crate::contract::{Durable, Outbox};
use crate::order::OutboxOf;
use crate::record::{NoRecords, Record, ReplayError};

use super::orderer::LoggedOrderer;
use super::site::{CertificationSite, MessageOf};

impl<O: LoggedOrderer> Durable for CertificationSite<O> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.keeps_records = true;
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Items { table, items } => self.store.import(table, items),
            Record::Store { last } => self.store.finish_import(last),
            Record::Certification(record) => self.replay_transfer(*record)?,
            other => self.replay_ordered(other)?,
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<MessageOf<O>>) {
        // The sender of a state that is not complete does not go on with it.
        self.collected = None;
        self.order(now, out, |orderer, ordered| orderer.recover(now, ordered));
    }

    fn items(&self) -> &Store {
        &self.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        if self.keeps_records {
            self.orderer
                .checkpoint(&mut |record| sink(O::into_record(record)));
            self.checkpoint_transfers(&mut |record| sink(Record::Certification(Box::new(record))));
        }
    }
}

impl<O: LoggedOrderer> CertificationSite<O> {
    /// Applies a record of the orderer again.
    pub(super) fn replay_ordered(&mut self, record: Record) -> Result<(), ReplayError> {
        let record = O::from_record(record)
            .map_err(|other| ReplayError(format!("a site cannot replay {other:?}")))?;
        let mut ordered = OutboxOf::<O>::default();
        self.orderer.replay(record, &mut ordered)?;
        for delivery in &ordered.deliveries {
            self.deliver(Ticks(0), delivery);
        }
        Ok(())
    }
}
