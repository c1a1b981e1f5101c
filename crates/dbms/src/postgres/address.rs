//! The address of a PostgreSQL database on the command line, and its printed form, without the password.

use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use postgres::config::{ChannelBinding, Host, SslMode};
use postgres::{Client, Config};

use super::explain;
use super::tls::{self, Tls};

/// The schemes of an address.
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// PostgreSQL's default port, which names leave out.
const PORT_USUAL: u16 = 5432;

/// The parameters of an address that are printed.
const PRINTED: [&str; 7] = [
    "connect_timeout",
    "dbname",
    "host",
    "port",
    "sslmode",
    "sslrootcert",
    "user",
];

/// The address of a database.
#[derive(Debug)]
pub struct Address {
    config: Config,
    tls: Tls,
    /// The address as typed, without its password.
    pub typed: String,
    /// `postgresql://host/database`: the prefix of sources' names.
    pub name: String,
}

/// Where a database is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The host, or the directory of its socket.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The database's name.
    pub database: String,
}

/// Whether a path on the command line is the address of a database.
pub fn is_address(path: &Path) -> bool {
    let begins = |text: &str| SCHEMES.iter().any(|scheme| text.starts_with(scheme));
    path.to_str().is_some_and(begins)
}

/// The printed form of an address: without its password, and without parameters that might hold one.
pub fn without_password(text: &str) -> String {
    let scheme = text.find("://").map_or(0, |at| at + 3);
    let rest = &text[scheme..];
    // Everything before the last @ may be part of a password that is not escaped properly.
    let shown = match (rest.find(':'), rest.rfind('@')) {
        (Some(colon), Some(at)) if colon < at => [&rest[..colon], &rest[at..]].concat(),
        _ => rest.to_owned(),
    };
    let (place, parameters) = shown.split_once('?').unwrap_or((&shown, ""));
    let printed: Vec<&str> = parameters
        .split('&')
        .filter(|parameter| {
            let key = parameter.split('=').next().unwrap_or_default();
            PRINTED.contains(&key)
        })
        .collect();
    let printed = match printed.is_empty() {
        true => String::new(),
        false => format!("?{}", printed.join("&")),
    };
    format!("{}{place}{printed}", &text[..scheme])
}

impl Address {
    /// Parses an address. Parts that it does not give come from the environment: the password (`PGPASSWORD`), and the
    /// TLS settings (`PGSSLMODE` and others).
    ///
    /// # Errors
    /// When it is not an address, or its TLS settings are invalid or contradict each other.
    pub fn parse(text: &str) -> Result<Address, String> {
        let typed = without_password(text);
        let (place, parameters) = with_parameters(text);
        let parameter = |key: &str| {
            let found = parameters.iter().find(|pair| pair.0 == key);
            found.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned())
        };
        let environment = |key: &str| std::env::var(key).ok().filter(|v| !v.is_empty());
        let home = std::env::home_dir();
        let tls = Tls::new(parameter, environment, home.as_deref())
            .map_err(|error| format!("error: {typed}: {error}"))?;
        let others = parameters.iter().filter(|(key, _)| !tls::is_parameter(key));
        let others: Vec<String> = others
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let mut config =
            Config::from_str(&format!("{place}?{}", others.join("&"))).map_err(|error| {
                format!(
                    "error: {typed} is not the address of a database: {}; write \
                 postgresql://user@host:port/database",
                    explain(&error)
                )
            })?;
        if parameter("channel_binding").is_none() {
            match environment("PGCHANNELBINDING").as_deref() {
                None | Some("prefer") => {}
                Some("disable") => drop(config.channel_binding(ChannelBinding::Disable)),
                Some("require") => drop(config.channel_binding(ChannelBinding::Require)),
                Some(other) => {
                    return Err(format!(
                        "error: {typed}: PGCHANNELBINDING={other} is not one of disable, prefer, require"
                    ));
                }
            }
        }
        if let (None, Some(password)) = (config.get_password(), environment("PGPASSWORD")) {
            config.password(password);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(format!(
                "error: {typed} names no host: write postgresql://user@host:port/database"
            ));
        }
        if config.get_hosts().is_empty() {
            // The names that a certificate is compared with.
            for address in config.get_hostaddrs().to_vec() {
                config.host(&address.to_string());
            }
        }
        let host = match config.get_hosts().first() {
            // Everything before an @ belongs to a password that is not escaped properly.
            Some(Host::Tcp(host)) => host.rsplit('@').next().unwrap_or_default().to_owned(),
            #[cfg(unix)]
            Some(Host::Unix(_)) => String::new(),
            None => String::new(),
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
            tls,
            typed,
            name,
        })
    }

    /// The role that connects.
    pub fn user(&self) -> Option<&str> {
        self.config.get_user()
    }

    /// The password that it connects with, if it has one.
    pub(super) fn password(&self) -> Option<std::ffi::OsString> {
        let password = self.config.get_password()?;
        String::from_utf8(password.to_vec()).ok().map(Into::into)
    }

    /// The same role and database at another host and port, such as those of a middleware. It has no TLS.
    pub fn at(&self, host: &str, port: u16) -> Address {
        let mut config = Config::new();
        if let Some(user) = self.config.get_user() {
            config.user(user);
        }
        if let Some(password) = self.config.get_password() {
            config.password(password);
        }
        if let Some(database) = self.config.get_dbname().or(self.config.get_user()) {
            config.dbname(database);
        }
        config.host(host).port(port);
        let tls = self.tls.clone().disabled();
        let name = format!("{host}:{port}");
        Address {
            config,
            tls,
            typed: name.clone(),
            name,
        }
    }

    /// Where the database is, for connections that speak PostgreSQL's protocol themselves and have no TLS.
    ///
    /// # Errors
    /// When it demands TLS, or names several hosts.
    pub fn endpoint(&self) -> Result<Endpoint, String> {
        if !self.is_local() && self.tls.mode.attempts() == [SslMode::Require] {
            return Err(format!(
                "error: {}: connections of applications are forwarded without TLS: run the middleware beside its \
                 database, and write sslmode=prefer",
                self.typed
            ));
        }
        let host = match (self.config.get_hostaddrs(), self.config.get_hosts()) {
            ([address], _) => Host::Tcp(address.to_string()),
            ([], [host]) => host.clone(),
            _ => {
                return Err(format!(
                    "error: {} names several hosts: name one",
                    self.typed
                ));
            }
        };
        let user = self.config.get_user().unwrap_or_default();
        Ok(Endpoint {
            host,
            port: self
                .config
                .get_ports()
                .first()
                .copied()
                .unwrap_or(PORT_USUAL),
            database: self.config.get_dbname().unwrap_or(user).to_owned(),
        })
    }

    /// Connects as `sslmode` demands, within the time `longest`.
    ///
    /// # Errors
    /// Why the connection failed, and what to do.
    pub fn connect(&self, longest: Duration) -> Result<Client, String> {
        let mut config = self.config.clone();
        config.application_name("anabranch");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(longest);
        }
        let connector = self.tls.connector();
        let connector = connector.map_err(|error| format!("error: {}: {error}", self.typed))?;
        let attempts = match self.is_local() {
            true => &[SslMode::Disable],
            false => self.tls.mode.attempts(),
        };
        // The timeout of the driver does not cover a server that accepts the connection and sends nothing.
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut attempts = attempts.iter();
            let answer = loop {
                let Some(mode) = attempts.next() else { return };
                let answer = config.ssl_mode(*mode).connect(connector.clone());
                match &answer {
                    Err(error) if attempts.len() > 0 && is_of_encryption(error) => {}
                    _ => break answer,
                }
            };
            // The receiver may have timed out.
            let _ = sender.send(answer);
        });
        match receiver.recv_timeout(longest.saturating_add(Duration::from_secs(1))) {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(self.refused(&error)),
            Err(_) => Err(format!(
                "error: {} did not answer in {} s; check that PostgreSQL listens there, or wait longer with \
                 --connect-seconds-max",
                self.typed,
                longest.as_secs()
            )),
        }
    }

    /// Whether the connection is a Unix socket, which never uses TLS.
    #[cfg(unix)]
    fn is_local(&self) -> bool {
        let hosts = self.config.get_hosts();
        hosts.iter().all(|host| matches!(host, Host::Unix(_)))
    }

    #[cfg(not(unix))]
    fn is_local(&self) -> bool {
        false
    }

    fn refused(&self, error: &postgres::Error) -> String {
        let text = explain(error);
        let state = error.code().map_or("", |code| code.code());
        let advice = if let Some(advice) = tls::advice(error) {
            advice
        } else {
            let advice = if text.contains("no encryption") || text.contains("SSL off") {
                "the server demands TLS: add sslmode=require, or verify-full"
            } else if text.contains("certificate") && state.starts_with("28") {
                "the server demands a client certificate: add sslcert=FILE and sslkey=FILE"
            } else if state == "28P01" || text.contains("password missing") {
                "give the password in the environment: PGPASSWORD"
            } else if state.starts_with("28") {
                "name a user with the right to connect: postgresql://user@host:port/database"
            } else if state == "3D000" {
                "name an existing database: psql -l lists them"
            } else if state.is_empty() {
                "check that the server runs, and that host and port are right"
            } else {
                "see the server's log"
            };
            advice.to_owned()
        };
        format!("error: cannot connect to {}: {text}; {advice}", self.typed)
    }
}

/// The address without its parameters, and the parameters, not decoded.
fn with_parameters(text: &str) -> (&str, Vec<(&str, &str)>) {
    // A password before the @ may have a question mark.
    let from = text.find('@').unwrap_or(0);
    let Some(at) = text[from..].find('?').map(|at| from + at) else {
        return (text, Vec::new());
    };
    let pairs = text[at + 1..].split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    (&text[..at], pairs.collect())
}

/// Whether a connection failed because it was encrypted, or because it was not.
fn is_of_encryption(error: &postgres::Error) -> bool {
    let state = error.code().map(|code| code.code());
    // 28000: no line of pg_hba.conf matches. No state: the handshake failed.
    state == Some("28000") || state.is_none() && tls::advice(error).is_some()
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
    fn addresses_are_parsed() {
        let name = |text: &str| Address::parse(text).map(|address| address.name);
        assert_eq!(
            name("postgres://u@h/d?sslmode=prefer").as_deref(),
            Ok("postgresql://h/d")
        );
        assert_eq!(
            name("postgresql://u@h:5433").as_deref(),
            Ok("postgresql://h:5433/u")
        );
        assert_eq!(
            name("postgresql://u@/d?hostaddr=127.0.0.1").as_deref(),
            Ok("postgresql://127.0.0.1/d")
        );
        assert!(name("postgresql:///d").is_err_and(|error| error.contains("no host")));
        for (text, words) in [
            ("postgresql://u@h/d?sslmode=no", "not one of disable"),
            ("postgresql://u@h/d?colour=red", "colour"),
            (
                "postgresql://u@h/d?sslmode=verify-full&sslrootcert=%2Fa%20b",
                "",
            ),
        ] {
            match Address::parse(text) {
                Ok(address) => assert!(words.is_empty(), "{address:?}"),
                Err(error) => assert!(!words.is_empty() && error.contains(words), "{error}"),
            }
        }
    }
}
