//! RAMP-Small and RAMP-Hybrid where they differ from RAMP-Fast. Each scenario runs under RAMP-Small, and under
//! RAMP-Hybrid with filters that seldom err and that always do.

use anabranch_protocol::ramp::{Metadata, RampNode, RampOptions};
use anabranch_protocol::{AbortReason, PartitionEffects, Reply, Request, TransactionId};
use anabranch_types::{Fetched, NodeId, Ticks};

use crate::ramp::scenarios::*;
use crate::ramp::{cluster_with, inexact};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

fn cluster_of(metadata: Metadata) -> Cluster<RampNode> {
    cluster_short(metadata, Ticks::from_millis(500))
}

fn cluster_short(metadata: Metadata, window: Ticks) -> Cluster<RampNode> {
    let options = RampOptions {
        metadata,
        ..RampOptions::default()
    };
    cluster_with(4, window, options)
}

/// Delivers everything from and to one node, and nothing else.
fn serve(cluster: &mut Cluster<RampNode>, node: NodeId) {
    let concerns = |link: &(NodeId, NodeId)| link.0 == node || link.1 == node;
    while let Some((from, to)) = cluster.busy_links().into_iter().find(concerns) {
        cluster.deliver(from, to);
    }
}

/// A transaction that is prepared on both partitions, and installed at one owner only.
fn half_committed(
    cluster: &mut Cluster<RampNode>,
    effects: Vec<PartitionEffects>,
    installed_at: NodeId,
) -> TransactionId {
    let writer = cluster.begin(C1);
    cluster.request(writer, Request::Commit(effects));
    prepare(cluster, C1, &[X, Y]);
    cluster.deliver(C1, installed_at);
    writer
}

/// ramp.txt, Figure 3: the race of Figure 2 under RAMP-Small. The second round names the transactions that the first
/// has met. An owner whose snapshot includes them all confirms it, without rows.
#[test]
fn figure_3() {
    let mut cluster = cluster_of(Metadata::Small);
    cluster.record_as(&["Px", "Py", "C1", "C2"], words);
    let t1 = cluster.begin_named(C1, "T1");
    let t2 = cluster.begin_named(C2, "T2");
    cluster.request(t1, Request::Commit(set_both(1)));
    prepare(&mut cluster, C1, &[X, Y]);
    cluster.note("-- both have prepared; Commit reaches Px and is delayed to Py");
    cluster.deliver(C1, X);
    cluster.request(t2, Request::Read(read_both()));
    cluster.note("-- the first round");
    serve(&mut cluster, C2);
    assert_eq!(registers(cluster.take_reply(t2)), [1, 1]);
    cluster.note("-- T3 reads beside what T1 wrote at Py: to know that, it has to ask");
    let t3 = cluster.begin_named(C2, "T3");
    let beside = vec![read_item(0, 0), read_item(1, 1)];
    cluster.request(t3, Request::Read(beside));
    serve(&mut cluster, C2);
    assert_eq!(registers(cluster.take_reply(t3)), [1, 0]);
    cluster.note("-- T1 goes on undisturbed");
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(t1)));
    let expected = include_str!("figure_3.txt");
    let actual = cluster.transcript();
    assert!(actual == expected, "the transcript is now:\n{actual}");
}

/// History 1, whichever owner installs a transaction first, and whichever is asked first, in one batch or two.
#[test]
fn reads_are_never_fractured() {
    for metadata in inexact() {
        for (installed_at, together) in [(X, true), (Y, true), (X, false), (Y, false)] {
            let mut cluster = cluster_of(metadata);
            let t1 = half_committed(&mut cluster, set_both(1), installed_at);
            let reader = cluster.begin(C2);
            let mut seen = Vec::new();
            let batches = match together {
                true => vec![read_both()],
                false => read_both().into_iter().map(|read| vec![read]).collect(),
            };
            for batch in batches {
                cluster.request(reader, Request::Read(batch));
                serve(&mut cluster, C2);
                match cluster.take_reply(reader) {
                    Some(Reply::Aborted(AbortReason::Fractured)) => {
                        // It had got the old row before it met the new one.
                        assert!(!together && installed_at == Y, "{metadata:?}");
                        seen.clear();
                        break;
                    }
                    reply => seen.extend(registers(reply)),
                }
            }
            assert!(seen.is_empty() || seen == [1, 1], "{metadata:?}: {seen:?}");
            cluster.deliver_all();
            assert!(is_committed(cluster.take_reply(t1)));
        }
    }
}

/// Rows given to an interactive reader cannot be taken back: it is restarted if its view would fracture, and only then.
/// Where metadata do not say what a transaction wrote, the owner does.
#[test]
fn a_reader_is_restarted_for_what_it_has_read_and_for_nothing_else() {
    for metadata in inexact() {
        for (written, expected) in [(0, None), (1, Some(1))] {
            let mut cluster = cluster_of(metadata);
            let reader = cluster.begin(C2);
            let first = cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
            assert_eq!(registers(Some(first)), [0]);
            let t1 = cluster.begin(C1);
            let effects = vec![
                on(0, vec![update(SET, 0, written, 1)]),
                on(1, vec![update(SET, 1, 0, 1)]),
            ];
            assert!(is_committed(Some(
                cluster.ask(t1, Request::Commit(effects))
            )));
            let reply = cluster.ask(reader, Request::Read(vec![read_item(1, 0)]));
            let Some(value) = expected else {
                assert_eq!(reason(Some(reply)), AbortReason::Fractured, "{metadata:?}");
                continue;
            };
            assert_eq!(registers(Some(reply)), [value], "{metadata:?}");
            // No snapshot includes what T1 wrote here and lacks what it wrote there.
            let reply = cluster.ask(reader, Request::Read(vec![read_item(0, 1)]));
            let why = reason(Some(reply));
            let expected = [AbortReason::Fractured, AbortReason::BelowFloor];
            assert!(expected.contains(&why), "{metadata:?}: {why:?}");
        }
    }
}

/// The same where the reader has one of the rows from its own partition.
#[test]
fn a_reader_is_restarted_for_what_it_has_read_on_its_own_partition() {
    for metadata in inexact() {
        for (written, fractures) in [(0, true), (1, false)] {
            let mut cluster = cluster_of(metadata);
            let reader = cluster.begin(X);
            cluster.ask(reader, Request::Read(vec![read_item(0, 0)]));
            let t1 = cluster.begin(C1);
            let effects = vec![
                on(0, vec![update(SET, 0, written, 1)]),
                on(1, vec![update(SET, 1, 0, 1)]),
            ];
            assert!(is_committed(Some(
                cluster.ask(t1, Request::Commit(effects))
            )));
            let reply = Some(cluster.ask(reader, Request::Read(vec![read_item(1, 0)])));
            match fractures {
                true => assert_eq!(reason(reply), AbortReason::Fractured, "{metadata:?}"),
                false => assert_eq!(registers(reply), [1], "{metadata:?}"),
            }
        }
    }
}

/// Trap 1: the second round reaches an owner that has forgotten the transaction asked for. The owner answers from a
/// newer snapshot, or refuses; no reader gets the older row beside the newer one.
#[test]
fn a_reader_slower_than_the_window_is_restarted() {
    for metadata in inexact() {
        let mut cluster = cluster_of(metadata);
        let t1 = half_committed(&mut cluster, set_both(1), X);
        let reader = cluster.begin(C2);
        cluster.request(reader, Request::Read(read_both()));
        // Both answer the first round; the request of the second is slow.
        for node in [X, Y] {
            cluster.deliver(C2, node);
        }
        for node in [X, Y] {
            cluster.deliver(node, C2);
        }
        assert!(cluster.under_way(C2, Y) > 0, "{metadata:?} asks again");
        // T1 is committed everywhere and forgotten.
        cluster.deliver(C1, Y);
        for node in [X, Y] {
            cluster.deliver(node, C1);
        }
        assert!(is_committed(cluster.take_reply(t1)));
        for _ in 0..80 {
            cluster.advance(Ticks::from_millis(20));
            for node in [X, Y] {
                let writer = cluster.begin(node);
                let set = vec![on(node.0, vec![update(SET, node.0, 1, 1)])];
                cluster.request(writer, Request::Commit(set));
                assert!(is_committed(cluster.take_reply(writer)));
                while cluster.under_way(C1, node) > 0 {
                    cluster.deliver(C1, node);
                }
            }
        }
        serve(&mut cluster, C2);
        let reply = cluster.take_reply(reader);
        assert_eq!(reason(reply), AbortReason::BelowFloor, "{metadata:?}");
        assert_eq!(registers(read(&mut cluster, C2, read_both())), [1, 1]);
    }
}

/// Trap 2: a prepared write may be older than the item's newest version, and still be the sibling that is visible at
/// another partition.
#[test]
fn a_delayed_commit_is_found_beneath_an_overwrite() {
    for metadata in inexact() {
        let mut cluster = cluster_short(metadata, Ticks::from_millis(1));
        let effects = vec![
            on(0, vec![update(ADD, 0, 0, 1)]),
            on(1, vec![update(ADD, 1, 0, 1)]),
        ];
        half_committed(&mut cluster, effects, X);
        for _ in 0..50 {
            cluster.advance(Ticks::from_millis(1));
            for (node, part) in [(X, 0), (Y, 1)] {
                let writer = cluster.begin(node);
                let add = vec![on(part, vec![update(ADD, part, 0, 0)])];
                cluster.request(writer, Request::Commit(add));
            }
        }
        let reader = cluster.begin(C2);
        cluster.request(reader, Request::Read(read_both()));
        serve(&mut cluster, C2);
        assert_eq!(counts(cluster.take_reply(reader)), [1, 1], "{metadata:?}");
    }
}

/// Trap 10: two transactions add to a total and insert a row each, and their commits cross. The rows are read by a
/// range of the table, and of its index.
#[test]
fn crossed_increments_are_seen_with_their_rows() {
    for metadata in inexact() {
        for entries in [read_entries(1), read_entries_of(1, 7)] {
            let mut cluster = cluster_of(metadata);
            let post = |id| {
                vec![
                    on(0, vec![update(ADD, 0, 0, 1)]),
                    on(1, vec![insert(1, id, 7, 1)]),
                ]
            };
            let (t1, t2) = (cluster.begin(C1), cluster.begin(C2));
            cluster.request(t1, Request::Commit(post(1)));
            cluster.request(t2, Request::Commit(post(2)));
            prepare(&mut cluster, C1, &[X, Y]);
            prepare(&mut cluster, C2, &[X, Y]);
            // The total gets T1's increment and then T2's; of the rows only T2's is visible.
            cluster.deliver(C1, X);
            cluster.deliver(C2, X);
            cluster.deliver(C2, Y);
            let reader = cluster.begin(X);
            cluster.request(
                reader,
                Request::Read(vec![read_item(0, 0), entries.clone()]),
            );
            let between = |link: &(NodeId, NodeId)| matches!(*link, (X, Y) | (Y, X));
            while let Some((from, to)) = cluster.busy_links().into_iter().find(between) {
                cluster.deliver(from, to);
            }
            let read = fetched(cluster.take_reply(reader));
            assert_eq!(item(&read[0]), Some((0, 2)));
            let both = [[1, 1, 7, 1], [1, 2, 7, 1]];
            assert_eq!(rows(ENTRY, &read[1]), both, "{metadata:?}");
        }
    }
}

/// A row whose key is drawn at commit is in no filter, and a reader of its key must find it.
#[test]
fn a_row_with_a_drawn_key_is_found() {
    for metadata in inexact() {
        let mut cluster = cluster_of(metadata);
        let effects = vec![
            on(0, vec![update(SET, 0, 0, 1)]),
            on(1, vec![draw(1, 0, 0), insert_drawn(1, 0, 0, 7, 5)]),
        ];
        half_committed(&mut cluster, effects, X);
        let reader = cluster.begin(C2);
        let both = vec![read_item(0, 0), read_entry(1, 1)];
        cluster.request(reader, Request::Read(both));
        serve(&mut cluster, C2);
        let read = fetched(cluster.take_reply(reader));
        assert_eq!(item(&read[0]), Some((1, 0)));
        assert!(matches!(read[1], Fetched::Point(Some(_))), "{metadata:?}");
    }
}

/// A row that moves to another partition leaves no version in a range of a secondary index.
#[test]
fn a_moved_row_is_found_on_its_new_partition() {
    for metadata in inexact() {
        let mut cluster = cluster_short(metadata, Ticks::from_millis(1));
        let t0 = cluster.begin(C1);
        cluster.ask(t0, Request::Commit(vec![on(0, vec![insert(0, 1, 7, 5)])]));
        let moved = vec![on(0, vec![delete(0, 1)]), on(1, vec![insert(1, 1, 7, 5)])];
        half_committed(&mut cluster, moved, X);
        let reader = cluster.begin(C2);
        let both = vec![read_entries_of(0, 7), read_entries_of(1, 7)];
        cluster.request(reader, Request::Read(both));
        serve(&mut cluster, C2);
        let read = fetched(cluster.take_reply(reader));
        assert_eq!(rows(ENTRY, &read[0]), [[0; 4]; 0], "{metadata:?}");
        assert_eq!(rows(ENTRY, &read[1]), [[1, 1, 7, 5]], "{metadata:?}");
    }
}

/// Trap 6: a full filter costs readers requests in vain, and nothing else: an owner that does not know the transaction
/// confirms the snapshot, and no reader restarts. The request is counted as a false positive.
#[test]
fn a_false_positive_costs_a_request() {
    let [small, hybrid, full] = inexact();
    for (metadata, asks, in_vain) in [(small, 1, 0), (hybrid, 0, 0), (full, 1, 1)] {
        let mut cluster = cluster_of(metadata);
        let t1 = cluster.begin(C1);
        // Nothing is written at y.
        let effects = vec![
            on(0, vec![update(SET, 0, 0, 1)]),
            on(2, vec![update(SET, 2, 0, 1)]),
        ];
        cluster.request(t1, Request::Commit(effects));
        cluster.deliver(C1, X);
        cluster.deliver(X, C1);
        cluster.deliver(C1, X);
        let reader = cluster.begin(C2);
        cluster.request(reader, Request::Read(read_both()));
        serve(&mut cluster, C2);
        assert_eq!(
            registers(cluster.take_reply(reader)),
            [1, 0],
            "{metadata:?}"
        );
        let counters = cluster.counters();
        assert_eq!(counters.second_rounds, asks, "{metadata:?}");
        assert_eq!(counters.false_positives, in_vain, "{metadata:?}");
        assert_eq!(counters.repairs, 0, "{metadata:?}");
    }
}

/// Where no transaction in flight has written what is read, RAMP-Small needs no second round either.
#[test]
fn a_stable_transaction_needs_no_second_round() {
    let [small, hybrid, full] = inexact();
    for (metadata, asks) in [(small, 1), (hybrid, 0), (full, 1)] {
        let mut cluster = cluster_of(metadata);
        let t1 = cluster.begin(C1);
        let effects = vec![
            on(0, vec![update(SET, 0, 0, 1)]),
            on(2, vec![update(SET, 2, 0, 1)]),
        ];
        cluster.request(t1, Request::Commit(effects));
        cluster.deliver(C1, X);
        cluster.deliver(X, C1);
        cluster.deliver(C1, X);
        // T1 is acknowledged between the first reader and the second.
        for _ in 0..2 {
            let seen = registers(read(&mut cluster, C1, read_both()));
            assert_eq!(seen, [1, 0], "{metadata:?}");
            assert_eq!(cluster.counters().second_rounds, asks, "{metadata:?}");
        }
        assert!(is_committed(cluster.take_reply(t1)));
    }
}

/// A snapshot includes an owner's transactions up to its watermark of when it took the snapshot. The answer to a later
/// request that confirms the snapshot carries a later watermark.
#[test]
fn the_watermark_of_a_later_answer_does_not_hold_for_the_snapshot() {
    for metadata in inexact() {
        let mut cluster = cluster_of(metadata);
        // The second round will ask y for T1, which wrote nothing there that is read.
        let other = vec![
            on(0, vec![update(SET, 0, 0, 1)]),
            on(1, vec![update(SET, 1, 7, 1)]),
        ];
        half_committed(&mut cluster, other, X);
        let reader = cluster.begin(C2);
        cluster.request(reader, Request::Read(read_both()));
        for node in [X, Y] {
            cluster.deliver(C2, node);
        }
        for node in [X, Y] {
            cluster.deliver(node, C2);
        }
        // Y's own T2 writes y and z, and is committed everywhere before the second round comes.
        let t2 = cluster.begin(Y);
        let both = vec![
            on(1, vec![update(SET, 1, 0, 2)]),
            on(2, vec![update(SET, 2, 0, 2)]),
        ];
        cluster.request(t2, Request::Commit(both));
        for link in [(Y, C1), (C1, Y), (Y, C1), (C1, Y)] {
            while cluster.under_way(link.0, link.1) > 0 {
                cluster.deliver(link.0, link.1);
            }
        }
        assert!(is_committed(cluster.take_reply(t2)));
        serve(&mut cluster, C2);
        let seen = registers(cluster.take_reply(reader));
        assert_eq!(seen[0], 1);
        let reply = cluster.ask(reader, Request::Read(vec![read_item(2, 0)]));
        match reply {
            Reply::Aborted(AbortReason::Fractured) => assert_eq!(seen[1], 0, "{metadata:?}"),
            reply => assert_eq!(registers(Some(reply)), [seen[1]], "{metadata:?}"),
        }
    }
}
