//! The history of a run on an embedded cluster (docs/histories.md).
//!
//! Nodes record what each attempt reads, stores what is installed; the driver adds the client and the
//! time of each call. The driver is one client of the cluster with many calls in flight. It stands for as
//! many clients of the history: each call belongs to a client whose last call has returned.
//!
//! The first attempt of a call is *invoked* when the client calls, a later one when it begins. An attempt
//! that commits is *completed* when its reply leaves its node, after all its effects; so an attempt that is
//! completed before another is invoked has ended before the other begins. An aborted attempt is completed
//! when it aborts, before the next attempt of its call.

use std::io::{self, Write};
use std::time::Instant;

use anabranch_engine::{AttemptOutcome, CallId, PlannedApplication};
use anabranch_history::HistoryWriter;
use anabranch_history::record::Header;
use anabranch_server::{Clock, EndedAttempt};
use anabranch_sim::Recording;
use anabranch_storage::Installed;
use anabranch_types::PartitionId;
use rustc_hash::FxHashMap;

/// The client and the time of each call.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Clients without a call in flight.
    free: Vec<u64>,
    clients: u64,
    made: FxHashMap<CallId, (u64, Instant)>,
}

impl Calls {
    /// Notes a call, of some client that has none in flight.
    pub(crate) fn made(&mut self, call: CallId, at: Instant) {
        let client = self.free.pop().unwrap_or_else(|| {
            self.clients += 1;
            self.clients - 1
        });
        self.made.insert(call, (client, at));
    }

    /// Notes that a call has returned.
    pub(crate) fn answered(&mut self, call: CallId) {
        if let Some((client, _)) = self.made.get(&call) {
            self.free.push(*client);
        }
    }
}

/// The history of a run.
#[derive(Debug)]
pub struct RecordedRun {
    recording: Recording,
    header: Header,
}

impl RecordedRun {
    /// Merges the records of driver, nodes and stores by the cluster's clock, into a recording that is empty.
    pub(crate) fn new(
        mut recording: Recording,
        header: Header,
        calls: &Calls,
        clock: Clock,
        attempts: Vec<Vec<EndedAttempt>>,
        installed: Vec<Vec<Installed>>,
    ) -> RecordedRun {
        for EndedAttempt { record, ended } in attempts.into_iter().flatten() {
            let (client, at) = calls.made[&record.call];
            let invoked = match record.attempt {
                1 => clock.ticks(at),
                _ => record.began,
            };
            let completed = match record.outcome {
                AttemptOutcome::Committed(_) => ended,
                _ => record.ended.unwrap_or(ended),
            };
            recording.called(record.call, client, invoked);
            recording.ended(record, completed);
        }
        for (partition, installed) in (0..).map(PartitionId).zip(installed) {
            recording.installed(partition, installed);
        }
        RecordedRun { recording, header }
    }

    /// Writes the history. Returns contradictions: transactions that committed and were not installed, or
    /// the reverse.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn write(self, planned: &PlannedApplication, sink: impl Write) -> io::Result<Vec<String>> {
        let mut writer = HistoryWriter::new(sink, &self.header)?;
        let mut written = Ok(());
        let violations = self.recording.each(planned, |transaction| {
            if written.is_ok() {
                written = writer.transaction(&transaction);
            }
        });
        written?;
        writer.finish()?;
        Ok(violations)
    }
}
