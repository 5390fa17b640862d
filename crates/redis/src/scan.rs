//! Finds the names that have a key: SCAN, a few steps at a time.
//!
//! A cursor is SCAN's own number as text. SCAN promises that a key which is there all the time
//! comes up at least once; it may come up twice, and a page may be empty.
//!
//! On a cluster the primaries are walked one after the other, by their lowest slots; the cursor says
//! which, too. Of a slot that moves meanwhile names may come twice, or not at all.

use fencelock_core::{Cursor, ListRequest, LockName, Moment};
use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use redis::Cmd;

use crate::{
    cluster::{Address, Route},
    connection::{Again, Order},
    reply::{self, Odd},
    script::Question,
    wire::Wire,
};

/// The names of one page, and where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) names: Vec<LockName>,
    pub(crate) next: Option<Cursor>,
}

/// How many empty steps one page takes before it is given out empty: enough to get through
/// 16,000 keys of other programs in one call, few enough to keep it short.
const STEPS_MAX: usize = 16;

/// Where a listing stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// SCAN's own number.
    cursor: u64,
    /// On a cluster the server: by its lowest slot, and its address.
    server: Option<(u16, Address)>,
}

/// Collects about as many names as were asked for.
pub(crate) async fn scan(
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> Result<Found, StoreError> {
    let limit = request.limit.clamp(1, ListRequest::MAX_LIMIT);
    let pattern = wire.keys.pattern(&request.prefix);
    let Some(mut place) = start(wire, request, by).await? else { return Ok(Found::default()) };
    let mut names: Vec<LockName> = Vec::new();
    for _ in 0..STEPS_MAX {
        let mut command = Cmd::with_capacity(6, pattern.len() + 64);
        command.arg("SCAN").arg(place.cursor).arg("MATCH").arg(&pattern[..]);
        command.arg("COUNT").arg(limit);
        let mut question = Question::command(command, Again::Harmless, Order::Any);
        if let Some((_, address)) = &place.server {
            question.route = Route::Server(Address::clone(address));
        }
        let answer = wire.ask(&mut question, by).await?;
        let (cursor, keys) = read(&answer.value).map_err(|odd| wire.odd(odd))?;
        names.extend(keys.iter().filter_map(|key| wire.keys.name(key)));
        let next = match (cursor, place.server) {
            (0, None) => None,
            (0, Some((slot, _))) => Place::of_server(wire, slot.saturating_add(1), by).await?,
            (cursor, server) => Some(Place { cursor, server }),
        };
        match next {
            Some(next) if names.is_empty() => place = next,
            next => {
                names.sort_unstable();
                names.dedup();
                return Ok(Found { names, next: next.map(Place::write) });
            }
        }
    }
    Ok(Found { names, next: Some(place.write()) })
}

/// Where a page begins; nothing where there is nothing more.
async fn start(
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> Result<Option<Place>, StoreError> {
    let is_cluster = wire.connections.is_cluster();
    let Some(cursor) = &request.cursor else {
        return match is_cluster {
            true => Place::of_server(wire, 0, by).await,
            false => Ok(Some(Place { cursor: 0, server: None })),
        };
    };
    let place = Place::read(cursor).filter(|place| place.server.is_some() == is_cluster);
    let place = place.ok_or_else(|| {
        let message = "the cursor of the listing is not one that this redis store gave";
        StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
    })?;
    let Some((slot, address)) = &place.server else { return Ok(Some(place)) };
    match Place::of_server(wire, *slot, by).await? {
        Some(now) if now.server.as_ref().is_some_and(|(_, now)| now == address) => Ok(Some(place)),
        // Another server has these slots now, and knows nothing of the number.
        now => Ok(now),
    }
}

impl Place {
    /// The begin of the server with the next lowest slot.
    async fn of_server(wire: &Wire, slot: u16, by: Moment) -> Result<Option<Self>, StoreError> {
        let primaries = wire.connections.primaries(&wire.clock, by).await?;
        let next = primaries.into_iter().find(|(lowest, _)| *lowest >= slot);
        Ok(next.map(|server| Self { cursor: 0, server: Some(server) }))
    }

    fn write(self) -> Cursor {
        let text = match self.server {
            None => self.cursor.to_string(),
            Some((slot, address)) => format!("{} {slot} {address}", self.cursor),
        };
        Cursor::new(text.into_bytes())
    }

    fn read(cursor: &Cursor) -> Option<Self> {
        let text = std::str::from_utf8(cursor.as_bytes()).ok()?;
        let mut words = text.split(' ');
        let cursor = words.next()?.parse().ok()?;
        let server = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some(slot), Some(address), None) => Some((slot.parse().ok()?, address.into())),
            _ => return None,
        };
        Some(Self { cursor, server })
    }
}

fn read(value: &redis::Value) -> Result<(u64, Vec<&[u8]>), Odd> {
    let [cursor, keys] = reply::list(value)? else {
        return Err(Odd("something that is not a step of a scan"));
    };
    let cursor = std::str::from_utf8(reply::bytes(cursor)?).ok();
    let cursor = cursor.and_then(|cursor| cursor.parse().ok());
    let cursor = cursor.ok_or(Odd("a cursor that is not a number"))?;
    let keys = reply::list(keys)?.iter().map(reply::bytes).collect::<Result<Vec<_>, Odd>>()?;
    Ok((cursor, keys))
}
