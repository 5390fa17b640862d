//! `renew`: prolongs a lock that another process took.

use std::time::Duration;

use fencelock::{Client, Inspection, LockName, TokenLease};

use super::token;
use crate::args::Renew;
use crate::context::{self, Context};
use crate::failure::Failure;
use crate::names;
use crate::span;
use crate::view::{self, Record, millis};
use crate::waiting;

pub(super) fn execute(arguments: &Renew) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    context.check_lease(context.settings.ttl.as_ref())?;
    let names = names::parse_all(&arguments.names, arguments.name.spelling())?;
    let token = token::read(&arguments.token)?;
    let client = context.store.open()?;
    context::block_on(async {
        let lease = client.lease(names.clone(), token);
        let renewed = lease.renew(context.ttl()).await;
        let (store, dialect) = (client.store_display(), client.capabilities().dialect);
        let end = match renewed {
            Err(error) => Err(context.failure(&error)),
            Ok(left) if context.settings.json => {
                let mut lines = String::new();
                for name in &names {
                    lines.push_str(&record(&client, name, &lease, left, dialect).await.to_line());
                }
                Ok((left, lines))
            }
            Ok(left) => Ok((left, String::new())),
        };
        context::close(client).await;
        let (left, lines) = end?;
        context.console.detail(|| {
            format!("renewed {}: {} left [{store}]", waiting::shown(&names), span::show(left))
        });
        if context.settings.json {
            view::print(&lines)?;
        }
        Ok(0)
    })
}

/// What is known of a lock that was renewed: all of it, if the store still says so.
async fn record(
    client: &Client,
    name: &LockName,
    lease: &TokenLease,
    left: Duration,
    dialect: &str,
) -> Record {
    let hash = lease.token_hash();
    let seen = client.inspect(name.clone()).await;
    let known = match &seen {
        Ok(Inspection::Held(holder)) => {
            view::of(holder, &hash).map(|each| Record::held(name, holder, dialect).said_of(&each))
        }
        _ => None,
    };
    // It was renewed all the same.
    let unknown = || Record { token_hash: Some(Some(hash)), ..Record::new(name, dialect) };
    let known = known.unwrap_or_else(unknown);
    Record { ttl_ms: Some(millis(left)), ..known }
}
