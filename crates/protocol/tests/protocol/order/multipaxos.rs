//! MultiPaxos: message by message, and in storms.

use anabranch_protocol::order::multipaxos::{MultiPaxosOptions, MultiPaxosSite};
use anabranch_protocol::order::{BatchId, Orderer, SiteId};
use anabranch_types::Ticks;

use crate::order::group::{Group, Operation};
use crate::order::storm::{Seen, Storm, run};
use crate::support::random::Random;

type Site = MultiPaxosSite<Operation>;

fn group(sites: u8, change: impl Fn(&mut MultiPaxosOptions) + 'static) -> Group<Site> {
    let mut group = Group::new(sites, move |site| {
        let mut options = MultiPaxosOptions::new(site, sites);
        change(&mut options);
        MultiPaxosSite::new(options).expect("a supported size")
    });
    group.forgets = true;
    group
}

fn id(site: u8, sequence: u64) -> BatchId {
    BatchId {
        site: SiteId(site),
        sequence,
    }
}

fn delivered(group: &Group<Site>, site: u8) -> Vec<BatchId> {
    let applied = group.members[usize::from(site)].applied.iter();
    applied.map(|it| it.id).collect()
}

/// A write of key 0.
fn write(group: &mut Group<Site>, site: u8) {
    group.broadcast(SiteId(site), vec![(0, true)]);
}

/// Lets time pass and messages arrive until all sites that are up are at rest.
fn settle(group: &mut Group<Site>) {
    for _ in 0..1_000 {
        group.pass_all();
        // While a site is down, the others report to it for ever.
        let all_are_up = group.sites().all(|site| group.is_up(site));
        let rest = || group.sites().all(|site| group.at(site).is_at_rest());
        if group.is_quiet() && (!all_are_up || rest()) {
            return;
        }
        group.now = Ticks(group.now.0 + Ticks::from_millis(50).0);
        for site in group.sites() {
            group.fire(site);
        }
    }
    panic!("liveness: {}", group.describe());
}

#[test]
fn the_leader_delivers_after_one_round_trip_to_a_majority() {
    let mut group = group(5, |_| {});
    write(&mut group, 0);
    for site in [1, 2] {
        group.pass(0, site, "Accept");
        group.pass(site, 0, "Accepted");
    }
    assert_eq!(delivered(&group, 0), [id(0, 1)]);
    group.pass(0, 1, "Chosen");
    assert_eq!(delivered(&group, 1), [id(0, 1)]);
    settle(&mut group);
    assert!((0..5).all(|site| delivered(&group, site) == [id(0, 1)]));
}

#[test]
fn another_site_forwards_to_the_leader_and_slots_are_pipelined() {
    let mut group = group(3, |_| {});
    write(&mut group, 1);
    write(&mut group, 1);
    group.pass(1, 0, "Forward");
    group.pass(1, 0, "Forward");
    // The second slot is accepted first, and waits for the first one.
    let second = group
        .network
        .iter()
        .rposition(|(from, to, _)| (from.0, to.0) == (0, 1));
    group.deliver(second.expect("two slots are under way"));
    group.pass(1, 0, "Accepted");
    assert_eq!(delivered(&group, 0), []);
    settle(&mut group);
    assert!((0..3).all(|site| delivered(&group, site) == [id(1, 1), id(1, 2)]));
}

/// What the old leader had accepted at one other site stays in its slot; a gap before it is filled.
#[test]
fn a_new_leader_fills_gaps_and_keeps_what_was_accepted() {
    let mut group = group(3, |_| {});
    write(&mut group, 0);
    write(&mut group, 0);
    group.network.retain(|(_, to, _)| *to == SiteId(1));
    group.deliver(1);
    group.crash(SiteId(0), &mut Random::new(1), 0);
    write(&mut group, 2);
    settle(&mut group);
    assert_eq!(delivered(&group, 1), [id(0, 2), id(2, 1)]);
    assert!(group.at(SiteId(1)).leads() || group.at(SiteId(2)).leads());
    group.restart(SiteId(0), false);
    settle(&mut group);
    // It forwards again what was lost with it, which its log has.
    assert_eq!(delivered(&group, 0), [id(0, 2), id(2, 1), id(0, 1)]);
}

#[test]
fn a_leader_that_returns_leads_in_a_new_ballot() {
    for compacts in [false, true] {
        let mut group = group(3, |_| {});
        write(&mut group, 0);
        settle(&mut group);
        group.crash(SiteId(0), &mut Random::new(1), 100);
        group.restart(SiteId(0), compacts);
        assert!(!group.at(SiteId(0)).leads());
        write(&mut group, 1);
        settle(&mut group);
        assert!((0..3).all(|site| delivered(&group, site) == [id(0, 1), id(1, 1)]));
    }
}

/// Runs storms; every promise is checked at each step and in the end.
fn storms(
    sizes: &[u8],
    seeds: u64,
    change: impl Fn(&mut MultiPaxosOptions, u64) + Copy + 'static,
) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let sites = sizes[(seed % sizes.len() as u64) as usize];
        let storm = Storm::of(&mut random);
        let mut group = group(sites, move |options| change(options, seed));
        run(seed, storm, &mut random, &mut group, &mut seen);
    }
    seen
}

#[test]
fn storms_with_one_payload_a_batch() {
    let seen = storms(&[3, 5, 4, 7], 600, |_, _| {});
    assert!(seen.recoveries > 100 && seen.no_ops > 0, "{seen:?}");
}

#[test]
fn storms_with_batches_and_other_leaders() {
    let seen = storms(&[3, 5, 2], 400, |options, seed| {
        options.batch_window = Ticks::from_millis(20);
        options.batch_max = 4;
        options.leader = SiteId((seed % 2) as u8);
    });
    assert!(seen.deliveries > 1_000, "{seen:?}");
}
