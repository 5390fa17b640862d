//! Finds the names that have a key: SCAN, a few steps at a time.
//!
//! A cursor is SCAN's own number as text. SCAN promises that a key which is there all the time
//! comes up at least once; it may come up twice, and a page may be empty.

use fencelock_core::{Cursor, ListRequest, LockName, Moment};
use fencelock_store::{Outcome, StoreError, StoreErrorKind};
use redis::Cmd;

use crate::{
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

/// Collects about as many names as were asked for.
pub(crate) async fn scan(
    wire: &Wire,
    request: &ListRequest,
    by: Moment,
) -> Result<Found, StoreError> {
    let limit = request.limit.clamp(1, ListRequest::MAX_LIMIT);
    let pattern = wire.keys.pattern(&request.prefix);
    let mut cursor = start(request)?;
    let mut names: Vec<LockName> = Vec::new();
    for _ in 0..STEPS_MAX {
        let mut command = Cmd::with_capacity(6, pattern.len() + 64);
        command.arg("SCAN").arg(&cursor[..]).arg("MATCH").arg(&pattern[..]);
        command.arg("COUNT").arg(limit);
        let mut question = Question::command(command, Again::Harmless, Order::Any);
        let answer = wire.ask(&mut question, by).await?;
        let (next, keys) = read(&answer.value).map_err(|odd| wire.odd(odd))?;
        names.extend(keys.iter().filter_map(|key| wire.keys.name(key)));
        let is_last = next == "0";
        cursor = next;
        if is_last || !names.is_empty() {
            names.sort_unstable();
            names.dedup();
            let next = (!is_last).then(|| Cursor::new(cursor.into_bytes()));
            return Ok(Found { names, next });
        }
    }
    Ok(Found { names, next: Some(Cursor::new(cursor.into_bytes())) })
}

fn start(request: &ListRequest) -> Result<String, StoreError> {
    let Some(cursor) = &request.cursor else { return Ok("0".to_owned()) };
    let text = std::str::from_utf8(cursor.as_bytes()).ok();
    let number = text.filter(|text| text.parse::<u64>().is_ok());
    number.map(str::to_owned).ok_or_else(|| {
        let message = "the cursor of the listing is not one that a redis store gave";
        StoreError::new(StoreErrorKind::Config, Outcome::NotDone, message)
    })
}

fn read(value: &redis::Value) -> Result<(String, Vec<&[u8]>), Odd> {
    let [cursor, keys] = reply::list(value)? else {
        return Err(Odd("something that is not a step of a scan"));
    };
    let cursor = String::from_utf8_lossy(reply::bytes(cursor)?).into_owned();
    if cursor.parse::<u64>().is_err() {
        return Err(Odd("a cursor that is not a number"));
    }
    let keys = reply::list(keys)?.iter().map(reply::bytes).collect::<Result<Vec<_>, Odd>>()?;
    Ok((cursor, keys))
}
