//! TLS to a PostgreSQL database, as libpq has it: its parameters, its environment, its files, its meanings
//! (PostgreSQL's manual, "SSL Support" of libpq).
//!
//! Where it departs: a root certificate that is named and not there is refused in every mode that would verify by
//! it; `prefer` and `allow` verify nothing even where `root.crt` is there; a name is looked for among the
//! certificate's alternative names alone, never in its common name (RFC 9525, §2).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postgres::config::SslMode;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use tokio_postgres_rustls::MakeRustlsConnect;

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

    /// What makes connections; reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[&SupportedProtocolVersion] = match self.newest_only {
            true => &[&rustls::version::TLS13],
            false => rustls::DEFAULT_VERSIONS,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| {
                    format!(
                        "{} and {} do not fit: {error}",
                        certificate.display(),
                        key.display()
                    )
                })?,
        };
        // Registered for PostgreSQL, which demands it of direct connections.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        let pinned = match &self.roots {
            Roots::Anybody => return Ok(Arc::new(Anybody(provider))),
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.iter().map(|error| format!(": {error}"));
                    return Err(format!(
                        "this machine knows no authorities (sslrootcert=system){}",
                        why.collect::<String>()
                    ));
                }
                Vec::new()
            }
            Roots::File(file) => {
                let found = certificates(file)?;
                for certificate in &found {
                    let added = roots.add(certificate.clone());
                    added.map_err(|error| cannot("used", file, &error))?;
                }
                found
            }
        };
        let revoked = match &self.revoked {
            None => Vec::new(),
            Some(file) => CertificateRevocationListDer::pem_file_iter(file)
                .and_then(Iterator::collect)
                .map_err(|error| cannot("read", file, &error))?,
        };
        let by_authority =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .with_crls(revoked)
                // An authority without a list has taken nothing back, as for OpenSSL a list is of its authority.
                .allow_unknown_revocation_status()
                .build()
                .map_err(|error| match &self.revoked {
                    Some(file) => cannot("used", file, &error),
                    None => error.to_string(),
                })?;
        Ok(Arc::new(Verifier {
            by_authority,
            pinned,
            is_named: self.mode == Mode::VerifyFull,
        }))
    }
}

fn cannot(what: &str, file: &Path, error: &dyn fmt::Display) -> String {
    format!("{} cannot be {what}: {error}", file.display())
}

/// The certificates of a file, of which there is one at least.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| cannot("read", file, &error))?;
    match found.is_empty() {
        true => Err(format!("{} has no certificate in PEM", file.display())),
        false => Ok(found),
    }
}

/// The key of a file that nobody else may read.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let known = file
            .metadata()
            .map_err(|error| cannot("read", file, &error))?;
        // As libpq has it: a group may read what root keeps for it.
        let forbidden = if known.uid() == 0 { 0o037 } else { 0o077 };
        if known.mode() & forbidden != 0 {
            return Err(format!(
                "{} is a private key that others may read: chmod 600 {}",
                file.display(),
                file.display()
            ));
        }
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => format!(
            "{} has no private key in PEM that needs no password",
            file.display()
        ),
        error => cannot("read", file, &error),
    })
}

/// Believes everybody: what is encrypted for whoever answers.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A signature by a key that nobody vouches for tells nothing, and old certificates are not understood.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Believes authorities.
#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    /// Certificates that are believed themselves: one that signed itself stands in both files, as PostgreSQL's
    /// manual makes them.
    pinned: Vec<CertificateDer<'static>>,
    /// Whether it has to be that server's, by its name.
    is_named: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by_authority =
            self.by_authority
                .verify_server_cert(certificate, intermediates, name, ocsp, now);
        match by_authority {
            // The name is looked at last: all else is well.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_named => Ok(ServerCertVerified::assertion()),
            Err(Error::InvalidCertificate(CertificateError::Other(error)))
                if self.pinned.contains(certificate) && is_of_authority(&error) =>
            {
                if self.is_named {
                    rustls::client::verify_server_name(
                        &ParsedCertificate::try_from(certificate)?,
                        name,
                    )?;
                }
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Whether what is wrong with a certificate is that it may sign others: its time has been looked at before.
fn is_of_authority(error: &rustls::OtherError) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

/// What to do about a handshake that failed; none where TLS is not to blame.
pub(super) fn advice(error: &postgres::Error) -> Option<String> {
    let source = std::error::Error::source(error)?;
    let of_io = source.downcast_ref::<std::io::Error>();
    let found = of_io
        .and_then(|error| error.get_ref())
        .and_then(|error| error.downcast_ref::<Error>());
    let Some(found) = found else {
        let has_none = source.to_string() == "server does not support TLS";
        return has_none.then(|| {
            "start it with ssl=on, or say sslmode=disable where nobody listens".to_owned()
        });
    };
    let Error::InvalidCertificate(reason) = found else {
        return Some(
            "look at what its log says of it; TLS 1.2 and 1.3 are spoken, and sslcert=FILE and sslkey=FILE show a \
             certificate of one's own"
                .to_owned(),
        );
    };
    Some(match reason {
        CertificateError::UnknownIssuer => {
            "none of the authorities in sslrootcert has signed its certificate: name the one that has, or find out who \
             answers there"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is another's: connect under an alternative name that it has (its common name does not \
             count), or say sslmode=verify-ca where its authority signs for your servers alone"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, and see that this machine's clock is right".to_owned()
        }
        CertificateError::Revoked => {
            "its certificate was taken back (sslcrl): give it a new one".to_owned()
        }
        _ => "give it another certificate, of version 3, signed by an authority in sslrootcert".to_owned(),
    })
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
