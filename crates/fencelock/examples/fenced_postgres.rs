//! A transaction in PostgreSQL that is refused to a holder which was paused for too long.
//!
//! `DATABASE_URL=postgres://... cargo run --example fenced_postgres`, with `psql`; the locks are at
//! `REDIS_URL`, else in a local file. The script is what a command under `fencelock run` does with
//! its `FENCELOCK_FENCING_TOKEN`; in a program the statements are the same with any driver.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use fencelock::{FencingToken, fenced::sql};

mod paused;

#[tokio::main]
async fn main() -> paused::Outcome {
    let database = std::env::var("DATABASE_URL");
    example(&paused::store(), &database.map_err(|_| "set DATABASE_URL to a PostgreSQL")?).await
}

/// The locks are in `store`, the guarded rows in `database`.
pub(crate) async fn example(store: &str, database: &str) -> paused::Outcome {
    let locks = fencelock::connect(store).await?;
    psql(database, &[], &format!("{};\nCREATE TABLE postings (amount BIGINT);\n", sql::CREATE))?;

    let first = paused::about_to_be_paused(&locks).await?;
    let old = first.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert!(post(database, old, 1)?);
    println!("the first holder, {old}, has written, looks at its guard, and is paused");

    let second = paused::next_holder(&locks).await?;
    let new = second.fencing_token().ok_or("a native lock has fencing tokens")?;
    assert!(post(database, new, 10)?);
    println!("the second holder, {new}, has the lock and has written");

    assert!(!post(database, old, 100)?);
    println!("the first goes on, writes, and is refused");

    assert_eq!(psql(database, &[], "SELECT sum(amount) FROM postings;")?, "11\n");
    println!("what both wrote in their time is there, and nothing else");

    second.release().await;
    drop(first);
    locks.close().await;
    Ok(())
}

/// Adds a row, if no larger token was seen: whether it was done.
fn post(
    database: &str,
    token: FencingToken,
    amount: i64,
) -> Result<bool, Box<dyn std::error::Error>> {
    let script = format!(
        "PREPARE raise AS {raise};
         BEGIN;
         EXECUTE raise('ledger', :'token');
         SELECT :ROW_COUNT = 1 AS accepted \\gset
         \\if :accepted
             INSERT INTO postings VALUES (:'amount');
             COMMIT;
             \\echo accepted
         \\else
             ROLLBACK;
             \\echo stale
         \\endif
        ",
        raise = sql::RAISE
    );
    let settings = [format!("token={token}"), format!("amount={amount}")];
    let answer = psql(database, &settings, &script)?;
    match answer.as_str() {
        "accepted\n" => Ok(true),
        "stale\n" => Ok(false),
        other => Err(format!("psql says {other:?}").into()),
    }
}

/// Runs a script in one session; an error in it is an error.
fn psql(
    database: &str,
    settings: &[String],
    script: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", database]);
    command.args(settings.iter().flat_map(|setting| ["-v", setting]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("a pipe")?.write_all(script.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("psql ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
