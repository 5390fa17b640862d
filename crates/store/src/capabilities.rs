//! What a store or a dialect can do. Rule 10 of the [Contract](crate::Store#contract) says what
//! happens to whoever asks for more.

use fencelock_core::Mode;

/// What a store can do, as far as it is known before the first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the wire format: `native`, `plain`, ...
    pub dialect: &'static str,
    /// Grants carry a fencing token.
    pub fencing: bool,
    /// A fencing token can be written to a lease: [`Store::raise_fence`](crate::Store::raise_fence)
    /// works, an acquire can propose one and a heal bring one along.
    pub writes_fences: bool,
    /// The holder's metadata is kept.
    pub metadata: bool,
    /// The last released token is remembered, so that a re-sent release is answered `Held` and a
    /// late copy of an acquire is refused.
    pub remembers_tokens: bool,
    /// Replies carry the store's time, and deadlines in it are kept.
    pub store_time: bool,
    /// A lease can be bound to processes of this machine.
    pub binding: bool,
    /// An acquire can leave a place in the line of a busy name, and a release hands the lease to
    /// the next; a lease can have a range of fencing tokens.
    pub queue: bool,
    /// How a name can be held: alone, or beside others.
    pub modes: Modes,
    /// A lease can be asked for back: [`Store::revoke`](crate::Store::revoke) works.
    pub revoke: bool,
    /// [`Store::listen`](crate::Store::listen) works. Without `queue` it is for places that do not
    /// insist (`barging`): they are told when it makes sense to ask, and are granted nothing.
    pub wakeups: bool,
    /// What `wakeups` are, where nobody waits in a line at the store: who asks with a wish for a place
    /// and finds the name busy is told when somebody said that it is free, one waiter of a listener
    /// at a time, and asks again with the same token.
    pub hints: Hints,
    /// All names are kept on one clock: what a reply says of the store's time is true for every
    /// name. Not so where each name has a server of its own.
    pub one_clock: bool,
    /// The most names in one all-or-nothing set.
    pub max_names: usize,
}

/// Whether those who give a name back say so, where that is the other holders' affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hints {
    /// Nobody does, or a store that has a line or ballots does.
    None,
    /// Some do: who waits asks from time to time as if nobody did.
    Some,
    /// All do: who waits asks when the lease ought to be over.
    All,
}

/// The ways in which a store can hold a name. Asking for any other is `Unsupported`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Modes {
    /// [`Mode::Exclusive`].
    pub exclusive: bool,
    /// [`Mode::Shared`].
    pub shared: bool,
    /// [`Store::downgrade`](crate::Store::downgrade): from exclusive to shared.
    pub downgrade: bool,
    /// [`Mode::Owned`].
    pub owned: bool,
    /// [`Mode::Permits`].
    pub permits: bool,
    /// [`Store::set_limit`](crate::Store::set_limit).
    pub set_limit: bool,
    /// [`Mode::CountDown`] and [`Mode::Opening`].
    pub latch: bool,
    /// A latch is shut from its set-up on, by [`Store::set_limit`](crate::Store::set_limit) with the steps that it has: one
    /// that nobody has set up is open. Elsewhere its first step shuts it.
    pub latch_set_up: bool,
    /// [`Mode::Meeting`].
    pub barrier: bool,
}

impl Modes {
    /// None at all.
    pub const NONE: Self = Self {
        exclusive: false,
        shared: false,
        downgrade: false,
        owned: false,
        permits: false,
        set_limit: false,
        latch: false,
        latch_set_up: false,
        barrier: false,
    };

    /// Alone, and nothing else: a mutex.
    pub const EXCLUSIVE: Self = Self { exclusive: true, ..Self::NONE };

    /// All of them.
    pub const ALL: Self = Self {
        exclusive: true,
        shared: true,
        downgrade: true,
        owned: true,
        permits: true,
        set_limit: true,
        latch: true,
        latch_set_up: false,
        barrier: true,
    };

    /// Whether a name can be held in this mode.
    #[must_use]
    pub const fn has(&self, mode: &Mode) -> bool {
        match mode {
            Mode::Exclusive => self.exclusive,
            Mode::Shared => self.shared,
            Mode::Owned(_) => self.owned,
            Mode::Permits { .. } => self.permits,
            Mode::CountDown { .. } | Mode::Opening { .. } => self.latch,
            Mode::Meeting { .. } => self.barrier,
            _ => false,
        }
    }

    /// Whether several can hold a name together.
    #[must_use]
    pub const fn are_shared(&self) -> bool {
        self.shared || self.owned || self.permits || self.latch || self.barrier
    }
}

impl Capabilities {
    /// A format that can do everything which one store on its own can, by name; but for bindings,
    /// lines, revokes and wakeups, which the store adds that has them.
    #[must_use]
    pub const fn full(dialect: &'static str) -> Self {
        Self {
            dialect,
            fencing: true,
            writes_fences: true,
            metadata: true,
            remembers_tokens: true,
            store_time: true,
            binding: false,
            queue: false,
            modes: Modes::EXCLUSIVE,
            revoke: false,
            wakeups: false,
            hints: Hints::None,
            one_clock: true,
            max_names: fencelock_core::Names::MAX,
        }
    }

    /// A format of bare tokens with a ttl, by name.
    #[must_use]
    pub const fn bare(dialect: &'static str) -> Self {
        Self {
            fencing: false,
            writes_fences: false,
            metadata: false,
            remembers_tokens: false,
            store_time: false,
            ..Self::full(dialect)
        }
    }
}
