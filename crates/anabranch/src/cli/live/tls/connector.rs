//! Connections by TLS, and whom they believe.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

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

use super::{Mode, Roots, Tls};

impl Tls {
    /// What makes connections; reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(in crate::cli::live) fn connector(&self) -> Result<MakeRustlsConnect, String> {
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
pub(in crate::cli::live) fn advice(error: &postgres::Error) -> Option<String> {
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
