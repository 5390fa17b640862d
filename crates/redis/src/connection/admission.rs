//! Whether a connection leads to a server that may grant something: the client's half of the
//! restart guard (see `guard.rs`).
//!
//! Nothing here is looked at for a store without a guard. With one, a request that grants waits for
//! the greeting of its connection, once; and while the server is young each asks for the marker,
//! so that `fencelock init` is seen at once.

use std::{sync::Arc, time::Duration};

use fencelock_core::Moment;
use fencelock_store::rt;
use redis::{Cmd, Value};

use super::{greeting::Greeting, lane::Flight, link::Link};
use crate::{
    error::{self, Failure},
    guard::{Form, Guard, Marker},
    reply,
    script::{Admission, Question},
};

/// What is known at once.
enum Standing {
    Admitted,
    /// The server must be asked, or has not answered yet.
    Open,
}

impl Flight<'_> {
    /// Whether a request may go out on this connection without another question.
    pub(super) fn is_admitted(&self, link: &Link, question: &mut Question) -> bool {
        match self.guard() {
            Some(guard) if question.admission != Admission::Any => {
                matches!(standing(guard, link, question), Standing::Admitted)
            }
            _ => true,
        }
    }

    /// Waits until it is known that a request may go out on this connection.
    ///
    /// # Errors
    /// It may not. Nothing of it was sent.
    pub(super) async fn admit(
        &self,
        link: &Arc<Link>,
        question: &mut Question,
    ) -> Result<(), Failure> {
        let Some(guard) = self.guard().filter(|_| question.admission != Admission::Any) else {
            return Ok(());
        };
        // A server that does not answer shall be given up as one that does not answer a request.
        self.leans_on(link);
        let greeting = link.greeting().await;
        if link.has_ended() {
            return Err(error::unreachable(self.at(), "the connection broke"));
        }
        if matches!(standing(guard, link, question), Standing::Admitted) {
            return Ok(());
        }
        let (Form::Uptime, Some(run_id), Some(uptime)) =
            (guard.form, &greeting.incarnation, greeting.uptime)
        else {
            if greeting.is_denied {
                return Err(Guard::unsaid(self.at()));
            }
            // Busy with a script, or the connection is about to break: the next one is asked again.
            link.retire();
            return Err(error::unreachable(self.at(), "it did not say who it is"));
        };
        if is_initialised(guard, link, run_id.as_str()).await {
            link.count();
            return Ok(());
        }
        let left = left(guard, uptime, &greeting);
        Err(guard.restarted(self.at(), uptime + since(&greeting), left))
    }
}

fn standing(guard: &Guard, link: &Link, question: &mut Question) -> Standing {
    if guard.form == Form::Durable || guard.form == Form::Uptime && link.counts() {
        return Standing::Admitted;
    }
    // Scripts that check for themselves hand nothing over that a message could tell of.
    if guard.form == Form::Scripts && !question.is_script() {
        return Standing::Admitted;
    }
    let Some(greeting) = link.known_greeting() else { return Standing::Open };
    match (guard.form, &greeting.incarnation, greeting.uptime) {
        (Form::Scripts, Some(run_id), _) => {
            question.tell(run_id.clone());
            Standing::Admitted
        }
        // Such a request must go out all the same; its script then hands nothing over.
        (Form::Scripts, None, _) if question.admission == Admission::Told => {
            question.tell(fencelock_core::Incarnation::new(""));
            Standing::Admitted
        }
        (Form::Uptime, _, Some(uptime)) if left(guard, uptime, greeting).is_zero() => {
            link.count();
            Standing::Admitted
        }
        _ => Standing::Open,
    }
}

fn left(guard: &Guard, uptime: Duration, greeting: &Greeting) -> Duration {
    guard.left(uptime, since(greeting))
}

fn since(greeting: &Greeting) -> Duration {
    match greeting.heard {
        Moment::START => Duration::ZERO,
        heard => rt::boottime_now().saturating_since(heard),
    }
}

/// Whether the marker names this life of the server, and counts already. Whatever can't be read is
/// no marker.
async fn is_initialised(guard: &Guard, link: &Link, run_id: &str) -> bool {
    let mut look = Cmd::with_capacity(2, guard.marker.len() + 16);
    look.arg("GET").arg(&guard.marker[..]);
    let Ok(value) = link.send(look).await.reply else { return false };
    let Some(marker) = reply::bytes(&value).ok().and_then(Marker::read) else { return false };
    if marker.run_id != run_id || !marker.is_good_for(guard) {
        return false;
    }
    let Ok(Value::Array(time)) = link.send(redis::cmd("TIME")).await.reply else { return false };
    let number = |index: usize| time.get(index).and_then(|part| reply::number(part).ok());
    let (Some(seconds), Some(micros)) = (number(0), number(1)) else { return false };
    let now = seconds.saturating_mul(1_000_000).saturating_add(micros);
    u64::try_from(now).is_ok_and(|now| marker.since.as_micros() <= now)
}
