//! The transactions over several partitions of one coordinator that an owner has installed, in order of installation.
//!
//! A reader needs the sibling metadata of those that it may not know to be stable and that wrote some of what it
//! reads. Mostly these are among the last few. With thousands of clients there are thousands, and each look at a
//! write set costs a cache miss or more. So they are searched a [`BLOCK`] at a time: an index says which of a block
//! wrote what, and a filter says which blocks may be passed over. Both are made when a reader first has to search a
//! block, so where few transactions are in flight there are none.

use std::collections::VecDeque;
use std::fmt;

use anabranch_storage::{CommitSequence, ItemTag};
use anabranch_types::random::mix;
use anabranch_types::{PartitionId, Timestamp};
use smallvec::SmallVec;

use crate::ramp::core::metadata::filter::{Filter, FilterSize};
use crate::ramp::core::metadata::{Sketch, entries_of_reads, entries_of_writes, touches};
use crate::ramp::core::trace::Trace;

/// How many of a coordinator's transactions are looked at one by one before the others are searched.
const NEAR: usize = 6;

/// How many transactions share an index.
pub(crate) const BLOCK: usize = 128;

/// Bits of a filter for each entry: with four hashes it is wrong of one in 400.
const BITS_EACH: usize = 16;

/// A transaction over several partitions, among its coordinator's, in order of installation here.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) sequence: CommitSequence,
    pub(crate) commit: Timestamp,
    /// The highest commit timestamp up to here.
    pub(crate) commit_max: Timestamp,
    pub(crate) trace: Trace,
    /// Of what it wrote here.
    sketch: Sketch,
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct InstalledBy {
    all: VecDeque<Installed>,
    /// How many have been forgotten: what the first of `all` is numbered.
    first: usize,
    /// The blocks that have been searched, from the one of which `first` is; a block's first number is a
    /// multiple of its length.
    blocks: VecDeque<Option<Block>>,
}

/// Which transactions of a block wrote what.
#[derive(Clone)]
struct Block {
    filter: Filter,
    /// Hashes of what was written, each with the number of its writer in the block; sorted.
    index: Box<[(u64, u8)]>,
}

/// Blocks are no state: they can be made again.
impl fmt::Debug for InstalledBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

impl InstalledBy {
    /// All that are remembered, oldest first.
    pub(crate) fn all(&self) -> &VecDeque<Installed> {
        &self.all
    }

    /// One more, of an owner of this partition.
    pub(crate) fn push(
        &mut self,
        partition: PartitionId,
        sequence: CommitSequence,
        commit: Timestamp,
        trace: Trace,
    ) {
        let before = self
            .all
            .back()
            .map_or(Timestamp::ZERO, |last| last.commit_max);
        self.all.push_back(Installed {
            sequence,
            commit,
            commit_max: before.max(commit),
            sketch: Sketch::of_writes(trace.written(partition)),
            trace,
        });
    }

    /// Forgets the oldest.
    pub(crate) fn pop(&mut self) -> Option<Installed> {
        let oldest = self.all.pop_front()?;
        self.first += 1;
        if self.first.is_multiple_of(BLOCK) {
            self.blocks.pop_front();
        }
        Some(oldest)
    }

    /// The one that was installed at this sequence.
    pub(crate) fn at(&self, sequence: CommitSequence) -> Option<&Installed> {
        let at = self
            .all
            .binary_search_by_key(&sequence, |installed| installed.sequence);
        self.all.get(at.ok()?)
    }

    /// The first one up to which something has committed above a timestamp. Mostly it is among the last
    /// few, since all that is older is known to be stable.
    pub(crate) fn first_above(&self, known: Timestamp) -> usize {
        let is_stable = |earlier: &Installed| earlier.commit_max <= known;
        let near = self.all.len().saturating_sub(NEAR);
        for at in (near..self.all.len()).rev() {
            if is_stable(&self.all[at]) {
                return at + 1;
            }
        }
        self.all.partition_point(is_stable)
    }

    /// Calls `found` for each transaction that committed above a timestamp and in a snapshot, and wrote some of what
    /// was read on this partition.
    pub(crate) fn find(
        &mut self,
        (known, snapshot): (Timestamp, CommitSequence),
        partition: PartitionId,
        read: &[ItemTag],
        mut found: impl FnMut(&Installed),
    ) {
        let sketch = Sketch::of_reads(read);
        let mut at = self.first_above(known);
        while at < self.all.len() {
            let block = (self.first + at) / BLOCK;
            let end = ((block + 1) * BLOCK - self.first).min(self.all.len());
            let within = |next: &&Installed| next.sequence <= snapshot;
            let has_written = |next: &&Installed| {
                next.commit > known
                    && sketch.meets(next.sketch)
                    && touches(next.trace.written(partition), read)
            };
            // A part of a block is soon looked at, and may be the last part, to which more is added.
            if end - at == BLOCK {
                let writers = self.block(block, partition).writers(read);
                let next = writers
                    .into_iter()
                    .map(|of| &self.all[at + usize::from(of)]);
                next.take_while(within)
                    .filter(has_written)
                    .for_each(&mut found);
            } else {
                let next = self.all.range(at..end);
                next.take_while(within)
                    .filter(has_written)
                    .for_each(&mut found);
            }
            if self.all[end - 1].sequence > snapshot {
                return;
            }
            at = end;
        }
    }

    /// A whole block.
    fn block(&mut self, number: usize, partition: PartitionId) -> &Block {
        let place = number - self.first / BLOCK;
        if self.blocks.len() <= place {
            self.blocks.resize(place + 1, None);
        }
        let from = number * BLOCK - self.first;
        let installed = self.all.range(from..from + BLOCK);
        self.blocks[place].get_or_insert_with(|| Block::of(installed, partition))
    }
}

impl Block {
    fn of<'s>(installed: impl Iterator<Item = &'s Installed>, partition: PartitionId) -> Block {
        let written = (0..)
            .zip(installed)
            .flat_map(|(of, installed): (u8, &Installed)| {
                let written = entries_of_writes(installed.trace.written(partition));
                written.map(move |entry| (hash(entry), of))
            });
        let mut index: Vec<(u64, u8)> = written.collect();
        index.sort_unstable();
        index.dedup();
        let bits = u32::try_from(index.len() * BITS_EACH).unwrap_or(u32::MAX);
        let size = FilterSize::try_from(bits.clamp(1, FilterSize::BITS_MAX));
        let mut filter = Filter::new(size.expect("it is within limits"));
        index.iter().for_each(|(hash, _)| filter.insert(*hash));
        Block {
            filter,
            index: index.into_boxed_slice(),
        }
    }

    /// The transactions that may have written some of what was read, in order; no others have.
    fn writers(&self, read: &[ItemTag]) -> SmallVec<[u8; 16]> {
        let mut writers = SmallVec::new();
        for hash in entries_of_reads(read).map(hash) {
            if self.filter.may_contain(hash) {
                let from = self.index.partition_point(|(written, _)| *written < hash);
                let alike = self.index[from..].iter();
                let alike = alike.take_while(|(written, _)| *written == hash);
                writers.extend(alike.map(|(_, of)| *of));
            }
        }
        writers.sort_unstable();
        writers.dedup();
        writers
    }
}

fn hash((tag, kind): (ItemTag, u64)) -> u64 {
    mix(tag.to_bits() ^ kind)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_types::random::SplitMix64;
    use anabranch_types::{Effect, Key, NodeId, TableId};

    use super::*;
    use crate::ramp::core::metadata::{Metadata, tags};

    const HERE: PartitionId = PartitionId(3);

    /// Deletes one of 12,000 rows.
    fn drawn(random: &mut SplitMix64) -> Effect {
        let mut key = Key::empty();
        key.push_bytes(&random.below(3_000).to_be_bytes());
        Effect::Delete {
            table: TableId(random.below(4) as u16),
            key,
        }
    }

    fn trace(commit: Timestamp, effects: &[Effect], metadata: Metadata) -> Trace {
        let siblings = metadata.of(commit, [(HERE, tags(effects))].into_iter());
        Trace::new(Arc::new(siblings), None, effects)
    }

    /// Thousands of transactions are installed and forgotten, out of the order of their timestamps. Readers of points
    /// and ranges in any snapshot find the same as a search through all of them.
    #[test]
    fn a_search_by_blocks_finds_what_a_full_search_does() {
        let mut random = SplitMix64::new(5);
        for metadata in [Metadata::Fast, Metadata::Small] {
            let mut installed = InstalledBy::default();
            let (mut found_in_all, mut searched) = (0, 0);
            for number in 1..=6_000u64 {
                let commit = Timestamp::new(number + random.below(40), NodeId(1));
                let written = [drawn(&mut random), drawn(&mut random)];
                let sequence = CommitSequence(number);
                installed.push(HERE, sequence, commit, trace(commit, &written, metadata));
                // Up to seven and a half blocks are in flight.
                while installed.all().len() > 960
                    || (random.below(20) == 0 && !installed.all().is_empty())
                {
                    installed.pop();
                }
                if random.below(8) > 0 {
                    continue;
                }
                let read = match random.below(10) {
                    0 => vec![ItemTag::unknown(TableId(random.below(6) as u16))],
                    1 => tags(&written).into_vec(),
                    _ => tags(&[drawn(&mut random)]).into_vec(),
                };
                let length = installed.all().len() as u64;
                let known = Timestamp::new(number - random.below(length + 1), NodeId(0));
                let snapshot = CommitSequence(number - random.below(length + 1) / 4);
                let mut found = Vec::new();
                installed.find((known, snapshot), HERE, &read, |installed| {
                    found.push(installed.sequence)
                });
                let all = installed.all().iter().filter(|installed| {
                    installed.sequence <= snapshot
                        && installed.commit > known
                        && touches(installed.trace.written(HERE), &read)
                });
                let all: Vec<CommitSequence> = all.map(|installed| installed.sequence).collect();
                assert_eq!(found, all, "{read:?} after {known} in {snapshot}");
                found_in_all += all.len();
                searched = searched.max(installed.blocks.iter().flatten().count());
            }
            // Reachability: readers find some, in many blocks.
            assert!(
                found_in_all > 1_000 && searched > 4,
                "{found_in_all} of {searched} blocks"
            );
        }
    }
}
