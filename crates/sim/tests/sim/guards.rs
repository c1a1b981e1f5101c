//! Sites that order transactions over guards: every workload under every fault profile, over each orderer; its invariants at
//! every site, equal rows, and what is refused.

use std::collections::BTreeMap;

use anabranch_sim::{
    Case, CaseError, CaseFile, ConsistencyName, FaultProfile, Network, OrderOver, Prepared,
    ProtocolName, SiteOptions, Verdict,
};
use anabranch_types::Ticks;

const CLIENTS: u32 = 6;
const TRANSACTIONS: u64 = 90;

const OVER_GUARDS: SiteOptions = SiteOptions {
    consistency: ConsistencyName::Sr,
    fast_decisions: false,
    leader: 0,
    order_over: OrderOver::Guards,
    retained_max: None,
    batch_window: Ticks(0),
};

fn case(protocol: ProtocolName, profile: FaultProfile, seed: u64, sites: u16) -> Case {
    let network = Network::lan();
    let mut case = Case::new(
        protocol,
        seed,
        sites,
        CLIENTS,
        TRANSACTIONS,
        network,
        profile,
    );
    case.clusters = sites;
    case.sites = SiteOptions {
        fast_decisions: protocol == ProtocolName::Alvin && seed / 2 % 2 == 1,
        ..OVER_GUARDS
    };
    case
}

/// Runs seeds under all fault profiles, some of them twice. Returns how often each situation was reached.
fn sweep(protocol: ProtocolName, workload: &str, seeds: u64) -> BTreeMap<&'static str, u64> {
    let prepared: BTreeMap<u16, Prepared> = [2, 3, 5]
        .map(|sites| (sites, Prepared::for_sites(workload, sites).unwrap()))
        .into();
    let mut reached = BTreeMap::new();
    for profile in FaultProfile::ONE_REPLICA {
        for seed in 0..seeds {
            let sites = [3, 5, 2][(seed / 4 % 3) as usize];
            let mut case = case(protocol, profile, seed, sites);
            case.clients_switch_nodes = seed % 3 == 0;
            let what = format!("{} {workload} {} {seed}", protocol.name(), profile.name());
            let first = case.run(&prepared[&sites]).unwrap();
            assert_eq!(first.verdict, Verdict::Fine, "{what}");
            for compared in [
                "partitions with the same rows in other clusters",
                "sites with the same decisions",
            ] {
                let mut checked = first.checked.iter();
                assert!(
                    checked.any(|(name, count)| name == compared && count > 0),
                    "{what}: {compared}"
                );
            }
            for (name, count) in &first.statistics.sometimes {
                *reached.entry(*name).or_default() += count;
            }
            if seed % 4 == 0 {
                let second = case.run(&prepared[&sites]).unwrap();
                assert_eq!(first, second, "{what}: two runs of one seed differ");
            }
        }
    }
    reached
}

const ALONE: &str = "a transaction committed at its site alone";
const ORDERED: &str = "a transaction was ordered over guards";

#[test]
fn registers_and_sums_need_no_order() {
    for workload in ["register", "tally"] {
        let reached = sweep(ProtocolName::Alvin, workload, 12);
        assert!(reached[ALONE] > 0);
        assert!(!reached.contains_key(ORDERED));
    }
}

#[test]
fn a_bank_stays_solvent_at_every_site() {
    let reached = sweep(ProtocolName::Alvin, "bank", 12);
    assert!(reached[ALONE] > 0 && reached[ORDERED] > 0);
}

#[test]
fn departments_keep_their_references_at_every_site() {
    let reached = sweep(ProtocolName::Alvin, "departments", 12);
    assert!(reached[ALONE] > 0 && reached[ORDERED] > 0);
}

#[test]
fn a_payroll_is_never_empty_at_any_site() {
    let reached = sweep(ProtocolName::Alvin, "payroll", 8);
    assert!(reached[ALONE] > 0 && reached[ORDERED] > 0);
}

#[test]
fn counters_with_homes_keep_their_entries() {
    let reached = sweep(ProtocolName::Alvin, "counter", 8);
    assert!(reached[ALONE] > 0 && !reached.contains_key(ORDERED));
}

#[test]
fn tpcc_keeps_its_conditions_at_every_site() {
    let reached = sweep(ProtocolName::Alvin, "tpcc", 2);
    assert!(reached[ALONE] > 0 && !reached.contains_key(ORDERED));
}

/// Its tables with unique names are whole, so that these have their home at site 0.
#[test]
fn an_auction_site_keeps_its_names_unique_at_every_site() {
    let reached = sweep(ProtocolName::Alvin, "rubis", 4);
    assert!(reached[ALONE] > 0);
}

/// Every workload either runs, or is refused before anything does.
#[test]
fn every_workload_runs_or_is_refused() {
    let mut refused = Vec::new();
    for name in anabranch_workload::NAMES {
        let prepared = Prepared::for_sites(name, 3).unwrap();
        let case = case(ProtocolName::Alvin, FaultProfile::Mild, 5, 3);
        match case.run(&prepared) {
            Ok(report) => assert_eq!(report.verdict, Verdict::Fine, "{name}"),
            Err(CaseError::NotOverGuards(why)) => refused.push(format!("{name}: {why}")),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    assert_eq!(refused, [""; 0]);
}

#[test]
fn the_other_orderers_order_guards_too() {
    for protocol in [ProtocolName::Multipaxos, ProtocolName::Epaxos] {
        for workload in ["bank", "departments", "payroll"] {
            let reached = sweep(protocol, workload, 4);
            assert!(reached[ORDERED] > 0);
        }
    }
}

#[test]
fn a_case_file_has_the_order_over_guards() {
    let file = CaseFile {
        workload: "bank".to_owned(),
        nodes: 1,
        case: case(ProtocolName::Alvin, FaultProfile::Storm, 3, 3),
    };
    let read = CaseFile::from_text(&file.to_text()).unwrap();
    assert_eq!(read.case.sites, file.case.sites);
    let runs = [&file, &read].map(|it| it.case.run(&it.prepare().unwrap()).unwrap());
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn what_is_not_supported_over_guards_is_refused() {
    let prepared = Prepared::for_sites("bank", 3).unwrap();
    let refused = |change: fn(&mut Case)| {
        let mut case = case(ProtocolName::Alvin, FaultProfile::None, 1, 3);
        change(&mut case);
        case.run(&prepared).unwrap_err()
    };
    let eus = refused(|case| case.sites.consistency = ConsistencyName::Eus);
    assert!(matches!(eus, CaseError::Sites { .. }), "{eus}");
    let own = refused(|case| case.interactive = true);
    assert!(matches!(own, CaseError::Sites { .. }), "{own}");
    let ramp = refused(|case| {
        case.protocol = ProtocolName::RampFast;
        case.clusters = 1;
    });
    assert!(matches!(ramp, CaseError::NoSites { .. }), "{ramp}");
}
