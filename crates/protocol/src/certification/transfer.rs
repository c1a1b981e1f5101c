//! State transfer between stores: `docs/protocols/alvin.md`, *State transfer between stores*.
//!
//! The orderer names the sites that need one. The sender exports a snapshot of its store in parts, each at the
//! receiver's request. The receiver collects them in a second store, and replaces its state by them in one step.

use anabranch_storage::{CheckpointItem, SnapshotExport, StateOrigin, Store};
use anabranch_types::{TableId, Ticks};

use crate::contract::{AbortReason, Outbox, TransactionId};
use crate::order::{OutboxOf, SiteId};
use crate::record::{Record, ReplayError};

use super::message::{SiteMessage, StatePart, StateRest};
use super::orderer::LoggedOrderer;
use super::outcomes::{CommittedOutcome, Outcomes};
use super::record::CertificationRecord;
use super::site::{CertificationSite, MessageOf};
use super::transfers::{Collecting, Sending};

/// A receiver that collects a state lets another sender wait for so many times of repetition after the last part.
const SILENT_RETRIES: u64 = 4;

/// After so many times of repetition without the other side, a transfer is given up.
const END_RETRIES: u64 = 16;

impl<O: LoggedOrderer> CertificationSite<O> {
    /// A site needs the state. If it is under way, and the site does not get on with it, the last part is sent again.
    pub(super) fn send_state(&mut self, now: Ticks, to: SiteId, out: &mut Outbox<MessageOf<O>>) {
        if self.transfers.sending.contains_key(&to) {
            return self.repeat_part(now, to, out);
        }
        self.transfers.last += 1;
        let export = self.store.begin_export();
        let begin = StatePart::Begin {
            last: export.snapshot(),
            delivered: Box::new(self.orderer.delivered().clone()),
        };
        let rest = StateRest {
            orderer: self.orderer.transfer(),
            outcomes: self.outcomes.needed(&self.orderer),
        };
        let sending = Sending {
            transfer: self.transfers.last,
            export,
            rest: Some(Box::new(rest)),
            part: begin,
            number: 0,
            sent: now,
        };
        self.transfers.sending.insert(to, sending);
        self.send_part(to, out);
    }

    /// Sends the current part to a receiver.
    fn send_part(&mut self, to: SiteId, out: &mut Outbox<MessageOf<O>>) {
        let Some(sending) = self.transfers.sending.get(&to) else {
            return;
        };
        let part = SiteMessage::Part {
            transfer: sending.transfer,
            number: sending.number,
            part: sending.part.clone(),
        };
        self.send(to, part, out);
    }

    /// Sends the current part again, unless it was sent a short time ago.
    fn repeat_part(&mut self, now: Ticks, to: SiteId, out: &mut Outbox<MessageOf<O>>) {
        let retry = self.orderer.retry().0;
        let Some(sending) = self.transfers.sending.get_mut(&to) else {
            return;
        };
        if now.0 >= sending.sent.0 + retry {
            sending.sent = now;
            self.send_part(to, out);
        }
    }

    /// A receiver has all parts before this one.
    fn handle_request(
        &mut self,
        now: Ticks,
        from: SiteId,
        (transfer, number): (u64, u64),
        out: &mut Outbox<MessageOf<O>>,
    ) {
        let Some(sending) = self.transfers.sending.get_mut(&from) else {
            return;
        };
        if sending.transfer != transfer || number > sending.number + 1 {
            return;
        }
        if number <= sending.number {
            return self.repeat_part(now, from, out);
        }
        let next = next_rows(&self.store, &mut sending.export, self.part_bytes);
        let next = next.or_else(|| sending.rest.take().map(StatePart::Rest));
        let Some(part) = next else {
            return;
        };
        (sending.part, sending.number, sending.sent) = (part, number, now);
        self.send_part(from, out);
    }

    /// Ends the sending of a state.
    pub(super) fn end_sending(&mut self, to: SiteId) {
        if let Some(sending) = self.transfers.sending.remove(&to) {
            self.store.end_export(sending.export);
        }
    }

    /// Gives up transfers whose other side has been silent for long.
    pub(super) fn end_silent_transfers(&mut self, now: Ticks) {
        if self.transfers.is_empty() {
            return;
        }
        let wait = END_RETRIES * self.orderer.retry().0;
        let sending = self.transfers.sending.iter();
        let silent = sending.filter(|(_, sending)| now.0 >= sending.sent.0 + wait);
        let silent: Vec<SiteId> = silent.map(|(to, _)| *to).collect();
        silent.into_iter().for_each(|to| self.end_sending(to));
        let collecting = self.transfers.collecting.as_ref();
        if collecting.is_some_and(|it| now.0 >= it.heard.0 + wait) {
            self.transfers.collecting = None;
        }
    }

    /// Another site has restarted: it knows nothing of transfers.
    pub(super) fn end_transfers_with(&mut self, site: SiteId) {
        self.end_sending(site);
        if (self.transfers.collecting.as_ref()).is_some_and(|it| it.from == site) {
            self.transfers.collecting = None;
        }
    }

    /// Takes a message of a transfer.
    pub(super) fn handle_transfer(
        &mut self,
        now: Ticks,
        from: SiteId,
        message: MessageOf<O>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        match message {
            SiteMessage::Order(_) => unreachable!("a message of a transfer"),
            SiteMessage::Request { transfer, number } => {
                self.handle_request(now, from, (transfer, number), out);
            }
            SiteMessage::End { transfer } => {
                let sending = self.transfers.sending.get(&from);
                if sending.is_some_and(|it| it.transfer == transfer) {
                    self.end_sending(from);
                }
            }
            SiteMessage::Part {
                transfer,
                number,
                part,
            } => self.handle_part(now, from, (transfer, number), part, out),
        }
    }

    fn handle_part(
        &mut self,
        now: Ticks,
        from: SiteId,
        (transfer, number): (u64, u64),
        part: StatePart<O::Transfer>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        let retry = self.orderer.retry().0;
        let end = SiteMessage::End { transfer };
        let is_this = |it: &&mut Collecting| (it.from, it.transfer) == (from, transfer);
        let Some(collecting) = self.transfers.collecting.as_mut().filter(is_this) else {
            return match part {
                StatePart::Begin { last, delivered } => {
                    let collecting = self.transfers.collecting.as_ref();
                    let waits = collecting.is_some_and(|it| {
                        it.from != from && now.0 < it.heard.0 + SILENT_RETRIES * retry
                    });
                    let own = self.orderer.delivered();
                    if waits || !delivered.covers(own) || own.covers(&delivered) {
                        return self.send(from, end, out);
                    }
                    let origin = StateOrigin {
                        node: self.nodes[from.index()],
                        sequence: last,
                    };
                    self.collect(now, from, transfer, origin, out);
                }
                StatePart::Rows { .. } | StatePart::Rest(_) => self.send(from, end, out),
            };
        };
        if number != collecting.next {
            // The request for the next part may be lost.
            if number < collecting.next && now.0 >= collecting.heard.0 + retry {
                collecting.heard = now;
                let number = collecting.next;
                self.send(from, SiteMessage::Request { transfer, number }, out);
            }
            return;
        }
        match part {
            StatePart::Begin { .. } => {}
            StatePart::Rows { table, items } => {
                collecting.next += 1;
                collecting.heard = now;
                collecting.store.import(table, items.clone());
                if self.keeps_records {
                    let rows = CertificationRecord::Rows { table, items };
                    out.records.push(Record::Certification(Box::new(rows)));
                }
                let number = number + 1;
                self.send(from, SiteMessage::Request { transfer, number }, out);
            }
            StatePart::Rest(rest) => {
                if let Some(collecting) = self.transfers.collecting.take() {
                    self.take_state(now, collecting, *rest, out);
                }
                self.send(from, end, out);
            }
        }
    }

    /// Begins to collect a state.
    fn collect(
        &mut self,
        now: Ticks,
        from: SiteId,
        transfer: u64,
        origin: StateOrigin,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        self.transfers.collecting = Some(Collecting {
            from,
            transfer,
            origin,
            store: self.store.emptied(),
            next: 1,
            heard: now,
        });
        if self.keeps_records {
            let begin = CertificationRecord::Begin;
            out.records.push(Record::Certification(Box::new(begin)));
        }
        self.send(
            from,
            SiteMessage::Request {
                transfer,
                number: 1,
            },
            out,
        );
    }

    /// Replaces the site's state by a complete one, if its orderer takes it; and answers the transactions of this site
    /// that were decided on the way to it.
    fn take_state(
        &mut self,
        now: Ticks,
        collecting: Collecting,
        rest: StateRest<O::Transfer>,
        out: &mut Outbox<MessageOf<O>>,
    ) {
        let mut ordered = OutboxOf::<O>::default();
        if !self.orderer.install(now, rest.orderer, &mut ordered) {
            return self.take_output(now, ordered, out);
        }
        let records = std::mem::take(&mut ordered.records).into_iter();
        if self.keeps_records {
            let take = CertificationRecord::Take {
                origin: collecting.origin,
                outcomes: rest.outcomes.clone(),
                orderer: records.map(O::into_record).collect(),
            };
            out.records.push(Record::Certification(Box::new(take)));
        }
        self.replace_state(
            now,
            collecting.store,
            collecting.origin,
            rest.outcomes.clone(),
        );
        self.take_output(now, ordered, out);
        self.answer_decided(rest.outcomes, out);
    }

    /// Replaces the rows and the outcomes. What is sent to others is of the old ones.
    fn replace_state(
        &mut self,
        now: Ticks,
        store: Store,
        origin: StateOrigin,
        outcomes: Vec<CommittedOutcome>,
    ) {
        let receivers: Vec<SiteId> = self.transfers.sending.keys().copied().collect();
        receivers.into_iter().for_each(|to| self.end_sending(to));
        self.store.replace(now, store, origin);
        self.outcomes = Outcomes::of(outcomes);
    }

    /// Answers the transactions of this site that will not be delivered here: they are in what was taken, or their
    /// batch was decided as a no-op.
    fn answer_decided(&mut self, outcomes: Vec<CommittedOutcome>, out: &mut Outbox<MessageOf<O>>) {
        let mut decided = std::mem::take(&mut self.committing);
        self.orderer.undelivered(&mut |certificate| {
            if let Some(waits) = decided.remove(&certificate.transaction) {
                self.committing.insert(certificate.transaction, waits);
            }
        });
        for outcome in outcomes {
            if decided.remove(&outcome.transaction).is_some() {
                let result = Ok((outcome.timestamp, outcome.slots));
                self.counters.ordered += 1;
                self.end(outcome.transaction, result, out);
            }
        }
        // tidy: order-free because the transactions are sorted
        let mut aborted: Vec<TransactionId> = decided.into_keys().collect();
        aborted.sort_unstable();
        for transaction in aborted {
            self.end(transaction, Err(AbortReason::Conflict), out);
        }
    }

    /// Applies a record of a transfer, or of outcomes, again.
    ///
    /// # Errors
    /// When rows of a state come before its begin, or the orderer cannot replay its records.
    pub(super) fn replay_transfer(
        &mut self,
        record: CertificationRecord,
    ) -> Result<(), ReplayError> {
        let missing = || ReplayError("a part of a state that was not begun".to_owned());
        match record {
            CertificationRecord::Outcomes(outcomes) => {
                self.outcomes = Outcomes::of(outcomes);
            }
            CertificationRecord::Begin => self.collected = Some(self.store.emptied()),
            CertificationRecord::Rows { table, items } => {
                let collected = self.collected.as_mut().ok_or_else(missing)?;
                collected.import(table, items);
            }
            CertificationRecord::Take {
                origin,
                outcomes,
                orderer,
            } => {
                let collected = self.collected.take().ok_or_else(missing)?;
                self.replace_state(Ticks(0), collected, origin, outcomes);
                for record in orderer {
                    self.replay_ordered(record)?;
                }
            }
        }
        Ok(())
    }

    /// Passes to `sink` the records of what is collected, and the outcomes.
    pub(super) fn checkpoint_transfers(&self, sink: &mut dyn FnMut(CertificationRecord)) {
        let outcomes = self.outcomes.needed(&self.orderer);
        if !outcomes.is_empty() {
            sink(CertificationRecord::Outcomes(outcomes));
        }
        if let Some(collecting) = &self.transfers.collecting {
            sink(CertificationRecord::Begin);
            export_rows(&collecting.store, sink);
        }
    }
}

/// The next rows of an export; `None` after the last.
fn next_rows<T>(store: &Store, export: &mut SnapshotExport, bytes: usize) -> Option<StatePart<T>> {
    loop {
        let (table, items) = store.export_slice(export, bytes)?;
        let loaded = items.into_iter().filter_map(CheckpointItem::into_loaded);
        let items: Vec<CheckpointItem> = loaded.collect();
        if !items.is_empty() {
            return Some(StatePart::Rows { table, items });
        }
    }
}

/// The number of rows in one record of a checkpoint.
const ROWS: usize = 256;

/// Passes all rows that were collected to `sink`.
fn export_rows(store: &Store, sink: &mut dyn FnMut(CertificationRecord)) {
    for table in (0..store.tables()).map(TableId) {
        let mut after = None;
        loop {
            let items = store.export(table, after.as_ref(), ROWS);
            let Some(last) = items.last() else { break };
            after = Some(last.key.clone());
            sink(CertificationRecord::Rows { table, items });
        }
    }
}
