//! The settings of a registry.

use std::time::Duration;

use crate::Renew;

/// What all locks of a registry have in common.
///
/// With the feature `serde` it can be read from a configuration: `expire-after` and
/// `expire-evict-idle`, spans like `10s`, `500ms`, `1m 30s`, and `renewal`, `manual` or `auto`. What is
/// left out is the default; an unknown key is an error.
///
/// # Examples
/// ```
/// # #[cfg(feature = "serde")] {
/// use fencelock::RegistrySettings;
///
/// let settings: RegistrySettings =
///     toml::from_str("expire-after = '10s'\nexpire-evict-idle = '5m'").expect("a configuration");
/// assert_eq!(settings.expire_after.as_secs(), 10);
/// assert!(toml::from_str::<RegistrySettings>("expire-afer = '10s'").is_err());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub struct RegistrySettings {
    /// How long a lease is, and how long [`RegistryLock::lock`](super::RegistryLock::lock) waits; 60 s
    /// unless said otherwise.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "read::span"))]
    pub expire_after: Duration,
    /// How long the object of a lock is kept that nobody uses; 30 min unless said otherwise. Not less
    /// than a second.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "read::span"))]
    pub expire_evict_idle: Duration,
    /// Who renews a lease. Nobody unless said otherwise, as in the registries that this one follows:
    /// work that takes longer than a lease is told that it lost the lock.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "read::renewal"))]
    pub renewal: Renew,
}

impl RegistrySettings {
    const EVICT_LEAST: Duration = Duration::from_secs(1);

    /// With another lease.
    #[must_use]
    pub fn expire_after(self, span: Duration) -> Self {
        Self { expire_after: span, ..self }
    }

    /// With another time for idle objects.
    #[must_use]
    pub fn expire_evict_idle(self, span: Duration) -> Self {
        Self { expire_evict_idle: span.max(Self::EVICT_LEAST), ..self }
    }

    /// With leases that are renewed, or not.
    #[must_use]
    pub fn renewal(self, renewal: Renew) -> Self {
        Self { renewal, ..self }
    }
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            expire_after: Duration::from_secs(60),
            expire_evict_idle: Duration::from_secs(30 * 60),
            renewal: Renew::Manual,
        }
    }
}

#[cfg(feature = "serde")]
mod read {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, de::Error as _};

    use crate::Renew;

    pub(super) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        let span = humantime::parse_duration(&text).map_err(|error| {
            D::Error::custom(format!("{text:?} is no span of time such as `10s`: {error}"))
        })?;
        if span.is_zero() { Err(D::Error::custom("a span of nothing")) } else { Ok(span) }
    }

    pub(super) fn renewal<'de, D: Deserializer<'de>>(from: D) -> Result<Renew, D::Error> {
        match &*String::deserialize(from)? {
            "auto" => Ok(Renew::Auto),
            "manual" => Ok(Renew::Manual),
            other => Err(D::Error::unknown_variant(other, &["auto", "manual"])),
        }
    }
}
