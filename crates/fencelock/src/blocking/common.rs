//! What the recipes, guards and views of all primitives have in common, once: the lists that belong to
//! `recipe.rs`.

use fencelock_core::LossReason;
use fencelock_store::rt;

/// The options of a recipe, by the groups of `recipe::options!`.
macro_rules! options {
    ($name:ident of $inner:path: $($group:ident),+) => {
        impl $name {
            /// The same recipe, for async code.
            pub fn as_async(&self) -> &$inner {
                &self.inner
            }
        }

        $($crate::blocking::common::options!(@$group $name, $inner);)+
    };
    (@asking $name:ident, $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            settings {
                fn ttl(ttl: std::time::Duration);
                fn metadata(key: impl Into<String>, value: impl Into<String>);
                fn label(label: impl Into<String>);
                fn class(class: &'static str);
                fn on_busy(on_busy: impl Fn(&$crate::BusyView) + Send + Sync + 'static);
            }
        }
    };
    (@waiting $name:ident, $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            settings {
                fn wait(wait: impl Into<$crate::Wait>);
            }
        }
    };
    (@wait_limit $name:ident, $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            settings {
                fn wait_limit(wait: impl Into<$crate::Wait>);
            }
        }
    };
    (@holding $name:ident, $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            settings {
                fn retry(retry: $crate::RetryStrategy);
                fn barging();
                fn renewal(renewal: $crate::Renew);
                fn min_hold(min_hold: std::time::Duration);
                fn max_hold(max_hold: std::time::Duration);
                fn progress_within(span: std::time::Duration);
                fn unattended();
                fn bind(binding: $crate::Binding);
            }
        }
    };
    (@fencing $name:ident, $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            settings {
                fn floor(floor: $crate::FencingToken);
                fn require_fencing();
            }
        }
    };
}

/// What every guard of one name can do, whatever it guards.
macro_rules! guard_verbs {
    ($name:ident of $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            gets {
                fn name() -> &$crate::LockName;
                fn token() -> $crate::Token;
                fn token_hash() -> String;
                fn validity_left() -> std::time::Duration;
                fn is_valid() -> bool;
                fn state() -> $crate::LeaseState;
                fn deadline() -> $crate::Moment;
                fn is_revoked() -> bool;
            }
            calls {
                fn report_progress();
            }
            waits {
                fn renew(ttl: std::time::Duration) -> Result<(), $crate::Error>;
                fn lost() -> $crate::LossReason;
                fn deadline_changed(seen: $crate::Moment) -> $crate::Moment;
            }
            within {
                fn lost_within of lost -> $crate::LossReason;
            }
            ends {
                fn release() -> $crate::Released;
                fn release_now() -> $crate::Released;
            }
        }

        $crate::blocking::common::revoked_within!($name);
    };
}

/// Leaving a lease that others hold, too.
macro_rules! leak_beside_others {
    ($name:ident) => {
        impl $name {
            /// Leaves it held for its ttl, without anybody renewing it: see
            /// [`Guard::leak`](super::Guard::leak). It is known by its token from then on.
            ///
            /// # Errors
            /// As [`Guard::leak`](super::Guard::leak).
            pub fn leak(self) -> Result<$crate::blocking::TokenLease, $crate::Error> {
                let Self { inner, driver } = self;
                let left = driver.wait(inner.leak());
                let left = left.unwrap_or_else($crate::blocking::in_child::InChild::in_child)?;
                Ok($crate::blocking::TokenLease::of(left, &driver))
            }
        }
    };
}

/// What every view of scoped work can tell.
macro_rules! held_verbs {
    ($name:ident of $inner:path) => {
        $crate::blocking::wrap::verbs! {
            $name of $inner;
            gets {
                fn validity_left() -> std::time::Duration;
                fn is_valid() -> bool;
                fn state() -> $crate::LeaseState;
                fn deadline() -> $crate::Moment;
                fn is_revoked() -> bool;
            }
            calls {
                fn report_progress();
            }
            within {
                fn lost_within of lost -> $crate::LossReason;
            }
        }

        $crate::blocking::common::revoked_within!($name);
    };
}

/// Being asked for it back.
macro_rules! revoked_within {
    ($name:ident) => {
        impl $name {
            /// Blocks until somebody asks for it back, for at most so long; false when nobody does, or
            /// it is lost first.
            #[must_use]
            pub fn revoked_within(&self, span: std::time::Duration) -> bool {
                let (asked, lost) = (self.inner.revoked(), self.inner.lost());
                let asked = $crate::blocking::common::before(asked, lost);
                let asked = fencelock_store::rt::timeout(span, asked);
                self.driver.wait(asked).flatten().unwrap_or(false)
            }
        }
    };
}

/// Whether the lock was asked back before it was lost.
pub(super) async fn before(
    asked: impl Future<Output = ()>,
    lost: impl Future<Output = LossReason>,
) -> bool {
    let lost = async {
        lost.await;
    };
    rt::first(asked, lost).await.is_some()
}

pub(super) use {guard_verbs, held_verbs, leak_beside_others, options, revoked_within};
