//! What can be sent to, and shared between, threads.

use fencelock::{
    Client, ClientBuilder, Connect, Error, Guard, Held, Mutex, Names, Ticket, Token, TokenLease,
};

fn send_sync<T: Send + Sync>() {}
fn send<T: Send>(_: T) {}

#[test]
fn everything_is_send_and_sync() {
    send_sync::<Client>();
    send_sync::<ClientBuilder>();
    send_sync::<Connect>();
    send_sync::<Error>();
    send_sync::<Guard>();
    send_sync::<Held>();
    send_sync::<Mutex>();
    send_sync::<Ticket>();
    send_sync::<TokenLease>();
}

#[test]
fn all_futures_are_send() {
    fn futures(client: Client, guard: fn() -> Guard, ticket: Ticket) {
        let mutex = client.mutex("job");
        send(mutex.lock());
        send(mutex.try_lock());
        send(mutex.run(|held| async move { held.lost().await }));
        send(mutex.run_stream(|_held| futures_util::stream::empty::<u32>()));
        send(mutex.run_try_stream(|_held| futures_util::stream::empty::<Result<u32, Error>>()));
        send(client.connect_now());
        send(client.inspect("job"));
        send(client.list(""));
        send(client.danger().force_release("job"));
        send(client.adopt(ticket));
        send(guard().release());
        send(guard().leak());
        send(guard().detach());
        let held = guard();
        send(held.renew(std::time::Duration::from_secs(1)));
        send(held.lost());
        send(held.deadline_changed(held.deadline()));
        let lease = client.lease(Names::one("job".parse().unwrap()), Token::from_bytes([0; 16]));
        send(lease.renew(std::time::Duration::from_secs(1)));
        send(lease.release());
        send(client.close());
    }
    let _compiled = futures;
}
