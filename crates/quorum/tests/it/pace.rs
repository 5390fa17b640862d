//! What is left on nodes that do not answer, and how often they are asked for it.

use fencelock_store::{Fault, StoreErrorKind, Verb, rt};

use crate::world::{World, ms};

/// Goal: a node that is down must cost a busy client no more the longer it is down. Method: sixty
/// locks are taken and given back meanwhile, and three seconds go by.
#[tokio::test]
async fn a_node_that_is_down_is_asked_at_one_pace_whatever_is_left_on_it() {
    let world = World::new(3);
    world.break_nodes([0], &Fault::Fail(StoreErrorKind::Unavailable));
    for _ in 0..60 {
        let token = rt::fresh_token();
        let _ = world.take(token).await;
        let _ = world.release(token).await.expect("a majority answers");
    }
    let before = world.nodes[0].calls(Verb::Release);
    for _ in 0..3_000 {
        world.clock.advance(ms(1));
        rt::yield_now().await;
        std::thread::yield_now();
    }
    let asked = world.nodes[0].calls(Verb::Release) - before;
    // 60 that came before the first failure was known, then 20, 40 ... 500 ms between two, less a
    // quarter.
    assert!(asked < 60 + 15, "asked {asked} times");
    world.mend();
    world.clock.advance(ms(500));
    // Then all of them at once.
    let nothing = || format!("{:?}", world.store).contains("sweeping: 0");
    world.until("nothing is left", nothing).await;
}
