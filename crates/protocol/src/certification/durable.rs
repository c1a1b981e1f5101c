//! Log records and recovery of a site: those of its orderer, since certification decides again as it did before.

use anabranch_storage::Store;
use anabranch_types::Ticks;

use crate::contract::{Durable, Outbox};
use crate::order::OutboxOf;
use crate::record::{NoRecords, Record, ReplayError};

use super::orderer::LoggedOrderer;
use super::site::CertificationSite;

impl<O: LoggedOrderer> Durable for CertificationSite<O> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.keeps_records = true;
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        match record {
            Record::Items { table, items } => self.store.import(table, items),
            Record::Store { last } => self.store.finish_import(last),
            other => {
                let record = O::from_record(other)
                    .map_err(|other| ReplayError(format!("a site cannot replay {other:?}")))?;
                let mut ordered = OutboxOf::<O>::default();
                self.orderer.replay(record, &mut ordered)?;
                for delivery in &ordered.deliveries {
                    self.deliver(Ticks(0), delivery);
                }
            }
        }
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<O::Message>) {
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
        }
    }
}
