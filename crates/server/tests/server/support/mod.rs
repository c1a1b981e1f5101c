//! A small shop as a server in the test's own process, and clients of it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use anabranch_analysis::{Options, analyze_with};
use anabranch_engine::PlannedApplication;
use anabranch_engine::load::Loader;
use anabranch_server::DataFolder;
use anabranch_server::service::folder;
use anabranch_server::service::{
    Guarantee, Served, Service, ServiceError, ServiceOptions, plan_accepting,
};
use anabranch_sql::{Application, SourceFile};
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{PartitionId, Placement};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

pub(crate) const SHOP: &str = "
CREATE TABLE items (
    id integer PRIMARY KEY,
    name text NOT NULL,
    stock integer NOT NULL CONSTRAINT stock_is_positive CHECK (stock >= 0)
);
CREATE TABLE sales (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item integer NOT NULL REFERENCES items, quantity integer);
";

pub(crate) const PROCEDURES: &str = "
CREATE PROCEDURE restock(p_item integer, p_quantity integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE items SET stock = stock + p_quantity WHERE id = p_item;
END;
CREATE FUNCTION sell(p_item integer, p_quantity integer, OUT o_left integer, OUT o_name text) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE items SET stock = stock - p_quantity WHERE id = p_item RETURNING stock, name INTO o_left, o_name;
    INSERT INTO sales (item, quantity) VALUES (p_item, p_quantity);
END;
$$;
CREATE PROCEDURE add_item(p_id integer, p_name text, p_stock integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO items VALUES (p_id, p_name, p_stock);
END;
";

pub(crate) const PARTITIONS: u16 = 2;

pub(crate) fn options() -> ServiceOptions {
    ServiceOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)))
}

pub(crate) fn start_with(files: &[&str], guarantee: Guarantee, options: ServiceOptions) -> Service {
    let service = start_in(files, guarantee, options, None);
    service.expect("it starts")
}

/// A folder that is removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let name = format!("anabranch-service-{process}-{number}-{name}");
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn start_in(
    files: &[&str],
    guarantee: Guarantee,
    options: ServiceOptions,
    path: Option<&Path>,
) -> Result<Service, ServiceError> {
    let by_keys = guarantee == Guarantee::Serializable;
    start_placed(files, (guarantee, by_keys), options, path)
}

/// The same. `by_keys`: whether the tables that have keys are placed by them.
pub(crate) fn start_placed(
    files: &[&str],
    (guarantee, by_keys): (Guarantee, bool),
    options: ServiceOptions,
    path: Option<&Path>,
) -> Result<Service, ServiceError> {
    let sources: Vec<SourceFile> = files
        .iter()
        .map(|text| SourceFile::new("application.sql", *text))
        .collect();
    let files = files
        .iter()
        .map(|text| SourceFile::new("application.sql", *text));
    let catalog = anabranch_sql::load(files.collect()).expect("it loads");
    let application = Application::compile(catalog).expect("it compiles");
    let options_of_analysis = Options {
        places_by_keys: by_keys,
        ..Options::default()
    };
    let mut plan = analyze_with(
        application.catalog(),
        application.summaries(),
        &options_of_analysis,
    );
    if application.procedures.is_empty() {
        for (placement, table) in plan.placements.iter_mut().zip(&application.schema().tables) {
            *placement = Placement::Columns(table.primary_key.to_vec());
        }
    }
    let planned = PlannedApplication::new(application, plan, PARTITIONS);
    let store = |partition| {
        let loader = Loader::new(
            Arc::clone(&planned),
            PartitionId(partition),
            StoreSettings::default(),
        );
        loader.into_store()
    };
    let stores = (0..PARTITIONS).map(store).collect();
    let data = path.map(|path| {
        let description = folder::description(&planned, guarantee, &sources, 0);
        let data = DataFolder::open(path, &description).expect("the folder is this database's");
        if data.is_new() {
            folder::write_application(path, &sources).expect("it writes");
        }
        data
    });
    let served = Served {
        planned: Arc::clone(&planned),
        guarantee,
        analysis: anabranch_analysis::Options::default(),
        stores,
        data,
    };
    Service::start(served, options)
}

/// Starts a server with what a folder holds.
pub(crate) fn restart(scratch: &Scratch) -> Service {
    let (service, lost) = restart_losing(scratch);
    assert!(lost.is_empty(), "{lost:?}");
    service
}

/// The same, with the reasons why accepted transactions are left out.
pub(crate) fn restart_losing(scratch: &Scratch) -> (Service, Vec<String>) {
    let held = folder::held(&scratch.0)
        .expect("it reads")
        .expect("it holds a database");
    let catalog = anabranch_sql::load(held.files.clone()).expect("it loads");
    let application = anabranch_sql::Application::compile(catalog).expect("it compiles");
    let (planned, lost) = plan_accepting(
        application,
        (held.partitions, held.guarantee),
        held.rows(),
        &held.accepted,
    );
    let unread = held.unread.iter().map(|(_, reason)| reason.clone());
    let lost = unread.chain(lost.into_iter().map(|(_, reason)| reason));
    let lost = lost.collect();
    let description = held.description(&planned, &held.files);
    let data = DataFolder::open(&scratch.0, &description)
        .and_then(|data| data.at_generation(held.generation))
        .expect("it opens");
    let empty = || Store::new(planned.schema(), StoreSettings::default());
    let served = Served {
        stores: (0..held.partitions).map(|_| empty()).collect(),
        guarantee: held.guarantee,
        analysis: anabranch_analysis::Options::default(),
        data: Some(data),
        planned,
    };
    let service = Service::start(served, options()).expect("it starts");
    (service, lost)
}

/// A shop without procedures: any statement, serializable.
pub(crate) fn open() -> Service {
    start_with(&[SHOP], Guarantee::Serializable, options())
}

/// A shop with procedures under its plan.
pub(crate) fn planned() -> Service {
    start_with(&[SHOP, PROCEDURES], Guarantee::Invariants, options())
}

pub(crate) fn connect(service: &Service) -> Client {
    connect_to(service.address())
}

pub(crate) fn connect_to(address: SocketAddr) -> Client {
    let text = format!(
        "host=127.0.0.1 port={} user=ann dbname=anabranch",
        address.port()
    );
    Client::connect(&text, NoTls).expect("it connects")
}

pub(crate) fn message(error: &postgres::Error) -> &str {
    error
        .as_db_error()
        .map_or("no message", |error| error.message())
}

pub(crate) fn code(error: &postgres::Error) -> &str {
    error.code().map_or("no SQLSTATE", SqlState::code)
}

/// A client that keeps what it is told: messages and details.
pub(crate) fn told(service: &Service) -> (Client, Arc<Mutex<Vec<String>>>) {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&notices);
    let mut config = Config::new();
    config
        .host("127.0.0.1")
        .port(service.address().port())
        .user("ann")
        .dbname("anabranch")
        .notice_callback(move |notice| {
            let detail = notice.detail().unwrap_or_default();
            let line = format!("{}: {detail}", notice.message());
            kept.lock().expect("no test has failed").push(line);
        });
    (config.connect(NoTls).expect("it connects"), notices)
}

pub(crate) fn take(notices: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *notices.lock().expect("no test has failed"))
}
