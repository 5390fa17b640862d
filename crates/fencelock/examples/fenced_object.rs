//! An object in a store with `If-Match` that refuses a holder which was paused between its read and
//! its write.
//!
//! `cargo run --example fenced_object`; the locks are at `REDIS_URL`, else in a local file.
//!
//! The bucket here stands for S3 and its like. It has their two conditions, and an `ETag` that is, as
//! there, a digest of the content alone.

use std::sync::Mutex;

use fencelock::{
    FencingToken,
    fenced::{
        Checked,
        object::{self, Put},
    },
};
use sha2::{Digest as _, Sha256};

mod paused;

#[tokio::main]
async fn main() -> paused::Outcome {
    example(&paused::store()).await
}

/// The locks are in `store`, the guarded object in memory.
pub(crate) async fn example(store: &str) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    let bucket = Bucket::default();

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert_eq!(write(&bucket, old, |_| b"drafted".to_vec())?, Checked::Accepted(()));
    // The worst moment: it has read, its token was the highest, and only the PUT is missing.
    let before = bucket.get().ok_or("it was written")?;
    assert_eq!(object::put(Some(object::open(&before.bytes)?.token), old), Put::IfMatch);
    println!("the first holder, {old}, has read, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    // Before anything else it puts its token into the object, with the content that is there.
    assert_eq!(write(&bucket, new, |seen| seen.to_vec())?, Checked::Accepted(()));
    println!("the second holder, {new}, has the lock and has put its token down");

    let late = bucket.put(Some(&before.etag), object::seal(old, b"paid"));
    assert_eq!(late, Err(PreconditionFailed));
    assert_eq!(write(&bucket, old, |_| b"paid".to_vec())?, Checked::Stale { highest: new });
    println!("the first goes on, its PUT fails with 412, and then it reads that it is stale");

    assert_eq!(write(&bucket, new, |_| b"sent".to_vec())?, Checked::Accepted(()));
    let after = bucket.get().ok_or("it was written")?;
    assert_eq!(object::open(&after.bytes)?.content, b"sent");
    println!("the second writes, and finds what it wrote");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}

/// How often another writer may be faster: each of them has the lock, or had it.
const TRIES: u32 = 10;

/// Reads, decides by the token, and writes if nobody came in between.
fn write(
    bucket: &Bucket,
    token: FencingToken,
    change: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Checked, Box<dyn std::error::Error>> {
    for _ in 0..TRIES {
        let found = bucket.get();
        let seen = found.as_ref().map(|found| object::open(&found.bytes)).transpose()?;
        let content = change(seen.map_or(b"", |seen| seen.content));
        let etag = match object::put(seen.map(|seen| seen.token), token) {
            Put::Stale { highest } => return Ok(Checked::Stale { highest }),
            Put::IfMatch => found.as_ref().map(|found| found.etag.as_str()),
            _ => None,
        };
        if bucket.put(etag, object::seal(token, &content)).is_ok() {
            return Ok(Checked::Accepted(()));
        }
    }
    Err("others were faster each time".into())
}

/// One object.
#[derive(Default)]
struct Bucket(Mutex<Option<Vec<u8>>>);

struct Found {
    bytes: Vec<u8>,
    etag: String,
}

/// 412.
#[derive(Debug, PartialEq, Eq)]
struct PreconditionFailed;

impl Bucket {
    fn get(&self) -> Option<Found> {
        let bytes = self.0.lock().ok()?.clone()?;
        Some(Found { etag: etag(&bytes), bytes })
    }

    /// With an `ETag`: `If-Match`. Without one: `If-None-Match: *`.
    fn put(&self, expected: Option<&str>, bytes: Vec<u8>) -> Result<(), PreconditionFailed> {
        let mut object = self.0.lock().map_err(|_| PreconditionFailed)?;
        if object.as_deref().map(etag).as_deref() != expected {
            return Err(PreconditionFailed);
        }
        *object = Some(bytes);
        Ok(())
    }
}

fn etag(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
