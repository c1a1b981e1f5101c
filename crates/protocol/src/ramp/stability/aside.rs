//! When an own transaction that some participant does not acknowledge is set aside, so that what is known to be
//! stable goes on without it.

use anabranch_types::{NodeId, Ticks, Timestamp};

use super::{Aside, Stability, Unstable, after};

/// Fewer strays than this are listed as often as there is something to say.
const LISTED_OFTEN: usize = 512;

/// How many times sooner one is set aside that is overtaken.
const SOONER: u64 = 8;

impl Stability {
    /// Takes note of how long a transaction took: three that took longer weigh as much as one that did not.
    pub(super) fn took(&mut self, took: Ticks) {
        if self.aside.is_some() {
            let step = self.quick.0 / 64 + 1;
            self.quick.0 = match took > self.quick {
                true => self.quick.0.saturating_add(step / 3 + 1),
                false => self.quick.0.saturating_sub(step),
            };
        }
    }

    /// A participant has acknowledged an own transaction.
    pub(in crate::ramp) fn acknowledged(&mut self, by: NodeId, commit: Timestamp) {
        if self.aside.is_some() {
            let newest = &mut self.acknowledged[by.index()];
            *newest = commit.max(*newest);
        }
    }

    /// Whether all others that take part have acknowledged later ones. They are told, and answer, in order: so
    /// one of them has not been told, or has lost it; it is not only slow.
    fn is_overtaken(&self, open: &Unstable) -> bool {
        let mut others = open.others.iter();
        others.all(|node| self.acknowledged[node.index()] > open.commit)
    }

    /// How old one is at least when it is set aside: much older than others become, however far nodes are apart,
    /// unless it is overtaken. As long as there are few strays.
    fn patience(&self, aside: Aside, open: &Unstable) -> Ticks {
        let usual = aside.after.max(Ticks(self.quick.0.saturating_mul(4)));
        if !self.is_overtaken(open) {
            return usual;
        }
        let times = self.longer_between_lists();
        usual.min(Ticks((aside.after.0 / SOONER).saturating_mul(times)))
    }

    /// When something is decided now, where that matters.
    pub(super) fn since_now(&self) -> Ticks {
        self.aside.map_or(Ticks::default(), |_| self.now.0)
    }

    /// Whether the oldest own transaction has kept enough others waiting for long enough.
    #[inline]
    pub(in crate::ramp) fn is_held_up(&self) -> bool {
        self.aside.is_some_and(|aside| {
            self.deciding.len() > aside.behind
                && self.strays.len() < aside.most
                && !self.deciding[0].done
                && self.now.0 >= after(self.deciding[0].at, self.patience(aside, &self.deciding[0]))
        })
    }

    /// Sets aside what has held the others up, and tells so from now on (`since`). Returns how many these are.
    /// Where many do, those that soon would are among them: each time, all are told of all.
    pub(in crate::ramp) fn set_aside(&mut self, since: Timestamp) -> u64 {
        let Some(aside) = self.aside else { return 0 };
        let before = self.strays.len();
        let soon = |stability: &Stability, open: &Unstable| {
            let half = Ticks(stability.patience(aside, open).0 / 2);
            stability.now.0 >= after(open.at, half) && stability.strays.len() < aside.most
        };
        while let Some(front) = self.deciding.front()
            && (front.done || soon(self, front))
        {
            let front = self.deciding.pop_front().expect("it has a front");
            if !front.done {
                self.strays.insert(front.commit, front.others);
            }
        }
        self.say(since);
        (self.strays.len() - before) as u64
    }

    /// Whether own transactions are ever set aside.
    pub(in crate::ramp) fn sets_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Whether others are to be told that there are fewer strays.
    #[inline]
    pub(in crate::ramp) fn has_fewer(&self) -> bool {
        self.fewer
    }

    /// How many times as long as usual it takes until strays are listed again: thousands of them cost something.
    pub(in crate::ramp) fn longer_between_lists(&self) -> u64 {
        1 + ((self.strays.len() + self.parted.len()) / LISTED_OFTEN) as u64
    }
}
