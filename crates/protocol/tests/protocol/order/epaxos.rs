//! EPaxos: message by message, and in storms.

use anabranch_protocol::order::epaxos::entry::Decision;
use anabranch_protocol::order::epaxos::message::Message;
use anabranch_protocol::order::epaxos::{EpaxosOptions, EpaxosSite};
use anabranch_protocol::order::{BatchId, OrderOutbox, Orderer, SiteId};
use anabranch_types::Ticks;

use crate::order::group::{Group, Operation, Packet};
use crate::order::storm::{self, Seen, Storm};
use crate::support::random::Random;

type Site = EpaxosSite<Operation>;

/// Options with times that fit the storms.
fn options(site: SiteId, sites: u8) -> EpaxosOptions {
    EpaxosOptions {
        retry: Ticks::from_millis(100),
        patience: Ticks::from_millis(400),
        fast_wait: Ticks::from_millis(50),
        ..EpaxosOptions::new(site, sites)
    }
}

/// A group whose options `change` changes.
fn changed(sites: u8, change: impl Fn(&mut EpaxosOptions) + 'static) -> Group<Site> {
    let mut group = Group::new(sites, move |site| {
        let mut options = options(site, sites);
        change(&mut options);
        Site::new(options).expect("a supported size")
    });
    // A component waits for the last of its batches, and is pruned at sites that have delivered it.
    group.forgets = true;
    group
}

fn group(sites: u8) -> Group<Site> {
    changed(sites, |_| {})
}

fn id(site: u8, sequence: u64) -> BatchId {
    BatchId {
        site: SiteId(site),
        sequence,
    }
}

/// The dependencies of a batch that is committed at a site; `None` if it is a no-op.
fn committed(group: &Group<Site>, site: u8, id: BatchId) -> Option<Vec<BatchId>> {
    let decision = group.at(SiteId(site)).decision(id);
    match decision.unwrap_or_else(|| panic!("{id} is committed at s{site}")) {
        Decision::Deliver(dependencies) => Some(dependencies.iter().copied().collect()),
        Decision::NoOp => None,
    }
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
fn a_batch_without_conflict_takes_one_round_trip_to_a_fast_quorum() {
    let mut group = group(5);
    write(&mut group, 0);
    for site in [1, 2] {
        group.pass(0, site, "PreAccept ");
    }
    group.pass(1, 0, "PreAccepted");
    assert_eq!(delivered(&group, 0), []);
    group.pass(2, 0, "PreAccepted");
    assert_eq!(delivered(&group, 0), [id(0, 1)]);
    assert_eq!(group.at(SiteId(0)).counters().fast_decisions, 1);
    group.pass_all();
    assert!((0..5).all(|site| delivered(&group, site) == [id(0, 1)]));
}

#[test]
fn a_batch_with_conflict_takes_another_round_trip() {
    let mut group = group(3);
    write(&mut group, 0);
    write(&mut group, 1);
    group.pass(0, 2, "PreAccept ");
    group.pass(1, 2, "PreAccept ");
    group.pass(2, 0, "PreAccepted");
    assert_eq!(committed(&group, 0, id(0, 1)), Some(vec![]));
    group.pass(2, 1, "PreAccepted");
    assert!(group.at(SiteId(1)).is_accepting(id(1, 1)));
    group.pass(1, 2, "Accept ");
    group.pass(2, 1, "Accepted");
    assert_eq!(committed(&group, 1, id(1, 1)), Some(vec![id(0, 1)]));
    assert_eq!(delivered(&group, 1), []);
    group.pass_all();
    assert!((0..3).all(|site| delivered(&group, site) == [id(0, 1), id(1, 1)]));
}

/// With seven sites a classic quorum is smaller than a fast one: the leader waits for the rest, but not for long.
#[test]
fn a_leader_waits_for_a_fast_quorum_for_a_time() {
    let mut group = group(7);
    write(&mut group, 0);
    for site in 1..4 {
        group.pass(0, site, "PreAccept ");
        group.pass(site, 0, "PreAccepted");
    }
    assert!(group.at(SiteId(0)).waits_for_fast(id(0, 1)));
    group.now = Ticks(group.now.0 + Ticks::from_millis(50).0);
    group.fire(SiteId(0));
    assert!(group.at(SiteId(0)).is_accepting(id(0, 1)));
    group.pass_all();
    assert!((0..7).all(|site| delivered(&group, site) == [id(0, 1)]));
    assert_eq!(group.at(SiteId(0)).counters().classic_decisions, 1);
}

/// Three batches that depend on each other in a circle: none is delivered before all are committed, and all sites
/// deliver them in the same order.
#[test]
fn a_circle_is_delivered_as_a_whole() {
    let mut group = group(3);
    for site in 0..3 {
        write(&mut group, site);
    }
    // s1 learns of s0's, s2 of s1's, s0 of s2's.
    for site in 0..3 {
        group.pass(site, (site + 1) % 3, "PreAccept ");
        group.pass((site + 1) % 3, site, "PreAccepted");
        group.pass(site, (site + 1) % 3, "Accept ");
        group.pass((site + 1) % 3, site, "Accepted");
    }
    assert_eq!(committed(&group, 0, id(0, 1)), Some(vec![id(1, 1)]));
    assert_eq!(committed(&group, 1, id(1, 1)), Some(vec![id(2, 1)]));
    group.pass(1, 0, "Commit");
    assert_eq!(delivered(&group, 0), []);
    group.pass(2, 0, "Commit");
    assert_eq!(delivered(&group, 0), [id(0, 1), id(1, 1), id(2, 1)]);
    group.pass_all();
    assert!((0..3).all(|site| delivered(&group, site) == delivered(&group, 0)));
}

/// Whichever sites recover a batch that was decided fast, they find the decision.
#[test]
fn every_recovery_finds_a_fast_decision() {
    for quorum in [[1, 2, 3], [1, 2, 4], [2, 3, 4], [1, 3, 4]] {
        let mut group = group(5);
        write(&mut group, 0);
        for site in [2, 3] {
            group.pass(0, site, "PreAccept ");
            group.pass(site, 0, "PreAccepted");
        }
        assert_eq!(committed(&group, 0, id(0, 1)), Some(vec![]));
        // The leader's word reaches no site.
        group.crash(SiteId(0), &mut Random::new(1), 0);
        let [leader, others @ ..] = quorum;
        recover(&mut group, leader, id(0, 1));
        for site in others {
            group.pass(leader, site, "Prepare");
            group.pass(site, leader, "Promise");
        }
        for site in others {
            group.pass(leader, site, "Validate ");
            group.pass(site, leader, "Validated");
        }
        for site in others {
            group.pass(leader, site, "Accept ");
            group.pass(site, leader, "Accepted");
        }
        assert_eq!(
            committed(&group, leader, id(0, 1)),
            Some(vec![]),
            "{quorum:?}"
        );
        group.pass_all();
        group.restart(SiteId(0), false);
        settle(&mut group);
        assert!((0..5).all(|site| delivered(&group, site) == [id(0, 1)]));
    }
}

/// A batch that a recovery takes for decided fast, and one that was decided without it: the validation finds the latter.
#[test]
fn a_validation_finds_a_conflicting_decision() {
    let mut group = group(5);
    let (t, u) = (id(0, 1), id(4, 1));
    // T reaches s1 alone. U is decided fast by s2, s3 and s4 without T.
    write(&mut group, 0);
    group.pass(0, 1, "PreAccept ");
    write(&mut group, 4);
    for site in [2, 3] {
        group.pass(4, site, "PreAccept ");
        group.pass(site, 4, "PreAccepted");
    }
    assert_eq!(committed(&group, 4, u), Some(vec![]));
    group.pass(4, 3, &begins("Commit", u));
    group.crash(SiteId(0), &mut Random::new(1), 0);
    recover(&mut group, 1, t);
    for site in [2, 3] {
        group.pass(1, site, &begins("Prepare", t));
        group.pass(site, 1, &begins("Promise", t));
    }
    for site in [2, 3] {
        group.pass(1, site, &begins("Validate", t));
        group.pass(site, 1, &begins("Validated", t));
    }
    assert!(group.at(SiteId(1)).is_accepting(t));
    group.pass_all();
    assert_eq!(committed(&group, 1, t), None);
    group.restart(SiteId(0), false);
    settle(&mut group);
    assert!((0..5).all(|site| delivered(&group, site) == [u]));
}

/// Two batches of sites that have crashed, each of which may have been decided fast without the other: their recoveries
/// wait for each other, and find out that at most one of them was.
#[test]
fn recoveries_that_wait_for_each_other_go_on() {
    let mut group = group(7);
    let (t, u) = (id(0, 1), id(6, 1));
    write(&mut group, 0);
    write(&mut group, 6);
    for site in [1, 2, 3] {
        group.pass(0, site, "PreAccept ");
    }
    for site in [4, 5] {
        group.pass(6, site, "PreAccept ");
    }
    let mut random = Random::new(1);
    group.crash(SiteId(0), &mut random, 0);
    group.crash(SiteId(6), &mut random, 0);
    // T: all of s1, s2, s3 agree, more than the two that any fast quorum has among four. U: s4 and s5.
    for (leader, others, of) in [(1, [2, 3, 4], t), (5, [4, 3, 2], u)] {
        recover(&mut group, leader, of);
        for site in others {
            group.pass(leader, site, &begins("Prepare", of));
            group.pass(site, leader, &begins("Promise", of));
        }
    }
    for site in [2, 3, 4] {
        group.pass(1, site, &begins("Validate", t));
        group.pass(site, 1, &begins("Validated", t));
    }
    // s6 is away and U has the least number of agreeing sites: it was not decided fast.
    assert!(group.at(SiteId(1)).awaited().contains(&u));
    for site in [4, 3, 2] {
        group.pass(5, site, &begins("Validate", u));
        group.pass(site, 5, &begins("Validated", u));
    }
    assert!(group.at(SiteId(5)).is_accepting(u));
    group.pass_all();
    settle(&mut group);
    assert_eq!(committed(&group, 1, t), Some(vec![]));
    assert_eq!(committed(&group, 1, u), None);
}

/// Two recoveries each of which is waited for by the other, with more agreeing sites than a fast decision leaves out.
#[test]
fn the_word_that_a_recovery_waits_ends_another_wait() {
    let mut group = group(9);
    let (t, u) = (id(0, 1), id(8, 1));
    write(&mut group, 0);
    write(&mut group, 8);
    for site in [1, 2, 3] {
        group.pass(0, site, "PreAccept ");
    }
    for site in [5, 6, 7] {
        group.pass(8, site, "PreAccept ");
    }
    let mut random = Random::new(1);
    group.crash(SiteId(0), &mut random, 0);
    group.crash(SiteId(8), &mut random, 0);
    for (leader, others, of) in [(1, [2, 3, 4, 5], t), (7, [6, 5, 4, 3], u)] {
        recover(&mut group, leader, of);
        for site in others {
            group.pass(leader, site, &begins("Prepare", of));
            group.pass(site, leader, &begins("Promise", of));
        }
    }
    for (leader, others, of) in [(1, [2, 3, 4, 5], t), (7, [6, 5, 4, 3], u)] {
        for site in others {
            group.pass(leader, site, &begins("Validate", of));
            group.pass(site, leader, &begins("Validated", of));
        }
    }
    assert!(group.at(SiteId(1)).awaited().contains(&u));
    assert!(group.at(SiteId(7)).awaited().contains(&t));
    group.pass(1, 7, &begins("Waiting", t));
    assert!(group.at(SiteId(7)).is_accepting(u));
    settle(&mut group);
    let decisions = [t, u].map(|id| committed(&group, 1, id));
    assert!(decisions.contains(&None), "{decisions:?}");
}

/// A payload that is lost with its site: a batch that depends on it is delivered once it is a no-op.
#[test]
fn a_lost_dependency_becomes_a_no_op() {
    let mut group = group(5);
    write(&mut group, 0);
    group.pass(0, 1, "PreAccept ");
    write(&mut group, 1);
    for site in [2, 3] {
        group.pass(1, site, &begins("PreAccept", id(1, 1)));
        group.pass(site, 1, &begins("PreAccepted", id(1, 1)));
    }
    assert_eq!(committed(&group, 1, id(1, 1)), Some(vec![id(0, 1)]));
    let mut random = Random::new(1);
    group.crash(SiteId(0), &mut random, 0);
    group.crash(SiteId(1), &mut random, 100);
    assert_eq!(delivered(&group, 2), []);
    settle(&mut group);
    assert_eq!(delivered(&group, 2), [id(1, 1)]);
    assert_eq!(committed(&group, 2, id(0, 1)), None);
}

/// A site whose batch becomes a no-op broadcasts its payloads again.
#[test]
fn a_no_op_is_broadcast_again() {
    let mut group = group(3);
    write(&mut group, 0);
    group.pass(0, 1, "PreAccept ");
    recover(&mut group, 1, id(0, 1));
    group.pass(1, 2, "Prepare");
    group.pass(1, 0, "Prepare");
    group.pass(0, 1, "Promise");
    settle(&mut group);
    assert!((0..3).all(|site| delivered(&group, site) == [id(0, 2)]));
    assert_eq!(group.at(SiteId(0)).counters().rebroadcasts, 1);
}

/// A site that has promised a later ballot, and restarted since, accepts nothing in the earlier one.
#[test]
fn a_promise_outlives_a_restart() {
    for compacts in [false, true] {
        let mut group = group(3);
        write(&mut group, 1);
        write(&mut group, 0);
        group.pass(1, 2, "PreAccept ");
        group.pass(0, 2, "PreAccept ");
        group.pass(2, 0, "PreAccepted");
        assert!(group.at(SiteId(0)).is_accepting(id(0, 1)));
        recover(&mut group, 1, id(0, 1));
        group.pass(1, 2, "Prepare");
        group.crash(SiteId(2), &mut Random::new(1), 100);
        group.restart(SiteId(2), compacts);
        group.pass(2, 1, &begins("Promise", id(0, 1)));
        // The decision of ballot 0 is sent again.
        group.now = Ticks(group.now.0 + Ticks::from_millis(200).0);
        group.fire(SiteId(0));
        group.pass(0, 2, &begins("Accept", id(0, 1)));
        group.pass(2, 0, &begins("Refuse", id(0, 1)));
        settle(&mut group);
        assert!((0..3).all(|site| delivered(&group, site) == delivered(&group, 0)));
    }
}

/// Three partial recoveries: the third must find what the second has accepted, and not what the first has.
#[test]
fn a_recovery_takes_the_highest_accepted_ballot() {
    let mut group = group(5);
    // V makes the answer of s1 differ from the proposal.
    write(&mut group, 0);
    group.pass(0, 1, "PreAccept ");
    group.network.clear();
    write(&mut group, 4);
    let t = id(4, 1);
    for site in [1, 2] {
        group.pass(4, site, &begins("PreAccept", t));
        group.pass(site, 4, &begins("PreAccepted", t));
    }
    assert!(group.at(SiteId(4)).is_accepting(t));
    // Ballot 0: accepted at s4 alone. Ballot 1: a quorum that has seen no acceptance, and no agreeing answer.
    recover(&mut group, 1, t);
    for site in [0, 3] {
        group.pass(1, site, &begins("Prepare", t));
        group.pass(site, 1, &begins("Promise", t));
    }
    assert!(group.at(SiteId(1)).is_accepting(t));
    group.pass(1, 0, &begins("Accept", t));
    // Ballot 3 finds the no-op of ballot 1 at s0 and the dependencies of ballot 0 at s4.
    recover(&mut group, 3, t);
    for site in [0, 4] {
        group.pass(3, site, &begins("Prepare", t));
        group.pass(site, 3, &begins("Promise", t));
    }
    for site in [0, 4] {
        group.pass(3, site, &begins("Accept", t));
        group.pass(site, 3, &begins("Accepted", t));
    }
    assert_eq!(committed(&group, 3, t), None);
    // The acceptance of s2 in ballot 1 comes too late.
    group.pass(1, 2, &begins("Accept", t));
    group.pass(2, 1, &begins("Accepted", t));
    group.pass(0, 1, &begins("Accepted", t));
    group.pass_all();
    assert!((0..5).all(|site| committed(&group, site, t).is_none()));
}

/// A proposal is under way until all sites have delivered a conflicting batch that its site did not know: they must
/// not have pruned that.
#[test]
fn a_batch_is_kept_until_no_late_proposal_may_miss_it() {
    let mut group = group(3);
    let (t, u) = (id(0, 1), id(1, 1));
    write(&mut group, 0);
    let late = std::mem::take(&mut group.network);
    write(&mut group, 1);
    group.pass(1, 2, &begins("PreAccept", u));
    group.pass(2, 1, &begins("PreAccepted", u));
    let proposes = |packet: &Packet<Site>| match packet {
        Packet::Message(message) => format!("{message:?}").starts_with(&begins("PreAccept", t)),
        Packet::Transfer(_) => false,
    };
    for _ in 0..4 {
        group.now = Ticks(group.now.0 + Ticks::from_millis(100).0);
        for site in 0..3 {
            group.fire(SiteId(site));
            group.network.retain(|(_, _, packet)| !proposes(packet));
        }
        group.pass_all();
    }
    assert!((0..3).all(|site| delivered(&group, site) == [u]));
    assert!(group.at(SiteId(2)).entry(u).is_some(), "it is kept");
    group.network = late;
    settle(&mut group);
    assert!((0..3).all(|site| delivered(&group, site) == [u, t]));
    // Then it is pruned.
    for _ in 0..8 {
        group.now = Ticks(group.now.0 + Ticks::from_millis(100).0);
        for site in 0..3 {
            group.fire(SiteId(site));
        }
        group.pass_all();
    }
    assert!((0..3).all(|site| group.at(SiteId(site)).known().next().is_none()));
}

/// A site takes another's state in place of the decisions that it has missed.
#[test]
fn a_state_transfer_stands_in_for_missed_decisions() {
    let mut group = group(3);
    write(&mut group, 0);
    write(&mut group, 1);
    group.pass_all_but(2);
    assert_eq!(delivered(&group, 2), []);
    let mut states = Vec::new();
    for compacts in [false, true] {
        let transfer = group.at(SiteId(0)).transfer();
        let mut out = OrderOutbox::default();
        let mut site = Site::new(options(SiteId(2), 3)).expect("a supported size");
        assert!(site.install(group.now, transfer.clone(), &mut out));
        assert!(site.delivered().covers(group.at(SiteId(0)).delivered()));
        assert!(
            !site.install(group.now, transfer, &mut out),
            "it has all of it"
        );
        site.check_invariants().expect("no violation");
        // Its records rebuild the same state.
        let mut again = Site::new(options(SiteId(2), 3)).expect("a supported size");
        let mut records = out.records;
        if compacts {
            records.clear();
            site.checkpoint(&mut |record| records.push(record));
        }
        let mut replayed = OrderOutbox::default();
        for record in records {
            again
                .replay(record, &mut replayed)
                .expect("its own records");
        }
        assert!(replayed.deliveries.is_empty());
        again.recover(group.now, &mut replayed);
        again.check_invariants().expect("no violation");
        assert_eq!(again.delivered(), site.delivered());
        states.push(format!("{:?}", again.transfer().base.depths));
    }
    assert_eq!(states[0], states[1]);
    assert_eq!(
        states[0],
        format!("{:?}", group.at(SiteId(0)).transfer().base.depths)
    );
}

/// More batches than a site may have undelivered: the rest waits, and is proposed when there is room.
#[test]
fn a_full_window_holds_batches_up() {
    let mut site = Site::new(options(SiteId(0), 3)).expect("a supported size");
    let mut out = OrderOutbox::default();
    for number in 0..1_500 {
        let keys = vec![((number % 100) as u8, true)];
        site.broadcast(Ticks(1), Operation { number, keys }, &mut out);
    }
    assert_eq!(site.counters().batches, 1_024);
    while let Some((to, message)) = out.messages.pop() {
        if let (SiteId(1), Message::PreAccept { id, proposal }) = (to, message) {
            let dependencies = proposal.dependencies;
            let answer = Message::PreAccepted { id, dependencies };
            site.receive(Ticks(2), to, answer, &mut out);
        }
    }
    assert_eq!(site.counters().batches, 1_500);
    let delivered: Vec<u64> = out.deliveries.iter().map(|it| it.id.sequence).collect();
    assert_eq!(delivered.len(), 1_500);
    let mut positions: Vec<u64> = out.deliveries.iter().map(|it| it.position).collect();
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(
        positions.len(),
        1_500,
        "no two batches have the same position"
    );
}

/// Runs storms; every promise is checked at each step and in the end.
fn storms(
    seeds: std::ops::Range<u64>,
    sizes: &[u8],
    change: fn(&mut EpaxosOptions, &mut Random),
) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let sites = sizes[random.below(sizes.len() as u64) as usize];
        let storm = Storm::of(&mut random);
        let mut own = options(SiteId(0), sites);
        change(&mut own, &mut random);
        let mut group = changed(sites, move |options| {
            *options = EpaxosOptions {
                site: options.site,
                ..own
            };
        });
        storm::run(seed, storm, &mut random, &mut group, &mut seen);
    }
    println!("{seen:?}");
    seen
}

/// The number of seeds, fewer where a quick run is asked for, and more where `ANABRANCH_SEEDS` says so.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let quick = std::env::var_os("ANABRANCH_QUICK").is_some();
    let asked = std::env::var("ANABRANCH_SEEDS").ok();
    let asked = asked.and_then(|count| count.parse().ok());
    0..asked.unwrap_or(if quick { count / 10 } else { count })
}

#[test]
fn storms_keep_every_promise() {
    let seen = storms(seeds(2_000), &[3, 5], |_, _| {});
    assert!(seen.fast > 0 && seen.classic > 0, "{seen:?}");
    assert!(seen.recoveries > 0 && seen.no_ops > 0 && seen.rebroadcasts > 0);
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
    storms(seeds(700), &[1, 2, 4, 6, 7, 8, 9], |_, _| {});
}
