//! Redisson's locks (Java). Each kind of lock there is a dialect here, since a key of one kind is none
//! of another: a client has one kind, and names of others it finds foreign or busy.
//!
//! Who holds is said by a field of a hash, `<uuid>:<number>` in Redisson: a client and its thread.
//! Ours is the token and the number 0, which no thread has; a hold of an explicit owner has that
//! owner's own words, so that it can be one that Redisson knows. Beside the lock a hold of an owner
//! has a key of ours with the token in it, as Redisson's read locks have one for each hold: so that a
//! request which is sent twice counts once.

mod latch;
mod lock;
mod names;
mod permits;
mod rw;

use self::names::{Keys, own_field};
pub(crate) use self::{
    latch::CountDown,
    lock::{FAIR, FENCED, LOCK, SPIN},
    permits::{EXPIRABLE, PLAIN},
    rw::Rw,
};
