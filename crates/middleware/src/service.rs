//! Accepts applications' connections, and has their transactions give way where they have to.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anabranch_dbms::postgres::address::Endpoint;

use crate::recognise::Recogniser;
use crate::ring::Ring;
use crate::session;
use crate::shared::{Handle, ServiceOptions, Shared, Site};

/// How often it is looked whether transactions of clients block what other servers have done.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long statements may run on when the middleware ends.
const ENDS_AFTER: Duration = Duration::from_secs(5);

/// A middleware that accepts applications' connections.
pub struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Says which processes of the own database keep what other servers have done from being applied, or block one of the given
/// processes. It blocks until it knows.
pub type Blockers = Box<dyn FnMut(&[i32]) -> Vec<i32> + Send>;

impl Service {
    /// Begins to accept connections.
    ///
    /// `blockers` is asked while clients have connections.
    ///
    /// # Errors
    /// When the listener has no address, or no thread can begin.
    pub fn start(
        listener: TcpListener,
        home: Endpoint,
        sites: Vec<Site>,
        ring: Ring,
        recogniser: Recogniser,
        blockers: Blockers,
        options: ServiceOptions,
    ) -> io::Result<Service> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(home, sites, ring, recogniser, options));
        let mut threads = Vec::new();
        let of = Arc::clone(&shared);
        let accepting = thread::Builder::new().name("accept".to_owned());
        threads.push(accepting.spawn(move || accept(&of, &listener))?);
        let of = Arc::clone(&shared);
        let watching = thread::Builder::new().name("right-of-way".to_owned());
        threads.push(watching.spawn(move || keep_right_of_way(&of, blockers))?);
        Ok(Service {
            shared,
            address,
            threads,
        })
    }

    /// Where it accepts connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its part in the ring.
    pub fn ring(&self) -> &Ring {
        &self.shared.ring
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.stop();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for handle in self.shared.handles().values() {
            if let Some(client) = handle.client() {
                // Its session wakes, and tells the client that the middleware ends.
                let _ = client.shutdown(Shutdown::Read);
            }
        }
        let begun = Instant::now();
        while self.shared.connections.load(Ordering::Relaxed) > 0 && begun.elapsed() < ENDS_AFTER {
            thread::sleep(Duration::from_millis(10));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.is_stopping() {
            return;
        }
        let Ok(stream) = stream else {
            // Too many open files, for example.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let of = Arc::clone(shared);
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let begun = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || {
                session::serve(&of, stream);
                of.connections.fetch_sub(1, Ordering::Relaxed);
            });
        if begun.is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Has clients' transactions give way to what other servers have done, and to operations inside a hold.
fn keep_right_of_way(shared: &Arc<Shared>, mut blockers: Blockers) {
    while !shared.is_stopping() {
        thread::sleep(LOOKS_EVERY);
        if shared.connections.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let handles: Vec<Arc<Handle>> = shared.handles().values().cloned().collect();
        // The ring waits for operations inside a hold. Only transactions of clients are in their way, if any.
        let is_needed = handles.iter().any(|handle| handle.may_give_way());
        if !is_needed {
            continue;
        }
        let held = handles.iter().filter(|handle| handle.is_in_hold());
        let held: Vec<i32> = held.map(|handle| handle.process()).collect();
        for process in blockers(&held) {
            let found = handles.iter().find(|handle| handle.process() == process);
            if let Some(handle) = found {
                handle.displace();
            }
        }
    }
}
