//! Sites, over ALVIN's orderer, EPaxos and MultiPaxos: every workload under every fault profile, each consistency, and what is refused.

use std::collections::BTreeMap;

use anabranch_history::{Model, check};
use anabranch_sim::fault::{Fault, FaultKind};
use anabranch_sim::{
    Case, CaseError, CaseFile, ConsistencyName, FaultPlan, FaultProfile, Network, Prepared,
    ProtocolName, SiteOptions, Verdict,
};
use anabranch_types::Ticks;

const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 90;

/// A case with so many sites.
fn case(profile: FaultProfile, seed: u64, sites: u16, alvin: SiteOptions) -> Case {
    let mut case = Case::new(
        ProtocolName::Alvin,
        seed,
        sites,
        CLIENTS,
        TRANSACTIONS,
        Network::lan(),
        profile,
    );
    case.clusters = sites;
    case.sites = alvin;
    case
}

/// The options of a seed: each combination has its turn.
fn options(protocol: ProtocolName, seed: u64) -> SiteOptions {
    let consistency = ConsistencyName::ALL[(seed % 2) as usize];
    match protocol {
        ProtocolName::Multipaxos => SiteOptions {
            consistency,
            leader: (seed / 2 % 2) as u16,
            ..SiteOptions::default()
        },
        ProtocolName::Epaxos => SiteOptions {
            consistency,
            ..SiteOptions::default()
        },
        _ => SiteOptions {
            consistency,
            fast_decisions: seed / 2 % 2 == 1,
            ..SiteOptions::default()
        },
    }
}

/// Runs seeds under all fault profiles, some of them twice.
fn sweep(protocol: ProtocolName, workload: &str, seeds: u64) {
    let prepared: BTreeMap<u16, Prepared> = [2, 3, 5]
        .map(|sites| (sites, Prepared::for_sites(workload, sites).unwrap()))
        .into();
    let mut committed = 0;
    for profile in FaultProfile::ONE_REPLICA {
        for seed in 0..seeds {
            let sites = [3, 5, 2][(seed / 4 % 3) as usize];
            let mut case = case(profile, seed, sites, options(protocol, seed));
            case.protocol = protocol;
            case.clients_switch_nodes = seed % 3 == 0;
            let what = format!("{} {workload} {} {seed}", protocol.name(), profile.name());
            let first = case.run(&prepared[&sites]).unwrap();
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            let compared = "partitions with the same rows in other clusters";
            assert!(first.checked.iter().any(|(name, _)| name == compared));
            committed += first.statistics.committed;
            if seed % 4 == 0 {
                let second = case.run(&prepared[&sites]).unwrap();
                assert_eq!(first, second, "{what}: two runs of one seed differ");
            }
        }
    }
    assert!(committed > 0);
}

#[test]
fn sites_keep_their_promises_under_register() {
    sweep(ProtocolName::Alvin, "register", 12);
}

#[test]
fn sites_keep_their_promises_under_counter() {
    sweep(ProtocolName::Alvin, "counter", 8);
}

#[test]
fn sites_keep_their_promises_under_bank() {
    sweep(ProtocolName::Alvin, "bank", 12);
}

#[test]
fn sites_keep_their_promises_under_departments() {
    sweep(ProtocolName::Alvin, "departments", 8);
}

#[test]
fn sites_keep_their_promises_under_payroll() {
    sweep(ProtocolName::Alvin, "payroll", 4);
}

#[test]
fn sites_keep_their_promises_under_tpcc() {
    sweep(ProtocolName::Alvin, "tpcc", 2);
}

#[test]
fn sites_keep_their_promises_over_multipaxos() {
    sweep(ProtocolName::Multipaxos, "register", 8);
    sweep(ProtocolName::Multipaxos, "bank", 8);
    sweep(ProtocolName::Multipaxos, "departments", 4);
}

#[test]
fn sites_keep_their_promises_over_epaxos() {
    sweep(ProtocolName::Epaxos, "register", 8);
    sweep(ProtocolName::Epaxos, "bank", 8);
    sweep(ProtocolName::Epaxos, "departments", 4);
    sweep(ProtocolName::Epaxos, "tpcc", 1);
}

/// Clients' own transactions read over several calls, and are run again after conflicts.
#[test]
fn clients_run_their_own_transactions_at_sites() {
    let prepared = Prepared::for_sites("bank", 3).unwrap();
    for seed in 0..8 {
        let mut case = case(
            FaultProfile::Storm,
            seed,
            3,
            options(ProtocolName::Alvin, seed),
        );
        case.interactive = true;
        assert_eq!(
            case.run(&prepared).unwrap().verdict,
            Verdict::Fine,
            "{seed}"
        );
    }
}

/// Under EUS two readers may see two writers in different orders; the check for serializability finds it.
#[test]
fn some_seed_shows_a_long_fork_under_eus() {
    let prepared = Prepared::for_sites("ycsb", 3).unwrap();
    let forks = (0..60).any(|seed| {
        let alvin = SiteOptions {
            consistency: ConsistencyName::Eus,
            ..SiteOptions::default()
        };
        let mut case = case(FaultProfile::None, seed, 3, alvin);
        case.transactions = 400;
        let run = case.run_recorded(&prepared, None).unwrap();
        assert_eq!(run.report.verdict, Verdict::Fine, "{seed}");
        let history = run.history.expect("it is recorded").history().unwrap();
        let verdict = check(&history, Model::Serializable).expect("it can be checked");
        !verdict.anomalies.is_empty()
    });
    assert!(forks);
}

#[test]
fn a_case_file_has_the_options_of_sites() {
    let alvin = SiteOptions {
        consistency: ConsistencyName::Eus,
        fast_decisions: true,
        ..SiteOptions::default()
    };
    let file = CaseFile {
        workload: "register".to_owned(),
        nodes: 1,
        case: case(FaultProfile::Storm, 3, 5, alvin),
    };
    let read = CaseFile::from_text(&file.to_text()).unwrap();
    assert_eq!(read.case.sites, alvin);
    let runs = [&file, &read].map(|it| it.case.run(&it.prepare().unwrap()).unwrap());
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn what_sites_do_not_support_is_refused() {
    let prepared = Prepared::for_sites("register", 3).unwrap();
    let refused = |change: fn(&mut Case)| {
        let mut case = case(FaultProfile::None, 1, 3, SiteOptions::default());
        change(&mut case);
        case.run(&prepared).unwrap_err()
    };
    let replicas = refused(|case| case.replicas = 3);
    assert!(matches!(replicas, CaseError::Sites { .. }), "{replicas}");
    let lost = refused(|case| {
        case.plan = FaultPlan {
            faults: vec![Fault {
                at_us: 1,
                for_us: 1,
                kind: FaultKind::PermanentLoss { node: 0 },
            }],
        };
    });
    assert!(matches!(lost, CaseError::Sites { .. }), "{lost}");
    let many = refused(|case| case.clusters = 10);
    assert!(matches!(many, CaseError::OutOfRange { .. }), "{many}");
    let ramp = refused(|case| case.extensions.one_phase = true);
    assert!(matches!(ramp, CaseError::NoRamp { .. }), "{ramp}");
    let other = refused(|case| {
        case.protocol = ProtocolName::Locking;
        case.clusters = 1;
        case.sites.fast_decisions = true;
    });
    assert!(matches!(other, CaseError::NoSites { .. }), "{other}");
}

/// Batches of several transactions, under all fault profiles.
#[test]
fn sites_keep_their_promises_with_batches() {
    let prepared = Prepared::for_sites("bank", 3).unwrap();
    let protocols = [
        ProtocolName::Alvin,
        ProtocolName::Epaxos,
        ProtocolName::Multipaxos,
    ];
    for protocol in protocols {
        for profile in FaultProfile::ONE_REPLICA {
            for seed in 0..2 {
                let mut options = options(protocol, seed);
                options.batch_window = Ticks::from_micros(200);
                let mut case = case(profile, seed, 3, options);
                case.protocol = protocol;
                let found = case.run(&prepared).unwrap();
                let what = format!("{} {} {seed}", protocol.name(), profile.name());
                assert_eq!(found.verdict, Verdict::Fine, "{what}");
            }
        }
    }
}

/// A client's block that only reads is certified, too: at the next site it would miss what its client has seen.
#[test]
fn blocks_that_only_read_are_certified() {
    let prepared = Prepared::for_sites("register", 3).unwrap();
    for seed in 0..12 {
        let mut case = case(
            FaultProfile::Storm,
            seed,
            3,
            options(ProtocolName::Alvin, 6),
        );
        (case.clients_switch_nodes, case.interactive) = (true, true);
        let found = case.run(&prepared).unwrap();
        assert_eq!(found.verdict, Verdict::Fine, "{seed}");
    }
}

/// Sites that keep few batches for the others: those that were away take another site's state.
fn sweep_with_state_transfers(workload: &str, seeds: std::ops::Range<u64>) -> u64 {
    let prepared: BTreeMap<u16, Prepared> = [3, 5]
        .map(|sites| (sites, Prepared::for_sites(workload, sites).unwrap()))
        .into();
    let mut taken = 0;
    for profile in [FaultProfile::Storm, FaultProfile::LongOutage] {
        for seed in seeds.clone() {
            let sites = [3, 3, 5][(seed / 4 % 3) as usize];
            let mut options = options(ProtocolName::Alvin, seed);
            options.retained_max = Some((seed % 5) as u32);
            if seed % 7 == 0 {
                options.batch_window = Ticks::from_micros(200);
            }
            let mut case = case(profile, seed, sites, options);
            case.clients_switch_nodes = seed % 3 == 0;
            case.interactive = seed % 5 == 1;
            let what = format!("{workload} {} {seed}", profile.name());
            let found = case.run(&prepared[&sites]).unwrap();
            assert_eq!(found.verdict, Verdict::Fine, "{what}");
            let sometimes = &found.statistics.sometimes;
            taken += sometimes
                .get("a site took another one's state")
                .unwrap_or(&0);
        }
    }
    println!("{workload}: {taken} states were taken");
    taken
}

#[test]
fn sites_that_were_away_take_the_state_of_another() {
    for (workload, seeds) in [
        ("register", 16),
        ("bank", 16),
        ("departments", 12),
        ("payroll", 6),
    ] {
        assert!(
            sweep_with_state_transfers(workload, 0..seeds) > 0,
            "{workload}"
        );
    }
}
