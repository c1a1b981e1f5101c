//! A build without TLS: what demands it is refused.

use postgres::NoTls;

use super::{Mode, Tls};

impl Tls {
    /// What makes connections, in the clear.
    ///
    /// # Errors
    /// When that is not what is demanded.
    pub(in crate::cli::live) fn connector(&self) -> Result<NoTls, String> {
        match self.mode {
            Mode::Disable | Mode::Allow | Mode::Prefer => Ok(NoTls),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => Err(format!(
                "sslmode={} demands TLS, and this program was built without (the feature `tls`)",
                self.mode
            )),
        }
    }
}

/// What to do about a handshake that failed: none is made.
pub(in crate::cli::live) fn advice(_: &postgres::Error) -> Option<String> {
    None
}
