//! Rows whose keys do not tell their partitions: of tables that are placed by a column outside the primary key, and of
//! tables without one. The transaction remembers where it has found or inserted them, and changes them there.

use anabranch_protocol::PartitionRead;
use anabranch_sql::summary::StatementId;
use anabranch_sql::transaction::TransactionError;
use anabranch_types::{Access, Effect, Fetched, Key, PartitionId, Read, TableId};

use super::{NodeTransaction, refuse};
use crate::routing::Target;

impl NodeTransaction {
    /// Remembers the partitions of rows that were found, if their keys do not tell them.
    pub(super) fn locate(&mut self, read: &Read, partition: PartitionId, answer: &Fetched) {
        let table = read.table();
        if !self.planned.execution.router.is_apart(table) {
            return;
        }
        match (read, answer) {
            (Read::Point { key, .. }, Fetched::Point(Some(_))) => {
                self.located.insert((table, key.clone()), partition);
            }
            (_, Fetched::Range(rows)) => {
                for (key, _) in rows {
                    self.located.insert((table, key.clone()), partition);
                }
            }
            _ => {}
        }
    }

    /// Remembers where an own row is. Rows that storage has under its key say nothing of it: the transaction has deleted them.
    pub(super) fn locate_own(&mut self, effect: &Effect, partition: PartitionId) {
        match effect {
            Effect::Insert { table, key, .. } => {
                self.inserted.insert((*table, key.clone()), partition);
            }
            Effect::Delete { table, key } => {
                self.inserted.remove(&(*table, key.clone()));
            }
            Effect::Update { .. } => {}
        }
    }

    /// The same for all writes that are left.
    pub(super) fn locate_own_again(&mut self) {
        // Not only if it has entries: a row whose deletion is taken back has none.
        self.inserted.clear();
        let writes = std::mem::take(&mut self.mailbox.borrow_mut().writes);
        for write in &writes {
            if self.planned.execution.router.is_apart(write.effect.table()) {
                self.locate_own(&write.effect, write.partition);
            }
        }
        self.mailbox.borrow_mut().writes = writes;
    }

    /// Where the row with this key is, as far as the transaction knows.
    pub(super) fn place_of(&self, table: TableId, key: &Key) -> Target {
        let place = (table, key.clone());
        let known = self.inserted.get(&place);
        let known = known.or_else(|| self.located.get(&place));
        known.map_or(Target::Everywhere, |partition| Target::One(*partition))
    }

    /// Whether the reads are of rows by keys that do not tell their partitions, and that no two rows have (PLACE-I2).
    pub(super) fn are_keys_apart(&self, reads: &[Read]) -> bool {
        let router = &self.planned.execution.router;
        let mut reads = reads.iter();
        reads.all(|read| {
            let table = read.table();
            matches!(read, Read::Point { .. })
                && router.is_apart(table)
                && !self.has_hidden_keys(table)
        })
    }

    /// Fetches rows by such keys with guards: looks for each at every partition, and guards it where it is. So the other
    /// partitions do not take part in the commit. A row that is at one partition is at no other, and the guard there sees
    /// it go. `is_absence_guarded`: whether a row that is at none is guarded at all of them.
    pub(super) async fn fetch_by_key(
        &mut self,
        access: Access,
        reads: Vec<Read>,
        is_absence_guarded: bool,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let plain = Access::default();
        let mut answers = self.fetch(plain, reads.clone()).await?;
        let mut asked: Vec<(PartitionId, usize)> = Vec::with_capacity(reads.len());
        for (at, (read, answer)) in reads.iter().zip(&answers).enumerate() {
            let Read::Point { table, key } = read else {
                continue;
            };
            match (answer, self.place_of(*table, key)) {
                (Fetched::Point(Some(_)), Target::One(partition)) => asked.push((partition, at)),
                _ if is_absence_guarded => {
                    let all = 0..self.planned.execution.router.partitions();
                    asked.extend(all.map(|partition| (PartitionId(partition), at)));
                }
                _ => {}
            }
        }
        if asked.is_empty() {
            return Ok(answers);
        }
        asked.sort_unstable();
        let requests = asked.iter().map(|(partition, at)| PartitionRead {
            partition: *partition,
            read: reads[*at].clone(),
            access,
        });
        let found = self.request(requests.collect()).await?;
        // What was found first may have changed since.
        for (_, at) in &asked {
            answers[*at] = Fetched::Point(None);
        }
        for ((partition, at), answer) in asked.into_iter().zip(found) {
            self.locate(&reads[at], partition, &answer);
            if matches!(answer, Fetched::Point(Some(_))) {
                answers[at] = answer;
            }
        }
        Ok(answers)
    }

    /// Refuses a new row of which the value that places it is known only at commit: this attempt does not know where it
    /// belongs.
    pub(super) fn check_placing_value(&self, effect: &Effect) -> Result<(), TransactionError> {
        let Effect::Insert { table, patches, .. } = effect else {
            return Ok(());
        };
        let router = &self.planned.execution.router;
        let mut patches = patches.iter();
        if patches.any(|patch| router.places(*table, patch.column)) {
            self.mailbox.borrow_mut().deferral_failed = true;
            return Err(TransactionError::Retry(
                "a deferred value determines the partition of a row",
            ));
        }
        Ok(())
    }

    /// Fetches `reads` from one partition, and remembers that the rows are there.
    pub(super) async fn fetch_located(
        &mut self,
        access: Access,
        reads: Vec<Read>,
        partition: PartitionId,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let asked = reads.iter().map(|read| PartitionRead {
            partition,
            read: read.clone(),
            access,
        });
        let answers = self.request(asked.collect()).await?;
        for (read, answer) in reads.iter().zip(&answers) {
            self.locate(read, partition, answer);
        }
        Ok(answers)
    }

    /// Refuses a new row of which nothing says that its key is new, in a table where no partition sees all keys. The entry
    /// of a statement that writes says so: the analysis has seen that the statement draws the key, or the transaction
    /// runs alone and looks for it everywhere.
    pub(super) fn check_drawn(
        &self,
        statement: StatementId,
        table: TableId,
    ) -> Result<(), TransactionError> {
        let is_drawn = self.has_hidden_keys(table)
            || self.entry.as_ref().is_some_and(|entry| entry.is_guarded())
            || self.planned.execution.draws_key(statement);
        if is_drawn {
            return Ok(());
        }
        let name = &self.planned.application.schema().table(table).name;
        Err(refuse(format!(
            "the keys of table \"{name}\" have to be drawn by a declared transaction type, because they do not determine \
             the partitions of its rows: call the procedure that inserts them"
        )))
    }
}
