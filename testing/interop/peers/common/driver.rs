//! What the driver of a Rust peer shares: the lines of `PROTOCOL.md`.

use std::{fmt::Display, io::BufRead as _};

/// What each verb of a peer answers; an error is for people.
pub(crate) type Answer<T> = Result<T, String>;

/// One peer, with the last lock that it acquired.
pub(crate) trait Peer {
    /// The bytes that own the lock; nothing when it is busy.
    fn acquire(&mut self, name: &str, ttl_ms: u64, wait_ms: u64) -> Answer<Option<Vec<u8>>>;
    /// Whether it was still ours.
    fn release(&mut self) -> Answer<bool>;
    /// Whether it was still ours.
    fn extend(&mut self, ttl_ms: u64) -> Answer<bool>;
    /// Whether it is ours.
    fn holding(&mut self) -> Answer<bool>;
}

/// Serves until `quit` or the end of standard input.
pub(crate) fn serve(name: &str, version: &str, peer: &mut impl Peer) {
    println!("ready {name} {version}");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["quit"] => break,
            ["acquire", name, ttl_ms, wait_ms] => acquire(peer, name, ttl_ms, wait_ms),
            ["release"] => said(peer.release()),
            ["extend", ttl_ms] => number(ttl_ms).and_then(|ttl_ms| said(peer.extend(ttl_ms))),
            ["holding"] => said(peer.holding()),
            ["ttl"] => Err("unsupported".to_owned()),
            _ => Err("unknown command".to_owned()),
        };
        println!("{}", answer.unwrap_or_else(|what| format!("error {}", what.replace('\n', " "))));
    }
    // Without the destructors, which would release.
    std::process::exit(0);
}

/// An error of a library, as an answer.
pub(crate) fn failed(error: impl Display) -> String {
    error.to_string()
}

fn acquire(peer: &mut impl Peer, name: &str, ttl_ms: &str, wait_ms: &str) -> Answer<String> {
    let token = peer.acquire(name, number(ttl_ms)?, number(wait_ms)?)?;
    Ok(token.map_or("busy".to_owned(), |token| {
        let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("ok {hex}")
    }))
}

fn said(ours: Answer<bool>) -> Answer<String> {
    ours.map(|ours| if ours { "ok" } else { "expired" }.to_owned())
}

fn number(text: &str) -> Answer<u64> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
