//! The native readers take any reply: an answer or a protocol error comes of it.

use fencelock_core::{AcquireRequest, LockName, Names, RenewRequest, Renewed, Token, Ttl};
use fencelock_store::{Outcome, StoreErrorKind, StoreResult};
use proptest::prelude::*;
use redis::Value;

use super::*;
use crate::{connection::Greeting, keys::KeyMapping, plain, servers::Servers};

fn wire() -> Wire {
    let url = "redis://127.0.0.1:1/".parse().expect("a url");
    Wire::new(Servers::new(&url, None).expect("nothing is sent"), KeyMapping::After(Vec::new()))
}

fn answer(value: Value) -> Answer {
    Answer { value, greeting: Greeting::default(), resent: false, by_text: false, connection: 0 }
}

fn request() -> AcquireRequest {
    let names = Names::new(["a", "b"].map(|name| LockName::new(name).expect("a name")));
    let ttl = Ttl::from_millis(1_000).expect("a ttl");
    AcquireRequest::new(names.expect("names"), Token::from_bytes([7; 16]), ttl)
}

/// Any value that a server, or something between, could send.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        ".{0,40}".prop_map(Value::SimpleString),
        prop::collection::vec(any::<u8>(), 0..120).prop_map(Value::BulkString),
        "[0-9]{16}[a-z][0-9a-z]{0,80}".prop_map(|text| Value::BulkString(text.into_bytes())),
        "[a-z][0-9]{0,60}".prop_map(|text| Value::BulkString(text.into_bytes())),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Set),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn any_reply_is_an_answer_or_a_protocol_error(value in any_value()) {
        let (wire, request) = (wire(), request());
        let a_string = bytes(&value).is_ok();
        let acquired = read(&wire, answer(value.clone()), |letter, fields, at| {
            acquire::decode(&request, letter, fields, at)
        });
        let released = read(&wire, answer(value.clone()), |letter, _, _| release::decode(letter));
        let inspected = read(&wire, answer(value.clone()), inspect::decode);
        let renewal = renewals(1, 0);
        let renewed = renew::Call::new(&renewal).read(&wire, answer(value.clone()), &mut None);
        let inspected_all = read_list(&wire, answer(value.clone()), 1, inspect::decode);
        let results = [
            acquired.map(|reply| format!("{reply:?}")),
            released.map(|reply| format!("{reply:?}")),
            inspected.map(|reply| format!("{reply:?}")),
            renewed.map(|reply| format!("{reply:?}")),
        ];
        for result in results {
            prop_assert!(a_string || result.is_err());
            if let Err(error) = result {
                prop_assert_eq!(error.kind(), StoreErrorKind::Protocol);
                prop_assert_eq!(error.outcome(), Outcome::Unknown);
            }
        }
        prop_assert!(!a_string || inspected_all.is_err());
        plain::tests::decode_everything(&value);
    }

    #[test]
    fn a_letter_more_or_less_is_noticed(cut in 1usize..40) {
        let whole = format!("{:016}g1{:016}", 1_700_000_000_000_000_u64, 1_700_000_000_000_000_u64);
        let cut = whole.len().saturating_sub(cut);
        let value = Value::BulkString(whole.as_bytes()[..cut].to_vec());
        let result = read(&wire(), answer(value), |letter, fields, at| {
            acquire::decode(&request(), letter, fields, at)
        });
        prop_assert!(result.is_err());
    }
}

#[test]
fn numbers_are_written_with_all_their_digits() {
    assert_eq!(&digits::<8>(60_000), b"00060000");
    assert_eq!(&fence_digits(FencingToken::new((1 << 53) - 1).ok()), b"9007199254740991");
    assert_eq!(&fence_digits(None), b"0000000000000000");
    assert_eq!(&deadline_digits(None), b"9999999999999999");
    assert_eq!(&deadline_digits(Some(StoreTime::from_micros(u64::MAX))), b"9999999999999999");
}

/// So many plain leases, and then so many that want something besides.
fn renewals(plain: u8, others: u8) -> Vec<RenewRequest> {
    let ttl = Ttl::from_millis(1_000).expect("a ttl");
    let all = (0..plain + others).map(|number| {
        let name = LockName::new([b'a' + number]).expect("a name");
        let mut request = RenewRequest::new(name, Token::from_bytes([number; 16]), ttl);
        request.unattended = number >= plain;
        request
    });
    all.collect()
}

fn renewed(batch: &[RenewRequest], said: &str) -> StoreResult<Vec<Renewed>> {
    let text = format!("1700000000000000{said}");
    let value = Value::BulkString(text.into_bytes());
    renew::Call::new(batch).read(&wire(), answer(value), &mut None)
}

#[test]
fn a_renewal_that_the_server_could_not_do_is_unknown() {
    let batch = renewals(3, 0);
    let said = "000300010025eNOREPLICAS Too few of us00030002na";
    let answers = renewed(&batch, said).expect("it is well formed").answer;
    assert_eq!(answers[0], Renewed::Unknown);
    assert_eq!(answers[1], Renewed::extended(Duration::from_secs(1)));
    assert_eq!(answers[2], Renewed::NotHeld(fencelock_core::NotHeld::Absent));
    let mut refused = None;
    let value = Value::BulkString(format!("17000000000000000001{}", &said[4..37]).into_bytes());
    let reply = renew::Call::new(&batch[..1]).read(&wire(), answer(value), &mut refused);
    assert_eq!(reply.expect("it is well formed").answer, [Renewed::Unknown]);
    assert_eq!(refused.as_deref(), Some("NOREPLICAS Too few of us"));
}

#[test]
fn what_a_replica_read_of_other_leases_says_nothing() {
    let said = "000200010025eREADONLY You can't write00020002na";
    let mut refused = None;
    let value = Value::BulkString(format!("1700000000000000{said}").into_bytes());
    let reply = renew::Call::new(&renewals(2, 0)).read(&wire(), answer(value), &mut refused);
    let failure = wire().refused_inside(&refused.expect("it was said"));
    assert_eq!((failure.kind, failure.outcome), (StoreErrorKind::Unavailable, Outcome::NotDone));
    assert!(failure.voids(&reply.expect("it is well formed").answer));
    let on_primary = wire().refused_inside("NOREPLICAS Too few of us");
    assert!(
        !on_primary.voids(&[Renewed::Unknown, Renewed::NotHeld(fencelock_core::NotHeld::Absent)])
    );
}

#[test]
fn what_is_asked_in_another_order_is_answered_in_its_own() {
    let mut batch = renewals(2, 2);
    batch.rotate_left(3);
    // Another ttl is another group, and the longer one comes last.
    batch[1].ttl = Ttl::from_millis(3_000).expect("a ttl");
    let kept = format!("k17000000000000000000{}{:016}1{:08}", "9000", 0, 7);
    let said = format!("000400030002nr0004{:04}{kept}", kept.len());
    let answers = renewed(&batch, &said).expect("it is well formed").answer;
    assert_eq!(answers[0], Renewed::NotHeld(fencelock_core::NotHeld::Released));
    assert_eq!(answers[1], Renewed::extended(Duration::from_secs(3)));
    assert_eq!(answers[2], Renewed::extended(Duration::from_secs(1)));
    let Renewed::Extended { remaining, waiting: 7, revoked: true, .. } = answers[3] else {
        panic!("{:?}", answers[3]);
    };
    assert_eq!(remaining, Duration::from_secs(9));
}

#[test]
fn an_answer_to_other_renewals_is_none() {
    let batch = renewals(2, 1);
    for said in [
        "",
        "0002",
        "0004",
        // Nothing of the one that wants more.
        "0003",
        "000300010002na",
        // Twice, in a wrong order, of nobody, cut off.
        "000300030002na00030002na",
        "000300030002na00010002na",
        "000300000002na00030002na",
        "000300030002na00040002na",
        "000300030003na",
        "000300030002na0001",
        "00030003000",
        "000300030001n",
        "000300030000",
        "000300030002nz",
        "000300030002?a",
    ] {
        let error = renewed(&batch, said).expect_err(said);
        assert_eq!((error.kind(), error.outcome()), (StoreErrorKind::Protocol, Outcome::Unknown));
    }
    assert!(renewed(&batch, "000300030002na").is_ok());
}

#[test]
fn those_who_hold_a_name_together_are_read_and_nothing_less_is() {
    let (first, second) = ("a".repeat(32), "b".repeat(32));
    let end = 1_700_000_009_000_000_u64;
    let whole = format!(
        "{:016}h{first}{:08}0{:016}{:016}{end:016}{:08}5s{:08}{:010}{:010}00{:02}\
         {second}{end:016}{:016}2{:04}old",
        1_700_000_000_000_000_u64, 3, 7, 0, 0, 2, 3, 9, 1, 6, 3,
    );
    let value = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let seen = |text: &str| read(&wire(), answer(value(text)), inspect::decode);
    let Inspection::Held(holder) = seen(&whole).expect("well formed").answer else {
        panic!("it is held");
    };
    assert_eq!((holder.waiting, holder.revoked, holder.unattended), (3, true, false));
    assert_eq!(holder.remaining, Some(Duration::from_secs(9)));
    assert_eq!(holder.kind, fencelock_core::Kind::Semaphore);
    let sharing = holder.sharing.expect("it is shared");
    assert_eq!((sharing.holders, sharing.used, sharing.limit), (2, 3, Some(9)));
    let [other] = &sharing.others[..] else { panic!("{:?}", sharing.others) };
    assert_eq!(other.proof.as_ref().map(|proof| proof.reveal()), Some(second.as_bytes()));
    assert_eq!((other.unattended, other.metadata.as_bytes()), (true, &b"old"[..]));
    for length in 0..whole.len() {
        assert!(seen(&whole[..length]).is_err(), "{length} bytes are enough");
    }
    assert!(seen(&whole.replacen("5s", "5x", 1)).is_err(), "a kind that is not known");
    assert!(seen(&whole.replacen("5s", "9s", 1)).is_err(), "marks that are not known");
}
