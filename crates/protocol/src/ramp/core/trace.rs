//! What a participant keeps of a transaction over several partitions that it has installed.

use std::sync::Arc;

use anabranch_storage::ItemTag;
use anabranch_types::{Effect, PartitionId};
use serde::{Deserialize, Serialize};

use crate::ramp::core::extension::CausalContext;
use crate::ramp::core::metadata::{Siblings, WriteSet, tags};

/// What a participant keeps of a transaction over several partitions: the metadata, and what it
/// wrote here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The metadata.
    pub siblings: Arc<Siblings>,
    /// What it wrote here, sorted; empty where the metadata list it.
    here: Box<[ItemTag]>,
    /// Causal RAMP: what it depends on, if anything.
    pub causal_context: Option<Arc<CausalContext>>,
}

impl Trace {
    /// Of a transaction with these effects here.
    pub(crate) fn new(
        siblings: Arc<Siblings>,
        causal_context: Option<Arc<CausalContext>>,
        effects: &[Effect],
    ) -> Trace {
        let here = match siblings.written {
            WriteSet::Items(_) => Box::default(),
            _ => tags(effects).into_boxed_slice(),
        };
        Trace {
            siblings,
            here,
            causal_context,
        }
    }

    /// What it wrote here; `partition` is the one that keeps the trace.
    pub(crate) fn written(&self, partition: PartitionId) -> &[ItemTag] {
        match self.siblings.written {
            WriteSet::Items(_) => self.siblings.on(partition),
            _ => &self.here,
        }
    }
}
