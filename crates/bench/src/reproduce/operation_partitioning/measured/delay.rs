//! Connections that take as long as Table 2 says: a listener whose bytes arrive at another address a while later.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A listener that forwards with a delay, until it is dropped.
pub(super) struct Delay {
    address: SocketAddr,
    is_ending: Arc<AtomicBool>,
}

impl Delay {
    /// Forwards connections to `target`; each byte takes `one_way` in either direction.
    ///
    /// # Errors
    /// When no port is free.
    pub(super) fn start(target: SocketAddr, one_way: Duration) -> std::io::Result<Delay> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_ending);
        thread::Builder::new()
            .name("delay".to_owned())
            .spawn(move || {
                for near in listener.incoming() {
                    if ends.load(Ordering::Relaxed) {
                        return;
                    }
                    // A target that does not answer ends the connection, as a server that is down would.
                    if let (Ok(near), Ok(far)) = (near, TcpStream::connect(target)) {
                        let _ = near.set_nodelay(true);
                        let _ = far.set_nodelay(true);
                        let _ = join(&near, &far, one_way);
                    }
                }
            })?;
        Ok(Delay { address, is_ending })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Forwards both directions, each with two threads: one reads, the other writes when the time has come.
fn join(near: &TcpStream, far: &TcpStream, one_way: Duration) -> std::io::Result<()> {
    for (from, to) in [(near, far), (far, near)] {
        let (sender, receiver) = channel();
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || read(from, &sender, one_way));
        thread::spawn(move || write(to, &receiver));
    }
    Ok(())
}

fn read(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, one_way: Duration) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        let due = Instant::now() + one_way;
        // Nothing read: the end travels, too.
        if sender.send((due, bytes[..count].to_vec())).is_err() || count == 0 {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time_and_stay_in_order() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let target = listener.local_addr().expect("it has an address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the delay connects");
            let mut bytes = [0; 4];
            while stream.read_exact(&mut bytes).is_ok() {
                stream.write_all(&bytes).expect("the delay reads");
            }
        });
        let delay = Delay::start(target, Duration::from_millis(40)).expect("a port is free");
        let mut stream = TcpStream::connect(delay.address()).expect("it listens");
        for word in [b"onee", b"twoo"] {
            let begun = Instant::now();
            stream.write_all(word).expect("it is read");
            let mut found = [0; 4];
            stream.read_exact(&mut found).expect("it is answered");
            assert_eq!(&found, word);
            let took = begun.elapsed();
            assert!(took >= Duration::from_millis(80), "{took:?}");
        }
    }
}
