//! A fourth database joins three, and one of three leaves. The process that does so is ended before each of its statements;
//! run again, it ends as if it had not been.
//!
//! An oracle, one database without the belt, runs every statement of the operations: each key's server has to have its rows.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dbms::belt::Database;
use anabranch_dbms::postgres::closed::{self, Closed};
use anabranch_dbms::postgres::lost::{Ended, end_without};
use anabranch_dbms::postgres::relocate::{Membership, Plan, membership};
use anabranch_dbms::postgres::ring::{self, PostgresDatabase};
use anabranch_dbms::postgres::share::{self, Change, Shared};
use anabranch_dbms::postgres::{Server, explain};
use anabranch_protocol::belt::Hop;
use postgres::Client;

use crate::shop::{
    Process, SCHEMA, SERVERS, SLOTS, TABLES, all_rows, connect, copied, drop_copies, ends_at, part,
    plan, rows, run, site_name, slot_of, start,
};

/// The place of the server that joins.
const NEW: u16 = SERVERS;

/// The place of the server that leaves.
const LEAVING: u16 = 1;

const RING: &str = "site0,site1,site2";

/// The tables whose rows local operations insert, with their numbers in the plan and their keys.
const LOCAL: [(&str, usize, &str); 3] = [
    ("cart", 0, "id"),
    ("line", 1, "cart"),
    ("remark", 2, "about"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Join,
    Leave,
}

/// The databases of a ring that is to change: the servers, and an empty one if it joins.
fn originals(admin: &mut Client, server: &Server, kind: Kind) -> Vec<String> {
    let mut names: Vec<String> = (0..SERVERS).map(site_name).collect();
    if kind == Kind::Join {
        run(admin, "CREATE DATABASE newcomer");
        let mut client = connect(server, "newcomer");
        run(&mut client, SCHEMA);
        run(&mut client, &format!("TRUNCATE {}", TABLES.join(", ")));
        names.push("newcomer".to_owned());
    }
    names
}

/// What the command does: goes on from where an earlier run has ended.
fn change(
    process: &mut Process,
    names: &[String],
    kind: Kind,
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Option<Shared>, String> {
    let (part, change) = match kind {
        Kind::Join => {
            let new = process.clients.len() - 1;
            (
                Some(part(&mut process.clients[new], NEW)),
                closed::Change::Join,
            )
        }
        Kind::Leave => (None, closed::Change::Leave),
    };
    let closed = Closed {
        target: "a server".to_owned(),
        change,
    };
    let change = match &part {
        Some(part) => Change::Join { ring: RING, part },
        None => Change::Leave(usize::from(LEAVING)),
    };
    let mut sites = process.sites(names);
    if share::is_done(&mut sites, change)? {
        closed::reopen(&mut sites, before)?;
        return Ok(None);
    }
    closed::close(&mut sites, &closed, before)?;
    share::share(&mut sites, change, plan, &closed, before).map(Some)
}

/// The rows of a table whose keys have a slot, as text.
fn rows_of(
    client: &mut Client,
    (table, number, key): (&str, usize, &str),
    slots: &[u16],
) -> Vec<String> {
    let found = client.query(
        &format!("SELECT {key}::text, t::text FROM {table} t ORDER BY 2"),
        &[],
    );
    let found = found.unwrap_or_else(|error| panic!("{}", explain(&error)));
    let of_slots = found.iter().filter(|row| {
        let slot = slot_of(number, row.get::<_, Option<&str>>(0));
        slots.contains(&slot.unwrap_or_else(|error| panic!("{error}")))
    });
    of_slots.map(|row| row.get(1)).collect()
}

/// Each server has the rows of its keys as one server would have them, the old owner of a moved key has none, and the ring
/// runs.
fn assert_shared(server: &Server, names: &[String], kind: Kind) {
    let mut oracle = connect(server, "oracle");
    let owners: Vec<u16> = match kind {
        Kind::Join => vec![0, 1, 2, 3],
        Kind::Leave => vec![0, 2, 2, 0],
    };
    let members: Vec<u16> = match kind {
        Kind::Join => vec![0, 1, 2, 3],
        Kind::Leave => vec![0, 2],
    };
    let expected = Membership {
        ring: match kind {
            Kind::Join => "site0,site1,site2,site3".to_owned(),
            Kind::Leave => RING.to_owned(),
        },
        members: members.clone(),
        owners: owners.clone(),
    };
    let mut logs = Vec::new();
    for place in &members {
        let name = &names[usize::from(*place)];
        let mut client = connect(server, name);
        let found = membership(&mut client).ok().flatten();
        assert_eq!(found.as_ref(), Some(&expected), "{name}");
        assert_eq!(closed::closed(&mut client).ok(), Some(None), "{name}");
        let own: Vec<u16> = (0..SLOTS)
            .filter(|slot| owners[usize::from(*slot)] == *place)
            .collect();
        for table in LOCAL.iter().chain(&[("label", 4, "id")]) {
            let theirs = rows_of(&mut client, *table, &own);
            assert_eq!(
                theirs,
                rows_of(&mut oracle, *table, &own),
                "{name}: {table:?}"
            );
            if kind == Kind::Join && *place == 0 && table.0 != "label" {
                assert!(
                    !rows_of(&mut oracle, *table, &[NEW]).is_empty(),
                    "{table:?}"
                );
                let left = rows_of(&mut client, *table, &[NEW]);
                assert_eq!(left, Vec::<String>::new(), "{name}: {table:?}");
            }
        }
        assert_eq!(
            rows(&mut client, "item"),
            rows(&mut oracle, "item"),
            "{name}"
        );
        assert_eq!(rows(&mut client, "label").len(), 10, "{name}");
        logs.extend(rows(&mut client, "log"));
    }
    logs.sort();
    assert_eq!(logs, rows(&mut oracle, "log"));
    if kind == Kind::Leave {
        let mut client = connect(server, &names[usize::from(LEAVING)]);
        assert_eq!(membership(&mut client).ok(), Some(None));
        run(&mut client, "UPDATE item SET stock = 0");
    }
    assert_runs(server, names, &members, 1);
}

/// Operations run on each member in turn, and all members receive them, in a new epoch.
pub(crate) fn assert_runs(server: &Server, names: &[String], members: &[u16], epoch: u64) {
    let name = |place: u16| names[usize::from(place)].as_str();
    let mut databases: Vec<(u16, PostgresDatabase)> = members
        .iter()
        .map(|place| {
            let database = PostgresDatabase::new(connect(server, name(*place)));
            (*place, database.unwrap_or_else(|error| panic!("{error}")))
        })
        .collect();
    let mut holds = Vec::new();
    let mut highest = 0;
    for (place, database) in &mut databases {
        let standing = database
            .standing()
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (standing.epoch.number, standing.epoch),
            (epoch, standing.promised)
        );
        let in_ring: Vec<u16> = standing.members.iter().map(|member| member.0).collect();
        assert_eq!(in_ring, members);
        highest = highest.max(standing.received.0);
        if standing.passed < standing.received {
            holds.push((*place, standing.received));
        }
    }
    let [(holder, hop)] = holds[..] else {
        panic!("the holds of {holds:?} are open");
    };
    assert_eq!((holder, hop.0), (members[0], highest));
    let mut hop = hop;
    let mut expected: BTreeSet<i32> = BTreeSet::new();
    for lap in 0..2 {
        for at in 0..databases.len() {
            let place = databases[at].0;
            let id = 100 * (lap + 1) + i32::from(place);
            let mut client = connect(server, name(place));
            run(&mut client, ring::PREPARE);
            run(
                &mut client,
                &format!(
                    "{}; INSERT INTO item VALUES ({id}, 1); {}; COMMIT",
                    ring::begin(hop),
                    ring::END
                ),
            );
            expected.insert(id);
            let generated = client.query_one(
                "WITH s AS (SELECT set_config('test.may', 'yes', false), set_config('anabranch.hop', 'local', false)) \
                 INSERT INTO cart (n) SELECT 1 FROM s RETURNING id",
                &[],
            );
            let id: i64 = generated
                .unwrap_or_else(|error| panic!("{}", explain(&error)))
                .get(0);
            assert_eq!(id.rem_euclid(i64::from(SLOTS)), i64::from(place));
            let token = databases[at].1.pass(hop, &BTreeSet::new());
            let token = token
                .unwrap_or_else(|error| panic!("{error}"))
                .unwrap_or_else(|refused| panic!("{refused}"));
            hop = token.hop;
            let next = (at + 1) % databases.len();
            let received = databases[next].1.receive(&token);
            assert_eq!(received.unwrap_or_else(|error| panic!("{error}")), Ok(()));
        }
    }
    // The last operation of each server but the first has not been everywhere yet.
    for (place, _) in &databases {
        let mut client = connect(server, name(*place));
        let found = client.query("SELECT id FROM item WHERE id BETWEEN 100 AND 199", &[]);
        let found = found.unwrap_or_else(|error| panic!("{}", explain(&error)));
        let found: BTreeSet<i32> = found.iter().map(|row| row.get(0)).collect();
        let first_lap: BTreeSet<i32> = expected.range(100..200).copied().collect();
        assert_eq!(found, first_lap, "{place}");
    }
}

/// What a process leaves: by database all rows, and what the belt has written.
type State = Vec<(BTreeMap<&'static str, Vec<String>>, Vec<Vec<String>>)>;

fn state(server: &Server, names: &[String]) -> State {
    let states = names.iter().map(|name| {
        let mut client = connect(server, name);
        let belt = match membership(&mut client) {
            Ok(Some(_)) => ["hold", "server", "applied", "outbox"]
                .iter()
                .map(|table| rows(&mut client, &format!("anabranch.{table}")))
                .collect(),
            _ => Vec::new(),
        };
        (all_rows(&mut client), belt)
    });
    states.collect()
}

/// Whether all servers say the old list, and the one that joins has no belt.
fn is_old(server: &Server, names: &[String]) -> bool {
    let mut memberships = names.iter().enumerate().map(|(place, name)| {
        let mut client = connect(server, name);
        let found = membership(&mut client).ok().flatten();
        let members = found.map(|of| of.members);
        match place < usize::from(SERVERS) {
            true => members.as_deref() == Some(&[0, 1, 2]),
            false => members.is_none(),
        }
    });
    memberships.all(|is_old| is_old)
}

/// Ends the process before each statement. What leaves the databases as they were needs no repetition; otherwise it is run
/// again, and has to come to its end.
fn ends_before_each_statement(kind: Kind) {
    let (server, _) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    let mut templates = originals(&mut admin, &server, kind);
    let mut names = copied(&mut admin, &templates, 0);
    let mut first = state(&server, &names);
    let (mut at, mut copy, mut unchanged, mut received, mut between) = (0, 0, 0, 0, 0);
    loop {
        let mut process = Process::new(&server, &names);
        let mut count = 0;
        let backends = process.backends.clone();
        let (mut commits, mut is_second_round) = (0, false);
        let ended = {
            let mut end = ends_at(&mut admin, backends, at, &mut count);
            change(&mut process, &names, kind, &plan, &mut |what| {
                commits += u16::from(what == "commit received");
                is_second_round |= commits == SERVERS && what == "begin";
                end(what);
            })
        };
        drop(process);
        if count <= at {
            let shared = ended.unwrap_or_else(|error| panic!("{error}"));
            let shared = shared.expect("nothing had been shared before");
            assert_eq!(shared.applied, 0, "{shared:?}");
            assert_moved(&shared, kind);
            assert_shared(&server, &names, kind);
            break;
        }
        assert!(ended.is_err(), "it has lost its connections at {at}");
        at += 1;
        if state(&server, &names) == first {
            unchanged += 1;
            continue;
        }
        copy += 1;
        if is_old(&server, &names) && is_second_round {
            // Everything that was on its way is received. From here on the same is done again, statement by statement.
            templates.clone_from(&names);
            at = 0;
            names = copied(&mut admin, &templates, copy);
            first = state(&server, &names);
            continue;
        }
        match is_old(&server, &names) {
            true => received += 1,
            false => between += 1,
        }
        let mut process = Process::new(&server, &names);
        let again = change(&mut process, &names, kind, &plan, &mut |_| {});
        again.unwrap_or_else(|error| panic!("{error}, ended at {at}"));
        drop(process);
        assert_shared(&server, &names, kind);
        drop_copies(&mut admin, &names);
        names = copied(&mut admin, &templates, copy);
    }
    assert!(
        at > 50 && unchanged > 60 && received == 4 && between > 4,
        "{at} statements, {unchanged} that leave everything as it was, {received} between the COMMITs of what was received, \
         {between} behind the first COMMIT of the change"
    );
}

/// What a run that was not ended tells.
fn assert_moved(shared: &Shared, kind: Kind) {
    let moved = shared.tables.iter().map(|(name, rows)| {
        let rows: Vec<((u16, u16), u64)> = rows.iter().map(|(way, n)| (*way, *n)).collect();
        (name.as_str(), rows)
    });
    let moved: Vec<_> = moved.collect();
    match kind {
        Kind::Join => {
            assert_eq!(shared.slots, [(3, 0, 3)]);
            // Carts 3 and 7; a line of each; the remark "abc"; no log; labels 3 and 7.
            assert_eq!(
                moved,
                [
                    ("cart", vec![((0, 3), 2)]),
                    ("line", vec![((0, 3), 2)]),
                    ("remark", vec![((0, 3), 1)]),
                    ("log", vec![]),
                    ("label", vec![((0, 3), 2)]),
                ]
            );
            let copied: Vec<&str> = shared
                .copied
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(copied, ["item", "apart", "label"]);
        }
        Kind::Leave => {
            assert_eq!(shared.slots, [(1, 1, 2)]);
            // Carts 1, 9, 105 and one with a generated number; 5 was deleted.
            assert_eq!(moved[0], ("cart", vec![((1, 2), 4)]));
            assert_eq!(moved[3], ("log", vec![((1, 0), 1)]));
        }
    }
}

#[test]
fn a_server_joins_whatever_ends_before_which_statement() {
    ends_before_each_statement(Kind::Join);
}

#[test]
fn a_server_leaves_whatever_ends_before_which_statement() {
    ends_before_each_statement(Kind::Leave);
}

/// Ends a change before its COMMIT with this number, of those that begin the new epoch.
fn ended_at_commit(server: &Server, names: &[String], kind: Kind, plan: &Plan<'_>, number: usize) {
    let mut admin = connect(server, "postgres");
    let mut process = Process::new(server, names);
    let backends = process.backends.clone();
    let mut commits = 0;
    let ended = change(&mut process, names, kind, plan, &mut |what| {
        if what == "commit" {
            if commits == number {
                for backend in &backends {
                    let ended = admin.execute("SELECT pg_terminate_backend($1, 10000)", &[backend]);
                    assert!(ended.is_ok(), "{ended:?}");
                }
            }
            commits += 1;
        }
    });
    assert!(ended.is_err());
}

#[test]
fn what_old_owners_do_before_the_repetition_is_not_lost() {
    for kind in [Kind::Join, Kind::Leave] {
        let (server, _) = start();
        let mut admin = connect(&server, "postgres");
        let plan = plan(&mut connect(&server, "oracle"));
        let names = originals(&mut admin, &server, kind);
        // New owners have committed, and no old one has.
        ended_at_commit(&server, &names, kind, &plan, 1);
        // What a middleware that was killed has sent may run until then: on a moved key, and in the hold that is open.
        let (place, cart) = match kind {
            Kind::Join => (0, 3),
            Kind::Leave => (1, 1),
        };
        let local = format!("UPDATE cart SET n = n + 1000 WHERE id = {cart}");
        let global =
            "UPDATE item SET stock = stock + 1000 WHERE id = 1; INSERT INTO item VALUES (21, 1)";
        let mut owner = connect(&server, &names[place]);
        run(&mut owner, &format!("SET anabranch.hop = 'local'; {local}"));
        let mut holder = connect(&server, &names[1]);
        run(&mut holder, ring::PREPARE);
        run(
            &mut holder,
            &format!("{}; {global}; {}; COMMIT", ring::begin(Hop(2)), ring::END),
        );
        let mut oracle = connect(&server, "oracle");
        run(&mut oracle, &local);
        run(&mut oracle, global);
        let mut process = Process::new(&server, &names);
        let again = change(&mut process, &names, kind, &plan, &mut |_| {});
        let again = again.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(again.is_some_and(|shared| shared.applied > 0), "{kind:?}");
        drop(process);
        assert_shared(&server, &names, kind);
    }
}

#[test]
fn the_old_ring_goes_on_if_no_server_has_begun_the_new_epoch() {
    let (server, _) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    let names = originals(&mut admin, &server, Kind::Leave);
    ended_at_commit(&server, &names, Kind::Leave, &plan, 0);
    let mut process = Process::new(&server, &names);
    let reopened = closed::reopen(&mut process.sites(&names), &mut |_| {});
    reopened.unwrap_or_else(|error| panic!("{error}"));
    drop(process);
    // The hold that was open is open; what was done in it comes with the token, and changes nothing a second time.
    let database = |place: usize| {
        PostgresDatabase::new(connect(&server, &names[place])).unwrap_or_else(|e| panic!("{e}"))
    };
    let token = database(1).pass(Hop(2), &BTreeSet::new());
    let token = token
        .unwrap_or_else(|error| panic!("{error}"))
        .unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(
        database(2)
            .receive(&token)
            .unwrap_or_else(|e| panic!("{e}")),
        Ok(())
    );
    let mut oracle = connect(&server, "oracle");
    for name in &names {
        let mut client = connect(&server, name);
        assert_eq!(
            rows(&mut client, "item"),
            rows(&mut oracle, "item"),
            "{name}"
        );
    }
}

/// The process ends before a COMMIT, and the server that joins or leaves never comes back.
fn lost_at_commit(kind: Kind, number: usize, expected: &Ended) {
    let (server, _) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    let names = originals(&mut admin, &server, kind);
    ended_at_commit(&server, &names, kind, &plan, number);
    let lost = match kind {
        Kind::Join => NEW,
        Kind::Leave => LEAVING,
    };
    let mut process = Process::new(&server, &names);
    let mut sites = process.sites(&names);
    sites.retain(|site| site.place != lost);
    let mut told = Vec::new();
    let tell = &mut |slots: &[(u16, u16)]| told.extend(slots.to_vec());
    let ended = end_without(&mut sites, lost, &mut |_| {}, tell);
    let ended = ended.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(&ended, expected);
    drop(process);
    let (members, owners): (Vec<u16>, Vec<u16>) = match kind {
        Kind::Join => (vec![0, 1, 2], vec![0, 1, 2, 0]),
        Kind::Leave => (vec![0, 2], vec![0, 2, 2, 0]),
    };
    let list = Membership {
        ring: RING.to_owned(),
        members: members.clone(),
        owners: owners.clone(),
    };
    let gone: Vec<u16> = told.iter().map(|(slot, _)| *slot).collect();
    let mut oracle = connect(&server, "oracle");
    for place in &members {
        let name = &names[usize::from(*place)];
        let mut client = connect(&server, name);
        assert_eq!(
            membership(&mut client).ok(),
            Some(Some(list.clone())),
            "{name}"
        );
        assert_eq!(closed::closed(&mut client).ok(), Some(None), "{name}");
        assert_eq!(
            rows(&mut client, "item"),
            rows(&mut oracle, "item"),
            "{name}"
        );
        for (slot, owner) in (0..).zip(&owners) {
            if owner != place {
                continue;
            }
            for table in LOCAL {
                let theirs = match gone.contains(&slot) {
                    true => Vec::new(),
                    false => rows_of(&mut oracle, table, &[slot]),
                };
                assert_eq!(
                    rows_of(&mut client, table, &[slot]),
                    theirs,
                    "{name}: {table:?}"
                );
            }
        }
    }
    if matches!(expected, Ended::Without { .. }) {
        assert_runs(&server, &names, &members, 2);
    }
}

#[test]
fn the_others_go_on_without_a_server_that_is_lost_before_any_of_them_has_begun() {
    lost_at_commit(Kind::Join, 1, &Ended::AsItWas { is_member: false });
}

#[test]
fn the_others_go_on_without_a_server_that_is_lost_with_the_rows_it_has_taken_over() {
    let lost = vec![(NEW, 0)];
    lost_at_commit(Kind::Join, 2, &Ended::Without { lost });
}

#[test]
fn the_others_go_on_without_a_server_that_has_given_up_its_rows_and_is_lost() {
    lost_at_commit(Kind::Leave, 1, &Ended::Without { lost: Vec::new() });
}

#[test]
fn of_two_changes_at_once_one_is_refused() {
    let (server, _) = start();
    let names: Vec<String> = (0..SERVERS).map(site_name).collect();
    let mut process = Process::new(&server, &names);
    let close = |process: &mut Process, target: &str| {
        let closed = Closed {
            target: target.to_owned(),
            change: closed::Change::Leave,
        };
        closed::close(&mut process.sites(&names), &closed, &mut |_| {})
    };
    assert_eq!(close(&mut process, "site1"), Ok(()));
    assert_eq!(close(&mut process, "site1"), Ok(()));
    let refused = close(&mut process, "site2");
    assert!(refused.is_err_and(|error| error.contains("for site1")));
}

#[test]
fn what_cannot_join_or_leave_is_told_and_nothing_changes() {
    let (server, _) = start();
    let mut admin = connect(&server, "postgres");
    let plan = plan(&mut connect(&server, "oracle"));
    let names = originals(&mut admin, &server, Kind::Join);
    run(
        &mut connect(&server, "newcomer"),
        "INSERT INTO item VALUES (1, 1)",
    );
    let leaving: Vec<String> = (0..SERVERS).map(site_name).collect();
    let refused = |names: &[String], kind: Kind, words: &str| {
        let before = state(&server, names);
        let mut process = Process::new(&server, names);
        let changed = change(&mut process, names, kind, &plan, &mut |_| {});
        let error = changed.expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
        let reopened = closed::reopen(&mut process.sites(names), &mut |_| {});
        assert_eq!(reopened, Ok(()), "{words}");
        drop(process);
        // What was on its way may have been received.
        let after = state(&server, names);
        for (before, after) in before.iter().zip(&after) {
            assert!(
                before.1.iter().take(2).eq(after.1.iter().take(2)),
                "{words}"
            );
            assert_eq!(before.0["cart"], after.0["cart"], "{words}");
        }
    };
    refused(
        &names,
        Kind::Join,
        "item has rows: a server that joins is empty",
    );
    for (place, statements, words) in [
        (
            0,
            "UPDATE anabranch.server SET owners = '{0,1,2,2}'",
            "its ring has other servers, or other keys belong to them",
        ),
        (
            2,
            "UPDATE anabranch.hold SET promised = 7",
            "the removal of a server from the ring has not come to its end",
        ),
    ] {
        let mut client = connect(&server, &leaving[place]);
        run(&mut client, statements);
        refused(&leaving, Kind::Leave, words);
        run(
            &mut client,
            "UPDATE anabranch.server SET owners = '{0,1,2,0}'; UPDATE anabranch.hold SET promised = 0",
        );
    }
    for name in &leaving {
        run(
            &mut connect(&server, name),
            "UPDATE anabranch.hold SET members = '{0,2}'",
        );
    }
    refused(&leaving, Kind::Leave, "it is no member of the ring");
}
