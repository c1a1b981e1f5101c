//! Holes that exploring plans has found, each by name: applications whose plans once let an invariant break. Each
//! test expects a verdict, and explores the plan again.

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::Confluence::{self, No, Unknown, Yes};
use anabranch_analysis::plan::{CoordinationClass, MergePolicy, Plan};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::SourceFile;

use crate::support::{entry, expect, try_verdict};

/// Returns the plan of an application, after an attack on it.
pub(crate) fn explored(sql: &str) -> Plan {
    let files = vec![SourceFile::new("test.sql", sql)];
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
        cases: 500,
        ..Effort::default()
    };
    let found = Explorer::new(&application, &plan).attack(1, effort);
    assert_eq!(found, None);
    plan
}

pub(crate) fn is_not(plan: &Plan, name: &str, invariant: &str, confluent: Confluence) {
    let found = try_verdict(plan, name, invariant).map(|v| v.confluent);
    assert_ne!(found, Some(confluent), "{name} on {invariant}");
}

/// Asserts that both hold a guard on this item.
pub(crate) fn meet(plan: &Plan, a: &str, b: &str, item: &str) {
    for name in [a, b] {
        let guards = &entry(plan, name).guards;
        assert!(guards.iter().any(|g| g.item == item), "{name}: {guards:#?}");
    }
}

#[test]
fn a_value_computed_from_the_row_may_be_null() {
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL, m integer NOT NULL);
         CREATE PROCEDURE step(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = nullif(n + 1, 3) WHERE id = p; END;
         CREATE PROCEDURE put(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = x WHERE id = p; END;
         CREATE PROCEDURE wrap(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET m = CASE WHEN m > x THEN m - x ELSE m + 10 - x END WHERE id = p; END;",
    );
    expect(&plan, "step", "t_not_null", Unknown, "null-computed");
    expect(&plan, "put", "t_not_null", Unknown, "null-computed");
    // Both sides of the CASE are NULL where x is, and nowhere else.
    expect(&plan, "wrap", "t_not_null", Yes, "eq-any");
}

#[test]
fn the_source_of_a_computed_column_is_ordered_with_it() {
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer CHECK (a <= 3), b integer);
         CREATE PROCEDURE copy_b(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET a = b WHERE id = p; END;
         CREATE PROCEDURE up(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET b = b + 1 WHERE id = p; END;",
    );
    expect(&plan, "copy_b", "t_a_check", Unknown, "bound-computed");
    is_not(&plan, "up", "t_a_check", Yes);
    meet(&plan, "copy_b", "up", "t.a");
}

const GROUPS: &str = "CREATE TABLE grp (id integer PRIMARY KEY, total integer NOT NULL, open integer);
    CREATE TABLE item (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), g integer REF, n integer NOT NULL,
                       open integer);
    CREATE PROCEDURE found_group(p integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO grp (id, total) VALUES (p, 0); END;
    CREATE PROCEDURE add_item(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO item (g, n) VALUES (p, x);
        UPDATE grp SET total = total + x WHERE id = p; END;
    CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT * FROM grp WHERE total <>
        (SELECT coalesce(sum(n), 0) FROM item WHERE item.g = grp.id)));";

#[test]
fn a_group_may_be_inserted_after_its_rows() {
    let plan = explored(&GROUPS.replace("REF", ""));
    expect(&plan, "found_group", "totals", No, "mv-founding");
    expect(&plan, "add_item", "totals", No, "mv-founding");
    meet(&plan, "found_group", "add_item", "grp");
    let plan = explored(&GROUPS.replace("REF", "REFERENCES grp (id)"));
    expect(&plan, "found_group", "totals", Yes, "mv-update");
    expect(&plan, "add_item", "totals", Yes, "mv-update");
}

#[test]
fn a_change_of_a_joined_row_moves_rows_out_of_a_sum() {
    let plan = explored(
        "CREATE TABLE board (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE topic (id integer PRIMARY KEY, b integer NOT NULL REFERENCES board (id), closed integer);
         CREATE TABLE post (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                            t integer NOT NULL REFERENCES topic (id));
         CREATE PROCEDURE post_it(p_t integer, p_b integer) LANGUAGE plpgsql AS $$
         DECLARE v integer;
         BEGIN
             SELECT closed INTO v FROM topic WHERE id = p_t;
             IF v IS NULL THEN
                 INSERT INTO post (t) VALUES (p_t);
                 UPDATE board SET n = n + 1 WHERE id = p_b;
             END IF;
         END; $$;
         CREATE PROCEDURE close_topic(p_t integer, p_b integer) LANGUAGE plpgsql AS $$
         DECLARE v integer;
         BEGIN
             SELECT count(*) INTO v FROM post WHERE t = p_t;
             UPDATE topic SET closed = 1 WHERE id = p_t AND closed IS NULL;
             UPDATE board SET n = n - v WHERE id = p_b;
         END; $$;
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT * FROM board AS u WHERE n <>
             (SELECT count(*) FROM topic AS i JOIN post AS p ON p.t = i.id
              WHERE i.b = u.id AND i.closed IS NULL)));",
    );
    expect(&plan, "post_it", "counted", No, "mv-transition");
    expect(&plan, "close_topic", "counted", No, "mv-transition");
    meet(&plan, "post_it", "close_topic", "board");
}

const CART: &str = "CREATE TABLE cart (id integer PRIMARY KEY);
    CREATE TABLE line (cart integer REFERENCES cart (id), n integer, PRIMARY KEY (cart, n));
    CREATE PROCEDURE open_cart(p integer, fresh boolean) LANGUAGE plpgsql AS $$
    BEGIN
        BODY
        INSERT INTO line VALUES (p, 1);
    END; $$;";

#[test]
fn the_key_of_an_existing_parent_may_be_used_twice() {
    for body in [
        "IF fresh THEN INSERT INTO cart VALUES (p); END IF;",
        "INSERT INTO cart VALUES (p) ON CONFLICT DO NOTHING;",
        "FOR i IN 1..0 LOOP INSERT INTO cart VALUES (p); END LOOP;",
    ] {
        let plan = explored(&CART.replace("BODY", body));
        expect(&plan, "open_cart", "line_pkey", No, "unique-chosen");
    }
    let plan = explored(&CART.replace("BODY", "INSERT INTO cart VALUES (p);"));
    expect(&plan, "open_cart", "line_pkey", Yes, "unique-derived");
    let both = "IF fresh THEN INSERT INTO cart VALUES (p); INSERT INTO line VALUES (p, 2); END IF;";
    let plan = explored(
        &CART
            .replace("BODY", both)
            .replace("INSERT INTO line VALUES (p, 1);", ""),
    );
    expect(&plan, "open_cart", "line_pkey", Yes, "unique-derived");
}

/// A key that an INSERT returns for its new row is a key of no other row; a key read from an existing row may be.
#[test]
fn a_key_that_an_insert_returns_is_new() {
    let cart = |body: &str| {
        format!(
            "CREATE TABLE cart (id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, guest integer,
                                other integer NOT NULL UNIQUE);
             CREATE TABLE line (cart integer REFERENCES cart (KEY), n integer, PRIMARY KEY (cart, n));
             CREATE PROCEDURE open_cart(p integer) LANGUAGE plpgsql AS $$
             DECLARE v integer; w integer;
             BEGIN
                 {body}
                 INSERT INTO line VALUES (v, 1);
             END; $$;"
        )
    };
    let opens = "INSERT INTO cart (guest, other) VALUES (p, p) RETURNING";
    let by_id = |body: &str| explored(&cart(body).replace("KEY)", "id)"));
    let plan = by_id(&format!("{opens} id INTO v;"));
    expect(&plan, "open_cart", "line_pkey", Yes, "unique-derived");
    // Another column of the row may be anything.
    let plan = by_id(&format!("{opens} guest INTO v;"));
    expect(&plan, "open_cart", "line_pkey", No, "unique-chosen");
    // So may be the key of an existing row, beside a new one.
    let plan = by_id(&format!(
        "SELECT id INTO v FROM cart WHERE guest = p; {opens} id INTO w;"
    ));
    expect(&plan, "open_cart", "line_pkey", No, "unique-chosen");
    // An INSERT that may insert no row returns nothing new.
    let plan = by_id(
        "INSERT INTO cart (guest, other) VALUES (p, p) ON CONFLICT (other) DO UPDATE SET guest = p RETURNING id INTO v;",
    );
    expect(&plan, "open_cart", "line_pkey", No, "unique-chosen");
}

#[test]
fn keys_that_follow_their_parents_are_written() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY,
                            a integer REFERENCES grp (id) ON DELETE SET NULL ON UPDATE CASCADE,
                            b integer REFERENCES grp (id) ON DELETE SET NULL ON UPDATE CASCADE);
         CREATE ASSERTION somewhere CHECK (EXISTS (SELECT * FROM item WHERE b IS NOT NULL));
         CREATE PROCEDURE drop_group(p integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM grp WHERE id = p; END;
         CREATE PROCEDURE rename_group(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE grp SET id = q WHERE id = p; END;";
    let plan = explored(sql);
    // The second foreign key of the same table removes its column, too.
    expect(&plan, "drop_group", "somewhere", No, "nonempty-delete");
    let written = |name: &str| {
        let item = plan.columns.iter().filter(|c| c.table.0 == 1);
        let mut columns = item.map(|c| c.column.0);
        let kept = |i: &usize| plan.invariants[*i].name == "grp_pkey";
        let mut guards = entry(&plan, name).guards.iter();
        columns.any(|c| c == 2) && guards.any(|g| g.invariants.iter().any(kept))
    };
    assert!(written("rename_group"));
}

#[test]
fn a_row_that_changes_its_group_changes_both_groups() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY, done integer);
         CREATE TABLE item (id integer PRIMARY KEY, g integer REFERENCES grp (id), done integer);
         CREATE ASSERTION in_step CHECK (NOT EXISTS (SELECT * FROM grp JOIN item ON item.g = grp.id
             WHERE (grp.done IS NULL) <> (item.done IS NULL)));
         CREATE PROCEDURE finish(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE grp SET done = 1 WHERE id = p;
             UPDATE item SET done = 1 WHERE g = p; END;
         CREATE PROCEDURE move_item(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET g = q WHERE id = p; END;",
    );
    is_not(&plan, "move_item", "in_step", Yes);
    is_not(&plan, "finish", "in_step", Yes);
    meet(&plan, "finish", "move_item", "grp");
}

#[test]
fn filling_a_group_is_ordered_with_lowering_its_bound() {
    let plan = explored(
        "CREATE TABLE event (id integer PRIMARY KEY, seats integer NOT NULL);
         CREATE TABLE booking (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                               event integer NOT NULL REFERENCES event (id));
         CREATE ASSERTION room CHECK (NOT EXISTS (SELECT * FROM event AS e WHERE
             (SELECT count(*) FROM booking AS b WHERE b.event = e.id) > e.seats));
         CREATE PROCEDURE book(p integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO booking (event) VALUES (p); END;
         CREATE PROCEDURE shrink(p integer, n integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE event SET seats = n WHERE id = p; END;",
    );
    expect(&plan, "book", "room", No, "lt-increment");
    expect(&plan, "shrink", "room", No, "lt-increment");
    meet(&plan, "book", "shrink", "event");
}

#[test]
fn each_of_several_required_rows_may_be_the_last() {
    let plan = explored(
        "CREATE TABLE item (id integer PRIMARY KEY);
         CREATE TABLE part (id integer PRIMARY KEY, i integer REFERENCES item (id));
         CREATE ASSERTION parts CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE NOT EXISTS
             (SELECT * FROM part AS d WHERE d.i = u.id)));
         CREATE PROCEDURE take(p integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM part WHERE id = p; END;",
    );
    expect(&plan, "take", "parts", No, "nonempty-delete");
}

#[test]
fn a_stored_extreme_is_ordered_with_all_that_move_it() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, b integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, g integer REFERENCES, b integer NOT NULL, c integer);
         CREATE ASSERTION greatest_b CHECK (NOT EXISTS (SELECT * FROM grp AS u WHERE u.b <>
             (SELECT max(d.b) FROM item AS d WHERE d.g = u.id)));
         CREATE PROCEDURE number_another(p integer, q integer) LANGUAGE plpgsql AS $$
         DECLARE v integer;
         BEGIN
             UPDATE grp SET b = b + 1 WHERE id = p RETURNING b - 1 INTO v;
             INSERT INTO item (id, g, b, c) VALUES (q, p, 1, v);
         END; $$;
         CREATE PROCEDURE found_group(p integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO grp VALUES (p, 0); END;
         CREATE PROCEDURE lift(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET b = b + 1 WHERE id = p; END;";
    let plan = explored(&sql.replace("REFERENCES", "REFERENCES grp (id)"));
    // The counter gives the number of another column than the one whose extreme is stored.
    is_not(&plan, "number_another", "greatest_b", Yes);
    meet(&plan, "number_another", "lift", "grp");
    let plan = explored(&sql.replace("REFERENCES", ""));
    expect(&plan, "found_group", "greatest_b", No, "extremum-insert");
    meet(&plan, "found_group", "lift", "grp");
}

#[test]
fn independent_inserts_of_both_replicas_may_break_an_equivalence() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, done integer);
         CREATE TABLE item (id integer PRIMARY KEY, g integer REF, done integer);
         CREATE ASSERTION in_step CHECK (NOT EXISTS (SELECT * FROM grp JOIN item ON item.g = grp.id
             WHERE (grp.done IS NULL) <> (item.done IS NULL)));
         CREATE PROCEDURE found_group(p integer, d integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO grp VALUES (p, d); END;
         CREATE PROCEDURE add_item(p integer, q integer, d integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO item VALUES (p, q, d); END;";
    let plan = explored(&sql.replace("REF", ""));
    expect(&plan, "add_item", "in_step", No, "iff-two-way");
    meet(&plan, "found_group", "add_item", "grp");
    let plan = explored(&sql.replace("REF", "REFERENCES grp (id)"));
    expect(&plan, "add_item", "in_step", Yes, "iff-one-way");
}

#[test]
fn a_row_that_replaces_another_is_ordered_with_changes_to_it() {
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL,
                         n integer NOT NULL CHECK (n <= 4), CHECK (a + b <= 4));
         CREATE PROCEDURE step(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET b = b + 1, n = n + 1 WHERE id = p; END;
         CREATE PROCEDURE renew(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM t WHERE id = p;
             INSERT INTO t (id, a, b, n) VALUES (p, x, x, x); END;",
    );
    for name in ["step", "renew"] {
        is_not(&plan, name, "t_check", Yes);
        is_not(&plan, name, "t_n_check", Yes);
    }
    // Without deletions nothing is replaced.
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL CHECK (n <= 4));
         CREATE PROCEDURE step(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = n + 1 WHERE id = p; END;
         CREATE PROCEDURE put(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO t (id, n) VALUES (p, x); END;",
    );
    expect(&plan, "put", "t_n_check", Yes, "threshold-assign");
}

#[test]
fn a_type_ordered_on_a_row_also_names_a_group_that_others_are_ordered_on() {
    let plan = explored(
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE part (id integer PRIMARY KEY, i integer REFERENCES item (id), a integer NOT NULL,
                            c integer);
         CREATE ASSERTION total CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE u.a <>
             (SELECT coalesce(sum(d.a), 0) FROM part AS d WHERE d.i = u.id AND d.c IS NULL)));
         CREATE PROCEDURE renew(p integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM part WHERE id = p;
             INSERT INTO part (id, i, a) VALUES (p, p, 1);
             UPDATE item SET a = a + 1 WHERE id = p; END;
         CREATE PROCEDURE drop_part(p integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM part WHERE id = p; END;",
    );
    expect(&plan, "drop_part", "total", Unknown, "mv-unmaintained");
    meet(&plan, "renew", "drop_part", "item");
}

#[test]
fn a_change_of_a_filter_column_adds_a_row_to_an_extreme() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, g integer REFERENCES grp (id),
                            b integer NOT NULL, c integer);
         CREATE ASSERTION greatest_b CHECK (NOT EXISTS (SELECT * FROM grp AS u WHERE u.a <>
             (SELECT max(d.b) FROM item AS d WHERE d.g = u.id AND d.c IS NULL)));
         CREATE PROCEDURE show(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET c = NULL WHERE id = p; END;
         CREATE PROCEDURE step(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET b = b + 1 WHERE id = p; END;",
    );
    for name in ["show", "step"] {
        expect(&plan, name, "greatest_b", No, "sequential-change");
    }
    meet(&plan, "show", "step", "grp");
}

#[test]
fn a_group_inserted_after_its_rows_breaks_an_equivalence() {
    let schema = |refers: &str| {
        format!(
            "CREATE TABLE grp (id integer PRIMARY KEY, c integer);
             CREATE TABLE item (id integer PRIMARY KEY, g integer {refers}, c integer);
             CREATE ASSERTION alike CHECK (NOT EXISTS (SELECT * FROM grp AS u
                 JOIN item AS d ON d.g = u.id WHERE (u.c IS NULL) <> (d.c IS NULL)));
             CREATE PROCEDURE found(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
                 INSERT INTO grp (id) VALUES (p);
                 INSERT INTO item (id, g) VALUES (q, p); END;
             CREATE PROCEDURE fill(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
                 UPDATE grp SET c = 1 WHERE id = p;
                 UPDATE item SET c = 1 WHERE g = p; END;"
        )
    };
    let plan = explored(&schema(""));
    expect(&plan, "found", "alike", No, "iff-two-way");
    meet(&plan, "found", "fill", "grp");
    // By the foreign key, the group existed first.
    let plan = explored(&schema("REFERENCES grp (id)"));
    expect(&plan, "found", "alike", Yes, "iff-one-way");
}

#[test]
fn a_group_that_is_only_counted_may_be_inserted_after_its_rows() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, n integer);
         CREATE TABLE item (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), g integer NOT NULL REF);
         CREATE ASSERTION few CHECK (NOT EXISTS (SELECT * FROM grp WHERE
             (SELECT count(*) FROM item WHERE item.g = grp.id) > 1));
         CREATE PROCEDURE found_group(p integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO grp (id) VALUES (p); END;
         CREATE PROCEDURE move_group(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE grp SET id = q WHERE id = p; END;
         CREATE PROCEDURE add_item(p integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO item (g) VALUES (p); END;";
    let plan = explored(&sql.replace("REF", ""));
    for name in ["found_group", "move_group", "add_item"] {
        expect(&plan, name, "few", No, "lt-increment");
    }
    meet(&plan, "found_group", "add_item", "item");
    let plan = explored(&sql.replace("REF", "REFERENCES grp (id)"));
    expect(&plan, "found_group", "few", Yes, "lt-decrement");
}

#[test]
fn a_requirement_of_one_row_on_others_is_no_equivalence() {
    // Each may be deleted while another is left.
    let plan = explored(
        "CREATE TABLE task (id integer PRIMARY KEY, started integer);
         CREATE TABLE worker (id integer PRIMARY KEY, task integer NOT NULL REFERENCES task (id));
         CREATE ASSERTION a_worker_is_on_it CHECK (NOT EXISTS (SELECT * FROM task
             WHERE started IS NOT NULL AND NOT EXISTS (SELECT * FROM worker WHERE worker.task = task.id)));
         CREATE PROCEDURE leave(p_task integer, p_worker integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE task SET started = 1 WHERE id = p_task;
             DELETE FROM worker WHERE id = p_worker; END;",
    );
    is_not(&plan, "leave", "a_worker_is_on_it", Yes);
    // Rows that must not exist together.
    let plan = explored(
        "CREATE TABLE room (id integer PRIMARY KEY, closed boolean NOT NULL);
         CREATE TABLE guest (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), room integer NOT NULL);
         CREATE ASSERTION no_guest_in_closed CHECK (NOT EXISTS (SELECT * FROM room
             WHERE closed AND EXISTS (SELECT * FROM guest WHERE guest.room = room.id)));
         CREATE PROCEDURE close_room(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE room SET closed = true WHERE id = p; END;
         CREATE PROCEDURE check_in(p integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO guest (room) VALUES (p); END;",
    );
    is_not(&plan, "close_room", "no_guest_in_closed", Yes);
    is_not(&plan, "check_in", "no_guest_in_closed", Yes);
}

#[test]
fn a_truth_value_changes_with_its_rows() {
    let plan = explored(
        "CREATE TABLE seat (id integer PRIMARY KEY, taken boolean NOT NULL DEFAULT false);
         CREATE TABLE booking (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                               seat integer NOT NULL REFERENCES seat (id));
         CREATE ASSERTION taken_if_booked CHECK (NOT EXISTS (SELECT * FROM seat
             WHERE taken <> EXISTS (SELECT * FROM booking WHERE booking.seat = seat.id)));
         CREATE PROCEDURE book(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE seat SET taken = true WHERE id = p; INSERT INTO booking (seat) VALUES (p); END;
         CREATE PROCEDURE give_back(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE seat SET taken = false WHERE id = p; DELETE FROM booking WHERE seat = p; END;",
    );
    expect(&plan, "book", "taken_if_booked", No, "iff-two-way");
    meet(&plan, "book", "give_back", "seat");
}

#[test]
fn a_delete_of_what_was_read_is_ordered_with_changes_to_it() {
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE PROCEDURE add(p integer, k integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = n + k WHERE id = p; END;
         CREATE PROCEDURE take_empty(p integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM t WHERE id = p AND n = 0; END;",
    );
    expect(&plan, "take_empty", "isolation(t)", No, "read-check-write");
    meet(&plan, "add", "take_empty", "t");
    // No type reads the result of the addition: the amounts add up all the same.
    let n = plan
        .columns
        .iter()
        .find(|c| c.column.index() == 1)
        .expect("it is written");
    assert_eq!(n.policy, MergePolicy::Counter);
}

#[test]
fn sums_that_are_rounded_or_depend_on_their_order_are_not_recognised() {
    for (column, total) in [
        ("n double precision", "total double precision"),
        ("n numeric", "total integer"),
    ] {
        let cast = if total.contains("integer") {
            "::integer"
        } else {
            ""
        };
        let plan = explored(&format!(
            "CREATE TABLE grp (id integer PRIMARY KEY, {total} NOT NULL);
             CREATE TABLE item (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
                                g integer NOT NULL REFERENCES grp (id), {column} NOT NULL);
             CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT * FROM grp WHERE total <>
                 (SELECT coalesce(sum(n), 0){cast} FROM item WHERE item.g = grp.id)));
             CREATE PROCEDURE add_item(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
                 INSERT INTO item (g, n) VALUES (p, x);
                 UPDATE grp SET total = total + x WHERE id = p; END;"
        ));
        expect(&plan, "add_item", "totals", Unknown, "unrecognised");
    }
}

/// Two halves of checked references need not be a valid reference.
#[test]
fn halves_of_references_are_not_merged() {
    let references = "CREATE TABLE p (a integer, b integer, PRIMARY KEY (a, b));
         CREATE TABLE k (id integer PRIMARY KEY, a integer, b integer, n integer,
                         FOREIGN KEY (a, b) REFERENCES p (a, b));
         CREATE PROCEDURE point(i integer, x integer, y integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE k SET a = x, b = y WHERE id = i; END;
         CREATE PROCEDURE other(i integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE k SET n = x WHERE id = i; END;";
    let plan = explored(references);
    expect(&plan, "point", "k_a_b_fkey", Yes, "fk-insert");
    let halves = format!(
        "{references} CREATE PROCEDURE half(i integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE k SET b = x WHERE id = i; END;"
    );
    let plan = explored(&halves);
    for name in ["point", "half"] {
        expect(&plan, name, "k_a_b_fkey", No, "row-mixed");
    }
    meet(&plan, "point", "half", "k");
    is_not(&plan, "other", "k_a_b_fkey", No);
}

/// The row that an upsert meets has the key that was to be inserted: other rows are not ordered with it.
#[test]
fn upserts_are_ordered_by_their_keys() {
    let hits = "CREATE TABLE c (k integer PRIMARY KEY, l integer NOT NULL UNIQ, n integer NOT NULL CHECK (n <= 3));
         CREATE PROCEDURE hit(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO c (k, l, n) VALUES (p, x, 1) ON CONFLICT (k) DO UPDATE SET n = c.n + 1; END;
         CREATE PROCEDURE down(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE c SET n = n - 1 WHERE k = p; END;";
    let plan = explored(&hits.replace("UNIQ", ""));
    let hit = entry(&plan, "hit");
    assert_eq!(hit.class, CoordinationClass::Local);
    assert!(
        hit.guards
            .iter()
            .all(|guard| guard.key.iter().map(|key| key.name.as_str()).eq(["k"])),
        "{hit:#?}"
    );
    // An upsert that finds its row by another key is ordered with all of them.
    let put = "CREATE PROCEDURE put(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO c (k, l, n) VALUES (p, x, 1) ON CONFLICT (l) DO UPDATE SET n = 1; END;";
    let plan = explored(&format!("{} {put}", hits.replace("UNIQ", "UNIQUE")));
    for name in ["hit", "put"] {
        is_not(&plan, name, "isolation(c)", Yes);
    }
    let whole = |name| {
        let mut guards = entry(&plan, name).guards.iter();
        guards.any(|guard| guard.item == "c" && guard.key.is_empty())
    };
    assert!(whole("hit") && whole("put"), "{plan:#?}");
}

/// A sum with the default 3 for no rows falls when the first row is inserted.
#[test]
fn a_sum_of_no_rows_that_is_not_zero() {
    let plan = explored(
        "CREATE TABLE item (id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, g integer, a integer CHECK (a >= 0));
CREATE ASSERTION enough CHECK ((SELECT coalesce(sum(d.a), 3) FROM item AS d) >= 2);
CREATE PROCEDURE put(p integer) LANGUAGE SQL BEGIN ATOMIC INSERT INTO item (g, a) VALUES (p, 1); END;
CREATE PROCEDURE clear(p integer) LANGUAGE SQL BEGIN ATOMIC DELETE FROM item WHERE g = p; END;",
    );
    is_not(&plan, "put", "enough", Yes);
    is_not(&plan, "clear", "enough", Yes);
}

/// Deleting one of several rows does not change the condition; two deletions of the last two rows together do.
#[test]
fn one_of_several_rows_is_deleted() {
    let tables = "CREATE TABLE item (id integer PRIMARY KEY, g integer, c integer);
CREATE TABLE part (id integer PRIMARY KEY, i integer NOT NULL REFERENCES item (id));
CREATE ASSERTION equal CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE (u.c IS NULL) <>
    EXISTS (SELECT * FROM part AS d WHERE d.i = u.id)));";
    let one = explored(&format!(
        "{tables}
CREATE PROCEDURE take(p0 integer, p1 integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE item SET c = 1 WHERE g = p0; DELETE FROM part WHERE id = p1; END;"
    ));
    is_not(&one, "take", "equal", Yes);
    // Deleting all of them is ordered with their group.
    let all = explored(&format!(
        "{tables}
CREATE PROCEDURE take(p0 integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE item SET c = 1 WHERE id = p0; DELETE FROM part WHERE i = p0; END;"
    ));
    expect(&all, "take", "equal", Yes, "iff-one-way");
}

/// Amounts added on two sides may make a row require what neither side has checked; so may two columns, or a
/// deletion of the required row.
#[test]
fn a_requirement_that_only_merging_creates() {
    let tables =
        "CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL);
CREATE TABLE part (id integer PRIMARY KEY, i integer UNIQUE, n integer NOT NULL);";
    let added = explored(&format!(
        "{tables}
CREATE ASSERTION has CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE u.a > 0
    AND NOT EXISTS (SELECT * FROM part AS d WHERE d.i = u.id)));
CREATE PROCEDURE add(p0 integer, p1 integer) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET a = a + p1 WHERE id = p0; END;
CREATE PROCEDURE look(p0 integer) LANGUAGE SQL BEGIN ATOMIC SELECT n FROM part WHERE id = p0; END;"
    ));
    is_not(&added, "add", "has", Yes);
    let two = explored(&format!(
        "{tables}
CREATE ASSERTION has CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE u.a > 0 AND u.b > 0
    AND NOT EXISTS (SELECT * FROM part AS d WHERE d.i = u.id)));
CREATE PROCEDURE set_a(p0 integer) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET a = 1 WHERE id = p0; END;
CREATE PROCEDURE set_b(p0 integer) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET b = 1 WHERE id = p0; END;"
    ));
    is_not(&two, "set_a", "has", Yes);
    is_not(&two, "set_b", "has", Yes);
    let taken = explored(&format!(
        "{tables}
CREATE ASSERTION has CHECK (NOT EXISTS (SELECT * FROM item AS u
    WHERE NOT EXISTS (SELECT * FROM part AS d WHERE d.i = u.id AND d.n > 0)));
CREATE PROCEDURE take(p0 integer) LANGUAGE SQL BEGIN ATOMIC UPDATE part SET n = n - 1 WHERE i = p0; END;"
    ));
    is_not(&taken, "take", "has", Yes);
    // An assignment has checked it.
    let assigned = explored(&format!(
        "{tables}
CREATE ASSERTION has CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE u.a > 0
    AND NOT EXISTS (SELECT * FROM part AS d WHERE d.i = u.id)));
CREATE PROCEDURE set_a(p0 integer) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET a = 1 WHERE id = p0; END;"
    ));
    expect(&assigned, "set_a", "has", Yes, "fk-insert");
}

/// The result of an UPDATE of a counter is decided at commit: it is not the amount that was checked.
#[test]
fn an_amount_that_commit_decides() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY, b integer DEFAULT 0);
CREATE TABLE item (id integer PRIMARY KEY, g integer REFERENCES grp (id), a integer NOT NULL);
CREATE ASSERTION totals CHECK (NOT EXISTS (SELECT * FROM grp AS u WHERE u.b <>
    (SELECT coalesce(sum(d.a), 0) FROM item AS d WHERE d.g = u.id)));
CREATE PROCEDURE more(p0 integer, p1 integer) LANGUAGE plpgsql AS $$
DECLARE v integer;
BEGIN
    UPDATE grp SET b = b + 1 WHERE id = p0 RETURNING b - 1 INTO v;
    INSERT INTO item (id, g, a) VALUES (p1, p0, v);
END; $$;",
    );
    is_not(&plan, "more", "totals", Yes);
}

/// All types that are ordered for one invariant name the item alike, however much more a type knows.
#[test]
fn a_guard_key_has_the_columns_that_all_types_know() {
    let plan = explored(
        "CREATE TABLE t (a integer, b integer, n integer, PRIMARY KEY (a, b));
         CREATE PROCEDURE one(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO t (a, b, n) VALUES (p, q, 0); END;
         CREATE PROCEDURE many(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET a = p WHERE n = 0; END;",
    );
    meet(&plan, "one", "many", "t");
    for name in ["one", "many"] {
        let guards = &entry(&plan, name).guards;
        let guard = guards.iter().find(|guard| guard.item == "t");
        let key = guard.into_iter().flat_map(|guard| &guard.key);
        let key: Vec<&str> = key.map(|key| key.name.as_str()).collect();
        assert!(key.is_empty(), "{name}: {key:?}");
    }
}

/// A row that is deleted and inserted again under its key receives writes of transactions that have not seen that
/// (seed 7035495).
#[test]
fn a_reinserted_row_differs_from_the_deleted_one() {
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer, c integer, CHECK (c IS NULL OR a > 0));
         CREATE PROCEDURE set_c(p integer) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET c = 1 WHERE id = p; END;
         CREATE PROCEDURE renew(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM t WHERE id = p;
             INSERT INTO t (id, a) VALUES (q, 0) ON CONFLICT DO NOTHING; END;",
    );
    for name in ["set_c", "renew"] {
        is_not(&plan, name, "t_check", Yes);
    }
    meet(&plan, "set_c", "renew", "t");
    // No type inserts rows again.
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer, c integer, CHECK (c IS NULL OR a > 0));
         CREATE PROCEDURE set_c(p integer) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET c = 1 WHERE id = p; END;
         CREATE PROCEDURE drop_one(p integer) LANGUAGE SQL BEGIN ATOMIC DELETE FROM t WHERE id = p; END;",
    );
    expect(&plan, "set_c", "t_check", Yes, "row-together");
    // The source of a computed column may change.
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, n integer NOT NULL);
         CREATE PROCEDURE take(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET n = nullif(a, 3) WHERE id = p; END;
         CREATE PROCEDURE renew(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM t WHERE id = p;
             INSERT INTO t (id, a, n) VALUES (q, 3, 0) ON CONFLICT DO NOTHING; END;",
    );
    is_not(&plan, "take", "t_not_null", Yes);
    // A key of several columns changes, though no type changes one of them.
    let plan = explored(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, UNIQUE (a, b));
         CREATE PROCEDURE set_b(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE t SET b = 1 WHERE id = p AND a = x; END;
         CREATE PROCEDURE renew(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             DELETE FROM t WHERE id = p;
             INSERT INTO t (id, a, b) VALUES (p, x, 0) ON CONFLICT DO NOTHING; END;
         CREATE PROCEDURE put(p integer, x integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO t (id, a, b) VALUES (p, x, 1) ON CONFLICT DO NOTHING; END;",
    );
    is_not(&plan, "set_b", "t_a_b_key", Yes);
}

/// A column that no type changes identifies rows, and stays as it was returned, only if the row is not inserted
/// again.
#[test]
fn only_its_key_identifies_a_reinserted_row() {
    const TAKE: &str =
        "CREATE PROCEDURE take(x integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
        SELECT n INTO v FROM t WHERE c = x; UPDATE t SET n = v - 1 WHERE c = x; END $$;";
    const TELL: &str = "CREATE PROCEDURE tell(p integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
        UPDATE t SET n = n + 1 WHERE id = p RETURNING c INTO v; DELETE FROM log WHERE c = v; END $$;";
    let planned = |procedure: &str, again: &str| {
        explored(&format!(
            "CREATE TABLE t (id integer PRIMARY KEY, c integer NOT NULL, n integer NOT NULL);
             CREATE TABLE log (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), c integer);
             {procedure}
             CREATE PROCEDURE renew(p integer, q integer, x integer) LANGUAGE SQL BEGIN ATOMIC
                 DELETE FROM t WHERE id = p; {again} END;"
        ))
    };
    let again = "INSERT INTO t (id, c, n) VALUES (q, x, 0) ON CONFLICT DO NOTHING;";
    let by_c = |again: &str| {
        let plan = planned(TAKE, again);
        let mut guards = entry(&plan, "take").guards.iter();
        guards.any(|guard| guard.key.iter().any(|key| key.name == "c"))
    };
    assert_eq!((by_c(""), by_c(again)), (true, false));
    let deferred = |again: &str| entry(&planned(TELL, again), "tell").deferred.len();
    assert_eq!((deferred(""), deferred(again)), (1, 0));
}

/// Changing a key moves the row as it is here: concurrent changes to it are lost (seed 7002602).
#[test]
fn changing_a_key_writes_all_columns() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY, n integer NOT NULL, b integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, b integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT * FROM grp AS u
             WHERE u.n <> (SELECT count(*) FROM item AS d WHERE d.b = u.b)));
         CREATE PROCEDURE step(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO item (id, b) VALUES (q, 0); UPDATE grp SET b = b + 1 WHERE id = p; END;
         CREATE PROCEDURE rename(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE grp SET id = q WHERE id = p; END;",
    );
    is_not(&plan, "rename", "counted", Yes);
    // It changes no value of the column.
    let b = plan
        .columns
        .iter()
        .find(|c| c.table.0 == 0 && c.column.0 == 2);
    assert_eq!(b.map(|c| c.policy), Some(MergePolicy::Counter));
    meet(&plan, "step", "rename", "grp");
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY);
         CREATE TABLE item (id integer PRIMARY KEY, g integer REFERENCES grp (id));
         CREATE PROCEDURE leave(g_old integer, g_new integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET g = NULL WHERE g = g_old; DELETE FROM grp WHERE id = g_old; END;
         CREATE PROCEDURE rename(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET id = q WHERE id = p; END;",
    );
    is_not(&plan, "rename", "item_g_fkey", Yes);
    let plan = explored(
        "CREATE TABLE doctor (id integer PRIMARY KEY, on_call boolean NOT NULL);
         CREATE ASSERTION staffed CHECK (EXISTS (SELECT * FROM doctor WHERE on_call));
         CREATE PROCEDURE swap(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE doctor SET on_call = true WHERE id = p; UPDATE doctor SET on_call = false WHERE id = q AND id <> p; END;
         CREATE PROCEDURE rename(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE doctor SET id = q WHERE id = p; END;",
    );
    is_not(&plan, "rename", "staffed", Yes);
}

#[test]
fn cascaded_key_changes_write_all_columns() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY);
         CREATE TABLE line (g integer REFERENCES grp (id) ON UPDATE CASCADE, n integer, qty integer NOT NULL,
                            k integer NOT NULL, PRIMARY KEY (g, n));
         CREATE TABLE item (id integer PRIMARY KEY, k integer NOT NULL);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT * FROM line AS u
             WHERE u.qty <> (SELECT count(*) FROM item AS d WHERE d.k = u.k)));
         CREATE PROCEDURE step(p integer, q integer, i integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO item (id, k) VALUES (i, 0); UPDATE line SET k = k + 1 WHERE g = p AND n = q; END;
         CREATE PROCEDURE rename(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE grp SET id = q WHERE id = p; END;",
    );
    is_not(&plan, "rename", "counted", Yes);
    meet(&plan, "step", "rename", "line");
}

/// The part of a key that stays refers to the parent from another row (seed 1266 of keys in keys).
#[test]
fn an_unchanged_part_of_a_changed_key_still_refers_to_the_parent() {
    let plan = explored(
        "CREATE TABLE grp (id integer PRIMARY KEY);
         CREATE TABLE line (g integer REFERENCES grp (id) ON DELETE CASCADE, n integer, PRIMARY KEY (g, n));
         CREATE PROCEDURE renumber(p integer, q integer, r integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE line SET n = q WHERE g = p AND n = r; END;
         CREATE PROCEDURE close(p integer) LANGUAGE SQL BEGIN ATOMIC DELETE FROM grp WHERE id = p; END;",
    );
    is_not(&plan, "renumber", "line_g_fkey", Yes);
    meet(&plan, "renumber", "close", "grp");
    let mut guards = entry(&plan, "renumber").guards.iter();
    assert!(guards.any(|guard| guard.item == "grp" && guard.key.iter().any(|key| key.from == "p")));
}

/// The sum of no rows is NULL, which satisfies any bound: deleting the last rows and inserting the first must be
/// ordered (seeds 8043854, 9044553, 9076611).
#[test]
fn a_sum_of_no_rows_satisfies_any_bound() {
    let sql = "CREATE TABLE item (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a integer NOT NULL);
         CREATE ASSERTION enough CHECK ((SELECT SUM FROM item AS d) >= 2);
         CREATE PROCEDURE put() LANGUAGE SQL BEGIN ATOMIC INSERT INTO item (a) VALUES (1); END;
         CREATE PROCEDURE take(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM item WHERE id = p; END;";
    let plan = explored(&sql.replace("SUM", "sum(d.a)"));
    for name in ["put", "take"] {
        is_not(&plan, name, "enough", Yes);
    }
    // If it is 0, the last ones cannot be deleted.
    let plan = explored(&sql.replace("SUM", "coalesce(sum(d.a), 0)"));
    expect(&plan, "put", "enough", Yes, "gt-increment");
    // Nor if no type deletes any.
    let plan = explored(
        sql.replace("SUM", "sum(d.a)")
            .split("CREATE PROCEDURE take")
            .next()
            .unwrap_or_default(),
    );
    expect(&plan, "put", "enough", Yes, "gt-increment");
}

/// An added amount may be NULL, and the number then leaves the sum (seed 8047457).
#[test]
fn adding_a_possible_null_removes_a_number_from_the_sum() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, a integer NULLABLE);
         CREATE ASSERTION covered CHECK ((SELECT coalesce(sum(u.a), 0) FROM grp AS u)
             <= (SELECT coalesce(sum(d.a), 0) FROM item AS d));
         CREATE PROCEDURE raise_by(p integer, x integer) LANGUAGE plpgsql AS $$ BEGIN
             IF x < 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE item SET a = a + x WHERE id = p; END $$;
         CREATE PROCEDURE raise_by_one(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET a = a + 1 WHERE id = p; END;";
    let plan = explored(&sql.replace("NULLABLE", ""));
    is_not(&plan, "raise_by", "covered", Yes);
    expect(&plan, "raise_by_one", "covered", Yes, "lt-decrement");
    let plan = explored(&sql.replace("NULLABLE", "NOT NULL"));
    expect(&plan, "raise_by", "covered", Yes, "lt-decrement");
}

/// Joined rows that do not refer to each other may come from both replicas (seeds 8097705, 9091962).
#[test]
fn joined_rows_may_come_from_both_replicas() {
    let sql = "CREATE TABLE grp (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, g integer NOT NULL);
         CREATE TABLE part (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), i integer NOT NULL REF);
         CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT * FROM grp AS u WHERE u.n <>
             (SELECT count(*) FROM item AS i JOIN part AS p ON p.i = i.id WHERE i.g = u.id)));
         CREATE PROCEDURE add_item(g integer, i integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO item (id, g) VALUES (i, g); UPDATE grp SET n = n + 1 WHERE id = g; END;
         CREATE PROCEDURE add_part(i integer) LANGUAGE SQL BEGIN ATOMIC INSERT INTO part (i) VALUES (i); END;";
    let plan = explored(&sql.replace("REF", ""));
    for name in ["add_item", "add_part"] {
        is_not(&plan, name, "counted", Yes);
    }
}

/// Rows without a group form a group for GROUP BY (seed 31748 of keys in keys).
#[test]
fn rows_without_a_group_are_a_group() {
    let plan = explored(
        "CREATE TABLE line (g integer, n integer PRIMARY KEY);
         CREATE ASSERTION few CHECK (NOT EXISTS (SELECT g FROM line GROUP BY g HAVING count(*) > 2));
         CREATE PROCEDURE put(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO line (g, n) VALUES (p, q); END;",
    );
    is_not(&plan, "put", "few", Yes);
}

/// What an owner decides at commit differs from what was checked, unless the type that increments is ordered with
/// the type that checks (seed 11080002).
#[test]
fn incrementing_a_checked_number_is_ordered_with_the_check() {
    let sql = "CREATE TABLE counter (id integer PRIMARY KEY, b integer NOT NULL);
         CREATE TABLE item (id integer PRIMARY KEY, a integer NOT NULL);
         CREATE TABLE part (id integer PRIMARY KEY, i integer NOT NULL REFERENCES item (id));
         ASSERTION
         CREATE PROCEDURE count_up(p integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE counter SET b = b + 1 WHERE id = p; END;
         CREATE PROCEDURE put(p integer, q integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
             UPDATE counter SET b = b + 1 WHERE id = p RETURNING b - 1 INTO v;
             INSERT INTO item (id, a) VALUES (q, v); END $$;";
    for assertion in [
        "CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM item AS u WHERE u.a <>
             (SELECT count(*) FROM part AS d WHERE d.i = u.id)));",
        "CREATE ASSERTION it CHECK ((SELECT coalesce(sum(a), 0) FROM item) <= 2);",
    ] {
        let plan = explored(&sql.replace("ASSERTION", assertion));
        for name in ["count_up", "put"] {
            is_not(&plan, name, "it", Yes);
        }
        meet(&plan, "count_up", "put", "counter");
    }
}

/// A number that becomes NULL leaves a sum as a deleted row does (seed 13059906).
#[test]
fn a_sum_of_numbers_that_become_null_satisfies_any_bound() {
    let sql =
        "CREATE TABLE item (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a integer NULLABLE);
         CREATE ASSERTION enough CHECK ((SELECT sum(d.a) FROM item AS d) >= 2);
         CREATE PROCEDURE put() LANGUAGE SQL BEGIN ATOMIC INSERT INTO item (a) VALUES (1); END;
         CREATE PROCEDURE wipe(p uuid) LANGUAGE SQL BEGIN ATOMIC
             UPDATE item SET a = nullif(a + 1, 3) WHERE id = p; END;";
    let plan = explored(&sql.replace("NULLABLE", ""));
    for name in ["put", "wipe"] {
        is_not(&plan, name, "enough", Yes);
    }
    let plan = explored(&sql.replace("NULLABLE", "NOT NULL"));
    expect(&plan, "put", "enough", Yes, "gt-increment");
}

/// A change of a column from which another type computes a requirement makes the row require it, too (seed 446056
/// of keys in keys).
#[test]
fn changing_the_source_of_a_requirement_is_ordered_with_computing_it() {
    let plan = explored(
        "CREATE TABLE line (n integer PRIMARY KEY, a integer NOT NULL, b integer);
         CREATE TABLE item (id integer PRIMARY KEY, k integer NOT NULL);
         CREATE ASSERTION it CHECK (NOT EXISTS (SELECT * FROM line AS u
             WHERE u.b = 1 AND NOT EXISTS (SELECT * FROM item AS d WHERE d.k = u.n)));
         CREATE PROCEDURE lower(p integer, r integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE line SET a = a - 1, b = r WHERE n = p; END;
         CREATE PROCEDURE take(p integer, r integer) LANGUAGE SQL BEGIN ATOMIC
             UPDATE line SET b = nullif(a, r) WHERE n = p; END;",
    );
    for name in ["lower", "take"] {
        is_not(&plan, name, "it", Yes);
    }
}

/// A row that is inserted again has another value than was checked (seed 405 of checks of a bound).
#[test]
fn inserting_a_row_again_is_ordered_with_a_check_of_its_values() {
    let sql = "CREATE TABLE account (id integer KEY, n integer NOT NULL);
         CREATE PROCEDURE take(p integer, r integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN
             SELECT n INTO v FROM account WHERE id = p;
             IF v <> r THEN RAISE EXCEPTION 'no'; END IF;
             UPDATE account SET n = n - r WHERE id = p; END $$;
         CREATE PROCEDURE put(p integer, r integer) LANGUAGE SQL BEGIN ATOMIC
             INSERT INTO account (COLUMNS) VALUES (PLACES); END;
         CREATE PROCEDURE drop_it(p integer) LANGUAGE SQL BEGIN ATOMIC DELETE FROM account WHERE id = p; END;";
    let chosen = sql
        .replace("KEY", "PRIMARY KEY")
        .replace("COLUMNS", "id, n")
        .replace("PLACES", "p, r");
    let plan = explored(&chosen);
    expect(&plan, "put", "isolation(account)", No, "read-check-write");
    meet(&plan, "put", "take", "account");
    let new = sql
        .replace("KEY", "GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
        .replace("COLUMNS", "n")
        .replace("PLACES", "r");
    expect(
        &explored(&new),
        "put",
        "isolation(account)",
        Yes,
        "blind-write",
    );
    let kept = chosen.replace("DELETE FROM account WHERE id = p", "SELECT p");
    expect(
        &explored(&kept),
        "put",
        "isolation(account)",
        Yes,
        "blind-write",
    );
}
