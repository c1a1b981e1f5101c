//! The table of §6.2: how a server spends its cycles on coordination-avoiding New-Orders.
//!
//! The simulated run gives the cycles of messages and of spinning for a district's guard. The calibration gives
//! how a message's cycles divide into socket and encoding, and how the rest divides over the code.

use anabranch_sim::{ProtocolName, Throughput};

use super::super::simulation::{Job, Results};
use super::{Effort, new_order, published, run_line};
use crate::calibrate::Calibration;
use crate::figure::{Comparison, Section};

/// The runs that the table needs: those of the load's panel, of which the best counts.
pub(super) fn jobs(effort: &Effort) -> Vec<Job> {
    new_order::loaded(effort, ProtocolName::RampFast)
}

/// Percentages of the busy cycles, in the order of [`published::CODE_PATHS`].
fn shares(calibration: &Calibration, found: &Throughput) -> [f64; 6] {
    let usage = &found.usage;
    let transport = &calibration.transport;
    // A message costs both its ends, as do a client's call and its reply.
    let (messages, calls) = (found.messages, 1.0);
    let socket = messages * transport.message.socket_nanos + calls * transport.client.socket_nanos;
    let codec = messages * transport.message.codec_nanos + calls * transport.client.codec_nanos;
    let code = (usage.busy - usage.transport - usage.spinning) as f64;
    let paths = &calibration.paths;
    let in_code = paths.storage + paths.protocol + paths.procedure;
    let parts = [
        code * paths.storage / in_code,
        code * paths.procedure / in_code,
        usage.transport as f64 * socket / (socket + codec),
        usage.transport as f64 * codec / (socket + codec),
        usage.spinning as f64,
        code * paths.protocol / in_code,
    ];
    parts.map(|part| 100.0 * part / (usage.busy.max(1)) as f64)
}

/// The table.
pub(super) fn section(effort: &Effort, calibration: &Calibration, results: &Results) -> Section {
    let jobs = jobs(effort);
    let (job, found) = results.best(&jobs);
    let shares = shares(calibration, found);
    let compared = |((name, published), ours): (&(&str, f64), f64)| {
        Comparison::simulated(*name, "%", ours).beside(*published)
    };
    Section {
        title: "Code paths: where the cycles go (table of §6.2)".into(),
        text: vec![
            "Shares of the cores' busy time at the peak of Figure 5. The paper's prototype ran on a JVM, and \
             sampled its threads. Ours: messages and spinning as simulated, the rest as sampled while the \
             code was calibrated; \"other\" is the protocol's own bookkeeping."
                .into(),
        ],
        comparisons: published::CODE_PATHS.iter().zip(shares).map(compared).collect(),
        runs: vec![run_line("at the peak".into(), job, found)],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_sim::cost::Usage;

    use super::*;

    #[test]
    fn shares_are_of_all_busy_cycles() {
        let mut calibration = Calibration::built_in();
        calibration.transport.message.socket_nanos = 300.0;
        calibration.transport.message.codec_nanos = 100.0;
        calibration.transport.client.socket_nanos = 300.0;
        calibration.transport.client.codec_nanos = 100.0;
        calibration.paths.storage = 30.0;
        calibration.paths.procedure = 20.0;
        calibration.paths.protocol = 10.0;
        let found = Throughput {
            committed: 1,
            per_second: 1.0,
            retries: 0.0,
            messages: 2.0,
            mean_ms: 1.0,
            p99_ms: 1.0,
            utilization: Some(1.0),
            usage: Usage {
                busy: 1_000,
                transport: 390,
                spinning: 10,
                ..Usage::default()
            },
            lock_wait_nanos: 0.0,
            events: 1,
            trace: 0,
        };
        let shares = shares(&calibration, &found);
        for (share, expected) in shares.iter().zip([30.0, 20.0, 29.25, 9.75, 1.0, 10.0]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
    }
}
