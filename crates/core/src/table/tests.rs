//! What the table must do: by example at the boundary instants, by invariant over random
//! sequences, and against a naive model that remembers history instead of records.

mod crowds;
mod examples;
mod invariants;
mod lines;
mod model;
mod operations;
mod places;
mod together;

use std::format;

use core::time::Duration;

use crate::{
    AcquireRequest, Acquired, FencingToken, Grant, LockName, LockTable, Names, Rules, StoreNow,
    StoreTime, Token, Ttl,
};

fn at(micros: u64) -> StoreNow {
    StoreNow::same(StoreTime::from_micros(micros))
}

/// So many milliseconds after the start of the tests' clock, which is far from zero.
fn ms(millis: u64) -> StoreNow {
    at(1_000_000_000 + millis * 1_000)
}

fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).expect("a ttl within the limits")
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a name within the limits")
}

fn names(list: &[&str]) -> Names {
    Names::new(list.iter().map(|text| name(text))).expect("a set within the limits")
}

fn token(number: u8) -> Token {
    Token::from_bytes([number; Token::BYTES])
}

fn fencing_token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("within the range")
}

fn table() -> LockTable {
    LockTable::new(Rules::default())
}

/// A lease of a second.
fn request(list: &[&str], number: u8) -> AcquireRequest {
    AcquireRequest::new(names(list), token(number), ttl(1_000))
}

fn granted(answer: &Acquired) -> &Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    }
}

fn take(table: &mut LockTable, list: &[&str], number: u8, now: StoreNow) -> Grant {
    let answer = table.acquire(&request(list, number), now);
    granted(&answer).clone()
}

fn describe(step: usize, what: &impl core::fmt::Debug) -> std::string::String {
    format!("step {step}: {what:?}")
}
