//! Every primitive by threads, without a runtime, on every store.

use fencelock::{Attempt, ErrorKind, LossReason, Part, blocking};

use crate::forms::{Ended, Stores, TTL};

#[test]
fn threads_use_every_primitive_without_a_runtime_on_every_store() {
    let stores = Stores::new();
    for pair in &stores.pairs {
        let (own, other) = (&pair.own, &pair.other);
        let lock = own.rwlock("shared").ttl(TTL);
        let writer = lock.write().unwrap();
        let token = writer.fencing_token().expect("these stores have them");
        let reader = writer.downgrade().unwrap();
        assert_eq!(reader.shared_token().map(|number| number.as_u64()), Some(token.as_u64()));
        let beside = other.rwlock("shared").ttl(TTL).enqueue_read().unwrap().granted().unwrap();
        assert!(matches!(lock.try_write(), Ok(Attempt::Busy(_))));
        assert_eq!(Ended::from(beside.release()), Ended::Done);
        drop(reader.leak().unwrap());
        assert!(own.danger().force_release("shared").unwrap().is_some());

        let gpus = own.semaphore("gpu", 4).ttl(TTL);
        let permit = gpus.acquire_many(3).unwrap();
        let change = gpus.set_limit(8).unwrap();
        assert_eq!((change.before, change.used), (Some(4), 3));
        assert_eq!(gpus.try_acquire().unwrap_err().kind(), ErrorKind::Config);
        let more = other.semaphore("gpu", 8).enqueue_many(5).unwrap().granted().unwrap();
        assert_eq!((permit.permits(), more.permits()), (3, 5));
        assert_eq!(Ended::from(permit.release()), Ended::Done);
        assert_eq!(Ended::from(more.release()), Ended::Done);

        let latch = own.latch("ready", 2);
        latch.count_down_as("one").unwrap();
        latch.count_down_as("one").unwrap();
        assert_eq!(latch.remaining().unwrap(), 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| other.latch("ready", 2).wait());
            latch.count_down().unwrap();
            waiting.join().unwrap().unwrap();
        });

        let barrier = |client: &blocking::Client| client.barrier("step", 2).wait().unwrap();
        let (one, two) = std::thread::scope(|scope| {
            let there = scope.spawn(|| barrier(other));
            (barrier(own), there.join().unwrap())
        });
        assert!(one.is_leader() != two.is_leader() && one.number() == two.number());

        let set = own.all_of([Part::from(own.mutex("a")), Part::from(own.reentrant("b", "me"))]);
        let guard = set.lock().unwrap();
        assert!(guard.is_valid() && guard.parts().count() == 2);
        assert!(matches!(other.mutex("a").try_lock(), Ok(Attempt::Busy(_))));
        assert_eq!(Ended::from(guard.release()), Ended::Done);
    }
}

#[test]
fn what_cant_be_had_is_refused_before_anything_is_sent() {
    let locks = blocking::connect("redis://127.0.0.1:9/").unwrap();
    let refused = [
        (locks.semaphore("job", 3).acquire_many(4).map(drop), "4 permits were asked for"),
        (locks.semaphore("job", 3).acquire_many(0).map(drop), "no permits"),
        (locks.semaphore("job", 1_000_001).acquire().map(drop), "1000001"),
        (locks.semaphore("job", 3).set_limit(0).map(drop), "not 0"),
        (locks.latch("job", 1_025).count_down(), "a latch has 1 to 1024 steps, not 1025"),
        (locks.latch("job", 0).wait(), "not 0"),
        (locks.barrier("job", 1_025).wait().map(drop), "a barrier has 1 to 1024 parties, not 1025"),
    ];
    for (answer, what) in refused {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn threads_lead_and_observe_on_every_store() {
    use std::ops::ControlFlow;

    use fencelock::Observed;

    let stores = Stores::new();
    for pair in &stores.pairs {
        let (own, other) = (pair.own.election("boss").ttl(TTL), pair.other.election("boss"));
        let mut changes = other.observe().every(std::time::Duration::from_millis(50));
        assert_eq!(changes.next().unwrap().unwrap(), Observed::Vacant);
        let leadership = own.campaign("first").unwrap();
        let Observed::Leader(leader) = changes.next().unwrap().unwrap() else { panic!("it leads") };
        assert_eq!((leader.info.as_str(), leader.term), ("first", leadership.term()));
        assert_eq!(Ended::from(leadership.resign()), Ended::Done);

        // The first term is lost, the second resigns, the third breaks.
        let mut terms = Vec::new();
        let led = own.lead("second", |leading| {
            assert!(leading.is_leader());
            terms.push(leading.term());
            match terms.len() {
                1 => {
                    pair.other.danger().force_release("boss").expect("it is held");
                    ControlFlow::Continue(())
                }
                2 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(leading.info().to_owned()),
            }
        });
        assert_eq!(led.unwrap(), "second");
        assert!(terms.len() == 3 && terms.is_sorted_by(|one, next| one < next), "{terms:?}");
        assert!(pair.is_free("boss"));

        // Whoever breaks after the leadership is over is told.
        let broke = own.lead("third", |_leading| {
            pair.other.danger().force_release("boss").expect("it is held");
            ControlFlow::Break(())
        });
        let reason = broke.unwrap_err().loss();
        assert!(
            matches!(reason, Some(LossReason::Taken | LossReason::ExpiredAtStore)),
            "{reason:?}"
        );
    }
}
