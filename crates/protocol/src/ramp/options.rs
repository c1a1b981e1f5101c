//! How a RAMP node behaves: one documented struct.

use anabranch_types::Ticks;

use crate::ramp::core::metadata::Metadata;

/// How a RAMP node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RampOptions {
    /// For how long a node may keep to itself what has become stable when it has nothing else to
    /// say to a participant.
    pub announce_after: Ticks,
    /// For how long evidence of a transaction is kept after it has become stable everywhere. A
    /// transaction that reads from several partitions for longer is restarted.
    pub retain: Ticks,
    /// How often a node tells another one what evidence no reader needs any more, so that it goes before
    /// [`RampOptions::retain`] is over (ramp.txt §4.5): all others once in so many times this. Never, if there is none, nor under causal RAMP or where
    /// several clusters have all partitions.
    pub gossip_after: Option<Ticks>,
    /// After how many repairs of one batch of reads the transaction is restarted.
    pub rounds_max: u32,
    /// Which RAMP it is. The same on all nodes.
    pub metadata: Metadata,
    /// For how long a participant waits for the end of what it has prepared before it asks the
    /// coordinator and the other participants (ramp.txt §4.6); it asks again after twice as long, and
    /// so on. Never, if there is none: then nobody asks a copy again that has refused, under Prepare-F
    /// and quorums, and what it refused may stay undecided.
    pub terminate_after: Option<Ticks>,
    /// How far ahead of this node's clock another node's may be. The name of a transaction that is further
    /// ahead is refused, and so is a vote, and a decision that would be as far ahead of a participant's
    /// vote: it would take the clock along, and every timestamp after it.
    pub ahead_max: Ticks,
    /// One-phase writes (ramp.txt §4.8): a client is answered when its transaction is decided, before
    /// the participants show it. It gives up reading its writes at other nodes for one round less;
    /// what a transaction writes is shown whole all the same. Transactions whose answers have to carry
    /// values from other partitions are answered as ever.
    pub one_phase: bool,
    /// Causal RAMP (ramp.txt §6.3): whoever sees a transaction also sees what its writer had seen, and a
    /// client goes on from what it has seen at whichever node. The same on all nodes.
    pub causal: bool,
    /// For how long a node's oldest transaction may wait for what it follows to be known to be everywhere
    /// before those who know are asked. Of causal RAMP.
    pub await_after: Ticks,
    /// How many transactions that are not known to be shown everywhere one that writes may follow. One
    /// that would follow more is aborted with `conflict`, and tried again when fewer are in flight. At
    /// least 1. Of causal RAMP.
    pub dependencies_max: u32,
    /// A transaction over several partitions that some participant has not acknowledged for so long, and for
    /// four times as long as the faster quarter takes, and that [`RampOptions::except_behind`] later ones wait for, no longer holds up what is known to be stable:
    /// it is set aside, and told by name. After an eighth of this, if all others that take part have acknowledged later
    /// ones, and there are no hundreds of such. Not under causal RAMP, nor where several clusters have all partitions.
    pub except_after: Ticks,
    /// How many later ones have to wait for it.
    pub except_behind: u32,
    /// How many a coordinator sets aside at a time, at most; 0 for none.
    pub exceptions_max: u32,
    /// For experiments with blocked writes (ramp.txt §5.3), of a million: how many transactions over
    /// several partitions, spread evenly, a coordinator decides without telling the other
    /// participants; their clients are answered at once, and participants learn by asking. Those
    /// whose answers have to carry values from other partitions are never chosen. Nobody who is not
    /// after that measurement wants anything but 0.
    pub lost_commits: u32,
    /// Prepare-F (ramp.txt §6.1), where several clusters have all partitions: a client is answered when
    /// what it writes is durable in so many clusters and one more, and it is shown when it is in all.
    /// None: there is one cluster.
    pub prepare_f: Option<u16>,
    /// Sticky clusters (ramp.txt §6.1), where several clusters have all partitions: each commits by itself,
    /// and takes over what the others have committed.
    pub sticky: bool,
    /// Quorum operation (ramp.txt §6.2), where several clusters have a copy of each partition: a transaction is
    /// decided when a majority of the copies of each partition has it. A copy that has not answered a read
    /// for so long is left to itself, and another one asked as well.
    pub quorum: Option<Ticks>,
}

impl RampOptions {
    /// Whether what is written is bound under one timestamp in several clusters, whose coordinator writes
    /// its intent down before it asks anybody.
    pub(crate) fn prepares_in_all_clusters(&self) -> bool {
        self.prepare_f.is_some() || self.quorum.is_some()
    }
}

impl Default for RampOptions {
    /// RAMP-Fast; 10 ms, 500 ms, gossip every millisecond, 8 rounds; termination after the paper's 5 s; clocks at most
    /// an hour ahead; two-phase writes, nothing causal (50 ms to wait, 1,024 to follow), up to 16,384
    /// transactions set aside after 10 ms that 128 wait for, and every commit sent.
    fn default() -> Self {
        RampOptions {
            announce_after: Ticks::from_millis(10),
            retain: Ticks::from_millis(500),
            gossip_after: Some(Ticks::from_millis(1)),
            rounds_max: 8,
            metadata: Metadata::Fast,
            terminate_after: Some(Ticks::from_millis(5_000)),
            ahead_max: Ticks::from_millis(3_600_000),
            one_phase: false,
            causal: false,
            await_after: Ticks::from_millis(50),
            dependencies_max: 1_024,
            except_after: Ticks::from_millis(10),
            except_behind: 128,
            exceptions_max: 16_384,
            lost_commits: 0,
            prepare_f: None,
            sticky: false,
            quorum: None,
        }
    }
}

/// What [`super::RampOptions::lost_commits`] counts in.
pub(crate) const MILLION: u32 = 1_000_000;
