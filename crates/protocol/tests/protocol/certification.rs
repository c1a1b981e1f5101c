//! Certification over partial order broadcast, message by message.

mod conflicts;
mod consistency;
mod crashes;
mod transfer;

use anabranch_protocol::certification::{Certificate, CertificationSite, Consistency};
use anabranch_protocol::order::pob::{PobOptions, PobSite};
use anabranch_protocol::order::{Orderer, SiteId};
use anabranch_protocol::{
    AbortReason, PartitionEffects, PartitionRead, Reply, Request, Topology, TransactionId,
};
use anabranch_storage::Store;
use anabranch_types::{Fetched, NodeId, Ticks};

use crate::support::cluster::Cluster;
use crate::support::fixture::{ENTRY, columns, programs, read_entries, read_item, store};

type Site = CertificationSite<PobSite<Certificate>>;

/// The items of each test.
const ITEMS: i64 = 4;

const WINDOW: Ticks = Ticks::from_millis(500);

fn site(number: u16, sites: u16, store: Store, consistency: Consistency) -> Site {
    site_with(number, sites, store, consistency, Ticks(0))
}

/// A site that gathers certificates for so long.
fn site_with(
    number: u16,
    sites: u16,
    store: Store,
    consistency: Consistency,
    batch_window: Ticks,
) -> Site {
    let options = PobOptions {
        batch_window,
        ..PobOptions::new(SiteId(number as u8), sites as u8)
    };
    let orderer = PobSite::new(options).expect("a supported number of sites");
    let topology = Topology::clusters(sites, 1, number);
    CertificationSite::new(
        NodeId(number),
        &topology,
        orderer,
        store,
        programs(),
        consistency,
    )
}

/// Three sites with the same rows.
fn sites_with(rows: &Store, consistency: Consistency) -> Cluster<Site> {
    let made = (0..3).map(|number| site(number, 3, rows.clone(), consistency));
    Cluster::new(made.collect())
}

/// Three sites with items, under SR.
fn sites() -> Cluster<Site> {
    sites_with(&store(0, ITEMS, WINDOW), Consistency::Serializable)
}

/// A transaction at a site that has read these.
fn reads(cluster: &mut Cluster<Site>, at: u16, reads: Vec<PartitionRead>) -> TransactionId {
    let id = cluster.begin(NodeId(at));
    fetch(cluster, id, reads);
    id
}

/// Reads more.
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

/// Commits a transaction, without waiting for its reply.
fn commit(cluster: &mut Cluster<Site>, id: TransactionId, effects: Vec<PartitionEffects>) {
    cluster.request(id, Request::Commit(effects));
}

/// The outcomes of transactions after all messages have arrived: whether each has committed. An abort is a conflict.
fn outcomes<const N: usize>(cluster: &mut Cluster<Site>, ids: [TransactionId; N]) -> [bool; N] {
    settle(cluster);
    ids.map(|id| match cluster.take_reply(id) {
        Some(Reply::Committed { .. }) => true,
        Some(Reply::Aborted(AbortReason::Conflict)) => false,
        other => panic!("{other:?}"),
    })
}

/// Delivers all messages and lets time pass until all sites are at rest, and checks that they have the same rows by the
/// same writers.
fn settle(cluster: &mut Cluster<Site>) {
    for _ in 0..1_000 {
        cluster.deliver_all();
        if cluster.nodes.iter().all(|site| site.orderer().is_at_rest()) {
            let newest: Vec<String> = cluster
                .nodes
                .iter()
                .map(|site| rows(site.store()))
                .collect();
            assert!(
                newest.windows(2).all(|pair| pair[0] == pair[1]),
                "{newest:#?}"
            );
            return;
        }
        cluster.advance(Ticks::from_millis(100));
    }
    panic!("the sites do not come to rest");
}

/// The newest rows of a store, with their writers.
fn rows(store: &Store) -> String {
    let all = [
        crate::support::fixture::read_items(0, i64::from(i32::MIN), i64::from(i32::MAX)),
        read_entries(0),
    ];
    let mut text = String::new();
    for read in all {
        let table = read.read.table();
        let found = store.read(&read.read, None, &mut |_, _, version| {
            if let Some(version) = version {
                let row = version.row().expect("a row of the answer");
                text += &format!("{:?} by {} ", columns(table, row), version.timestamp());
            }
        });
        found.expect("the newest versions are kept");
    }
    text
}

/// The register and the counter of an item at a site.
fn item_at(cluster: &Cluster<Site>, site: u16, id: i64) -> (i64, i64) {
    let read = read_item(0, id).read;
    let fetched = cluster.nodes[usize::from(site)].store().fetch(&read, None);
    let fetched = fetched.expect("the newest versions are kept");
    crate::support::fixture::item(&fetched).expect("the item exists")
}

/// The entries at a site.
fn entries_at(cluster: &Cluster<Site>, site: u16) -> Vec<[i64; 4]> {
    let read = read_entries(0).read;
    let fetched = cluster.nodes[usize::from(site)].store().fetch(&read, None);
    crate::support::fixture::rows(ENTRY, &fetched.expect("the newest versions are kept"))
}
