//! A build without TLS: settings that demand TLS are refused.

use postgres::NoTls;

use super::{Mode, Tls};

impl Tls {
    /// The connector for connections that are not encrypted.
    ///
    /// # Errors
    /// When the settings demand TLS.
    pub(in crate::postgres) fn connector(&self) -> Result<NoTls, String> {
        match self.mode {
            Mode::Disable | Mode::Allow | Mode::Prefer => Ok(NoTls),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => Err(format!(
                "sslmode={} demands TLS, but this program was built without the feature `tls`",
                self.mode
            )),
        }
    }
}

/// What to do about a failed handshake; there is none without TLS.
pub(in crate::postgres) fn advice(_: &postgres::Error) -> Option<String> {
    None
}
