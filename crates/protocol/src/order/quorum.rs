//! Quorum sizes of the orderers, and sets of sites.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most sites that an orderer supports.
pub const SITES_MAX: u8 = 9;

/// Names a site among those of its group, from 0.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct SiteId(pub u8);

impl SiteId {
    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The least number of `site` above another one, where number *n* belongs to site *n* modulo the number of sites.
pub(crate) fn next_number(above: u64, site: SiteId, sites: u8) -> u64 {
    let (n, residue) = (u64::from(sites), u64::from(site.0));
    let next = above + 1;
    next + (residue + n - next % n) % n
}

/// A Paxos ballot: of one batch, or of all slots. Ballot 0 belongs to the site that needs no promises, ballot *b* > 0 to
/// site *b* modulo N.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Ballot(pub u64);

impl Ballot {
    /// The least ballot of `site` above this one, in a group of `sites`.
    pub fn next_of(self, site: SiteId, sites: u8) -> Ballot {
        Ballot(next_number(self.0, site, sites))
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ballot {}", self.0)
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A group of this size cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSizeError {
    /// The size asked for.
    pub sites: u8,
}

impl fmt::Display for GroupSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a group of {} sites: choose 1 to {SITES_MAX}, where an even number survives no more failures than \
             the odd number below it",
            self.sites
        )
    }
}

impl std::error::Error for GroupSizeError {}

/// The quorum sizes of a group. Any two classic quorums have a site in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    sites: u8,
}

impl Quorums {
    /// The quorums of a group of `sites` sites.
    ///
    /// # Errors
    /// If there are no sites, or more than [`SITES_MAX`].
    pub fn of(sites: u8) -> Result<Quorums, GroupSizeError> {
        if sites == 0 || sites > SITES_MAX {
            return Err(GroupSizeError { sites });
        }
        Ok(Quorums { sites })
    }

    /// The number of sites, the paper's N.
    pub fn sites(self) -> u8 {
        self.sites
    }

    /// The number of failures that the group survives, the paper's f: ⌊(N − 1) / 2⌋.
    pub fn failures(self) -> usize {
        usize::from((self.sites - 1) / 2)
    }

    /// The size of a classic quorum, the paper's CQ: a majority, also of an even number of sites.
    pub fn classic(self) -> usize {
        usize::from(self.sites / 2 + 1)
    }

    /// The failures with which EPaxos still decides fast, its *e*: the most for which a recovery is possible with *f*
    /// failures, N ≥ 2e + f − 1 (EPaxos\*, §2), and at most f.
    fn fast_failures(self) -> usize {
        let possible = (usize::from(self.sites) - self.failures()).div_ceil(2);
        possible.min(self.failures())
    }

    /// The size of a fast quorum of EPaxos: N − e. 2 of 3 sites, 3 of 5, 5 of 7.
    pub fn fast(self) -> usize {
        usize::from(self.sites) - self.fast_failures()
    }

    /// How many sites of any classic quorum are in each fast quorum of EPaxos, at least.
    pub fn recovered(self) -> usize {
        self.classic() - self.fast_failures()
    }

    /// All sites of the group, in order.
    pub fn all(self) -> impl Iterator<Item = SiteId> {
        (0..self.sites).map(SiteId)
    }
}

/// A set of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct SiteSet(u16);

impl SiteSet {
    /// Adds a site. Returns whether it was new.
    pub fn insert(&mut self, site: SiteId) -> bool {
        let before = self.0;
        self.0 |= 1 << site.0;
        self.0 != before
    }

    /// Whether the site is in the set.
    pub fn contains(self, site: SiteId) -> bool {
        self.0 & 1 << site.0 != 0
    }

    /// The number of sites in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no site is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<SiteId> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteId>>(sites: I) -> SiteSet {
        let mut set = SiteSet::default();
        sites.into_iter().for_each(|site| {
            set.insert(site);
        });
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_quorums_have_a_site_in_common_and_survive_the_failures() {
        for sites in 1..=SITES_MAX {
            let quorums = Quorums::of(sites).expect("a supported size");
            let all = usize::from(sites);
            assert!(2 * quorums.classic() > all, "{sites} sites");
            assert!(
                quorums.classic() + quorums.failures() <= all,
                "{sites} sites"
            );
            let (failures, fast_failures) = (quorums.failures(), all - quorums.fast());
            assert!(fast_failures <= failures && 2 * fast_failures + failures <= all + 1);
        }
        let sizes = |sites| {
            let quorums = Quorums::of(sites).expect("a supported size");
            (quorums.classic(), quorums.failures())
        };
        assert_eq!(sizes(3), (2, 1));
        assert_eq!(sizes(4), (3, 1));
        assert_eq!(sizes(5), (3, 2));
        assert_eq!(sizes(9), (5, 4));
        let fast = |sites| {
            let quorums = Quorums::of(sites).expect("a supported size");
            (quorums.fast(), quorums.recovered())
        };
        assert_eq!(
            (1..=9).map(fast).collect::<Vec<_>>(),
            [
                (1, 1),
                (2, 2),
                (2, 1),
                (3, 2),
                (3, 1),
                (4, 2),
                (5, 2),
                (5, 2),
                (6, 2)
            ]
        );
    }

    #[test]
    fn groups_of_no_site_and_of_too_many_are_refused() {
        assert!(Quorums::of(0).is_err());
        let refused = Quorums::of(10).expect_err("too many");
        assert!(refused.to_string().contains("1 to 9"), "{refused}");
    }
}
