//! The key by which a client cancels what its connection runs.

/// A connection's process number and secret. A CancelRequest repeats both.
#[derive(Clone)]
pub struct BackendKey {
    process: i32,
    secret: Box<[u8]>,
}

impl BackendKey {
    /// The length of a secret under protocol 3.2.
    pub const SECRET_BYTES: usize = 32;

    /// The length of a secret under protocol 3.0, which is the beginning of the longer one.
    pub(crate) const SHORT_BYTES: usize = 4;

    /// The key of a connection; the secret has to be unpredictable.
    pub fn new(process: i32, secret: [u8; BackendKey::SECRET_BYTES]) -> BackendKey {
        BackendKey::received(process, &secret)
    }

    /// A key as a CancelRequest has it.
    pub(crate) fn received(process: i32, secret: &[u8]) -> BackendKey {
        BackendKey {
            process,
            secret: secret.into(),
        }
    }

    /// The process number.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// The secret, as long as a client under the protocol's minor version gets it.
    pub(crate) fn secret(&self, minor: u16) -> &[u8] {
        match minor {
            0 | 1 => &self.secret[..BackendKey::SHORT_BYTES],
            _ => &self.secret,
        }
    }

    /// Whether a client's key is this one, of a connection under the protocol's minor version. The time it takes does
    /// not depend on how much of the secret is right.
    pub fn matches(&self, given: &BackendKey, minor: u16) -> bool {
        let secret = self.secret(minor);
        if self.process != given.process || secret.len() != given.secret.len() {
            return false;
        }
        let pairs = secret.iter().zip(&given.secret);
        pairs.fold(0, |differences, (ours, theirs)| {
            differences | (ours ^ theirs)
        }) == 0
    }
}

impl std::fmt::Debug for BackendKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackendKey")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
