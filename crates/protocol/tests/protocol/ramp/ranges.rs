//! Ranges that are read as guards, and transactions whose reads need no validation.

use anabranch_protocol::ramp::RampNode;
use anabranch_protocol::{AbortReason, Age, PartitionRead, Reply, Request};
use anabranch_types::Effect;

use crate::ramp::cluster;
use crate::ramp::scenarios::{
    C1, C2, X, Y, fetched, is_committed, prepare, reason, round, set_both,
};
use crate::support::fixture::*;

/// A range read as a guard: no phantom gets in between the vote and the commit, nor before the vote.
#[test]
fn a_guarded_range_keeps_phantoms_out() {
    let mut cluster = cluster(4);
    let look = || vec![guarded(read_items(1, 0, 3))];
    let (t1, t2) = (cluster.begin(C1), cluster.begin(C2));
    for reader in [t1, t2] {
        assert!(matches!(
            cluster.ask(reader, Request::Read(look())),
            Reply::Fetched(_)
        ));
    }
    // T1 writes elsewhere, depending on the range; T2 writes into it.
    cluster.request(
        t1,
        Request::Commit(vec![guarding(0, vec![update(SET, 0, 0, 1)])]),
    );
    prepare(&mut cluster, C1, &[X, Y]);
    let phantom = vec![guarding(1, vec![update(SET, 1, 2, 1)])];
    cluster.request(t2, Request::Commit(phantom.clone()));
    round(&mut cluster, C2, Y);
    assert_eq!(reason(cluster.take_reply(t2)), AbortReason::Conflict);
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(t1)));
    // Validation finds a phantom that comes between the read and the vote.
    let (t3, t4) = (cluster.begin(C1), cluster.begin(C2));
    cluster.ask(t3, Request::Read(look()));
    assert!(is_committed(Some(
        cluster.ask(t4, Request::Commit(phantom))
    )));
    let late = cluster.ask(
        t3,
        Request::Commit(vec![guarding(0, vec![update(SET, 0, 0, 2)])]),
    );
    assert_eq!(reason(Some(late)), AbortReason::Conflict);
}

/// A range that a transaction validates excludes unguarded writes too, from its vote to its commit and in both orders:
/// of two that write where the other has read, one would be missed.
#[test]
fn a_validated_range_excludes_unguarded_writes() {
    // Partition 1 has the items 0 to 7, and these entries of owners 7 and 8.
    let loaded = vec![insert(1, 1, 7, 0), insert(1, 2, 8, 0)];
    let by_key = || guarded(read_items(1, 5, 20));
    let by_owner = || guarded(read_entries_of(1, 7));
    let drawn = || vec![draw(1, 0, 0), insert_drawn(1, 0, 50, 8, 0)];
    type Case = (&'static str, PartitionRead, Vec<Effect>, bool);
    let cases: Vec<Case> = vec![
        ("an insert", by_key(), vec![insert_item(1, 9, 0, 0)], true),
        (
            "an insert elsewhere",
            by_key(),
            vec![insert_item(1, 30, 0, 0)],
            false,
        ),
        ("a delete", by_key(), vec![delete_item(1, 6)], true),
        (
            "a delete elsewhere",
            by_key(),
            vec![delete_item(1, 4)],
            false,
        ),
        ("an increment", by_key(), vec![update(ADD, 1, 6, 1)], true),
        (
            "an increment elsewhere",
            by_key(),
            vec![update(ADD, 1, 4, 1)],
            false,
        ),
        ("a drawn key", guarded(read_entries(1)), drawn(), true),
        ("a drawn key of another table", by_key(), drawn(), false),
        ("an entry", by_owner(), vec![insert(1, 9, 7, 0)], true),
        (
            "an entry of another",
            by_owner(),
            vec![insert(1, 9, 8, 0)],
            false,
        ),
        ("an entry with a drawn key", by_owner(), drawn(), true),
        ("an entry deleted", by_owner(), vec![delete(1, 1)], true),
        ("another's deleted", by_owner(), vec![delete(1, 2)], false),
    ];
    for (what, look, effects, excluded) in cases {
        for range_first in [true, false] {
            let mut cluster = cluster(4);
            let loading = cluster.begin(C1);
            cluster.ask(loading, Request::Commit(vec![on(1, loaded.clone())]));
            let (reader, writer) = (cluster.begin(C1), cluster.begin(C2));
            fetched(Some(cluster.ask(reader, Request::Read(vec![look.clone()]))));
            // Both write elsewhere as well, so that both vote at partition 1.
            let reading = Request::Commit(vec![on(0, vec![update(SET, 0, 0, 1)])]);
            let writing = Request::Commit(vec![
                on(0, vec![update(SET, 0, 1, 1)]),
                on(1, effects.clone()),
            ]);
            let mut both = [(reader, C1, reading), (writer, C2, writing)];
            if !range_first {
                both.reverse();
            }
            let [(first, at_first, early), (second, at_second, late)] = both;
            cluster.request(first, early);
            prepare(&mut cluster, at_first, &[X, Y]);
            cluster.request(second, late);
            prepare(&mut cluster, at_second, &[X, Y]);
            cluster.deliver_all();
            assert!(is_committed(cluster.take_reply(first)), "{what}");
            let second = cluster.take_reply(second);
            match excluded {
                true => assert_eq!(reason(second), AbortReason::Conflict, "{what}"),
                false => assert!(is_committed(second), "{what}: {range_first}"),
            }
        }
    }
}

/// What commits in one step meets a prepared range as well.
#[test]
fn a_validated_range_excludes_what_commits_in_one_step() {
    let mut cluster = cluster(4);
    let reader = cluster.begin(C1);
    let look = vec![guarded(read_items(1, 5, 20))];
    fetched(Some(cluster.ask(reader, Request::Read(look))));
    cluster.request(
        reader,
        Request::Commit(vec![on(0, vec![update(SET, 0, 0, 1)])]),
    );
    prepare(&mut cluster, C1, &[X, Y]);
    for at in [Y, C2] {
        let phantom = cluster.begin(at);
        cluster.request(
            phantom,
            Request::Commit(vec![on(1, vec![insert_item(1, 9, 0, 0)])]),
        );
        if at != Y {
            round(&mut cluster, at, Y);
        }
        assert_eq!(reason(cluster.take_reply(phantom)), AbortReason::Conflict);
    }
    cluster.deliver_all();
    assert!(is_committed(cluster.take_reply(reader)));
}

/// `CommitReads` validates nothing: guards that have changed since do not abort it.
#[test]
fn reads_commit_without_validation() {
    for one_by_one in [false, true] {
        let mut cluster = cluster(4);
        let reader = cluster.begin(C1);
        cluster.request(
            reader,
            Request::WaitByAge(Age {
                began: cluster.now,
                transaction: reader,
            }),
        );
        let looks = [guarded(read_item(0, 0)), guarded(read_item(1, 0))];
        let batches = match one_by_one {
            true => looks.map(|look| vec![look]).to_vec(),
            false => vec![looks.to_vec()],
        };
        for batch in batches {
            fetched(Some(cluster.ask(reader, Request::Read(batch))));
        }
        let writer = cluster.begin(C2);
        assert!(is_committed(Some(
            cluster.ask(writer, Request::Commit(set_both(1)))
        )));
        cluster.request(reader, Request::CommitReads);
        assert!(is_committed(cluster.take_reply(reader)), "at once");
        assert!(cluster.nodes.iter().all(RampNode::is_idle));
    }
}
