//! The reports of runs, added up over their seeds, and the JSON form of the sum
//! (`docs/schemas/sim.schema.json`). The JSON has no wall-clock times, so that the same command writes
//! the same file.

use std::collections::BTreeMap;
use std::ops::Range;

use anabranch_sim::report::{Checked, Verdict as Ending};
use anabranch_sim::{FaultPlan, Report, SiteOptions};
use serde_json::{Value, json};

/// The parameters of the runs.
pub(super) struct Parameters<'a> {
    pub(super) workload: &'a str,
    pub(super) protocol: &'a str,
    pub(super) nodes: u16,
    /// Of each node, the primary included.
    pub(super) replicas: u16,
    pub(super) clusters: u16,
    /// The number of clusters that may be lost, under Prepare-F.
    pub(super) prepare_f: Option<u16>,
    /// In quorum operation: the microseconds after which a read goes to another copy.
    pub(super) quorum: Option<u64>,
    /// Under protocols with sites.
    pub(super) sites: Option<SiteOptions>,
    pub(super) clients: u32,
    pub(super) transactions: u64,
    pub(super) network: &'a str,
    /// The value of `--faults`; `None` for a replayed case.
    pub(super) faults: Option<&'a str>,
    /// The fault plan of a single run.
    pub(super) plan: Option<&'a FaultPlan>,
    pub(super) seeds: Range<u64>,
}

/// The sum of the reports of one or many seeds.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) runs: u64,
    /// Runs in which the faults did not cause all situations that they should.
    weak: u64,
    pub(super) committed: u64,
    pub(super) events: u64,
    pub(super) simulated_us: u64,
    pub(super) answered_us: u64,
    /// Runs that did not come to rest, so that their final states and histories were not checked.
    pub(super) not_at_rest: u64,
    pub(super) messages: u64,
    pub(super) packets: u64,
    pub(super) resent: u64,
    pub(super) checked: Checked,
    /// Situations that runs' faults should have caused, and the number of runs where they did not.
    missing: BTreeMap<&'static str, u64>,
    /// Situations that protocol and workload reach sometimes, and the number of runs that did not.
    unseen: BTreeMap<&'static str, u64>,
    pub(super) sometimes: BTreeMap<&'static str, u64>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(super) aborts: BTreeMap<String, u64>,
    /// The trace hash of a single run.
    trace: Option<u64>,
    /// Failed seeds, in the order in which they ended.
    pub(super) failed: Vec<(u64, Report)>,
}

impl Sum {
    pub(super) fn add(&mut self, seed: u64, report: Report) {
        self.trace = (self.runs == 0).then_some(report.trace);
        self.runs += 1;
        self.weak += u64::from(!report.missing.is_empty());
        self.committed += report.statistics.committed;
        self.events += report.events;
        self.simulated_us += report.elapsed.as_micros();
        self.answered_us += report.answered.as_micros();
        self.not_at_rest += u64::from(!report.at_rest);
        self.messages += report.statistics.messages;
        self.packets += report.statistics.packets;
        self.resent += report.statistics.resent;
        for (what, count) in report.checked.iter() {
            self.checked.add(what, count);
        }
        for name in &report.missing {
            *self.missing.entry(name).or_insert(0) += 1;
        }
        for name in &report.unseen {
            *self.unseen.entry(name).or_insert(0) += 1;
        }
        for (name, count) in &report.statistics.sometimes {
            *self.sometimes.entry(name).or_insert(0) += count;
        }
        for (name, count) in &report.statistics.faults {
            *self.faults.entry(name).or_insert(0) += count;
        }
        for (name, count) in &report.statistics.aborts {
            *self.aborts.entry(name.clone()).or_insert(0) += count;
        }
        if report.verdict != Ending::Fine {
            self.failed.push((seed, report));
        }
    }

    /// Situations that were not reached, and in how many runs. Situations that protocol and workload reach sometimes
    /// count only if no run reached them.
    pub(super) fn never(&self) -> BTreeMap<&'static str, u64> {
        let by_none = self.unseen.iter().filter(|(_, runs)| **runs == self.runs);
        let each = self.missing.iter().chain(by_none);
        each.map(|(name, runs)| (*name, *runs)).collect()
    }

    /// The number of weak runs: all runs, if none reached a situation that some should have reached.
    pub(super) fn weak(&self) -> u64 {
        match self.unseen.values().any(|runs| *runs == self.runs) {
            true => self.runs,
            false => self.weak,
        }
    }

    /// The JSON report. Its verdict, like the exit code, is that of the lowest failing seed.
    pub(super) fn to_json(&self, parameters: &Parameters<'_>) -> Value {
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
            // Processing takes no time: see docs/simulator.md.
            "calibration": null,
            "parameters": {
                "workload": parameters.workload,
                "protocol": parameters.protocol,
                "nodes": parameters.nodes,
                "replicas": parameters.replicas,
                "clusters": parameters.clusters,
                "prepare_f": parameters.prepare_f,
                "quorum": parameters.quorum,
                "consistency": parameters.sites.map(|sites| sites.consistency.name()),
                "fast_decisions": parameters.sites.map(|sites| sites.fast_decisions),
                "leader": parameters.sites.map(|sites| sites.leader),
                "order_over": parameters.sites.map(|sites| sites.order_over.name()),
                "clients": parameters.clients,
                "transactions": parameters.transactions,
                "network": parameters.network,
                "faults": parameters.faults,
                "plan": parameters.plan.map(|plan| &plan.faults),
                "seeds": { "from": parameters.seeds.start, "to": parameters.seeds.end },
            },
            "runs": self.runs,
            "weak_runs": self.weak(),
            "runs_not_at_rest": self.not_at_rest,
            "transactions": self.committed,
            "aborts": self.aborts,
            "messages": {
                "sent": self.messages,
                "packets": self.packets,
                "resent": self.resent,
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

/// The violations, as text.
fn found(ending: &Ending) -> &[String] {
    match ending {
        Ending::Fine => &[],
        Ending::Violated(found) => found,
        Ending::Stuck(why) | Ending::Crashed(why) => std::slice::from_ref(why),
    }
}
