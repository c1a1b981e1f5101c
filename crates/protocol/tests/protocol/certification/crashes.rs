//! Crashes and recoveries: from the log, and from a checkpoint.

use anabranch_protocol::certification::Consistency;
use anabranch_protocol::{Durable, Record};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::NodeId;

use crate::certification::{
    Site, WINDOW, commit, entries_at, item_at, outcomes, reads, rows, settle, site, sites,
};
use crate::support::cluster::Cluster;
use crate::support::fixture::*;

fn empty() -> Store {
    Store::new(&schema(), StoreSettings { window: WINDOW })
}

fn crash(cluster: &mut Cluster<Site>, number: u16, from_checkpoint: bool) {
    if from_checkpoint {
        let mut records: Vec<Record> = Vec::new();
        cluster.nodes[usize::from(number)].checkpoint(&mut |record| records.push(record));
        cluster.logs[usize::from(number)] = records;
    }
    let fresh = site(number, 3, empty(), Consistency::Serializable);
    cluster.restart(NodeId(number), fresh);
}

#[test]
fn a_site_recovers_what_it_had_installed() {
    for from_checkpoint in [false, true] {
        let mut cluster = sites();
        cluster.keep_logs();
        let ids = [0, 1, 2, 0].map(|site| reads(&mut cluster, site, vec![read_item(0, 3)]));
        for (number, id) in (0..).zip(ids) {
            let effects = vec![
                update(ADD, 0, 0, 5),
                draw(0, 1, 0),
                insert_drawn(0, 0, 0, number, 1),
            ];
            commit(&mut cluster, id, vec![on(0, effects)]);
        }
        assert_eq!(outcomes(&mut cluster, ids), [true; 4]);
        let before = rows(cluster.nodes[1].store());
        let sequence = cluster.nodes[1].store().last();
        crash(&mut cluster, 1, from_checkpoint);
        assert_eq!(rows(cluster.nodes[1].store()), before);
        assert_eq!(cluster.nodes[1].store().last(), sequence);
        settle(&mut cluster);
        assert_eq!(entries_at(&cluster, 1).len(), 4);
    }
}

/// The certificate had reached one other site, which recovers it or decides that it is never delivered.
#[test]
fn a_transaction_of_a_site_that_crashes_is_decided_alike_everywhere() {
    for (from_checkpoint, reached) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut cluster = sites();
        cluster.keep_logs();
        let lost = reads(&mut cluster, 0, vec![read_item(0, 0)]);
        commit(&mut cluster, lost, vec![on(0, vec![update(SET, 0, 0, 1)])]);
        if reached {
            cluster.deliver(NodeId(0), NodeId(1));
        }
        crash(&mut cluster, 0, from_checkpoint);
        settle(&mut cluster);
        let next = reads(&mut cluster, 2, vec![read_item(0, 0)]);
        commit(&mut cluster, next, vec![on(0, vec![update(SET, 0, 1, 2)])]);
        assert_eq!(outcomes(&mut cluster, [next]), [true]);
        assert_eq!(item_at(&cluster, 0, 1), (2, 0));
        assert!(cluster.take_reply(lost).is_none(), "its client is gone");
    }
}

#[test]
fn a_site_that_was_down_catches_up() {
    let mut cluster = sites();
    cluster.keep_logs();
    let ids = [0, 1].map(|site| reads(&mut cluster, site, vec![read_item(0, i64::from(site))]));
    for id in ids {
        let set = update(SET, 0, i64::from(id.node.0), 7);
        commit(&mut cluster, id, vec![on(0, vec![set])]);
    }
    // Site 2 loses all that is sent to it.
    crash(&mut cluster, 2, false);
    assert_eq!(outcomes(&mut cluster, ids), [true; 2]);
    assert_eq!([0, 1].map(|id| item_at(&cluster, 2, id)), [(7, 0); 2]);
}
