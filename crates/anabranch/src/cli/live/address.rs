//! The address of a PostgreSQL database on the command line, and what may be told of it: never its password.

use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};

/// How an address begins.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// The port that is not named where it is the one.
const PORT_USUAL: u16 = 5432;

/// Parameters of an address that are told with it.
const TOLD: [&str; 6] = [
    "connect_timeout",
    "dbname",
    "host",
    "port",
    "sslmode",
    "user",
];

/// A database.
#[derive(Debug)]
pub(crate) struct Address {
    config: Config,
    /// As it was typed, without its password.
    pub(crate) typed: String,
    /// `postgresql://host/database`: what sources are named by.
    pub(crate) name: String,
}

/// Whether a path on the command line is the address of a database.
pub(crate) fn is_address(path: &Path) -> bool {
    let begins = |text: &str| SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    path.to_str().is_some_and(begins)
}

/// An address as it may be shown: without its password, and without parameters that might hold one.
pub(crate) fn without_password(text: &str) -> String {
    let scheme = text.find("://").map_or(0, |at| at + 3);
    let rest = &text[scheme..];
    // Whatever stands before the last @ may be part of a password that was not written as it should be.
    let shown = match (rest.find(':'), rest.rfind('@')) {
        (Some(colon), Some(at)) if colon < at => [&rest[..colon], &rest[at..]].concat(),
        _ => rest.to_owned(),
    };
    let (place, parameters) = shown.split_once('?').unwrap_or((&shown, ""));
    let told: Vec<&str> = parameters
        .split('&')
        .filter(|parameter| {
            let key = parameter.split('=').next().unwrap_or_default();
            TOLD.contains(&key)
        })
        .collect();
    let told = match told.is_empty() {
        true => String::new(),
        false => format!("?{}", told.join("&")),
    };
    format!("{}{place}{told}", &text[..scheme])
}

impl Address {
    /// Reads an address, with the password that the environment has (`PGPASSWORD`) where it has none.
    ///
    /// # Errors
    /// When it is none, or demands TLS.
    pub(crate) fn parse(text: &str) -> Result<Address, String> {
        let typed = without_password(text);
        let parameter = |key: &str| {
            let parameters = text.rsplit_once('?').map_or("", |(_, p)| p).split('&');
            let mut pairs = parameters.filter_map(|pair| pair.split_once('='));
            pairs.find(|(k, _)| *k == key).map(|(_, v)| v.to_owned())
        };
        let environment = |key: &str| std::env::var(key).ok().filter(|v| !v.is_empty());
        let mode = parameter("sslmode").or_else(|| environment("PGSSLMODE"));
        if let Some(mode) = mode.filter(|m| m == "require" || m.starts_with("verify")) {
            return Err(format!(
                "error: {typed}: sslmode={mode} demands TLS, which is not spoken here, and nothing is sent in \
                 the clear instead: go through a tunnel (ssh -L) or the server's own socket, analyze what pg_dump \
                 --schema-only writes, or say sslmode=disable where nobody listens"
            ));
        }
        let mut config = Config::from_str(text).map_err(|error| {
            format!(
                "error: {typed} is no address of a database: {error}; it is written \
                 postgresql://user@host:port/database"
            )
        })?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(format!(
                "error: {typed} demands TLS, which is not spoken here"
            ));
        }
        if let (None, Some(password)) = (config.get_password(), environment("PGPASSWORD")) {
            config.password(password);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!(
                "error: {typed} names no host: write postgresql://user@host:port/database"
            ));
        }
        let host = match config.get_hosts().first() {
            // What stands before an @ is of a password that was not written as it should be.
            Some(Host::Tcp(host)) => host.rsplit('@').next().unwrap_or_default().to_owned(),
            #[cfg(unix)]
            Some(Host::Unix(_)) => String::new(),
            None => config.get_hostaddrs()[0].to_string(),
        };
        let port = config.get_ports().first().copied().unwrap_or(PORT_USUAL);
        let port = match port {
            PORT_USUAL => String::new(),
            other => format!(":{other}"),
        };
        let database = config.get_dbname().or(config.get_user());
        let name = format!("postgresql://{host}{port}/{}", database.unwrap_or_default());
        Ok(Address {
            config,
            typed,
            name,
        })
    }

    /// Connects, for no longer than that.
    ///
    /// # Errors
    /// Why it did not come to a connection, and what to do.
    pub(crate) fn connect(&self, longest: Duration) -> Result<Client, String> {
        let mut config = self.config.clone();
        config.application_name("anabranch");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(longest);
        }
        // A server that takes the connection and says nothing would be waited for without end.
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            // Who asked may have given up.
            let _ = tell.send(config.connect(NoTls));
        });
        match told.recv_timeout(longest.saturating_add(Duration::from_secs(1))) {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => Err(format!(
                "error: {} did not answer in {} s: is it PostgreSQL that listens there? \
                 (--connect-seconds-max waits longer)",
                self.typed,
                longest.as_secs()
            )),
        }
    }

    fn refused(&self, error: &postgres::Error) -> String {
        let text = explained(error);
        let state = error.code().map_or("", |code| code.code());
        let advice = if text.contains("no encryption") || text.contains("SSL off") {
            "it demands TLS, which is not spoken here: go through a tunnel (ssh -L) or the server's own socket, or \
             analyze what pg_dump --schema-only writes"
        } else if state == "28P01" || text.contains("password missing") {
            "give the password in the environment: PGPASSWORD"
        } else if state.starts_with("28") {
            "name a user that may connect: postgresql://user@host:port/database"
        } else if state == "3D000" {
            "name one of its databases: psql -l lists them"
        } else if state.is_empty() {
            "is the server there, and are host and port right?"
        } else {
            "see the server's log"
        };
        format!("error: cannot connect to {}: {text}; {advice}", self.typed)
    }
}

/// An error of the driver in PostgreSQL's words, where it has some.
pub(super) fn explained(error: &postgres::Error) -> String {
    anabranch_bench::postgres::server::explain(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (typed, shown) in [
            ("postgresql://u:pw@h:1/d", "postgresql://u@h:1/d"),
            (
                "postgres://u:p@w@h/d?sslmode=disable",
                "postgres://u@h/d?sslmode=disable",
            ),
            ("postgresql://u:p?w/x@h/d", "postgresql://u@h/d"),
            (
                "postgresql://u@h/d?password=pw&port=1",
                "postgresql://u@h/d?port=1",
            ),
            (
                "postgresql://u@h/d?options=-c%20a%3Dpw",
                "postgresql://u@h/d",
            ),
            ("postgresql://h:5433/d", "postgresql://h:5433/d"),
        ] {
            assert_eq!(without_password(typed), shown, "{typed}");
            if let Ok(address) = Address::parse(typed) {
                assert_eq!(address.typed, shown);
                assert!(!address.name.contains("pw") && !address.name.contains('@'));
            }
        }
    }

    #[test]
    fn an_address_that_demands_tls_is_refused() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = Address::parse(&format!("postgresql://u@h/d?sslmode={mode}")).unwrap_err();
            assert!(error.contains(mode) && error.contains("TLS"), "{error}");
        }
        let name = |text: &str| Address::parse(text).map(|address| address.name);
        assert_eq!(
            name("postgres://u@h/d?sslmode=prefer").as_deref(),
            Ok("postgresql://h/d")
        );
        assert_eq!(
            name("postgresql://u@h:5433").as_deref(),
            Ok("postgresql://h:5433/u")
        );
        assert!(name("postgresql:///d").is_err_and(|error| error.contains("no host")));
    }
}
