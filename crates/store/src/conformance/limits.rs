//! Every name, every ttl and every metadata within the limits works.

use std::time::Duration;

use fencelock_core::{
    AcquireRequest, Acquired, LockName, Metadata, Released, Renewed, Retain, Ttl,
};

use super::{
    Harness,
    support::{Ask as _, MINUTE, metadata, name, request, secs, token, ttl},
};
use crate::Store;

/// Names that broke somebody's keys, queries, protocols or hash slots.
fn awkward_names() -> Vec<LockName> {
    let mut names: Vec<LockName> = [
        "job:{1}",
        "{job}:1",
        "job:{}:1",
        "{}job",
        "job:{1",
        "job}:{1}",
        "{{x}}",
        "a{b}c{d}",
        "}{",
        "{",
        "}",
        " ",
        "a b",
        "\n",
        "\r\n",
        "a\r\nDEL k\r\n",
        "\t",
        "\"",
        "'",
        "';--",
        "`$(x)",
        "\\",
        "/",
        "../..",
        "*",
        "?",
        "[a]",
        "%",
        "%00",
        "%25",
        "a%41",
        "aA",
        "!",
        "!boot",
        "!!",
        "#",
        ":",
        "::",
        "fencelock:k",
        "k",
        "K",
        "kk",
        "é",
        "e\u{301}",
        "naïve 🔒",
        "\u{202e}",
        "0",
        "-1",
        "null",
        "nil",
    ]
    .iter()
    .map(name)
    .collect();
    names.extend((0..=255).map(|byte: u8| name([b'x', byte])));
    names.extend([&b"\0"[..], b"\0\0", b"a\0b", b"a\0", b"\xff", b"\xff\xfe\xfd"].map(name));
    names.extend([0, b'%', b'{', b'x', 0xff].map(|byte| name([byte; LockName::MAX_BYTES])));
    names.sort();
    names.dedup();
    names
}

pub async fn awkward_names_live_a_whole_life_and_are_different_locks(harness: &impl Harness) {
    let store = harness.fresh().await;
    let mut held = Vec::new();
    for at in awkward_names() {
        let holder = token();
        // Granted at all means that it is not the same lock as any name before it.
        let _ = store.take(at.clone(), holder).await;
        held.push((at, holder));
    }
    for (at, holder) in &held {
        store.assert_held_by(at, *holder).await;
        let answer = store.renew_for(at.clone(), *holder, secs(90)).await;
        assert!(matches!(answer, Renewed::Extended { .. }), "{at}: {answer:?}");
    }
    for (at, holder) in &held {
        assert_eq!(store.give_back(at.clone(), *holder).await, Released::Held, "{at}");
        store.assert_free(at).await;
    }
}

pub async fn every_byte_of_metadata_comes_back(harness: &impl Harness) {
    let store = harness.fresh().await;
    let every_byte: Vec<u8> = (0..Metadata::MAX_BYTES).map(|n| n.to_le_bytes()[0]).collect();
    let all = [every_byte, Vec::new(), vec![0], b"|\n\r\0;".to_vec(), vec![0xff; 1024]];
    for (index, bytes) in all.into_iter().enumerate() {
        let at = name(format!("k{index}"));
        let mut asked = request(at.clone(), token());
        asked.metadata = metadata(bytes.clone());
        let _ = store.take_as(&asked).await;
        let _ = store.renew_for(at.clone(), asked.token, secs(90)).await;
        let _ = store.shorten_to(at.clone(), asked.token, secs(50)).await;
        let shown = store.holder(&at).await.metadata;
        let kept = if store.capabilities().metadata { &bytes[..] } else { b"" };
        assert_eq!(shown.as_bytes(), kept);
        assert_eq!(store.give_back(at, asked.token).await, Released::Held);
    }
}

pub async fn the_shortest_ttl_ends_when_it_should(harness: &impl Harness) {
    let store = harness.fresh().await;
    let first = token();
    let grant = store.take_as(&AcquireRequest::new(name("k"), first, Ttl::MIN)).await;
    assert!(harness.timing().agrees(grant.remaining, Ttl::MIN.as_duration()), "{grant:?}");
    harness.advance(&store, Ttl::MIN.as_duration() + harness.timing().grain).await;
    let _ = store.take(name("k"), token()).await;
}

pub async fn the_longest_ttl_lasts(harness: &impl Harness) {
    let store = harness.fresh().await;
    let timing = harness.timing();
    let longest = Ttl::MAX.as_duration();
    let first = token();
    let grant = store.take_as(&AcquireRequest::new(name("k"), first, Ttl::MAX)).await;
    assert!(timing.agrees(grant.remaining, longest), "{grant:?}");
    harness.advance(&store, longest - timing.before_end()).await;
    let answer = store.try_take(name("k"), token()).await;
    assert!(matches!(answer, Acquired::Busy(_)), "{answer:?}");
    harness.advance(&store, timing.before_end() + timing.grain).await;
    let _ = store.take(name("k"), token()).await;
}

pub async fn a_ttl_of_an_odd_number_of_milliseconds_is_kept_exactly(harness: &impl Harness) {
    let store = harness.fresh().await;
    for millis in [86_399_999, 1_234_567, 60_001] {
        let at = name(format!("k{millis}"));
        let span = Duration::from_millis(millis);
        let grant = store.take_as(&AcquireRequest::new(at, token(), ttl(span))).await;
        assert!(harness.timing().agrees(grant.remaining, span), "{grant:?}");
    }
}

pub async fn every_retain_is_accepted(harness: &impl Harness) {
    let store = harness.fresh().await;
    for (index, retain) in [Retain::NOTHING, Retain::DEFAULT, Retain::MAX].into_iter().enumerate() {
        let at = name(format!("k{index}"));
        let mut asked = request(at.clone(), token());
        asked.retain = retain;
        let _ = store.take_as(&asked).await;
        let left = store.assert_held_by(&at, asked.token).await;
        assert!(harness.timing().agrees(left, MINUTE), "retain is not the lease: {left:?}");
        let mut release = fencelock_core::ReleaseRequest::new(at.clone(), asked.token);
        release.retain = retain;
        let answer = super::support::answered(store.release(&release, store.by()).await);
        assert_eq!(answer, Released::Held);
        store.assert_free(&at).await;
        let _ = store.take(at, token()).await;
    }
}
