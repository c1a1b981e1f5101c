//! When an own transaction that some participant does not acknowledge becomes an exception, so that the watermark
//! goes on without it.

use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::ramp::collection::stability::{ExceptionPolicy, Stability, Unstable, after};

/// Up to so many exceptions, lists are published as often as there is news.
const LISTED_OFTEN: usize = 512;

/// How many times sooner a transaction that was overtaken becomes an exception.
const SOONER: u64 = 8;

impl Stability {
    /// Takes note of how long a transaction took: three that took longer weigh as much as one that did not.
    pub(crate) fn took(&mut self, took: Ticks) {
        if self.exception_policy.is_some() {
            let step = self.quick.0 / 64 + 1;
            self.quick.0 = match took > self.quick {
                true => self.quick.0.saturating_add(step / 3 + 1),
                false => self.quick.0.saturating_sub(step),
            };
        }
    }

    /// A participant has acknowledged an own transaction.
    pub(crate) fn acknowledged(&mut self, by: NodeId, commit: Timestamp) {
        if self.exception_policy.is_some() {
            let newest = &mut self.acknowledged[by.index()];
            *newest = commit.max(*newest);
        }
    }

    /// Whether all other participants have acknowledged later transactions. They receive and answer in order, so one
    /// of them has not received this one, or has lost it; it is not only slow.
    fn is_overtaken(&self, open: &Unstable) -> bool {
        let mut others = open.others.iter();
        others.all(|node| self.acknowledged[node.index()] > open.commit)
    }

    /// The age at which a transaction may become an exception: well above what others take, however far apart nodes
    /// are; less if it was overtaken, as long as there are few exceptions.
    fn patience(&self, exception_policy: ExceptionPolicy, open: &Unstable) -> Ticks {
        let usual = exception_policy
            .after
            .max(Ticks(self.quick.0.saturating_mul(4)));
        if !self.is_overtaken(open) {
            return usual;
        }
        let times = self.longer_between_lists();
        usual.min(Ticks(
            (exception_policy.after.0 / SOONER).saturating_mul(times),
        ))
    }

    /// When something is decided now, where that matters.
    pub(crate) fn since_now(&self) -> Ticks {
        self.exception_policy
            .map_or(Ticks::default(), |_| self.now.0)
    }

    /// Whether the oldest own transaction has kept enough others waiting for long enough.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        self.exception_policy.is_some_and(|exception_policy| {
            self.deciding.len() > exception_policy.behind
                && self.exceptions.len() < exception_policy.most
                && !self.deciding[0].done
                && self.now.0
                    >= after(
                        self.deciding[0].at,
                        self.patience(exception_policy, &self.deciding[0]),
                    )
        })
    }

    /// Makes exceptions of the transactions that held up the others, and publishes the list (`since`). Returns how
    /// many. Where there are many, those that would soon follow are included: each list goes to all nodes.
    pub(crate) fn make_exceptions(&mut self, since: Timestamp) -> u64 {
        let Some(exception_policy) = self.exception_policy else {
            return 0;
        };
        let before = self.exceptions.len();
        let soon = |stability: &Stability, open: &Unstable| {
            let half = Ticks(stability.patience(exception_policy, open).0 / 2);
            stability.now.0 >= after(open.at, half)
                && stability.exceptions.len() < exception_policy.most
        };
        while let Some(front) = self.deciding.front()
            && (front.done || soon(self, front))
        {
            let front = self.deciding.pop_front().expect("it has a front");
            if !front.done {
                self.exceptions.insert(front.commit, front.others);
            }
        }
        self.publish(since);
        (self.exceptions.len() - before) as u64
    }

    /// Whether own transactions ever become exceptions.
    pub(crate) fn makes_exceptions(&self) -> bool {
        self.exception_policy.is_some()
    }

    /// Whether a list with fewer exceptions has to be published.
    #[inline]
    pub(crate) fn has_fewer_exceptions(&self) -> bool {
        self.fewer_exceptions
    }

    /// The factor by which lists are published less often: thousands of exceptions cost something.
    pub(crate) fn longer_between_lists(&self) -> u64 {
        1 + ((self.exceptions.len() + self.former_exceptions.len()) / LISTED_OFTEN) as u64
    }
}
