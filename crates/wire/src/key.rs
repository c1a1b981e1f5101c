//! The key by which a client cancels what its connection runs.

use std::hint::black_box;

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
        BackendKey {
            process,
            secret: secret.into(),
        }
    }

    /// A key as a CancelRequest has it, or `None` if no connection's secret is so short or so long.
    pub(crate) fn received(process: i32, secret: &[u8]) -> Option<BackendKey> {
        let lengths = BackendKey::SHORT_BYTES..=BackendKey::SECRET_BYTES;
        lengths.contains(&secret.len()).then(|| BackendKey {
            process,
            secret: secret.into(),
        })
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
        let differing = secret
            .iter()
            .zip(&given.secret)
            .fold(0, |differing, (ours, theirs)| {
                // Hidden from the compiler, which could otherwise end at the first difference.
                black_box(differing | (ours ^ theirs))
            });
        differing == 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_matches_when_all_of_it_is_equal() {
        let mut secret = [7; BackendKey::SECRET_BYTES];
        let key = BackendKey::new(1, secret);
        let given = |process, secret: &[u8]| BackendKey::received(process, secret).unwrap();
        assert!(key.matches(&given(1, &secret), 2));
        assert!(!key.matches(&given(2, &secret), 2));
        assert!(!key.matches(&given(1, &secret[..4]), 2));
        assert!(!key.matches(&given(1, &secret), 0));
        assert!(key.matches(&given(1, &secret[..4]), 0));
        assert!(!key.matches(&given(1, &[7, 7, 7, 6]), 0));
        secret[31] = 6;
        assert!(!key.matches(&given(1, &secret), 2));
        secret[31] = 7;
        secret[0] = 6;
        assert!(!key.matches(&given(1, &secret), 2));
        assert!(BackendKey::received(1, &secret[..3]).is_none());
        assert!(BackendKey::received(1, &[0; 33]).is_none());
        assert_eq!(format!("{key:?}"), "BackendKey { process: 1, .. }");
    }
}
