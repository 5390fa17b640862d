//! A world as numbers: everything that counts, and nothing else, so that two worlds that differ in the
//! time of day only are the same.

use std::time::Duration;

use fencelock_core::{Acquired, Downgraded, RecordState, StoreTime, Token, Wakeup};

use super::{Wire, World};
use crate::crowd::client::{Client, Phase, Reply};

impl World {
    /// Everything that counts, with all times relative to the present, where what is long over is
    /// over.
    pub(super) fn view(&self) -> Vec<u64> {
        let mut view = Vec::with_capacity(24 * self.clients.len());
        let flags = [self.went_back, self.came_back, self.left_out, self.refused_late];
        view.extend(flags.map(u64::from));
        view.extend([self.losses, self.crashes, self.idle_ticks].map(u64::from));
        view.extend([self.last_writer, self.last_started]);
        self.view_table(&mut view);
        for (client, wire) in self.clients.iter().zip(&self.wires) {
            view.push(u64::MAX);
            self.view_client(&mut view, client);
            self.view_wire(&mut view, wire);
        }
        view
    }

    fn view_table(&self, view: &mut Vec<u64>) {
        let left = |end: StoreTime| micros(end.saturating_since(self.now));
        if let Some(record) = self.table.record(&self.name) {
            let state = match record.state {
                RecordState::Held => 0,
                RecordState::Reserved => 1,
                RecordState::Free => 2,
                RecordState::Shared => 3,
            };
            let end = if record.state == RecordState::Free { 0 } else { left(record.end) };
            let fence = record.fencing_token.map_or(0, |token| token.as_u64());
            view.extend([state, record.token.map_or(0, number), fence, end]);
            if let Some(crowd) = &record.crowd {
                for share in &crowd.shares {
                    let fence = share.fencing_token.map_or(0, |token| token.as_u64());
                    view.extend([number(share.token), fence, left(share.end)]);
                }
                view.push(u64::MAX - 1);
                view.extend(crowd.spent.iter().copied().map(number));
            }
        }
        view.push(u64::MAX - 2);
        for place in self.table.line(&self.name) {
            let age = self.now.saturating_since(place.seen);
            view.extend([number(place.token), micros(age.min(place.live + Client::TICK))]);
        }
    }

    fn view_client(&self, view: &mut Vec<u64>, client: &Client) {
        let until = |end: StoreTime| micros(end.saturating_since(self.now));
        let since = |start: StoreTime| micros(self.now.saturating_since(start).min(LONG_AGO));
        view.extend(match client.phase {
            Phase::Idle => [0, 0],
            Phase::Waiting => [1, 0],
            Phase::Holding { deadline, reads } => [2 + u64::from(reads), until(deadline)],
            Phase::Between { deadline } => [4, until(deadline)],
            Phase::Leaving => [5, 0],
            Phase::Done => [6, 0],
            Phase::Dead => [7, 0],
        });
        view.push(u64::from(client.started_by_message));
        if client.is_over() {
            return;
        }
        if let Some((verb, sent)) = client.pending {
            view.extend([1, verb as u64, since(sent)]);
        }
        if let Some((seen, sent)) = client.place {
            view.extend([2, since(seen), since(sent)]);
        }
        if let Some(timer) = client.timer {
            view.extend([3, until(timer)]);
        }
    }

    fn view_wire(&self, view: &mut Vec<u64>, wire: &Wire) {
        let since = |start: StoreTime| micros(self.now.saturating_since(start).min(LONG_AGO));
        view.push(u64::from(wire.gave_back));
        if let Some(verb) = wire.request {
            view.extend([11, verb as u64]);
        }
        if let Some(verb) = wire.late {
            view.extend([12, verb as u64]);
        }
        if let Some(reply) = &wire.reply {
            view.push(13);
            view_reply(view, reply, since);
        }
        match wire.message {
            Some(Wakeup::Granted(hand_off)) => {
                let fence = hand_off.fencing_token.map_or(0, |token| token.as_u64());
                view.extend([14, fence, since(hand_off.seen), since(hand_off.at)]);
            }
            // All else is the same hint.
            Some(_) => view.push(15),
            None => {}
        }
    }
}

fn view_reply(view: &mut Vec<u64>, reply: &Reply, since: impl Fn(StoreTime) -> u64) {
    match reply {
        Reply::Acquired(Acquired::Granted(grant), _) => {
            let fence = grant.fence.token().map_or(0, |token| token.as_u64());
            view.extend([1, fence, micros(grant.remaining)]);
        }
        Reply::Acquired(Acquired::Queued(queued), at) => {
            let left = queued.busy.holder.remaining.map_or(0, micros);
            view.extend([2, left, since(*at)]);
        }
        Reply::Acquired(..) => view.push(3),
        Reply::Downgraded(Downgraded::Shared { .. }) => view.push(4),
        Reply::Downgraded(_) => view.push(5),
        Reply::Released(_) => view.push(6),
    }
}

/// What is older makes no difference any more: all leases and places of then are over.
const LONG_AGO: Duration = Duration::from_secs(10);

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn number(token: Token) -> u64 {
    let bytes = token.as_bytes();
    u64::from(bytes[0]) * 256 + u64::from(bytes[1])
}
