//! Plans order no more than they must: without any one guard of one type, something breaks.
//!
//! Guards for which nothing is found to break are listed here with the reason, exactly, so that the list can only
//! shrink. It is empty; a new entry needs its reason.

use anabranch_analysis::explore::{Effort, Explorer, Purpose};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::{Application, SourceFile};

use crate::support;

/// Guards for which no case was found: the application, the type and the guard as in the plan; and why.
const NOT_SHOWN: &[(&str, &str, &str, Purpose)] = &[];

/// The seed of `anabranch replay --guards`.
const SEED: u64 = 1;

/// Small applications, each with guards of one kind.
const SMALL: &[(&str, &str)] = &[
    (
        "bound",
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0));
         CREATE PROCEDURE take(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = n - 1 WHERE id = p_id; END $$;
         CREATE PROCEDURE fill(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = n + 1 WHERE id = p_id; END $$;",
    ),
    (
        "sum",
        "CREATE TABLE t (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, CHECK (a + b <= 4));
         CREATE PROCEDURE fill_a(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = a + 1 WHERE id = p_id; END $$;
         CREATE PROCEDURE fill_b(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = b + 1 WHERE id = p_id; END $$;
         CREATE PROCEDURE drain_a(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = a - 1 WHERE id = p_id; END $$;",
    ),
    (
        "paid",
        "CREATE TABLE t (id integer PRIMARY KEY, status text NOT NULL, paid boolean NOT NULL, CHECK (status <> 'shipped' OR paid));
         CREATE PROCEDURE pay(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET paid = true WHERE id = p_id; END $$;
         CREATE PROCEDURE refund(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET paid = false WHERE id = p_id; END $$;
         CREATE PROCEDURE ship(p_id integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET status = 'shipped' WHERE id = p_id; END $$;",
    ),
    (
        "register",
        "CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL);
         CREATE PROCEDURE twice(p_id integer) LANGUAGE plpgsql AS $$ DECLARE v integer; BEGIN SELECT n INTO v FROM t WHERE id = p_id; UPDATE t SET n = v * 2 + 1 WHERE id = p_id; END $$;
         CREATE PROCEDURE put(p_id integer, p_n integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = p_n WHERE id = p_id; END $$;",
    ),
    (
        "chosen",
        "CREATE TABLE t (id integer PRIMARY KEY, name text NOT NULL);
         CREATE PROCEDURE put(p_id integer, p_name text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t (id, name) VALUES (p_id, p_name); END $$;",
    ),
    (
        "reference",
        "CREATE TABLE up (id integer PRIMARY KEY);
         CREATE TABLE down (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), up integer NOT NULL REFERENCES up (id));
         CREATE PROCEDURE add(p_up integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO down (up) VALUES (p_up); END $$;
         CREATE PROCEDURE drop_it(p_up integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM up WHERE id = p_up; END $$;",
    ),
];

/// The examples whose guards are removed.
const EXAMPLES: &[&str] = &[
    "auctionmark",
    "bank",
    "counter",
    "epinions",
    "payroll",
    "register",
    "replies",
    "rubis",
    "seats",
    "smallbank",
    "tatp",
    "tpcc",
    "tpcw",
    "twitter",
    "voter",
    "wikipedia",
    "ycsb",
];

fn applications() -> Vec<(&'static str, Application)> {
    let mut found = Vec::new();
    for (name, text) in SMALL {
        let file = SourceFile {
            name: format!("{name}.sql"),
            text: (*text).into(),
        };
        let catalog = anabranch_sql::load(vec![file]);
        let catalog = catalog.unwrap_or_else(|found| panic!("{name}: {found:?}"));
        found.push((*name, catalog));
    }
    for name in EXAMPLES {
        found.push((*name, support::Application::example(name).catalog));
    }
    let compile = |(name, catalog)| {
        let compiled = Application::compile(catalog);
        (
            name,
            compiled.unwrap_or_else(|found| panic!("{name}: {found:?}")),
        )
    };
    found.into_iter().map(compile).collect()
}

#[test]
fn every_guard_is_there_for_something() {
    let mut idle = Vec::new();
    let mut needed = 0;
    for (name, application) in applications() {
        let plan = analyze(
            application.catalog(),
            application.summaries(),
            Topology::Partitioned,
            Guarantee::Invariants,
        );
        let explorer = Explorer::new(&application, &plan);
        for (place, entry) in plan.entries.iter().enumerate() {
            for (number, guard) in entry.guards.iter().enumerate() {
                let why = explorer.purpose(place, number, SEED, Effort::FOR_GUARDS);
                if let Purpose::Keeps(shown) = &why {
                    // No guard is for what one replica breaks by itself.
                    let both = [0, 1].map(|of| shown.calls.iter().any(|c| c.replica == of));
                    assert_eq!(both, [true; 2], "{name}: {shown:#?}");
                    needed += 1;
                    continue;
                }
                let key: Vec<String> = guard
                    .key
                    .iter()
                    .map(|k| format!("{} = {}", k.name, k.from))
                    .collect();
                let guard = format!("{} ({})", guard.item, key.join(", "));
                println!(
                    "    ({name:?}, {:?}, {guard:?}, Purpose::{why:?}),",
                    entry.name
                );
                idle.push((name, entry.name.clone(), guard, why));
            }
        }
    }
    println!("{needed} guards are needed");
    let listed: Vec<(&str, String, String, Purpose)> = NOT_SHOWN
        .iter()
        .map(|(name, of, guard, why)| (*name, (*of).to_owned(), (*guard).to_owned(), why.clone()))
        .collect();
    assert_eq!(idle, listed);
    assert!(needed >= 50, "{needed}");
}

/// What a guard of a small application is for.
fn purpose(sql: &str, id: &str) -> Purpose {
    let files = vec![SourceFile::new("test.sql", sql)];
    let application = anabranch_sql::load(files.clone())
        .and_then(Application::compile)
        .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Topology::Partitioned,
        Guarantee::Invariants,
    );
    let entries = plan.entries.iter().enumerate();
    let places: Vec<(usize, usize, String)> = entries
        .flat_map(|(entry, of)| (0..of.guards.len()).map(move |guard| (entry, guard)))
        .map(|(entry, guard)| (entry, guard, plan.guard_id(entry, guard)))
        .collect();
    let Some((entry, guard, _)) = places.iter().find(|(.., known)| known == id) else {
        panic!("{id} is none of {places:?}");
    };
    Explorer::new(&application, &plan).purpose(*entry, *guard, SEED, Effort::FOR_GUARDS)
}

/// A key that not even the call's log determines may have any value: a guard with such a key may be ordered with
/// any.
#[test]
fn a_guard_whose_key_is_not_known_orders_all_calls() {
    let sql = "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a integer UNIQUE, b integer UNIQUE);
         CREATE PROCEDURE put(p integer, q integer) LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO t (a, b) VALUES (p, COMPUTED); END $$;";
    let computed = sql.replace("COMPUTED", "q * q - q");
    assert_eq!(purpose(&computed, "put/t:a"), Purpose::OrdersNothingAlone);
    let keeps = |purpose: Purpose| matches!(purpose, Purpose::Keeps(_));
    assert!(keeps(purpose(&computed, "put/t:b")));
    let told = sql.replace("COMPUTED", "q");
    assert!(keeps(purpose(&told, "put/t:a")));
}

/// A key that a call reads is what the log of its run says: two such keys may differ.
#[test]
fn a_key_that_a_call_reads_is_known_once_it_has_run() {
    let sql = "CREATE TABLE name (name text PRIMARY KEY, id integer NOT NULL UNIQUE);
         CREATE TABLE t (id integer PRIMARY KEY REFERENCES name (id), n integer NOT NULL);
         CREATE PROCEDURE exchange(p text, q text) LANGUAGE plpgsql AS $$
         DECLARE one integer; other integer; had integer; has integer;
         BEGIN
             SELECT id INTO STRICT one FROM name WHERE name = p;
             SELECT id INTO STRICT other FROM name WHERE name = q;
             SELECT n INTO STRICT had FROM t WHERE id = one;
             SELECT n INTO STRICT has FROM t WHERE id = other;
             UPDATE t SET n = has WHERE id = one;
             UPDATE t SET n = had WHERE id = other;
         END $$;";
    for id in ["exchange/t:id", "exchange/t:id#2"] {
        let Purpose::Keeps(shown) = purpose(sql, id) else {
            panic!("{id} is not shown");
        };
        assert_eq!(shown.invariant, "isolation(t)");
    }
}
