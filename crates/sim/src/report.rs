//! What a run has been: counts, what was checked, the verdict.

use std::collections::BTreeMap;

use anabranch_engine::call::Retries;
use anabranch_protocol::Counters;
use anabranch_types::Ticks;

use crate::fault::FaultKind;

/// What was read did not fit together, and the protocol saw it.
pub(crate) const TRIED_AGAIN: &str = "a fractured read was tried again";

/// What is counted while a run goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happenings {
    /// Transactions whose client learned that they had committed.
    pub committed: u64,
    /// Calls that ended otherwise, and attempts that were aborted and made again, by reason.
    pub aborts: BTreeMap<String, u64>,
    /// Messages between nodes.
    pub messages: u64,
    /// Packets that carried them, acknowledgements among them, in a run with faults.
    pub packets: u64,
    /// Messages that were sent again, since no acknowledgement had come.
    pub resent: u64,
    /// Faults that began, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// What a good run has seen sometimes.
    pub sometimes: BTreeMap<&'static str, u64>,
    /// Answers that were looked at.
    pub answers: u64,
    /// Those of them that cannot be right.
    pub wrong_answers: u64,
}

impl Happenings {
    pub(crate) fn sometimes(&mut self, what: &'static str) {
        *self.sometimes.entry(what).or_insert(0) += 1;
    }

    pub(crate) fn fault(&mut self, kind: &FaultKind) {
        *self.faults.entry(kind.name()).or_insert(0) += 1;
    }

    pub(crate) fn abort(&mut self, reason: &str) {
        match self.aborts.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                self.aborts.insert(reason.to_owned(), 1);
            }
        }
    }

    pub(crate) fn retried(&mut self, retries: &Retries) {
        if retries.total() == 0 {
            return;
        }
        let counts = [
            ("conflict, tried again", retries.conflict),
            ("fractured, tried again", retries.fractured),
            ("below floor, tried again", retries.below_floor),
            ("row missing, tried again", retries.row_missing),
            ("restarted, tried again", retries.restarted),
        ];
        for (reason, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            *self.aborts.entry(reason.to_owned()).or_insert(0) += u64::from(count);
        }
        self.sometimes("a transaction was tried again");
        if retries.fractured > 0 {
            self.sometimes(TRIED_AGAIN);
        }
    }
}

/// What was checked, and how often, in the order in which it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked(Vec<(String, u64)>);

impl Checked {
    /// So many of these were checked.
    pub fn add(&mut self, what: impl AsRef<str>, count: u64) {
        let what = what.as_ref();
        match self.0.iter_mut().find(|(name, _)| name == what) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((what.to_owned(), count)),
        }
    }

    /// What was checked, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was checked held.
    Fine,
    /// An isolation level, an invariant or an assertion was violated; the first of what was found
    /// comes first.
    Violated(Vec<String>),
    /// After the faults had ended, calls were under way and none ended.
    Stuck(String),
    /// A node panicked, with these words.
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

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was counted.
    pub happened: Happenings,
    /// What the nodes counted.
    pub counters: Counters,
    /// What was checked.
    pub checked: Checked,
    /// Whether it came to rest, with nothing under way: else neither what it left nor its history
    /// could be judged.
    pub at_rest: bool,
    /// What this run's faults should have made it see, and have not.
    pub missing: Vec<&'static str>,
    /// What runs of this protocol and workload see now and then, and this one has not: of many seeds it
    /// is enough that some have.
    pub unseen: Vec<&'static str>,
    /// Virtual time when the last call was answered.
    pub answered: Ticks,
    /// Virtual time at the end, when nothing was left to happen: timers are waited for as well.
    pub elapsed: Ticks,
    /// Events.
    pub events: u64,
    /// The hash of all that happened.
    pub trace: u64,
    /// How it ended.
    pub verdict: Verdict,
}

impl Report {
    /// What this run, looked at by itself, should have seen and has not.
    pub fn never(&self) -> impl Iterator<Item = &'static str> {
        self.unseen.iter().chain(&self.missing).copied()
    }

    /// Whether something that makes a protocol sweat never happened: such a run shows little.
    pub fn is_weak(&self) -> bool {
        self.never().next().is_some()
    }
}
