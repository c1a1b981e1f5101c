//! Thousands of random schedules under the checker, each from a seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_protocol::nwnr::NwnrNode;
use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, Counters, Protocol, Reply, Request, Topology};
use anabranch_types::{NodeId, Ticks};

use crate::ramp::{cluster, cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture;
use crate::support::mix::{Checker, Recipe, clients, last_look, read_guarded};
use crate::support::random::Random;
use crate::support::schedule::{Client, Pace, run};

/// Runs a mix and a last read of everything, and checks both.
fn check<P: Protocol>(
    cluster: &mut Cluster<P>,
    recipe: Recipe,
    seed: u64,
) -> Result<Retries, String> {
    let mut random = Random::new(seed);
    let clients = clients(recipe, &mut random);
    for skew in &mut cluster.skew {
        *skew = Ticks::from_millis(random.below(3) * 7);
    }
    let pace = Pace::default();
    let mut runs = run(cluster, clients, pace, &mut random);
    let turn = runs.iter().map(|run| run.turns.1).max().unwrap_or(0) + 1;
    let last = Client {
        node: NodeId(0),
        procedures: last_look(recipe.partitions).into(),
    };
    let mut last_reads = run(cluster, vec![last], pace, &mut random);
    for look in &mut last_reads {
        look.turns = (turn, turn);
    }
    runs.extend(last_reads);
    let checker = Checker::new(&runs);
    checker.check()?;
    if recipe.guards {
        // A reader at a node that has been quiet restarts with the floor that an owner reports: at most once for each
        // owner.
        let mut tries = (0..=cluster.nodes.len()).map(|_| {
            let transaction = cluster.begin(NodeId(1));
            (
                transaction,
                cluster.ask(transaction, Request::Read(read_guarded())),
            )
        });
        let stale = |reply: &Reply| matches!(reply, Reply::Aborted(AbortReason::BelowFloor));
        let Some((transaction, Reply::Fetched(ends))) = tries.find(|(_, reply)| !stale(reply))
        else {
            return Err("the last read is refused".to_string());
        };
        cluster.ask(transaction, Request::Commit(vec![]));
        checker.check_guarded(&ends)?;
    }
    let mut retries = Retries::new();
    for reason in runs.iter().flat_map(|run| &run.retries) {
        *retries.entry(reason.name()).or_default() += 1;
    }
    Ok(retries)
}

/// How often a procedure was run again, by reason.
type Retries = BTreeMap<&'static str, u64>;

struct Sweep {
    counters: Counters,
    retries: Retries,
}

fn sweep(
    seeds: std::ops::Range<u64>,
    recipe: Recipe,
    window: Ticks,
    options: RampOptions,
) -> Sweep {
    let mut sum = Sweep {
        counters: Counters::default(),
        retries: Retries::new(),
    };
    for seed in seeds {
        let mut cluster = cluster_with(recipe.partitions, window, options);
        match check(&mut cluster, recipe, seed) {
            Ok(retries) => {
                retries
                    .into_iter()
                    .for_each(|(why, n)| *sum.retries.entry(why).or_default() += n);
            }
            Err(anomaly) => panic!("seed {seed} of {recipe:?}: {anomaly}"),
        }
        cluster.advance(Ticks::from_millis(100));
        cluster.deliver_all();
        for node in &cluster.nodes {
            assert!(node.is_idle(), "seed {seed}: a node is not idle at the end");
            node.store()
                .check_invariants()
                .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        sum.counters.add(&cluster.counters());
    }
    println!("{:?} {:?}", sum.counters, sum.retries);
    sum
}

const WINDOW: Ticks = Ticks::from_millis(500);

#[test]
fn every_schedule_of_two_partitions_is_read_atomic() {
    let recipe = Recipe {
        partitions: 2,
        clients: 6,
        procedures: 12,
        guards: false,
    };
    let Sweep { counters, retries } = sweep(0..1500, recipe, WINDOW, RampOptions::default());
    // Reachability: a run without races would prove nothing.
    assert!(counters.second_rounds > 100, "{counters:?}");
    assert!(retries["fractured"] > 100, "{retries:?}");
}

#[test]
fn every_schedule_of_three_partitions_is_read_atomic() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: false,
    };
    let Sweep { counters, retries } = sweep(10_000..11_500, recipe, WINDOW, RampOptions::default());
    assert!(counters.second_rounds > 100, "{counters:?}");
    assert!(retries["fractured"] > 100, "{retries:?}");
}

#[test]
fn every_schedule_with_guards_keeps_them() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: true,
    };
    let Sweep { counters, retries } = sweep(20_000..21_500, recipe, WINDOW, RampOptions::default());
    assert!(counters.second_rounds > 100, "{counters:?}");
    assert!(retries["conflict"] > 100, "{retries:?}");
}

/// The same under RAMP-Small and RAMP-Hybrid, with filters that seldom err and that always do.
#[test]
fn every_schedule_with_inexact_metadata_is_read_atomic() {
    for (at, metadata) in (0..).zip(inexact()) {
        for (partitions, guards) in [(2, false), (3, true)] {
            let recipe = Recipe {
                partitions,
                clients: 6,
                procedures: 12,
                guards,
            };
            let options = RampOptions {
                metadata,
                ..RampOptions::default()
            };
            let first = 40_000 + at * 2_000 + u64::from(partitions) * 600;
            let Sweep { counters, retries } = sweep(first..first + 600, recipe, WINDOW, options);
            assert!(counters.repairs > 50, "{metadata:?}: {counters:?}");
            assert!(retries["fractured"] > 50, "{metadata:?}: {retries:?}");
            let errs = matches!(metadata, Metadata::Hybrid(size) if size.bits() == 1);
            assert_eq!(
                counters.false_positives > 1_000,
                errs,
                "{metadata:?}: {counters:?}"
            );
        }
    }
}

/// A prepared transaction commits below what was installed after its vote. The versions that decide between the writers
/// of a register are kept until then.
#[test]
fn seed_20804_keeps_what_decides_against_a_late_writer() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: true,
    };
    sweep(20_804..20_805, recipe, WINDOW, RampOptions::default());
}

/// Trap 1: a reader that is slower than the window restarts, and never gets a fractured view.
#[test]
fn every_schedule_with_a_short_window_is_read_atomic() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: true,
    };
    let options = RampOptions {
        announce_after: Ticks::from_micros(200),
        retain: Ticks::from_millis(1),
        ..RampOptions::default()
    };
    let window = Ticks::from_micros(300);
    let Sweep { counters, retries } = sweep(30_000..31_000, recipe, window, options);
    assert!(counters.second_rounds > 100, "{counters:?}");
    assert!(retries["below_floor"] > 100, "{retries:?}");
}

/// Trap 1 again: owners under RAMP-Small and RAMP-Hybrid cannot distinguish what they have forgotten from what was
/// never there.
#[test]
fn every_schedule_with_inexact_metadata_and_a_short_window_is_read_atomic() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: true,
    };
    for (at, metadata) in (0..).zip(inexact()) {
        let options = RampOptions {
            announce_after: Ticks::from_micros(200),
            retain: Ticks::from_millis(1),
            metadata,
            ..RampOptions::default()
        };
        let first = 60_000 + at * 1_000;
        let window = Ticks::from_micros(300);
        let Sweep { counters, retries } = sweep(first..first + 400, recipe, window, options);
        assert!(counters.second_rounds > 100, "{metadata:?}: {counters:?}");
        assert!(retries["below_floor"] > 50, "{metadata:?}: {retries:?}");
    }
}

/// A transaction that holds up the watermark becomes an exception at once. Below the watermark, readers and owners know
/// different exceptions, and readers get the metadata of all that they do not know to be stable.
#[test]
fn every_schedule_with_exceptions_is_read_atomic() {
    let exact = [Metadata::Fast].into_iter();
    for (at, metadata) in (0..).zip(exact.chain(inexact())) {
        // Remembered for a long time, for a long time unless gossip ends it, and for a short time.
        for (retain, gossip_after, window) in [
            (500_000, None, WINDOW),
            (500_001, Some(Ticks::from_micros(100)), WINDOW),
            (1_000, None, Ticks::from_micros(300)),
        ] {
            let recipe = Recipe {
                partitions: 3,
                clients: 6,
                procedures: 12,
                guards: true,
            };
            let options = RampOptions {
                announce_after: Ticks::from_micros(200),
                retain: Ticks::from_micros(retain),
                gossip_after,
                except_after: Ticks::from_micros(at % 3 * 50),
                except_behind: 0,
                exceptions_max: 3,
                metadata,
                ..RampOptions::default()
            };
            let first = 80_000 + at * 2_000 + retain % 1_001;
            let Sweep { counters, retries } = sweep(first..first + 400, recipe, window, options);
            assert!(counters.exceptions > 100, "{metadata:?}: {counters:?}");
            assert!(counters.second_rounds > 100, "{metadata:?}: {counters:?}");
            println!("{metadata:?} {retain}: {counters:?} {retries:?}");
        }
    }
}

/// The checker's self-test (trap 9): without concurrency control it must find fractures, stale
/// totals and uncounted orders.
#[test]
fn the_checker_finds_the_fractures_of_nwnr() {
    let recipe = Recipe {
        partitions: 2,
        clients: 6,
        procedures: 12,
        guards: false,
    };
    let mut found = BTreeMap::new();
    for seed in 0..300 {
        let topology = Arc::new(Topology::one_each(2));
        let node = |part| {
            let store = fixture::store(part, 8, WINDOW);
            NwnrNode::new(NodeId(part), topology.clone(), store, fixture::programs())
        };
        let mut cluster = Cluster::new(vec![node(0), node(1)]);
        if let Err(anomaly) = check(&mut cluster, recipe, seed) {
            let kind = ["fractured", "the total is", "orders name"];
            let kind = kind
                .into_iter()
                .find(|kind| anomaly.contains(kind))
                .unwrap_or("other");
            *found.entry(kind).or_insert(0) += 1;
        }
    }
    for kind in ["fractured", "the total is", "orders name"] {
        assert!(
            found.get(kind).is_some_and(|&count| count > 5),
            "{kind}: {found:?}"
        );
    }
}

/// The same seed gives the same run, message for message.
#[test]
fn a_seed_runs_the_same_twice() {
    let recipe = Recipe {
        partitions: 3,
        clients: 6,
        procedures: 12,
        guards: true,
    };
    let transcript = || {
        let mut cluster: Cluster<RampNode> = cluster(3);
        cluster.record();
        check(&mut cluster, recipe, 7).expect("the sweeps check it");
        cluster.transcript()
    };
    let first = transcript();
    assert!(first.lines().count() > 500);
    assert_eq!(first, transcript());
}
