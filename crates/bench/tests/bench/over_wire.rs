//! Histories of transactions over the wire, on PostgreSQL: it is serializable where that was asked for, and the clients
//! notice where it is not.

use std::time::Duration;

use anabranch_bench::over_wire::{IsolationLevel, Settings, record};
use anabranch_dbms::postgres::{Server, Settings as ServerSettings};
use anabranch_history::{History, Model, check};

fn is_serializable(server: &Server, isolation: IsolationLevel) -> bool {
    let settings = Settings {
        connect: server.address("postgres"),
        connections: 6,
        duration: Duration::from_secs(2),
        keys: 3,
        operations_max: 4,
        isolation,
        seed: 1,
        keeps_table: false,
    };
    let mut file = Vec::new();
    let ended = record(&settings, &mut file, || {}).unwrap();
    assert!(ended.committed > 0 && ended.unknown == 0, "{ended:?}");
    let history = History::read(file.as_slice()).unwrap();
    assert!(history.committed() as u64 >= ended.committed);
    check(&history, Model::Serializable).unwrap().is_satisfied()
}

#[test]
fn postgresql_is_serializable_where_that_is_asked_for() {
    let server = Server::start(ServerSettings::default()).unwrap();
    assert!(is_serializable(&server, IsolationLevel::Serializable));
    // Two clients read a list and write what they have read with an element more: one element is lost. A busy machine may
    // have to try again.
    let is_lost = |_: &u32| !is_serializable(&server, IsolationLevel::ReadCommitted);
    assert!((0..20).any(|attempt| is_lost(&attempt)));
}
