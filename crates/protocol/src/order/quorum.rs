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
        }
        let sizes = |sites| {
            let quorums = Quorums::of(sites).expect("a supported size");
            (quorums.classic(), quorums.failures())
        };
        assert_eq!(sizes(3), (2, 1));
        assert_eq!(sizes(4), (3, 1));
        assert_eq!(sizes(5), (3, 2));
        assert_eq!(sizes(9), (5, 4));
    }

    #[test]
    fn groups_of_no_site_and_of_too_many_are_refused() {
        assert!(Quorums::of(0).is_err());
        let refused = Quorums::of(10).expect_err("too many");
        assert!(refused.to_string().contains("1 to 9"), "{refused}");
    }
}
