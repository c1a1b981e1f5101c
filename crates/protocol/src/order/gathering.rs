//! Batching: payloads that a site gathers for its next batch, under every orderer.

use anabranch_types::Ticks;

use super::Batch;

/// When a site ends a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    /// How long payloads are gathered. Zero: each payload is a batch.
    pub(crate) window: Ticks,
    /// The most payloads of a batch.
    pub(crate) max: usize,
}

/// What a payload that was added has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// The batch is complete: take it.
    Complete,
    /// It is the first of its batch, whose window ends then.
    Begins(Ticks),
    /// It waits with the others.
    Waits,
}

/// The payloads of the next batch, and when its window ends.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Gathering<P> {
    payloads: Vec<P>,
    due: Option<Ticks>,
}

impl<P> Default for Gathering<P> {
    fn default() -> Self {
        Gathering {
            payloads: Vec::new(),
            due: None,
        }
    }
}

impl<P> Gathering<P> {
    /// Adds a payload to the next batch.
    pub(crate) fn add(&mut self, now: Ticks, payload: P, batching: Batching) -> Gathered {
        self.payloads.push(payload);
        if batching.window == Ticks(0) || self.payloads.len() >= batching.max {
            return Gathered::Complete;
        }
        if self.payloads.len() > 1 {
            return Gathered::Waits;
        }
        let due = Ticks(now.0 + batching.window.0);
        self.due = Some(due);
        Gathered::Begins(due)
    }

    /// Whether the window of the batch is over.
    pub(crate) fn is_due(&self, now: Ticks) -> bool {
        self.due.is_some_and(|due| now >= due)
    }

    /// The payloads.
    pub(crate) fn payloads(&self) -> &[P] {
        &self.payloads
    }

    /// Whether there is no payload.
    pub(crate) fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }

    /// Takes the batch.
    pub(crate) fn take(&mut self) -> Batch<P> {
        self.due = None;
        Batch::from(std::mem::take(&mut self.payloads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_with_its_window_or_its_last_payload() {
        let batching = Batching {
            window: Ticks(10),
            max: 3,
        };
        let mut gathering = Gathering::default();
        assert_eq!(
            gathering.add(Ticks(5), 'a', batching),
            Gathered::Begins(Ticks(15))
        );
        assert!(!gathering.is_due(Ticks(14)) && gathering.is_due(Ticks(15)));
        assert_eq!(gathering.add(Ticks(6), 'b', batching), Gathered::Waits);
        assert_eq!(gathering.add(Ticks(7), 'c', batching), Gathered::Complete);
        assert_eq!(gathering.take().payloads(), ['a', 'b', 'c']);
        assert!(!gathering.is_due(Ticks(15)) && gathering.is_empty());
        let at_once = Batching {
            window: Ticks(0),
            max: 3,
        };
        assert_eq!(gathering.add(Ticks(8), 'd', at_once), Gathered::Complete);
    }
}
