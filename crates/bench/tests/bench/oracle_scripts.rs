//! Scripts over the wire: PostgreSQL and our server, with one partition and with several, give the same answers to the
//! same statements, one after the other.
//!
//! A file of `scripts` has a statement a line. `2 | ` before it lets a second connection send it; `differs | ` says that the
//! answers differ, which has to be true.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_server::service::folder::RowsBefore;
use anabranch_server::service::{Guarantee, Served, Service, ServiceOptions, plan_application};
use anabranch_sql::Application;
use anabranch_storage::{Store, StoreSettings};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::oracle::Postgres;

const SEQUENCES: &str = include_str!("scripts/sequences.sql");
const CURSORS: &str = include_str!("scripts/cursors.sql");

fn start(partitions: u16) -> Service {
    let catalog = anabranch_sql::load(Vec::new()).expect("nothing is declared");
    let application = Application::compile(catalog).expect("it compiles");
    let guarantee = Guarantee::Serializable;
    let planned: Arc<PlannedApplication> =
        plan_application(application, (partitions, guarantee), RowsBefore::default());
    let empty = || Store::new(planned.schema(), StoreSettings::default());
    let served = Served {
        stores: (0..partitions).map(|_| empty()).collect(),
        guarantee,
        analysis: anabranch_analysis::Options::default(),
        data: None,
        planned,
    };
    let options = ServiceOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    Service::start(served, options).expect("it starts")
}

fn connect(service: &Service) -> Client {
    let address = service.address();
    Config::new()
        .host(&address.ip().to_string())
        .port(address.port())
        .user("ann")
        .dbname("anabranch")
        .connect(NoTls)
        .expect("it connects")
}

/// The rows, or the error, as a person reads them.
fn answer(client: &mut Client, statement: &str) -> String {
    match client.simple_query(statement) {
        Ok(messages) => {
            let mut text = String::new();
            for message in &messages {
                if let SimpleQueryMessage::Row(row) = message {
                    let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                    text.push_str(&columns.collect::<Vec<_>>().join("|"));
                    text.push('\n');
                }
            }
            text
        }
        Err(error) => match error.as_db_error() {
            Some(error) => format!(
                "{} {} ({}) ({})\n",
                error.code().code(),
                error.message(),
                error.detail().unwrap_or_default(),
                error.hint().unwrap_or_default(),
            ),
            None => panic!("{statement}: {error}"),
        },
    }
}

#[test]
fn sequences_are_those_of_postgresql() {
    compare(SEQUENCES);
}

#[test]
fn cursors_that_are_held_are_those_of_postgresql() {
    compare(CURSORS);
}

fn compare(script: &str) {
    for partitions in [1, 3] {
        let mut theirs = Postgres::start();
        let options = theirs.client.batch_execute(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET client_min_messages = error",
        );
        options.expect("it is empty");
        let mut second = theirs.connect();
        let service = start(partitions);
        let (mut ann, mut ben) = (connect(&service), connect(&service));
        let mut wrong = Vec::new();
        let mut alike = 0;
        for line in script.lines() {
            if line.is_empty() || line.starts_with("--") {
                continue;
            }
            let (differs, rest) = match line.strip_prefix("differs | ") {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            let (a, b) = match rest.strip_prefix("2 | ") {
                Some(statement) => (answer(&mut second, statement), answer(&mut ben, statement)),
                None => (answer(&mut theirs.client, rest), answer(&mut ann, rest)),
            };
            alike += usize::from(!differs);
            if (a == b) == differs {
                wrong.push(format!("{line}\n  PostgreSQL: {a}  ours:       {b}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{partitions} partitions, {} wrong:\n{}",
            wrong.len(),
            wrong.join("")
        );
        println!("{partitions} partitions: {alike} alike");
        service.stop().expect("it stops");
    }
}
