//! What the verbs of all dialects use: names to keys, calls of scripts, and errors in one voice.

use std::sync::LazyLock;

use fencelock_core::{LockName, Moment, Names, Released, RenewRequest, Renewed};
use fencelock_store::{Clock, Reply, StoreError, StoreResult};

use crate::{
    cluster::{Route, slot_of, spread},
    connection::Answer,
    error::{self, Failure},
    hearing::Hearing,
    keys::KeyMapping,
    native::LineHints,
    plain::FenceKey,
    reply::Odd,
    script::{Question, Script},
    servers::Servers,
    url::RedisUrl,
};

/// A server, and where on it the locks are.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) connections: Servers,
    pub(crate) keys: KeyMapping,
    /// Where counters are, in formats that have some wherever they are asked for.
    pub(crate) fence_key: Option<FenceKey>,
    /// Where connections lead that are used for one thing only.
    pub(crate) aside: Option<RedisUrl>,
    pub(crate) clock: Clock,
    pub(crate) lines: LineHints,
    pub(crate) hearing: Hearing,
}

/// Leases to renew: on a cluster those of each slot for themselves.
#[derive(Debug)]
pub(crate) struct Batch<'b> {
    whole: &'b [RenewRequest],
    groups: Option<Vec<Vec<usize>>>,
    parts: Vec<Vec<RenewRequest>>,
}

impl Wire {
    /// The most keys that one call of a script has, so that it stays short for everybody else:
    /// about half a millisecond.
    const KEYS_MAX: usize = 256;

    pub(crate) fn new(connections: Servers, keys: KeyMapping) -> Self {
        Self {
            connections,
            keys,
            fence_key: None,
            aside: None,
            clock: Clock::Boottime,
            lines: LineHints::default(),
            hearing: Hearing::default(),
        }
    }

    /// A call of a script with these names as its keys. `count` and `bytes` of the arguments to
    /// come only save allocations.
    pub(crate) fn script(
        &self,
        script: &'static LazyLock<Script>,
        names: &Names,
        count: usize,
        bytes: usize,
    ) -> Question {
        self.script_on(script, names.iter(), count, bytes)
    }

    /// The same for names from several places.
    pub(crate) fn script_on<'n>(
        &self,
        script: &'static LazyLock<Script>,
        names: impl Iterator<Item = &'n LockName> + Clone,
        count: usize,
        bytes: usize,
    ) -> Question {
        const KEY_OVERHEAD_BYTES: usize = 24;
        let (keys, key_bytes) = names.clone().fold((0, 0), |(keys, bytes), name| {
            (keys + 1, bytes + name.as_bytes().len() + KEY_OVERHEAD_BYTES)
        });
        let sizes = (keys + count, key_bytes + bytes);
        let mut question = Question::script(script, keys, sizes);
        let mut key = Vec::new();
        let is_cluster = self.connections.is_cluster();
        let first = names.clone().next();
        for name in names {
            self.keys.write(name, &mut key);
            question.arg(&key);
            if let Some(first) = first.filter(|_| is_cluster) {
                question.route.with(first, name, slot_of(&key));
            }
        }
        question
    }

    /// The key of a name.
    pub(crate) fn key(&self, name: &LockName) -> Vec<u8> {
        let mut key = Vec::new();
        self.keys.write(name, &mut key);
        key
    }

    /// Where a question about a name has to go.
    pub(crate) fn route(&self, name: &LockName) -> Route {
        self.slot(name).map_or(Route::Any, Route::Slot)
    }

    /// The same by its key.
    pub(crate) fn route_of_key(&self, key: &[u8]) -> Route {
        if self.connections.is_cluster() { Route::Slot(slot_of(key)) } else { Route::Any }
    }

    /// The slot of a name; nothing where there are none.
    pub(crate) fn slot(&self, name: &LockName) -> Option<u16> {
        self.connections.is_cluster().then(|| slot_of(&self.key(name)))
    }

    /// What channels for a name begin with, as the scripts take it.
    pub(crate) fn channels(&self, name: &LockName) -> Vec<u8> {
        self.keys.channels(self.slot(name))
    }

    /// The indices of names by slot, where there are slots and one question can't be about all.
    pub(crate) fn by_slot<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n LockName>,
    ) -> Option<Vec<Vec<usize>>> {
        if !self.connections.is_cluster() || names.len() == 0 {
            return None;
        }
        Some(spread::by_slot(names.map(|name| self.slot(name).unwrap_or_default())))
    }

    /// Asks the server.
    pub(crate) async fn ask(
        &self,
        question: &mut Question,
        by: Moment,
    ) -> Result<Answer, StoreError> {
        self.connections.answer(question, &self.keys, &self.clock, by).await
    }

    /// Renews a batch in steps of a bearable number of keys.
    pub(crate) async fn in_steps<'b, F>(
        &self,
        batch: &'b Batch<'b>,
        by: Moment,
        step: impl Fn(&'b [RenewRequest]) -> F,
    ) -> StoreResult<Vec<Renewed>>
    where
        F: Future<Output = StoreResult<Vec<Renewed>>>,
    {
        self.connections.check_open()?;
        if batch.whole.len() > RenewRequest::MAX_BATCH {
            return Err(StoreError::unsupported("a batch of too many leases to renew at once"));
        }
        if batch.whole.is_empty() && self.clock.now() < by {
            return Ok(Reply::new(Vec::new()));
        }
        let Some(groups) = &batch.groups else { return Self::steps(batch.whole, step).await };
        spread::gather(groups, Some(&Renewed::Unknown), |number| {
            Self::steps(&batch.parts[number], &step)
        })
        .await
    }

    /// A batch as it goes to the servers.
    pub(crate) fn batch<'b>(&self, whole: &'b [RenewRequest]) -> Batch<'b> {
        let groups = self.by_slot(whole.iter().map(|request| request.names.first()));
        let part = |group: &Vec<usize>| group.iter().map(|index| whole[*index].clone()).collect();
        let parts = groups.iter().flatten().map(part).collect();
        Batch { whole, groups, parts }
    }

    /// The same where one server has all names.
    async fn steps<'b, F>(
        batch: &'b [RenewRequest],
        step: impl Fn(&'b [RenewRequest]) -> F,
    ) -> StoreResult<Vec<Renewed>>
    where
        F: Future<Output = StoreResult<Vec<Renewed>>>,
    {
        let (part, mut rest) = batch.split_at(Self::part(batch));
        let mut reply = step(part).await?;
        while !rest.is_empty() {
            let (part, left) = rest.split_at(Self::part(rest));
            rest = left;
            match step(part).await {
                Ok(next) => {
                    reply.answer.extend(next.answer);
                    reply.at = next.at;
                    reply.incarnation = next.incarnation;
                }
                // The first leases have their answer; it must not be lost with the others.
                Err(_) => reply.answer.extend(part.iter().map(|_| Renewed::Unknown)),
            }
        }
        Ok(reply)
    }

    /// How many leases of a batch are one step: at least one, however many names it has.
    fn part(batch: &[RenewRequest]) -> usize {
        let mut keys = 0;
        let fits = batch.iter().take_while(|request| {
            keys += request.names.len();
            keys <= Self::KEYS_MAX
        });
        fits.count().max(1).min(batch.len())
    }

    /// Says what a release came to. Where an earlier copy may have freed the names, only `Held` is
    /// certain.
    pub(crate) fn settle_release(
        &self,
        reply: Reply<Released>,
        resent: bool,
    ) -> StoreResult<Released> {
        if resent && reply.answer != Released::Held {
            return Err(StoreError::unknown(format!(
                "the connection to {} broke while it released; the lock is not held any more, but \
                 whether it was until now is not known",
                self.connections.at()
            )));
        }
        Ok(reply)
    }

    /// The server answered something that makes no sense.
    pub(crate) fn odd(&self, odd: Odd) -> StoreError {
        error::odd(self.connections.at(), odd.0).into()
    }

    /// An error of the server that came inside of an answer.
    pub(crate) fn refused_inside(&self, text: &str) -> Failure {
        let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
        let failure = error::from_server(code, rest, self.connections.at());
        if failure.retire {
            self.connections.leave();
        }
        failure
    }
}
