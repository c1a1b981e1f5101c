//! How a RAMP node behaves: one documented struct.

use anabranch_types::Ticks;

use crate::Topology;
use crate::ramp::core::metadata::Metadata;

/// How a RAMP node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RampOptions {
    /// For how long a node may keep its watermark from a participant when no other message carries it.
    pub announce_after: Ticks,
    /// For how long sibling metadata are kept after their transaction has become stable. A transaction that reads
    /// from several partitions for longer restarts.
    pub retain: Ticks,
    /// How often a node gossips which sibling metadata no reader needs any more, so that they go before
    /// [`RampOptions::retain`] is over (ramp.txt §4.5): to all other nodes once in this time multiplied by their
    /// number. `None`: never. Not used under causal RAMP, nor where several clusters have all partitions.
    pub gossip_after: Option<Ticks>,
    /// After how many repairs of one batch of reads the transaction is restarted.
    pub rounds_max: u32,
    /// Which RAMP it is. The same on all nodes.
    pub metadata: Metadata,
    /// For how long a participant waits for the outcome of what it has prepared before it asks the coordinator and
    /// the other participants (ramp.txt §4.6). It asks again after twice as long, and so on. `None`: never; then
    /// under Prepare-F and quorums a replica that has refused is not asked again, and what it refused may stay
    /// undecided.
    pub terminate_after: Option<Ticks>,
    /// How far ahead of this node's clock another node's may be. The name of a transaction that is further
    /// ahead is refused, and so is a vote, and a decision that would be as far ahead of a participant's
    /// vote: it would take the clock along, and every timestamp after it.
    pub ahead_max: Ticks,
    /// One-phase writes (ramp.txt §4.8): a client is answered when its transaction is decided, before the
    /// participants install it. That saves a round, and gives up reading its own writes at other nodes. Readers still
    /// see the transaction whole. A transaction whose answer carries values from other partitions is answered after
    /// the second phase.
    pub one_phase: bool,
    /// Causal RAMP (ramp.txt §6.3): a reader that sees a transaction also sees what that transaction's writer had
    /// seen, and a client goes on from what it has seen at whichever node. The same on all nodes.
    pub causal: bool,
    /// Causal RAMP: for how long a node's oldest transaction may wait for its dependencies to become known as stable
    /// before their coordinators are asked.
    pub await_after: Ticks,
    /// Causal RAMP: how many transactions that are not known to be stable a writing transaction may depend on. One
    /// that would depend on more is aborted with `conflict`, and succeeds when fewer are in flight. At least 1.
    pub dependencies_max: u32,
    /// A transaction over several partitions holds up what is known to be stable until all participants have
    /// acknowledged it. It becomes an *exception* after this time, if that is also four times as long as the faster
    /// quarter of transactions takes, and [`RampOptions::except_behind`] later ones wait for it. It becomes one after
    /// an eighth of this time if all its other participants have acknowledged later transactions, and there are not
    /// hundreds of exceptions. Not used under causal RAMP, nor where several clusters have all partitions.
    pub except_after: Ticks,
    /// How many later ones have to wait for it.
    pub except_behind: u32,
    /// How many exceptions a coordinator has at a time, at most; 0 for none.
    pub exceptions_max: u32,
    /// For experiments with blocked writes (ramp.txt §5.3), of a million: how many transactions over several
    /// partitions, spread evenly, a coordinator decides without sending any Commit. Their clients are answered at
    /// once, and participants learn the outcome by termination. Transactions whose answers carry values from other
    /// partitions are never chosen. 0 for every other use.
    pub lost_commits: u32,
    /// Prepare-F (ramp.txt §6.1), where several clusters have all partitions: a client is answered when its writes
    /// are durable in one cluster more than this number, and they become visible when all clusters have prepared
    /// them. `None`: there is one cluster.
    pub prepare_f: Option<u16>,
    /// Sticky clusters (ramp.txt §6.1), where several clusters have all partitions: each commits by itself, and
    /// applies what the others have committed.
    pub sticky: bool,
    /// Quorum operation (ramp.txt §6.2), where several clusters have a replica of each partition: a transaction is
    /// decided when a majority of the replicas of each partition has prepared it. Another replica is asked as well
    /// after a read has waited for this time.
    pub quorum: Option<Ticks>,
}

impl RampOptions {
    /// Whether several clusters have all partitions.
    pub(crate) fn has_clusters(&self) -> bool {
        self.prepares_in_all_clusters() || self.sticky
    }

    /// Checks that these options go together.
    ///
    /// # Panics
    /// When they do not.
    pub(crate) fn check(&self, topology: &Topology) {
        let lost = self.lost_commits;
        assert!(
            lost <= MILLION && (lost == 0 || self.terminate_after.is_some()),
            "{lost} lost commits of a million, and termination after {:?}",
            self.terminate_after
        );
        assert!(
            self.dependencies_max > 0,
            "transactions may have at least one dependency"
        );
        let clusters = topology.elsewhere.len() + 1;
        if let Some(failures) = self.prepare_f {
            assert!(
                usize::from(failures) < clusters && clusters > 1,
                "Prepare-F survives the loss of {failures} of {clusters} clusters only if one is left"
            );
        }
        assert!(
            self.quorum.is_none() || clusters > 1,
            "quorums need several replicas"
        );
        if self.has_clusters() {
            let ways = [self.prepare_f.is_some(), self.sticky, self.quorum.is_some()];
            assert!(
                ways.into_iter().filter(|way| *way).count() == 1 && !self.causal,
                "clusters replicate to each other in one way"
            );
            assert!(
                !self.one_phase && lost == 0,
                "where there are clusters, clients are answered in one way"
            );
        }
    }

    /// Whether a transaction is prepared in several clusters under one timestamp, after its coordinator has written
    /// it to the log.
    pub(crate) fn prepares_in_all_clusters(&self) -> bool {
        self.prepare_f.is_some() || self.quorum.is_some()
    }
}

impl Default for RampOptions {
    /// RAMP-Fast; 10 ms, 500 ms, gossip every millisecond, 8 rounds; termination after the paper's 5 s; clocks at
    /// most an hour ahead; two-phase writes; no causal consistency (50 ms to wait, 1,024 dependencies); up to 16,384
    /// exceptions after 10 ms and 128 waiting transactions; every Commit sent.
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
