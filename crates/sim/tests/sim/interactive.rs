//! Clients' own transactions in the simulator: savepoints, cancels, rollbacks, clients that leave, crashes of nodes.

use anabranch_sim::{Case, FaultProfile, Network, Prepared, ProtocolName, Verdict};

const NODES: u16 = 3;

fn case(protocol: ProtocolName, profile: FaultProfile, seed: u64) -> Case {
    let mut case = Case::new(protocol, seed, NODES, 6, 90, Network::lan(), profile);
    case.interactive = true;
    case
}

/// Read atomic under RAMP and serializable under locking, as each run's history is judged, with INT-I1, INT-I2 and
/// INT-I6 to INT-I8 asserted at every step.
#[test]
fn transactions_of_clients_hold_what_their_protocol_promises() {
    let protocols = [
        ProtocolName::RampFast,
        ProtocolName::RampSmall,
        ProtocolName::RampHybrid,
        ProtocolName::Locking,
    ];
    for workload in ["register", "bank", "smallbank", "counter"] {
        let prepared = Prepared::new(workload, NODES).unwrap();
        for protocol in protocols {
            let mut seen = std::collections::BTreeMap::new();
            for profile in [FaultProfile::None, FaultProfile::Storm] {
                for seed in 0..6 {
                    let case = case(protocol, profile, seed);
                    let first = case.run(&prepared).unwrap();
                    let what = format!("{workload} {} {} {seed}", protocol.name(), profile.name());
                    assert_eq!(first.verdict, Verdict::Fine, "{what}");
                    if seed == 0 {
                        let second = case.run(&prepared).unwrap();
                        assert_eq!(first, second, "{what}: two runs of one seed differ");
                    }
                    for (name, count) in first.statistics.sometimes {
                        *seen.entry(name).or_insert(0) += count;
                    }
                }
            }
            for expected in [
                "an interactive transaction committed",
                "a block was run again",
                "a client left its transaction open",
            ] {
                let count = seen.get(expected).copied().unwrap_or(0);
                assert!(
                    count > 0,
                    "{workload} {}: never {expected}",
                    protocol.name()
                );
            }
        }
    }
}
