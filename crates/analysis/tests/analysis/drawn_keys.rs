//! Tables whose keys are drawn from a sequence, placed by the column that guards name.

use anabranch_analysis::plan::CoordinationClass::{self, Free, Global, Local};
use anabranch_analysis::{Guarantee, Options, Plan, Topology, analyze, analyze_with};
use anabranch_sql::{Application, SourceFile};
use anabranch_types::{ColumnIndex, Placement};

const TABLES: &str = "
    CREATE TABLE boat (id integer PRIMARY KEY, name text NOT NULL);
    CREATE TABLE rental (id bigserial PRIMARY KEY, boat integer NOT NULL REFERENCES boat (id),
        low integer NOT NULL, high integer NOT NULL, note integer, CHECK (low < high));
    CREATE TABLE payment (id serial PRIMARY KEY, rental bigint REFERENCES rental (id));";

const RENT: &str = "
    CREATE PROCEDURE rent(b integer, l integer, h integer) LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT 1 FROM rental WHERE boat = b AND low < h AND high > l) THEN
            RAISE EXCEPTION 'taken';
        END IF;
        INSERT INTO rental (boat, low, high) VALUES (b, l, h);
    END; $$;";

const CANCEL: &str = "CREATE PROCEDURE cancel(p bigint) LANGUAGE SQL BEGIN ATOMIC DELETE FROM rental WHERE id = p; END;";

fn compiled(sql: &str) -> Application {
    let files = vec![SourceFile::new("application.sql", sql)];
    anabranch_sql::load(files)
        .and_then(Application::compile)
        .unwrap_or_else(|problems| panic!("{sql}\n{problems:#?}"))
}

fn plan_of(sql: &str, guarantee: Guarantee) -> Plan {
    let application = compiled(sql);
    let (catalog, summaries) = (application.catalog(), application.summaries());
    analyze(catalog, summaries, Topology::Partitioned, guarantee)
}

fn plan(sql: &str) -> Plan {
    plan_of(sql, Guarantee::Invariants)
}

fn class(plan: &Plan, name: &str) -> CoordinationClass {
    plan.entry(name).expect("it is declared").class
}

fn by(column: u16) -> Placement {
    Placement::Columns(vec![ColumnIndex(column)])
}

const RENTAL: usize = 1;

#[test]
fn rentals_are_placed_by_the_boat_that_their_guard_names() {
    let plan = plan(&format!("{TABLES}{RENT}"));
    assert_eq!(plan.placements[RENTAL], by(1));
    assert_eq!(class(&plan, "rent"), Local);
    assert_eq!(plan.entry("rent").expect("it is declared").routing, [0]);
    let why = &plan.placement_reasons[RENTAL];
    assert!(why.contains("by id alone are on any partition"), "{why}");
}

#[test]
fn a_cancellation_by_key_is_free_beside_them() {
    let plan = plan(&format!("{TABLES}{RENT}{CANCEL}"));
    assert_eq!(plan.placements[RENTAL], by(1));
    assert_eq!(
        (class(&plan, "rent"), class(&plan, "cancel")),
        (Local, Free)
    );
}

/// An UPDATE of a row that is found by its key is not deferred to an owner that is not known.
#[test]
fn no_update_by_key_is_deferred() {
    let note = "CREATE PROCEDURE annotate(p bigint, n integer) LANGUAGE SQL BEGIN ATOMIC
        UPDATE rental SET note = n WHERE id = p; END;";
    let with_rent = plan(&format!("{TABLES}{RENT}{note}"));
    assert_eq!(with_rent.placements[RENTAL], by(1));
    let entry = |plan: &Plan| plan.entry("annotate").expect("it is declared").clone();
    assert_eq!(
        (entry(&with_rent).class, entry(&with_rent).deferred.len()),
        (Free, 0)
    );
    // Where the key places the rows, it is.
    let insert = "CREATE PROCEDURE put(b integer, l integer, h integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO rental (boat, low, high) VALUES (b, l, h); END;";
    let without = plan(&format!("{TABLES}{insert}{note}"));
    assert_eq!(
        (
            without.placements[RENTAL].clone(),
            entry(&without).deferred.len()
        ),
        (by(0), 1)
    );
}

/// Each of these takes away what the placement relies on, or what it is for.
#[test]
fn keys_place_what_cannot_be_placed_otherwise() {
    let procedure = |body: &str| {
        format!(
            "CREATE PROCEDURE other(p bigint, b integer, n integer) LANGUAGE plpgsql AS $$ DECLARE v bigint;
             BEGIN {body} END; $$;"
        )
    };
    for body in [
        // Keys that a client gives, or that another sequence does.
        "INSERT INTO rental (id, boat, low, high) VALUES (p, b, 1, 2);",
        "INSERT INTO rental (id, boat, low, high) VALUES (nextval('other_numbers'), b, 1, 2);",
        "v := nextval('rental_id_seq'); INSERT INTO rental (id, boat, low, high) VALUES (v, b, 1, 2);",
        "INSERT INTO rental (id, boat, low, high) SELECT id + 1, boat, low + 9, high + 9 FROM rental WHERE boat = b;",
        "INSERT INTO rental (id, boat, low, high) VALUES (p, b, 1, 2) ON CONFLICT (id) DO UPDATE SET note = 1;",
        // Keys and places that change.
        "UPDATE rental SET id = p WHERE id = n;",
        "UPDATE rental SET boat = b WHERE id = p;",
        // The owner of a row gives out numbers: it has to be known.
        "UPDATE rental SET note = note + 1 WHERE id = p RETURNING note INTO v; INSERT INTO payment (id, rental) VALUES (v, p);",
    ] {
        let sql = format!(
            "{TABLES}CREATE SEQUENCE other_numbers;{RENT}{}",
            procedure(body)
        );
        assert_ne!(plan(&sql).placements[RENTAL], by(1), "{body}");
    }
    for (was, is) in [
        // No partition sees all rows of another unique key; keys that are not drawn.
        ("note integer,", "note integer UNIQUE,"),
        (
            "id bigserial PRIMARY KEY",
            "id bigint DEFAULT 1 PRIMARY KEY",
        ),
        (
            "boat integer NOT NULL REFERENCES boat (id)",
            "boat double precision NOT NULL",
        ),
        (
            "REFERENCES boat (id)",
            "REFERENCES boat (id) ON UPDATE CASCADE",
        ),
    ] {
        let rename = "CREATE PROCEDURE renumber(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
            UPDATE boat SET id = q WHERE id = p; END;";
        let sql = format!("{}{RENT}{rename}", TABLES.replace(was, is));
        assert_ne!(plan(&sql).placements[RENTAL], by(1), "{is}");
    }
    let serializable = plan_of(&format!("{TABLES}{RENT}"), Guarantee::Serializable);
    assert_eq!(serializable.placements[RENTAL], by(0));
}

/// Other ways to declare and insert a drawn key.
#[test]
fn other_forms_of_drawn_keys() {
    for (was, is) in [
        ("id bigserial", "id integer GENERATED ALWAYS AS IDENTITY"),
        (
            "id bigserial",
            "id smallint GENERATED BY DEFAULT AS IDENTITY",
        ),
    ] {
        let plan = plan(&format!("{}{RENT}{CANCEL}", TABLES.replace(was, is)));
        assert_eq!(plan.placements[RENTAL], by(1), "{is}");
    }
    for (columns, values) in [
        ("(id, boat, low, high)", "VALUES (DEFAULT, b, l, h)"),
        ("(boat, low, high)", "SELECT b, l, h"),
    ] {
        let rent = RENT.replace(
            "(boat, low, high) VALUES (b, l, h)",
            &format!("{columns} {values}"),
        );
        assert_ne!(rent, RENT.replace("(b, l, h)", ""));
        let plan = plan(&format!("{TABLES}{rent}"));
        assert_eq!(plan.placements[RENTAL], by(1), "{values}");
    }
}

/// The placement is chosen where fewer types are then global, and not otherwise.
#[test]
fn the_key_places_rows_where_it_makes_more_types_local() {
    let pay = "CREATE PROCEDURE pay(r bigint) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO payment (rental) VALUES (r); END;";
    // A payment refers to a row that may be cancelled: both coordinate on the rental, by its key.
    let plan = plan(&format!("{TABLES}{RENT}{CANCEL}{pay}"));
    assert_eq!(plan.placements[RENTAL], by(0));
    assert_eq!(class(&plan, "rent"), Global);
    assert_eq!(
        (class(&plan, "cancel"), class(&plan, "pay")),
        (Local, Local)
    );
    // Where no rental is removed, a payment coordinates on nothing.
    let plan = self::plan(&format!("{TABLES}{RENT}{pay}"));
    assert_eq!(plan.placements[RENTAL], by(1));
    assert_eq!((class(&plan, "rent"), class(&plan, "pay")), (Local, Free));
    // Weights decide.
    let application = compiled(&format!("{TABLES}{RENT}{CANCEL}{pay}"));
    let options = Options {
        weights: [("rent".to_owned(), 100)].into(),
        ..Options::default()
    };
    let plan = analyze_with(application.catalog(), application.summaries(), &options);
    assert_eq!(
        (plan.placements[RENTAL].clone(), class(&plan, "rent")),
        (by(1), Local)
    );
}

/// Rows that live somewhere stay there as long as the types allow it.
#[test]
fn a_given_placement_stands_while_keys_are_drawn() {
    let given = |sql: &str, column: u16| {
        let application = compiled(sql);
        let mut placements = plan(sql).placements;
        placements[RENTAL] = by(column);
        let options = Options {
            placements: Some(placements),
            ..Options::default()
        };
        let plan = analyze_with(application.catalog(), application.summaries(), &options);
        plan.placements[RENTAL].clone()
    };
    let drawn = format!("{TABLES}{RENT}{CANCEL}");
    assert_eq!(given(&drawn, 1), by(1));
    assert_eq!(given(&drawn, 0), by(0));
    let put = "CREATE PROCEDURE put(p bigint, b integer) LANGUAGE SQL BEGIN ATOMIC
        INSERT INTO rental (id, boat, low, high) VALUES (p, b, 1, 2); END;";
    assert_ne!(given(&format!("{drawn}{put}"), 1), by(1));
}

/// What is saved has to be worth what others pay: they look for rows by the key at every partition.
#[test]
fn the_key_places_rows_that_most_types_look_for_by_it() {
    let others = |count: usize| -> String {
        let other = |number: usize| {
            format!(
                "CREATE PROCEDURE note{number}(p bigint, n integer) LANGUAGE SQL BEGIN ATOMIC
                     UPDATE rental SET note = n + {number} WHERE id = p; END;"
            )
        };
        (0..count).map(other).collect()
    };
    let few = plan(&format!("{TABLES}{RENT}{}", others(4)));
    assert_eq!(few.placements[RENTAL], by(1));
    let why = &few.placement_reasons[RENTAL];
    assert!(why.contains("4 types look at all of them"), "{why}");
    let many = plan(&format!("{TABLES}{RENT}{}", others(5)));
    assert_eq!(many.placements[RENTAL], by(0));
    assert_eq!(class(&many, "rent"), Global);
    // Types that name the boat, too, pay nothing; neither do inserts.
    let named = others(9).replace("WHERE id = p", "WHERE id = p AND boat = n");
    assert_eq!(
        plan(&format!("{TABLES}{RENT}{named}")).placements[RENTAL],
        by(1)
    );
    // A payment looks for its rental.
    let pays = |number: usize| {
        format!(
            "CREATE PROCEDURE pay{number}(r bigint) LANGUAGE SQL BEGIN ATOMIC
                 INSERT INTO payment (rental) VALUES (r + {number}); END;"
        )
    };
    let pays: String = (0..3).map(pays).collect();
    let both = plan(&format!("{TABLES}{RENT}{}{pays}", others(2)));
    assert_eq!(both.placements[RENTAL], by(0));
    // A type that stays global for another reason gains nothing.
    let check = "CREATE ASSERTION few CHECK ((SELECT count(*) FROM rental) < 1000);";
    let with_check = plan(&format!("{TABLES}{check}{RENT}"));
    assert_eq!(class(&with_check, "rent"), Global);
    assert_eq!(with_check.placements[RENTAL], by(0));
}

/// A column that may be null takes its values to other partitions than one that may not.
#[test]
fn a_guard_on_each_of_two_kinds_of_columns_is_not_local() {
    let with = |column: &str| {
        let tables = TABLES.replace("boat integer NOT NULL REFERENCES boat (id)", column);
        let more = "
            CREATE TABLE repair (boat integer, number integer, PRIMARY KEY (boat, number));
            CREATE PROCEDURE mend(b integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
                IF EXISTS (SELECT 1 FROM repair WHERE boat = b) THEN RAISE EXCEPTION 'at work'; END IF;
                INSERT INTO repair VALUES (b, n);
            END; $$;
            CREATE PROCEDURE block(b integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
                IF EXISTS (SELECT 1 FROM repair WHERE boat = b)
                    OR EXISTS (SELECT 1 FROM rental WHERE boat = b AND low < n AND high > n)
                THEN RAISE EXCEPTION 'taken'; END IF;
                INSERT INTO repair VALUES (b, n);
                INSERT INTO rental (boat, low, high) VALUES (b, n, n + 1);
            END; $$;";
        let plan = plan(&format!("{tables}{RENT}{more}"));
        let block = plan.entry("block").expect("it is declared");
        let guarded: Vec<usize> = block.guards.iter().map(|of| of.table.index()).collect();
        assert!(
            guarded.contains(&RENTAL) && guarded.contains(&3),
            "{column}: {guarded:?}"
        );
        assert_eq!(plan.placements[RENTAL], by(1), "{column}");
        assert_eq!(class(&plan, "rent"), Local, "{column}");
        block.class
    };
    for (column, expected) in [
        ("boat integer NOT NULL", Local),
        ("boat bigint NOT NULL", Local),
        ("boat integer", Global),
        ("boat bigint", Global),
    ] {
        assert_eq!(with(column), expected, "{column}");
    }
}

/// Periods of time, and the check as programs write it.
#[test]
fn rentals_of_periods_are_local_beside_cancellations() {
    let sql = "
        CREATE TABLE boat (id int PRIMARY KEY, name text NOT NULL);
        CREATE TABLE rental (id bigserial PRIMARY KEY, boat_id int NOT NULL REFERENCES boat(id),
            from_at timestamptz NOT NULL, to_at timestamptz NOT NULL, CHECK (from_at < to_at));
        CREATE PROCEDURE rent(boat int, f timestamptz, t timestamptz) LANGUAGE plpgsql AS $$ BEGIN
            PERFORM 1 FROM rental WHERE boat_id = boat AND from_at < t AND to_at > f LIMIT 1;
            IF FOUND THEN RAISE EXCEPTION 'taken'; END IF;
            INSERT INTO rental (boat_id, from_at, to_at) VALUES (boat, f, t);
        END; $$;";
    let alone = plan(sql);
    assert_eq!(class(&alone, "rent"), Local);
    let plan = plan(&format!("{sql}{CANCEL}"));
    assert_eq!(plan.placements[RENTAL], by(1));
    assert_eq!(
        (class(&plan, "rent"), class(&plan, "cancel")),
        (Local, Free)
    );
}
