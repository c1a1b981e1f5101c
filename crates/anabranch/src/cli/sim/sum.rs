//! What runs have come to: added up over their seeds, and in the form that other programs read
//! (`docs/schemas/sim.schema.json`). Nothing of the wall clock is in that form, so that a command
//! that is given again writes the same file.

use std::collections::BTreeMap;
use std::ops::Range;

use anabranch_sim::report::{Checked, Verdict as Ending};
use anabranch_sim::{FaultPlan, Report};
use serde_json::{Value, json};

/// What was run.
pub(super) struct Asked<'a> {
    pub(super) workload: &'a str,
    pub(super) protocol: &'a str,
    pub(super) nodes: u16,
    /// Of each node, itself counted.
    pub(super) replicas: u16,
    pub(super) clusters: u16,
    /// How many clusters may be lost, under Prepare-F.
    pub(super) prepare_f: Option<u16>,
    /// After how many microseconds another copy is asked, in quorum operation.
    pub(super) quorum: Option<u64>,
    pub(super) clients: u32,
    pub(super) transactions: u64,
    pub(super) network: &'a str,
    /// As `--faults` says it; `None` for the plan of a case that is run again.
    pub(super) faults: Option<&'a str>,
    /// The faults of a single run, drawn or read.
    pub(super) plan: Option<&'a FaultPlan>,
    pub(super) seeds: Range<u64>,
}

/// What one seed has come to, or many.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) runs: u64,
    /// Runs whose own faults showed less than they should have.
    weak: u64,
    pub(super) committed: u64,
    pub(super) events: u64,
    pub(super) simulated_us: u64,
    pub(super) answered_us: u64,
    /// Runs that never came to rest, so that what they left and their histories were not judged.
    pub(super) restless: u64,
    pub(super) messages: u64,
    pub(super) packets: u64,
    pub(super) resent: u64,
    pub(super) checked: Checked,
    /// What runs should have seen, and how many have not.
    missing: BTreeMap<&'static str, u64>,
    /// What protocol and workload show now and then, and in how many runs they have not.
    unseen: BTreeMap<&'static str, u64>,
    pub(super) sometimes: BTreeMap<&'static str, u64>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) aborts: BTreeMap<String, u64>,
    /// The hash of all that has happened, of a single run.
    trace: Option<u64>,
    /// In the order in which they ended.
    pub(super) failed: Vec<(u64, Report)>,
}

impl Sum {
    pub(super) fn add(&mut self, seed: u64, report: Report) {
        self.trace = (self.runs == 0).then_some(report.trace);
        self.runs += 1;
        self.weak += u64::from(!report.missing.is_empty());
        self.committed += report.happened.committed;
        self.events += report.events;
        self.simulated_us += report.elapsed.as_micros();
        self.answered_us += report.answered.as_micros();
        self.restless += u64::from(!report.at_rest);
        self.messages += report.happened.messages;
        self.packets += report.happened.packets;
        self.resent += report.happened.resent;
        for (what, count) in report.checked.iter() {
            self.checked.add(what, count);
        }
        for name in &report.missing {
            *self.missing.entry(name).or_insert(0) += 1;
        }
        for name in &report.unseen {
            *self.unseen.entry(name).or_insert(0) += 1;
        }
        for (name, count) in &report.happened.sometimes {
            *self.sometimes.entry(name).or_insert(0) += count;
        }
        for (name, count) in &report.happened.faults {
            *self.faults.entry(name).or_insert(0) += count;
        }
        for (name, count) in &report.happened.aborts {
            *self.aborts.entry(name.clone()).or_insert(0) += count;
        }
        if report.verdict != Ending::Fine {
            self.failed.push((seed, report));
        }
    }

    /// What should have been seen, and in how many runs it was not. What protocol and workload show now
    /// and then is missed only if no run has seen it.
    pub(super) fn never(&self) -> BTreeMap<&'static str, u64> {
        let by_none = self.unseen.iter().filter(|(_, runs)| **runs == self.runs);
        let each = self.missing.iter().chain(by_none);
        each.map(|(name, runs)| (*name, *runs)).collect()
    }

    /// Runs that show little: all of them if together they never saw what some should have.
    pub(super) fn weak(&self) -> u64 {
        match self.unseen.values().any(|runs| *runs == self.runs) {
            true => self.runs,
            false => self.weak,
        }
    }

    /// The verdict is that of the lowest seed that failed, as the exit code is.
    pub(super) fn to_json(&self, asked: &Asked<'_>) -> Value {
        let mut failures: Vec<&(u64, Report)> = self.failed.iter().collect();
        failures.sort_by_key(|(seed, _)| *seed);
        let verdict = failures
            .first()
            .map_or(&Ending::Fine, |(_, report)| &report.verdict);
        let failures = failures.iter().map(|(seed, report)| {
            json!({
                "seed": seed,
                "verdict": name(&report.verdict),
                "found": found(&report.verdict),
            })
        });
        let checks: BTreeMap<&str, u64> = self.checked.iter().collect();
        json!({
            "version": 1,
            "simulated": true,
            "commit": env!("ANABRANCH_COMMIT"),
            // Processing costs nothing: see docs/simulator.md.
            "calibration": null,
            "asked": {
                "workload": asked.workload,
                "protocol": asked.protocol,
                "nodes": asked.nodes,
                "replicas": asked.replicas,
                "clusters": asked.clusters,
                "prepare_f": asked.prepare_f,
                "quorum": asked.quorum,
                "clients": asked.clients,
                "transactions": asked.transactions,
                "network": asked.network,
                "faults": asked.faults,
                "plan": asked.plan.map(|plan| &plan.faults),
                "seeds": { "from": asked.seeds.start, "to": asked.seeds.end },
            },
            "runs": self.runs,
            "weak_runs": self.weak(),
            "restless_runs": self.restless,
            "transactions": self.committed,
            "aborts": self.aborts,
            "messages": {
                "sent": self.messages,
                "packets": self.packets,
                "sent_again": self.resent,
            },
            "faults": self.faults,
            "sometimes": self.sometimes,
            "never": self.never(),
            "checks": checks,
            "simulated_us": self.simulated_us,
            "answered_us": self.answered_us,
            "events": self.events,
            "trace": self.trace.map(|trace| format!("{trace:016x}")),
            "verdict": name(verdict),
            "failures": failures.collect::<Vec<_>>(),
        })
    }
}

fn name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Fine => "fine",
        Ending::Violated(_) => "violated",
        Ending::Stuck(_) => "no progress",
        Ending::Crashed(_) => "crashed",
    }
}

/// What was wrong, in words.
fn found(ending: &Ending) -> &[String] {
    match ending {
        Ending::Fine => &[],
        Ending::Violated(found) => found,
        Ending::Stuck(why) | Ending::Crashed(why) => std::slice::from_ref(why),
    }
}
