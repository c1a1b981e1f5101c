//! Random runs of a group: loss, duplicates, reordering, crashes with the logs kept, false suspicions; then everything
//! heals, and every promise is checked.

use anabranch_protocol::order::{Orderer, SiteId};
use anabranch_types::Ticks;

use crate::order::group::{Group, Operation};
use crate::support::random::Random;

/// What happens in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    /// Operations that are broadcast.
    pub(crate) operations: u64,
    /// Keys that they access: fewer keys, more conflicts.
    pub(crate) keys: u64,
    /// Lost packets, in percent.
    pub(crate) loss: u64,
    /// Duplicated packets, in percent.
    pub(crate) duplicates: u64,
    /// Crashes.
    pub(crate) crashes: u64,
    /// Whether a minority of the sites stays down in the end.
    pub(crate) some_stay_down: bool,
    /// Words of a failure detector that may be wrong.
    pub(crate) suspicions: u64,
    /// How long a step takes, at most, in microseconds.
    pub(crate) step_micros_max: u64,
}

impl Storm {
    /// A storm that depends on the seed.
    pub(crate) fn of(random: &mut Random) -> Storm {
        Storm {
            operations: 3 + random.below(18),
            keys: 1 + random.below(4),
            loss: [0, 0, 5, 20][random.below(4) as usize],
            duplicates: [0, 10][random.below(2) as usize],
            crashes: random.below(5),
            some_stay_down: random.percent(30),
            suspicions: random.below(5),
            step_micros_max: [500, 5_000, 40_000][random.below(3) as usize],
        }
    }
}

/// What was seen in runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Runs.
    pub(crate) runs: u64,
    /// Batches that were delivered at a site.
    pub(crate) deliveries: u64,
    /// Recoveries.
    pub(crate) recoveries: u64,
    /// No-ops, once a site.
    pub(crate) no_ops: u64,
    /// Own batches decided fast, at sites that did not crash since.
    pub(crate) fast: u64,
    /// Own batches decided classically.
    pub(crate) classic: u64,
    /// State transfers.
    pub(crate) transfers: u64,
    /// Payloads that were broadcast again.
    pub(crate) rebroadcasts: u64,
}

/// The steps until which a healed group has to come to rest.
const STEPS_MAX: u64 = 60_000;

/// Runs a storm, and checks every promise.
pub(crate) fn run<O: Orderer<Payload = Operation> + std::fmt::Debug>(
    seed: u64,
    storm: Storm,
    random: &mut Random,
    group: &mut Group<O>,
    seen: &mut Seen,
) {
    let context = format!("seed {seed}, {storm:?}");
    let sites = group.members.len() as u64;
    let minority = (sites - 1) / 2;
    let mut left = storm.operations;
    let mut crashes = storm.crashes;
    let mut suspicions = storm.suspicions;
    let some_site = |random: &mut Random| SiteId(random.below(sites) as u8);
    let mut steps = 0;
    while left > 0 || crashes > 0 || suspicions > 0 {
        steps += 1;
        assert!(steps < STEPS_MAX, "{context}: the storm does not end");
        group.now = Ticks(group.now.0 + 1_000 * random.below(storm.step_micros_max));
        let site = some_site(random);
        let is_up = group.is_up(site);
        let down = group.sites().filter(|it| !group.is_up(*it)).count() as u64;
        match random.below(100) {
            0..8 if left > 0 && is_up => {
                left -= 1;
                let keys = (0..1 + random.below(2))
                    .map(|_| (random.below(storm.keys) as u8, random.percent(70)));
                let keys = keys.collect();
                group.broadcast(site, keys);
            }
            8..10 if crashes > 0 && is_up && down < minority => {
                crashes -= 1;
                let kept = random.below(100);
                group.crash(site, random, kept);
            }
            8..13 if !is_up => group.restart(site, random.percent(50)),
            13..15 if suspicions > 0 && is_up => {
                suspicions -= 1;
                let other = some_site(random);
                group.step(site, |orderer, now, out| orderer.suspect(now, other, out));
            }
            15..25 => group.fire(site),
            _ => transmit(storm, random, group),
        }
        // A site that is down for good must not keep the storm going.
        if down >= minority && random.percent(1) {
            crashes = 0;
        }
    }
    if storm.some_stay_down && minority > 0 {
        for _ in 0..minority {
            let site = some_site(random);
            let down = group.sites().filter(|it| !group.is_up(*it)).count() as u64;
            if group.is_up(site) && down < minority {
                group.crash(site, random, 50);
            }
        }
    } else {
        for site in group.sites() {
            if !group.is_up(site) {
                group.restart(site, false);
            }
        }
    }
    let calm = Storm {
        loss: 0,
        duplicates: 0,
        ..storm
    };
    let mut left = STEPS_MAX;
    while !group.is_quiet() {
        assert!(left > 0, "{context}: liveness: {}", group.describe());
        left -= 1;
        group.now = Ticks(group.now.0 + 1_000 * random.below(2_000));
        if group.network.is_empty() {
            group.now = Ticks(group.now.0 + Ticks::from_millis(50).0);
        }
        if random.percent(20) || group.network.is_empty() {
            let site = some_site(random);
            group.fire(site);
        }
        transmit(calm, random, group);
    }
    group.check_end(&context);
    seen.runs += 1;
    for site in group.sites().filter(|site| group.is_up(*site)) {
        let counters = group.at(site).counters();
        seen.deliveries += group.members[site.index()].applied.len() as u64;
        seen.recoveries += counters.recoveries;
        seen.no_ops += counters.no_ops;
        seen.fast += counters.fast_decisions;
        seen.classic += counters.classic_decisions;
        seen.transfers += counters.transfers;
        seen.rebroadcasts += counters.rebroadcasts;
    }
}

/// A packet arrives, is lost or is duplicated.
fn transmit<O: Orderer<Payload = Operation>>(
    storm: Storm,
    random: &mut Random,
    group: &mut Group<O>,
) {
    if group.network.is_empty() {
        return;
    }
    let index = random.below(group.network.len() as u64) as usize;
    if random.percent(storm.loss) {
        group.network.swap_remove(index);
        return;
    }
    if random.percent(storm.duplicates) {
        let again = group.network[index].clone();
        group.network.push(again);
    }
    group.deliver(index);
}
