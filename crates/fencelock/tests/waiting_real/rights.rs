//! Users who may not listen, or whose scripts may not tell.

use std::time::Duration;

use fencelock_testkit::{RedisServer, eventually};

use crate::child::{Child, LIMIT};

const PROCESSES: usize = 3;
const WAITERS: usize = 12;

/// Waiters of several processes take their places one after the other, and are served like that.
fn served_in_order(server: &RedisServer, mode: &str) {
    let mut children: Vec<Child> =
        (0..PROCESSES).map(|_| Child::start(&server.url_as("app", "secret"))).collect();
    children[0].lock("first", "job", "strict", LIMIT);
    children[0].granted("first");
    for number in 0..WAITERS {
        let child = &mut children[number % PROCESSES];
        child.lock(&number.to_string(), "job", mode, LIMIT);
        let places = if mode == "strict" { number } else { number.min(PROCESSES - 1) };
        eventually(LIMIT, "it has a place", || {
            child.waiting("job") == u64::try_from(places + 1).expect("few")
        });
    }
    children[0].release("first");
    let mut last = 0;
    let mut longest = Duration::ZERO;
    let mut releasing = children[0].wait("releasing", "first");
    for number in 0..WAITERS {
        let id = number.to_string();
        let child = &mut children[number % PROCESSES];
        let granted = child.granted(&id);
        assert!(granted.token() > last, "{granted:?}");
        last = granted.token();
        longest = longest.max(granted.after(&releasing));
        releasing = child.release(&id).0;
    }
    println!("{mode}: {WAITERS} were served in order, each within {longest:?}");
}

fn server(rules: &str) -> RedisServer {
    let rules = format!("on >secret ~fencelock:* &fencelock:* +@all {rules}");
    RedisServer::builder().acl_user("app", &rules).start()
}

#[test]
fn who_may_not_subscribe_is_served_in_order() {
    served_in_order(&server("-subscribe -psubscribe -ssubscribe"), "strict");
}

#[test]
fn who_is_never_told_because_scripts_may_not_publish_is_served_in_order() {
    served_in_order(&server("-publish -spublish"), "strict");
}

#[test]
fn who_may_use_no_channel_is_served_in_order() {
    served_in_order(&server("resetchannels"), "strict");
}
