//! What can be sent to, and shared between, threads.

use fencelock::{
    Barrier, Client, ClientBuilder, Composite, CompositeGuard, CompositeHeld, Connect, Error,
    Guard, Held, Latch, Mutex, Names, Part, Permit, PermitHeld, Queued, ReadGuard, ReadHeld,
    Reentrant, ReentrantGuard, RwLock, Semaphore, Ticket, Token, TokenLease, WriteGuard,
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
    send_sync::<(RwLock, ReadGuard, WriteGuard, ReadHeld)>();
    send_sync::<(Semaphore, Permit, PermitHeld, Reentrant, ReentrantGuard)>();
    send_sync::<(Latch, Barrier, Composite, Part, CompositeGuard, CompositeHeld)>();
    send_sync::<(Queued, Queued<Permit>)>();
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
    fn of_several(client: &Client, reader: fn() -> ReadGuard, writer: fn() -> WriteGuard) {
        let (lock, semaphore) = (client.rwlock("job"), client.semaphore("gpu", 2));
        send(lock.read());
        send(lock.try_write());
        send(lock.enqueue_write());
        send(lock.run_read(|held| async move { held.lost().await }));
        send(writer().downgrade());
        send(reader().leak());
        send(semaphore.acquire_many(2));
        send(semaphore.run(|held| async move { held.lost().await }));
        send(semaphore.set_limit(3));
        send(client.reentrant("job", "me").hold_count());
        send(client.latch("ready", 2).count_down_as("me"));
        send(client.latch("ready", 2).wait());
        send(client.barrier("step", 2).wait());
        let all = client.all_of([Part::read(&lock)]);
        send(all.lock());
        send(all.try_lock());
        send(all.run(|held| async move { held.lost().await }));
    }
    let _compiled = of_several;
    let _compiled = futures;
}
