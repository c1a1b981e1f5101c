//! The file that describes the servers of a ring: `servers.toml`.
//!
//! ```toml
//! slots = 16                 # residues of generated keys; at least the number of servers
//! applications = ["shop"]    # the roles of applications
//! unknown = "global"         # what fits no transaction type is global; or "refuse"
//! acknowledge = "commit"     # a global operation is answered once it has committed; or "next": once the next server has it
//! writes = "partitioned"     # an operation that no other server depends on writes on one alone; or "everywhere": on all
//! read_own_writes = true     # a connection finds what it has written, at whichever server
//!
//! [[server]]
//! name = "germany"
//! database = "postgresql://belt@10.0.0.1/shop"       # the middleware's role
//! install = "postgresql://postgres@10.0.0.1/shop"    # the role that installs; `database` if it is not given
//! listen = "0.0.0.0:6432"                            # where applications connect
//! ring = "10.0.0.1:6433"                             # where the other middlewares connect
//! ```

use std::path::Path;

use serde::Deserialize;

use crate::postgres::{Address, without_password};

/// The default of `slots`.
pub const SLOTS: u16 = 16;

/// The most servers of a ring.
pub const SERVERS_MAX: usize = 64;

/// The servers of a ring.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    /// How many residues generated keys have. More servers than that cannot be told apart by their keys.
    #[serde(default = "slots")]
    pub slots: u16,
    /// What becomes of an operation that fits no transaction type.
    #[serde(default)]
    pub unknown: Unknown,
    /// When a global operation is answered.
    #[serde(default)]
    pub acknowledge: Acknowledge,
    /// Where operations write.
    #[serde(default)]
    pub writes: Writes,
    /// Whether an operation waits for what its connection has written at another server.
    #[serde(default = "read_own_writes")]
    pub read_own_writes: bool,
    /// The roles of applications, beside the middleware's own.
    #[serde(default)]
    pub applications: Vec<String>,
    /// The servers, in the order of their places.
    #[serde(default)]
    pub server: Vec<ServerEntry>,
}

/// What becomes of an operation that fits no transaction type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// It is global.
    #[default]
    Global,
    /// It is refused.
    Refuse,
}

/// Where operations write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Where their keys' rows are, if no operation of another server depends on them.
    #[default]
    Partitioned,
    /// On all servers: each operation that writes is global.
    Everywhere,
}

/// When a global operation is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// When its server has committed it: durable on one disk.
    #[default]
    Commit,
    /// When the next server has it, too: durable on two disks.
    Next,
}

/// One server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Its name: letters, digits and hyphens.
    pub name: String,
    /// The address of its database, with the role of the middleware.
    pub database: String,
    /// The address of its database, with a role that may create triggers and alter sequences.
    pub install: Option<String>,
    /// Where its middleware waits for applications.
    pub listen: String,
    /// Where its middleware waits for the other middlewares.
    pub ring: String,
}

fn slots() -> u16 {
    SLOTS
}

fn read_own_writes() -> bool {
    true
}

impl Servers {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML of this form, or describes no ring; the message says where and why.
    pub fn read(file: &Path) -> Result<Servers, String> {
        let shown = file.display();
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("error: {shown}: {error}"))?;
        Servers::parse(&text).map_err(|error| format!("error: {shown}: {error}"))
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// When it is not TOML of this form, or describes no ring.
    pub fn parse(text: &str) -> Result<Servers, String> {
        let servers: Servers = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or(String::new(), |line| format!("line {line}: "));
            format!("{place}{}", error.message())
        })?;
        let count = servers.server.len();
        if count == 0 {
            return Err("it has no [[server]]".to_owned());
        }
        if count > SERVERS_MAX {
            return Err(format!(
                "it has {count} servers, and {SERVERS_MAX} are the most"
            ));
        }
        if usize::from(servers.slots) < count || servers.slots > 1_024 {
            return Err(format!(
                "slots = {}: it has to be at least the number of servers, {count}, and at most 1024",
                servers.slots
            ));
        }
        for (place, server) in servers.server.iter().enumerate() {
            let name = &server.name;
            if name.is_empty()
                || name.len() > 40
                || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            {
                return Err(format!(
                    "the server's name \"{name}\" is not 1 to 40 letters, digits and hyphens"
                ));
            }
            for address in std::iter::once(&server.database).chain(&server.install) {
                Address::parse(address)
                    .map_err(|error| error.trim_start_matches("error: ").to_owned())?;
            }
            for other in &servers.server[..place] {
                let database = without_password(&server.database);
                for (what, one, same) in [
                    ("name", name.clone(), other.name == *name),
                    ("database", database, other.database == server.database),
                    (
                        "listen",
                        server.listen.clone(),
                        other.listen == server.listen,
                    ),
                    ("ring", server.ring.clone(), other.ring == server.ring),
                ] {
                    if same {
                        return Err(format!(
                            "two servers have the same {what}, {one}: each needs its own"
                        ));
                    }
                }
            }
        }
        Ok(servers)
    }
}

impl ServerEntry {
    /// Where other middlewares reach this one's applications' port, as `host:port`: where it listens, or, if it listens
    /// on all addresses, at the host of `ring`.
    pub fn reached_at(&self) -> String {
        let listen = self.listen.rsplit_once(':');
        let ring = self.ring.rsplit_once(':');
        match (listen, ring) {
            (Some(("0.0.0.0" | "[::]" | "*" | "", port)), Some((host, _))) => {
                format!("{host}:{port}")
            }
            _ => self.listen.clone(),
        }
    }

    /// The address of the role that installs.
    ///
    /// # Errors
    /// When it is not an address.
    pub fn installer(&self) -> Result<Address, String> {
        Address::parse(self.install.as_ref().unwrap_or(&self.database))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[server]]\nname = \"a\"\ndatabase = \"postgresql://u@h/a\"\nlisten = \"1\"\nring = \"2\"\n\
        [[server]]\nname = \"b\"\ndatabase = \"postgresql://u@h/b\"\nlisten = \"3\"\nring = \"4\"\n";

    #[test]
    fn a_ring_is_read() {
        let servers = Servers::parse(TWO).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(servers.slots, SLOTS);
        assert_eq!(servers.server[1].name, "b");
        assert_eq!(servers.unknown, Unknown::Global);
        assert_eq!(servers.writes, Writes::Partitioned);
        assert!(servers.read_own_writes);
        let everywhere = Servers::parse(&format!("writes = \"everywhere\"\n{TWO}"));
        assert_eq!(everywhere.expect("it is read").writes, Writes::Everywhere);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("", "no [[server]]"),
            ("slots = 1\n", "no [[server]]"),
            (
                &format!("slots = 1\n{TWO}"),
                "at least the number of servers, 2",
            ),
            (
                &TWO.replace("h/b", "h/a"),
                "same database, postgresql://u@h/a",
            ),
            (&TWO.replace("\"b\"", "\"a b\""), "letters, digits"),
            (
                &TWO.replace("ring = \"4\"", "rin = \"4\""),
                "line 10: unknown field `rin`",
            ),
            (
                &TWO.replace("postgresql://u@h/b", "mysql:x"),
                "not the address",
            ),
            (
                &format!("unknown = \"maybe\"\n{TWO}"),
                "line 1: unknown variant `maybe`",
            ),
        ] {
            let error = Servers::parse(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
    }
}
