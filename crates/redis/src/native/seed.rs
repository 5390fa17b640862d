//! Writes the marker of the restart guard: what `fencelock init` asks for.

use std::{sync::LazyLock, time::Duration};

use fencelock_core::{Moment, Ttl};
use fencelock_store::StoreResult;

use super::{UNKNOWN_LETTER, ttl_digits};
use crate::{
    script::{Admission, Question, Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!("../scripts/native/seed.lua");

/// What is done with a server that has the marker of another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUsed {
    /// Nothing is written.
    Refuse,
    /// It counts at once all the same: nobody holds a lock that it forgot.
    Accept,
    /// Nothing is written there, nor where there is no marker: this only looks.
    Look,
}

/// What became of the marker of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Initialised {
    /// It was written: the server counts from now on.
    Written {
        /// The longest lease that it is good for.
        max_ttl: Duration,
    },
    /// It was there already.
    Already {
        /// The longest lease that it is good for.
        max_ttl: Duration,
    },
    /// The server has the marker of another life: it was in use before it restarted, and leases of
    /// then may still run. Nothing was written.
    Restarted {
        /// When it counts by itself; nothing left where its uptime says so already.
        counts_in: Duration,
    },
    /// There is no marker, and nothing was written, since it was only looked at: the server was never
    /// used, or lost its data.
    Blank,
}

pub(crate) async fn seed(
    wire: &Wire,
    max_ttl: Ttl,
    if_used: IfUsed,
    by: Moment,
) -> StoreResult<Initialised> {
    // Who the server is, and since when: the guard of this call decides nothing.
    let greeting = wire.look_at_server(by).await?;
    let left = greeting.uptime.map(|uptime| crate::guard::left(max_ttl, uptime));
    let mut question = Question::script(&SCRIPT, 1, (5, 256)).admission(Admission::Any);
    question.arg(&wire.keys.own(crate::guard::MARKER));
    question.arg(&ttl_digits(max_ttl));
    question.arg(match if_used {
        IfUsed::Refuse => b"0",
        IfUsed::Accept => b"1",
        IfUsed::Look => b"?",
    });
    // Another life of the server by now would only not be the one that is written down.
    question.arg(greeting.incarnation.as_ref().map_or("", |id| id.as_str()).as_bytes());
    let answer = wire.ask(&mut question, by).await?;
    super::read(wire, answer, |letter, mut fields, at| match letter {
        b'w' => Ok(Initialised::Written { max_ttl: fields.millis()? }),
        b'k' => Ok(Initialised::Already { max_ttl: fields.millis()? }),
        b'n' => Ok(Initialised::Blank),
        b'r' => {
            const NOBODY_KNOWS: u64 = 9_999_999_999_999_999;
            let since = fields.time()?;
            let counts_in = match since.as_micros() {
                NOBODY_KNOWS => left.unwrap_or_default(),
                _ => since.saturating_since(at),
            };
            Ok(Initialised::Restarted { counts_in })
        }
        _ => Err(UNKNOWN_LETTER),
    })
}
