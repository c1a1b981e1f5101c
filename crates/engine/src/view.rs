//! A read-only view of the stores of a cluster at rest.
//!
//! After a run, when no transaction is open, assertions and other queries can be evaluated over all
//! partitions at once. A [`StoresView`] is a read-only transaction over their stores. It sees the latest
//! committed state.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_sql::summary::StatementId;
use anabranch_sql::transaction::{NoSequences, Sequences, Transaction, TransactionError};
use anabranch_storage::Store;
use anabranch_types::{Effect, EffectError, Fetched, Key, Patch, Read, SlotId, TableId};

use crate::application::PlannedApplication;
use crate::overlay;
use crate::routing::Target;

/// A read-only transaction over the stores of all partitions, in order of partition.
pub struct StoresView<'s> {
    planned: Arc<PlannedApplication>,
    stores: &'s [&'s Store],
}

impl<'s> StoresView<'s> {
    /// A view of `stores`, one a partition, in order of partition.
    ///
    /// # Panics
    /// When the number of stores is not the plan's number of partitions.
    pub fn new(planned: Arc<PlannedApplication>, stores: &'s [&'s Store]) -> StoresView<'s> {
        assert_eq!(
            stores.len(),
            usize::from(planned.execution.router.partitions())
        );
        StoresView { planned, stores }
    }

    fn fetch(&self, read: &Read) -> Fetched {
        match self.planned.execution.router.read(read) {
            Target::One(partition) => latest(self.stores[partition.index()], read),
            Target::Anywhere => latest(self.stores[0], read),
            Target::Everywhere => {
                let schema = self.planned.application.schema();
                let parts = self.stores.iter().map(|store| latest(store, read));
                parts
                    .reduce(|one, other| overlay::merge(schema, read, one, other))
                    .expect("there is at least one partition")
            }
        }
    }
}

impl Transaction for StoresView<'_> {
    async fn read(
        &mut self,
        _: StatementId,
        _: bool,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        Ok(reads.iter().map(|read| self.fetch(read)).collect())
    }

    fn write(&mut self, _: StatementId, effect: Effect) -> Result<(), TransactionError> {
        let table = &self.planned.application.schema().table(effect.table()).name;
        Err(TransactionError::Failed(EffectError::new(
            "25006",
            format!("table \"{table}\" cannot be written in a read-only view"),
        )))
    }

    fn defers(&self, _: StatementId) -> bool {
        false
    }

    fn is_known(&mut self, _: TableId, _: &Key, _: &[Patch]) -> bool {
        false
    }

    fn slots(&mut self, _: u16) -> SlotId {
        SlotId(0)
    }

    fn unique(&mut self) -> u128 {
        0
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        Rc::new(NoSequences)
    }

    fn timestamp(&self) -> i64 {
        0
    }
}

fn latest(store: &Store, read: &Read) -> Fetched {
    store
        .fetch(read, None)
        .expect("the newest versions are always readable")
        .into_answer()
}

/// Runs a future over a [`StoresView`], which never waits.
///
/// # Panics
/// When the future waits.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future over a view does not wait"),
    }
}
