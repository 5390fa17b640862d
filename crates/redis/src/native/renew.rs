//! Prolongs leases, many at a time.
//!
//! Nearly all leases of a batch are of one name and are asked the same, so this is said once for
//! all of them, and only what is to say of a lease beyond "kept" is answered: see `renew.lua`.

use std::{collections::HashSet, sync::LazyLock};

use fencelock_core::{AcquireRequest, ListenerId, Moment, RenewRequest, Renewed, StoreTime, Token};
use fencelock_store::{Reply, StoreResult};

use super::{
    UNKNOWN_LETTER, ahead_us, digits, listener_digits, mark_unattended, retain_ms, ttl_digits,
};
use crate::{
    connection::Answer,
    reply::{Fields, Odd},
    rights,
    script::{Question, Script, script},
    wire::Wire,
};

static SCRIPT: LazyLock<Script> = script!(
    "../scripts/native/clock.lua",
    "../scripts/native/keep.lua",
    "../scripts/native/record.lua",
    "../scripts/native/crowd.lua",
    "../scripts/native/crowd_changes.lua",
    "../scripts/native/renew.lua",
);

pub(crate) async fn renew(
    wire: &Wire,
    batch: &[RenewRequest],
    by: Moment,
) -> StoreResult<Vec<Renewed>> {
    let Some(asked) = wire.bearable(batch)? else {
        let batch = wire.batch(batch);
        return wire.in_steps(&batch, by, |part| step(wire, part, by)).await;
    };
    let bearable = wire.batch(&asked);
    let reply = wire.in_steps(&bearable, by, |part| step(wire, part, by)).await?;
    Ok(reply.map(|answers| {
        let mut answers = asked.iter().zip(answers).peekable();
        let answer = |request: &RenewRequest| {
            let own = answers.next_if(|(asked, _)| asked.token == request.token);
            own.map_or(Renewed::Unknown, |(_, answer)| answer)
        };
        batch.iter().map(answer).collect()
    }))
}

async fn step(wire: &Wire, part: &[RenewRequest], by: Moment) -> StoreResult<Vec<Renewed>> {
    let call = Call::new(part);
    let mut question = call.question(wire);
    let answer = wire.ask(&mut question, by).await?;
    let mut refused = None;
    let reply = call.read(wire, answer, &mut refused)?;
    match refused {
        Some(text) if wire.refused_inside(&text).voids(&reply.answer) => {
            Err(Box::pin(rights::refused_inside(wire, &question, &text, by)).await)
        }
        _ => Ok(reply),
    }
}

/// Whether a token is named twice, where not all are asked the same: the two must be asked in their
/// order then.
fn has_repeats(batch: &[RenewRequest]) -> bool {
    let wish = |request: &RenewRequest| is_plain(request).then_some((request.ttl, request.retain));
    let first = batch.first().and_then(wish);
    if first.is_some() && batch.iter().all(|request| wish(request) == first) {
        return false;
    }
    let mut seen = HashSet::with_capacity(batch.len());
    !batch.iter().all(|request| seen.insert(request.token))
}

/// One call: its leases in the order in which they are asked for.
pub(super) struct Call<'a> {
    leases: Vec<Asked<'a>>,
    /// How many of them, from the first, only have to go on.
    plain: usize,
}

#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a RenewRequest,
    /// Where its answer belongs.
    index: usize,
}

impl<'a> Call<'a> {
    pub(super) fn new(part: &'a [RenewRequest]) -> Self {
        let asked = part.iter().enumerate().map(|(index, request)| Asked { request, index });
        let mut leases: Vec<_> = asked.collect();
        if has_repeats(part) {
            return Self { leases, plain: 0 };
        }
        // Those that are asked the same beside each other, else in their order: mostly it is
        // sorted already.
        leases.sort_by_key(|Asked { request, .. }| {
            let same = is_plain(request).then_some((request.ttl, request.retain));
            (same.is_none(), same)
        });
        let plain = leases.partition_point(|lease| is_plain(lease.request));
        Self { leases, plain }
    }

    fn question(&self, wire: &Wire) -> Question {
        /// What begins a record that is held: see `acquire.lua`.
        const HELD: &[u8] = b"fl2mh";
        const ARGUMENT_BYTES: usize = 48;
        let names = self.leases.iter().flat_map(|lease| lease.request.names.iter());
        let (plain, others) = self.leases.split_at(self.plain);
        let count = 5 + plain.len() + 5 * others.len();
        let mut question = wire.script_on(&SCRIPT, names, count, count * ARGUMENT_BYTES);
        // The keeper listens with one ear.
        question.listener = others.iter().find_map(|lease| lease.request.listener);
        question.arg(ahead_us().as_bytes());
        let is_alike = |one: &Asked<'_>, next: &Asked<'_>| {
            (one.request.ttl, one.request.retain) == (next.request.ttl, next.request.retain)
        };
        for group in plain.chunk_by(is_alike) {
            let Some(Asked { request, .. }) = group.first() else { continue };
            question.arg(group.len().to_string().as_bytes());
            question.arg(&ttl_digits(request.ttl));
            question.arg(retain_ms(request.retain).as_bytes());
            let mut start = [0; HELD.len() + Token::HEX_CHARACTERS];
            start[..HELD.len()].copy_from_slice(HELD);
            for Asked { request, .. } in group {
                start[HELD.len()..].copy_from_slice(&request.token.to_hex());
                question.arg(&start);
            }
        }
        question.arg(b"0");
        for Asked { request, .. } in others {
            question.arg(request.names.len().to_string().as_bytes());
            question.arg(&request.token.to_hex());
            question.arg(&ttl_digits(request.ttl));
            question.arg(retain_ms(request.retain).as_bytes());
            question.arg(&rest(request));
        }
        question
    }

    /// Reads the answers; what the server says where it could not do one goes to `refused`.
    pub(super) fn read(
        &self,
        wire: &Wire,
        answer: Answer,
        refused: &mut Option<String>,
    ) -> StoreResult<Vec<Renewed>> {
        let decoded = Fields::new(&answer.value).and_then(|fields| self.decode(fields, refused));
        let (answers, at) = decoded.map_err(|odd| wire.odd(odd))?;
        Ok(Reply::new(answers).at(at).of(answer.greeting.incarnation))
    }

    fn decode(
        &self,
        mut fields: Fields<'_>,
        refused: &mut Option<String>,
    ) -> Result<(Vec<Renewed>, StoreTime), Odd> {
        const ODD: Odd = Odd("answers to other renewals than were asked for");
        let at = fields.time()?;
        if fields.count()? != self.leases.len() {
            return Err(ODD);
        }
        let mut answers = vec![Renewed::Unknown; self.leases.len()];
        for Asked { request, index } in &self.leases[..self.plain] {
            answers[*index] = Renewed::extended(request.ttl.as_duration());
        }
        let (mut before, mut others) = (0, self.leases.len() - self.plain);
        while !fields.is_empty() {
            let number = fields.count()?;
            let length = fields.count()?;
            let mut said = Fields::of(fields.take(length)?);
            let lease = number.checked_sub(1).and_then(|place| self.leases.get(place));
            let lease = lease.filter(|_| number > before).ok_or(ODD)?;
            let letter = said.letter()?;
            answers[lease.index] = decode(letter, said, at, refused)?;
            others -= usize::from(number > self.plain);
            before = number;
        }
        if others > 0 { Err(ODD) } else { Ok((answers, at)) }
    }
}

/// Whether a lease only has to go on.
fn is_plain(request: &RenewRequest) -> bool {
    request.names.len() == 1
        && request.listener.is_none()
        && request.reserve == 0
        && !request.unattended
}

/// What a renewal changes besides the end.
fn rest(request: &RenewRequest) -> Vec<u8> {
    let mut rest = Vec::with_capacity(5 + ListenerId::DIGITS);
    let reserve = request.reserve.min(AcquireRequest::MAX_RESERVE);
    rest.extend_from_slice(&digits::<4>(u64::from(reserve)));
    rest.push(mark_unattended(request.unattended));
    if request.listener.is_some() {
        rest.extend_from_slice(&listener_digits(request.listener));
    }
    rest
}

fn decode(
    letter: u8,
    mut fields: Fields<'_>,
    at: StoreTime,
    refused: &mut Option<String>,
) -> Result<Renewed, Odd> {
    match letter {
        b'k' => Ok(Renewed::Extended {
            remaining: fields.lease()?.remaining(at),
            last_fence: fields.fencing_token()?,
            revoked: fields.flag()?,
            waiting: fields.waiting()?,
        }),
        b'n' => Ok(Renewed::NotHeld(fields.not_held()?)),
        b'e' => {
            *refused = Some(fields.text());
            Ok(Renewed::Unknown)
        }
        _ => Err(UNKNOWN_LETTER),
    }
}
