//! Order over guards, message by message and in random schedules.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_protocol::certification::Certificate;
use anabranch_protocol::guards::{GuardHome, GuardHomes, GuardMessage, GuardOptions, GuardSite};
use anabranch_protocol::order::SiteId;
use anabranch_protocol::order::pob::{PobOptions, PobSite};
use anabranch_protocol::{
    AbortReason, Durable, PartitionEffects, PartitionRead, Record, Reply, Request, Topology,
    TransactionId,
};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{Effect, Fetched, Key, NodeId, Read, SplitMix64, TableId, Ticks};

use crate::support::cluster::Cluster;
use crate::support::fixture::*;

type Site = GuardSite<PobSite<Certificate>>;

const ITEMS: i64 = 8;

const WINDOW: Ticks = Ticks::from_millis(500_000);

/// Items 6 and 7 are homed, at sites 1 and 2. All other guards are ordered.
struct Homes;

impl GuardHomes for Homes {
    fn of_read(&self, read: &Read) -> GuardHome {
        match read {
            Read::Point { table, key } => self.of_row(*table, key),
            Read::Range { .. } => GuardHome::Ordered,
        }
    }

    fn of_row(&self, table: TableId, key: &Key) -> GuardHome {
        let homed = [6, 7]
            .into_iter()
            .find(|id| table == ITEM && *key == item_key(0, *id));
        homed.map_or(GuardHome::Ordered, |id| GuardHome::At(SiteId(id as u8 - 5)))
    }
}

fn site(number: u16, store: Store) -> Site {
    let orderer = PobSite::new(PobOptions::new(SiteId(number as u8), 3));
    let options = GuardOptions {
        homes: Arc::new(Homes),
        retry: Ticks::from_millis(100),
        acknowledge_after: Ticks::from_millis(5),
    };
    GuardSite::new(
        NodeId(number),
        &Topology::clusters(3, 1, number),
        orderer.expect("three sites"),
        store,
        programs(),
        options,
    )
}

fn sites() -> Cluster<Site> {
    let rows = store(0, ITEMS, WINDOW);
    let mut cluster = Cluster::new((0..3).map(|number| site(number, rows.clone())).collect());
    cluster.keep_logs();
    // Items 0 to 3 have a count of 10 to take from.
    let begin = cluster.begin(NodeId(0));
    let adds = (0..4).map(|id| update(ADD, 0, id, 10)).collect();
    commit(&mut cluster, begin, vec![on(0, adds)]);
    settle(&mut cluster);
    cluster.take_reply(begin);
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

fn fetch(
    cluster: &mut Cluster<Site>,
    id: TransactionId,
    reads: Vec<PartitionRead>,
) -> Vec<Fetched> {
    cluster.request(id, Request::Read(reads));
    match cluster.take_reply(id) {
        Some(Reply::Fetched(fetched)) => fetched,
        other => panic!("{other:?} instead of rows, within the step"),
    }
}

fn commit(cluster: &mut Cluster<Site>, id: TransactionId, effects: Vec<PartitionEffects>) {
    cluster.request(id, Request::Commit(effects));
}

/// A transaction at a site, with these effects and without reads.
fn run(cluster: &mut Cluster<Site>, at: u16, effects: PartitionEffects) -> TransactionId {
    let id = cluster.begin(NodeId(at));
    commit(cluster, id, vec![effects]);
    id
}

/// A transaction that takes one from an item, which it has read for a guard.
fn take(cluster: &mut Cluster<Site>, at: u16, item: i64, amount: i64) -> TransactionId {
    let id = cluster.begin(NodeId(at));
    fetch(cluster, id, vec![guarded(read_item(0, item))]);
    commit(
        cluster,
        id,
        vec![guarding(0, vec![update(TAKE, 0, item, amount)])],
    );
    id
}

fn committed(cluster: &mut Cluster<Site>, id: TransactionId) -> bool {
    match cluster.take_reply(id) {
        Some(Reply::Committed { .. }) => true,
        Some(Reply::Aborted(AbortReason::Conflict)) => false,
        other => panic!("{other:?}"),
    }
}

/// Delivers everything and lets time pass until all sites are at rest, with the same rows.
fn settle(cluster: &mut Cluster<Site>) {
    for _ in 0..2_000 {
        cluster.deliver_all();
        if cluster.nodes.iter().all(GuardSite::is_idle) {
            let all = [0, 1, 2].map(|site| rows_at(cluster, site));
            assert_eq!(all[0], all[1]);
            assert_eq!(all[1], all[2]);
            let decisions = [0, 1, 2].map(|site| cluster.nodes[site].decisions());
            assert!(decisions.iter().all(|it| *it == decisions[0]), "GRD-I4");
            return;
        }
        cluster.advance(Ticks::from_millis(50));
    }
    panic!("the sites do not come to rest");
}

/// Delivers everything while a transaction is open.
fn settle_but(cluster: &mut Cluster<Site>, open: TransactionId) {
    for _ in 0..40 {
        cluster.deliver_all();
        cluster.advance(Ticks::from_millis(50));
    }
    assert!(!cluster.has_reply(open));
}

/// The rows of both tables.
fn rows_at(cluster: &Cluster<Site>, site: u16) -> (Vec<[i64; 4]>, Vec<[i64; 4]>) {
    let store = cluster.nodes[usize::from(site)].store();
    let items = read_items(0, i64::from(i32::MIN), i64::from(i32::MAX)).read;
    let read = |read: &Read, table| {
        let found = store
            .fetch(read, None)
            .expect("the newest versions are kept");
        rows(table, &found)
    };
    (read(&items, ITEM), read(&read_entries(0).read, ENTRY))
}

/// The register and the counter of an item at a site.
fn item_at(cluster: &Cluster<Site>, site: u16, id: i64) -> (i64, i64) {
    let store = cluster.nodes[usize::from(site)].store();
    let fetched = store.fetch(&read_item(0, id).read, None);
    item(&fetched.expect("the newest versions are kept")).expect("the item exists")
}

/// Delivers the oldest message of a link if it is a commit of a stream.
fn deliver_commit(cluster: &mut Cluster<Site>, from: u16, to: u16) {
    let (from, to) = (NodeId(from), NodeId(to));
    let next = cluster.peek(from, to);
    assert!(
        matches!(next, Some(GuardMessage::Commit { .. })),
        "{next:?}"
    );
    cluster.deliver(from, to);
}

#[test]
fn a_transaction_without_guards_commits_at_its_site_alone() {
    let mut cluster = sites();
    let id = run(&mut cluster, 1, on(0, vec![update(ADD, 0, 0, 1)]));
    assert!(committed(&mut cluster, id), "before any message arrives");
    assert_eq!(
        [0, 1, 2].map(|site| item_at(&cluster, site, 0).1),
        [10, 11, 10]
    );
    settle(&mut cluster);
    assert_eq!(
        [0, 1, 2].map(|site| item_at(&cluster, site, 0).1),
        [11, 11, 11]
    );
}

#[test]
fn other_sites_see_all_of_a_transaction_or_none() {
    let mut cluster = sites();
    let both = vec![update(SET, 0, 0, 5), update(SET, 0, 1, 5)];
    run(&mut cluster, 0, on(0, both));
    deliver_commit(&mut cluster, 0, 1);
    let registers = [0, 1].map(|id| item_at(&cluster, 1, id).0);
    assert!(registers == [5, 5] || registers == [0, 0], "{registers:?}");
    settle(&mut cluster);
}

#[test]
fn the_register_of_the_highest_timestamp_wins_in_any_order_of_arrival() {
    let mut cluster = sites();
    run(&mut cluster, 0, on(0, vec![update(SET, 0, 0, 1)]));
    cluster.advance(Ticks::from_millis(2));
    run(&mut cluster, 1, on(0, vec![update(SET, 0, 0, 2)]));
    settle(&mut cluster);
    assert_eq!(
        [0, 1, 2].map(|site| item_at(&cluster, site, 0).0),
        [2, 2, 2]
    );
}

#[test]
fn a_delta_counts_once_whatever_is_sent_again() {
    for from_checkpoint in [false, true] {
        let mut cluster = sites();
        run(&mut cluster, 0, on(0, vec![update(ADD, 0, 0, 1)]));
        deliver_commit(&mut cluster, 0, 1);
        // Its acknowledgement is lost, and the commit is sent again.
        crash(&mut cluster, 1, from_checkpoint);
        settle(&mut cluster);
        assert_eq!(
            [0, 1, 2].map(|site| item_at(&cluster, site, 0).1),
            [11, 11, 11]
        );
        crash(&mut cluster, 0, from_checkpoint);
        settle(&mut cluster);
        assert_eq!(
            [0, 1, 2].map(|site| item_at(&cluster, site, 0).1),
            [11, 11, 11]
        );
    }
}

#[test]
fn what_follows_from_a_transaction_is_applied_after_it() {
    let mut cluster = sites();
    run(&mut cluster, 0, on(0, vec![insert_item(0, 50, 0, 0)]));
    deliver_commit(&mut cluster, 0, 1);
    let follows = vec![update(ADD, 0, 50, 3), update(SET, 0, 1, 7)];
    run(&mut cluster, 1, on(0, follows));
    deliver_commit(&mut cluster, 1, 2);
    assert_eq!(item_at(&cluster, 2, 1).0, 0, "the item is not there yet");
    settle(&mut cluster);
    assert_eq!(
        [0, 1, 2].map(|site| item_at(&cluster, site, 50).1),
        [3, 3, 3]
    );
}

/// Site 0 is down, and site 2 lacks its commit. It gets it from site 1, which has made another one that follows.
#[test]
fn a_site_gets_a_commit_from_any_site_that_has_it() {
    let mut cluster = sites();
    run(&mut cluster, 0, on(0, vec![update(ADD, 0, 0, 1)]));
    deliver_commit(&mut cluster, 0, 1);
    run(&mut cluster, 1, on(0, vec![update(ADD, 0, 1, 1)]));
    crash(&mut cluster, 0, false);
    for _ in 0..20 {
        for (from, to) in [(1, 2), (2, 1)] {
            while cluster.under_way(NodeId(from), NodeId(to)) > 0 {
                cluster.deliver(NodeId(from), NodeId(to));
            }
        }
        cluster.advance(Ticks::from_millis(50));
    }
    assert_eq!([0, 1].map(|id| item_at(&cluster, 2, id).1), [11, 11]);
    settle(&mut cluster);
}

#[test]
fn two_transactions_with_one_guard_do_not_both_take_what_is_left() {
    let mut cluster = sites();
    let ids = [take(&mut cluster, 0, 0, 10), take(&mut cluster, 1, 0, 10)];
    settle(&mut cluster);
    let ended = ids.map(|id| committed(&mut cluster, id));
    assert_eq!(ended.iter().filter(|it| **it).count(), 1, "{ended:?}");
    assert_eq!(item_at(&cluster, 2, 0).1, 0);
}

/// The sites have the free effect in different orders with the guarded one, and decide alike; and nothing of it is lost.
#[test]
fn effects_without_guards_neither_abort_guarded_ones_nor_are_lost() {
    for early in [0, 1] {
        let mut cluster = sites();
        let free = run(&mut cluster, 1, on(0, vec![update(ADD, 0, 0, 5)]));
        if early == 1 {
            deliver_commit(&mut cluster, 1, 2);
        }
        cluster.advance(Ticks::from_millis(2));
        let guarded = take(&mut cluster, 0, 0, 7);
        let later = run(&mut cluster, 2, on(0, vec![update(ADD, 0, 0, 1)]));
        settle(&mut cluster);
        for id in [free, guarded, later] {
            assert!(committed(&mut cluster, id), "{id:?}");
        }
        assert_eq!(
            [0, 1, 2].map(|site| item_at(&cluster, site, 0).1),
            [9, 9, 9]
        );
    }
}

#[test]
fn numbers_that_are_drawn_differ_and_are_the_same_everywhere() {
    let mut cluster = sites();
    let drawing = |owner| {
        let mut effects = guarding(0, vec![draw(0, 5, 0)]);
        effects.effects.push(insert_drawn(0, 0, 0, owner, 1));
        effects
    };
    let ids = [0, 1, 2, 0, 1, 2].map(|site| {
        let id = run(&mut cluster, site, drawing(i64::from(site)));
        run(&mut cluster, site, on(0, vec![update(SET, 0, 5, 1)]));
        id
    });
    settle(&mut cluster);
    for id in ids {
        assert!(
            committed(&mut cluster, id),
            "a transaction that only draws never aborts"
        );
    }
    let numbers: Vec<i64> = rows_at(&cluster, 1)
        .1
        .iter()
        .map(|entry| entry[1])
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_homed_guard_is_decided_at_its_home_and_refused_elsewhere() {
    let mut cluster = sites();
    let fill = run(&mut cluster, 1, guarding(0, vec![update(ADD, 0, 6, 3)]));
    assert!(committed(&mut cluster, fill), "before any message arrives");
    let stale = cluster.begin(NodeId(1));
    fetch(&mut cluster, stale, vec![guarded(read_item(0, 6))]);
    let first = take(&mut cluster, 1, 6, 3);
    assert!(committed(&mut cluster, first));
    let effects = vec![guarding(0, vec![update(TAKE, 0, 6, 0)])];
    commit(&mut cluster, stale, effects);
    assert!(
        !committed(&mut cluster, stale),
        "its guard has been written since"
    );
    let elsewhere = run(&mut cluster, 2, guarding(0, vec![update(ADD, 0, 6, 3)]));
    match cluster.take_reply(elsewhere) {
        Some(Reply::Aborted(AbortReason::Failed(error))) => {
            assert_eq!(error.code, "0A000");
            assert!(error.message.contains("site 1"), "{}", error.message);
        }
        other => panic!("{other:?}"),
    }
    settle(&mut cluster);
}

/// It has read a guard that another transaction of its site, or of another one, has written before it commits.
#[test]
fn a_guard_that_was_written_since_it_was_read_aborts_its_reader() {
    for writer in [0, 1] {
        let mut cluster = sites();
        let stale = cluster.begin(NodeId(0));
        fetch(&mut cluster, stale, vec![guarded(read_item(0, 0))]);
        let first = take(&mut cluster, writer, 0, 1);
        settle_but(&mut cluster, stale);
        assert!(committed(&mut cluster, first));
        let effects = vec![guarding(0, vec![update(ADD, 0, 0, 1)])];
        commit(&mut cluster, stale, effects);
        settle(&mut cluster);
        assert!(!committed(&mut cluster, stale), "written at site {writer}");
    }
}

#[test]
fn a_site_recovers_what_it_had_applied() {
    for from_checkpoint in [false, true] {
        let mut cluster = sites();
        let ids = [take(&mut cluster, 0, 0, 1), take(&mut cluster, 1, 1, 1)];
        run(&mut cluster, 1, on(0, vec![update(SET, 0, 0, 4)]));
        settle(&mut cluster);
        let before = rows_at(&cluster, 1);
        let sequence = cluster.nodes[1].store().last();
        crash(&mut cluster, 1, from_checkpoint);
        assert_eq!(rows_at(&cluster, 1), before);
        assert_eq!(cluster.nodes[1].store().last(), sequence);
        assert!(ids.map(|id| committed(&mut cluster, id)) == [true, true]);
        let next = [0, 1].map(|site| take(&mut cluster, site, i64::from(site), 1));
        settle(&mut cluster);
        assert!(next.map(|id| committed(&mut cluster, id)) == [true, true]);
        assert_eq!([0, 1].map(|id| item_at(&cluster, 2, id).1), [8, 8]);
    }
}

/// What a random run has committed, as the rows have to show it.
#[derive(Default)]
struct Expected {
    counts: BTreeMap<i64, i64>,
    drawn: usize,
    in_doubt: bool,
}

fn random_run(seed: u64) {
    let mut random = SplitMix64::stream(seed, "guards", 0);
    let mut cluster = sites();
    let mut open: Vec<(TransactionId, Option<(i64, i64)>)> = Vec::new();
    let mut expected = Expected::default();
    for _ in 0..150 {
        let (at, item) = (random.below(3) as u16, random.below(4) as i64);
        match random.below(20) {
            0..=2 => {
                let amount = random.below(5) as i64;
                let id = run(&mut cluster, at, on(0, vec![update(ADD, 0, item, amount)]));
                open.push((id, Some((item, amount))));
            }
            3 => {
                let value = random.below(1_000) as i64;
                let both = vec![update(SET, 0, item, value), update(SET, 0, item + 4, value)];
                let id = run(&mut cluster, at, on(0, both));
                cluster.take_reply(id);
            }
            4..=5 => {
                let amount = random.below(6) as i64;
                let id = cluster.begin(NodeId(at));
                let read = fetch(&mut cluster, id, vec![guarded(read_item(0, item))]);
                let (_, count) = crate::support::fixture::item(&read[0]).expect("it exists");
                assert!(count >= 0, "seed {seed}");
                let amount = amount.min(count);
                let taken = vec![update(TAKE, 0, item, amount)];
                commit(&mut cluster, id, vec![guarding(0, taken)]);
                open.push((id, Some((item, -amount))));
            }
            6 => {
                let mut effects = guarding(0, vec![draw(0, 5, 0)]);
                effects.effects.push(insert_drawn(0, 0, 0, item, 1));
                let id = run(&mut cluster, at, effects);
                open.push((id, None));
            }
            7 if random.below(4) == 0 => {
                crash(&mut cluster, at, random.below(2) == 0);
                // Transactions of the site that had no answer may have committed.
                let lost = open
                    .iter()
                    .any(|(id, _)| id.node == NodeId(at) && !cluster.has_outcome(*id));
                expected.in_doubt |= lost;
            }
            8..=9 => cluster.advance(Ticks::from_millis(random.below(60))),
            _ => {
                let busy = cluster.busy_links();
                if !busy.is_empty() {
                    let (from, to) = busy[random.below(busy.len() as u64) as usize];
                    cluster.deliver(from, to);
                }
            }
        }
        for site in 0..3 {
            for id in 0..4 {
                assert!(item_at(&cluster, site, id).1 >= 0, "seed {seed}: overdrawn");
            }
            for id in 0..4 {
                let registers = [id, id + 4].map(|id| item_at(&cluster, site, id).0);
                assert_eq!(registers[0], registers[1], "seed {seed}: in part");
            }
        }
    }
    settle(&mut cluster);
    for (id, change) in open {
        match cluster.take_reply(id) {
            Some(Reply::Committed { .. }) => match change {
                Some((item, change)) => *expected.counts.entry(item).or_insert(10) += change,
                None => expected.drawn += 1,
            },
            Some(Reply::Aborted(AbortReason::Conflict)) => {}
            None => assert!(expected.in_doubt, "seed {seed}: {id:?} has no answer"),
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    let entries = rows_at(&cluster, 0).1;
    let numbers: Vec<i64> = entries.iter().map(|entry| entry[1]).collect();
    assert_eq!(numbers, (1..=entries.len() as i64).collect::<Vec<_>>());
    if !expected.in_doubt {
        assert_eq!(entries.len(), expected.drawn, "seed {seed}");
        for (item, count) in expected.counts {
            assert_eq!(
                item_at(&cluster, 0, item).1,
                count,
                "seed {seed}: item {item}"
            );
        }
    }
}

#[test]
fn random_schedules_keep_every_promise() {
    let seeds = std::env::var("ANABRANCH_GUARD_SEEDS").ok();
    let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(200);
    for seed in 0..seeds {
        random_run(seed);
    }
}

/// Effects are kept by timestamp until no earlier one can come; then they become the base of their row.
#[test]
fn effects_that_none_can_precede_are_settled() {
    let mut cluster = sites();
    for round in 0..600 {
        run(&mut cluster, round % 3, on(0, vec![update(ADD, 0, 0, 1)]));
        cluster.advance(Ticks::from_millis(1));
        cluster.deliver_all();
    }
    settle(&mut cluster);
    assert_eq!(item_at(&cluster, 0, 0).1, 610);
    let mut checkpoint = Vec::new();
    cluster.nodes[0].checkpoint(&mut |record| checkpoint.push(record));
    let text = format!("{checkpoint:?}");
    let kept = text.matches("Entry {").count();
    assert!(kept < 200, "{kept} effects are kept");
}

/// A delete is entered by its timestamp, too.
#[test]
fn a_deleted_row_stays_away_until_a_later_insert() {
    let mut cluster = sites();
    run(&mut cluster, 0, on(0, vec![insert(0, 9, 1, 1)]));
    settle(&mut cluster);
    let delete: Effect = delete(0, 9);
    run(&mut cluster, 1, on(0, vec![delete.clone()]));
    cluster.advance(Ticks::from_millis(2));
    run(&mut cluster, 2, on(0, vec![delete]));
    settle(&mut cluster);
    assert_eq!(rows_at(&cluster, 0).1.len(), 0);
    run(&mut cluster, 0, on(0, vec![insert(0, 9, 2, 2)]));
    settle(&mut cluster);
    assert_eq!(rows_at(&cluster, 2).1, [[0, 9, 2, 2]]);
}

/// Lets the other sites go on for some time while one is lost, with all that it has sent and not delivered.
fn go_on_without(cluster: &mut Cluster<Site>, lost: u16) {
    for _ in 0..200 {
        loop {
            let busy = cluster.busy_links().into_iter();
            let mut busy = busy.filter(|(from, to)| ![*from, *to].contains(&NodeId(lost)));
            match busy.next() {
                Some((from, to)) => cluster.deliver(from, to),
                None => break,
            }
        }
        cluster.advance(Ticks::from_millis(50));
    }
}

/// What site 0 commits alone reaches no other site. Its next transaction has seen it, and has a guard; the others decide it.
#[test]
fn a_site_that_is_lost_does_not_block_the_guards_that_it_has_written() {
    for from_checkpoint in [None, Some(false), Some(true)] {
        let mut cluster = sites();
        run(&mut cluster, 0, on(0, vec![update(ADD, 0, 1, 5)]));
        run(&mut cluster, 0, on(0, vec![update(ADD, 0, 1, 5)]));
        for to in [1, 2] {
            cluster.lose(NodeId(0), NodeId(to));
        }
        take(&mut cluster, 0, 0, 1);
        for to in [1, 2] {
            while cluster.under_way(NodeId(0), NodeId(to)) > 0 {
                cluster.deliver(NodeId(0), NodeId(to));
            }
        }
        go_on_without(&mut cluster, 0);
        if let Some(from_checkpoint) = from_checkpoint {
            crash(&mut cluster, 1, from_checkpoint);
            go_on_without(&mut cluster, 0);
        }
        for site in [1, 2] {
            let counts = [0, 1].map(|id| item_at(&cluster, site, id).1);
            assert_eq!(counts, [9, 20], "site {site}");
        }
        let next = take(&mut cluster, 1, 0, 1);
        go_on_without(&mut cluster, 0);
        assert!(committed(&mut cluster, next));
        assert_eq!(item_at(&cluster, 2, 0).1, 8);
    }
}

/// The last number of a counter is drawn at two sites at once: the draw that is delivered later finds none left.
#[test]
fn a_draw_that_fails_at_delivery_aborts_and_blocks_no_guard() {
    let mut cluster = sites();
    let fill = vec![update(ADD, 0, 5, COUNT_MAX - 1)];
    let fill = run(&mut cluster, 0, guarding(0, fill));
    settle(&mut cluster);
    assert!(committed(&mut cluster, fill));
    let drawing = [0, 1].map(|site| {
        let mut effects = guarding(0, vec![draw(0, 5, 0)]);
        effects.effects.push(insert_drawn(0, 0, 0, 1, 1));
        run(&mut cluster, site, effects)
    });
    settle(&mut cluster);
    let ended = drawing.map(|id| match cluster.take_reply(id) {
        Some(Reply::Committed { .. }) => "committed",
        Some(Reply::Aborted(AbortReason::Failed(error))) => error.code,
        other => panic!("{other:?}"),
    });
    assert!(
        ended.contains(&"committed") && ended.contains(&"22003"),
        "{ended:?}"
    );
    assert_eq!(rows_at(&cluster, 2).1.len(), 1);
    let next = run(&mut cluster, 2, guarding(0, vec![update(SET, 0, 5, 1)]));
    settle(&mut cluster);
    assert!(committed(&mut cluster, next));
}

/// How often a checkpoint of a site has a word.
fn in_checkpoint(cluster: &Cluster<Site>, site: usize, word: &str) -> usize {
    let mut checkpoint = Vec::new();
    cluster.nodes[site].checkpoint(&mut |record| checkpoint.push(record));
    format!("{checkpoint:?}").matches(word).count()
}

/// A site that always has a transaction under way settles effects after a restart, too.
#[test]
fn effects_are_settled_after_a_restart_under_load() {
    let mut cluster = sites();
    crash(&mut cluster, 0, false);
    cluster.deliver_all();
    for round in 0..200 {
        let id = run(&mut cluster, 0, guarding(0, vec![update(ADD, 0, 1, 1)]));
        run(&mut cluster, round % 3, on(0, vec![update(ADD, 0, 0, 1)]));
        cluster.advance(Ticks::from_millis(1));
        // The next one is under way before this one's answers arrive.
        let next = run(&mut cluster, 0, guarding(0, vec![update(ADD, 0, 2, 1)]));
        cluster.deliver_all();
        for id in [id, next] {
            cluster.take_reply(id);
        }
    }
    let kept = in_checkpoint(&cluster, 1, "Entry {");
    assert!(kept < 300, "{kept} effects are kept");
    settle(&mut cluster);
}

/// A row whose effects are all settled is in the store alone.
#[test]
fn rows_without_late_effects_have_no_log() {
    let mut cluster = sites();
    for id in 100..400 {
        run(&mut cluster, 1, on(0, vec![insert(0, id, 1, 1)]));
    }
    for round in 0..30 {
        run(&mut cluster, round % 3, on(0, vec![update(ADD, 0, 0, 1)]));
        cluster.advance(Ticks::from_millis(1));
        cluster.deliver_all();
    }
    let logs = in_checkpoint(&cluster, 0, "RowLog {");
    assert!(logs < 20, "{logs} rows have a log");
    // Late changes of such rows find them as they are.
    run(&mut cluster, 2, on(0, vec![delete(0, 150)]));
    crash(&mut cluster, 1, true);
    run(&mut cluster, 1, on(0, vec![delete(0, 151)]));
    settle(&mut cluster);
    assert_eq!(rows_at(&cluster, 0).1.len(), 298);
}

/// A group of one site has no other whose clock it waits for.
#[test]
fn a_single_site_settles_the_effects_of_ordered_transactions() {
    let orderer = PobSite::new(PobOptions::new(SiteId(0), 1)).expect("one site");
    let options = GuardOptions {
        homes: Arc::new(Homes),
        retry: Ticks::from_millis(100),
        acknowledge_after: Ticks::from_millis(5),
    };
    let topology = Topology::clusters(1, 1, 0);
    let rows = store(0, ITEMS, WINDOW);
    let only = GuardSite::new(NodeId(0), &topology, orderer, rows, programs(), options);
    let mut cluster = Cluster::new(vec![only]);
    cluster.keep_logs();
    for _ in 0..600 {
        let id = run(&mut cluster, 0, guarding(0, vec![update(ADD, 0, 0, 1)]));
        cluster.advance(Ticks::from_millis(1));
        assert!(committed(&mut cluster, id));
    }
    assert_eq!(item_at(&cluster, 0, 0).1, 600);
    let kept = in_checkpoint(&cluster, 0, "Entry {");
    assert!(kept < 200, "{kept} effects are kept");
}
