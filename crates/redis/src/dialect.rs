//! The wire formats by name: each is a [`Plug`], and this is the list of them.

use std::{fmt, str::FromStr};

use crate::{
    native::Native,
    plain::{self, formats},
    plug::Plug,
    redisson,
    symfony::Symfony,
};

/// The wire format of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// Fencelock's own: one key for each lock with fencing token, metadata and memory of released
    /// tokens.
    #[default]
    Native,
    /// A string taken by `SET NX PX` at the very name of the lock: what redislock, redsync,
    /// redlock, redis-py and others use. No fencing tokens, no metadata.
    Plain,
    /// bsm/redislock (Go): the name is the key, the value a token of 22 characters.
    Redislock,
    /// The same with its `FenceKey`: a counter of fencing tokens beside the lock, at `NAME:fence` unless
    /// `fence_key` in the URL says otherwise. Of one name at a time.
    RedislockFenced,
    /// redsync (Go): the name is the key, the value 24 characters of base64.
    Redsync,
    /// node-redlock, redlock-universal, rslock, redlock-rs and redlock-rb: the name is the key,
    /// the value 32 hexadecimal digits.
    Redlock,
    /// The mutex of redis-semaphore (Node): keys begin with `mutex:`.
    RedisSemaphore,
    /// pottery (Python): keys begin with `redlock:`.
    Pottery,
    /// The lock of redis-py: the name is the key, the value 32 hexadecimal digits.
    RedisPy,
    /// python-redis-lock: keys begin with `lock:`. A release also wakes its waiters, by the list
    /// `lock-signal:` and the name. On a cluster only for names with a hash tag.
    PythonRedisLock,
    /// ShedLock (Java): keys begin with `job-lock:default:`.
    Shedlock,
    /// The mutex of DistributedLock.Redis (.NET): no prefix unless one is asked for.
    DistributedLockNet,
    /// Spring Integration's RedisLockRegistry (Java): the prefix, which has to be given, is the
    /// registry key. A release also wakes its PUB_SUB_LOCK waiters, of every generation.
    Spring,
    /// Laravel (PHP): its prefixes are those of the application, so that one has to be given.
    Laravel,
    /// Redisson's RLock (Java), also re-entrant by an explicit owner: the name is the key, a hash. A
    /// release wakes its waiters, and ours hear theirs.
    Redisson,
    /// Redisson's RFencedLock: the same with a counter of fencing tokens beside it.
    RedissonFenced,
    /// Redisson's spin lock: the same without any message.
    RedissonSpin,
    /// Redisson's RFairLock: the same as RLock with a queue of those who wait, and not re-entrant.
    RedissonFair,
    /// Redisson's RReadWriteLock: the name is the key, a hash of readers or a writer.
    RedissonRw,
    /// Redisson's RPermitExpirableSemaphore: the name is the key, a number of free permits, and a set
    /// beside it has those that are held. It has no locks.
    RedissonPermits,
    /// Redisson's RSemaphore: a number of free permits. Ours have leases in a set of our own. It has no
    /// locks.
    RedissonSemaphore,
    /// Redisson's RCountDownLatch: the name is the key, a number of missing steps. It has no locks, and each latch
    /// is set up first: one that nobody has set up is open.
    RedissonLatch,
    /// Symfony Lock since 5.2 (PHP), also for readers: the name is the key, a sorted set.
    Symfony,
    /// Symfony Lock before 5.2 (PHP): the name is the key, the value base64.
    SymfonyString,
}

impl Dialect {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Native,
        Self::Plain,
        Self::Redislock,
        Self::RedislockFenced,
        Self::Redsync,
        Self::Redlock,
        Self::RedisSemaphore,
        Self::Pottery,
        Self::RedisPy,
        Self::PythonRedisLock,
        Self::Shedlock,
        Self::DistributedLockNet,
        Self::Spring,
        Self::Laravel,
        Self::Redisson,
        Self::RedissonFenced,
        Self::RedissonSpin,
        Self::RedissonFair,
        Self::RedissonRw,
        Self::RedissonPermits,
        Self::RedissonSemaphore,
        Self::RedissonLatch,
        Self::Symfony,
        Self::SymfonyString,
    ];

    /// Its name, as in [`Capabilities::dialect`](fencelock_store::Capabilities::dialect).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Plain => "plain",
            Self::Redislock => "redislock",
            Self::RedislockFenced => "redislock-fenced",
            Self::Redsync => "redsync",
            Self::Redlock => "redlock",
            Self::RedisSemaphore => "redis-semaphore",
            Self::Pottery => "pottery",
            Self::RedisPy => "redis-py",
            Self::PythonRedisLock => "python-redis-lock",
            Self::Shedlock => "shedlock",
            Self::DistributedLockNet => "distributed-lock-net",
            Self::Spring => "spring",
            Self::Laravel => "laravel",
            Self::Redisson => "redisson",
            Self::RedissonFenced => "redisson-fenced",
            Self::RedissonSpin => "redisson-spin",
            Self::RedissonFair => "redisson-fair",
            Self::RedissonRw => "redisson-rw",
            Self::RedissonPermits => "redisson-permits",
            Self::RedissonSemaphore => "redisson-semaphore",
            Self::RedissonLatch => "redisson-latch",
            Self::Symfony => "symfony",
            Self::SymfonyString => "symfony-string",
        }
    }

    /// How it is spoken.
    pub(crate) fn plug(self) -> &'static dyn Plug {
        match self {
            Self::Native => &Native,
            Self::Plain => &formats::PLAIN,
            Self::Redislock => &formats::REDISLOCK,
            Self::RedislockFenced => &plain::REDISLOCK_FENCED,
            Self::Redsync => &formats::REDSYNC,
            Self::Redlock => &formats::REDLOCK,
            Self::RedisSemaphore => &formats::REDIS_SEMAPHORE,
            Self::Pottery => &formats::POTTERY,
            Self::RedisPy => &formats::REDIS_PY,
            Self::PythonRedisLock => &formats::PYTHON_REDIS_LOCK,
            Self::Shedlock => &formats::SHEDLOCK,
            Self::DistributedLockNet => &formats::DISTRIBUTED_LOCK_NET,
            Self::Spring => &formats::SPRING,
            Self::Laravel => &formats::LARAVEL,
            Self::Redisson => &redisson::LOCK,
            Self::RedissonFenced => &redisson::FENCED,
            Self::RedissonSpin => &redisson::SPIN,
            Self::RedissonFair => &redisson::FAIR,
            Self::RedissonRw => &redisson::Rw,
            Self::RedissonPermits => &redisson::EXPIRABLE,
            Self::RedissonSemaphore => &redisson::PLAIN,
            Self::RedissonLatch => &redisson::CountDown,
            Self::Symfony => &Symfony,
            Self::SymfonyString => &formats::SYMFONY_STRING,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        Self::ALL.iter().copied().find(|dialect| dialect.name() == name).ok_or(UnknownDialect)
    }
}

/// There is no dialect of this name. Its text lists those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDialect;

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the dialects are ")?;
        for (index, dialect) in Dialect::ALL.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{dialect}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownDialect {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_is_found_by_its_name_and_says_it() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.name().parse(), Ok(*dialect));
            assert_eq!(dialect.plug().capabilities().dialect, dialect.name());
        }
        assert_eq!("Native".parse::<Dialect>(), Err(UnknownDialect));
    }
}
