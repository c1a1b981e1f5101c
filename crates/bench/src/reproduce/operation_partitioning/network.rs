//! The network of Table 2, and what it permits.

use anabranch_sim::Network;
use anabranch_types::Ticks;

use super::published::INSIDE_MS;

/// Where servers and clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// All servers at one site, each with its own clients.
    OneSite,
    /// A server at each of the first sites of Table 2, and clients at all five.
    Sites,
}

/// Table 2.
///
/// # Panics
/// Never: the file is well-formed, as a test shows.
pub(super) fn matrix() -> Network {
    let text = include_str!("../../../../../examples/networks/conveyor-belt.txt");
    Network::matrix("examples/networks/conveyor-belt.txt", text).expect("the file is a matrix")
}

/// One-way latencies between servers in the order of the ring, and from clients to them.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// In nanoseconds, from server to server.
    pub(super) between: Vec<Vec<u64>>,
    /// By group of clients: their nearest server.
    pub(super) nearest: Vec<u16>,
    /// By group of clients: in nanoseconds, to each server.
    pub(super) to_server: Vec<Vec<u64>>,
}

impl Links {
    /// The links of so many servers. Servers are in the order of the shortest tour.
    pub(super) fn new(place: Place, servers: u16) -> Links {
        let inside = (INSIDE_MS * 1e6 / 2.0) as u64;
        match place {
            Place::OneSite => Links {
                between: vec![vec![inside; usize::from(servers)]; usize::from(servers)],
                nearest: (0..servers).collect(),
                to_server: vec![vec![inside; usize::from(servers)]; usize::from(servers)],
            },
            Place::Sites => {
                let network = matrix();
                let sites = network.sites().len() as u16;
                let ring = shortest_tour(&network, servers);
                let one_way = |from: u16, to: u16| network.median(from, to).0;
                let row = |from: u16| ring.iter().map(|to| one_way(from, *to)).collect();
                let to_server: Vec<Vec<u64>> = (0..sites).map(row).collect();
                let nearest = to_server.iter().map(|row: &Vec<u64>| {
                    let least = (0..servers).min_by_key(|server| row[usize::from(*server)]);
                    least.unwrap_or_default()
                });
                Links {
                    between: ring.iter().map(|from| row(*from)).collect(),
                    nearest: nearest.collect(),
                    to_server,
                }
            }
        }
    }

    /// The mean round trip from clients to their nearest server, in milliseconds. Each group has equally many clients.
    pub(super) fn mean_round_trip_ms(&self) -> f64 {
        let rows = self.to_server.iter().zip(&self.nearest);
        let all: u64 = rows.map(|(row, nearest)| row[usize::from(*nearest)]).sum();
        2.0 * all as f64 / self.nearest.len() as f64 / 1e6
    }

    /// How long the token goes round without a stop, in milliseconds.
    pub(super) fn lap_ms(&self) -> f64 {
        let servers = self.between.len();
        if servers == 1 {
            return 0.0;
        }
        let hops = (0..servers).map(|from| self.between[from][(from + 1) % servers]);
        hops.sum::<u64>() as f64 / 1e6
    }

    /// The mean round trip between two different servers, in milliseconds.
    pub(super) fn mean_between_ms(&self) -> f64 {
        let servers = self.between.len();
        if servers == 1 {
            return 0.0;
        }
        let all: u64 = (0..servers)
            .flat_map(|from| (0..servers).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .map(|(from, to)| self.between[from][to])
            .sum();
        2.0 * all as f64 / (servers * (servers - 1)) as f64 / 1e6
    }
}

/// The length of a tour in nanoseconds.
fn length(network: &Network, tour: &[u16]) -> u64 {
    let next = tour.iter().cycle().skip(1);
    let hops = tour.iter().zip(next);
    hops.map(|(from, to)| network.median(*from, *to).0).sum()
}

/// The shortest tour through the first `servers` sites, from the first one.
pub(super) fn shortest_tour(network: &Network, servers: u16) -> Vec<u16> {
    fn extend(network: &Network, tour: &mut Vec<u16>, left: &mut Vec<u16>, best: &mut Vec<u16>) {
        if left.is_empty() {
            if best.is_empty() || length(network, tour) < length(network, best) {
                best.clone_from(tour);
            }
            return;
        }
        for place in 0..left.len() {
            let site = left.remove(place);
            tour.push(site);
            extend(network, tour, left, best);
            tour.pop();
            left.insert(place, site);
        }
    }
    let mut best = Vec::new();
    extend(
        network,
        &mut vec![0],
        &mut (1..servers).collect(),
        &mut best,
    );
    best
}

/// The lap of the paper's own order of sites, in milliseconds.
pub(super) fn printed_lap_ms(servers: u16) -> f64 {
    let tour: Vec<u16> = (0..servers).collect();
    Ticks(length(&matrix(), &tour)).0 as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tours that the paper's matrix has, computed by hand.
    #[test]
    fn the_shortest_tour_is_shorter_than_the_order_of_the_table() {
        assert_eq!(printed_lap_ms(5), 593.5);
        assert_eq!(Links::new(Place::Sites, 5).lap_ms(), 474.0);
        assert_eq!(Links::new(Place::Sites, 2).lap_ms(), 253.0);
        assert_eq!(Links::new(Place::Sites, 1).lap_ms(), 0.0);
        assert_eq!(Links::new(Place::OneSite, 4).lap_ms(), 40.0);
    }

    #[test]
    fn clients_use_their_nearest_server() {
        let links = Links::new(Place::Sites, 2);
        assert_eq!(links.nearest, [0, 1, 0, 0, 1]);
        let mean = (20.0 + 20.0 + 92.0 + 193.0 + 188.0) / 5.0;
        assert!((links.mean_round_trip_ms() - mean).abs() < 1e-9);
        let all = Links::new(Place::Sites, 5);
        assert_eq!(all.mean_round_trip_ms(), 20.0);
    }
}
