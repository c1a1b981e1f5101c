//! Gives back the room of large removed files: in steps, in a thread of its own.
//!
//! Freeing a gigabyte at once takes the file system most of a second, and other files' syncs wait for it. So a file loses its
//! name at once, and its bytes little by little. A process that ends before that leaves nothing: the operating system frees
//! what has no name.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// What is freed at a time. A smaller file is freed as it is removed: the reserve of a full disk has to be.
pub(crate) const STEP: u64 = 16 << 20;

/// Between two steps, so that syncs get their turn.
const PAUSE: Duration = Duration::from_millis(5);

/// Removes files of one folder.
#[derive(Debug, Default)]
pub(crate) struct Remover {
    /// The thread, once there was a large file.
    thread: Option<Sender<File>>,
    /// Held for each file that is read by another thread: such a file must keep its bytes until it is closed.
    readers: Arc<()>,
}

/// Keeps removed files whole, as long as it lives.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    _held: Arc<()>,
}

impl Remover {
    /// From now on, until it is dropped, removed files keep their bytes for the threads that have them open.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            _held: Arc::clone(&self.readers),
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let is_read = Arc::strong_count(&self.readers) > 1;
        let large = match std::fs::metadata(path) {
            Ok(found) if found.len() > STEP && !is_read => {
                // Without it, the file is freed as it is removed.
                File::options().write(true).open(path).ok()
            }
            _ => None,
        };
        std::fs::remove_file(path)?;
        if let Some(file) = large {
            let thread = self.thread.get_or_insert_with(start);
            // If the thread has ended, the file is closed here, and freed with that.
            let _ = thread.send(file);
        }
        Ok(())
    }
}

fn start() -> Sender<File> {
    let (sender, files): (_, Receiver<File>) = channel();
    let run = move || files.iter().for_each(shorten);
    // A file that no thread takes is freed when it is closed.
    let _ = thread::Builder::new().name("removal".to_owned()).spawn(run);
    sender
}

fn shorten(file: File) {
    let Ok(found) = file.metadata() else { return };
    if found.nlink() > 0 {
        return; // It has another name, a copy's (`cp --link`), or was removed as a link to another file.
    }
    let mut left = found.len();
    while left > STEP {
        left -= STEP;
        if file.set_len(left).is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};
    use std::time::Instant;

    use super::*;

    fn large(folder: &Path, name: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, vec![7; 3 * STEP as usize]).unwrap();
        path
    }

    /// A file has lost its name when `remove` returns, and loses its bytes afterwards; one that is read, or has another name,
    /// keeps them.
    #[test]
    fn bytes_go_step_by_step_but_not_of_what_is_read() {
        let folder = std::env::temp_dir().join(format!("anabranch-removal-{}", std::process::id()));
        let (freed, read) = (large(&folder, "freed"), large(&folder, "read"));
        let mut remover = Remover::default();
        let mut open = File::open(&read).unwrap();
        let reader = remover.reader();
        remover.remove(&read).unwrap();
        drop(reader);
        let second = folder.join("second name");
        let linked = large(&folder, "linked");
        std::fs::hard_link(&linked, &second).unwrap();
        remover.remove(&linked).unwrap();
        let watched = File::open(&freed).unwrap();
        remover.remove(&freed).unwrap();
        assert!(!freed.exists() && !read.exists());
        let begun = Instant::now();
        while watched.metadata().unwrap().len() > STEP {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it keeps its bytes"
            );
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(std::fs::metadata(&second).unwrap().len(), 3 * STEP);
        let mut bytes = Vec::new();
        open.seek(SeekFrom::Start(STEP)).unwrap();
        open.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, 2 * STEP);
        assert!(remover.remove(&freed).is_err(), "it is gone");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
