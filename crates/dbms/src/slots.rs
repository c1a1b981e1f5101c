//! Which server of a ring owns which keys.
//!
//! A key has a *slot*, and each slot belongs to one server. The slot of a key never changes. A sequence on the server with the
//! place *p* gives numbers of slot *p*, the server's *home slot*: so a home slot stays with its server as long as that is a
//! member. When a server joins or leaves, as few slots move as leave the others in balance, and no slot moves between
//! two servers that stay.

/// By slot the place of its server.
pub type Owners = Vec<u16>;

/// The owners in a new ring: slot *s* of *n* servers belongs to the place *s* mod *n*.
pub fn initial(slots: u16, servers: u16) -> Owners {
    (0..slots).map(|slot| slot % servers.max(1)).collect()
}

/// The owners after the server with the place `joining`, which has been no member, has joined `members`: its home slot is its
/// own, and it takes over others until it has its share, ⌊slots ÷ servers⌋. Each comes from the server that has the most then.
///
/// # Panics
/// When there is no slot of this number.
pub fn joined(owners: &[u16], members: &[u16], joining: u16) -> Owners {
    let mut owners = owners.to_vec();
    owners[usize::from(joining)] = joining;
    let share = owners.len() / (members.len() + 1);
    while count(&owners, joining) < share {
        let most = members
            .iter()
            .max_by_key(|place| (count(&owners, **place), std::cmp::Reverse(**place)));
        let Some(most) = most.filter(|place| count(&owners, **place) > share) else {
            break;
        };
        // The home slot of a server that has left may move.
        let moves = (0..owners.len())
            .rev()
            .find(|slot| owners[*slot] == *most && *slot != usize::from(*most));
        let Some(moves) = moves else {
            break;
        };
        owners[moves] = joining;
    }
    owners
}

/// The owners after the server with the place `leaving` has left: each of its slots goes to the server of `remaining` that has
/// the fewest then.
///
/// # Panics
/// When no server remains.
pub fn left(owners: &[u16], remaining: &[u16], leaving: u16) -> Owners {
    assert!(!remaining.is_empty(), "a ring has a server");
    let mut owners = owners.to_vec();
    for slot in 0..owners.len() {
        if owners[slot] == leaving {
            let fewest = remaining
                .iter()
                .min_by_key(|place| (count(&owners, **place), **place));
            owners[slot] = *fewest.unwrap_or(&leaving);
        }
    }
    owners
}

fn count(owners: &[u16], place: u16) -> usize {
    owners.iter().filter(|owner| **owner == place).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_joins_gets_its_share_and_no_home_slot_of_another() {
        assert_eq!(initial(8, 3), [0, 1, 2, 0, 1, 2, 0, 1]);
        // Its own slot, and one of the server that has the most.
        assert_eq!(
            joined(&initial(8, 3), &[0, 1, 2], 3),
            [0, 1, 2, 3, 1, 2, 0, 3]
        );
        for slots in 2..40 {
            for servers in 1..slots {
                let before = initial(slots, servers);
                let members: Vec<u16> = (0..servers).collect();
                let after = joined(&before, &members, servers);
                let moved = before.iter().zip(&after).filter(|(b, a)| b != a);
                assert!(moved.clone().all(|(_, a)| *a == servers));
                let share = usize::from(slots / (servers + 1)).max(1);
                assert_eq!(moved.count(), share, "{slots} slots, {servers} servers");
                assert!((0..=servers).all(|place| after[usize::from(place)] == place));
            }
        }
    }

    #[test]
    fn the_slots_of_a_server_that_leaves_are_all_that_move() {
        assert_eq!(left(&initial(8, 3), &[0, 2], 1), [0, 2, 2, 0, 0, 2, 0, 2]);
        let alone = left(&initial(4, 2), &[1], 0);
        assert_eq!(alone, [1, 1, 1, 1]);
        // Home slots of servers that have left may move, and none of one that stays.
        assert_eq!(joined(&[3; 6], &[3], 4), [3, 3, 4, 3, 4, 4]);
        // A server that joins afterwards has a place of its own.
        assert_eq!(joined(&alone, &[1], 2), [1, 1, 2, 2]);
        for servers in 2..12 {
            for leaving in 0..servers {
                let before = initial(16, servers);
                let remaining: Vec<u16> = (0..servers).filter(|of| *of != leaving).collect();
                let after = left(&before, &remaining, leaving);
                assert!(!after.contains(&leaving));
                for (before, after) in before.iter().zip(&after) {
                    assert!(before == after || *before == leaving);
                }
                let counts: Vec<usize> = remaining.iter().map(|of| count(&after, *of)).collect();
                let (most, fewest) = (counts.iter().max(), counts.iter().min());
                assert!(
                    most.zip(fewest)
                        .is_some_and(|(most, fewest)| most - fewest <= 1)
                );
            }
        }
    }
}
