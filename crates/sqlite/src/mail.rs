//! What one step has to tell, kept until it is committed, and sent then.
//!
//! ```text
//!   step: connect --> hand over --> COMMIT --> send --> heard
//!            |                                  |
//!         refused: passed over               refused: the lease is released by the dead
//!         in the same step                   waiter's token, which hands it to the next
//! ```
//! A message that could not be sent costs time, never safety: whoever waits also has a timer.

use std::{io, os::unix::net::UnixDatagram, time::Duration};

use fencelock_core::{LockName, ReleaseRequest, Retain, Token, Wakeup};
use fencelock_store::rt;

use crate::message;

/// Whether somebody listens at an address.
#[derive(Debug)]
pub(crate) enum Hearing {
    /// Certainly nobody.
    Nobody,
    /// Somebody does: a connection that sends without waiting.
    Somebody(UnixDatagram),
    /// Nobody can say.
    Unsure,
}

/// A message to one process.
#[derive(Debug)]
pub(crate) struct Letter {
    wakeup: Wakeup,
    to: UnixDatagram,
    offer: Option<PassOn>,
}

/// The lease, or turn, that goes on when a waiter is gone.
#[derive(Debug)]
pub(crate) struct PassOn {
    name: LockName,
    token: Token,
    retain: Retain,
}

impl PassOn {
    /// What was handed to a waiter.
    pub(crate) fn new(name: &LockName, token: Token, retain: Retain) -> Self {
        Self { name: name.clone(), token, retain }
    }

    fn request(self) -> ReleaseRequest {
        let mut request = ReleaseRequest::new(self.name, self.token);
        request.retain = self.retain;
        request
    }
}

impl Letter {
    /// Tells a waiter that its turn has come.
    pub(crate) fn offer(wakeup: Wakeup, to: UnixDatagram, pass_on: PassOn) -> Self {
        Self { wakeup, to, offer: Some(pass_on) }
    }

    /// Tells anybody anything else.
    pub(crate) fn news(wakeup: Wakeup, to: UnixDatagram) -> Self {
        Self { wakeup, to, offer: None }
    }

    /// Sends it; what goes on when certainly nobody hears it.
    fn send(self) -> Option<PassOn> {
        let bytes = message::encode(&self.wakeup)?;
        match self.to.send(&bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The other process is slow, or stands still.
                send_patiently(self.to, bytes);
                None
            }
            Err(error) if is_nobody(&error) => self.offer,
            _ => None,
        }
    }
}

/// Sends the messages of a step that was committed. What turned out to be handed to waiters that
/// are gone is to be released.
pub(crate) fn send(mail: Vec<Letter>) -> Vec<ReleaseRequest> {
    mail.into_iter().filter_map(Letter::send).map(PassOn::request).collect()
}

/// Whether an error of a socket says that certainly nobody listens there: it is closed, its
/// process is gone, or it was shut down.
pub(crate) fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
    )
}

/// The queue of a socket is short (ten messages, by default): a process that is told of many names
/// at once may need a moment.
const PATIENCE: Duration = Duration::from_secs(1);

fn send_patiently(to: UnixDatagram, bytes: Vec<u8>) {
    rt::try_spawn(async move {
        if let Ok(to) = rt::datagram(to) {
            let _ = rt::timeout(PATIENCE, to.send(&bytes)).await;
        }
    });
}
