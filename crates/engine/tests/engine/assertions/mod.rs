//! Assertions that a transaction could violate alone: they are evaluated before it commits, on the state that
//! it leaves.

use anabranch_engine::CallError;
use anabranch_types::{EffectError, Value};

use crate::support::{Answer, args, under_each};

/// At least one of the staff works; rooms hold three guests at most; nights are few.
const HOTEL: &str = "
CREATE TABLE staff (id integer PRIMARY KEY, shift integer NOT NULL);
CREATE TABLE rooms (id integer PRIMARY KEY, taken integer NOT NULL);
CREATE TABLE guests (id integer PRIMARY KEY, room integer NOT NULL, nights integer NOT NULL);

CREATE ASSERTION someone_works CHECK (EXISTS (SELECT * FROM staff));
CREATE ASSERTION no_room_is_full CHECK (
    NOT EXISTS (SELECT room FROM guests GROUP BY room HAVING count(*) > 3));
CREATE ASSERTION guests_are_counted CHECK (
    NOT EXISTS (SELECT * FROM rooms
                WHERE taken <> (SELECT count(*) FROM guests WHERE room = rooms.id)));
CREATE ASSERTION nights_are_few CHECK (NOT EXISTS (SELECT * FROM guests WHERE nights > 9));

CREATE PROCEDURE leave(p_id integer)
LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM staff WHERE id = p_id;
END;

CREATE PROCEDURE relieve(p_id integer, p_by integer)
LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM staff WHERE id = p_id;
    INSERT INTO staff (id, shift) VALUES (p_by, 1);
END;

CREATE PROCEDURE check_in(p_id integer, p_room integer)
LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO guests (id, room, nights) VALUES (p_id, p_room, 1);
    UPDATE rooms SET taken = taken + 1 WHERE id = p_room;
END;

-- Forgets to count.
CREATE PROCEDURE smuggle(p_id integer, p_room integer)
LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO guests (id, room, nights) VALUES (p_id, p_room, 1);
END;

CREATE PROCEDURE stay(p_id integer, p_nights integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE guests SET nights = p_nights WHERE id = p_id;
END;

-- Changes two rows of which the assertion speaks.
CREATE PROCEDURE stay_both(p_one integer, p_other integer, p_nights integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE guests SET nights = p_nights WHERE id = p_one;
    UPDATE guests SET nights = p_nights + 1 WHERE id = p_other;
END;
";

fn rows() -> Vec<(u16, Vec<Value>)> {
    let staff = (1..=2).map(|id| (0, args([id, 1]).to_vec()));
    let rooms = (1..=2).map(|id| (1, args([id, 0]).to_vec()));
    staff.chain(rooms).collect()
}

#[track_caller]
fn violates(answer: &Answer, assertion: &str) {
    let Err(CallError::Failed(EffectError {
        code, constraint, ..
    })) = answer
    else {
        panic!("{answer:?} should violate {assertion}");
    };
    assert_eq!((*code, constraint.as_deref()), ("23514", Some(assertion)));
}

#[test]
fn what_a_transaction_would_break_alone_is_refused_and_leaves_no_trace() {
    for partitions in 1..=3 {
        under_each(HOTEL, partitions, &rows(), |cluster| {
            let last = partitions - 1;
            cluster.call(0, "leave", &args([1])).unwrap();
            violates(&cluster.call(last, "leave", &args([2])), "someone_works");
            assert_eq!(cluster.ints(0, "SELECT id FROM staff"), [[2]]);
            // The transaction's own writes count.
            cluster.call(0, "relieve", &args([2, 3])).unwrap();
            assert_eq!(cluster.ints(last, "SELECT id FROM staff"), [[3]]);

            for guest in 1..=3 {
                cluster.call(0, "check_in", &args([guest, 1])).unwrap();
            }
            let fourth = cluster.call(last, "check_in", &args([4, 1]));
            violates(&fourth, "no_room_is_full");
            cluster.call(last, "check_in", &args([4, 2])).unwrap();
            let smuggled = cluster.call(0, "smuggle", &args([5, 2]));
            violates(&smuggled, "guests_are_counted");
            violates(&cluster.call(0, "stay", &args([4, 10])), "nights_are_few");
            cluster.call(0, "stay", &args([4, 9])).unwrap();
            // Each of the rows that it has changed is looked at, on whichever partition it is.
            for (one, other) in [(1, 2), (2, 1), (1, 4), (4, 1)] {
                let both = cluster.call(0, "stay_both", &args([one, other, 9]));
                violates(&both, "nights_are_few");
            }
            cluster.call(0, "stay_both", &args([7, 8, 9])).unwrap();
            let guests = "SELECT id, room, nights FROM guests ORDER BY id";
            let expected = [[1, 1, 1], [2, 1, 1], [3, 1, 1], [4, 2, 9]];
            assert_eq!(cluster.ints(0, guests), expected);
            let rooms = "SELECT id, taken FROM rooms ORDER BY id";
            assert_eq!(cluster.ints(last, rooms), [[1, 3], [2, 1]]);
        });
    }
}

#[test]
fn of_two_conflicting_leaves_one_is_refused() {
    for partitions in 1..=3 {
        under_each(HOTEL, partitions, &rows(), |cluster| {
            let first = cluster.begin(0, "leave", &args([1]));
            let second = cluster.begin(partitions - 1, "leave", &args([2]));
            let outcomes = cluster.run();
            let answers = [first, second].map(|id| {
                let result = outcomes[&id].result.clone();
                result.map(|result| result.rows)
            });
            let (gone, refused): (Vec<&Answer>, Vec<&Answer>) =
                answers.iter().partition(|answer| answer.is_ok());
            assert_eq!((gone.len(), refused.len()), (1, 1), "{answers:?}");
            violates(refused[0], "someone_works");
            assert_eq!(cluster.ints(0, "SELECT count(*) FROM staff"), [[1]]);
        });
    }
}

#[test]
fn a_transaction_that_surely_keeps_an_assertion_or_declares_it_is_not_checked() {
    let looks = "
-- anabranch: keeps someone_works
CREATE PROCEDURE leave_if_others_stay(p_id integer) LANGUAGE plpgsql AS $$
DECLARE
    others bigint;
BEGIN
    SELECT count(*) INTO others FROM staff WHERE id <> p_id;
    IF others > 0 THEN
        DELETE FROM staff WHERE id = p_id;
    END IF;
END;
$$;
";
    let planned = crate::support::plan(&format!("{HOTEL}{looks}"), 1);
    let checked = |procedure: &str| -> Vec<(&str, bool)> {
        let entry = planned.plan.entry(procedure).expect("it is planned");
        let checks = entry.checks.iter();
        let name = |of: usize| planned.plan.invariants[of].name.as_str();
        checks.map(|c| (name(c.invariant), c.guarded)).collect()
    };
    assert_eq!(checked("leave"), [("someone_works", true)]);
    assert_eq!(checked("leave_if_others_stay"), []);
    // A new guest is counted. No directive declares that the room holds the guests or that nights are few.
    let new_guest = [("no_room_is_full", true), ("nights_are_few", false)];
    assert_eq!(checked("check_in"), new_guest);
    assert_eq!(checked("stay"), [("nights_are_few", false)]);
    assert_eq!(
        checked("smuggle"),
        [new_guest[0], ("guests_are_counted", true), new_guest[1]]
    );
}
