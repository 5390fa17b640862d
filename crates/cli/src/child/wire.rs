//! The fixed-size messages between wrapper, minder and the child before its exec.
//!
//! ```text
//!   0        4        8                16
//!   | tag    | detail | value          |      little endian
//! ```
//!
//! Every message is one packet of a `SOCK_SEQPACKET` pair, so it arrives whole or not at all. The
//! child encodes and decodes between fork and exec: nothing here may allocate or panic.

use super::clock::{Clock, Deadline};

/// One encoded message.
pub(super) type Packet = [u8; 16];

/// All that is ever said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Child to minder: my pid, which is also my group.
    Hello(i32),
    /// Minder to child: the group with your pid is watched, go on.
    Watched(i32),
    /// Wrapper to minder: kill the group at this instant (`None`: only on end of file).
    KillAt(Option<Deadline>),
    /// Wrapper to minder: the command has ended, exit, or rest until the next.
    Disarm,
    /// Minder to wrapper: nobody is watched any more, the next command may come.
    Rested,
    /// Minder to wrapper: the deadline has come and the group is being killed.
    Killing,
}

impl Message {
    /// As bytes.
    pub(super) fn encode(self) -> Packet {
        let (tag, detail, value) = match self {
            Message::Hello(pid) => (HELLO, 0, u64::try_from(pid).unwrap_or(0)),
            Message::Watched(pid) => (WATCHED, 0, u64::try_from(pid).unwrap_or(0)),
            Message::KillAt(None) => (KILL_AT, 0, 0),
            Message::KillAt(Some(deadline)) => {
                let clock = match deadline.clock() {
                    Clock::Boottime => BOOTTIME,
                    Clock::Monotonic => MONOTONIC,
                };
                (KILL_AT, clock, deadline.at_ns())
            }
            Message::Disarm => (DISARM, 0, 0),
            Message::Rested => (RESTED, 0, 0),
            Message::Killing => (KILLING, 0, 0),
        };
        let mut packet = [0; 16];
        let (head, tail) = packet.split_at_mut(8);
        let (first, second) = head.split_at_mut(4);
        first.copy_from_slice(&u32::to_le_bytes(tag));
        second.copy_from_slice(&u32::to_le_bytes(detail));
        tail.copy_from_slice(&u64::to_le_bytes(value));
        packet
    }

    /// From bytes; `None` for anything that [`Message::encode`] does not write.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let packet = Packet::try_from(bytes).ok()?;
        let [t0, t1, t2, t3, d0, d1, d2, d3, value @ ..] = packet;
        let (tag, detail) =
            (u32::from_le_bytes([t0, t1, t2, t3]), u32::from_le_bytes([d0, d1, d2, d3]));
        let value = u64::from_le_bytes(value);
        match (tag, detail) {
            (HELLO, 0) => Some(Message::Hello(i32::try_from(value).ok()?)),
            (WATCHED, 0) => Some(Message::Watched(i32::try_from(value).ok()?)),
            (KILL_AT, 0) => Some(Message::KillAt(None)),
            (KILL_AT, BOOTTIME) => {
                Some(Message::KillAt(Some(Deadline::new(Clock::Boottime, value))))
            }
            (KILL_AT, MONOTONIC) => {
                Some(Message::KillAt(Some(Deadline::new(Clock::Monotonic, value))))
            }
            (DISARM, 0) => Some(Message::Disarm),
            (RESTED, 0) => Some(Message::Rested),
            (KILLING, 0) => Some(Message::Killing),
            _ => None,
        }
    }
}

// "fl" and a number, so that a stray byte stream is not taken for a message.
const HELLO: u32 = 0x666c_0001;
const WATCHED: u32 = 0x666c_0002;
const KILL_AT: u32 = 0x666c_0003;
const DISARM: u32 = 0x666c_0004;
const KILLING: u32 = 0x666c_0005;
const RESTED: u32 = 0x666c_0006;
const BOOTTIME: u32 = 1;
const MONOTONIC: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_as_it_was_said() {
        for message in [
            Message::Hello(4_194_304),
            Message::Watched(1),
            Message::KillAt(None),
            Message::KillAt(Some(Deadline::new(Clock::Boottime, u64::MAX))),
            Message::KillAt(Some(Deadline::new(Clock::Monotonic, 1))),
            Message::Disarm,
            Message::Rested,
            Message::Killing,
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn anything_else_is_no_message() {
        let mut packet = Message::KillAt(None).encode();
        assert_eq!(Message::decode(&packet[..15]), None);
        assert_eq!(Message::decode(&[]), None);
        assert_eq!(Message::decode(&[0; 16]), None);
        packet[4] = 3;
        assert_eq!(Message::decode(&packet), None);
    }
}
