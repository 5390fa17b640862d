//! `renew`: prolongs a lock that another process took.

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
    let names = names::parse_all(&arguments.names, arguments.name.spelling())?;
    let token = token::read(&arguments.token)?;
    let client = context.store.open()?;
    context::block_on(async {
        let lease = client.lease(names.clone(), token);
        let renewed = lease.renew(context.ttl()).await;
        let (store, dialect) = (client.store_display(), client.capabilities().dialect);
        context::close(client).await;
        let left = renewed.map_err(|error| context.failure(&error))?;
        context.console.detail(|| {
            format!("renewed {}: {} left [{store}]", waiting::shown(&names), span::show(left))
        });
        if context.settings.json {
            let lines = names.iter().map(|name| {
                let record = Record {
                    token_hash: Some(Some(lease.token_hash())),
                    ttl_ms: Some(millis(left)),
                    ..Record::new(name, dialect)
                };
                record.to_line()
            });
            view::print(&lines.collect::<String>())?;
        }
        Ok(0)
    })
}
