//! The sites: seven regions of Amazon EC2.

use anabranch_sim::Network;

/// The matrix of all seven.
const MATRIX: &str = include_str!("../../../../../examples/networks/alvin.txt");

/// The name of the matrix.
pub(super) const NAME: &str = "examples/networks/alvin.txt";

fn all() -> Network {
    Network::matrix(NAME, MATRIX).expect("the file is a matrix, as a test shows")
}

/// The first regions. Node *n* is in region *n* mod their number.
pub(super) fn first(count: u16) -> Network {
    let all = all();
    let names: Vec<&str> = (0..count).map(|site| all.site(site)).collect();
    let mut text = format!("sites {}\n", names.join(" "));
    for from in 0..count {
        text.push_str(all.site(from));
        for to in 0..count {
            // A median takes one way.
            text.push_str(&format!(" {}", all.median(from, to).0 as f64 / 500_000.0));
        }
        text.push('\n');
    }
    Network::matrix(NAME, &text).expect("a part of a matrix is one")
}

/// The regions whose mean latency to the others is the lowest and the highest.
pub(super) fn leaders(count: u16) -> (u16, u16) {
    let network = first(count);
    let mean = |site: &u16| {
        let others = (0..count).filter(|other| other != site);
        others
            .map(|other| network.median(*site, other).0)
            .sum::<u64>()
    };
    let low = (0..count).min_by_key(mean);
    let high = (0..count).max_by_key(mean);
    (low.unwrap_or(0), high.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix is a part of the one of eight regions, whose numbers are checked beside their source.
    #[test]
    fn the_seven_regions_are_among_the_eight() {
        let eight = crate::sites::regions();
        let place = |name: &str| eight.sites().iter().position(|site| site == name);
        let seven = first(7);
        for (a, name) in (0..).zip(seven.sites()) {
            for (b, other) in (0..).zip(seven.sites()) {
                let (x, y) = (place(name), place(other));
                let (x, y) = (x.expect("it is there"), y.expect("it is there"));
                let expected = eight.median(x as u16, y as u16);
                assert!(
                    seven.median(a, b).0.abs_diff(expected.0) < 10,
                    "{name} {other}"
                );
            }
        }
        assert_eq!(seven.site(7), "virginia");
    }

    #[test]
    fn leaders_are_near_and_far() {
        let name = |site| all().site(site).to_owned();
        for (count, near, far) in [
            (3, "virginia", "oregon"),
            (5, "virginia", "sao-paulo"),
            (7, "oregon", "sao-paulo"),
        ] {
            let (low, high) = leaders(count);
            assert_eq!((name(low), name(high)), (near.to_owned(), far.to_owned()));
        }
    }
}
