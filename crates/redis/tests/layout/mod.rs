//! What the keys of the native format say, beside what the table remembers.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use fencelock_core::{
    AcquireRequest, Crowd, FencingToken, ListenerId, Mode, Place, Record, RecordState, Share,
    StoreNow, StoreTime,
};

/// What is at a key.
pub(crate) enum Found {
    Text(Vec<u8>),
    Fields(HashMap<String, Vec<u8>>),
}

/// Compares a key with the record and the line of its name. `gone` is when the key goes. Returns how
/// late the record is forgotten.
pub(crate) fn compare(
    at: &str,
    found: &Found,
    record: Option<&Record>,
    line: &[Place],
    gone: StoreTime,
    now: StoreNow,
) -> Duration {
    let fields = match found {
        Found::Text(raw) => {
            assert!(line.is_empty(), "{at}: nobody waits there, but {line:?} do");
            let Some(record) = record else { return Duration::ZERO };
            assert_eq!(read(raw, now), written(record, now), "{at}");
            assert!(gone > record.forget_at, "{at} expires too early, at {gone}, {record:?}");
            return gone.saturating_since(record.forget_at);
        }
        Found::Fields(fields) => fields,
    };
    let shares = compare_shares(at, fields, record, now);
    let bounds = if line.is_empty() { 1 } else { 2 };
    assert_eq!(fields.len(), 2 * line.len() + bounds + shares, "{at}: {fields:?}");
    let kept = match line {
        [] => gone,
        line => compare_line(at, fields, line, gone),
    };
    let Some(record) = record else { return Duration::ZERO };
    assert_eq!(read(&fields["r"], now), written(record, now), "{at}");
    assert!(kept > record.forget_at, "{at} is kept until {kept}, {record:?}");
    assert!(gone >= kept, "{at} expires too early, at {gone}, {record:?}");
    kept.saturating_since(record.forget_at)
}

/// Compares the places; says until when the record is kept.
fn compare_line(
    at: &str,
    fields: &HashMap<String, Vec<u8>>,
    line: &[Place],
    gone: StoreTime,
) -> StoreTime {
    let bounds = String::from_utf8(fields["q"].clone()).expect("it is text");
    let number =
        |range: std::ops::Range<usize>| -> u64 { bounds[range].parse().expect("a number") };
    assert_eq!(&bounds[48..], "1fencelock:!wake:");
    let mut places = Vec::new();
    for index in number(0..16)..=number(16..32) {
        let Some(raw) = fields.get(&format!("w{index}")) else { continue };
        places.push(raw.escape_ascii().to_string());
        let token = String::from_utf8(raw[..32].to_vec()).expect("a token");
        assert_eq!(fields[&format!("i{token}")], index.to_string().into_bytes());
    }
    let expected: Vec<String> = line.iter().map(written_place).collect();
    assert_eq!(places, expected, "{at}");
    for place in line {
        let lapses = place.seen.saturating_add(place.live);
        assert!(gone > lapses, "{at} expires too early, at {gone}, {place:?}");
    }
    StoreTime::from_micros((number(32..48) + 1) * 1_000)
}

/// Compares those who hold it together, and says how many fields they have. Leases that are over may
/// still be there.
fn compare_shares(
    at: &str,
    fields: &HashMap<String, Vec<u8>>,
    record: Option<&Record>,
    now: StoreNow,
) -> usize {
    let Some(roster) = fields.get("m") else {
        let expected = record.is_some_and(|record| record.live_shares(now).next().is_some());
        assert!(!expected, "{at}: {record:?} is held by several");
        return 0;
    };
    let roster = String::from_utf8(roster.clone()).expect("tokens");
    let tokens: Vec<&str> = (0..roster.len() / 32).map(|i| &roster[32 * i..32 * i + 32]).collect();
    let text = |token: &&str| {
        let raw = fields[&format!("s{token}")].escape_ascii().to_string();
        let ends: u64 = raw[..16].parse().expect("a number");
        (ends > now.lease.as_micros()).then(|| format!("{token}{raw}"))
    };
    // They stand in no order.
    let found: BTreeSet<String> = tokens.iter().filter_map(text).collect();
    let live = record.iter().flat_map(|record| record.live_shares(now));
    let expected: BTreeSet<String> = live.map(written_share).collect();
    assert_eq!(found, expected, "{at}");
    let head = String::from_utf8_lossy(&fields["r"][..72]).into_owned();
    assert_eq!(head[54..62].parse::<usize>().expect("a number"), tokens.len(), "{at}");
    tokens.len() + 1
}

/// A share as it stands in the store, behind its token.
fn written_share(share: &Share) -> String {
    format!(
        "{}{:016}{:016}{:010}{:016x}{}{}",
        share.token.reveal(),
        share.end.as_micros(),
        share.fencing_token.map_or(0, FencingToken::as_u64),
        share.weight,
        share.listener.map_or(0, ListenerId::as_u64),
        u8::from(share.revoked) + 2 * u8::from(share.unattended),
        share.metadata.as_bytes().escape_ascii(),
    )
}

/// A record as it stands in the store, escaped.
fn written(record: &Record, now: StoreNow) -> String {
    if let Some(crowd) = &record.crowd {
        return written_crowd(record, crowd, now);
    }
    let state = match record.state {
        RecordState::Held => 'h',
        RecordState::Reserved => 'r',
        RecordState::Shared => unreachable!("several have a crowd"),
        RecordState::Free => 'f',
    };
    let token = record.token.map(|token| token.reveal()).expect("the rules always write one");
    let fence = record.fencing_token.map_or(0, FencingToken::as_u64);
    let by_token = u8::from(record.fence_by_token);
    let head = format!("fl2m{state}{token}{by_token}{fence:016}");
    if record.state == RecordState::Free {
        return head;
    }
    let first = record.first_fence.map_or(0, FencingToken::as_u64);
    let listener = record.listener.map_or(0, ListenerId::as_u64);
    let marks = u8::from(record.revoked) + 2 * u8::from(record.unattended);
    // The end is said as a start and a ttl, and only their sum is compared.
    let end = record.end.as_micros();
    let metadata = record.metadata.as_bytes().escape_ascii();
    format!("{head}{first:016}[{end}]{listener:016x}{marks}{metadata}")
}

/// The same of a crowd, without how many shares it has, since some may be over. Where all are, nothing
/// is said of their end and owner.
fn written_crowd(record: &Record, crowd: &Crowd, now: StoreNow) -> String {
    let live = record.live_shares(now).map(|share| share.end).max();
    let spent: String = crowd.spent.iter().map(|token| token.reveal().to_string()).collect();
    let owner = crowd.owner.as_ref().filter(|_| live.is_some()).map(|owner| owner.as_bytes());
    format!(
        "{}{:016}{:010}[{}]{}{}",
        record.kind.letter(),
        record.fencing_token.map_or(0, FencingToken::as_u64),
        crowd.limit.unwrap_or(0),
        live.map_or(0, StoreTime::as_micros),
        spent,
        owner.unwrap_or_default().escape_ascii(),
    )
}

/// A record that was read, in the same form.
fn read(raw: &[u8], now: StoreNow) -> String {
    let text = raw.escape_ascii().to_string();
    if raw.len() == 54 || raw[4] != b's' && (raw[4] != b'f' || raw.len() < 92) {
        if raw.len() < 111 {
            return text;
        }
        let number =
            |range: std::ops::Range<usize>| -> u64 { text[range].parse().expect("a number") };
        let end = number(70..86) + 1_000 * number(86..94);
        return format!("{}[{end}]{}", &text[..70], &text[94..]);
    }
    assert_eq!(&text[5..38], "0".repeat(33));
    let end: u64 = text[72..88].parse().expect("a number");
    let is_live = end > now.lease.as_micros();
    let spent: usize = text[90..92].parse().expect("a number");
    format!(
        "{}{}{}[{}]{}{}",
        &text[3..4],
        &text[38..54],
        &text[62..72],
        if is_live { end } else { 0 },
        &text[92..92 + 32 * spent],
        if is_live { &text[92 + 32 * spent..] } else { "" },
    )
}

/// A place as it stands in the store, escaped.
fn written_place(place: &Place) -> String {
    let mode = written_mode(&place.mode);
    let bits = u8::from(place.is_set) + 2 * u8::from(place.barging);
    format!(
        "{}{:016}{:08}{:08}{:010}{}{:016}{:04}{:016x}{}{}",
        place.token.reveal(),
        place.seen.as_micros(),
        place.live.as_millis(),
        place.claim.as_millis(),
        place.retain.as_duration().as_millis(),
        bits + if mode.is_empty() { 0 } else { 4 },
        place.floor.map_or(0, FencingToken::as_u64),
        place.reserve.min(AcquireRequest::MAX_RESERVE),
        place.listener.map_or(0, ListenerId::as_u64),
        mode,
        place.metadata.as_bytes().escape_ascii(),
    )
}

fn written_mode(mode: &Mode) -> String {
    let (letter, owner) = match mode {
        Mode::Exclusive => return String::new(),
        Mode::Shared => ('s', &[][..]),
        Mode::Owned(owner) => ('o', owner.as_bytes()),
        Mode::Permits { .. } => ('p', &[][..]),
        Mode::CountDown { .. } => ('c', &[][..]),
        Mode::Opening { .. } => ('e', &[][..]),
        Mode::Meeting { .. } => ('m', &[][..]),
        other => unreachable!("{other:?} is new"),
    };
    let limit = mode.limit().unwrap_or(0);
    let owner_bytes = owner.len();
    format!("{letter}{:010}{limit:010}{owner_bytes:02}{}", mode.weight(), owner.escape_ascii())
}
