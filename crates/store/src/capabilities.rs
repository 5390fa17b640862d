//! What a store or a dialect can do. Rule 10 of the [Contract](crate::Store#contract) says what
//! happens to whoever asks for more.

/// What a store can do, as far as it is known before the first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the wire format: `native`, `plain`, ...
    pub dialect: &'static str,
    /// Grants carry a fencing token; `raise_fence` works.
    pub fencing: bool,
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
    /// A name can be held by several together: every [`Mode`](fencelock_core::Mode) works,
    /// [`Store::downgrade`](crate::Store::downgrade) and
    /// [`Store::set_limit`](crate::Store::set_limit) too.
    pub sharing: bool,
    /// A lease can be asked for back: [`Store::revoke`](crate::Store::revoke) works.
    pub revoke: bool,
    /// [`Store::listen`](crate::Store::listen) works. Without `queue` it is for places that do not
    /// insist (`barging`): they are told when it makes sense to ask, and are granted nothing.
    pub wakeups: bool,
    /// All names are kept on one clock: what a reply says of the store's time is true for every
    /// name. Not so where each name has a server of its own.
    pub one_clock: bool,
    /// The most names in one all-or-nothing set.
    pub max_names: usize,
}

impl Capabilities {
    /// A format that can do everything which one store on its own can, by name; but for bindings,
    /// lines, revokes and wakeups, which the store adds that has them.
    #[must_use]
    pub const fn full(dialect: &'static str) -> Self {
        Self {
            dialect,
            fencing: true,
            metadata: true,
            remembers_tokens: true,
            store_time: true,
            binding: false,
            queue: false,
            sharing: false,
            revoke: false,
            wakeups: false,
            one_clock: true,
            max_names: fencelock_core::Names::MAX,
        }
    }

    /// A format of bare tokens with a ttl, by name.
    #[must_use]
    pub const fn bare(dialect: &'static str) -> Self {
        Self {
            fencing: false,
            metadata: false,
            remembers_tokens: false,
            store_time: false,
            ..Self::full(dialect)
        }
    }
}
