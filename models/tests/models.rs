//! Every model at a small size; `docs/models.md` has the larger ones.

use anabranch_models::explore::Limits;
use anabranch_models::model::{Model, Report, Size};

fn run(name: &str, size: Size) -> Report {
    let model = Model::named(name).expect("a model's name");
    let report = model.run(size, Limits::default()).expect("a small size");
    println!("{name} {size:?}: {:?}", report.visited);
    report
}

/// Checks that no violation is found in at least so many states.
#[track_caller]
fn holds(name: &str, size: Size, states_min: u64) {
    let report = run(name, size);
    if let Some(found) = report.found {
        panic!("{name} {size:?}:\n{}", found.story);
    }
    assert!(report.visited.complete);
    // A model with few states tests little.
    assert!(
        report.visited.states >= states_min,
        "{name} {size:?}: {:?}",
        report.visited
    );
}

/// Checks that a violation is found, with this number of steps.
#[track_caller]
fn finds(name: &str, size: Size, steps: usize, what: &str) {
    let found = run(name, size).found.expect("a self-test has a violation");
    println!("{}", found.story);
    assert!(found.what.contains(what), "{}", found.what);
    assert_eq!(found.steps, steps, "{}", found.story);
}

/// Two writers, two readers and two partitions, which the tests vary.
const TWO: Size = Size::TWO;

/// One reader, and all clients read one partition after the other.
const SEQUENTIAL_READS: Size = Size {
    readers: 1,
    sequential_reads: true,
    ..TWO
};

#[test]
fn ramp_shows_all_of_a_transaction_or_nothing() {
    holds("ramp", TWO, 5_000);
}

#[test]
fn ramp_shows_all_of_a_transaction_to_sequential_readers() {
    holds("ramp", SEQUENTIAL_READS, 500);
}

/// A client that is answered early may miss its own writes at another node; no reader sees a part of a transaction.
#[test]
fn one_phase_writes_show_all_of_a_transaction_or_nothing() {
    holds("ramp-one-phase", TWO, 5_000);
    let size = Size {
        writers: 1,
        remote_clients: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp-one-phase", size, 1_000);
}

/// A reader of a reply sees what it answers (ramp.txt §6.3), in every order of messages. Plain RAMP does not guarantee
/// that.
#[test]
fn causal_ramp_shows_what_a_reply_answers() {
    for name in ["causal", "causal-small"] {
        let one = Size { readers: 1, ..TWO };
        holds(name, one, 1_000);
        holds(name, SEQUENTIAL_READS, 1_000);
        let remote_clients = Size {
            remote_clients: true,
            ..SEQUENTIAL_READS
        };
        holds(name, remote_clients, 1_000);
    }
    let restarts = Size {
        readers: 1,
        restarts: 1,
        ..TWO
    };
    holds("causal", restarts, 10_000);
    finds("ramp-replies", SEQUENTIAL_READS, 13, "quotes a comment");
}

/// Sibling metadata and old versions are collected while readers run.
#[test]
fn ramp_shows_all_of_a_transaction_during_collection() {
    for (readers, jumps) in [(1, 3), (2, 1)] {
        let size = Size {
            writers: 1,
            readers,
            sequential_reads: true,
            jumps,
            ..TWO
        };
        holds("ramp", size, 10_000);
    }
}

/// A writer's coordinator crashes for ever; its messages arrive or not. The other clients do not wait.
#[test]
fn ramp_blocks_no_client_when_a_coordinator_crashes() {
    let size = Size {
        writers: 1,
        remote_clients: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp", size, 2_000);
    let size = Size {
        readers: 0,
        remote_clients: true,
        crashes: 1,
        ..TWO
    };
    holds("ramp", size, 500);
}

/// The protocols with false positives.
const INEXACT: [&str; 2] = ["ramp-small", "ramp-hybrid"];

#[test]
fn small_and_hybrid_show_all_of_a_transaction_or_nothing() {
    for name in INEXACT {
        holds(name, TWO, 5_000);
        let size = Size {
            readers: 1,
            sequential_reads: true,
            ..TWO
        };
        holds(name, size, 500);
    }
}

#[test]
fn small_and_hybrid_show_all_of_a_transaction_during_collection() {
    for name in INEXACT {
        let size = Size {
            writers: 1,
            readers: 1,
            sequential_reads: true,
            jumps: 3,
            ..TWO
        };
        holds(name, size, 10_000);
    }
}

/// A writer's coordinator crashes for ever, between any two of its messages.
#[test]
fn small_and_hybrid_block_no_client_when_a_coordinator_crashes() {
    for name in INEXACT {
        let size = Size {
            writers: 1,
            remote_clients: true,
            crashes: 1,
            ..TWO
        };
        holds(name, size, 2_000);
    }
}

#[test]
fn small_and_hybrid_show_all_of_a_transaction_when_a_node_restarts() {
    for name in INEXACT {
        let size = Size {
            readers: 1,
            restarts: 1,
            ..TWO
        };
        holds(name, size, 5_000);
    }
}

/// Cooperative termination: a coordinator without a partition crashes for ever, with its messages in flight. The
/// participants agree on the outcome, and readers have no fractured reads meanwhile.
#[test]
fn participants_agree_when_their_coordinator_crashes() {
    for name in ["ramp", "ramp-small", "ramp-hybrid"] {
        let size = Size {
            writers: 1,
            readers: 1,
            remote_clients: true,
            crashes: 1,
            terminates: true,
            ..TWO
        };
        holds(name, size, 1_000);
        let asks_early = Size {
            readers: 0,
            jumps: 1,
            ..size
        };
        holds(name, asks_early, 1_000);
    }
}

/// The same where the coordinator or the participants restart.
#[test]
fn participants_agree_when_nodes_restart() {
    for (restarts, jumps) in [(1, 1), (2, 0)] {
        let size = Size {
            writers: 1,
            readers: 0,
            remote_clients: true,
            terminates: true,
            restarts,
            jumps,
            ..TWO
        };
        holds("ramp", size, 500);
    }
}

#[test]
fn ramp_keeps_what_guards_protect() {
    let size = Size { writers: 3, ..TWO };
    holds("ramp-guards", size, 500);
}

#[test]
fn locking_is_serializable() {
    holds("locking", TWO, 5_000);
}

#[test]
fn locking_is_serializable_with_sequential_lock_requests() {
    holds("locking", SEQUENTIAL_READS, 500);
    holds("locking-undeclared", SEQUENTIAL_READS, 500);
}

/// Two transactions that wait by age lock two items in opposite orders, beside a declared one.
#[test]
fn locking_by_age_is_serializable_and_ends() {
    let size = Size { readers: 1, ..TWO };
    holds("locking-by-age", size, 1_000);
    let restarts = Size {
        restarts: 1,
        ..size
    };
    holds("locking-by-age", restarts, 10_000);
    let remote = Size {
        remote_clients: true,
        ..size
    };
    holds("locking-by-age", remote, 10_000);
}

/// A node crashes at any moment and restarts with its durable state. Each peer learns of it at its own time.
#[test]
fn ramp_shows_all_of_a_transaction_when_a_node_restarts() {
    holds("ramp", Size { restarts: 1, ..TWO }, 20_000);
}

#[test]
fn locking_is_serializable_when_a_node_restarts() {
    holds("locking", Size { restarts: 1, ..TWO }, 20_000);
    let size = Size {
        restarts: 1,
        ..SEQUENTIAL_READS
    };
    holds("locking-undeclared", size, 5_000);
}

/// Transactions that read one another's rows and rewrite their own, with and without commits at the snapshot.
#[test]
fn score_is_serializable() {
    let size = Size { readers: 1, ..TWO };
    for name in ["score", "bumper"] {
        holds(name, size, 500);
        let size = Size {
            sequential_reads: true,
            ..size
        };
        holds(name, size, 500);
    }
}

#[test]
fn score_is_serializable_when_a_node_restarts() {
    let size = Size {
        readers: 1,
        restarts: 1,
        ..TWO
    };
    for name in ["score", "bumper"] {
        holds(name, size, 500);
    }
}

/// Commit checks race commits in every order (trap 8 of E-PCI).
#[test]
fn e_pci_shows_all_of_a_transaction_or_nothing() {
    holds("e-pci", TWO, 5_000);
    holds("e-pci", SEQUENTIAL_READS, 1_500);
    let size = Size {
        remote_clients: true,
        readers: 1,
        ..TWO
    };
    holds("e-pci", size, 5_000);
}

/// With two partitions a reader that has read from a writer has received its `Commit` on the same link. A third
/// partition gives commit checks something to find.
#[test]
fn e_pci_checks_where_a_commit_has_not_arrived() {
    let size = Size {
        partitions: 3,
        writers: 1,
        ..TWO
    };
    holds("e-pci", size, 1_000);
}

/// Two conflicting batches at three sites: two decisions of one batch, or a dependency that is missed, are found here
/// wherever two sites and a recovery suffice for it. docs/models.md has the larger sizes.
#[test]
fn partial_order_broadcast_orders_conflicts_alike() {
    let size = Size {
        recoveries: 0,
        crashes: 1,
        ..TWO
    };
    holds("pob", size, 10_000);
    let size = Size {
        writers: 1,
        recoveries: 1,
        crashes: 1,
        restarts: 1,
        ..TWO
    };
    holds("pob", size, 1_000);
    holds("pob-fast", size, 1_000);
}

/// EPaxos: the first crash, restart and recoveries of one batch, and two batches without.
#[test]
fn epaxos_orders_conflicts_alike() {
    let size = Size {
        recoveries: 0,
        crashes: 1,
        ..TWO
    };
    holds("epaxos", size, 1_000);
    let size = Size {
        writers: 1,
        recoveries: 1,
        crashes: 1,
        restarts: 1,
        ..TWO
    };
    holds("epaxos", size, 1_000);
}

/// Three servers of the Conveyor Belt: one crash anywhere, one lost message, one abort.
#[test]
fn the_conveyor_belt_keeps_one_order() {
    let quiet = Size {
        writers: 1,
        recoveries: 0,
        ..TWO
    };
    for (restarts, crashes, recoveries) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let size = Size {
            restarts,
            crashes,
            recoveries,
            ..quiet
        };
        holds("belt", size, 100);
        holds("belt-removal", size, 100);
    }
    let two = Size {
        sites: 2,
        writers: 2,
        restarts: 1,
        ..quiet
    };
    holds("belt", two, 100);
}

/// The first states of two batches with recoveries: some of them at rest.
#[test]
fn orderers_recover_conflicting_batches() {
    let limits = Limits {
        states_max: 40_000,
        ..Limits::default()
    };
    for name in ["pob", "pob-fast", "epaxos"] {
        let model = Model::named(name).expect("a model's name");
        let size = Size {
            recoveries: 2,
            crashes: 1,
            ..TWO
        };
        let report = model.run(size, limits).expect("a small size");
        println!("{name} {size:?}: {:?}", report.visited);
        if let Some(found) = report.found {
            panic!("{name} {size:?}:\n{}", found.story);
        }
        assert!(report.visited.ends > 0, "{name}: {:?}", report.visited);
    }
}

/// The self-tests: planted bugs and weaker protocols are found, in the fewest steps.
#[test]
fn self_tests_find_their_violations() {
    finds("nwnr", TWO, 5, "fractured");
    finds("ramp-without-second-round", TWO, 7, "fractured");
    let size = Size {
        writers: 1,
        ..SEQUENTIAL_READS
    };
    finds("locking-short", size, 11, "no serial order");
    finds("lwnr", size, 11, "no serial order");
}

/// Skipping orders saves steps and loses no state.
#[test]
fn reduction_loses_no_state() {
    let size = Size {
        jumps: 1,
        ..SEQUENTIAL_READS
    };
    for (name, size) in [("ramp", size), ("locking", TWO)] {
        let model = Model::named(name).expect("a model's name");
        let [reduced, every] = [true, false].map(|reduce| {
            let limits = Limits {
                reduce,
                ..Limits::default()
            };
            model.run(size, limits).expect("a small size").visited
        });
        assert_eq!(reduced.states, every.states, "{name}");
        assert_eq!(reduced.ends, every.ends, "{name}");
        assert!(reduced.steps < every.steps, "{name}: {reduced:?} {every:?}");
    }
}

#[test]
fn a_size_that_is_too_large_is_refused() {
    let model = Model::named("ramp").expect("a model's name");
    let size = Size {
        writers: 5,
        readers: 4,
        ..TWO
    };
    assert!(model.run(size, Limits::default()).is_err());
}

/// Three copies of two partitions, one of which may crash or restart. There are millions of states; docs/models.md has
/// the commands. Here only the first states are visited, some of them at rest.
#[test]
fn quorums_show_all_of_a_transaction_or_nothing() {
    let limits = Limits {
        states_max: 30_000,
        ..Limits::default()
    };
    let model = Model::named("ramp-quorum").expect("a model's name");
    for (readers, crashes, restarts) in [(1, 0, 0), (1, 1, 0), (0, 0, 1)] {
        let size = Size {
            writers: 1,
            readers,
            crashes,
            restarts,
            ..TWO
        };
        let report = model.run(size, limits).expect("a small size");
        println!("ramp-quorum {size:?}: {:?}", report.visited);
        if let Some(found) = report.found {
            panic!("{size:?}:\n{}", found.story);
        }
        assert!(report.visited.ends > 0, "{size:?}: {:?}", report.visited);
    }
}
