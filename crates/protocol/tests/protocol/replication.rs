//! Groups of replicas over a network that loses, duplicates and reorders, with crashes, cuts and clocks that
//! jump; and single steps of a group by hand.

use std::collections::BTreeMap;

use anabranch_protocol::replication::{
    Entry, Event, GroupOutbox, LogId, LogWrite, Message, PersistedState, Replica, ReplicaId,
    ReplicaOptions, View,
};
use anabranch_types::Ticks;

use crate::support::random::Random;

/// The content of an entry: a number that identifies it.
type Payload = u64;

/// Held output of a primary: the entry and the round that it waits for.
#[derive(Clone, Debug)]
struct HeldOutput {
    index: u64,
    round: u64,
    /// The highest index that any output had depended on when it was produced.
    acknowledged: u64,
}

struct Member {
    replica: Option<Replica<Payload>>,
    /// All writes, and how many of them are durable.
    disk: Vec<LogWrite<Payload>>,
    synced: usize,
    /// Syncs under way: the number of writes that each makes durable.
    syncs: Vec<usize>,
    /// The first write of this process.
    origin: i64,
    /// Its last state: log id and contents.
    state: (LogId, Vec<Payload>),
    /// Parts of a state that have arrived.
    coming: Vec<Payload>,
    held: Vec<HeldOutput>,
    skew: i64,
    out: GroupOutbox<Payload>,
}

struct Group {
    seed: u64,
    random: Random,
    now: Ticks,
    count: u8,
    options: ReplicaOptions,
    members: Vec<Member>,
    network: Vec<(ReplicaId, ReplicaId, Message<Payload>)>,
    /// Delayed messages.
    late: Vec<(ReplicaId, ReplicaId, Message<Payload>)>,
    cuts: Vec<Vec<bool>>,
    /// The committed entry of each index, as first observed.
    chronicle: BTreeMap<u64, Entry<Payload>>,
    /// The primary of each view.
    primaries: BTreeMap<View, ReplicaId>,
    acknowledged: u64,
    next: Payload,
    seen: BTreeMap<&'static str, u64>,
}

const EPOCH: i64 = 1_000_000_000;

impl Group {
    fn new(seed: u64, count: u8) -> Group {
        let options = ReplicaOptions {
            heartbeat: Ticks(300),
            silence_max: Ticks(2_000),
            heartbeats_missed_max: 6,
            rounds_max: 2,
            entries_max: 4,
            seed,
        };
        let member = |id: u8| Member {
            replica: Some(Replica::new(
                ReplicaId(id),
                count,
                options,
                Ticks(EPOCH as u64),
            )),
            disk: vec![LogWrite::View {
                view: View::FIRST,
                voted: Some(ReplicaId(0)),
            }],
            synced: 1,
            syncs: Vec::new(),
            origin: 1,
            state: (LogId::default(), Vec::new()),
            coming: Vec::new(),
            held: Vec::new(),
            skew: EPOCH,
            out: GroupOutbox::default(),
        };
        Group {
            seed,
            random: Random::new(seed),
            now: Ticks(0),
            count,
            options,
            members: (0..count).map(member).collect(),
            network: Vec::new(),
            late: Vec::new(),
            cuts: vec![vec![false; usize::from(count)]; usize::from(count)],
            chronicle: BTreeMap::new(),
            primaries: BTreeMap::from([(View::FIRST, ReplicaId(0))]),
            acknowledged: 0,
            next: 0,
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn clock(&self, at: usize) -> Ticks {
        Ticks((self.now.0 as i64 + self.members[at].skew) as u64)
    }

    /// Runs `act` at a running member, and handles its output.
    fn at(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Replica<Payload>, Ticks, &mut GroupOutbox<Payload>),
    ) {
        let now = self.clock(at);
        let member = &mut self.members[at];
        let Some(replica) = &mut member.replica else {
            return;
        };
        let mut out = std::mem::take(&mut member.out);
        act(replica, now, &mut out);
        replica.flush(&mut out);
        let mut events = std::mem::take(&mut out.events);
        while !events.is_empty() {
            for event in std::mem::take(&mut events) {
                self.event(at, event, &mut out);
            }
            events.append(&mut out.events);
        }
        let member = &mut self.members[at];
        member.disk.append(&mut out.writes);
        for (to, message) in out.messages.drain(..) {
            let is_late = self.random.percent(10) && self.late.len() < 12;
            let under_way = match is_late {
                true => &mut self.late,
                false => &mut self.network,
            };
            under_way.push((ReplicaId(at as u8), to, message));
        }
        self.members[at].out = out;
        self.check(at);
    }

    fn event(&mut self, at: usize, event: Event<Payload>, out: &mut GroupOutbox<Payload>) {
        match event {
            Event::Elected => {
                self.saw("a replica was elected");
                let id = ReplicaId(at as u8);
                let view = self.members[at].replica.as_ref().unwrap().view();
                let before = self.primaries.insert(view, id);
                assert_eq!(before, None, "seed {}: REPL-I1 in {view}", self.seed);
                self.next += 1;
                let payload = self.next;
                let member = &mut self.members[at];
                let replica = member.replica.as_mut().unwrap();
                replica.append(payload, out);
                replica.flush(out);
            }
            Event::Deposed => {
                self.saw("a primary was deposed");
                self.members[at].held.clear();
            }
            Event::NeedsState => {
                self.saw("a primary sent its state");
                let member = &mut self.members[at];
                let parts: Vec<Payload> = match member.state.1.is_empty() {
                    true => vec![0],
                    false => member.state.1.clone(),
                };
                member.replica.as_mut().unwrap().offer(parts, out);
            }
            Event::StatePart {
                base,
                part,
                is_last,
                payload,
            } => {
                let member = &mut self.members[at];
                if part == 0 {
                    member.coming.clear();
                }
                assert_eq!(member.coming.len(), part as usize, "seed {}", self.seed);
                member.coming.push(payload);
                if is_last {
                    let state = std::mem::take(&mut member.coming);
                    member.state = (base, state);
                    let replica = member.replica.as_mut().unwrap();
                    let view = LogWrite::View {
                        view: replica.view(),
                        voted: replica.voted(),
                    };
                    let written = replica.written();
                    replica.installed(base, out);
                    // All is durable, as after a checkpoint.
                    replica.persisted(written, out);
                    out.writes.clear();
                    member.disk = vec![view];
                    member.synced = 1;
                    member.origin = 1 - written as i64;
                    member.syncs.clear();
                    self.saw("a backup installed a state");
                }
            }
        }
    }

    /// Checks the invariants that are observable after a step.
    fn check(&mut self, at: usize) {
        let seed = self.seed;
        let member = &mut self.members[at];
        let Some(replica) = &member.replica else {
            return;
        };
        let sound = replica.check_invariants();
        sound.unwrap_or_else(|broken| panic!("seed {seed}: {broken} at r{at}"));
        let (base, committed) = (replica.base().index, replica.committed());
        for index in base + 1..=committed {
            let entry = replica.entry(index).expect("it is kept");
            let known = self.chronicle.entry(index).or_insert_with(|| entry.clone());
            assert_eq!(known, entry, "seed {seed}: REPL-I3 at r{at}");
        }
        let Some(confirmed) = replica.confirmed() else {
            return;
        };
        // Output that may leave, in order.
        let is_free = |held: &HeldOutput| held.index <= committed && held.round <= confirmed;
        while let Some(held) = member.held.first()
            && is_free(held)
        {
            let held = member.held.remove(0);
            assert!(
                held.index >= held.acknowledged,
                "seed {seed}: REPL-I4: r{at} outputs {} when output had depended on {}",
                held.index,
                held.acknowledged
            );
            self.acknowledged = self.acknowledged.max(held.index);
            *self.seen.entry("output left").or_default() += 1;
        }
    }

    /// A client's request to a replica that takes itself for the primary: a write, or a read.
    fn call(&mut self, at: usize, writes: bool) {
        let acknowledged = self.acknowledged;
        self.next += u64::from(writes);
        let payload = self.next;
        let is_primary = |m: &Member| m.replica.as_ref().is_some_and(Replica::is_primary);
        if !is_primary(&self.members[at]) {
            return;
        }
        let mut held = None;
        self.at(at, |replica, _, out| {
            if writes {
                replica.append(payload, out);
            }
            let round = replica.want_confirmation();
            let index = replica.last().index;
            held = Some(HeldOutput {
                index,
                round,
                acknowledged,
            });
        });
        // The step may have deposed it.
        if is_primary(&self.members[at]) {
            self.members[at].held.extend(held);
            self.check(at);
        }
    }

    fn sync(&mut self, at: usize) {
        let member = &mut self.members[at];
        match member.syncs.is_empty() {
            true => member.syncs.push(member.disk.len()),
            false => {
                let until = member.syncs.remove(0);
                member.synced = member.synced.max(until);
                let writes = (member.synced as i64 - member.origin) as u64;
                self.at(at, |replica, _, out| replica.persisted(writes, out));
            }
        }
    }

    /// A replica writes a checkpoint of committed entries.
    fn compact(&mut self, at: usize) {
        let member = &mut self.members[at];
        let Some(replica) = &mut member.replica else {
            return;
        };
        let (base, committed) = (replica.base(), replica.committed());
        if replica.is_installing() || committed == base.index || member.synced < member.disk.len() {
            return;
        }
        let index = base.index + 1 + self.random.below(committed - base.index);
        let entries = (base.index + 1..=index).map(|index| replica.entry(index).unwrap());
        member.state.1.extend(entries.map(|entry| entry.payload));
        let id = replica.entry(index).unwrap().id;
        member.state.0 = id;
        replica.compacted(id);
        self.saw("a replica compacted its log");
    }

    fn crash(&mut self, at: usize) {
        let member = &mut self.members[at];
        if member.replica.take().is_none() {
            return;
        }
        // Some unsynced writes may survive.
        let unsynced = (member.disk.len() - member.synced) as u64;
        let kept = member.synced + self.random.below(unsynced + 1) as usize;
        member.disk.truncate(kept);
        member.synced = kept;
        member.syncs.clear();
        member.held.clear();
        member.coming.clear();
        self.saw("a replica crashed");
    }

    fn revive(&mut self, at: usize) {
        if self.members[at].replica.is_some() {
            return;
        }
        let now = self.clock(at);
        let (count, options) = (self.count, self.options);
        let member = &mut self.members[at];
        let (mut view, mut voted) = (View::default(), None);
        let base = member.state.0;
        let mut entries: Vec<Entry<Payload>> = Vec::new();
        for write in &member.disk {
            match write {
                LogWrite::View { view: v, voted: f } => (view, voted) = (*v, *f),
                LogWrite::Entry(entry) => {
                    entries.retain(|kept| kept.id.index < entry.id.index);
                    entries.push(entry.clone());
                }
            }
        }
        entries.retain(|entry| entry.id.index > base.index);
        member.origin = member.disk.len() as i64;
        let restored = PersistedState {
            view,
            voted,
            base,
            entries,
        };
        let id = ReplicaId(at as u8);
        member.replica = Some(Replica::restored(id, count, options, now, restored));
        self.check(at);
    }

    fn deliver(&mut self, number: usize, again: bool) {
        let (from, to, message) = match again {
            true => self.network[number].clone(),
            false => self.network.swap_remove(number),
        };
        if self.cuts[from.index()][to.index()] {
            return;
        }
        self.at(to.index(), |replica, now, out| {
            replica.receive(now, from, message, out);
        });
    }

    fn tick(&mut self, at: usize) {
        self.at(at, |replica, now, out| replica.tick(now, out));
    }

    fn storm(&mut self, steps: u64) {
        for _ in 0..steps {
            self.now = self.now + Ticks(self.random.below(60));
            let at = self.random.below(u64::from(self.count)) as usize;
            match self.random.weighted(&[40, 12, 14, 25, 1, 2, 1, 2, 2, 1, 1]) {
                0 if !self.network.is_empty() => {
                    let number = self.random.below(self.network.len() as u64) as usize;
                    match self.random.below(20) {
                        0 => drop(self.network.swap_remove(number)),
                        1 => self.deliver(number, true),
                        _ => self.deliver(number, false),
                    }
                }
                0 | 1 => self.call(at, self.random.clone().percent(50)),
                2 => self.tick(at),
                3 => self.sync(at),
                4 => self.crash(at),
                5 => self.revive(at),
                6 => self.cut(at),
                7 => self.heal(),
                8 => self.compact(at),
                9 if !self.late.is_empty() => {
                    let number = self.random.below(self.late.len() as u64) as usize;
                    let arrived = self.late.swap_remove(number);
                    self.network.push(arrived);
                }
                _ => {
                    let jump = self.random.below(8_000) as i64 - 4_000;
                    self.members[at].skew += jump;
                }
            }
        }
    }

    /// A member is cut off from all others, in one direction or both.
    fn cut(&mut self, at: usize) {
        let (to, from) = (self.random.percent(80), self.random.percent(80));
        for other in 0..usize::from(self.count) {
            self.cuts[at][other] |= to;
            self.cuts[other][at] |= from;
        }
        self.saw("a replica was cut off");
    }

    fn heal(&mut self) {
        for row in &mut self.cuts {
            row.fill(false);
        }
    }

    /// All replicas run, and the network delivers: calls succeed, and all logs become equal.
    fn calm(&mut self) {
        self.heal();
        self.network.append(&mut self.late);
        for at in 0..usize::from(self.count) {
            self.revive(at);
        }
        let acknowledged = self.acknowledged;
        for _ in 0..1_500 {
            self.now = self.now + Ticks(20);
            for at in 0..usize::from(self.count) {
                self.tick(at);
                self.sync(at);
            }
            for _ in 0..self.network.len() {
                if !self.network.is_empty() {
                    self.deliver(0, false);
                }
            }
            let at = self.random.below(u64::from(self.count)) as usize;
            if self.acknowledged < acknowledged + 20 {
                self.call(at, true);
            }
        }
        assert!(
            self.acknowledged >= acknowledged + 5,
            "seed {}: it never heals",
            self.seed
        );
        let ends: Vec<u64> = self.members.iter().map(committed).collect();
        let last = self
            .members
            .iter()
            .map(|m| m.replica.as_ref().unwrap().last());
        let last = last.map(|id| id.index).max().unwrap();
        assert!(
            ends.iter().all(|end| *end == last),
            "seed {}: {ends:?} of {last}",
            self.seed
        );
    }
}

fn committed(member: &Member) -> u64 {
    member.replica.as_ref().unwrap().committed()
}

fn sweep(count: u8, seeds: u64) {
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..seeds {
        let mut group = Group::new(seed, count);
        group.storm(3_000);
        group.calm();
        for (what, times) in group.seen {
            *seen.entry(what).or_default() += times;
        }
    }
    let mut expected = vec![
        "a replica was elected",
        "a primary was deposed",
        "output left",
        "a replica compacted its log",
    ];
    if count > 2 {
        // In a group of two, both have all committed entries.
        expected.extend(["a primary sent its state", "a backup installed a state"]);
    }
    for what in expected {
        assert!(seen.contains_key(what), "never: {what}");
    }
    eprintln!("{count} replicas: {seen:#?}");
}

#[test]
fn groups_of_three_agree() {
    sweep(3, 200);
}

/// A backup installs a state and crashes before its acknowledgement leaves. The primary, which had sent all
/// parts, must not wait for ever.
#[test]
fn seed_46_asks_a_backup_again_that_has_adopted_a_state() {
    let mut group = Group::new(46, 3);
    group.storm(3_000);
    group.calm();
}

#[test]
fn groups_of_five_agree() {
    sweep(5, 80);
}

#[test]
fn groups_of_two_agree() {
    sweep(2, 60);
}

/// Raft's Figure 8: an entry of an earlier view is on a majority, and another primary may still replace it. It
/// is committed only with an entry of the primary's own view.
#[test]
fn an_entry_of_an_earlier_view_is_not_committed_by_counting() {
    let options = ReplicaOptions {
        entries_max: 1,
        ..ReplicaOptions::default()
    };
    let entry = |view, index| Entry {
        id: LogId {
            view: View(view),
            index,
        },
        payload: index,
    };
    let restored = |id, entries| {
        let restored = PersistedState {
            view: View(2),
            voted: None,
            base: LogId::default(),
            entries,
        };
        Replica::restored(ReplicaId(id), 3, options, Ticks(0), restored)
    };
    let mut replicas = [
        restored(0, vec![entry(1, 1), entry(2, 2)]),
        restored(1, Vec::new()),
        restored(2, Vec::new()),
    ];
    let mut out = GroupOutbox::default();
    replicas[0].tick(Ticks::from_millis(1_000), &mut out);
    let mut wire: Vec<(usize, usize, Message<Payload>)> = Vec::new();
    let mut lost_of_this_view = true;
    for round in 0..40 {
        if round == 20 {
            let committed = replicas.each_ref().map(Replica::committed);
            assert_eq!(
                committed, [0; 3],
                "it is on two of three, and not committed"
            );
            assert_eq!(replicas[1].last(), entry(2, 2).id);
            lost_of_this_view = false;
        }
        let now = Ticks::from_millis(1_000 + 60 * round);
        if round > 0 {
            replicas[0].tick(now, &mut out);
        }
        let mut at = 0;
        loop {
            for event in std::mem::take(&mut out.events) {
                assert_eq!(event, Event::Elected);
                replicas[at].append(3, &mut out);
            }
            out.writes.clear();
            let written = replicas[at].written();
            replicas[at].persisted(written, &mut out);
            replicas[at].flush(&mut out);
            let sent = out.messages.drain(..);
            wire.extend(sent.map(|(to, message)| (at, to.index(), message)));
            let Some((from, to, message)) = wire.pop() else {
                break;
            };
            let is_new = |e: &Entry<Payload>| e.id.view > View(2);
            let is_lost = match &message {
                Message::Append { entries, .. } => entries.iter().any(is_new),
                _ => false,
            };
            at = to;
            if to == 2 || (is_lost && lost_of_this_view) {
                continue;
            }
            replicas[to].receive(now, ReplicaId(from as u8), message, &mut out);
        }
    }
    assert!(replicas[0].is_primary());
    assert_eq!(replicas[0].committed(), 3);
}

/// A new primary does not know how far the backups' logs reach. A backup that lacks an entry of the log gets
/// that entry and not the state, also if the first heartbeat comes before the first answer, or messages are
/// lost.
#[test]
fn a_backup_that_lacks_an_entry_is_not_sent_the_state() {
    let log_id = |index| LogId {
        view: View(1),
        index,
    };
    let entry = |index| Entry {
        id: log_id(index),
        payload: index,
    };
    let restored = |id, last| {
        let restored = PersistedState {
            view: View(1),
            voted: None,
            base: log_id(3),
            entries: (4..=last).map(entry).collect(),
        };
        Replica::restored(
            ReplicaId(id),
            3,
            ReplicaOptions::default(),
            Ticks(0),
            restored,
        )
    };
    for lost in 0..4 {
        // The first of three has crashed.
        let mut replicas = [restored(0, 6), restored(1, 6), restored(2, 5)];
        let mut out = GroupOutbox::default();
        let mut wire: Vec<(usize, usize, Message<Payload>)> = Vec::new();
        let mut appends = 0;
        for round in 0..40 {
            let now = Ticks::from_millis(1_000 + 60 * round);
            let mut at = 1;
            replicas[at].tick(now, &mut out);
            loop {
                for event in std::mem::take(&mut out.events) {
                    assert_ne!(event, Event::NeedsState, "{lost} lost: in round {round}");
                    if event == Event::Elected {
                        replicas[at].append(7, &mut out);
                        // A heartbeat is due as soon as it is elected.
                        replicas[at].flush(&mut out);
                        replicas[at].tick(now, &mut out);
                    }
                }
                out.writes.clear();
                let written = replicas[at].written();
                replicas[at].persisted(written, &mut out);
                replicas[at].flush(&mut out);
                let sent = out.messages.drain(..);
                wire.extend(sent.map(|(to, message)| (at, to.index(), message)));
                if wire.is_empty() {
                    break;
                }
                let (from, to, message) = wire.remove(0);
                at = to;
                let has_entries =
                    matches!(&message, Message::Append { entries, .. } if !entries.is_empty());
                appends += u32::from(has_entries && to == 2);
                if to == 0 || (has_entries && to == 2 && appends <= lost) {
                    continue;
                }
                replicas[to].receive(now, ReplicaId(from as u8), message, &mut out);
            }
        }
        assert!(replicas[1].is_primary() && appends > lost, "{appends}");
        assert_eq!(replicas[1].committed(), 7, "{lost} lost");
        assert_eq!(replicas[2].last(), replicas[1].last());
    }
}

/// A round that began before output was produced does not confirm it: a later primary may have had output in
/// between.
#[test]
fn output_is_confirmed_by_a_round_that_begins_after_it() {
    let options = ReplicaOptions::default();
    let made = |id| Replica::<Payload>::new(ReplicaId(id), 3, options, Ticks(0));
    let (mut primary, mut backup) = (made(0), made(1));
    let (mut out, mut answer) = (GroupOutbox::default(), GroupOutbox::default());
    primary.tick(Ticks(1), &mut out);
    let to_backup = |out: &mut GroupOutbox<Payload>| {
        let at = out.messages.iter().position(|(to, _)| *to == ReplicaId(1));
        out.messages.remove(at.unwrap()).1
    };
    backup.receive(Ticks(2), ReplicaId(0), to_backup(&mut out), &mut answer);
    out.messages.clear();

    let round = primary.want_confirmation();
    primary.flush(&mut out);
    let (_, before) = answer.messages.remove(0);
    primary.receive(Ticks(3), ReplicaId(1), before, &mut out);
    assert!(primary.confirmed() < Some(round), "that round is older");

    backup.receive(Ticks(4), ReplicaId(0), to_backup(&mut out), &mut answer);
    let (_, after) = answer.messages.remove(0);
    primary.receive(Ticks(5), ReplicaId(1), after, &mut out);
    assert!(primary.confirmed() >= Some(round));
}

/// A replica that lost its vote in a crash could vote for another in the same view: a vote leaves when it is
/// durable.
#[test]
fn a_vote_leaves_when_it_is_durable() {
    let mut replica = Replica::<Payload>::new(ReplicaId(1), 3, ReplicaOptions::default(), Ticks(0));
    let mut out = GroupOutbox::default();
    let request = Message::RequestVote {
        view: View(2),
        wanted: View(2),
        last: LogId::default(),
        pre: false,
    };
    replica.receive(Ticks(1), ReplicaId(2), request, &mut out);
    assert!(out.messages.is_empty(), "{:?}", out.messages);
    let vote = LogWrite::View {
        view: View(2),
        voted: Some(ReplicaId(2)),
    };
    assert_eq!(out.writes.last(), Some(&vote));
    let written = replica.written();
    replica.persisted(written - 1, &mut out);
    assert!(out.messages.is_empty());
    replica.persisted(written, &mut out);
    assert!(matches!(
        out.messages.as_slice(),
        [(ReplicaId(2), Message::Vote { granted: true, .. })]
    ));
}

/// A backup with a slow disk has all entries and has made few of them durable; the primary has compacted those
/// that it lacks. While the state is on its way, the primary does not answer its answers: the two would
/// otherwise exchange messages at network speed, without end.
#[test]
fn a_backup_with_a_slow_disk_is_not_answered_without_end() {
    let made = |id| Replica::<Payload>::new(ReplicaId(id), 3, ReplicaOptions::default(), Ticks(0));
    let mut replicas = [made(0), made(1), made(2)];
    let mut out = GroupOutbox::default();
    for round in 1..=20 {
        let now = Ticks::from_millis(50 * round);
        let appended = match round {
            1 | 2 => 1,
            3 => 4,
            _ => 0,
        };
        for _ in 0..appended {
            replicas[0].append(round, &mut out);
        }
        replicas[0].tick(now, &mut out);
        replicas[0].flush(&mut out);
        let mut wire: Vec<(usize, usize, Message<Payload>)> = Vec::new();
        let mut at = 0;
        let mut sent = 0;
        loop {
            let needs_state = out.events.drain(..).any(|event| event == Event::NeedsState);
            if needs_state {
                replicas[at].offer(vec![1, 2], &mut out);
            }
            // The third's disk does not finish its sync.
            if at < 2 || round <= 2 {
                let written = replicas[at].written();
                replicas[at].persisted(written, &mut out);
            }
            out.writes.clear();
            replicas[at].flush(&mut out);
            wire.extend(
                out.messages
                    .drain(..)
                    .map(|(to, message)| (at, to.index(), message)),
            );
            if wire.is_empty() {
                break;
            }
            let (from, to, message) = wire.remove(0);
            sent += 1;
            assert!(
                sent < 100,
                "in round {round} there is no end of {message:?} from {from} to {to}"
            );
            at = to;
            replicas[to].receive(now, ReplicaId(from as u8), message, &mut out);
        }
        let committed = replicas[0].committed();
        assert_eq!(committed, [1, 2, 6][(round as usize).min(3) - 1]);
        let view = replicas[0].view_at(committed).expect("it is kept");
        if !replicas[0].is_installing() {
            replicas[0].compacted(LogId {
                view,
                index: committed,
            });
        }
    }
}
