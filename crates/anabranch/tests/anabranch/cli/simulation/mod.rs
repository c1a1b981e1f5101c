//! The options of a simulated cluster: its network, replicas and clusters.

mod diagrams;
mod histories;
mod outputs;
mod plans;

use serde_json::Value;

use crate::cli::{anabranch, refused, refused_in_one_line, scratch, simulated, text};

const REGISTER: [&str; 5] = ["register", "--transactions", "60", "--seed", "3"];

#[test]
fn a_run_reports_its_number_of_replicas() {
    let loss = [
        &REGISTER[..],
        &["--replicas", "3", "--faults", "permanent_loss"],
    ]
    .concat();
    let (code, out, sum) = simulated("sim-replicas", &loss);
    assert_eq!((code, &sum["verdict"]), (0, &Value::from("fine")), "{out}");
    assert!(out.contains("3 nodes with 3 replicas each"), "{out}");
    assert_eq!(sum["parameters"]["replicas"], 3);
    assert_eq!(sum["parameters"]["faults"], "permanent_loss");
    assert_eq!(sum["faults"]["permanent_loss"], 1, "{out}");
    for name in ["sometimes", "checks"] {
        let counts = sum[name].as_object().expect("counts");
        let of_replicas = counts.keys().any(|what| what.contains("replica"));
        assert!(of_replicas, "{name}: {counts:?}");
    }
    let alone = [&REGISTER[..], &["--faults", "none"]].concat();
    let (_, out, sum) = simulated("sim-one-replica", &alone);
    assert_eq!(sum["parameters"]["replicas"], 1);
    assert!(!out.contains("replica"), "{out}");
}

#[test]
fn impossible_replicas_and_losses_are_refused() {
    for replicas in ["0", "4"] {
        refused_in_one_line(
            &["sim", "register", "--replicas", replicas],
            &[replicas, "3"],
        );
    }
    refused_in_one_line(
        &["sim", "register", "--faults", "permanent_loss"],
        &["no majority", "give nodes more replicas"],
    );
    for protocol in ["nwnr", "e-pci"] {
        let arguments = ["sim", "register", "--protocol", protocol, "--replicas", "3"];
        refused_in_one_line(&arguments, &["nodes have replicas", "records"]);
    }
    refused(
        &["sim", "--replay", "case.jsonl", "--replicas", "3"],
        &["--replay", "--replicas", "cannot be used with"],
    );
}

const CLUSTERS: [&str; 6] = ["sim", "register", "--nodes", "2", "--clusters", "3"];

#[test]
fn a_run_reports_its_clusters_and_their_mode() {
    let storm = ["--prepare-f", "1", "--faults", "storm", "--seed", "4"];
    let arguments = [&CLUSTERS[1..], &storm].concat();
    let (code, out, sum) = simulated("sim-clusters", &arguments);
    assert_eq!((code, &sum["verdict"]), (0, &Value::from("fine")), "{out}");
    assert!(out.contains("3 clusters of 2 nodes"), "{out}");
    assert_eq!(sum["parameters"]["clusters"], 3);
    assert_eq!(sum["parameters"]["prepare_f"], 1);
    let early = "a client was answered before every cluster had prepared";
    assert!(sum["sometimes"][early].as_u64() > Some(0), "{out}");
    // Without it each cluster commits by itself, and clients that switch clusters lose their sessions.
    let (code, out, sum) = simulated(
        "sim-sticky",
        &[&CLUSTERS[1..], &storm[2..], &["--clients-switch-nodes"]].concat(),
    );
    assert_eq!(
        (code, &sum["parameters"]["prepare_f"]),
        (0, &Value::Null),
        "{out}"
    );
    let took = "a cluster applied a transaction of another";
    assert!(sum["sometimes"][took].as_u64() > Some(0), "{out}");
    // By quorums a write is acknowledged before every copy has installed it.
    let quorum = [&CLUSTERS[1..], &["--quorum"], &storm[2..]].concat();
    let (code, out, sum) = simulated("sim-quorum", &quorum);
    assert_eq!(
        (code, &sum["parameters"]["quorum"]),
        (0, &Value::from(20_000)),
        "{out}"
    );
    let early = "a client was answered before every copy had installed its commit";
    assert!(sum["sometimes"][early].as_u64() > Some(0), "{out}");
    // Each cluster in a datacenter of its own.
    let net = "wan:examples/networks/conveyor-belt.txt";
    let wan = [&CLUSTERS[..], &["--prepare-f", "0", "--net", net]].concat();
    let ran = anabranch(&wan);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // A run with one cluster does not mention clusters.
    let alone = ["register", "--faults", "none"];
    let (_, out, sum) = simulated("sim-one-cluster", &alone);
    assert_eq!(sum["parameters"]["clusters"], 1);
    assert_eq!(sum["parameters"]["prepare_f"], Value::Null);
    assert!(!out.contains("cluster"), "{out}");
}

#[test]
fn cases_that_clusters_cannot_run_are_refused() {
    let cases: [(&[&str], &[&str]); 8] = [
        (
            &["--protocol", "locking"],
            &["--clusters", "locking is not a RAMP protocol"],
        ),
        (&["--quorum=0"], &["at least 1 microsecond"]),
        (
            &["--quorum", "--prepare-f", "1"],
            &["give --prepare-f or --quorum"],
        ),
        (&["--prepare-f", "3"], &["has to be in 4", "there are 3"]),
        (
            &["--prepare-f", "1", "--causal"],
            &["--causal", "several clusters"],
        ),
        (
            &["--prepare-f", "1", "--replicas", "2"],
            &["--replicas", "several clusters"],
        ),
        (
            &["--prepare-f", "1", "--protocol", "locking"],
            &["--prepare-f", "locking is not a RAMP protocol"],
        ),
        (
            &["--prepare-f", "1", "--faults", "permanent_loss"],
            &["the permanent loss of a server"],
        ),
    ];
    for (arguments, because) in cases {
        refused_in_one_line(&[&CLUSTERS[..], arguments].concat(), because);
    }
    refused_in_one_line(
        &["sim", "register", "--prepare-f", "0"],
        &["there is one", "--clusters"],
    );
    for workload in ["bank", "counter", "tpcc"] {
        let arguments = ["sim", workload, "--clusters", "2", "--prepare-f", "0"];
        refused_in_one_line(
            &arguments,
            &["ordered across clusters", "register, ycsb", "tally"],
        );
    }
    for option in ["--clusters", "--prepare-f", "--quorum"] {
        refused(
            &["sim", "--replay", "case.jsonl", option, "2"],
            &["--replay", option, "cannot be used with"],
        );
    }
}

#[test]
fn networks_come_from_files() {
    for (file, nodes) in [("conveyor-belt", "5"), ("ec2-regions", "8")] {
        let net = format!("wan:examples/networks/{file}.txt");
        let arguments = ["sim", "bank", "--faults", "none", "--seed", "3"];
        let ran = anabranch(&[&arguments[..], &["--nodes", nodes, "--net", &net]].concat());
        assert_eq!(ran.code, 0, "{net}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(&format!("{file}.txt)")), "{}", ran.out);
    }
    refused(
        &["sim", "bank", "--net", "wan:examples/networks/nowhere.txt"],
        &["cannot read", "nowhere.txt"],
    );
    refused(&["sim", "bank", "--net", "moon"], &["lan or wan:FILE"]);
    let folder = scratch("networks");
    let torn = folder.join("torn.txt");
    std::fs::write(&torn, "sites a b\na 1 80\n").expect("a scratch file can be written");
    refused(
        &["sim", "bank", "--net", &format!("wan:{}", text(&torn))],
        &["line 2", "before every site"],
    );
}
