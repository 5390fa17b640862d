//! Readers beside each other and never beside a writer, and never more than the permits, as the
//! kernel sees it.
//!
//! The witness of readers and writers is a non-blocking flock(2), shared or exclusive. That of permits
//! has a file for each: who comes in locks as many as it has permits, and there are enough unless too
//! many are inside. It looks for them under a lock of its own, so nobody takes one meanwhile.

use std::fs;

use fencelock_testkit::process::{Signal, group_members};
use fencelock_testkit::{Process, RedisServer};

use crate::support::{LIMIT, Place, alone, finish, finish_within, group, is_soak, wait_for_stderr};

/// `sh hold.sh LIMIT PERMITS COMMAND...`: runs the command with so many slots of so many, and exits
/// with 99 where there are not enough. All that it starts inherits the slots.
const SLOTS: &str = r#"
limit=$1 permits=$2 taken=0 slot=0
shift 2
exec 9>>guard
flock 9
while [ $slot -lt $limit ] && [ $taken -lt $permits ]; do
    slot=$((slot + 1))
    case $taken in
    0) exec 6>>slot$slot; flock -n 6 && taken=1 ;;
    1) exec 7>>slot$slot; flock -n 7 && taken=2 ;;
    2) exec 8>>slot$slot; flock -n 8 && taken=3 ;;
    esac
done
exec 9>&-
if [ $taken -lt $permits ]; then
    echo "$taken of $permits slots were free" >>OVER
    exit 99
fi
"$@"
"#;

/// `sh rw.sh s|x COMMAND...`: runs the command with the flock, and exits with 99 where it is not free.
const READ_OR_WRITE: &str = r#"
mode=$1
shift
exec 9>>rw
if ! flock -n -$mode 9; then
    echo "not free for $mode" >>OVER
    exit 99
fi
"$@"
"#;

/// Places with each store in which several may hold a name, and what they need to live.
fn places() -> (RedisServer, Vec<Place>) {
    let server = RedisServer::start();
    let places = vec![Place::embedded(), Place::on(&server)];
    for place in &places {
        fs::write(place.path("slots.sh"), SLOTS).unwrap();
        fs::write(place.path("rw.sh"), READ_OR_WRITE).unwrap();
    }
    (server, places)
}

/// A shell that runs `fencelock run FLAGS -- WITNESS...` so often, one after the other.
fn again_and_again(place: &Place, runs: usize, flags: &str, witness: &str) -> Process {
    place.shell(&format!(
        "i=0; while [ $i -lt {runs} ]; do \"$FENCELOCK\" run job -q {flags} -- {witness} \
         || exit $?; i=$((i+1)); done"
    ))
}

fn all_end_well(shells: Vec<Process>) {
    for mut shell in shells {
        let ended = finish_within(5 * LIMIT, &mut shell);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    }
}

/// Holds permits or a share until its group is killed.
const STAY: &str = "sh -c 'echo inside $PPID; while :; do sleep 0.5; done'";

fn stay(place: &Place, flags: &str, witness: &str) -> Process {
    let mut shell =
        place.shell(&format!("exec \"$FENCELOCK\" run job {flags} -- {witness} {STAY}"));
    shell.wait_for_stdout(LIMIT, "inside ");
    shell
}

#[test]
fn readers_and_writers_never_meet() {
    let _alone = alone();
    let runs = if is_soak() { 200 } else { 12 };
    let (_server, places) = places();
    for place in places {
        let readers =
            (0..8).map(|_| again_and_again(&place, runs, "--shared", "sh rw.sh s sleep 0.01"));
        let writers = (0..3).map(|_| again_and_again(&place, runs, "", "sh rw.sh x sleep 0.01"));
        all_end_well(readers.chain(writers).collect());
        assert_eq!(place.read("OVER"), "");
    }
}

#[test]
fn readers_are_inside_together() {
    let (_server, places) = places();
    for place in places {
        // Each waits for the others: one after the other, none of them would ever end.
        let script = "sh rw.sh s sh -c 'touch here.$$; \
                      while [ $(ls here.* | wc -l) -lt 5 ]; do sleep 0.01; done'";
        all_end_well((0..5).map(|_| again_and_again(&place, 1, "--shared", script)).collect());
        assert_eq!(place.read("OVER"), "");
    }
}

#[test]
fn of_twenty_never_more_than_the_limit_are_inside() {
    let _alone = alone();
    let runs = if is_soak() { 100 } else { 6 };
    let (_server, places) = places();
    for place in places {
        let shells = (0..20).map(|number| {
            // Some want several, and get them: who wants few does not pass them for ever.
            let permits = if number % 5 == 0 { 3 } else { 1 };
            let flags = format!("--limit 4 --permits {permits}");
            again_and_again(&place, runs, &flags, &format!("sh slots.sh 4 {permits} sleep 0.01"))
        });
        all_end_well(shells.collect());
        assert_eq!(place.read("OVER"), "");
    }
}

#[test]
fn as_many_as_the_limit_are_inside_together() {
    let (_server, places) = places();
    for place in places {
        let script = "sh slots.sh 4 1 sh -c 'touch here.$$; \
                      while [ $(ls here.* | wc -l) -lt 4 ]; do sleep 0.01; done'";
        all_end_well((0..4).map(|_| again_and_again(&place, 1, "--limit 4", script)).collect());
        assert_eq!(place.read("OVER"), "");
    }
}

#[test]
fn the_permit_of_one_that_is_killed_passes_when_its_command_is_dead() {
    let (_server, places) = places();
    for place in places {
        let flags = "--limit 2 --ttl 5s";
        let mut killed = stay(&place, flags, "sh slots.sh 2 1");
        let mut stays = stay(&place, flags, "sh slots.sh 2 1");
        let (gone, left) = (group(&killed).unwrap(), group(&stays).unwrap());
        let mut next = place.shell(
            "exec \"$FENCELOCK\" run job --limit 2 --ttl 5s -- sh slots.sh 2 1 echo entered",
        );
        wait_for_stderr(&mut next, "waiting for lock `job`");
        killed.signal(Signal::KILL);
        // The slot of the killed one is free only when its whole group has ended.
        let ended = finish(&mut next);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "entered\n"), "{ended:?}");
        assert_eq!(group_members(gone), Vec::<u32>::new());
        assert_eq!(place.read("OVER"), "");
        assert_ne!(group_members(left), Vec::<u32>::new(), "the other one was left alone");
        stays.signal(Signal::TERM);
        assert_eq!(finish(&mut stays).code, 143);
    }
}

#[test]
fn a_reader_that_is_killed_lets_the_writer_in_when_its_command_is_dead() {
    let (_server, places) = places();
    for place in places {
        let mut killed = stay(&place, "--shared --ttl 5s", "sh rw.sh s");
        let gone = group(&killed).unwrap();
        let mut writer =
            place.shell("exec \"$FENCELOCK\" run job --ttl 5s -- sh rw.sh x echo entered");
        wait_for_stderr(&mut writer, "waiting for lock `job`");
        killed.signal(Signal::KILL);
        let ended = finish(&mut writer);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "entered\n"), "{ended:?}");
        assert_eq!(group_members(gone), Vec::<u32>::new());
        assert_eq!(place.read("OVER"), "");
    }
}

#[test]
fn the_witnesses_see_who_should_not_be_inside() {
    let (_server, places) = places();
    for place in places {
        for (first, second) in [
            ("sh slots.sh 2 2", "sh slots.sh 2 1"),
            ("sh rw.sh s", "sh rw.sh x"),
            ("sh rw.sh x", "sh rw.sh s"),
        ] {
            let script = format!("exec {first} sh -c '{second} true; echo $?'");
            let ended = finish(&mut place.shell(&script));
            // What is started inside has the first one's descriptors, and its own beside them.
            assert_eq!(ended.stdout, "99\n", "{first}, {second}: {ended:?}");
        }
    }
}
