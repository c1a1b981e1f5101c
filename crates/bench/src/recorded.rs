//! The history of a run on an embedded cluster (docs/histories.md).
//!
//! The nodes tell what each attempt read, the stores what was installed; the driver adds who called
//! and when. It is one client of the cluster with many calls under way, and stands for as many
//! clients of the history: each call is made for one whose last call has been answered.
//!
//! An attempt is *invoked* when its client called, a later one of the same call when it began. One
//! that has committed is *completed* when its answer left its node, which is after everything that it
//! has done: what was completed before something else was invoked was over before that began. One
//! that was aborted is completed when it was given up, before the next one of its call.

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

/// Who called, and when.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Clients without a call under way.
    free: Vec<u64>,
    clients: u64,
    made: FxHashMap<CallId, (u64, Instant)>,
}

impl Calls {
    /// Some client has made a call.
    pub(crate) fn made(&mut self, call: CallId, at: Instant) {
        let client = self.free.pop().unwrap_or_else(|| {
            self.clients += 1;
            self.clients - 1
        });
        self.made.insert(call, (client, at));
    }

    /// A call has been answered.
    pub(crate) fn answered(&mut self, call: CallId) {
        if let Some((client, _)) = self.made.get(&call) {
            self.free.push(*client);
        }
    }
}

/// A run that was recorded.
#[derive(Debug)]
pub struct Recorded {
    recording: Recording,
    header: Header,
}

impl Recorded {
    /// Gathers what driver, nodes and stores have recorded, by the cluster's clock.
    pub(crate) fn new(
        header: Header,
        calls: &Calls,
        clock: Clock,
        attempts: Vec<Vec<EndedAttempt>>,
        installed: Vec<Vec<Installed>>,
    ) -> Recorded {
        let mut recording = Recording::default();
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
        Recorded { recording, header }
    }

    /// Writes the history. What cannot be, a transaction that has committed and was not installed
    /// or the other way round, is returned.
    ///
    /// # Errors
    /// What the sink says.
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
