//! A right that is missing never leaves half a step: whatever is denied has changed nothing.
//!
//! Each verb, on names in each state, with each of the documented rights taken away: where the
//! answer is an error, every key is as it was, to the byte and to the millisecond of its end.

mod support;

use std::{collections::BTreeMap, time::Duration};

use fencelock_core::{
    AcquireRequest, DowngradeRequest, ExchangeRequest, FencingToken, ForceReleaseRequest,
    HealRequest, InspectRequest, Inspection, ListRequest, ListenerId, Mode, Names, PlaceRequest,
    RaiseFenceRequest, ReleaseRequest, RenewRequest, Retain, RevokeRequest, SetLimitRequest,
    ShortenRequest, Token,
};
use fencelock_redis::{Dialect, RedisStore};
use fencelock_store::{Outcome, Store, StoreError, StoreErrorKind, rt};
use fencelock_testkit::RedisServer;
use support::{acquire, granted, inspect, name, names, release, soon, store_at, token, ttl};

/// What the names are like before a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Released,
    Held,
    /// Two wait: one that says it listens, and does not, and one that does not listen.
    Waited,
    /// The same, and its lease has run out: the next step of anybody hands it over.
    Over,
    /// Whoever wants two names is in the line of the first.
    WaitedBySet,
    /// Two hold the first together, and the second is held alone.
    Shared,
    /// The same, and somebody waits who wants it alone.
    SharedWaited,
    /// The same as `Over`, and those who wait want to share it.
    OverForShares,
}

const NATIVE: &[State] = &[
    State::Free,
    State::Released,
    State::Held,
    State::Waited,
    State::Over,
    State::WaitedBySet,
    State::Shared,
    State::SharedWaited,
    State::OverForShares,
];
const PLAIN: &[State] = &[State::Free, State::Held];

#[derive(Clone, Copy, Debug)]
enum Verb {
    Acquire,
    AcquirePlace,
    AcquireAgain,
    AcquireSet,
    AcquireSetPlace,
    Renew,
    RenewSet,
    Shorten,
    Release,
    ReleaseForGood,
    ReleaseSet,
    Withdraw,
    Exchange,
    RaiseFence,
    HealHolder,
    HealOther,
    Inspect,
    List,
    ForceRelease,
    ForceReleaseForGood,
    Revoke,
    Join,
    JoinPlace,
    Meet,
    Downgrade,
    SetLimit,
}

const VERBS: &[Verb] = &[
    Verb::Acquire,
    Verb::AcquirePlace,
    Verb::AcquireAgain,
    Verb::AcquireSet,
    Verb::AcquireSetPlace,
    Verb::Renew,
    Verb::RenewSet,
    Verb::Shorten,
    Verb::Release,
    Verb::ReleaseForGood,
    Verb::ReleaseSet,
    Verb::Withdraw,
    Verb::Exchange,
    Verb::RaiseFence,
    Verb::HealHolder,
    Verb::HealOther,
    Verb::Inspect,
    Verb::List,
    Verb::ForceRelease,
    Verb::ForceReleaseForGood,
    Verb::Revoke,
    Verb::Join,
    Verb::JoinPlace,
    Verb::Meet,
    Verb::Downgrade,
    Verb::SetLimit,
];

impl Verb {
    /// Whether it is asked of both names.
    fn is_about_both(self) -> bool {
        matches!(
            self,
            Self::AcquireSet
                | Self::AcquireSetPlace
                | Self::RenewSet
                | Self::Shorten
                | Self::ReleaseSet
                | Self::Withdraw
                | Self::Exchange
                | Self::RaiseFence
                | Self::HealHolder
                | Self::HealOther
        )
    }
}

/// Rights that no step of a script needs.
const OUTSIDE: &[&str] = &["+eval", "+evalsha", "+subscribe", "+unsubscribe", "+scan", "+info"];

/// Who is there before the verb.
struct Cast {
    holder: Token,
    waiter: AcquireRequest,
}

fn place(names: Names, listener: Option<ListenerId>) -> AcquireRequest {
    let mut request = AcquireRequest::new(names, token(), ttl(30_000));
    request.listener = listener;
    request.place = Some(PlaceRequest::new(ttl(10_000), Duration::from_secs(60)));
    request
}

/// A reader of the first name.
fn reader(token: Token) -> AcquireRequest {
    let mut request = AcquireRequest::new(name("app:k"), token, ttl(30_000));
    request.mode = Mode::Shared;
    request
}

/// Brings `app:k` and `app:l` into a state, with all rights.
async fn prepare(store: &RedisStore, state: State) -> Cast {
    let both = names(&["app:k", "app:l"]);
    let mut cast = Cast {
        holder: token(),
        waiter: match state {
            State::WaitedBySet => place(both.clone(), None),
            _ => place(names(&["app:k"]), Some(rt::fresh_listener())),
        },
    };
    if matches!(state, State::Shared | State::SharedWaited) {
        for token in [cast.holder, token()] {
            let _ = granted(store.acquire(&reader(token), soon(store)).await);
        }
        let _ = granted(acquire(store, "app:l", cast.holder).await);
    } else if state != State::Free {
        let request = AcquireRequest::new(both.clone(), cast.holder, ttl(30_000));
        let _ = granted(store.acquire(&request, soon(store)).await);
    }
    if matches!(state, State::OverForShares) {
        cast.waiter.mode = Mode::Shared;
    }
    let waited = [State::Waited, State::Over, State::WaitedBySet, State::SharedWaited];
    if waited.contains(&state) || state == State::OverForShares {
        let mut other = place(names(&["app:k"]), None);
        other.mode = cast.waiter.mode.clone();
        for waiter in [&cast.waiter, &other] {
            let _ = store.acquire(waiter, soon(store)).await.expect("it answers");
        }
    }
    match state {
        State::Released => {
            for at in ["app:k", "app:l"] {
                let _ = release(store, at, cast.holder).await.expect("it answers");
            }
        }
        State::Over | State::OverForShares => {
            // Only now: else the lease might be over before anybody waits for it.
            let shorten = ShortenRequest::new(both, cast.holder, ttl(10));
            let _ = store.shorten(&shorten, soon(store)).await.expect("it answers");
            while matches!(inspect(store, "app:k").await, Inspection::Held(_)) {
                rt::sleep(Duration::from_millis(2)).await;
            }
        }
        _ => {}
    }
    cast
}

async fn ask(store: &RedisStore, verb: Verb, cast: &Cast) -> Result<(), StoreError> {
    let (by, at) = (soon(store), name("app:k"));
    let (one, both) = (names(&["app:k"]), names(&["app:k", "app:l"]));
    let forget = |mut request: ReleaseRequest| {
        request.retain = Retain::NOTHING;
        request
    };
    match verb {
        Verb::Acquire => acquire(store, "app:k", token()).await.map(drop),
        Verb::AcquirePlace => store.acquire(&place(one, None), by).await.map(drop),
        Verb::AcquireAgain => store.acquire(&cast.waiter, by).await.map(drop),
        Verb::AcquireSet => {
            let request = AcquireRequest::new(both, token(), ttl(30_000));
            store.acquire(&request, by).await.map(drop)
        }
        Verb::AcquireSetPlace => store.acquire(&place(both, None), by).await.map(drop),
        Verb::Renew | Verb::RenewSet => {
            let names = if matches!(verb, Verb::Renew) { one } else { both };
            let request = RenewRequest::new(names, cast.holder, ttl(60_000));
            store.renew(&[request], by).await.map(drop)
        }
        Verb::Shorten => {
            let request = ShortenRequest::new(both, cast.holder, ttl(5_000));
            store.shorten(&request, by).await.map(drop)
        }
        Verb::Release => store.release(&ReleaseRequest::new(one, cast.holder), by).await.map(drop),
        Verb::ReleaseForGood => {
            store.release(&forget(ReleaseRequest::new(one, cast.holder)), by).await.map(drop)
        }
        Verb::ReleaseSet => {
            store.release(&ReleaseRequest::new(both, cast.holder), by).await.map(drop)
        }
        Verb::Withdraw => {
            let names = cast.waiter.names.clone();
            store.release(&ReleaseRequest::new(names, cast.waiter.token), by).await.map(drop)
        }
        Verb::Exchange => {
            let request = ExchangeRequest::new(both, cast.holder, token(), ttl(60_000));
            store.exchange_token(&request, by).await.map(drop)
        }
        Verb::RaiseFence => {
            let request = RaiseFenceRequest::new(both, cast.holder, higher(store).await?);
            store.raise_fence(&request, by).await.map(drop)
        }
        Verb::HealHolder => {
            store.heal(&HealRequest::new(both, cast.holder, ttl(60_000)), by).await.map(drop)
        }
        Verb::HealOther => {
            store.heal(&HealRequest::new(both, token(), ttl(60_000)), by).await.map(drop)
        }
        Verb::Inspect => store.inspect(&InspectRequest::new(at), by).await.map(drop),
        Verb::List => store.list(&ListRequest::new("app:"), by).await.map(drop),
        Verb::ForceRelease => {
            store.force_release(&ForceReleaseRequest::new(at), by).await.map(drop)
        }
        Verb::ForceReleaseForGood => {
            let mut request = ForceReleaseRequest::new(at);
            request.retain = Retain::NOTHING;
            store.force_release(&request, by).await.map(drop)
        }
        Verb::Revoke => store.revoke(&RevokeRequest::new(at), by).await.map(drop),
        Verb::Join => store.acquire(&reader(token()), by).await.map(drop),
        Verb::JoinPlace | Verb::Meet => {
            let mut request = place(one, None);
            request.mode = match verb {
                Verb::Meet => Mode::Meeting { parties: 2 },
                _ => Mode::Shared,
            };
            store.acquire(&request, by).await.map(drop)
        }
        Verb::Downgrade => {
            store.downgrade(&DowngradeRequest::new(at, cast.holder), by).await.map(drop)
        }
        Verb::SetLimit => store.set_limit(&SetLimitRequest::new(at, 3), by).await.map(drop),
    }
}

/// A fencing token above that of the name, and within what the server accepts.
async fn higher(store: &RedisStore) -> Result<FencingToken, StoreError> {
    let reply = store.inspect(&InspectRequest::new(name("app:k")), soon(store)).await?;
    let at = reply.at.map_or(1, fencelock_core::StoreTime::as_micros);
    Ok(FencingToken::new(at + 1_000_000).expect("in range"))
}

/// What the server keeps of a name. How long a key of the native format lives is not a part of it: its
/// lease is in the record, and a key that lives longer than it must does no harm.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    record: Option<Vec<u8>>,
    /// Of those who hold it together.
    shares: BTreeMap<Vec<u8>, Vec<u8>>,
    places: BTreeMap<Vec<u8>, Vec<u8>>,
    ends: i64,
}

impl Kept {
    /// Whether it is a string.
    fn is_plain(&self) -> bool {
        self.places.is_empty() && self.shares.is_empty()
    }

    /// Whether nobody gained or lost a lease.
    fn is_held_as(&self, other: &Self) -> bool {
        (&self.record, &self.shares, self.ends) == (&other.record, &other.shares, other.ends)
    }
}

/// An administrator: looks at the two names and changes a right, in one step each time.
struct Admin {
    connection: redis::Connection,
    dialect: Dialect,
    keys: [Vec<u8>; 2],
}

impl Admin {
    /// Everything at two keys: of each its record, when it ends, and its places.
    const LOOK: &str = "local all = {} \
        for i, key in ipairs(KEYS) do \
          local fields, record = {}, nil \
          if redis.call('TYPE', key).ok == 'hash' then \
            fields, record = redis.call('HGETALL', key), redis.call('HGET', key, 'r') \
          else \
            record = redis.call('GET', key) \
          end \
          all[i] = { record, redis.call('PEXPIRETIME', key), fields } \
        end \
        return all";

    fn new(server: &RedisServer, dialect: Dialect) -> Self {
        let keys = ["app:k", "app:l"].map(|at| support::key_of(dialect, &name(at)));
        Self { connection: server.connect(), dialect, keys }
    }

    /// What is there, and then another right.
    fn look_and_set(&mut self, right: &str) -> [Kept; 2] {
        type Found = (Option<Vec<u8>>, i64, BTreeMap<Vec<u8>, Vec<u8>>);
        let mut pipe = redis::pipe();
        pipe.cmd("EVAL").arg(Self::LOOK).arg(2).arg(&self.keys[..]);
        pipe.cmd("ACL").arg("SETUSER").arg("app").arg(right).ignore();
        let (found,): ([Found; 2],) = pipe.query(&mut self.connection).expect("it may");
        found.map(|(record, ends, mut places)| {
            places.remove(&b"r"[..]);
            let of_crowd = |field: &Vec<u8>| field == b"m" || field.starts_with(b"s");
            let shares = places.iter().filter(|(field, _)| of_crowd(field));
            let shares: BTreeMap<_, _> =
                shares.map(|(field, share)| (field.clone(), share.clone())).collect();
            places.retain(|field, _| !shares.contains_key(field));
            let ends = if self.dialect == Dialect::Plain { ends } else { 0 };
            Kept { record, shares, places, ends }
        })
    }

    fn clear(&mut self) {
        let () = redis::cmd("DEL").arg(&self.keys[..]).query(&mut self.connection).expect("it may");
    }
}

/// What a step that was denied half way may leave: see `docs/operating/acl.md`. A lease that was over
/// is handed to the first in line, a place in a line is lost or there, of two names one is written.
fn is_harmless(state: State, verb: Verb, before: &[Kept; 2], after: &[Kept; 2]) -> bool {
    let written = before.iter().zip(after).filter(|(before, after)| !before.is_held_as(after));
    let written = written.count();
    let is_over = matches!(state, State::Over | State::OverForShares);
    // Where one name has a line or several holders, and the other has not, they are written by
    // different commands.
    let differ = before[0].is_plain() != before[1].is_plain();
    written == 0 || is_over || written == 1 && differ && verb.is_about_both()
}

#[tokio::test]
async fn what_is_denied_has_changed_nothing() {
    let mut half_done = Vec::new();
    let mut denied = 0;
    for (dialect, states) in [(Dialect::Native, NATIVE), (Dialect::Plain, PLAIN)] {
        let rights = support::documented_rights(dialect);
        let server = support::server_with_rights(dialect, &rights);
        let (all, limited) =
            (store_at(&server.url(), dialect), store_at(&server.url_as("app", "p"), dialect));
        let mut admin = Admin::new(&server, dialect);
        // The others are needed before a script is run, or for none.
        let inside = |right: &&String| !OUTSIDE.contains(&right.as_str());
        for right in rights.iter().filter(inside) {
            let without = right.replacen('+', "-", 1);
            for &state in states {
                for &verb in VERBS {
                    admin.clear();
                    let cast = prepare(&all, state).await;
                    let before = admin.look_and_set(&without);
                    let result = ask(&limited, verb, &cast).await;
                    let after = admin.look_and_set(right);
                    let Err(error) = result else { continue };
                    if error.kind() == StoreErrorKind::Unsupported {
                        continue;
                    }
                    denied += 1;
                    let what = format!("{dialect} {state:?} {verb:?} {without}");
                    if before != after && !is_harmless(state, verb, &before, &after) {
                        half_done.push(format!("{what}: changed: {error}"));
                    }
                    if (error.kind(), error.outcome()) != (StoreErrorKind::Denied, Outcome::NotDone)
                    {
                        half_done.push(format!("{what}: {:?} {error}", error.kind()));
                    }
                }
            }
        }
    }
    assert!(half_done.is_empty(), "{} of {denied}:\n{}", half_done.len(), half_done.join("\n"));
    assert!(denied > 300, "only {denied} steps were denied");
}
