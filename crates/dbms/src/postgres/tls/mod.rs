//! TLS to a PostgreSQL database, with libpq's parameters, environment variables and files (PostgreSQL's manual, "SSL
//! Support" of libpq).
//!
//! Departures from libpq: a root certificate that is named but missing is refused in every mode that would use it;
//! `prefer` and `allow` verify nothing even if `root.crt` exists; the server's name is compared with the certificate's
//! alternative names only, never with its common name (RFC 9525, §2).

#[cfg(feature = "tls")]
mod connector;
#[cfg(not(feature = "tls"))]
#[path = "without.rs"]
mod connector;

use std::fmt;
use std::path::{Path, PathBuf};

use postgres::config::SslMode;

pub(super) use connector::advice;

/// The TLS parameters of an address, and the environment variables for them.
const PARAMETERS: [(&str, &str); 6] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslcrl", "PGSSLCRL"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
];

/// The folder in the user's home with the default files.
const FOLDER: &str = ".postgresql";

/// The modes of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Not encrypted.
    Disable,
    /// Not encrypted, or by TLS if the server refuses that.
    Allow,
    /// By TLS, or not encrypted if the server has no TLS.
    Prefer,
    /// By TLS, with any certificate.
    Require,
    /// By TLS, with a certificate that a trusted authority signed.
    VerifyCa,
    /// By TLS, with a certificate for the server's name that a trusted authority signed.
    VerifyFull,
}

impl Mode {
    const ALL: [Mode; 6] = [
        Mode::Disable,
        Mode::Allow,
        Mode::Prefer,
        Mode::Require,
        Mode::VerifyCa,
        Mode::VerifyFull,
    ];

    /// The driver's modes to try, in order.
    pub(super) fn attempts(self) -> &'static [SslMode] {
        match self {
            Mode::Disable => &[SslMode::Disable],
            Mode::Allow => &[SslMode::Disable, SslMode::Require],
            Mode::Prefer => &[SslMode::Prefer, SslMode::Disable],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => &[SslMode::Require],
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Disable => "disable",
            Mode::Allow => "allow",
            Mode::Prefer => "prefer",
            Mode::Require => "require",
            Mode::VerifyCa => "verify-ca",
            Mode::VerifyFull => "verify-full",
        })
    }
}

/// The trusted authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    /// Certificates are not verified.
    Unverified,
    /// The authorities of this machine.
    System,
    /// The authorities in a file.
    File(PathBuf),
}

/// The TLS settings of a connection.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "only the feature `tls` reads them")
)]
pub(super) struct Tls {
    pub(super) mode: Mode,
    roots: Roots,
    /// A file of certificate revocation lists.
    revoked: Option<PathBuf>,
    /// The files of the client's certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
    /// Whether TLS 1.2 is refused.
    newest_only: bool,
}

impl Tls {
    /// The same, and TLS is not used.
    pub(super) fn disabled(self) -> Tls {
        Tls {
            mode: Mode::Disable,
            ..self
        }
    }
}

/// Whether a parameter of an address is a TLS parameter.
pub(super) fn is_parameter(key: &str) -> bool {
    PARAMETERS.iter().any(|(parameter, _)| *parameter == key)
}

impl Tls {
    /// The settings: from the parameters of an address, else from the environment, else from the default files.
    ///
    /// # Errors
    /// When a setting is invalid, or settings contradict each other.
    pub(super) fn new(
        parameter: impl Fn(&str) -> Option<String>,
        environment: impl Fn(&str) -> Option<String>,
        home: Option<&Path>,
    ) -> Result<Tls, String> {
        let setting = |key: &str| {
            let named = PARAMETERS.iter().find(|(parameter, _)| *parameter == key);
            let fallback = named.and_then(|(_, variable)| environment(variable));
            parameter(key).filter(|v| !v.is_empty()).or(fallback)
        };
        let default_file = |name: &str| {
            let file = home.map(|home| home.join(FOLDER).join(name));
            file.filter(|file| file.exists())
        };
        let root = setting("sslrootcert");
        let of_system = root.as_deref() == Some("system");
        let mode = match setting("sslmode") {
            Some(name) => Mode::ALL
                .into_iter()
                .find(|mode| mode.to_string() == name)
                .ok_or_else(|| {
                    let all = Mode::ALL.map(|mode| mode.to_string()).join(", ");
                    format!("sslmode={name} is not one of {all}")
                })?,
            None if of_system => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        // Public authorities sign for every server: only the name identifies this one.
        if of_system && mode < Mode::VerifyFull && mode != Mode::Disable {
            return Err(format!(
                "sslmode={mode} is too weak for sslrootcert=system: use verify-full"
            ));
        }
        let root = match root {
            _ if of_system => Some(Roots::System),
            Some(file) => Some(Roots::File(file.into())),
            None => default_file("root.crt").map(Roots::File),
        };
        let (mode, roots) = match (mode, root) {
            (Mode::Require, Some(roots)) => (Mode::VerifyCa, roots),
            (Mode::VerifyCa | Mode::VerifyFull, Some(roots)) => (mode, roots),
            (Mode::VerifyCa | Mode::VerifyFull, None) => {
                return Err(format!(
                    "sslmode={mode} needs the certificate of an authority, but none is named: add sslrootcert=FILE, \
                     or sslrootcert=system for the authorities of this machine, or put the certificate into \
                     ~/{FOLDER}/root.crt"
                ));
            }
            _ => (mode, Roots::Unverified),
        };
        let named = |key: &str, name: &str| {
            let given = setting(key).map(PathBuf::from);
            given.or_else(|| default_file(name))
        };
        let identity = match (
            named("sslcert", "postgresql.crt"),
            named("sslkey", "postgresql.key"),
        ) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(certificate), None) => {
                return Err(format!(
                    "the certificate {} needs its key: add sslkey=FILE",
                    certificate.display()
                ));
            }
            (None, _) => None,
        };
        let newest_only = match setting("ssl_min_protocol_version").as_deref() {
            // Versions before 1.2 are not supported.
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => false,
            Some("TLSv1.3") => true,
            Some(other) => {
                return Err(format!(
                    "ssl_min_protocol_version={other} is not one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3"
                ));
            }
        };
        Ok(Tls {
            mode,
            roots,
            revoked: named("sslcrl", "root.crl"),
            identity,
            newest_only,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(parameters: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Tls, String> {
        let among = |pairs: &[(&str, &str)], key: &str| {
            let found = pairs.iter().find(|(k, _)| *k == key);
            found.map(|(_, v)| (*v).to_owned())
        };
        Tls::new(
            |key| among(parameters, key),
            |key| among(environment, key),
            None,
        )
    }

    #[test]
    fn parameters_mean_the_same_as_in_libpq() {
        let found = |parameters: &[(&str, &str)], environment: &[(&str, &str)]| {
            let tls = settings(parameters, environment).unwrap_or_else(|error| panic!("{error}"));
            (tls.mode, tls.roots)
        };
        let file = |name: &str| Roots::File(name.into());
        assert_eq!(found(&[], &[]), (Mode::Prefer, Roots::Unverified));
        assert_eq!(
            found(&[("sslmode", "allow")], &[("PGSSLMODE", "require")]),
            (Mode::Allow, Roots::Unverified)
        );
        assert_eq!(
            found(&[], &[("PGSSLMODE", "require")]),
            (Mode::Require, Roots::Unverified)
        );
        // A named authority is used to verify.
        assert_eq!(
            found(&[("sslmode", "require"), ("sslrootcert", "a")], &[]),
            (Mode::VerifyCa, file("a"))
        );
        assert_eq!(
            found(&[("sslrootcert", "system")], &[]),
            (Mode::VerifyFull, Roots::System)
        );
        assert_eq!(
            found(
                &[("sslmode", "verify-ca")],
                &[("PGSSLROOTCERT", "of-environment")]
            ),
            (Mode::VerifyCa, file("of-environment"))
        );
        for (parameters, words) in [
            (&[("sslmode", "verify-full")][..], "none is named"),
            (&[("sslmode", "sometimes")], "not one of disable, allow"),
            (
                &[("sslrootcert", "system"), ("sslmode", "verify-ca")],
                "too weak",
            ),
            (&[("sslcert", "mine")], "needs its key"),
            (
                &[("ssl_min_protocol_version", "SSLv3")],
                "not one of TLSv1, TLSv1.1",
            ),
        ] {
            let error = settings(parameters, &[]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
