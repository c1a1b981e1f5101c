//! A folder that lives as long as a test: where violations are planted.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh folder under the system's temporary one, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anabranch-xtask-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("the temporary folder is writable");
        Scratch(folder.canonicalize().expect("the folder was just made"))
    }

    /// A folder with these files, each a path within it and a text.
    pub(crate) fn with(files: &[(&str, &str)]) -> Scratch {
        let scratch = Scratch::new();
        for (path, text) in files {
            scratch.write(path, text);
        }
        scratch
    }

    /// Writes one file, and the folders above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().expect("a path within the folder"))
            .and_then(|()| std::fs::write(&path, text))
            .expect("the temporary folder is writable");
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays behind is in the temporary folder; no test depends on its removal.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
