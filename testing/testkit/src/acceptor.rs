//! A listener on its own thread, which ends when the value is dropped.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use rustix::net::{Shutdown, shutdown};

/// Accepts until dropped; then new connections are refused, and those that are open stay.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Listens on a port of 127.0.0.1 that the caller has reserved.
    pub(crate) fn start(port: u16, mut accepted: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .unwrap_or_else(|e| panic!("cannot listen on port {port}: {e}"));
        let accepting = listener.try_clone().expect("a descriptor for the accepting thread");
        let thread = std::thread::spawn(move || {
            loop {
                match accepting.accept() {
                    Ok((stream, _)) => accepted(stream),
                    // `drop` has shut the listener down.
                    Err(e) if e.kind() == ErrorKind::InvalidInput => return,
                    Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                    Err(e) => panic!("cannot accept on port {port}: {e}"),
                }
            }
        });
        Self { listener, thread: Some(thread) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // Linux ends a pending accept when its listener is shut down.
        let stopped = shutdown(&self.listener, Shutdown::Both);
        if let (Ok(()), Some(thread)) = (stopped, self.thread.take()) {
            // Its panic has been printed already.
            let _ = thread.join();
        }
    }
}
