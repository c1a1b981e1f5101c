//! `kill -9` and restart: no acknowledged entry is lost, under each protocol that writes a log.
//!
//! The test runs itself as another process, which writes entries through an embedded cluster with a data folder
//! and lists acknowledged entries in a file. That process is killed several times and restarted each time. In the
//! end the test opens the folder itself, and looks for every acknowledged entry on both of its partitions.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch_bench::application;
use anabranch_engine::{
    DurableNode, DurableOptions, Node, NodeOptions, NodeStart, PlannedApplication,
};
use anabranch_protocol::locking::{LockingNode, LockingOptions};
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_protocol::{Durable, Protocol, Topology};
use anabranch_server::{Client, Cluster, ClusterOptions, DataError, DataFolder};
use anabranch_sql::source::SourceFile;
use anabranch_storage::{LogError, LogOptions, Store, StoreSettings};
use anabranch_types::access::whole_table;
use anabranch_types::{Fetched, NodeId, PartitionId, TableId, Value};

const NODES: u16 = 2;
const SITES: i64 = 4;
/// The environment variable with the other process's folder.
const FOLDER: &str = "ANABRANCH_KILL_TEST_FOLDER";
/// The environment variable with its protocol's name.
const PROTOCOL: &str = "ANABRANCH_KILL_TEST_PROTOCOL";

const SQL: &str = "
CREATE TABLE entries (
    site   integer NOT NULL,
    number bigint  NOT NULL,
    PRIMARY KEY (site, number)
);
CREATE PROCEDURE write_both(p_one integer, p_other integer, p_number bigint)
LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO entries (site, number) VALUES (p_one, p_number);
    INSERT INTO entries (site, number) VALUES (p_other, p_number);
END;
";

fn planned() -> Arc<PlannedApplication> {
    application::plan(vec![SourceFile::new("entries.sql", SQL)], NODES).unwrap()
}

/// A protocol under test.
trait Killed: Durable<Message: 'static> + Send + 'static {
    const NAME: &'static str;

    fn make(id: NodeId, topology: Arc<Topology>, planned: &PlannedApplication) -> Self;

    fn store(&self) -> &Store;

    /// Whether no transaction is in progress.
    fn is_idle(&self) -> bool;
}

fn empty(planned: &PlannedApplication) -> Store {
    Store::new(planned.schema(), StoreSettings::default())
}

impl Killed for RampNode {
    const NAME: &'static str = "ramp-fast";

    fn make(id: NodeId, topology: Arc<Topology>, planned: &PlannedApplication) -> RampNode {
        let (store, programs) = (empty(planned), planned.application.programs());
        RampNode::new(id, topology, store, programs, RampOptions::default())
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn is_idle(&self) -> bool {
        self.prepared() == 0
    }
}

impl Killed for LockingNode {
    const NAME: &'static str = "locking";

    fn make(id: NodeId, topology: Arc<Topology>, planned: &PlannedApplication) -> LockingNode {
        let schema = Arc::new(planned.schema().clone());
        let (store, programs) = (empty(planned), planned.application.programs());
        let options = LockingOptions::default();
        LockingNode::new(id, topology, schema, store, programs, options)
    }

    fn store(&self) -> &Store {
        self.store()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }
}

fn description<P: Killed>() -> String {
    format!("entries under {}, two nodes", P::NAME)
}

fn start<P: Killed>(planned: &Arc<PlannedApplication>, folder: &Path) -> Cluster<P> {
    let data = DataFolder::open(folder, &description::<P>()).unwrap();
    let topology = Arc::new(Topology::one_each(NODES));
    let makers = (0..NODES).map(NodeId).map(|id| {
        let (planned, data, topology) = (Arc::clone(planned), data.clone(), Arc::clone(&topology));
        move |now| {
            let disk = data.disk(id).map_err(LogError::Media)?;
            let protocol = |_: NodeStart| P::make(id, Arc::clone(&topology), &planned);
            // Small, so that checkpoints and new segments are frequent.
            let options = DurableOptions {
                log: LogOptions {
                    segment_bytes: 32 << 10,
                    ..LogOptions::default()
                },
                checkpoint_bytes: 128 << 10,
                ..DurableOptions::default()
            };
            DurableNode::open(disk, options, now, protocol, |protocol, life| {
                let options = NodeOptions {
                    incarnation: life,
                    ..NodeOptions::default()
                };
                Node::new(
                    id,
                    PartitionId(id.0),
                    Arc::clone(&planned),
                    protocol,
                    options,
                )
            })
        }
    });
    let cluster = Cluster::start_durable(makers.collect(), ClusterOptions::default()).unwrap();
    data.claim().unwrap();
    cluster
}

fn submit<P: Protocol>(client: &mut Client<P>, planned: &PlannedApplication, number: i64) {
    let (one, other) = (number % SITES, (number / SITES + 1 + number) % SITES);
    let other = if other == one {
        (one + 1) % SITES
    } else {
        other
    };
    let arguments = [one, other, number].map(Value::Int);
    client
        .submit_home(&planned.execution, 0, Arc::new(arguments))
        .unwrap();
}

/// Does nothing, unless it is the other process: then it writes until it is killed.
#[test]
fn the_other_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    match std::env::var(PROTOCOL).as_deref() {
        Ok(RampNode::NAME) => write::<RampNode>(&folder),
        Ok(LockingNode::NAME) => write::<LockingNode>(&folder),
        other => panic!("{other:?} is no protocol"),
    }
}

fn write<P: Killed>(folder: &Path) {
    let acknowledged = folder.join("acknowledged");
    let planned = planned();
    let cluster: Cluster<P> = start(&planned, &folder.join("data"));
    let mut client = cluster.client();
    let mut file = OpenOptions::new();
    let mut file = file.create(true).append(true).open(acknowledged).unwrap();
    // Entries of this process begin above those of all earlier ones.
    let life = std::fs::metadata(folder.join("acknowledged"))
        .unwrap()
        .len() as i64;
    let first = (life + 1) * 1_000_000;
    let mut taken = Vec::new();
    for number in first.. {
        submit(&mut client, &planned, number);
        if client.in_flight() < 16 {
            continue;
        }
        let soon = Instant::now() + Duration::from_secs(10);
        client.take(soon, &mut taken).unwrap();
        let mut text = String::new();
        for outcome in taken.drain(..) {
            let number = first + (outcome.id.0 & 0xffff_ffff) as i64 - 1;
            assert!(outcome.result.is_ok(), "{number}: {:?}", outcome.result);
            text += &format!("{number}\n");
        }
        file.write_all(text.as_bytes()).unwrap();
    }
}

#[test]
fn ramp_loses_nothing_acknowledged_by_kill_9() {
    kill::<RampNode>();
}

#[test]
fn locking_loses_nothing_acknowledged_by_kill_9() {
    kill::<LockingNode>();
}

fn kill<P: Killed>() {
    let name = format!("anabranch-kill-{}-{}", P::NAME, std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("acknowledged");
    let length = || std::fs::metadata(&file).map_or(0, |found| found.len());
    for round in 0..4u64 {
        let before = length();
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::the_other_process", "--nocapture"])
            .env(FOLDER, &folder)
            .env(PROTOCOL, P::NAME)
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(120);
        while length() < before + 2_000 {
            assert!(other.try_wait().unwrap().is_none(), "it ended by itself");
            assert!(Instant::now() < patience, "it acknowledges nothing");
            std::thread::sleep(Duration::from_millis(5 + round * 7));
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    // The last line of a process may have been cut off in the middle.
    let acknowledged: Vec<i64> = text
        .split_inclusive('\n')
        .filter_map(whole_number)
        .collect();
    let planned = planned();
    let data = folder.join("data");
    let other = DataFolder::open(&data, "entries under another protocol, two nodes");
    assert!(
        matches!(other, Err(DataError::OtherCluster { .. })),
        "{other:?}"
    );
    let cluster: Cluster<P> = start(&planned, &data);
    let mut client = cluster.client();
    submit(&mut client, &planned, 7);
    let mut taken = Vec::new();
    let soon = Instant::now() + Duration::from_secs(60);
    client.take(soon, &mut taken).unwrap();
    assert!(taken[0].result.is_ok(), "it does not go on: {taken:?}");
    // Prepared transactions have ended, or end.
    let idle = || cluster.inspect(|node: &Node<P>| node.protocol().is_idle());
    while !idle().unwrap().into_iter().all(|idle| idle) {
        assert!(Instant::now() < soon, "something stays prepared or locked");
        std::thread::sleep(Duration::from_millis(1));
    }
    let protocols = cluster.stop().unwrap().protocols;
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for protocol in &protocols {
        let all = protocol.store().fetch(&whole_table(TableId(0)), None);
        let Fetched::Range(rows) = all.unwrap() else {
            panic!("a table is a range");
        };
        let layout = &planned.schema().table(TableId(0)).layout;
        for (_, row) in rows {
            let number = row
                .get_int(layout, anabranch_types::ColumnIndex(1))
                .unwrap();
            if !once.insert(number) {
                twice.insert(number);
            }
        }
    }
    assert!(acknowledged.len() > 500, "{}", acknowledged.len());
    for number in &acknowledged {
        assert!(
            twice.contains(number),
            "{number} was acknowledged and is gone"
        );
    }
    assert_eq!(once, twice, "an entry is there on both sides or on neither");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn whole_number(line: &str) -> Option<i64> {
    line.strip_suffix('\n')?.parse().ok()
}
