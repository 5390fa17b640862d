//! A network that fails on demand: a TCP proxy before a server, faults chosen at run time.
//!
//! ```text
//! client ──▶ reader ──▶ [delay, hold] ──▶ decide ──▶ writer ──▶ server
//! client ◀── writer ◀── [delay, hold] ◀── decide ◀── reader ◀── server
//! ```
//!
//! It counts whole RESP commands, not packets, so a fault hits exactly the command a test means.
//! Faults that count (`cut_after_requests`, `swallow_next_replies`, `double_next_request`) and
//! holds concern the commands the proxy is *aimed* at: all but those that set a connection up
//! (HELLO, AUTH, SELECT, CLIENT), or the ones named with [`Proxy::aim`].
//!
//! TCP loses nothing in the middle of a stream, and neither does the proxy: a connection on which
//! something was swallowed delivers nothing more in that direction, and [`Proxy::heal`] closes it,
//! as the end of a real outage would. A client is thus never given the reply of another request.
//! `CLIENT REPLY OFF` is not understood.

mod connection;
mod control;

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::acceptor::Acceptor;
use crate::port::ReservedPort;
use crate::process::eventually;
use crate::redis::RedisServer;
use control::{Control, Shared};

/// The bound of the waits for a connection or request to show up at the proxy.
const ARRIVE_WITHIN: Duration = Duration::from_secs(10);

/// A proxy with a port of its own before one server.
#[derive(Debug)]
pub struct Proxy {
    port: ReservedPort,
    url: String,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<Acceptor>>,
}

impl Proxy {
    /// Stands before a server of the testkit; the URL carries the server's password.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn before(server: &RedisServer) -> Self {
        let mut proxy = Self::before_addr(&server.addr());
        proxy.url = server.url().replace(&server.addr(), &proxy.addr());
        proxy
    }

    /// Stands before any address, `host:port`.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn before_addr(upstream: &str) -> Self {
        let port = ReservedPort::draw();
        let proxy = Self {
            url: format!("redis://127.0.0.1:{}/0", port.port()),
            port,
            shared: Arc::new(Shared::new(upstream)),
            acceptor: Mutex::new(None),
        };
        proxy.accept();
        proxy
    }

    /// The URL of the server by way of the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port.port())
    }

    /// Names the commands that counting faults, holds and [`Proxy::requests`] concern; none
    /// restores "all but the set-up of connections".
    pub fn aim(&self, commands: &[&str]) {
        let aim = commands.iter().map(|name| name.to_uppercase()).collect();
        self.shared.change(|control| control.aim = aim);
    }

    /// Delays every request by this much; pipelined ones overlap. Zero ends it.
    pub fn delay_requests(&self, by: Duration) {
        self.shared.change(|control| control.requests_lane.delay = by);
    }

    /// Delays every reply and push by this much. Zero ends it.
    pub fn delay_replies(&self, by: Duration) {
        self.shared.change(|control| control.replies_lane.delay = by);
    }

    /// Accepts connections and requests, forwards none, answers nothing, on old connections too.
    pub fn blackhole(&self) {
        self.shared.change(|control| control.blackhole = true);
    }

    /// Forwards requests and swallows all replies.
    pub fn drop_replies(&self) {
        self.shared.change(|control| control.drop_replies = true);
    }

    /// Closes all connections now; new ones are welcome.
    pub fn cut(&self) {
        self.shared.change(Control::close_all);
    }

    /// Refuses new connections (`ECONNREFUSED`) until [`Proxy::accept`] or [`Proxy::heal`]; those
    /// that are open stay.
    ///
    /// # Panics
    ///
    /// When the thread that accepts has panicked.
    pub fn refuse(&self) {
        // Dropped here, an acceptor closes its listener.
        self.acceptor.lock().expect("not poisoned").take();
    }

    /// Accepts new connections again.
    ///
    /// # Panics
    ///
    /// When the port was taken by a process outside of the testkit.
    pub fn accept(&self) {
        let mut acceptor = self.acceptor.lock().expect("not poisoned");
        if acceptor.is_none() {
            let shared = Arc::clone(&self.shared);
            *acceptor =
                Some(Acceptor::start(self.port.port(), move |client| open(&shared, client)));
        }
    }

    /// Closes a connection when the server has *executed* the `count`-th request from now: the
    /// reply is lost with the connection, and what was sent behind it is never forwarded.
    pub fn cut_after_requests(&self, count: u64) {
        self.shared.change(|control| control.cut_in = count);
    }

    /// Swallows the replies to the next `count` requests, with all that follows on their
    /// connections.
    pub fn swallow_next_replies(&self, count: u64) {
        self.shared.change(|control| control.swallow_left = count);
    }

    /// Sends the next request twice and returns only the second reply: what a client sees whose
    /// driver sent again after the first reply was lost.
    pub fn double_next_request(&self) {
        self.shared.change(|control| control.double_left += 1);
    }

    /// Keeps requests back, whole and in order; each holds up those behind it. A client that
    /// gives up does not call its request back: it is forwarded on release.
    pub fn hold_requests(&self) {
        self.shared.change(|control| control.requests_lane.holding = true);
    }

    /// Forwards what was held.
    pub fn release_requests(&self) {
        self.shared.change(|control| control.requests_lane.holding = false);
    }

    /// Keeps replies and pushes back; the server has executed what they answer.
    pub fn hold_replies(&self) {
        self.shared.change(|control| control.replies_lane.holding = true);
    }

    /// Delivers the replies that were held.
    pub fn release_replies(&self) {
        self.shared.change(|control| control.replies_lane.holding = false);
    }

    /// Ends every fault, and closes the connections on which something was swallowed.
    ///
    /// # Panics
    ///
    /// As [`Proxy::accept`].
    pub fn heal(&self) {
        self.shared.change(Control::heal);
        self.accept();
    }

    /// The requests that arrived so far (those the proxy was aimed at), forwarded or not.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.look(|control| control.requests)
    }

    /// The connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.look(|control| control.connections)
    }

    /// The connections open now.
    #[must_use]
    pub fn live_connections(&self) -> usize {
        self.shared.look(|control| control.live.len())
    }

    /// The connections with a request that is held now.
    #[must_use]
    pub fn held_requests(&self) -> u64 {
        self.shared.look(|control| control.requests_lane.held)
    }

    /// The connections with a reply that is held now: the server has executed its request.
    #[must_use]
    pub fn held_replies(&self) -> u64 {
        self.shared.look(|control| control.replies_lane.held)
    }

    /// Waits until so many connections have a request held.
    ///
    /// # Panics
    ///
    /// When they do not come.
    #[track_caller]
    pub fn wait_for_held_requests(&self, count: u64) {
        eventually(ARRIVE_WITHIN, &format!("{count} requests are held"), || {
            self.held_requests() >= count
        });
    }

    /// Waits until so many connections have a reply held.
    ///
    /// # Panics
    ///
    /// When they do not come.
    #[track_caller]
    pub fn wait_for_held_replies(&self, count: u64) {
        eventually(ARRIVE_WITHIN, &format!("{count} replies are held"), || {
            self.held_replies() >= count
        });
    }

    /// Waits until so many requests have arrived since the proxy was made.
    ///
    /// # Panics
    ///
    /// When they do not come.
    #[track_caller]
    pub fn wait_for_requests(&self, count: u64) {
        eventually(ARRIVE_WITHIN, &format!("{count} requests have arrived"), || {
            self.requests() >= count
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.cut();
    }
}

/// Connects a new client through; one that cannot be connected is closed, which is what a proxy
/// before a dead server does.
fn open(shared: &Arc<Shared>, client: TcpStream) {
    shared.change(|control| control.connections += 1);
    if let Ok(server) = TcpStream::connect(&shared.upstream) {
        // Fails only when the process is out of descriptors; the client then sees a close.
        let _ = connection::run(shared, client, server);
    }
}
