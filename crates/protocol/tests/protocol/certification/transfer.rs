//! State transfers: sites that keep few batches for others, and one that was away.

use anabranch_protocol::certification::{CertificationSite, Consistency};
use anabranch_protocol::order::pob::{PobOptions, PobSite};
use anabranch_protocol::order::{Orderer, SiteId};
use anabranch_protocol::{
    AbortReason, Durable, Protocol, Record, Reply, Request, Topology, TransactionId,
};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{NodeId, Ticks};

use crate::certification::consistency::between;
use crate::certification::{Site, WINDOW, commit, entries_at, fetch, item_at, reads, rows, settle};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

/// The items of each test.
const ITEMS: i64 = 8;

/// The site that is away.
const AWAY: u16 = 2;

/// A site that keeps nothing for the others, and sends states row by row.
fn site(number: u16, store: Store) -> Site {
    let options = PobOptions {
        retained_max: 0,
        ..PobOptions::new(SiteId(number as u8), 3)
    };
    let site = CertificationSite::new(
        NodeId(number),
        &Topology::clusters(3, 1, number),
        PobSite::new(options).expect("a supported number of sites"),
        store,
        programs(),
        Consistency::Serializable,
    );
    site.with_part_bytes(1)
}

fn sites() -> Cluster<Site> {
    let loaded = store(0, ITEMS, WINDOW);
    let mut cluster = Cluster::new((0..3).map(|number| site(number, loaded.clone())).collect());
    cluster.keep_logs();
    cluster
}

fn crash(cluster: &mut Cluster<Site>, number: u16, from_checkpoint: bool) {
    if from_checkpoint {
        let mut records: Vec<Record> = Vec::new();
        cluster.nodes[usize::from(number)].checkpoint(&mut |record| records.push(record));
        cluster.logs[usize::from(number)] = records;
    }
    let empty = Store::new(&schema(), StoreSettings { window: WINDOW });
    cluster.restart(NodeId(number), site(number, empty));
}

/// Loses what is under way to and from the site that is away.
fn lose(cluster: &mut Cluster<Site>) {
    for other in [0, 1] {
        cluster.lose(NodeId(other), NodeId(AWAY));
        cluster.lose(NodeId(AWAY), NodeId(other));
    }
}

/// Lets the others go on for `millis` without the site that is away.
fn without(cluster: &mut Cluster<Site>, millis: u64) {
    for _ in 0..millis / 100 {
        between(cluster, 0, 1);
        lose(cluster);
        cluster.advance(Ticks::from_millis(100));
    }
    between(cluster, 0, 1);
    lose(cluster);
}

/// The others change some items, insert and delete, and discard what the site that is away lacks.
fn go_on_without(cluster: &mut Cluster<Site>) {
    for (number, site) in (0..6).zip([0, 1].into_iter().cycle()) {
        let id = reads(cluster, site, vec![read_item(0, 7)]);
        let effects = vec![
            update(ADD, 0, 6, 1),
            insert(0, 100 + number, number % 2, number),
        ];
        commit(cluster, id, vec![on(0, effects)]);
        without(cluster, 200);
    }
    let gone = reads(cluster, 0, vec![read_entry(0, 101)]);
    commit(
        cluster,
        gone,
        vec![on(0, vec![delete(0, 101), delete_item(0, 5)])],
    );
    without(cluster, 20_000);
    assert!(cluster.take_reply(gone).is_some());
    let kept = |site: usize| cluster.nodes[site].orderer().known().count();
    assert_eq!([kept(0), kept(1)], [0; 2], "the others have discarded all");
}

fn transfers(cluster: &Cluster<Site>) -> u64 {
    let site = &cluster.nodes[usize::from(AWAY)];
    site.orderer().counters().transfers
}

fn has_committed(reply: Option<Reply>) -> bool {
    match reply {
        Some(Reply::Committed { .. }) => true,
        Some(Reply::Aborted(AbortReason::Conflict)) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_site_that_was_away_goes_on_with_the_state_of_another() {
    for from_checkpoint in [false, true] {
        let mut cluster = sites();
        go_on_without(&mut cluster);
        crash(&mut cluster, AWAY, from_checkpoint);
        settle(&mut cluster);
        assert_eq!(transfers(&cluster), 1);
        assert_eq!(item_at(&cluster, AWAY, 6), (0, 6));
        assert_eq!(entries_at(&cluster, AWAY).len(), 5);
        assert!(cluster.nodes.iter().all(Site::is_idle));
        // Certification goes on: what is current commits, what is not aborts.
        let stale = reads(&mut cluster, AWAY, vec![read_entries_of(0, 1)]);
        let current = reads(
            &mut cluster,
            AWAY,
            vec![read_entries_of(0, 0), read_item(0, 5)],
        );
        let change = vec![insert(0, 300, 1, 0), update(SET, 0, 6, 3)];
        commit(&mut cluster, current, vec![on(0, change)]);
        settle(&mut cluster);
        commit(&mut cluster, stale, vec![on(0, vec![update(SET, 0, 6, 4)])]);
        settle(&mut cluster);
        assert!(has_committed(cluster.take_reply(current)));
        assert!(!has_committed(cluster.take_reply(stale)));
        assert_eq!(item_at(&cluster, 1, 6), (3, 6));
        // And so does a recovery of the state that was taken.
        let before = rows(cluster.nodes[usize::from(AWAY)].store());
        crash(&mut cluster, AWAY, from_checkpoint);
        assert_eq!(rows(cluster.nodes[usize::from(AWAY)].store()), before);
        settle(&mut cluster);
    }
}

/// Transactions of the site that is away which the others have decided, and one that they have never heard of. The
/// others may restart before it is back.
#[test]
fn transactions_of_a_site_that_was_away_are_answered_once_and_as_decided() {
    for restarts in [None, Some(false), Some(true)] {
        let mut cluster = sites();
        let before = [0; 5].map(|_| cluster.begin(NodeId(AWAY)));
        let [draws, loses, replaces, first_alone, unheard] = before;
        fetch(&mut cluster, loses, vec![read_item(0, 1)]);
        fetch(&mut cluster, replaces, vec![read_item(0, 2)]);
        // At the others, what `loses` has read is replaced before it is delivered.
        let winner = reads(&mut cluster, 0, vec![read_item(0, 1)]);
        commit(
            &mut cluster,
            winner,
            vec![on(0, vec![update(SET, 0, 1, 9)])],
        );
        without(&mut cluster, 0);
        let drawn = vec![draw(0, 0, 0), insert_drawn(0, 0, 0, 1, 1)];
        commit(&mut cluster, draws, vec![on(0, drawn)]);
        commit(&mut cluster, loses, vec![on(0, vec![update(SET, 0, 3, 1)])]);
        commit(
            &mut cluster,
            replaces,
            vec![on(0, vec![update(SET, 0, 2, 5)])],
        );
        for other in [0, 1].map(NodeId) {
            (0..3).for_each(|_| cluster.deliver(NodeId(AWAY), other));
        }
        lose(&mut cluster);
        // Its recovery does not find it at both: a no-op.
        commit(
            &mut cluster,
            first_alone,
            vec![on(0, vec![update(SET, 0, 4, 7)])],
        );
        cluster.deliver(NodeId(AWAY), NodeId(0));
        lose(&mut cluster);
        go_on_without(&mut cluster);
        assert!(has_committed(cluster.take_reply(winner)));
        commit(
            &mut cluster,
            unheard,
            vec![on(0, vec![update(ADD, 0, 4, 1)])],
        );
        if let Some(from_checkpoint) = restarts {
            for other in [0, 1] {
                crash(&mut cluster, other, from_checkpoint);
            }
        }
        settle(&mut cluster);
        assert_eq!(transfers(&cluster), 1);
        match cluster.take_reply(draws) {
            Some(Reply::Committed { slots, .. }) => assert_eq!(slots.len(), 1),
            other => panic!("{other:?}"),
        }
        assert!(!has_committed(cluster.take_reply(loses)), "{restarts:?}");
        assert!(has_committed(cluster.take_reply(replaces)), "{restarts:?}");
        assert!(!has_committed(cluster.take_reply(first_alone)));
        assert!(has_committed(cluster.take_reply(unheard)), "{restarts:?}");
        assert_eq!(item_at(&cluster, AWAY, 2), (5, 0));
        assert_eq!(item_at(&cluster, AWAY, 4), (0, 1), "{restarts:?}");
        assert!(cluster.nodes.iter().all(Site::is_idle));
    }
}

/// Transactions that execute while the state comes in: a snapshot of before is refused, a commit is certified against the
/// new rows.
#[test]
fn transactions_that_execute_at_the_receiver_run_again_or_are_certified() {
    let mut cluster = sites();
    let away = NodeId(AWAY);
    let [reader, stale, current] =
        [7, 6, 0].map(|item| reads(&mut cluster, away.0, vec![read_item(0, item)]));
    go_on_without(&mut cluster);
    settle(&mut cluster);
    assert_eq!(transfers(&cluster), 1);
    cluster.request(reader, Request::Read(vec![read_item(0, 6)]));
    let refused = cluster.take_reply(reader);
    assert!(matches!(
        refused,
        Some(Reply::Aborted(AbortReason::BelowFloor))
    ));
    for writer in [stale, current] {
        commit(
            &mut cluster,
            writer,
            vec![on(0, vec![update(SET, 0, 0, 1)])],
        );
    }
    settle(&mut cluster);
    assert!(!has_committed(cluster.take_reply(stale)));
    assert!(has_committed(cluster.take_reply(current)));
}

/// Delivers messages one by one until all is at rest, and passes the cluster to `look` after each.
fn step_by_step(cluster: &mut Cluster<Site>, look: &mut dyn FnMut(&mut Cluster<Site>) -> bool) {
    for _ in 0..1_000 {
        while let Some((from, to)) = cluster.busy_links().first().copied() {
            cluster.deliver(from, to);
            if !look(cluster) {
                return;
            }
        }
        if cluster.nodes.iter().all(|site| site.orderer().is_at_rest()) {
            return;
        }
        cluster.advance(Ticks::from_millis(100));
    }
    panic!("the sites do not come to rest");
}

/// A state has as many parts as there are rows. Wherever the receiver or the sender crashes, with whatever end of the
/// receiver's log lost, it has one state or the other.
#[test]
fn a_state_is_there_as_a_whole_or_not_at_all() {
    let away = usize::from(AWAY);
    let mut whole = sites();
    go_on_without(&mut whole);
    let old = rows(whole.nodes[away].store());
    let begin = whole.logs[away].len();
    let mut steps = 0;
    step_by_step(&mut whole, &mut |_| {
        steps += 1;
        true
    });
    let new = rows(whole.nodes[away].store());
    assert_ne!(old, new);
    let delivered = whole.nodes[away].orderer().delivered().clone();
    let log = whole.logs[away].clone();
    let mut found = [0; 2];
    for end in begin..=log.len() {
        let empty = Store::new(&schema(), StoreSettings { window: WINDOW });
        let mut recovered = site(AWAY, empty);
        recovered
            .keep_records()
            .expect("the protocol keeps records");
        for record in &log[..end] {
            let replayed = recovered.replay(record.clone());
            replayed.expect("a site can replay what it has written down");
        }
        let has = rows(recovered.store());
        assert!([&old, &new].contains(&&has), "{end}: {has}");
        recovered.check_invariants().expect("the state is whole");
        // The orderer goes on from the same moment.
        let is_new = *recovered.orderer().delivered() == delivered;
        assert_eq!(has == new, is_new, "{end}");
        found[usize::from(is_new)] += 1;
    }
    assert!(found[0] > 10 && found[1] > 0, "{found:?}");
    for (at, who) in (1..=steps).flat_map(|at| [0, 1, AWAY].map(|who| (at, who))) {
        let from_checkpoint = at % 2 == 0;
        let mut cluster = sites();
        go_on_without(&mut cluster);
        let mut taken = 0;
        step_by_step(&mut cluster, &mut |_| {
            taken += 1;
            taken < at
        });
        let before = rows(cluster.nodes[away].store());
        assert!([&old, &new].contains(&&before));
        crash(&mut cluster, who, from_checkpoint);
        assert_eq!(rows(cluster.nodes[away].store()), before, "{at} {who}");
        settle(&mut cluster);
        assert_eq!(rows(cluster.nodes[away].store()), new, "{at} {who}");
        // Replay begins with what was collected at the checkpoint.
        if who == AWAY {
            let mut cluster = sites();
            go_on_without(&mut cluster);
            let mut taken = 0;
            step_by_step(&mut cluster, &mut |cluster| {
                taken += 1;
                if taken == at {
                    let mut records: Vec<Record> = Vec::new();
                    cluster.nodes[away].checkpoint(&mut |record| records.push(record));
                    cluster.logs[away] = records;
                }
                true
            });
            crash(&mut cluster, AWAY, false);
            assert_eq!(rows(cluster.nodes[away].store()), new, "{at}");
        }
    }
}

/// The sender goes on while it sends a state, with rows that it has sent and with others. The state is of its begin.
#[test]
fn a_state_is_of_one_moment() {
    let mut cluster = sites();
    go_on_without(&mut cluster);
    let mut written = Vec::new();
    for number in 0..200 {
        if number % 6 == 0 {
            for site in [0, 1] {
                let id = reads(&mut cluster, site, vec![read_item(0, 0)]);
                let (first, last) = (update(SET, 0, 0, number), update(ADD, 0, 7, 1));
                let entry = insert(0, 400 + 2 * number + i64::from(site), 3, 0);
                commit(&mut cluster, id, vec![on(0, vec![first, last, entry])]);
                written.push(id);
            }
        }
        let mut left = 6;
        step_by_step(&mut cluster, &mut |_| {
            left -= 1;
            left > 0
        });
        if transfers(&cluster) > 0 {
            break;
        }
    }
    assert_eq!(transfers(&cluster), 1);
    settle(&mut cluster);
    let outcomes = written
        .iter()
        .map(|id| has_committed(cluster.take_reply(*id)));
    let committed = outcomes.filter(|committed| *committed).count();
    assert!(committed > 1, "{committed}");
    assert_eq!(item_at(&cluster, AWAY, 7).1, committed as i64);
}

/// A receiver collects one state at a time, and goes on with another sender if its own is silent.
#[test]
fn a_receiver_goes_on_with_another_sender() {
    let mut cluster = sites();
    go_on_without(&mut cluster);
    let all: Vec<TransactionId> = [0, 1]
        .map(|site| reads(&mut cluster, site, vec![read_item(0, 0)]))
        .into();
    let mut taken = 0;
    let mut first = None;
    step_by_step(&mut cluster, &mut |cluster| {
        let has_begun = |log: &[Record]| {
            let mut last = log.iter().rev().take(1);
            last.any(|record| matches!(record, Record::Certification(_)))
        };
        taken += 1;
        if has_begun(&cluster.logs[usize::from(AWAY)]) {
            // Who the receiver has sent its request to.
            let sender = [0, 1].into_iter();
            first = sender.max_by_key(|one| cluster.under_way(NodeId(AWAY), NodeId(*one)));
        }
        first.is_none()
    });
    let silent = first.expect("a transfer has begun");
    // The first sender is silent from now on.
    for _ in 0..400 {
        for (from, to) in [(AWAY, silent), (silent, AWAY)] {
            cluster.lose(NodeId(from), NodeId(to));
        }
        if transfers(&cluster) > 0 {
            break;
        }
        if let Some((from, to)) = cluster.busy_links().first().copied() {
            cluster.deliver(from, to);
        } else {
            cluster.advance(Ticks::from_millis(100));
        }
    }
    assert_eq!(transfers(&cluster), 1, "after {taken} messages");
    settle(&mut cluster);
    for id in all {
        cluster.request(id, Request::Abort);
    }
    cluster.advance(Ticks::from_millis(60_000));
    settle(&mut cluster);
    assert!(cluster.nodes.iter().all(Site::is_idle));
}
