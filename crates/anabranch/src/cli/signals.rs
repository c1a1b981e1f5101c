//! The signals by which a server is told to end.

use std::io;
use std::sync::mpsc::{Receiver, channel};

/// Where signals to end arrive.
pub(crate) fn signals() -> io::Result<Receiver<()>> {
    let (sender, ended) = channel();
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ])?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                // The receiver is gone when the server has ended.
                let _ = sender.send(());
            }
        })?;
    Ok(ended)
}
