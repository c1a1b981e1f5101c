//! Loads of sites: every protocol comes to rest with equal sites, the latencies are near what the network permits, and
//! two runs of one seed are the same.

use std::sync::Arc;

use anabranch_sim::cost::{Costs, Processor, StepCost};
use anabranch_sim::{
    CaseError, ConsistencyName, Network, OrderOver, Prepared, ProtocolName, SiteLoad, SiteOptions,
    SiteThroughput,
};
use anabranch_types::Ticks;
use anabranch_workload::bank::Bank;

const PROTOCOLS: [ProtocolName; 3] = [
    ProtocolName::Alvin,
    ProtocolName::Epaxos,
    ProtocolName::Multipaxos,
];

/// Round trips of 40, 60 and 100 ms.
fn network() -> Network {
    let matrix = "sites a b c\na 1 40 60\nb 40 1 100\nc 60 100 1\n";
    Network::matrix("three", matrix).expect("a matrix")
}

fn load(protocol: ProtocolName, options: SiteOptions) -> SiteLoad {
    SiteLoad {
        protocol,
        options,
        sites: 3,
        seed: 3,
        clients: 4,
        think: Ticks::from_millis(1),
        network: network(),
        processor: None,
        warmup: Ticks::from_millis(500),
        measured: Ticks::from_millis(4_000),
        calls: None,
    }
}

fn run(load: &SiteLoad, workload: &str) -> SiteThroughput {
    run_prepared(load, &Prepared::for_sites(workload, 3).expect("a workload"))
}

/// Transfers between many accounts: hardly any two conflict.
fn run_transfers(load: &SiteLoad) -> SiteThroughput {
    let bank = Arc::new(Bank::of_accounts(30_000));
    run_prepared(load, &Prepared::from_workload(bank, 1).expect("a workload"))
}

fn run_prepared(load: &SiteLoad, prepared: &Prepared) -> SiteThroughput {
    let stores = prepared.stores(load.seed, &load.network, true);
    let found = load.run(prepared, &stores.expect("rows")[0], None);
    let found = found.expect("a load that can be run");
    assert_eq!(found.violations, Vec::<String>::new(), "{load:?}");
    let equal = "partitions with the same rows in other clusters".to_owned();
    assert!(found.checked.contains(&(equal, 2)), "{:?}", found.checked);
    found
}

#[test]
fn sites_come_to_rest_with_equal_rows() {
    for protocol in PROTOCOLS {
        for consistency in ConsistencyName::ALL {
            let options = SiteOptions {
                consistency,
                ..SiteOptions::default()
            };
            let found = run(&load(protocol, options), "tpcc");
            assert!(found.committed["new_order"] > 0, "{found:?}");
            let at_sites: u64 = found.by_site.iter().map(|site| site.committed).sum();
            assert_eq!(at_sites, found.all.committed);
            let conditions = found
                .checked
                .iter()
                .filter(|(what, _)| what.starts_with("assertion"));
            assert!(conditions.clone().count() >= 12);
            assert!(
                conditions.clone().all(|(_, count)| *count == 3),
                "at each site"
            );
        }
    }
}

/// The median of a site's commits is near its bound.
#[test]
fn commits_without_conflicts_take_what_the_network_permits() {
    let fast = SiteOptions {
        fast_decisions: true,
        ..SiteOptions::default()
    };
    let bounds = [
        (ProtocolName::Alvin, SiteOptions::default(), [80, 80, 120]),
        (ProtocolName::Alvin, fast, [60, 100, 100]),
        (ProtocolName::Epaxos, SiteOptions::default(), [40, 40, 60]),
        (
            ProtocolName::Multipaxos,
            SiteOptions::default(),
            [40, 80, 100],
        ),
    ];
    for (protocol, options, millis) in bounds {
        let load = load(protocol, options);
        let bound = |site| load.bound(site).commit;
        assert_eq!([0, 1, 2].map(bound), millis.map(Ticks::from_millis));
        let found = run_transfers(&load);
        for (site, latencies) in (0..).zip(&found.by_site) {
            let (least, median) = (bound(site).0 as f64, latencies.p50.0 as f64);
            assert!(
                (0.8..2.0).contains(&(median / least)),
                "{} at {site}: {latencies:?}, bound {least}",
                protocol.name()
            );
        }
    }
}

#[test]
fn two_runs_of_one_seed_are_the_same() {
    for protocol in PROTOCOLS {
        let load = load(protocol, SiteOptions::default());
        assert_eq!(run(&load, "bank"), run(&load, "bank"));
        let other = SiteLoad {
            seed: 4,
            ..load.clone()
        };
        assert_ne!(run(&other, "bank").trace, run(&load, "bank").trace);
    }
}

/// Each step takes 2 ms of a core: more cores do more at a time.
#[test]
fn more_cores_do_more() {
    let with_cores = |cores| SiteLoad {
        processor: Some(Processor {
            cores,
            costs: Costs {
                calibration: "none".to_owned(),
                message_nanos: 1_000.0,
                client_nanos: 1_000.0,
                guard_nanos: 0.0,
                steps: vec![StepCost {
                    step: "timer".to_owned(),
                    nanos: 2e6,
                    certified_nanos: 0.0,
                    steps: 1,
                }],
            },
        }),
        clients: 20,
        ..load(ProtocolName::Epaxos, SiteOptions::default())
    };
    let [one, eight] = [1, 8].map(|cores| run_transfers(&with_cores(cores)));
    assert!(one.utilization > Some(0.8), "{one:?}");
    assert!(
        eight.all.committed > 2 * one.all.committed,
        "{one:?} {eight:?}"
    );
}

#[test]
fn what_sites_cannot_run_is_refused() {
    let prepared = Prepared::for_sites("bank", 3).expect("a workload");
    let stores = prepared.stores(1, &network(), true).expect("rows");
    let refused = |load: SiteLoad| load.run(&prepared, &stores[0], None).expect_err("refused");
    let good = || load(ProtocolName::Epaxos, SiteOptions::default());
    let other = refused(load(ProtocolName::RampFast, SiteOptions::default()));
    assert!(matches!(other, CaseError::NoSites { .. }), "{other}");
    for wrong in [
        SiteLoad {
            sites: 10,
            ..good()
        },
        SiteLoad { sites: 0, ..good() },
        SiteLoad {
            clients: 0,
            ..good()
        },
        SiteLoad {
            measured: Ticks(0),
            ..good()
        },
        SiteLoad {
            calls: Some(0),
            ..good()
        },
    ] {
        let error = refused(wrong);
        assert!(matches!(error, CaseError::OutOfRange { .. }), "{error}");
    }
    let fast = SiteOptions {
        fast_decisions: true,
        ..SiteOptions::default()
    };
    let error = refused(load(ProtocolName::Epaxos, fast));
    assert!(matches!(error, CaseError::NoSites { .. }), "{error}");
}

/// A batch takes as many messages as a transaction, and certifies all of its own.
#[test]
fn a_batch_window_saves_messages_under_every_protocol() {
    for protocol in PROTOCOLS {
        let [alone, batched] = [0, 20].map(|millis| {
            let options = SiteOptions {
                batch_window: Ticks::from_millis(millis),
                ..SiteOptions::default()
            };
            run_transfers(&SiteLoad {
                clients: 40,
                ..load(protocol, options)
            })
        });
        assert!(
            4.0 * batched.messages < alone.messages,
            "{protocol:?}: {} of {}",
            batched.messages,
            alone.messages
        );
        assert!(batched.all.committed > 1_000, "{protocol:?}");
    }
}

/// Without a spread, a commit without conflicts takes exactly what the matrix says.
#[test]
fn without_a_spread_the_median_is_the_bound() {
    for (protocol, fast_decisions) in [
        (ProtocolName::Alvin, false),
        (ProtocolName::Alvin, true),
        (ProtocolName::Epaxos, false),
        (ProtocolName::Multipaxos, false),
    ] {
        let options = SiteOptions {
            fast_decisions,
            ..SiteOptions::default()
        };
        let load = SiteLoad {
            network: network().without_spread(),
            ..load(protocol, options)
        };
        let found = run_transfers(&load);
        for (site, at) in (0..).zip(&found.by_site) {
            let ratio = at.p50.0 as f64 / load.bound(site).commit.0 as f64;
            assert!(
                (0.99..1.05).contains(&ratio),
                "{protocol:?} {site}: {ratio}"
            );
        }
    }
}

/// Over guards most calls wait for nothing: the load ends by calls, and not before the other sites' effects arrive. The
/// conditions are checked at each site.
#[test]
fn a_load_ends_by_calls() {
    let by_calls = |order_over, calls| {
        let options = SiteOptions {
            order_over,
            ..SiteOptions::default()
        };
        SiteLoad {
            think: Ticks::from_millis(20),
            warmup: Ticks::from_millis(3_600_000),
            measured: Ticks::from_millis(3_600_000),
            calls: Some(calls),
            ..load(ProtocolName::Alvin, options)
        }
    };
    // 12 clients do about 600 calls a second.
    let found = run(&by_calls(OrderOver::Guards, 240), "tpcc");
    let committed = found.all.committed;
    assert!((240..250).contains(&committed), "{committed}");
    let millis = found.elapsed.0 as f64 / 1e6;
    assert!((200.0..1_000.0).contains(&millis), "{millis} ms");
    let rate = committed as f64 / (millis / 1e3);
    assert!((found.all_per_second() / rate - 1.0).abs() < 1e-6);
    assert!(found.alone > 0.9, "{}", found.alone);
    let conditions = found.checked.iter();
    let conditions = conditions.filter(|(what, _)| what.starts_with("assertion"));
    let at_each: Vec<u64> = conditions.map(|(_, count)| *count).collect();
    assert!(at_each.len() >= 12 && at_each.iter().all(|count| *count == 3));
    // Too few calls for the longest latency, which is 50 ms.
    let found = run(&by_calls(OrderOver::Guards, 2), "tpcc");
    assert!(found.elapsed >= Ticks::from_millis(50) && found.all.committed > 10);
    // Clients that wait for the network take their time.
    let found = run(&by_calls(OrderOver::Accesses, 40), "bank");
    assert!(
        (40..50).contains(&found.all.committed),
        "one step may answer several"
    );
    assert!(found.elapsed > Ticks::from_millis(100), "{found:?}");
}
