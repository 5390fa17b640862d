//! A value in Redis that refuses a holder which was paused for too long.
//!
//! `REDIS_URL=redis://127.0.0.1/ cargo run --example fenced_redis`

use fencelock::{
    FencingToken,
    fenced::{
        Checked,
        redis::{self as fenced, Keep},
    },
};

mod paused;

#[tokio::main]
async fn main() -> paused::Outcome {
    let url =
        std::env::var("REDIS_URL").map_err(|_| "set REDIS_URL to a Redis for this example")?;
    example(&url, &url).await
}

/// The locks are in `store`, the guarded value on `redis`: they need not be the same server.
pub(crate) async fn example(store: &str, redis: &str) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    let mut invoice =
        Invoice(redis::Client::open(redis)?.get_multiplexed_async_connection().await?);

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert_eq!(invoice.write(old, "drafted").await?, Checked::Accepted(()));
    println!("the first holder, {old}, has written, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    // Before anything else it shows its token, and reads in the same step.
    assert_eq!(invoice.read(new).await?, Checked::Accepted("drafted".to_owned()));
    println!("the second holder, {new}, has the lock and has read");

    let late = invoice.write(old, "paid").await?;
    assert_eq!(late, Checked::Stale { highest: new });
    println!("the first goes on, writes, and is refused: {late:?}");

    assert_eq!(invoice.write(new, "sent").await?, Checked::Accepted(()));
    assert_eq!(invoice.read(new).await?, Checked::Accepted("sent".to_owned()));
    println!("the second writes, and finds what it wrote");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}

/// The guarded value: a hash with the field `state`.
struct Invoice(redis::aio::MultiplexedConnection);

impl Invoice {
    async fn write(
        &mut self,
        token: FencingToken,
        state: &str,
    ) -> Result<Checked, Box<dyn std::error::Error>> {
        let reply = self.call(fenced::WRITE, token, &["state", state]).await?;
        Ok(fenced::checked(token, &reply)?)
    }

    async fn read(
        &mut self,
        token: FencingToken,
    ) -> Result<Checked<String>, Box<dyn std::error::Error>> {
        let reply = self.call(fenced::READ, token, &[]).await?;
        let state = match fenced::fields(token, &reply)? {
            Checked::Stale { highest } => return Ok(Checked::Stale { highest }),
            Checked::Accepted(fields) => fields.into_iter().find(|field| field.name == b"state"),
        };
        Ok(Checked::Accepted(String::from_utf8(state.ok_or("no state")?.value)?))
    }

    async fn call(
        &mut self,
        script: &str,
        token: FencingToken,
        extra: &[&str],
    ) -> redis::RedisResult<Vec<Vec<u8>>> {
        let script = redis::Script::new(script);
        let mut call = script.key("fenced-example:invoice:42");
        for argument in fenced::arguments(token, Keep::Forever, extra) {
            call.arg(argument);
        }
        call.invoke_async(&mut self.0).await
    }
}
