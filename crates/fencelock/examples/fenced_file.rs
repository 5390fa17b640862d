//! A file that refuses a holder which was paused for too long.
//!
//! `cargo run --example fenced_file`; the locks are at `REDIS_URL`, else in a local file.

use std::path::Path;

use fencelock::fenced::{Checked, file::FencedFile};

mod paused;

#[tokio::main]
async fn main() -> paused::Outcome {
    let folder = tempfile::tempdir()?;
    example(&paused::store(), folder.path()).await
}

/// The locks are in `store`, the guarded file is in `folder`.
pub(crate) async fn example(store: &str, folder: &Path) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    let state = FencedFile::new(folder.join("state.json"));

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert_eq!(state.write(old, b"drafted")?, Checked::Accepted(()));
    println!("the first holder, {old}, has written, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    // Before anything else it shows its token, and reads in the same step.
    assert_eq!(state.read(new)?, Checked::Accepted(Some(b"drafted".to_vec())));
    println!("the second holder, {new}, has the lock and has read");

    let late = state.write(old, b"paid")?;
    assert_eq!(late, Checked::Stale { highest: new });
    println!("the first goes on, writes, and is refused: {late:?}");

    assert_eq!(state.write(new, b"sent")?, Checked::Accepted(()));
    assert_eq!(std::fs::read(state.path())?, b"sent");
    println!("the second writes, and finds what it wrote");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}
