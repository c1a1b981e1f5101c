//! `anabranch serve --belt SERVERS --at NAME FILES`: a middleware beside one of the servers of a ring.

use std::error::Error;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anabranch_dbms::belt::Trouble;
use anabranch_dbms::postgres::closed::{self, Change};
use anabranch_dbms::postgres::inspect::installation;
use anabranch_dbms::postgres::relocate::{
    Membership as ServersOfRing, membership as read_membership,
};
use anabranch_dbms::postgres::ring::{PostgresDatabase, blockers};
use anabranch_dbms::postgres::{Address, explain, install};
use anabranch_dbms::servers::ServerEntry;
use anabranch_dbms::{Servers, servers};
use anabranch_middleware::peers::Membership;
use anabranch_middleware::recognise::Recogniser;
use anabranch_middleware::service::Blockers;
use anabranch_middleware::{Ring, RingOptions, Service, ServiceOptions, Site};
use anabranch_protocol::belt::{Acknowledge, BeltOptions, ServerId};
use postgres::Client;

use super::parts::types;
use super::{CONNECT_MAX, Verdict, writes};
use crate::cli::input::InputArguments;
use crate::cli::output::{complain, say};
use crate::cli::signals::signals;

/// The least time between two messages of the same trouble.
const TOLD_EVERY: std::time::Duration = std::time::Duration::from_secs(10);

/// What a middleware is started with.
pub(crate) struct Middleware<'a> {
    pub(crate) servers: &'a Path,
    pub(crate) at: &'a str,
    pub(crate) paths: &'a [PathBuf],
    pub(crate) weights: Option<&'a Path>,
    pub(crate) connections_max: usize,
    pub(crate) message_bytes_max: usize,
    pub(crate) answer_bytes_max: usize,
}

/// Runs a middleware until it is told to end.
pub(crate) fn serve(of: &Middleware<'_>) -> Result<Verdict, Box<dyn Error>> {
    let servers = Servers::read(of.servers)?;
    let names: Vec<&str> = servers.server.iter().map(|s| s.name.as_str()).collect();
    let Some(place) = names.iter().position(|name| *name == of.at) else {
        return Err(format!(
            "error: --at {}: {} has no such server; it has {}",
            of.at,
            of.servers.display(),
            names.join(", ")
        )
        .into());
    };
    if of.paths.is_empty() {
        return Err(
            "error: name the files of the application that the belt was installed for".into(),
        );
    }
    let entry = &servers.server[place];
    let address = Address::parse(&entry.database)?;
    let home = address.endpoint()?;
    let mut input = InputArguments::of_paths(of.paths, of.weights)?;
    input.partition_among(servers.server.len(), writes(&servers));
    let read = input.read()?;
    if read.plan.entries.is_empty() {
        return Err(input.nothing_found(&read.script).into());
    }
    let mut client = address.connect(CONNECT_MAX)?;
    let ring = ring_of(&servers.server);
    check_installed(&mut client, &servers, place, &types(&read), &[ring])?;
    let shipped = install::captured(&mut client)
        .map_err(|error| format!("error: {}: {}", of.at, explain(&error)))?;
    let recogniser =
        Recogniser::new(&read.script, &read.plan, &servers)?.with_shipped_tables(shipped);
    let sites: Result<Vec<Site>, String> = servers.server.iter().map(Site::new).collect();
    let sites = sites?;
    let own = ServerId(u16::try_from(place)?);
    let ended = signals()?;
    let listening = |address: &str, what: &str| {
        TcpListener::bind(address)
            .map_err(|error| format!("error: {what} = \"{address}\" of {}: {error}", of.at))
    };
    let listener = listening(&entry.listen, "listen")?;
    let ring_listener = listening(&entry.ring, "ring")?;
    // Looked at behind the ports: `belt remove --gather` makes it, and then looks at the ports.
    check_open(&mut client, of.at)?;
    // A ring that is open does not change.
    let owners = membership_of(&mut client, of.at)?.owners;
    let recogniser = recogniser.with_owners(&owners);
    drop(client);
    let ring = Ring::start(
        &membership(&servers, place)?,
        ring_listener,
        Box::new(connector(&entry.database)),
        RingOptions {
            belt: BeltOptions {
                acknowledge: match servers.acknowledge {
                    servers::Acknowledge::Commit => Acknowledge::Commit,
                    servers::Acknowledge::Next => Acknowledge::Next,
                },
                ..BeltOptions::default()
            },
            ..RingOptions::default()
        },
        tell(of.at.to_owned()),
    )?;
    let service = Service::start(
        listener,
        home,
        sites,
        ring,
        recogniser,
        watching(&entry.database, blockers),
        ServiceOptions {
            operator: address.user().map(str::to_owned),
            connections_max: of.connections_max,
            message_bytes_max: of.message_bytes_max,
            answer_bytes_max: of.answer_bytes_max,
            reads_own_writes: servers.read_own_writes,
            ..ServiceOptions::of(own)
        },
    )?;
    let listen = service.address();
    say!(
        "The middleware of {at} serves PostgreSQL's protocol on {listen}\n\n  \
         database   {database}\n  \
         ring       {ring}: {names}\n  \
         operations {types} types; what fits none is {unknown}\n\n  \
         psql -h {host} -p {port} {name}\n",
        at = of.at,
        database = address.typed,
        ring = entry.ring,
        names = names.join(", "),
        types = read.plan.entries.len(),
        unknown = match servers.unknown {
            servers::Unknown::Global => "global",
            servers::Unknown::Refuse => "refused",
        },
        host = listen.ip(),
        port = listen.port(),
        name = home_name(&address)?,
    )?;
    // An error: nothing can tell it to end any more.
    let _ = ended.recv();
    drop(service);
    say!("Stopped.\n")?;
    Ok(Verdict::Fine)
}

fn home_name(address: &Address) -> Result<String, String> {
    Ok(address.endpoint()?.database)
}

/// Refuses to serve a ring that is being taken away.
fn check_open(client: &mut Client, name: &str) -> Result<(), String> {
    let closed =
        closed::closed(client).map_err(|error| format!("error: {name}: {}", explain(&error)))?;
    let Some(closed) = closed else {
        return Ok(());
    };
    let target = closed.target;
    Err(match closed.change {
        Change::Gather => format!(
            "error: {name}: the ring is being taken away, and its rows are gathered on {target}: repeat anabranch belt remove \
             --gather {target}. To go on with the ring instead, if {target} still has the belt: DROP TABLE anabranch.closed, on \
             each server"
        ),
        Change::Join => format!(
            "error: {name}: {target} is joining the ring: repeat anabranch belt add-server with {target}. To go on without it \
             instead, if it has no schema anabranch: DROP TABLE anabranch.closed, on each of the other servers"
        ),
        Change::Leave => format!(
            "error: {name}: {target} is leaving the ring: repeat anabranch belt remove-server with {target}"
        ),
        Change::Migrate | Change::Migrated => format!(
            "error: {name}: the schema of the ring is changing, by {target}: repeat anabranch belt migrate with this script"
        ),
    })
}

/// Which servers have what, as the database of a server that has the belt says.
pub(super) fn membership_of(client: &mut Client, name: &str) -> Result<ServersOfRing, String> {
    let found =
        read_membership(client).map_err(|error| format!("error: {name}: {}", explain(&error)))?;
    found.ok_or_else(|| format!("error: {name}: the belt is not installed there"))
}

/// The text that names a ring on its servers.
pub(super) fn ring_of(servers: &[ServerEntry]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    names.join(",")
}

/// Refuses to serve what the belt was not installed for. `rings` are the names that the ring may have there.
pub(super) fn check_installed(
    client: &mut Client,
    servers: &Servers,
    place: usize,
    types: &[install::InstalledType],
    rings: &[String],
) -> Result<(), Box<dyn Error>> {
    let entry = &servers.server[place];
    let name = &entry.name;
    let (installed, digest) =
        installation(client).map_err(|error| format!("error: {name}: {error}"))?;
    let Some(installed) = installed else {
        return Err(format!(
            "error: {name}: the belt is not installed in its database: anabranch belt install"
        )
        .into());
    };
    if installed.name != *name || !rings.contains(&installed.ring) {
        return Err(format!(
            "error: {name}: its database was installed as {} of the ring {}, and the file says {name} of {}",
            installed.name,
            installed.ring,
            rings.join(" or ")
        )
        .into());
    }
    if installed.digest != digest {
        return Err(format!(
            "error: {name}: the schema has changed since the belt was installed: make it as it was, or install the belt \
             again on all servers"
        )
        .into());
    }
    let slots: i16 = client
        .query_one("SELECT slots FROM anabranch.server", &[])
        .map_err(|error| format!("error: {name}: {}", explain(&error)))?
        .get(0);
    if i32::from(slots) != i32::from(servers.slots) {
        return Err(format!(
            "error: {name}: the belt was installed with slots = {slots}, and the file has slots = {}",
            servers.slots
        )
        .into());
    }
    let there =
        install::types(client).map_err(|error| format!("error: {name}: {}", explain(&error)))?;
    let differs = types
        .iter()
        .find(|of| !there.contains(of))
        .or_else(|| there.iter().find(|of| !types.contains(of)));
    if let Some(differs) = differs {
        return Err(format!(
            "error: {name}: the belt was installed for another application: {} is not the same there; serve the files, \
             the weights, and the setting writes, that it was installed with, or install it again on all servers",
            differs.name
        )
        .into());
    }
    Ok(())
}

/// Connects to the own database, again after each lost connection.
fn connector(database: &str) -> impl FnMut() -> Result<PostgresDatabase, Trouble> + Send + 'static {
    let database = database.to_owned();
    move || {
        let client = Address::parse(&database)
            .and_then(|address| address.connect(CONNECT_MAX))
            .map_err(|error| Trouble::Lost(error.trim_start_matches("error: ").to_owned()))?;
        PostgresDatabase::new(client)
    }
}

/// Looks by a connection of its own for what stands in the way, on the database with this address. A lost connection is made
/// again at the next look.
pub(super) fn watching(
    database: &str,
    look: fn(&mut Client, &[i32]) -> Result<Vec<i32>, postgres::Error>,
) -> Blockers {
    let database = database.to_owned();
    let mut watcher: Option<Client> = None;
    Box::new(move |held| {
        if watcher.is_none() {
            let address = Address::parse(&database).ok();
            watcher = address.and_then(|address| address.connect(CONNECT_MAX).ok());
        }
        match watcher.as_mut().map(|client| look(client, held)) {
            Some(Ok(found)) => found,
            Some(Err(_)) | None => {
                watcher = None;
                Vec::new()
            }
        }
    })
}

/// Tells of troubles, the same one not too often.
pub(super) fn tell(at: String) -> impl FnMut(&Trouble) + Send + 'static {
    let last: Mutex<Option<(String, Instant)>> = Mutex::new(None);
    move |trouble| {
        // Two servers that change the same rows are nothing to tell.
        if matches!(trouble, Trouble::Aborted(_)) {
            return;
        }
        let text = trouble.to_string();
        let mut last = last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_new = last
            .as_ref()
            .is_none_or(|(told, when)| *told != text || when.elapsed() > TOLD_EVERY);
        if is_new {
            complain(&format!("{at}: {text}; trying again"));
            *last = Some((text, Instant::now()));
        }
    }
}

fn membership(servers: &Servers, place: usize) -> Result<Membership, String> {
    let mut others = Vec::new();
    for (other, entry) in servers.server.iter().enumerate() {
        if other == place {
            continue;
        }
        let address = entry
            .ring
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| {
                format!(
                    "error: {}: ring = \"{}\" is not an address and a port",
                    entry.name, entry.ring
                )
            })?;
        others.push((ServerId(other as u16), address));
    }
    let names: Vec<&str> = servers.server.iter().map(|s| s.name.as_str()).collect();
    Ok(Membership {
        ring: names.join(","),
        own: ServerId(place as u16),
        others,
    })
}
