//! TLS to a PostgreSQL database, as libpq has it: its parameters, its environment, its files, its meanings
//! (PostgreSQL's manual, "SSL Support" of libpq).
//!
//! Where it departs: a root certificate that is named and not there is refused in every mode that would verify by
//! it; `prefer` and `allow` verify nothing even where `root.crt` is there; a name is looked for among the
//! certificate's alternative names alone, never in its common name (RFC 9525, §2).

#[cfg(feature = "tls")]
mod connector;
#[cfg(not(feature = "tls"))]
#[path = "without.rs"]
mod connector;

use std::fmt;
use std::path::{Path, PathBuf};

use postgres::config::SslMode;

pub(super) use connector::advice;

/// Parameters of an address that are read here, and the environment's words for them.
const PARAMETERS: [(&str, &str); 6] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("sslcrl", "PGSSLCRL"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
];

/// The folder, in the user's own, with what is not named.
const FOLDER: &str = ".postgresql";

/// What `sslmode` says: how much is demanded of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// In the clear.
    Disable,
    /// In the clear, or by TLS where that is refused.
    Allow,
    /// By TLS, or in the clear where there is none.
    Prefer,
    /// By TLS, with whomever.
    Require,
    /// By TLS, with whom a known authority has signed for.
    VerifyCa,
    /// By TLS, with whom a known authority has signed for by this name.
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

    /// What is tried, one after the other.
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

/// Whose signature is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    /// Everybody's.
    Anybody,
    /// The authorities of this machine's.
    System,
    /// Those of a file.
    File(PathBuf),
}

/// How a connection is kept from others.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "no connection is made by them")
)]
pub(super) struct Tls {
    pub(super) mode: Mode,
    roots: Roots,
    /// Files with certificates that were taken back.
    revoked: Option<PathBuf>,
    /// Files with the certificate that we show, and its key.
    identity: Option<(PathBuf, PathBuf)>,
    /// Whether TLS 1.2 will not do.
    newest_only: bool,
}

/// Whether a parameter of an address is read here.
pub(super) fn is_parameter(key: &str) -> bool {
    PARAMETERS.iter().any(|(parameter, _)| *parameter == key)
}

impl Tls {
    /// What the parameters of an address say, or else the environment, or else the files of the user's folder.
    ///
    /// # Errors
    /// What is said, and cannot be.
    pub(super) fn new(
        parameter: impl Fn(&str) -> Option<String>,
        environment: impl Fn(&str) -> Option<String>,
        home: Option<&Path>,
    ) -> Result<Tls, String> {
        let said = |key: &str| {
            let named = PARAMETERS.iter().find(|(parameter, _)| *parameter == key);
            let fallback = named.and_then(|(_, variable)| environment(variable));
            parameter(key).filter(|v| !v.is_empty()).or(fallback)
        };
        let usual = |name: &str| {
            let file = home.map(|home| home.join(FOLDER).join(name));
            file.filter(|file| file.exists())
        };
        let root = said("sslrootcert");
        let of_system = root.as_deref() == Some("system");
        let mode = match said("sslmode") {
            Some(said) => Mode::ALL
                .into_iter()
                .find(|mode| mode.to_string() == said)
                .ok_or_else(|| {
                    let all = Mode::ALL.map(|mode| mode.to_string()).join(", ");
                    format!("sslmode={said} is none of {all}")
                })?,
            None if of_system => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        // Whoever buys a certificate of those authorities would pass.
        if of_system && mode < Mode::VerifyFull && mode != Mode::Disable {
            return Err(format!(
                "sslmode={mode} is too weak for sslrootcert=system: say verify-full"
            ));
        }
        let root = match root {
            _ if of_system => Some(Roots::System),
            Some(file) => Some(Roots::File(file.into())),
            None => usual("root.crt").map(Roots::File),
        };
        let (mode, roots) = match (mode, root) {
            (Mode::Require, Some(roots)) => (Mode::VerifyCa, roots),
            (Mode::VerifyCa | Mode::VerifyFull, Some(roots)) => (mode, roots),
            (Mode::VerifyCa | Mode::VerifyFull, None) => {
                return Err(format!(
                    "sslmode={mode} verifies by an authority's certificate, and none is named: say \
                     sslrootcert=FILE, or sslrootcert=system for the authorities that this machine knows, or put it \
                     into ~/{FOLDER}/root.crt"
                ));
            }
            _ => (mode, Roots::Anybody),
        };
        let named = |key: &str, name: &str| said(key).map(PathBuf::from).or_else(|| usual(name));
        let identity = match (
            named("sslcert", "postgresql.crt"),
            named("sslkey", "postgresql.key"),
        ) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(certificate), None) => {
                return Err(format!(
                    "the certificate {} wants its key: say sslkey=FILE",
                    certificate.display()
                ));
            }
            (None, _) => None,
        };
        let newest_only = match said("ssl_min_protocol_version").as_deref() {
            // What is older than 1.2 is not spoken.
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => false,
            Some("TLSv1.3") => true,
            Some(other) => {
                return Err(format!(
                    "ssl_min_protocol_version={other} is none of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3"
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

    fn said(parameters: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Tls, String> {
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
    fn parameters_mean_what_they_mean_to_libpq() {
        let found = |parameters: &[(&str, &str)], environment: &[(&str, &str)]| {
            let tls = said(parameters, environment).unwrap_or_else(|error| panic!("{error}"));
            (tls.mode, tls.roots)
        };
        let file = |name: &str| Roots::File(name.into());
        assert_eq!(found(&[], &[]), (Mode::Prefer, Roots::Anybody));
        assert_eq!(
            found(&[("sslmode", "allow")], &[("PGSSLMODE", "require")]),
            (Mode::Allow, Roots::Anybody)
        );
        assert_eq!(
            found(&[], &[("PGSSLMODE", "require")]),
            (Mode::Require, Roots::Anybody)
        );
        // Whoever names an authority means that it is asked.
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
            (&[("sslmode", "sometimes")], "none of disable, allow"),
            (
                &[("sslrootcert", "system"), ("sslmode", "verify-ca")],
                "too weak",
            ),
            (&[("sslcert", "mine")], "wants its key"),
            (
                &[("ssl_min_protocol_version", "SSLv3")],
                "none of TLSv1, TLSv1.1",
            ),
        ] {
            let error = said(parameters, &[]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
