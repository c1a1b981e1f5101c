//! TLS connections, and the verification of certificates.

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
    /// The connector with these settings; reads the files.
    ///
    /// # Errors
    /// When a file cannot be read or used; the message names it.
    pub(in crate::postgres) fn connector(&self) -> Result<MakeRustlsConnect, String> {
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
                        "{} and {} do not match: {error}",
                        certificate.display(),
                        key.display()
                    )
                })?,
        };
        // The registered protocol name, which PostgreSQL requires for direct TLS connections.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        let pinned = match &self.roots {
            Roots::Unverified => return Ok(Arc::new(Unverified(provider))),
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.iter().map(|error| format!(": {error}"));
                    return Err(format!(
                        "this machine has no trusted authorities (sslrootcert=system){}",
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
                // An authority without a list has revoked nothing; for OpenSSL as well, a list belongs to an authority.
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

/// The certificates of a file; at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| cannot("read", file, &error))?;
    match found.is_empty() {
        true => Err(format!("{} has no certificate in PEM form", file.display())),
        false => Ok(found),
    }
}

/// The private key of a file, which other users must not be able to read.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let known = file
            .metadata()
            .map_err(|error| cannot("read", file, &error))?;
        // As in libpq: the group may read a file that belongs to root.
        let forbidden = if known.uid() == 0 { 0o037 } else { 0o077 };
        if known.mode() & forbidden != 0 {
            return Err(format!(
                "{} is a private key that other users can read: run chmod 600 {}",
                file.display(),
                file.display()
            ));
        }
    }
    PrivateKeyDer::from_pem_file(file).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => format!(
            "{} has no private key in PEM form without a password",
            file.display()
        ),
        error => cannot("read", file, &error),
    })
}

/// Accepts every certificate: encrypts, but does not authenticate the server.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
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

    // A signature by an unverified key proves nothing, and the verification would fail on old certificates.
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

/// Verifies certificates by authorities.
#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    /// Certificates that are trusted themselves: a self-signed one is both the server's and the root certificate, as in
    /// PostgreSQL's manual.
    pinned: Vec<CertificateDer<'static>>,
    /// Whether the certificate has to be for the server's name.
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
            // The name is checked last: everything else is valid.
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

/// Whether the error is only that the certificate may sign others. Its validity period was checked before.
fn is_of_authority(error: &rustls::OtherError) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

/// What to do about a failed handshake; None if TLS is not the reason.
pub(in crate::postgres) fn advice(error: &postgres::Error) -> Option<String> {
    let source = std::error::Error::source(error)?;
    let of_io = source.downcast_ref::<std::io::Error>();
    let found = of_io
        .and_then(|error| error.get_ref())
        .and_then(|error| error.downcast_ref::<Error>());
    let Some(found) = found else {
        let has_none = source.to_string() == "server does not support TLS";
        return has_none.then(|| {
            "start the server with ssl=on, or use sslmode=disable on a network that you trust"
                .to_owned()
        });
    };
    let Error::InvalidCertificate(reason) = found else {
        return Some(
            "see the server's log; TLS 1.2 and 1.3 are supported, and sslcert=FILE and sslkey=FILE give a client \
             certificate"
                .to_owned(),
        );
    };
    Some(match reason {
        CertificateError::UnknownIssuer => {
            "no authority in sslrootcert signed the server's certificate: name the authority that did, or check that \
             this is the right server"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name: connect under one of its alternative names (its common name \
             does not count), or use sslmode=verify-ca if its authority signs for your servers only"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired: renew it, and check this machine's clock".to_owned()
        }
        CertificateError::Revoked => {
            "the server's certificate is revoked (sslcrl): install a new one".to_owned()
        }
        _ => "install another certificate on the server, of version 3, signed by an authority in sslrootcert".to_owned(),
    })
}
