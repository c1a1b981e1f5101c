//! Redundant guards leave the plan, and no others do; what they validated and held is still validated and held.

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::CoordinationClass::Local;
use anabranch_analysis::plan::{Plan, PlanEntry};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::SourceFile;

use crate::support::{Application, entry};

const TABLES: &str = "
    CREATE TABLE flight (id integer PRIMARY KEY, seats integer NOT NULL CHECK (seats >= 0));
    CREATE TABLE booking (flight integer REFERENCES flight (id), seat integer, guest integer,
                          PRIMARY KEY (flight, seat), UNIQUE (flight, guest));
    CREATE PROCEDURE book(p_flight integer, p_seat integer, p_guest integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO booking (flight, seat, guest) VALUES (p_flight, p_seat, p_guest);
        UPDATE flight SET seats = seats - 1 WHERE id = p_flight; END;";

/// Returns the plan of `TABLES` and more, after an attack on it.
fn planned(more: &str) -> Plan {
    let sql = format!("{TABLES}{more}");
    let files = vec![SourceFile::new("test.sql", sql.as_str())];
    let application = anabranch_sql::load(files.clone())
        .and_then(anabranch_sql::Application::compile)
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    let effort = Effort {
        cases: 2_000,
        ..Effort::default()
    };
    assert_eq!(Explorer::new(&application, &plan).attack(1, effort), None);
    plan
}

/// A type's guards: each item with the columns of its key.
fn held(entry: &PlanEntry) -> Vec<String> {
    let guards = entry.guards.iter();
    guards
        .map(|guard| {
            let key: Vec<&str> = guard.key.iter().map(|k| k.name.as_str()).collect();
            format!("{} ({})", guard.item, key.join(", "))
        })
        .collect()
}

#[test]
fn rows_of_one_flight_are_ordered_by_their_flight() {
    let plan = planned("");
    let book = entry(&plan, "book");
    assert_eq!(held(book), ["flight.seats (id)"]);
    // The guard lists the invariants that it serves now, and inserted rows are guarded as before.
    let kept: Vec<&str> = book.guards[0]
        .invariants
        .iter()
        .map(|i| plan.invariants[*i].name.as_str())
        .collect();
    for name in [
        "booking_pkey",
        "booking_flight_guest_key",
        "flight_seats_check",
    ] {
        assert!(kept.contains(&name), "{name}: {kept:?}");
    }
    assert_eq!(book.guarded_writes.len(), 2, "{book:#?}");
    assert_eq!(book.class, Local);
}

#[test]
fn a_type_that_does_not_know_the_flight_keeps_all_guards() {
    let plan = planned(
        "CREATE PROCEDURE seat(p_flight integer, p_seat integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO booking (flight, seat) VALUES (p_flight, p_seat); END;",
    );
    let both = ["booking (flight, seat)", "flight.seats (id)"];
    let mut book = held(entry(&plan, "book"));
    book.retain(|guard| both.contains(&guard.as_str()));
    book.sort();
    assert_eq!(book, both);
    assert!(held(entry(&plan, "seat")).contains(&both[0].to_owned()));
}

#[test]
fn a_flight_that_is_looked_up_may_be_any() {
    let plan = planned(
        "CREATE TABLE code (name text PRIMARY KEY, flight integer NOT NULL);
         CREATE PROCEDURE name(p_name text, p_flight integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE code SET flight = p_flight WHERE name = p_name; END;
         CREATE PROCEDURE book_by(p_name text, p_seat integer) LANGUAGE plpgsql AS $$
         DECLARE f integer;
         BEGIN
             SELECT flight INTO f FROM code WHERE name = p_name;
             INSERT INTO booking (flight, seat) VALUES (f, p_seat);
             UPDATE flight SET seats = seats - 1 WHERE id = f;
         END; $$;",
    );
    for name in ["book", "book_by"] {
        let held = held(entry(&plan, name));
        assert!(
            held.contains(&"booking (flight, seat)".to_owned()),
            "{held:?}"
        );
        assert!(held.contains(&"flight.seats (id)".to_owned()), "{held:?}");
    }
}

/// Two NULLs are not equal, so a guard keyed by such a column orders nothing.
#[test]
fn nulls_are_not_equal() {
    let plan = planned(
        "CREATE TABLE note (id integer PRIMARY KEY, tag integer UNIQUE);
         CREATE PROCEDURE write(p_id integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO note (id) VALUES (p_id); END;",
    );
    let held = held(entry(&plan, "write"));
    assert!(held.contains(&"note (id)".to_owned()), "{held:?}");
}

#[test]
fn votes_are_counted_by_telephone() {
    let plan = Application::example("voter").plan();
    assert_eq!(held(entry(&plan, "vote")), ["votes (phone_number)"]);
}

#[test]
fn a_seat_that_is_changed_is_one_of_its_flight() {
    let plan = Application::example("seats").plan();
    let update = entry(&plan, "update_reservation");
    assert_eq!(held(update), ["reservation (r_f_id, r_seat)"]);
    assert_eq!(update.class, Local);
    assert_eq!(entry(&plan, "new_reservation").class, Local);
}

/// Two UPDATEs that each change a part of a key may make a key that neither has named.
#[test]
fn parts_of_a_changed_key_do_not_identify_it() {
    let plan = planned(
        "CREATE TABLE place (id integer PRIMARY KEY, x integer NOT NULL, y integer NOT NULL, UNIQUE (x, y));
         CREATE PROCEDURE across(p_id integer, p_x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE place SET x = p_x WHERE id = p_id; END;
         CREATE PROCEDURE aslant(p_id integer, p_x integer, p_y integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE place SET x = p_x, y = p_y WHERE id = p_id; END;",
    );
    for name in ["across", "aslant"] {
        let held = held(entry(&plan, name));
        assert!(held.contains(&"place ()".to_owned()), "{name}: {held:?}");
    }
}

/// Two ways to one row, through a join, are one guard.
#[test]
fn equal_terms_resolve_alike() {
    let plan = planned(
        "CREATE TABLE person (name text PRIMARY KEY, id integer NOT NULL UNIQUE);
         CREATE TABLE saved (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE held (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE PROCEDURE take(p text, p_n integer) LANGUAGE plpgsql AS $$
         DECLARE who integer; total integer;
         BEGIN
             SELECT id INTO STRICT who FROM person WHERE name = p;
             SELECT s.n + h.n INTO STRICT total
             FROM saved AS s JOIN held AS h ON h.id = s.id WHERE s.id = who;
             IF total >= p_n THEN UPDATE held SET n = n - p_n WHERE id = who; END IF;
         END; $$;",
    );
    assert_eq!(held(entry(&plan, "take")), ["held (id)"]);
}
