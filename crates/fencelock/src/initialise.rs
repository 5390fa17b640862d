//! Saying of a Redis server that it is new, so that its restart guard lets it count at once.

use std::time::Duration;

use fencelock_core::Ttl;
pub use fencelock_redis::{IfUsed, Initialised};
use fencelock_store::Store;

use crate::{ClientBuilder, Error};

impl ClientBuilder {
    /// Writes the marker of the restart guard on the server, so that this life of it counts from
    /// now on, for leases of at most `max_ttl`: what `fencelock init` does.
    ///
    /// A server of a quorum that restarted may have forgotten leases that still run, so it gives no
    /// new ones until it has been running for longer than the longest of them. One that was never
    /// used before forgot nothing. `if_used` is for a server that has the marker of an earlier life.
    ///
    /// A server that lost all its data has no marker and looks new. Whoever initialises several
    /// servers can look first ([`IfUsed::Look`]), and at what the others hold: a blank one among
    /// servers that hold locks is hardly new.
    ///
    /// # Errors
    /// `Config` for a ttl, a url or a setting that can't work; `Unsupported` for a store that is no
    /// Redis server and in the plain dialect; those of every call to a store.
    ///
    /// # Cancel safety
    /// A dropped call may have written the marker.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), fencelock::Error> {
    /// use std::time::Duration;
    ///
    /// use fencelock::{Client, IfUsed};
    ///
    /// for url in ["redis://a.example/", "redis://b.example/", "redis://c.example/"] {
    ///     let max_ttl = Duration::from_secs(60);
    ///     let _ = Client::builder(url).initialise(max_ttl, IfUsed::Refuse).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn initialise(
        self,
        max_ttl: Duration,
        if_used: IfUsed,
    ) -> Result<Initialised, Error> {
        let max_ttl = Ttl::new(max_ttl)
            .map_err(|error| Error::config(format!("max_ttl can't be {max_ttl:?}: {error}")))?;
        let store = self.only_redis()?;
        let by = store.clock().now().saturating_add(self.settings.request_timeout);
        let reply = store.initialise(max_ttl, if_used, by).await;
        store.close().await;
        let reply = reply.map_err(Error::from_store)?;
        Ok(reply.answer)
    }
}
