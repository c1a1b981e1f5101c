//! Takes the belt away from three databases with all rows on one of them, and installs it again with that one's rows on all.
//! The process that does so is ended before each of its statements; run again, it ends as if it had not been.
//!
//! An oracle, one database without the belt, runs every statement of the operations: the server on which rows are gathered has
//! to have the same rows.

use std::collections::BTreeMap;

use anabranch_dbms::postgres::catalog;
use anabranch_dbms::postgres::closed::{self, Change, Closed, Progress};
use anabranch_dbms::postgres::gather::{self, Gathered};
use anabranch_dbms::postgres::install::{self, Part};
use anabranch_dbms::postgres::install_all::{Member, Outcome, Source, install_all};
use anabranch_dbms::postgres::relocate::Plan;
use anabranch_dbms::postgres::ring::PostgresDatabase;
use anabranch_dbms::postgres::{Server, explain};
use postgres::Client;

use crate::shop::{
    Process, SERVERS, all_rows, connect, copied, drop_copies, ends_at, part, plan, rows, run,
    site_name, start,
};

/// The server on which rows are gathered.
const TARGET: usize = 2;

fn for_target() -> Closed {
    Closed {
        target: "site2".to_owned(),
        change: Change::Gather,
    }
}

/// Copies of the servers' databases.
fn copies(admin: &mut Client, number: usize) -> Vec<String> {
    let names: Vec<String> = (0..SERVERS).map(site_name).collect();
    copied(admin, &names, number)
}

/// What the command does: goes on from where an earlier run has ended.
fn gather_all(
    process: &mut Process,
    names: &[String],
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Option<Gathered>, String> {
    let mut sites = process.sites(names);
    let found = closed::progress(sites[TARGET].client).map_err(|error| explain(&error))?;
    if found == Progress::Gathered {
        gather::finish(&mut sites, TARGET, before)?;
        return Ok(None);
    }
    if found == Progress::Removed {
        return Ok(None);
    }
    closed::close(&mut sites, &for_target(), before)?;
    gather::gather(&mut sites, TARGET, plan, before).map(Some)
}

/// The target has what one server would have, no server has the belt, and the target is a database like any other.
fn assert_gathered(server: &Server, names: &[String], expected: &BTreeMap<&str, Vec<String>>) {
    let mut client = connect(server, &names[TARGET]);
    assert_eq!(&all_rows(&mut client), expected);
    run(
        &mut client,
        "UPDATE item SET stock = 0; SET test.may = 'yes'; INSERT INTO cart (n) SELECT 1 FROM generate_series(1, 150); \
         INSERT INTO line SELECT max(id), 3 FROM cart; INSERT INTO log (words) VALUES ('goes on')",
    );
    for name in names {
        let mut client = connect(server, name);
        let progress = closed::progress(&mut client);
        assert_eq!(progress.ok(), Some(Progress::Removed), "{name}");
        let row = client.query_one(
            "SELECT to_regnamespace('anabranch') IS NULL, (SELECT increment_by FROM pg_sequences WHERE sequencename = 'cart_id_seq'), \
             (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'anabranch%')",
            &[],
        );
        let row = row.expect("it answers");
        assert_eq!(
            (
                row.get::<_, bool>(0),
                row.get::<_, i64>(1),
                row.get::<_, i64>(2)
            ),
            (true, 1, 0),
            "{name}"
        );
    }
}

#[test]
fn all_rows_are_gathered_on_one_server_whatever_ends_before_which_statement() {
    let (server, expected) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    let mut names = copies(&mut admin, 0);
    let state = |names: &[String]| -> Vec<_> {
        let mut clients = names.iter().map(|name| connect(&server, name));
        let state = clients.by_ref().map(|mut client| {
            let belt = rows(&mut client, "anabranch.hold");
            (all_rows(&mut client), belt)
        });
        state.collect()
    };
    let first = state(&names);
    let (mut at, mut finished) = (0, 0);
    loop {
        let mut process = Process::new(&server, &names);
        let mut count = 0;
        let backends = process.backends.clone();
        let ended = gather_all(
            &mut process,
            &names,
            &plan,
            &mut ends_at(&mut admin, backends, at, &mut count),
        );
        drop(process);
        if count <= at {
            let gathered = ended.unwrap_or_else(|error| panic!("{error}"));
            let gathered = gathered.expect("nothing had been gathered before");
            // Both global operations of others, and the rows of each owner.
            assert_eq!(gathered.applied, 2);
            let counts = |table: usize| {
                let (_, rows) = &gathered.tables[table];
                rows.values().copied().collect::<Vec<u64>>()
            };
            assert_eq!(counts(0), [5, 4, 3]);
            assert_eq!(counts(3), [1, 1, 1]);
            assert_gathered(&server, &names, &expected);
            break;
        }
        assert!(ended.is_err(), "it has lost its connections at {at}");
        let progress = closed::progress(&mut connect(&server, &names[TARGET]));
        if progress.ok() == Some(Progress::Gathered) {
            // The target has committed: what is left is done by the next run.
            let mut process = Process::new(&server, &names);
            let again = gather_all(&mut process, &names, &plan, &mut |_| {});
            again.unwrap_or_else(|error| panic!("{error}, ended at {at}"));
            drop(process);
            assert_gathered(&server, &names, &expected);
            drop_copies(&mut admin, &names);
            finished += 1;
            names = copies(&mut admin, finished);
        } else {
            assert_eq!(state(&names), first, "ended at {at}");
        }
        at += 1;
    }
    assert!(
        at > 60 && finished > 5,
        "{at} statements, {finished} behind the COMMIT"
    );
}

#[test]
fn servers_that_contradict_each_other_are_told_and_nothing_changes() {
    let (server, _) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    for (number, (at, statements, words)) in [
        // Something has written past the belt.
        (
            0,
            "SET session_replication_role = replica; UPDATE item SET stock = 5 WHERE id = 3",
            "the rows of item on copy0x0 and copy0x1 differ",
        ),
        // Two servers have other rows of one key.
        (
            2,
            "INSERT INTO log VALUES (104, 'another')",
            "1 rows of log on copy1x0 have a key that copy1x2 has with other values",
        ),
        // A row that refers to none.
        (
            1,
            "SET session_replication_role = replica; SET anabranch.hop = 'local'; INSERT INTO line VALUES (205, 1)",
            "1 rows of public.line refer to no row of public.cart",
        ),
        // A removal of a server that has not come to its end.
        (
            0,
            "UPDATE anabranch.hold SET promised = 7",
            "copy3x0: a change of the ring's servers has not come to its end",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let names = copies(&mut admin, number);
        run(&mut connect(&server, &names[at]), statements);
        let before = all_rows(&mut connect(&server, &names[TARGET]));
        let mut process = Process::new(&server, &names);
        let gathered = gather_all(&mut process, &names, &plan, &mut |_| {});
        let error = gathered.expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
        let mut client = connect(&server, &names[TARGET]);
        assert_eq!(all_rows(&mut client), before);
        assert_eq!(
            closed::closed(&mut client).ok().flatten(),
            Some(for_target())
        );
        let mut sites = process.sites(&names);
        closed::reopen(&mut sites, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(closed::closed(&mut client).ok(), Some(None));
    }
}

#[test]
fn rows_of_a_removed_server_stay_as_they_were_installed() {
    let (server, expected) = start();
    let mut admin = connect(&server, "postgres");
    let names = copies(&mut admin, 0);
    let mut plan = plan(&mut connect(&server, "oracle"));
    plan.removed = vec![0];
    let mut process = Process::new(&server, &names);
    for client in &mut process.clients {
        // As its removal leaves the others, once they have received what it did.
        run(client, "UPDATE anabranch.hold SET members = '{1,2}'");
    }
    let mut sites = process.sites(&names);
    sites.remove(0);
    closed::close(&mut sites, &for_target(), &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let gathered = gather::gather(&mut sites, 1, &plan, &mut |_| {});
    let gathered = gathered.unwrap_or_else(|error| panic!("{error}"));
    // Carts 3, 4, 7 and 8 are there as they were at the beginning, and none that the removed server had made.
    assert_eq!(gathered.tables[0].1.get(&0), Some(&4));
    let mut client = connect(&server, &names[TARGET]);
    let cart = rows(&mut client, "(SELECT id, n FROM cart WHERE id % 4 % 3 = 0)");
    assert_eq!(cart, ["(3,0)", "(4,0)", "(7,0)", "(8,0)"]);
    // What it had done as global operations was in the token.
    assert_eq!(rows(&mut client, "item"), expected["item"]);
}

#[test]
fn a_middleware_that_is_connected_is_seen() {
    let (server, _) = start();
    let names: Vec<String> = (0..SERVERS).map(site_name).collect();
    let mut process = Process::new(&server, &names);
    let middleware = PostgresDatabase::new(connect(&server, &names[1]))
        .unwrap_or_else(|error| panic!("{error}"));
    let served = closed::served(&mut process.sites(&names)).map(|name| name.map(str::to_owned));
    assert_eq!(served, Ok(Some("site1".to_owned())));
    drop(middleware);
    let served = closed::served(&mut process.sites(&names)).map(|name| name.map(str::to_owned));
    assert_eq!(served, Ok(None));
}

/// Installs the belt with the rows of the target on all servers.
fn install_from(
    process: &mut Process,
    names: &[String],
    replaced: &[usize],
    before: &mut dyn FnMut(&str),
) -> Result<Outcome, String> {
    let parts: Vec<Part> = process
        .clients
        .iter_mut()
        .zip(0..)
        .map(|(client, place)| part(client, place))
        .collect();
    let tables = catalog::tables(&mut process.clients[TARGET]);
    let tables = tables.map_err(|error| explain(&error))?;
    let members = process.clients.iter_mut().zip(names).zip(&parts);
    let members = members.map(|((client, name), part)| Member { name, client, part });
    let source = Source {
        member: TARGET,
        tables: &tables,
        replaced,
    };
    install_all(members.collect(), Some(source), before)
}

#[test]
fn the_belt_is_installed_with_the_rows_of_one_server_whatever_ends_before_which_statement() {
    let (server, expected) = start();
    let mut admin = connect(&server, "postgres");
    // The servers of the copies are those after a gathering; another one is empty, and one has partitions.
    let names: Vec<String> = (0..SERVERS).map(site_name).collect();
    let gathered_plan = plan(&mut connect(&server, "oracle"));
    let mut process = Process::new(&server, &names);
    let gathered = gather_all(&mut process, &names, &gathered_plan, &mut |_| {});
    gathered.unwrap_or_else(|error| panic!("{error}"));
    drop(process);
    for (place, name) in names.iter().enumerate() {
        let mut client = connect(&server, name);
        run(
            &mut client,
            "CREATE TABLE old (id int PRIMARY KEY, item int REFERENCES item) PARTITION BY RANGE (id); \
             CREATE TABLE old_1 PARTITION OF old FOR VALUES FROM (0) TO (100)",
        );
        run(
            &mut client,
            &match place {
                0 => "TRUNCATE item, cart, line, remark, log, label, old".to_owned(),
                _ => format!("INSERT INTO old VALUES ({place}, 1)"),
            },
        );
    }
    let is_right = |names: &[String], at: usize| {
        for name in names {
            let mut client = connect(&server, name);
            assert_eq!(all_rows(&mut client), expected, "{name}, ended at {at}");
            assert_eq!(rows(&mut client, "old"), ["(2,1)"], "{name}, ended at {at}");
            let progress = closed::progress(&mut client).ok();
            assert_eq!(progress, Some(Progress::Installed { closed: None }));
        }
    };
    let remove = |names: &[String]| {
        let mut removed = 0;
        for name in names {
            let mut client = connect(&server, name);
            let progress = closed::progress(&mut client).expect("it answers");
            if matches!(progress, Progress::Installed { .. }) {
                let sequences = catalog::sequences(&mut client).expect("it answers");
                let last = sequences.into_iter().map(|sequence| {
                    let last = sequence.last.unwrap_or(0);
                    (sequence, last)
                });
                let last: Vec<_> = last.collect();
                run(
                    &mut client,
                    &format!("BEGIN; {} COMMIT", install::removal(&last)),
                );
                removed += 1;
            }
        }
        removed
    };
    let old = all_rows(&mut connect(&server, &names[1]));
    // Rows are replaced only where that was asked for.
    let refused = install_from(&mut Process::new(&server, &names), &names, &[], &mut |_| {});
    let refused = refused.unwrap_or_else(|error| panic!("{error}"));
    let words = "site1 has rows that site2 has not, of cart, label, line, log, old_1, remark: ";
    assert_eq!(refused.objections.len(), 1, "{refused:?}");
    assert!(refused.objections[0].starts_with(words), "{refused:?}");
    assert_eq!(all_rows(&mut connect(&server, &names[1])), old);
    let (mut at, mut halves) = (0, 0);
    loop {
        let mut process = Process::new(&server, &names);
        let mut count = 0;
        let backends = process.backends.clone();
        let ended = install_from(
            &mut process,
            &names,
            &[1],
            &mut ends_at(&mut admin, backends, at, &mut count),
        );
        drop(process);
        if count <= at {
            let outcome = ended.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(outcome.objections, Vec::<String>::new());
            assert!(
                outcome.copied.contains(&("cart".to_owned(), 12)),
                "{outcome:?}"
            );
            assert!(
                outcome.copied.contains(&("old_1".to_owned(), 1)),
                "{outcome:?}"
            );
            is_right(&names, at);
            break;
        }
        assert!(ended.is_err(), "it has lost its connections at {at}");
        // What is on some servers is taken away first.
        if remove(&names) > 0 {
            let mut process = Process::new(&server, &names);
            let outcome = install_from(&mut process, &names, &[1], &mut |_| {});
            outcome.unwrap_or_else(|error| panic!("{error}, ended at {at}"));
            is_right(&names, at);
            remove(&names);
            halves += 1;
        } else {
            assert_eq!(
                all_rows(&mut connect(&server, &names[1])),
                old,
                "ended at {at}"
            );
            assert_eq!(
                rows(&mut connect(&server, &names[0]), "item"),
                Vec::<String>::new()
            );
        }
        at += 1;
    }
    assert!(
        at > 20 && halves == 2,
        "{at} statements, {halves} between two COMMITs"
    );
}
