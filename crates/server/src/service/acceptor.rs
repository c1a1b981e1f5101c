//! The thread that accepts connections and hands them to the nodes' threads in turn.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_types::NodeId;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use super::environment::Environment;
use crate::frontend::{Note, Post};

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);

/// The pause after an error that lack of resources causes, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// The thread that accepts connections.
pub(crate) struct Acceptor {
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Acceptor {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system gives no poll or no thread.
    pub(crate) fn start(
        listener: std::net::TcpListener,
        environment: Arc<Environment>,
        post: Arc<dyn Post>,
    ) -> std::io::Result<Acceptor> {
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), STOP)?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let thread = std::thread::Builder::new()
            .name("acceptor".to_owned())
            .spawn(move || accept(poll, &listener, &environment, &*post))?;
        Ok(Acceptor { waker, thread })
    }

    /// Stops accepting and closes the listener.
    pub(crate) fn stop(self) {
        // The thread is gone if its poll has failed.
        let _ = self.waker.wake();
        let _ = self.thread.join();
    }
}

/// How many connections above the limit are kept for as long as it takes to refuse them.
const ABOVE_LIMIT: usize = 64;

fn accept(mut poll: Poll, listener: &TcpListener, environment: &Environment, post: &dyn Post) {
    let mut events = Events::with_capacity(8);
    let mut next = 0usize;
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
            Ok(()) => {}
        }
        if events.iter().any(|event| event.token() == STOP) {
            return;
        }
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    // Answers are small and each is waited for. Without the option they are slower, not wrong.
                    let _ = socket.set_nodelay(true);
                    // Some above the limit are let in to be told so.
                    let open = environment.shared.connections.load(Ordering::Relaxed);
                    if open >= environment.options.connections_max + ABOVE_LIMIT {
                        continue;
                    }
                    environment
                        .shared
                        .connections
                        .fetch_add(1, Ordering::Relaxed);
                    let node = NodeId((next % environment.nodes()) as u16);
                    next = next.wrapping_add(1);
                    post.post(node, Note::Accepted(socket));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The client has gone again, or there are too many open files: it is tried again.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}
