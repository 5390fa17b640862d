//! The four threads of one proxied connection.
//!
//! A reader and a writer for each direction, a queue between them: a delayed or held frame must
//! not keep the next one from arriving. The queues are as long as what the peers send; tests send
//! little.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::control::{Deliver, Direction, Forward, Shared};
use crate::resp::{self, Splitter};

/// A frame, or the end of its stream.
struct Arrival {
    at: Instant,
    frame: Option<Vec<u8>>,
}

/// Starts to carry frames between two sockets, until either end or the proxy closes them.
pub(super) fn run(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_in, client_out) = (client.try_clone()?, client.try_clone()?);
    let (server_in, server_out) = (server.try_clone()?, server.try_clone()?);
    let id = shared.change(|control| {
        let id = control.connections;
        control.open(id, client, server);
        id
    });
    let (requests, requests_out) = channel();
    let (replies, replies_out) = channel();
    let [counting, forwarding, delivering] = [(); 3].map(|()| Arc::clone(shared));
    let count = move |frame: &[u8]| {
        counting.change(|control| control.count_request(&resp::request_name(frame)));
    };
    std::thread::spawn(move || read(client_in, resp::request_len, &requests, count));
    std::thread::spawn(move || forward(&forwarding, id, server_out, &requests_out));
    std::thread::spawn(move || read(server_in, resp::frame_len, &replies, |_| {}));
    std::thread::spawn(move || deliver(&delivering, id, client_out, &replies_out));
    Ok(())
}

/// Cuts a stream into frames; ends with an arrival that says so.
fn read(
    mut stream: TcpStream,
    len: fn(&[u8]) -> Result<Option<usize>, resp::Malformed>,
    queue: &Sender<Arrival>,
    seen: impl Fn(&[u8]),
) {
    let mut splitter = Splitter::default();
    let mut chunk = [0; 16 * 1024];
    loop {
        match splitter.next(len) {
            Ok(Some(frame)) => {
                seen(&frame);
                if queue.send(Arrival { at: Instant::now(), frame: Some(frame) }).is_err() {
                    return;
                }
            }
            Ok(None) => match stream.read(&mut chunk) {
                Ok(count) if count > 0 => splitter.push(&chunk[..count]),
                _ => break,
            },
            Err(resp::Malformed) => break,
        }
    }
    // The other thread may have ended first.
    let _ = queue.send(Arrival { at: Instant::now(), frame: None });
}

/// Carries requests to the server.
fn forward(shared: &Shared, id: u64, mut server: TcpStream, queue: &Receiver<Arrival>) {
    for Arrival { at, frame } in queue {
        let name = frame.as_deref().map(resp::request_name).unwrap_or_default();
        if !shared.wait_turn(id, Direction::Request, at, &name) {
            return;
        }
        let Some(frame) = frame else { break };
        let written = match shared.change(|control| control.decide_request(id, &name)) {
            Forward::Once => server.write_all(&frame),
            Forward::Twice => server.write_all(&[&frame[..], &frame[..]].concat()),
            Forward::Never => Ok(()),
        };
        // A server that is gone is reported by the other direction.
        if written.is_err() {
            return;
        }
    }
    if shared.look(|control| control.forwards_end(id)) {
        // The server reads what was sent, then the end, and closes; that ends `deliver`.
        let _ = server.shutdown(Shutdown::Write);
    }
}

/// Carries replies to the client, and closes the connection at their end.
fn deliver(shared: &Shared, id: u64, mut client: TcpStream, queue: &Receiver<Arrival>) {
    for Arrival { at, frame } in queue {
        let Some(frame) = frame else {
            if shared.wait_turn(id, Direction::Reply, at, "")
                && !shared.look(|control| control.shows_end(id))
            {
                // Closed by `heal`, `cut` or the proxy's drop.
                return;
            }
            break;
        };
        let decision = shared.change(|control| control.decide_reply(id, &frame));
        if decision == Deliver::Cut {
            break;
        }
        if decision == Deliver::No {
            continue;
        }
        if !shared.wait_turn(id, Direction::Reply, at, "") {
            return;
        }
        // A client that has left does not keep its requests from being executed and answered.
        let _ = client.write_all(&frame);
    }
    shared.change(|control| control.close(id));
}
