//! Partial order broadcast.

use anabranch_protocol::order::pob::entry::{Decision, Dependencies, Position, Slot, Status};
use anabranch_protocol::order::pob::record::{Base, PobRecord};
use anabranch_protocol::order::pob::{FastDecisions, PobOptions, PobSite};
use anabranch_protocol::order::{BatchId, Orderer, OutboxOf, Prefix, SiteId};
use anabranch_types::Ticks;

use crate::order::group::{Group, Operation, Packet};
use crate::order::storm::{self, Seen, Storm};
use crate::support::random::Random;

type Site = PobSite<Operation>;

/// Options with times that fit the storms.
fn options(site: SiteId, sites: u8) -> PobOptions {
    PobOptions {
        retry: Ticks::from_millis(100),
        patience: Ticks::from_millis(400),
        fast_wait: Ticks::from_millis(50),
        ..PobOptions::new(site, sites)
    }
}

/// A group whose options `change` changes.
fn group(sites: u8, change: impl Fn(&mut PobOptions) + 'static) -> Group<Site> {
    Group::new(sites, move |site| {
        let mut options = options(site, sites);
        change(&mut options);
        Site::new(options).expect("a supported size")
    })
}

/// A group with classic decisions.
fn classic(sites: u8) -> Group<Site> {
    group(sites, |_| {})
}

fn id(site: u8, sequence: u64) -> BatchId {
    BatchId {
        site: SiteId(site),
        sequence,
    }
}

/// The position of a batch that is STABLE at a site; `None` if it is a no-op.
fn stable(group: &Group<Site>, site: u8, id: BatchId) -> Option<Position> {
    let decision = group.at(SiteId(site)).decision(id);
    let decision = decision.unwrap_or_else(|| panic!("{id} is STABLE at s{site}"));
    decision.slot().map(|slot| slot.position)
}

/// What a site has delivered.
fn delivered(group: &Group<Site>, site: u8) -> Vec<BatchId> {
    let applied = &group.members[usize::from(site)].applied;
    applied.iter().map(|applied| applied.id).collect()
}

/// How a message about a batch begins.
fn begins(name: &str, id: BatchId) -> String {
    format!("{name} {{ id: {id:?},")
}

/// Lets time pass and messages arrive until all sites that are up have delivered all that they know.
fn settle(group: &mut Group<Site>) {
    for _ in 0..1_000 {
        group.now = Ticks(group.now.0 + Ticks::from_millis(50).0);
        for site in group.sites() {
            group.fire(site);
        }
        group.pass_all();
        let mut up = group.sites().filter(|site| group.is_up(*site));
        if group.is_quiet() && up.all(|site| group.at(site).undecided().next().is_none()) {
            return;
        }
    }
    panic!("liveness: {}", group.describe());
}

fn recover(group: &mut Group<Site>, site: u8, id: BatchId) {
    group.step(SiteId(site), |orderer, now, out| {
        orderer.recover_batch(now, id, out);
    });
}

/// A write of key 0.
fn write(group: &mut Group<Site>, site: u8) {
    group.broadcast(SiteId(site), vec![(0, true)]);
}

#[test]
fn a_batch_is_stable_after_two_round_trips_to_a_majority() {
    let mut group = classic(5);
    write(&mut group, 0);
    for site in [1, 2] {
        group.pass(0, site, "Propose");
    }
    group.pass(1, 0, "AckPropose");
    assert!(!group.at(SiteId(0)).is_accepting(id(0, 1)));
    group.pass(2, 0, "AckPropose");
    assert!(group.at(SiteId(0)).is_accepting(id(0, 1)));
    for site in [3, 4] {
        group.pass(0, site, "Accept");
        group.pass(site, 0, "AckAccept");
    }
    assert_eq!(delivered(&group, 0), [id(0, 1)]);
    assert_eq!(stable(&group, 0, id(0, 1)), Some(Position(5)));
    group.pass_all();
    assert!((0..5).all(|site| delivered(&group, site) == [id(0, 1)]));
}

#[test]
fn a_fast_decision_takes_one_round_trip_to_all_sites() {
    let mut group = group(3, |options| options.fast = FastDecisions::AllSites);
    write(&mut group, 0);
    for site in [1, 2] {
        group.pass(0, site, "Propose");
    }
    group.pass(1, 0, "AckPropose");
    assert!(group.at(SiteId(0)).waits_for_fast(id(0, 1)));
    assert_eq!(delivered(&group, 0), []);
    group.pass(2, 0, "AckPropose");
    assert_eq!(delivered(&group, 0), [id(0, 1)]);
    assert_eq!(group.at(SiteId(0)).counters().fast_decisions, 1);
}

/// Whichever sites recover a batch that was decided fast, they find the decision.
#[test]
fn every_recovery_finds_a_fast_decision() {
    for quorum in [[1, 2, 3], [1, 2, 4], [2, 3, 4], [1, 3, 4]] {
        let mut group = group(5, |options| options.fast = FastDecisions::AllSites);
        write(&mut group, 0);
        for site in 1..5 {
            group.pass(0, site, "Propose");
            group.pass(site, 0, "AckPropose");
        }
        let decided = stable(&group, 0, id(0, 1));
        assert_eq!(decided, Some(Position(5)));
        // The leader's word reaches no site.
        group.crash(SiteId(0), &mut Random::new(1), 0);
        let [leader, others @ ..] = quorum;
        recover(&mut group, leader, id(0, 1));
        for site in others {
            group.pass(leader, site, "Prepare");
            group.pass(site, leader, "Promise");
        }
        for site in others {
            group.pass(leader, site, "Accept");
            group.pass(site, leader, "AckAccept");
        }
        assert_eq!(stable(&group, leader, id(0, 1)), decided, "{quorum:?}");
    }
}

/// Batches that do not conflict wait for nothing.
#[test]
fn only_conflicting_batches_depend_on_each_other() {
    let mut group = classic(3);
    group.broadcast(SiteId(0), vec![(0, true)]);
    group.broadcast(SiteId(1), vec![(1, true)]);
    group.broadcast(SiteId(2), vec![(0, false), (1, false)]);
    group.broadcast(SiteId(2), vec![(0, false)]);
    group.pass_all();
    let dependencies = |of: BatchId| {
        let applied = &group.members[0].applied;
        let applied = applied.iter().find(|applied| applied.id == of);
        applied.expect("it is delivered").dependencies.clone()
    };
    for (one, other) in [(id(0, 1), id(1, 1)), (id(2, 1), id(2, 2))] {
        assert!(!dependencies(one).contains(&other) && !dependencies(other).contains(&one));
    }
    for reader in [id(2, 1), id(2, 2)] {
        let writer = id(0, 1);
        assert!(dependencies(reader).contains(&writer) != dependencies(writer).contains(&reader));
    }
}

/// Each of two batches of one site is raised to the same position by another site. If both took it and were ordered by
/// position alone, each would wait for the other for ever.
#[test]
fn two_batches_of_one_site_raised_to_one_position_are_delivered_in_one_order() {
    let mut group = classic(3);
    for site in [1, 1, 1, 2, 2, 2] {
        write(&mut group, site);
    }
    group.network.clear();
    write(&mut group, 0);
    write(&mut group, 0);
    group.pass(0, 1, &begins("Propose", id(0, 1)));
    group.pass(0, 2, &begins("Propose", id(0, 2)));
    group.pass(1, 0, "AckPropose");
    group.pass(2, 0, "AckPropose");
    assert!(group.at(SiteId(0)).is_accepting(id(0, 2)));
    group.pass_all();
    let positions = [1, 2].map(|sequence| stable(&group, 0, id(0, sequence)));
    settle(&mut group);
    assert_eq!(positions, [Some(Position(9)), Some(Position(12))]);
    assert_eq!(delivered(&group, 0).len(), 8);
    assert_eq!(delivered(&group, 0), delivered(&group, 2));
}

/// A proposal reaches one site, and both die: a batch that depends on it is delivered all the same.
#[test]
fn a_dependency_that_is_lost_with_its_senders_becomes_a_no_op() {
    let mut group = classic(5);
    write(&mut group, 0);
    group.pass(0, 1, "Propose");
    group.network.clear();
    write(&mut group, 1);
    for site in [2, 3, 4] {
        group.pass(1, site, "Propose");
        group.pass(site, 1, "AckPropose");
    }
    for site in [2, 3, 4] {
        group.pass(1, site, "Accept");
        group.pass(site, 1, "AckAccept");
    }
    for site in [2, 3, 4] {
        group.pass(1, site, "Stable");
    }
    let mut random = Random::new(1);
    group.crash(SiteId(0), &mut random, 0);
    group.crash(SiteId(1), &mut random, 0);
    assert_eq!(delivered(&group, 2), []);
    // Each site's patience ends by itself.
    settle(&mut group);
    for site in 2..5 {
        assert_eq!(stable(&group, site, id(0, 1)), None);
        assert_eq!(delivered(&group, site), [id(1, 1)]);
    }
}

/// The site of a batch was not down: it broadcasts the payload again, once.
#[test]
fn what_a_wrong_suspicion_made_a_no_op_is_broadcast_again() {
    let mut group = classic(3);
    write(&mut group, 0);
    recover(&mut group, 1, id(0, 1));
    group.pass(1, 2, "Prepare");
    group.pass(2, 1, "Promise");
    group.pass(1, 2, "Accept");
    group.pass(2, 1, "AckAccept");
    assert_eq!(stable(&group, 1, id(0, 1)), None);
    group.pass_all();
    for site in 0..3 {
        assert_eq!(delivered(&group, site), [id(0, 2)]);
    }
    assert_eq!(group.at(SiteId(0)).counters().rebroadcasts, 1);
}

/// A leader that has returned after another site took its batch over neither decides in its old epoch nor uses the
/// batch's number or position again.
#[test]
fn a_leader_that_returns_does_not_decide_in_its_old_epoch() {
    let mut group = classic(3);
    write(&mut group, 0);
    group.pass(0, 1, "Propose");
    group.pass(1, 0, "AckPropose");
    // The acceptances of epoch 0 are under way.
    group.pass(0, 2, "Accept");
    group.crash(SiteId(0), &mut Random::new(1), 0);
    recover(&mut group, 1, id(0, 1));
    group.pass(1, 2, "Prepare");
    group.pass(2, 1, "Promise");
    group.restart(SiteId(0), true);
    write(&mut group, 0);
    group.pass_all();
    for site in 0..3 {
        let positions = [1, 2].map(|sequence| stable(&group, site, id(0, sequence)));
        assert_eq!(positions[0], Some(Position(3)));
        assert!(positions[1] > positions[0]);
        assert_eq!(delivered(&group, site), [id(0, 1), id(0, 2)]);
    }
}

/// A site that has promised a later epoch, and restarted since, accepts nothing in the earlier one.
#[test]
fn a_promise_outlives_a_restart() {
    let mut group = classic(3);
    write(&mut group, 0);
    group.pass(0, 1, "Propose");
    group.pass(1, 0, "AckPropose");
    recover(&mut group, 1, id(0, 1));
    group.pass(1, 2, "Prepare");
    group.pass(2, 1, "Promise");
    group.crash(SiteId(2), &mut Random::new(1), 100);
    group.restart(SiteId(2), false);
    // The decision of epoch 0 is sent again, before that of epoch 1.
    group.now = Ticks(group.now.0 + Ticks::from_millis(200).0);
    group.fire(SiteId(0));
    group.pass(0, 2, "Accept");
    group.pass(2, 0, "Refuse");
    settle(&mut group);
    for site in 0..3 {
        assert_eq!(delivered(&group, site), [id(0, 2)]);
    }
}

/// Three partial recoveries: the third must find what the second has accepted, and not what the first has.
#[test]
fn a_recovery_takes_the_highest_accepted_epoch() {
    let mut group = classic(5);
    write(&mut group, 0);
    group.pass(0, 1, "Propose");
    group.pass(0, 2, "Propose");
    group.pass(1, 0, "AckPropose");
    group.pass(2, 0, "AckPropose");
    // Epoch 0: accepted at s0 alone. Epoch 3: a quorum that has seen no acceptance, and not all a proposal.
    recover(&mut group, 3, id(0, 1));
    for site in [1, 4] {
        group.pass(3, site, "Prepare");
        group.pass(site, 3, "Promise");
    }
    group.pass(3, 4, "Accept");
    // Epoch 2, of s2, is too low. Epoch 7 finds the no-op of epoch 3 and the slot of epoch 0.
    recover(&mut group, 2, id(0, 1));
    group.pass(2, 4, "Prepare");
    group.pass(4, 2, "Refuse");
    group.network.retain(|(from, ..)| *from != SiteId(2));
    recover(&mut group, 2, id(0, 1));
    for site in [0, 4] {
        group.pass(2, site, "Prepare");
        group.pass(site, 2, "Promise");
    }
    for site in [0, 4] {
        group.pass(2, site, "Accept");
        group.pass(site, 2, "AckAccept");
    }
    assert_eq!(stable(&group, 2, id(0, 1)), None);
    // The acceptance of s1 in epoch 3 comes too late.
    group.pass(3, 1, "Accept");
    group.pass(1, 3, "AckAccept");
    group.pass_all();
    for site in 0..5 {
        assert_eq!(stable(&group, site, id(0, 1)), None);
    }
}

/// T is accepted at its proposed position 5 by one recovery and at its higher position 10 by another, and decided at
/// 5. Sites that hold it at 10 when U is accepted at 8 must still make it a dependency of U: they have answered 5.
#[test]
fn a_batch_that_may_be_decided_at_two_positions_precedes_what_follows_the_lower() {
    let mut group = classic(5);
    let (t, u, v) = (id(0, 1), id(3, 1), id(4, 1));
    // V raises the answers of s4, and is lost.
    write(&mut group, 4);
    group.network.clear();
    write(&mut group, 3);
    for site in [0, 1, 2, 4] {
        group.pass(3, site, "Propose");
    }
    write(&mut group, 0);
    for site in [1, 2, 3, 4] {
        group.pass(0, site, "Propose");
    }
    group.pass(1, 0, "AckPropose");
    group.pass(4, 0, "AckPropose");
    let accepted = |group: &Group<Site>, site: u8, id: BatchId| -> Position {
        let entry = group.at(SiteId(site)).entry(id).expect("an entry");
        match &entry.status {
            Status::Accepted {
                decision: Decision::Deliver(slot),
                ..
            } => slot.position,
            other => panic!("{id} at s{site}: {other:?}"),
        }
    };
    assert_eq!(accepted(&group, 0, t), Position(10));
    group.pass(1, 3, "AckPropose");
    group.pass(4, 3, "AckPropose");
    assert_eq!(accepted(&group, 3, u), Position(8));
    // T in epoch 1, at 5: accepted at s1 alone.
    recover(&mut group, 1, t);
    for site in [2, 3] {
        group.pass(1, site, &begins("Prepare", t));
        group.pass(site, 1, &begins("Promise", t));
    }
    assert_eq!(accepted(&group, 1, t), Position(5));
    // T in epoch 2, at 10: accepted at s2 alone.
    recover(&mut group, 2, t);
    for site in [0, 3] {
        group.pass(2, site, &begins("Prepare", t));
        group.pass(site, 2, &begins("Promise", t));
    }
    assert_eq!(accepted(&group, 2, t), Position(10));
    // U is accepted at s0, and decided in epoch 4 by s0, s2 and s4.
    group.pass(3, 0, &begins("Accept", u));
    recover(&mut group, 4, u);
    for site in [0, 2] {
        group.pass(4, site, &begins("Prepare", u));
        group.pass(site, 4, &begins("Promise", u));
    }
    for site in [0, 2] {
        group.pass(4, site, &begins("Accept", u));
        group.pass(site, 4, &begins("AckAccept", u));
    }
    assert_eq!(stable(&group, 4, u), Some(Position(8)));
    // T is decided in epoch 3, at 5, by s1, s3 and s4.
    recover(&mut group, 3, t);
    for site in [1, 4] {
        group.pass(3, site, &begins("Prepare", t));
        group.pass(site, 3, &begins("Promise", t));
    }
    for site in [1, 4] {
        group.pass(3, site, &begins("Accept", t));
        group.pass(site, 3, &begins("AckAccept", t));
    }
    assert_eq!(stable(&group, 3, t), Some(Position(5)));
    // s0 learns of U before it learns of T.
    group.pass(4, 0, &begins("Stable", u));
    recover(&mut group, 1, v);
    group.pass_all();
    for site in 0..5 {
        assert_eq!(delivered(&group, site)[..2], [t, u], "s{site}");
    }
}

/// Runs the seeds of a range in storms.
fn storms(
    seeds: std::ops::Range<u64>,
    sites: &[u8],
    change: fn(&mut PobOptions, &mut Random),
) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let sites = sites[random.below(sites.len() as u64) as usize];
        let storm = Storm::of(&mut random);
        let mut own = options(SiteId(0), sites);
        change(&mut own, &mut random);
        let mut group = group(sites, move |options| {
            *options = PobOptions {
                site: options.site,
                ..own
            };
        });
        group.discards = own.retained_max < 1_000;
        storm::run(seed, storm, &mut random, &mut group, &mut seen);
    }
    println!("{seen:?}");
    seen
}

/// The number of seeds, fewer where a quick run is asked for.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let quick = std::env::var_os("ANABRANCH_QUICK").is_some();
    0..if quick { count / 10 } else { count }
}

#[test]
fn storms_with_classic_decisions_keep_every_promise() {
    let seen = storms(seeds(2_000), &[3, 5], |_, _| {});
    assert!(seen.recoveries > 0 && seen.no_ops > 0 && seen.rebroadcasts > 0);
    assert_eq!(seen.fast, 0);
}

#[test]
fn storms_with_fast_decisions_keep_every_promise() {
    let seen = storms(seeds(2_000), &[3, 4, 5], |options, _| {
        options.fast = FastDecisions::AllSites;
    });
    assert!(seen.fast > 0 && seen.classic > 0 && seen.recoveries > 0);
}

#[test]
fn storms_with_batches_keep_every_promise() {
    let seen = storms(seeds(1_000), &[3, 5], |options, random| {
        options.batch_window = Ticks::from_millis(1 + random.below(200));
        options.batch_max = 1 + random.below(4) as usize;
    });
    assert!(seen.rebroadcasts > 0);
}

#[test]
fn storms_in_groups_of_other_sizes_keep_every_promise() {
    storms(seeds(500), &[1, 2, 4, 6, 7, 8, 9], |_, _| {});
}

/// Sites that keep little for the others: those that were away take another site's state.
fn storms_with_state_transfers(seeds: std::ops::Range<u64>) -> Seen {
    storms(seeds, &[3, 5], |options, random| {
        options.retained_max = 1 + random.below(6) as usize;
        if random.percent(30) {
            options.fast = FastDecisions::AllSites;
        }
    })
}

#[test]
fn storms_with_state_transfers_keep_every_promise() {
    let seen = storms_with_state_transfers(seeds(2_000));
    assert!(seen.transfers > seen.runs / 100, "{seen:?}");
}

/// How a message about the first cut begins.
fn begins_cut(part: &str) -> String {
    format!("Cut {{ number: 0, chosen: Prefix([0, 0, 0]), part: {part}")
}

/// s2 has accepted s0's cut, of X alone, when it proposes one itself. By then it would choose X and Y; but s0 may have
/// learned that its own is chosen, and learns it later.
#[test]
fn a_cut_that_may_be_chosen_is_chosen_again() {
    let mut group = group(3, |options| options.retained_max = 0);
    group.discards = true;
    let (x, y) = (id(0, 1), id(2, 1));
    let fire = |group: &mut Group<Site>, site: u8| {
        group.now = Ticks(group.now.0 + Ticks::from_millis(110).0);
        group.fire(SiteId(site));
    };
    // s1 gets nothing for now.
    group.broadcast(SiteId(0), vec![(0, true)]);
    group.pass_all_but(1);
    fire(&mut group, 2);
    group.pass(2, 0, "Report");
    fire(&mut group, 0);
    group.pass(0, 2, &begins_cut("Prepare"));
    group.pass(2, 0, &begins_cut("Promise"));
    group.pass(0, 2, &begins_cut("Accept {"));
    group.broadcast(SiteId(2), vec![(1, true)]);
    group.pass(2, 0, "Propose");
    group.pass(0, 2, "AckPropose");
    group.pass(2, 0, "Accept {");
    group.pass(0, 2, "AckAccept");
    group.pass(2, 0, "Stable");
    assert_eq!(delivered(&group, 0), [x, y]);
    // s2 learns that a majority has delivered both.
    group.network.retain(|(from, to, packet)| {
        let is_report =
            matches!(packet, Packet::Message(it) if format!("{it:?}").starts_with("Report"));
        !(is_report && (*from, *to) == (SiteId(0), SiteId(2)))
    });
    fire(&mut group, 0);
    group.pass(0, 2, "Report");
    fire(&mut group, 2);
    fire(&mut group, 2);
    group.pass(2, 1, &begins_cut("Prepare"));
    group.pass(1, 2, &begins_cut("Promise"));
    group.pass(2, 1, &begins_cut("Accept {"));
    group.pass(1, 2, &begins_cut("Accepted"));
    let discards = |group: &Group<Site>, site, id| group.at(SiteId(site)).entry(id).is_none();
    assert_eq!([x, y].map(|id| discards(&group, 2, id)), [true, false]);
    group.pass(2, 0, &begins_cut("Accepted"));
    assert_eq!([x, y].map(|id| discards(&group, 0, id)), [true, false]);
    settle(&mut group);
    group.check_end("all have heard of both");
}

/// A site takes a state, and a cut that covers all of it was chosen while the state was sent: replay discards by the cut
/// before it comes to the state's decisions. Their positions stay the floor of later answers.
#[test]
fn a_state_that_a_cut_covers_is_replayed() {
    let mut group = classic(3);
    write(&mut group, 0);
    settle(&mut group);
    write(&mut group, 0);
    settle(&mut group);
    let mut records = Vec::new();
    group
        .at(SiteId(2))
        .checkpoint(&mut |record| records.push(record));
    let base = records.into_iter().find_map(|record| match record {
        PobRecord::Base(base) => Some(base),
        _ => None,
    });
    let first = |last| {
        let mut prefix = Prefix::empty(3);
        prefix.extend(SiteId(0), last);
        prefix
    };
    let mut base: Base = base.expect("a checkpoint has a base");
    base.pruned = first(1);
    base.floor = Position(0);
    (base.cuts.number, base.cuts.chosen) = (2, first(2));
    let slot = Slot {
        position: Position(30),
        dependencies: Dependencies::default(),
    };
    let mut site = Site::new(options(SiteId(2), 3)).expect("a supported size");
    let mut out = OutboxOf::<Site>::default();
    for record in [
        PobRecord::Base(base),
        PobRecord::Stable {
            id: id(0, 2),
            decision: Decision::Deliver(slot),
            batch: None,
        },
    ] {
        site.replay(record, &mut out).expect("it is replayed");
    }
    let mut floor = None;
    site.checkpoint(&mut |record| {
        if let PobRecord::Base(base) = record {
            floor = Some(base.floor);
        }
    });
    assert_eq!(floor, Some(Position(30)));
    assert!(out.deliveries.is_empty());
}

/// Lets time pass and lets reports and the choice of cuts arrive, but nothing between s0 and s1. The rest is lost.
fn report_through_the_third(group: &mut Group<Site>) {
    let passes = |(from, to, packet): &(SiteId, SiteId, Packet<Site>)| {
        let is_through = SiteId(2) == *from || SiteId(2) == *to;
        let begins = |message: &str| message.starts_with("Report") || message.starts_with("Cut");
        is_through && matches!(packet, Packet::Message(it) if begins(&format!("{it:?}")))
    };
    for _ in 0..40 {
        group.now = Ticks(group.now.0 + Ticks::from_millis(60).0);
        for site in group.sites() {
            group.fire(site);
        }
        group.network.retain(passes);
        while !group.network.is_empty() {
            let packet = group.network.remove(0);
            group.network.push(packet);
            group.deliver(group.network.len() - 1);
            group.network.retain(passes);
        }
    }
}

/// s0 and s2 have delivered X, s1 and s2 have delivered Y, and then s2 is lost. Had s0 discarded X and s1 Y, since a
/// majority has each, neither could take the other's state.
#[test]
fn a_majority_goes_on_without_the_third_site_that_has_delivered_what_each_lacks() {
    let mut group = group(3, |options| options.retained_max = 0);
    group.discards = true;
    let (x, y) = (id(0, 1), id(1, 1));
    group.broadcast(SiteId(0), vec![(0, true)]);
    group.broadcast(SiteId(1), vec![(1, true)]);
    let through =
        |(from, to, _): &(SiteId, SiteId, Packet<Site>)| SiteId(2) == *from || SiteId(2) == *to;
    group.network.retain(through);
    while !group.network.is_empty() {
        group.deliver(0);
        group.network.retain(through);
    }
    assert_eq!(
        [0, 1].map(|site| delivered(&group, site)),
        [vec![x], vec![y]]
    );
    assert_eq!(delivered(&group, 2).len(), 2);
    report_through_the_third(&mut group);
    let discards = |site, id| group.at(SiteId(site)).entry(id).is_none();
    assert_eq!([discards(0, x), discards(1, y)], [true, false]);
    group.crash(SiteId(2), &mut Random::new(1), 0);
    settle(&mut group);
    for site in [0, 1] {
        assert_eq!(delivered(&group, site).len(), 2, "s{site}");
    }
    assert_eq!(group.at(SiteId(1)).counters().transfers, 1);
    group.restart(SiteId(2), false);
    settle(&mut group);
    group.check_end("the third has returned");
}
