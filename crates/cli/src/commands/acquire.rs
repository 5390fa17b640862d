//! `acquire`: takes a lock and leaves it held, for its ttl.
//!
//! Whoever can't be told the token could never give the lock back, so it is given back here then.

use std::time::SystemTime;

use fencelock::{Binding, Client, Names, Released};

use crate::args::Acquire;
use crate::context::{self, Context};
use crate::failure::Failure;
use crate::hold::{self, Hold, Manner};
use crate::interrupt::Interrupts;
use crate::names;
use crate::view::{self, HolderRecord, Record, millis, rfc3339};
use crate::waiting;

pub(super) fn execute(arguments: &Acquire) -> Result<u8, Failure> {
    let context = Context::load(arguments)?;
    context.check_lease(context.settings.ttl.as_ref())?;
    let names = names::parse_all(&arguments.names, arguments.name.spelling())?;
    let manner = hold::manner_of(&context.settings, &names)?;
    // While there is one thread: later ones inherit what is blocked here.
    let interrupts = Interrupts::install()
        .map_err(|error| Failure::internal(format!("signals can't be taken over: {error}")))?;
    let client = context.store.open()?;
    context::block_on(async {
        let end = acquire(&context, &client, &names, manner, &interrupts).await;
        context::close(client).await;
        end
    })
}

async fn acquire(
    context: &Context,
    client: &Client,
    names: &Names,
    manner: Option<Manner>,
    interrupts: &Interrupts,
) -> Result<u8, Failure> {
    let store = client.store_display();
    // The lease outlives this process, which renews nothing.
    let recipe = client.mutexes(names).ttl(context.ttl());
    let mut mutex = recipe.bind(Binding::Unbound).unattended();
    for pair in &context.settings.meta {
        let (key, value) = &pair.value;
        mutex = mutex.metadata(key, value);
    }
    let guard = waiting::acquire(context, mutex, manner, names, &store, interrupts).await?;
    let what = waiting::shown(names);
    let output = Output::of(context, client, manner, &guard);
    let token = guard.leave().await.map_err(|error| context.failure(&error))?;
    if let Err(error) = view::try_print(&output.text(names, &token.reveal())) {
        let taken_back = client.lease(names.clone(), token).release().await;
        let rest = match taken_back {
            Ok(Released::Unknown) => {
                "whether it was given back is unknown, it is free after its ttl".to_owned()
            }
            Ok(_) => "it was given back".to_owned(),
            Err(error) => format!("it is held until its ttl is over, since {error}"),
        };
        return Err(Failure::internal(format!(
            "the token of {what} can't be written: {error}; {rest}"
        )));
    }
    context.console.detail(|| {
        let ttl = crate::span::show(context.ttl());
        format!("took {what} for {ttl} [{store}]")
    });
    Ok(0)
}

/// What is printed about the grant, but for the token.
struct Output {
    json: bool,
    fencing_token: Option<u64>,
    ttl_ms: u64,
    validity_ms: u64,
    manner: Option<Manner>,
    dialect: &'static str,
    meta: Vec<(String, String)>,
}

impl Output {
    fn of(context: &Context, client: &Client, manner: Option<Manner>, guard: &Hold) -> Self {
        Self {
            json: context.settings.json,
            fencing_token: guard.fencing_token(),
            ttl_ms: millis(context.ttl()),
            validity_ms: millis(guard.validity_left()),
            manner,
            dialect: client.capabilities().dialect,
            meta: context.settings.meta.iter().map(|pair| pair.value.clone()).collect(),
        }
    }

    fn text(&self, names: &Names, token: &str) -> String {
        if !self.json {
            return format!("{token}\n");
        }
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let holder = HolderRecord {
            host: Some(host),
            pid: Some(std::process::id()),
            label: None,
            since: Some(rfc3339(SystemTime::now())),
        };
        let lines = names.iter().map(|name| {
            let record = Record {
                token: Some(token.to_owned()),
                token_hash: None,
                fencing_token: self.fencing_token,
                ttl_ms: Some(self.ttl_ms),
                validity_ms: Some(self.validity_ms),
                holder: Some(holder.clone()),
                meta: self.meta.iter().cloned().collect(),
                unattended: true,
                ..Record::taken(name, self.manner, self.dialect)
            };
            record.to_line()
        });
        lines.collect()
    }
}
