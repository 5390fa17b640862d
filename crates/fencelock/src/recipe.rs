//! What the recipes, guards and views of all primitives have in common, written once.
//!
//! Each recipe is a [`Mutex`](crate::Mutex) recipe with another mode of holding inside (`base`), and
//! each guard is a [`Guard`](crate::Guard) inside (`guard`). The methods are written out by macros
//! and not reached by `Deref` or a shared trait: a `Deref` to `Guard` would hand out the fencing
//! token of a lock that others hold, too, which the types are there to prevent; and a trait would
//! have to be imported by every caller.

/// The options of a recipe, by group: those that make sense for it.
macro_rules! options {
    ($recipe:ident: $($group:ident),+) => {
        impl $recipe {
            $(crate::recipe::options!(@$group);)+
        }
    };
    (@asking) => {
        /// How long the store keeps each lease unless it is renewed: see
        /// [`Mutex::ttl`](crate::Mutex::ttl).
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.base = self.base.ttl(ttl);
            self
        }

        /// Says something of the holder: see [`Mutex::metadata`](crate::Mutex::metadata).
        pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
            self.base = self.base.metadata(key, value);
            self
        }

        /// What the holder calls itself: see [`Mutex::label`](crate::Mutex::label).
        pub fn label(mut self, label: impl Into<String>) -> Self {
            self.base = self.base.label(label);
            self
        }

        /// Which locks this one is counted with: see [`Mutex::class`](crate::Mutex::class).
        pub fn class(mut self, class: &'static str) -> Self {
            self.base = self.base.class(class);
            self
        }

        /// Is called while waiting: see [`Mutex::on_busy`](crate::Mutex::on_busy).
        pub fn on_busy(
            mut self,
            on_busy: impl Fn(&crate::BusyView) + Send + Sync + 'static,
        ) -> Self {
            self.base = self.base.on_busy(on_busy);
            self
        }
    };
    (@waiting) => {
        /// How long a verb waits for everything: see [`Mutex::wait`](crate::Mutex::wait).
        pub fn wait(mut self, wait: impl Into<crate::Wait>) -> Self {
            self.base = self.base.wait(wait);
            self
        }
    };
    (@wait_limit) => {
        /// How long `wait` waits for everything: as [`Mutex::wait`](crate::Mutex::wait), under another
        /// name, since that is the verb here. For ever by default.
        pub fn wait_limit(mut self, wait: impl Into<crate::Wait>) -> Self {
            self.base = self.base.wait(wait);
            self
        }
    };
    (@holding) => {
        /// Polls instead of waiting in the line at the store: see
        /// [`Mutex::retry`](crate::Mutex::retry).
        pub fn retry(mut self, retry: crate::RetryStrategy) -> Self {
            self.base = self.base.retry(retry);
            self
        }

        /// No order: see [`Mutex::barging`](crate::Mutex::barging). Then nothing keeps whoever wants
        /// much of it from waiting for ever.
        pub fn barging(mut self) -> Self {
            self.base = self.base.barging();
            self
        }

        /// Who renews the lease: see [`Mutex::renewal`](crate::Mutex::renewal).
        pub fn renewal(mut self, renewal: crate::Renew) -> Self {
            self.base = self.base.renewal(renewal);
            self
        }

        /// How long it stays held at least: see [`Mutex::min_hold`](crate::Mutex::min_hold).
        pub fn min_hold(mut self, min_hold: std::time::Duration) -> Self {
            self.base = self.base.min_hold(min_hold);
            self
        }

        /// How long it is held at most: see [`Mutex::max_hold`](crate::Mutex::max_hold).
        pub fn max_hold(mut self, max_hold: std::time::Duration) -> Self {
            self.base = self.base.max_hold(max_hold);
            self
        }

        /// Renewed only while the holder gets on: see
        /// [`Mutex::progress_within`](crate::Mutex::progress_within).
        pub fn progress_within(mut self, span: std::time::Duration) -> Self {
            self.base = self.base.progress_within(span);
            self
        }

        /// Nobody renews the lease, and the store says so: see
        /// [`Mutex::unattended`](crate::Mutex::unattended).
        pub fn unattended(mut self) -> Self {
            self.base = self.base.unattended();
            self
        }

        /// What the lease ends with besides its ttl: see [`Mutex::bind`](crate::Mutex::bind).
        pub fn bind(mut self, binding: crate::Binding) -> Self {
            self.base = self.base.bind(binding);
            self
        }
    };
    (@fencing) => {
        /// The highest fencing token that the guarded resource has seen: see
        /// [`Mutex::floor`](crate::Mutex::floor).
        pub fn floor(mut self, floor: crate::FencingToken) -> Self {
            self.base = self.base.floor(floor);
            self
        }

        /// Fails where there are no fencing tokens: see
        /// [`Mutex::require_fencing`](crate::Mutex::require_fencing).
        pub fn require_fencing(mut self) -> Self {
            self.base = self.base.require_fencing();
            self
        }
    };
}

/// What every guard can do, whatever it guards.
macro_rules! guard_verbs {
    ($guard:ident) => {
        impl $guard {
            #[cfg(feature = "blocking")]
            pub(crate) fn as_guard(&self) -> &crate::Guard {
                &self.guard
            }

            #[cfg(feature = "blocking")]
            pub(crate) fn into_guard(self) -> crate::Guard {
                self.guard
            }

            /// The name.
            #[must_use]
            pub fn name(&self) -> &crate::LockName {
                self.guard.name()
            }

            /// Tells this grant from others: see [`Guard::token_hash`](crate::Guard::token_hash).
            #[must_use]
            pub fn token_hash(&self) -> String {
                self.guard.token_hash()
            }

            /// How long the holder may still act, unless the lease is renewed; zero when it is lost.
            #[must_use]
            pub fn validity_left(&self) -> std::time::Duration {
                self.guard.validity_left()
            }

            /// Whether the holder may act now: see [`Guard::is_valid`](crate::Guard::is_valid).
            #[must_use]
            pub fn is_valid(&self) -> bool {
                self.guard.is_valid()
            }

            /// Where the lease stands.
            #[must_use]
            pub fn state(&self) -> crate::LeaseState {
                self.guard.state()
            }

            /// When validity ends: see [`Guard::deadline`](crate::Guard::deadline).
            #[must_use]
            pub fn deadline(&self) -> crate::Moment {
                self.guard.deadline()
            }

            /// Waits until the deadline is another: see
            /// [`Guard::deadline_changed`](crate::Guard::deadline_changed).
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn deadline_changed(&self, seen: crate::Moment) -> crate::Moment {
                self.guard.deadline_changed(seen).await
            }

            /// Waits until it is lost: see [`Guard::lost`](crate::Guard::lost).
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn lost(&self) -> crate::LossReason {
                self.guard.lost().await
            }

            /// When it is lost at the latest: see [`Guard::hold_limit`](crate::Guard::hold_limit).
            #[must_use]
            pub fn hold_limit(&self) -> Option<crate::Moment> {
                self.guard.hold_limit()
            }

            /// Until when it stays held at least: see
            /// [`Guard::kept_until`](crate::Guard::kept_until).
            #[must_use]
            pub fn kept_until(&self) -> Option<crate::Moment> {
                self.guard.kept_until()
            }

            /// Says that the work gets on: see
            /// [`Guard::report_progress`](crate::Guard::report_progress).
            pub fn report_progress(&self) {
                self.guard.report_progress();
            }

            /// Whether somebody asked for it back: see
            /// [`Guard::is_revoked`](crate::Guard::is_revoked).
            #[must_use]
            pub fn is_revoked(&self) -> bool {
                self.guard.is_revoked()
            }

            /// Waits until somebody asks for it back: see [`Guard::revoked`](crate::Guard::revoked).
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn revoked(&self) {
                self.guard.revoked().await;
            }

            /// Prolongs the lease: see [`Guard::renew`](crate::Guard::renew).
            ///
            /// # Errors
            /// As [`Guard::renew`](crate::Guard::renew).
            ///
            /// # Cancel safety
            /// As [`Guard::renew`](crate::Guard::renew).
            pub async fn renew(&self, ttl: std::time::Duration) -> Result<(), crate::Error> {
                self.guard.renew(ttl).await
            }

            /// Gives it back: see [`Guard::release`](crate::Guard::release).
            ///
            /// # Cancel safety
            /// Dropping the future loses nothing: the keeper finishes the release.
            pub async fn release(self) -> crate::Released {
                self.guard.release().await
            }

            /// Gives it back at once also where it has a `min_hold`: see
            /// [`Guard::release_now`](crate::Guard::release_now).
            ///
            /// # Cancel safety
            /// As for `release`.
            pub async fn release_now(self) -> crate::Released {
                self.guard.release_now().await
            }
        }
    };
}

/// Leaving a lease that others hold, too: without a ticket, since whoever adopts a lease by ticket is
/// alone with it.
macro_rules! leak_beside_others {
    ($guard:ident) => {
        impl $guard {
            /// Leaves it held for its ttl, without anybody renewing it, and independent of this
            /// process: see [`Guard::leak`](crate::Guard::leak). It is known by its token from then
            /// on.
            ///
            /// # Errors
            /// As [`Guard::leak`](crate::Guard::leak).
            ///
            /// # Cancel safety
            /// When the future is dropped it is given back.
            pub async fn leak(self) -> Result<crate::TokenLease, crate::Error> {
                let context = std::sync::Arc::clone(self.guard.context());
                let ticket = self.guard.leak().await?;
                Ok(crate::TokenLease::new(context, ticket.names().clone(), ticket.token()))
            }
        }
    };
}

/// What every view of scoped work can tell.
macro_rules! held_verbs {
    ($held:ident) => {
        impl crate::stream::Loss for $held {
            fn is_lost(&self) -> bool {
                crate::stream::Loss::is_lost(&self.held)
            }
        }

        impl $held {
            /// The name.
            #[must_use]
            pub fn name(&self) -> &crate::LockName {
                self.held.names().first()
            }

            /// Whether the work may go on: see [`Held::is_valid`](crate::Held::is_valid).
            #[must_use]
            pub fn is_valid(&self) -> bool {
                self.held.is_valid()
            }

            /// How long the work may still act, unless the lease is renewed.
            #[must_use]
            pub fn validity_left(&self) -> std::time::Duration {
                self.held.validity_left()
            }

            /// When validity ends; [`Moment::START`](crate::Moment::START) once it has.
            #[must_use]
            pub fn deadline(&self) -> crate::Moment {
                self.held.deadline()
            }

            /// Where the lease stands.
            #[must_use]
            pub fn state(&self) -> crate::LeaseState {
                self.held.state()
            }

            /// Says that the work gets on: see
            /// [`Held::report_progress`](crate::Held::report_progress).
            pub fn report_progress(&self) {
                self.held.report_progress();
            }

            /// Whether somebody asked for it back.
            #[must_use]
            pub fn is_revoked(&self) -> bool {
                self.held.is_revoked()
            }

            /// Waits until somebody asks for it back: see [`Held::revoked`](crate::Held::revoked).
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn revoked(&self) {
                self.held.revoked().await;
            }

            /// Waits until it is lost; for ever, when it is released instead.
            ///
            /// # Cancel safety
            /// Safe.
            pub async fn lost(&self) -> crate::LossReason {
                self.held.lost().await
            }
        }
    };
}

pub(crate) use {guard_verbs, held_verbs, leak_beside_others, options};
