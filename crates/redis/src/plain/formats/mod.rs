//! One file for each library of the family.

mod distributed_lock_net;
mod laravel;
mod plain;
mod pottery;
mod python_redis_lock;
mod redis_py;
mod redis_semaphore;
mod redislock;
mod redlock;
mod redsync;
mod shedlock;
mod spring;
mod symfony_string;

pub(crate) use self::{
    distributed_lock_net::DISTRIBUTED_LOCK_NET,
    laravel::LARAVEL,
    plain::PLAIN,
    pottery::POTTERY,
    python_redis_lock::PYTHON_REDIS_LOCK,
    redis_py::REDIS_PY,
    redis_semaphore::REDIS_SEMAPHORE,
    redislock::{REDISLOCK, REDISLOCK_FENCED},
    redlock::REDLOCK,
    redsync::REDSYNC,
    shedlock::SHEDLOCK,
    spring::SPRING,
    symfony_string::SYMFONY_STRING,
};
