//! The native readers take any reply: an answer or a protocol error comes of it.

use fencelock_core::{AcquireRequest, LockName, Names, Renewed, Token, Ttl};
use fencelock_store::{Outcome, StoreErrorKind};
use proptest::prelude::*;
use redis::Value;

use super::*;
use crate::{
    connection::{Connections, Greeting},
    keys::KeyMapping,
    plain,
};

fn wire() -> Wire {
    let url = "redis://127.0.0.1:1/".parse().expect("a url");
    Wire::new(Connections::new(&url).expect("nothing is sent"), KeyMapping::Verbatim)
}

fn answer(value: Value) -> Answer {
    Answer { value, greeting: Greeting::default(), resent: false, by_text: false }
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
        let renewed = read_list(&wire, answer(value.clone()), 1, |letter, fields, at| {
            renew::decode(letter, fields, at, &mut None)
        });
        let results = [
            acquired.map(|reply| format!("{reply:?}")),
            released.map(|reply| format!("{reply:?}")),
            inspected.map(|reply| format!("{reply:?}")),
        ];
        for result in results {
            prop_assert!(a_string || result.is_err());
            if let Err(error) = result {
                prop_assert_eq!(error.kind(), StoreErrorKind::Protocol);
                prop_assert_eq!(error.outcome(), Outcome::Unknown);
            }
        }
        prop_assert!(!a_string || renewed.is_err());
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

#[test]
fn a_renewal_that_the_server_could_not_do_is_unknown() {
    let lines = ["1700000000000000", "eREADONLY You can't write", "na"];
    let list = lines.map(|line| Value::BulkString(line.as_bytes().to_vec()));
    let mut refused = None;
    let reply = read_list(&wire(), answer(Value::Array(list.to_vec())), 2, |letter, fields, at| {
        renew::decode(letter, fields, at, &mut refused)
    });
    let answers = reply.expect("it is well formed").answer;
    assert_eq!(answers[0], Renewed::Unknown);
    assert_eq!(answers[1], Renewed::NotHeld(fencelock_core::NotHeld::Absent));
    assert_eq!(refused.as_deref(), Some("READONLY You can't write"));
}
