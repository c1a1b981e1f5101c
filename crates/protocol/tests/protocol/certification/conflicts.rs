//! What conflicts: two transactions at two sites run on the same snapshot, and then ask to commit.

use anabranch_protocol::certification::Consistency;
use anabranch_protocol::{AbortReason, PartitionEffects, PartitionRead, Reply};
use anabranch_storage::Store;
use anabranch_types::Read;

use crate::certification::{
    ITEMS, WINDOW, commit, entries_at, item_at, outcomes, reads, settle, sites, sites_with,
};
use crate::support::fixture::*;

/// A transaction: its site, what it reads and what it does.
type Work = (u16, Vec<PartitionRead>, Vec<PartitionEffects>);

/// Runs two transactions on the same snapshot of the initial rows; returns whether each has committed.
fn race_over(rows: &Store, one: &Work, two: &Work) -> [bool; 2] {
    let mut both = Vec::new();
    // Either may be the first to broadcast.
    for (first, second) in [(one, two), (two, one)] {
        let mut cluster = sites_with(rows, Consistency::Serializable);
        let a = reads(&mut cluster, first.0, first.1.clone());
        let b = reads(&mut cluster, second.0, second.1.clone());
        commit(&mut cluster, a, first.2.clone());
        commit(&mut cluster, b, second.2.clone());
        both.push(outcomes(&mut cluster, [a, b]));
    }
    let [a, b] = both[1];
    assert_eq!(
        both[0].iter().filter(|it| **it).count(),
        [a, b].iter().filter(|it| **it).count()
    );
    both[0]
}

fn race(one: &Work, two: &Work) -> [bool; 2] {
    race_over(&store(0, ITEMS, WINDOW), one, two)
}

fn one_of_two(committed: [bool; 2]) {
    assert_eq!(
        committed.iter().filter(|it| **it).count(),
        1,
        "{committed:?}"
    );
}

fn set(id: i64, to: i64) -> Vec<PartitionEffects> {
    vec![on(0, vec![update(SET, 0, id, to)])]
}

#[test]
fn of_two_transactions_that_overwrite_what_both_have_read_one_commits() {
    let read = || vec![read_item(0, 0)];
    one_of_two(race(&(0, read(), set(0, 1)), &(1, read(), set(0, 2))));
}

#[test]
fn of_two_transactions_that_each_write_what_the_other_has_read_one_commits() {
    let one = (0, vec![read_item(0, 0)], set(1, 1));
    let two = (1, vec![read_item(0, 1)], set(0, 2));
    one_of_two(race(&one, &two));
}

#[test]
fn a_row_that_was_absent_is_certified() {
    let one = (
        0,
        vec![read_entry(0, 7)],
        vec![on(0, vec![insert(0, 8, 1, 1)])],
    );
    let two = (
        1,
        vec![read_entry(0, 8)],
        vec![on(0, vec![insert(0, 7, 2, 2)])],
    );
    one_of_two(race(&one, &two));
}

#[test]
fn an_insert_into_a_range_that_was_read_is_a_conflict() {
    let one = (
        0,
        vec![read_entries(0)],
        vec![on(0, vec![insert(0, 8, 1, 1)])],
    );
    let two = (
        1,
        vec![read_entries(0)],
        vec![on(0, vec![insert(0, 7, 2, 2)])],
    );
    one_of_two(race(&one, &two));
}

#[test]
fn an_insert_into_a_range_of_an_index_is_a_conflict() {
    let one = (
        0,
        vec![read_entries_of(0, 2)],
        vec![on(0, vec![insert(0, 8, 1, 1)])],
    );
    let two = (
        1,
        vec![read_entries_of(0, 1)],
        vec![on(0, vec![insert(0, 7, 2, 2)])],
    );
    one_of_two(race(&one, &two));
}

#[test]
fn a_drawn_key_is_in_a_range_that_was_read() {
    let draws = |owner| vec![on(0, vec![draw(0, 0, 0), insert_drawn(0, 0, 0, owner, 1)])];
    let one = (0, vec![read_entries(0)], set(1, 1));
    let two = (1, vec![read_item(0, 1)], draws(1));
    one_of_two(race(&one, &two));
    let by_index = (0, vec![read_entries_of(0, 1)], set(1, 1));
    one_of_two(race(&by_index, &two));
}

#[test]
fn a_blind_delete_leaves_any_range_of_an_index() {
    let mut rows = store(0, ITEMS, WINDOW);
    let one = [on(0, vec![insert(0, 7, 1, 1)])];
    for effects in one {
        let commit = anabranch_storage::Commit {
            timestamp: anabranch_types::Timestamp::new(1, anabranch_types::NodeId(9)),
            effects: effects.effects,
        };
        let mut slots = anabranch_storage::SlotValues::default();
        rows.apply(anabranch_types::Ticks(0), commit, &mut slots, &*programs())
            .expect("a new key");
    }
    let reader = (0, vec![read_entries_of(0, 1)], set(1, 1));
    let deletes = (1, vec![read_item(0, 1)], vec![on(0, vec![delete(0, 7)])]);
    one_of_two(race_over(&rows, &reader, &deletes));
}

/// A range that stopped at its limit is read up to its last row, in either direction.
#[test]
fn a_range_that_stopped_is_read_up_to_its_last_row() {
    let stopped = |reverse_order: bool, count: u32| {
        let mut read = read_items(0, 0, 3);
        if let Read::Range { reverse, limit, .. } = &mut read.read {
            (*reverse, *limit) = (reverse_order, Some(count));
        }
        read
    };
    for (reverse, read_id, other_id) in [(false, 1, 2), (true, 2, 1)] {
        let reader = |writes| (0, vec![stopped(reverse, 2)], set_entry(writes));
        // The last row found is read, the next one is not.
        let one = (1, vec![read_entry(0, 7)], set(read_id, 5));
        one_of_two(race(&reader(7), &one));
        let two = (1, vec![read_entry(0, 7)], set(other_id, 5));
        assert_eq!(race(&reader(8), &two), [true; 2]);
        // A deletion of a row found moves the next one up.
        let deletes = (
            1,
            vec![read_entry(0, 7)],
            vec![on(0, vec![delete_item(0, read_id)])],
        );
        one_of_two(race(&reader(7), &deletes));
    }
}

/// Inserts an entry.
fn set_entry(id: i64) -> Vec<PartitionEffects> {
    vec![on(0, vec![insert(0, id, 1, 1)])]
}

/// Without reads, the later of two inserts with one unique value fails at every site.
#[test]
fn of_two_inserts_with_one_unique_value_the_same_fails_at_all_sites() {
    for sites in [(0, 1), (2, 1)] {
        let rows = store_with_unique_owners(0, ITEMS, WINDOW);
        let mut cluster = sites_with(&rows, Consistency::Serializable);
        let one = cluster.begin(anabranch_types::NodeId(sites.0));
        let two = cluster.begin(anabranch_types::NodeId(sites.1));
        commit(&mut cluster, one, vec![on(0, vec![insert(0, 7, 1, 1)])]);
        commit(&mut cluster, two, vec![on(0, vec![insert(0, 8, 1, 2)])]);
        settle(&mut cluster);
        let replies = [one, two].map(|id| cluster.take_reply(id).expect("each is answered"));
        let failed = |reply: &&Reply| match reply {
            Reply::Aborted(AbortReason::Failed(error)) => error.code == "23505",
            _ => false,
        };
        assert_eq!(replies.iter().filter(failed).count(), 1, "{replies:?}");
        assert_eq!(entries_at(&cluster, 2).len(), 1);
    }
}

#[test]
fn increments_without_reads_all_commit_and_add_up() {
    let mut cluster = sites();
    let ids = [0, 1, 2].map(|site| cluster.begin(anabranch_types::NodeId(site)));
    for id in ids {
        commit(&mut cluster, id, vec![on(0, vec![update(ADD, 0, 0, 5)])]);
    }
    assert_eq!(outcomes(&mut cluster, ids), [true; 3]);
    assert_eq!(
        [0, 1, 2].map(|site| item_at(&cluster, site, 0)),
        [(0, 15); 3]
    );
}

#[test]
fn drawn_keys_are_distinct() {
    let mut cluster = sites();
    let ids = [0, 1, 2].map(|site| cluster.begin(anabranch_types::NodeId(site)));
    for id in ids {
        let effects = vec![
            draw(0, 0, 0),
            insert_drawn(0, 0, 0, i64::from(id.node.0), 1),
        ];
        commit(&mut cluster, id, vec![on(0, effects)]);
    }
    assert_eq!(outcomes(&mut cluster, ids), [true; 3]);
    let drawn = entries_at(&cluster, 1).into_iter().map(|[_, id, ..]| id);
    assert_eq!(drawn.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn transactions_without_conflict_all_commit() {
    let one = (0, vec![read_item(0, 0)], set(0, 1));
    let two = (1, vec![read_item(0, 1)], set(1, 2));
    assert_eq!(race(&one, &two), [true; 2]);
    // Readers of one row do not conflict.
    let one = (0, vec![read_item(0, 0)], set(1, 1));
    let two = (1, vec![read_item(0, 0)], set(2, 2));
    assert_eq!(race(&one, &two), [true; 2]);
    // Ranges apart, and an insert outside of a range.
    let one = (
        0,
        vec![read_items(0, 0, 1)],
        vec![on(0, vec![insert(0, 7, 1, 1)])],
    );
    let two = (
        1,
        vec![read_items(0, 2, 3)],
        vec![on(0, vec![insert(0, 8, 2, 1)])],
    );
    assert_eq!(race(&one, &two), [true; 2]);
    let one = (
        0,
        vec![read_entries_of(0, 1)],
        vec![on(0, vec![insert(0, 7, 1, 1)])],
    );
    let two = (
        1,
        vec![read_entries_of(0, 2)],
        vec![on(0, vec![insert(0, 8, 2, 1)])],
    );
    assert_eq!(race(&one, &two), [true; 2]);
}
