//! `anabranch serve --belt-embedded N FILES`: a ring of N databases of our own in this process, with a middleware before
//! each.

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_analysis::partition::{Distribution, Writes};
use anabranch_bench::application;
use anabranch_dbms::belt::{Changes, Database, Trouble};
use anabranch_dbms::postgres::{Address, explain};
use anabranch_dbms::{Servers, own};
use anabranch_engine::{BELT_TABLES, BeltAnswer, BeltTables, BeltWork, CallError, TableDigest};
use anabranch_middleware::peers::Membership;
use anabranch_middleware::recognise::Recogniser;
use anabranch_middleware::{Ring, RingOptions, Service, ServiceOptions, Site};
use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{Epoch, Hop, ServerId, Standing, Token};
use anabranch_server::service::folder::RowsBefore;
use anabranch_server::service::ring::{
    BeltConnection, BeltError, BeltSource, RingDescription, RingPlace, RingType,
};
use anabranch_server::service::{self, DATABASE, Guarantee, Served, plan_application};
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::TableId;
use postgres::{Client, SimpleQueryMessage};

use super::parts::{Held, held, types};
use super::serve::{tell, watching};
use super::{CONNECT_MAX, Verdict};
use crate::cli::input::{Input, InputArguments};
use crate::cli::output::say;
use crate::cli::signals::signals;

/// The most databases of a ring in one process.
pub(crate) const SERVERS_MAX: u16 = 16;

/// What a ring is started with.
pub(crate) struct Embedded<'a> {
    /// How many databases.
    pub(crate) servers: u16,
    /// Where the first middleware listens; the others at the next ports. Port 0: each at any free port.
    pub(crate) listen: SocketAddr,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) weights: Option<&'a Path>,
    /// Statements that each database runs before the ring begins.
    pub(crate) load: Option<&'a Path>,
    /// The settings of each database's server.
    pub(crate) options: service::ServiceOptions,
}

/// A server of the ring: its database, which ends after its middleware.
struct Member {
    middleware: Service,
    database: service::Service,
}

/// Runs a ring until it is told to end.
pub(crate) fn serve(of: &Embedded<'_>) -> Result<Verdict, Box<dyn Error>> {
    if of.paths.is_empty() {
        return Err(
            "error: name the files of the application: what is local follows from them".into(),
        );
    }
    if !of.listen.ip().is_loopback() {
        return Err(format!(
            "error: --listen {}: there are no passwords yet, so only this machine's own addresses are served",
            of.listen
        )
        .into());
    }
    let mut input = InputArguments::of_paths(of.paths, of.weights)?;
    input.partition_among(usize::from(of.servers), Writes::Partitioned);
    let read = input.read()?;
    if read.plan.entries.is_empty() {
        return Err(input.nothing_found(&read.script).into());
    }
    let tables = replicated(&read)?;
    let files = application::read_sources(of.paths)?;
    let ended = signals()?;
    let mut databases = Vec::new();
    let description = Arc::new(description(of.servers, &read));
    for place in 0..of.servers {
        databases.push(database(of, place, &files, &tables, &description)?);
    }
    if let Some(file) = of.load {
        compare(&databases, file, &tables)?;
    }
    for (place, database) in (0..).zip(&databases) {
        let create = BeltWork::Create {
            server: ServerId(place),
            members: (0..of.servers).map(ServerId).collect(),
        };
        run(&database.service, create)?;
    }
    let databases: Vec<service::Service> = databases.into_iter().map(|of| of.service).collect();
    let listeners = listeners(of)?;
    let mut rings = Vec::new();
    for _ in 0..of.servers {
        rings.push(TcpListener::bind(("127.0.0.1", 0))?);
    }
    let servers = described(&databases, &listeners, &rings)?;
    let shipped: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    let mut members = Vec::new();
    let each = databases.into_iter().zip(listeners).zip(rings);
    for (place, ((database, listener), ring)) in (0..).zip(each) {
        let recogniser = Recogniser::new(&read.script, &read.plan, &servers)?;
        let recogniser = recogniser.with_shipped_tables(shipped.clone());
        members.push(member(
            &servers,
            place,
            database,
            (listener, ring),
            recogniser,
            of,
        )?);
    }
    say!(
        "A ring of {} databases in this process, in memory: what is written is lost when it ends\n\n  \
         operations {} types; what fits none is global\n  \
         tables     {} of {} are on all servers, {} in part\n\n",
        of.servers,
        read.plan.entries.len(),
        tables.iter().filter(|table| table.is_whole).count(),
        read.script.application.catalog().schema.tables.len(),
        tables.iter().filter(|table| !table.is_whole).count(),
    )?;
    for (entry, member) in servers.server.iter().zip(&members) {
        let at = member.middleware.address();
        say!(
            "  {}   psql -h {} -p {} {DATABASE}\n",
            entry.name,
            at.ip(),
            at.port()
        )?;
    }
    // An error: nothing can tell it to end any more.
    let _ = ended.recv();
    let mut left = Vec::new();
    for member in members {
        drop(member.middleware);
        left.push(member.database);
    }
    for database in left {
        database.stop()?;
    }
    say!("Stopped.\n")?;
    Ok(Verdict::Fine)
}

/// What `anabranch.ring`, `lag` and `types` say of the ring.
fn description(servers: u16, read: &Input) -> RingDescription {
    let types = types(read).into_iter().map(|of| RingType {
        name: of.name,
        class: of.class,
        parameters: of.parameters,
    });
    RingDescription {
        servers: (0..servers).map(name).collect(),
        types: types.collect(),
    }
}

/// The name of the server with this place.
fn name(place: u16) -> String {
    format!("site{}", place + 1)
}

/// The tables whose changes by global operations all servers get; an error if some cannot be captured.
fn replicated(input: &Input) -> Result<Vec<Held>, Box<dyn Error>> {
    let Some(partitioning) = &input.plan.partitioning else {
        return Err("error: the operations of these files cannot be partitioned".into());
    };
    let catalog = input.script.application.catalog();
    let mut objections: Vec<String> = Vec::new();
    let needed = held(input, partitioning).into_iter().filter(|table| {
        !matches!(
            table.distribution,
            Distribution::Anywhere | Distribution::By(_) | Distribution::Scattered
        )
    });
    let needed: Vec<Held> = needed.collect();
    for table in &needed {
        let schema = catalog
            .schema
            .tables
            .iter()
            .find(|of| of.name == table.name);
        if schema.is_none_or(|schema| schema.primary_key.is_empty()) {
            objections.push(format!(
                "{} has no primary key, and each table that all servers have needs one here",
                table.name
            ));
        }
    }
    for sequence in catalog.all_sequences() {
        if sequence.options.increment != 1 {
            objections.push(format!(
                "the sequence {} counts in steps of {}, and its numbers cannot be told apart by server: use steps of 1",
                sequence.name, sequence.options.increment
            ));
        }
        if sequence.options.cycles {
            objections.push(format!(
                "the sequence {} begins again at its end, and its numbers would then be those of other servers: use NO CYCLE",
                sequence.name
            ));
        }
    }
    match objections.is_empty() {
        true => Ok(needed),
        false => Err(format!("error: {}", objections.join("\nerror: ")).into()),
    }
}

/// A database that is under way, and its tables in the order of the replicated ones.
struct Started {
    service: service::Service,
    compared: Vec<TableId>,
}

/// Starts one database, with what it has to be loaded with.
fn database(
    of: &Embedded<'_>,
    place: u16,
    files: &[SourceFile],
    tables: &[Held],
    description: &Arc<RingDescription>,
) -> Result<Started, Box<dyn Error>> {
    let mut files = files.to_vec();
    files.push(SourceFile::new("anabranch.sql", BELT_TABLES));
    let compiled = application::compile(files)?;
    // Changes of other servers would fire them again.
    if let Some(trigger) = compiled.catalog().triggers.first() {
        let name = &trigger.name;
        let error = format!(
            "error: trigger \"{name}\": an embedded ring has no triggers; leave it out, or use PostgreSQL servers (--belt)"
        );
        return Err(error.into());
    }
    // Clients may write every table: none is left without locks.
    let replicated = std::collections::BTreeSet::new();
    let rows = RowsBefore {
        replicated: Some(&replicated),
        placements: None,
    };
    let planned = plan_application(compiled, (1, Guarantee::Serializable), rows);
    let is_whole = |name: &str| {
        let found = tables.iter().find(|table| table.name == name);
        found.map(|table| table.is_whole)
    };
    let belt = BeltTables::new(planned.schema(), is_whole).map_err(|e| format!("error: {e}"))?;
    let schema = planned.schema();
    let number = |table: &Held| {
        let found = schema.tables.iter().find(|of| of.name == table.name);
        found.map(|found| found.id)
    };
    let compared = tables.iter().filter_map(number).collect();
    let store = Store::new(schema, StoreSettings::default());
    let served = Served {
        planned,
        guarantee: Guarantee::Serializable,
        analysis: anabranch_analysis::Options::default(),
        stores: vec![store],
        data: None,
    };
    let ring = RingPlace {
        tables: Arc::new(belt),
        place,
        slots: anabranch_dbms::servers::SLOTS,
        description: Arc::clone(description),
    };
    let options = service::ServiceOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        ..of.options
    };
    let service = service::Service::start_in_ring(served, ring, options)
        .map_err(|error| format!("error: {error}"))?;
    if let Some(file) = of.load {
        load(&service, file)?;
    }
    Ok(Started { service, compared })
}

fn run(service: &service::Service, work: BeltWork) -> Result<BeltAnswer, String> {
    let answer = service.belt().connect().and_then(|mut belt| belt.run(work));
    answer.map_err(|error| format!("error: {error}"))
}

/// Checks that what the databases have loaded is the same in each table that all servers have, or has parts that they have.
fn compare(databases: &[Started], file: &Path, tables: &[Held]) -> Result<(), String> {
    let mut first: Option<Vec<TableDigest>> = None;
    for (place, database) in databases.iter().enumerate() {
        let digest = BeltWork::Digest(database.compared.clone());
        let digests = match run(&database.service, digest)? {
            BeltAnswer::Digested(digests) => digests,
            other => return Err(format!("error: a transaction of the belt gave {other:?}")),
        };
        let Some(first) = &first else {
            first = Some(digests);
            continue;
        };
        let each = tables.iter().zip(first.iter().zip(&digests));
        let differ: Vec<&str> = each
            .filter(|(_, (one, other))| one != other)
            .map(|(table, _)| table.name.as_str())
            .collect();
        if !differ.is_empty() {
            return Err(format!(
                "error: --load {}: site1 and site{} have other rows of {} after it: each runs the file itself, so numbers of \
                 sequences, now(), random() and gen_random_uuid() differ; write the values out",
                file.display(),
                place + 1,
                differ.join(", ")
            ));
        }
    }
    Ok(())
}

/// Has a database run a file of statements, as one transaction.
fn load(service: &service::Service, file: &Path) -> Result<(), String> {
    let shown = file.display();
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("error: --load {shown}: {error}"))?;
    let address = format!("postgresql://anabranch@{}/{DATABASE}", service.address());
    let mut client = Address::parse(&address)?.connect(CONNECT_MAX)?;
    client
        .batch_execute(&text)
        .map_err(|error| format!("error: --load {shown}: {}", explain(&error)))
}

/// Where the middlewares listen.
fn listeners(of: &Embedded<'_>) -> Result<Vec<TcpListener>, String> {
    let at = |place: u16| {
        let port = match of.listen.port() {
            0 => 0,
            first => first.checked_add(place).ok_or_else(|| {
                format!(
                    "error: --listen {}: there are no {} ports from there on",
                    of.listen, of.servers
                )
            })?,
        };
        let address = SocketAddr::new(of.listen.ip(), port);
        TcpListener::bind(address).map_err(|error| format!("error: --listen {address}: {error}"))
    };
    (0..of.servers).map(at).collect()
}

/// The ring as the file of servers would have it.
fn described(
    databases: &[service::Service],
    listeners: &[TcpListener],
    rings: &[TcpListener],
) -> Result<Servers, Box<dyn Error>> {
    let mut text = String::new();
    for (place, database) in databases.iter().enumerate() {
        text.push_str(&format!(
            "[[server]]\nname = \"{}\"\ndatabase = \"postgresql://anabranch@{}/{DATABASE}\"\nlisten = \"{}\"\nring = \"{}\"\n",
            name(u16::try_from(place)?),
            database.address(),
            listeners[place].local_addr()?,
            rings[place].local_addr()?,
        ));
    }
    Ok(Servers::parse(&text)?)
}

/// Starts the middleware of a database.
fn member(
    servers: &Servers,
    place: u16,
    database: service::Service,
    (listener, ring): (TcpListener, TcpListener),
    recogniser: Recogniser,
    of: &Embedded<'_>,
) -> Result<Member, Box<dyn Error>> {
    let entry = &servers.server[usize::from(place)];
    let address = Address::parse(&entry.database)?;
    let mut others = Vec::new();
    for (other, entry) in (0..).zip(&servers.server) {
        if other != place {
            others.push((ServerId(other), entry.ring.parse::<SocketAddr>()?));
        }
    }
    let names: Vec<&str> = servers.server.iter().map(|of| of.name.as_str()).collect();
    let membership = Membership {
        ring: names.join(","),
        own: ServerId(place),
        others,
    };
    let source = database.belt();
    let ring = Ring::start(
        &membership,
        ring,
        Box::new(move || OwnDatabase::connect(&source)),
        RingOptions::default(),
        tell(entry.name.clone()),
    )?;
    let sites: Result<Vec<Site>, String> = servers.server.iter().map(Site::new).collect();
    let home = address.endpoint()?;
    let middleware = Service::start(
        listener,
        home,
        sites?,
        ring,
        recogniser,
        watching(&entry.database, blockers),
        ServiceOptions {
            statements: own::STATEMENTS,
            connections_max: of.options.connections_max,
            message_bytes_max: of.options.message_bytes_max,
            answer_bytes_max: of.options.result_bytes_max,
            ..ServiceOptions::of(ServerId(place))
        },
    )?;
    Ok(Member {
        middleware,
        database,
    })
}

/// The connections that block one of the given ones. What other servers have done is blocked by none: transactions of
/// the belt go first.
fn blockers(client: &mut Client, held: &[i32]) -> Result<Vec<i32>, postgres::Error> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client.simple_query("SELECT pid, blocked_by FROM anabranch.transactions")?;
    let mut blockers = Vec::new();
    for row in rows {
        let SimpleQueryMessage::Row(row) = row else {
            continue;
        };
        let process = row.get(0).and_then(|pid| pid.parse::<i32>().ok());
        if process.is_some_and(|process| held.contains(&process)) {
            let by = row.get(1).unwrap_or_default().split(',');
            blockers.extend(by.filter_map(|pid| pid.trim().parse::<i32>().ok()));
        }
    }
    Ok(blockers)
}

/// The database of a server of the ring, for the belt's transactions.
struct OwnDatabase {
    connection: BeltConnection,
}

impl OwnDatabase {
    fn connect(source: &BeltSource) -> Result<OwnDatabase, Trouble> {
        let connection = source.connect().map_err(trouble)?;
        Ok(OwnDatabase { connection })
    }

    fn run(&mut self, work: BeltWork) -> Result<BeltAnswer, Trouble> {
        self.connection.run(work).map_err(trouble)
    }
}

fn trouble(error: BeltError) -> Trouble {
    let text = error.to_string();
    match error {
        BeltError::Refused(error) if error.is_retryable() || error.code() == "40001" => {
            Trouble::Aborted(text)
        }
        BeltError::Refused(CallError::InDoubt) | BeltError::Ended(_) => Trouble::Lost(text),
        BeltError::Refused(_) => Trouble::Failed(text),
    }
}

/// A transaction of the belt has given another one's answer.
fn unexpected(answer: &BeltAnswer) -> Trouble {
    Trouble::Failed(format!("a transaction of the belt gave {answer:?}"))
}

impl Database for OwnDatabase {
    fn standing(&mut self) -> Result<Standing<Changes>, Trouble> {
        match self.run(BeltWork::Standing)? {
            BeltAnswer::Standing(standing) => own::standing(&standing, own::changes),
            other => Err(unexpected(&other)),
        }
    }

    fn receive(&mut self, token: &Token<Changes>) -> Result<Result<(), Refused>, Trouble> {
        match self.run(BeltWork::Receive(own::token(token, own::images)?))? {
            BeltAnswer::Received(received) => Ok(received),
            other => Err(unexpected(&other)),
        }
    }

    fn pass(
        &mut self,
        hold: Hop,
        wishes: &std::collections::BTreeSet<ServerId>,
    ) -> Result<Result<Token<Changes>, Refused>, Trouble> {
        let wishes = wishes.clone();
        match self.run(BeltWork::Pass { hold, wishes })? {
            BeltAnswer::Passed(Ok(token)) => Ok(Ok(own::token(&token, own::changes)?)),
            BeltAnswer::Passed(Err(refused)) => Ok(Err(refused)),
            other => Err(unexpected(&other)),
        }
    }

    fn promise(&mut self, epoch: Epoch) -> Result<Option<Standing<Changes>>, Trouble> {
        match self.run(BeltWork::Promise(epoch))? {
            BeltAnswer::Promised(Some(standing)) => {
                own::standing(&standing, own::changes).map(Some)
            }
            BeltAnswer::Promised(None) => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    fn install(&mut self, epoch: Epoch, members: &[ServerId]) -> Result<bool, Trouble> {
        let members = members.to_vec();
        match self.run(BeltWork::Install { epoch, members })? {
            BeltAnswer::Installed(done) => Ok(done),
            other => Err(unexpected(&other)),
        }
    }
}
