//! The report of a run: statistics, checks and the verdict.

use std::collections::BTreeMap;

use anabranch_engine::call::Retries;
use anabranch_protocol::Counters;
use anabranch_types::Ticks;

/// A protocol detected a fractured read, and the transaction was retried.
pub(crate) const RETRIED: &str = "a fractured read was retried";

/// A node came back from its log.
pub(crate) const NODE_RESTARTED: &str = "a node restarted";

/// A node crashed, or was deposed, before it had answered all calls.
pub(crate) const NODE_LOST_CALLS: &str = "a node crashed with calls running";

/// What is counted during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Transactions with a commit that was acknowledged to a client.
    pub committed: u64,
    /// Calls that failed, and attempts that were aborted and retried, by reason.
    pub aborts: BTreeMap<String, u64>,
    /// Messages between nodes.
    pub messages: u64,
    /// Packets that carried them and their acknowledgements, in a run with faults.
    pub packets: u64,
    /// Messages that were retransmitted because no acknowledgement had arrived.
    pub resent: u64,
    /// Faults that began, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Rare situations that runs should reach sometimes, and how often each occurred.
    pub sometimes: BTreeMap<&'static str, u64>,
    /// Answers that were checked.
    pub answers: u64,
    /// Answers that were wrong.
    pub wrong_answers: u64,
}

impl RunStatistics {
    pub(crate) fn sometimes(&mut self, what: &'static str) {
        *self.sometimes.entry(what).or_insert(0) += 1;
    }

    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_insert(0) += 1;
    }

    pub(crate) fn abort(&mut self, reason: &str) {
        match self.aborts.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                self.aborts.insert(reason.to_owned(), 1);
            }
        }
    }

    /// How often a transaction was run again after an abort.
    pub(crate) fn retries(&self) -> u64 {
        let again = self.aborts.iter();
        let again = again.filter(|(reason, _)| reason.ends_with("retried"));
        again.map(|(_, count)| count).sum()
    }

    pub(crate) fn retried(&mut self, retries: &Retries) {
        if retries.total() == 0 {
            return;
        }
        let counts = [
            ("conflict, retried", retries.conflict),
            ("fractured, retried", retries.fractured),
            ("below floor, retried", retries.below_floor),
            ("row missing, retried", retries.row_missing),
            ("restarted, retried", retries.restarted),
        ];
        for (reason, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            *self.aborts.entry(reason.to_owned()).or_insert(0) += u64::from(count);
        }
        self.sometimes("a transaction was retried");
        if retries.fractured > 0 {
            self.sometimes(RETRIED);
        }
    }
}

/// The checks of a run and how often each was made, in order of first occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked(Vec<(String, u64)>);

impl Checked {
    /// Adds `count` checks of one kind.
    pub fn add(&mut self, what: impl AsRef<str>, count: u64) {
        let what = what.as_ref();
        match self.0.iter_mut().find(|(name, _)| name == what) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((what.to_owned(), count)),
        }
    }

    /// The checks, and how often each was made.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All checks passed.
    Fine,
    /// An isolation level, an invariant or an assertion was violated. The violations, earliest first.
    Violated(Vec<String>),
    /// After all faults had ended, calls were running and none ended.
    Stuck(String),
    /// A node panicked, with this message.
    Crashed(String),
}

impl Verdict {
    /// The exit code of the command that ran it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Verdict::Fine => 0,
            Verdict::Violated(_) => 1,
            Verdict::Stuck(_) => 3,
            Verdict::Crashed(_) => 4,
        }
    }
}

/// The report of a run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was counted.
    pub statistics: RunStatistics,
    /// The nodes' counters.
    pub counters: Counters,
    /// What was checked.
    pub checked: Checked,
    /// Whether the run came to rest, with nothing under way. If not, its final state and its history were not
    /// checked.
    pub at_rest: bool,
    /// Situations that this run's faults should have caused, and did not.
    pub missing: Vec<&'static str>,
    /// Situations that runs of this protocol and workload reach sometimes, and this run did not. Of many seeds it
    /// is enough that one does.
    pub unseen: Vec<&'static str>,
    /// Virtual time of the last answer.
    pub answered: Ticks,
    /// Virtual time at the end, when no event was left, timers included.
    pub elapsed: Ticks,
    /// The number of events.
    pub events: u64,
    /// The hash of all events.
    pub trace: u64,
    /// How it ended.
    pub verdict: Verdict,
}

impl Report {
    /// Situations that this run should have reached, and did not.
    pub fn never(&self) -> impl Iterator<Item = &'static str> {
        self.unseen.iter().chain(&self.missing).copied()
    }

    /// Whether the run missed a situation that it should have reached. Such a run tests little.
    pub fn is_weak(&self) -> bool {
        self.never().next().is_some()
    }
}
