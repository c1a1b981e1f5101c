//! The embedded cluster through its public interface: threads, queues, an injected delay, and stopping.
//!
//! Times are compared with lower bounds only, so that a slow machine fails no test.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anabranch_analysis::{Guarantee, Topology as Shape, analyze};
use anabranch_engine::load::Loader;
use anabranch_engine::{Node, NodeOptions, Outcome, PlannedApplication};
use anabranch_protocol::Topology;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_server::cluster::{ClusterError, Stopped};
use anabranch_server::{Client, Cluster, ClusterOptions, SubmitError};
use anabranch_sql::{Application, SourceFile};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{Activity, Key, KeyRange, NodeId, PartitionId, Read, TableId, Value};

const COUNTERS: &str = "
CREATE TABLE counters (id integer PRIMARY KEY, n bigint NOT NULL);
CREATE PROCEDURE count(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE counters SET n = n + 1 WHERE id = p_id;
END;
CREATE PROCEDURE count_two(p_id integer, p_other integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE counters SET n = n + 1 WHERE id = p_id;
    UPDATE counters SET n = n + 1 WHERE id = p_other;
END;
";
const COUNT: usize = 0;
const COUNT_TWO: usize = 1;
const IDS: i64 = 12;

fn planned(nodes: u16) -> Arc<PlannedApplication> {
    planned_from(COUNTERS, nodes)
}

fn planned_from(sql: &str, nodes: u16) -> Arc<PlannedApplication> {
    let catalog = anabranch_sql::load(vec![SourceFile::new("application.sql", sql)]);
    let application = Application::compile(catalog.expect("it loads")).expect("it compiles");
    let plan = analyze(
        application.catalog(),
        application.summaries(),
        Shape::Partitioned,
        Guarantee::Invariants,
    );
    PlannedApplication::new(application, plan, nodes)
}

fn start(planned: &Arc<PlannedApplication>, options: ClusterOptions) -> Cluster<RampNode> {
    let nodes = planned.execution.router.partitions();
    let topology = Arc::new(Topology::one_each(nodes));
    let makers = (0..nodes)
        .map(|number| {
            let (planned, topology) = (Arc::clone(planned), Arc::clone(&topology));
            move || {
                let home = PartitionId(number);
                let mut loader = Loader::new(Arc::clone(&planned), home, StoreSettings::default());
                for id in 0..IDS {
                    let row = [Value::Int(id), Value::Int(0)];
                    loader.row(TableId(0), &row).expect("it loads");
                }
                let programs = planned.application.programs();
                let (id, store) = (NodeId(number), loader.into_store());
                let protocol = RampNode::new(id, topology, store, programs, RampOptions::default());
                Node::new(id, home, planned, protocol, NodeOptions::default())
            }
        })
        .collect();
    Cluster::start(makers, options).expect("threads can be had")
}

/// Stops a cluster, and checks that no transaction is left prepared.
fn stop(cluster: Cluster<RampNode>) -> Stopped<RampNode> {
    let stopped = cluster.stop().expect("every thread ends");
    let prepared: Vec<usize> = stopped.protocols.iter().map(RampNode::prepared).collect();
    assert!(prepared.iter().all(|count| *count == 0), "{prepared:?}");
    stopped
}

fn ids<const N: usize>(ids: [i64; N]) -> Arc<[Value]> {
    ids.map(Value::Int).into()
}

/// Takes outcomes until no call is in flight.
fn drain(client: &mut Client<RampNode>) -> Vec<Outcome> {
    let (mut all, mut taken) = (Vec::new(), Vec::new());
    while client.in_flight() > 0 {
        let until = Instant::now() + Duration::from_secs(3_600);
        client.take(until, &mut taken).expect("no node panics");
        all.append(&mut taken);
    }
    all
}

/// The sum of all counters in a store.
fn total(store: &Store, planned: &PlannedApplication) -> i64 {
    let layout = &planned.schema().table(TableId(0)).layout;
    let all = Read::Range {
        table: TableId(0),
        index: None,
        range: KeyRange::prefix_of(Key::empty()),
        reverse: false,
        limit: None,
    };
    let mut sum = 0;
    let visited = store.read(&all, None, &mut |_, _, version| {
        let row = version.and_then(|version| version.row());
        sum += row
            .and_then(|row| row.get_int(layout, anabranch_types::ColumnIndex(1)))
            .unwrap_or(0);
    });
    visited.expect("the newest state can be read");
    sum
}

/// Two ids that belong to different nodes, and the node of the first.
fn apart(planned: &PlannedApplication) -> (i64, i64, NodeId) {
    let home = |id| {
        planned
            .execution
            .home(COUNT, &[Value::Int(id)], 0)
            .expect("it is routed")
    };
    let other = (1..IDS).find(|id| home(*id) != home(0));
    (
        0,
        other.expect("twelve ids are not all together"),
        NodeId(home(0).0),
    )
}

/// One constraint of each kind, and a procedure that writes to both partitions before and after it violates one.
const TRANSFERS: &str = "
CREATE TABLE accounts (
    id integer PRIMARY KEY,
    balance bigint NOT NULL,
    CONSTRAINT solvent CHECK (balance >= 0)
);
CREATE TABLE transfers (
    number integer PRIMARY KEY,
    account_id integer NOT NULL,
    note text,
    CONSTRAINT transfers_account FOREIGN KEY (account_id) REFERENCES accounts (id),
    CONSTRAINT one_note_each UNIQUE (note)
);
CREATE PROCEDURE transfer(p_from integer, p_number integer, p_account integer, p_note text,
                          p_amount bigint, p_to integer)
LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance + 1000 WHERE id = p_to;
    UPDATE accounts SET balance = balance + 1000 - p_amount WHERE id = p_from;
    INSERT INTO transfers (number, account_id, note) VALUES (p_number, p_account, p_note);
    UPDATE accounts SET balance = balance + 1 WHERE id = p_to;
END;
CREATE FUNCTION totals(OUT balances bigint, OUT transfers bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT sum(balance) INTO balances FROM accounts;
    SELECT count(*) INTO transfers FROM transfers;
END;
$$;
";

#[test]
fn a_violated_constraint_is_named_and_its_transaction_has_no_effect() {
    let planned = planned_from(TRANSFERS, 2);
    let cluster = start(&planned, ClusterOptions::default());
    let mut client = cluster.client();
    let mut transfer = |number: i64, account: Value, note: &str, amount: i64| {
        let arguments = [
            Value::Int(0),
            Value::Int(number),
            account,
            Value::text(note),
            Value::Int(amount),
            Value::Int(1),
        ];
        let outcome = client.call(NodeId(0), 0, arguments.into());
        let failed = outcome.expect("no node panics").result.err();
        let totals = client.call(NodeId(1), 1, ids([])).expect("no node panics");
        let rows = totals.result.expect("a query succeeds").rows;
        (failed.map(|error| error.to_string()), rows.concat())
    };
    let one = Value::Int(1);
    let (failed, first) = transfer(1, one.clone(), "rent", 10);
    assert_eq!(failed, None);
    assert_eq!(first, ids::<2>([1_991, 1])[..]);
    let cases = [
        ((2, one.clone(), "food", 5_000), "\"solvent\""),
        ((2, Value::Int(77), "food", 10), "\"transfers_account\""),
        ((1, one.clone(), "food", 10), "\"transfers_pkey\""),
        ((2, one.clone(), "rent", 10), "\"one_note_each\""),
        ((2, Value::Null, "food", 10), "\"account_id\""),
    ];
    for ((number, account, note, amount), named) in cases {
        let (failed, left) = transfer(number, account, note, amount);
        let failed = failed.unwrap_or_else(|| panic!("{named} is violated"));
        assert!(
            failed.contains(named) && failed.contains("SQLSTATE 23"),
            "{failed}"
        );
        assert_eq!(left, first, "after {failed}");
    }
    // A refused transaction blocks no other.
    let (failed, last) = transfer(2, one, "food", 10);
    assert_eq!(failed, None);
    assert_eq!(last, ids::<2>([3_982, 2])[..]);
    stop(cluster);
}

#[test]
fn three_nodes_answer_and_stop_returns_their_stores() {
    let planned = planned(3);
    let cluster = start(&planned, ClusterOptions::default());
    assert_eq!(cluster.nodes(), 3);
    let mut clients = [cluster.client(), cluster.client()];
    for client in &mut clients {
        for id in 0..300 {
            let (id, other) = (id % IDS, (id + 1) % IDS);
            let submitted = match id % 2 {
                0 => client.submit_home(&planned.execution, COUNT, ids([id])),
                _ => client.submit_home(&planned.execution, COUNT_TWO, ids([id, other])),
            };
            submitted.expect("there is room");
        }
    }
    let mut counted = 0;
    for client in &mut clients {
        let outcomes = drain(client);
        assert_eq!(outcomes.len(), 300);
        assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
        counted += 150 + 2 * 150;
    }
    let stopped = stop(cluster);
    assert_eq!(stopped.protocols.len(), 3);
    let stores = stopped.protocols.iter().map(RampNode::store);
    let totals: Vec<i64> = stores.map(|store| total(store, &planned)).collect();
    assert!(totals.iter().all(|total| *total > 0), "{totals:?}");
    assert_eq!(totals.iter().sum::<i64>(), counted);
}

/// A call at another node than its rows' takes a round trip; one over two nodes is prepared, too.
#[test]
fn an_injected_delay_is_waited_for() {
    let delay = Duration::from_millis(20);
    let options = ClusterOptions {
        delay,
        ..ClusterOptions::default()
    };
    let planned = planned(2);
    let cluster = start(&planned, options);
    let (near, far, node) = apart(&planned);
    let mut client = cluster.client();
    let mut timed = |procedure, arguments| {
        let begin = Instant::now();
        let outcome = client
            .call(node, procedure, arguments)
            .expect("no thread panics");
        assert!(outcome.result.is_ok());
        begin.elapsed()
    };
    assert!(timed(COUNT, ids([far])) >= 2 * delay, "there and back");
    assert!(
        timed(COUNT_TWO, ids([near, far])) >= 4 * delay,
        "two rounds"
    );
    stop(cluster);
}

#[test]
fn a_client_has_a_limit_of_calls_in_flight() {
    let options = ClusterOptions {
        calls_max: 8,
        ..ClusterOptions::default()
    };
    let planned = planned(3);
    let cluster = start(&planned, options);
    let mut client = cluster.client();
    let submit = |client: &mut Client<RampNode>, id: i64| {
        client.submit_home(&planned.execution, COUNT, ids([id % IDS]))
    };
    for id in 0..8 {
        submit(&mut client, id).expect("there is room");
    }
    let full = SubmitError::TooManyCalls { calls_max: 8 };
    assert_eq!(submit(&mut client, 8), Err(full.clone()));
    assert!(full.to_string().contains("8 calls in flight"), "{full}");
    assert_eq!(client.in_flight(), 8, "a refused call is none");
    assert_eq!(drain(&mut client).len(), 8);
    // The number of calls queued at the nodes stays below the limit.
    let (mut done, mut taken, mut next) = (0, Vec::new(), 0);
    while done < 1_000 {
        while next < 1_000 && submit(&mut client, next).is_ok() {
            next += 1;
        }
        client.flush();
        let queued: usize = cluster
            .inspect(Node::calls)
            .expect("no node panics")
            .into_iter()
            .sum();
        assert!(queued <= 8 && client.in_flight() <= 8, "{queued} calls");
        let until = Instant::now() + Duration::from_secs(3_600);
        client.take(until, &mut taken).expect("no node panics");
        done += taken.len();
        taken.clear();
    }
    let stopped = stop(cluster);
    let totals = stopped
        .protocols
        .iter()
        .map(|node| total(node.store(), &planned));
    assert_eq!(totals.sum::<i64>(), 1_008);
}

/// The activity of a node between its steps is transport, also after it has slept.
#[test]
fn a_node_that_was_woken_is_not_idle() {
    let options = ClusterOptions {
        profiled: true,
        ..ClusterOptions::default()
    };
    let planned = planned(1);
    let cluster = start(&planned, options);
    let look = || loop {
        let profiler = cluster.profile(Duration::from_micros(100));
        let profiler = profiler.expect("threads can be had");
        std::thread::sleep(Duration::from_millis(1));
        let seen: BTreeSet<Activity> = profiler.stop().samples.into_keys().collect();
        // On a slow machine a sample may come too late; repeat then.
        if !seen.is_empty() {
            return seen;
        }
    };
    while !look().contains(&Activity::Idle) {}
    let gate = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let at_the_node = Arc::clone(&gate);
        scope.spawn(|| {
            cluster.inspect(move |_| {
                at_the_node.wait();
                at_the_node.wait();
            })
        });
        // The node is held between two steps.
        gate.wait();
        let seen = look();
        gate.wait();
        assert_eq!(seen, BTreeSet::from([Activity::Transport]));
    });
    stop(cluster);
}

#[test]
fn a_node_that_panics_is_reported_to_all_clients() {
    let planned = planned(3);
    let cluster = start(&planned, ClusterOptions::default());
    let mut client = cluster.client();
    let (_, far, _) = apart(&planned);
    let says_so = |reason: &str| assert!(reason.contains("node n0 has panicked"), "{reason}");
    let looked = cluster.inspect(|_: &Node<RampNode>| -> () { panic!("on purpose") });
    match looked {
        Err(ClusterError::Failed(reason)) => says_so(&reason),
        other => panic!("{:?}", other.map_err(|error| error.to_string())),
    }
    // A call that needs the failed node gets no outcome, and its client gets the reason.
    match client.call(NodeId(0), COUNT, ids([far])) {
        Err(SubmitError::ClusterFailed(reason)) => says_so(&reason),
        other => panic!("{other:?}"),
    }
    match cluster.stop() {
        Err(ClusterError::Failed(reason)) => says_so(&reason),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a cluster that lost a node does not stop cleanly"),
    }
}
