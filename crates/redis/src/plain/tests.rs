//! Whatever the server says, the plain readers answer or refuse it; none panics.

use fencelock_core::{LockName, Names, NotHeld, Token, Ttl};
use redis::Value;

use super::*;
use crate::lettered::{busy, foreign, lettered};

fn renew_request() -> RenewRequest {
    let name = LockName::new("a").expect("a name");
    let ttl = Ttl::from_millis(1_000).expect("a ttl");
    RenewRequest::new(name, Token::from_bytes([7; 16]), ttl)
}

/// Nothing panics, whatever the reply; that is all which can be said of any reply here.
pub(crate) fn decode_everything(value: &Value) {
    let names = Names::one(LockName::new("a").expect("a name"));
    let _ = release::decode(value);
    let _ = renew::decode(&renew_request(), value, &mut None);
    if let Ok((_, rest)) = lettered(value) {
        let _ = busy(rest, &names);
        let _ = foreign(rest, &names);
    }
    if let Ok(list) = crate::reply::list(value) {
        let _ = inspect::seen(&formats::PLAIN, list);
    }
}

#[test]
fn numbers_in_every_form_are_times_and_reasons_are_reasons() {
    let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    for value in [Value::Int(900), Value::Double(900.0), bulk("900")] {
        let answer = renew::decode(&renew_request(), &value, &mut None);
        let remaining = std::time::Duration::from_millis(900);
        assert_eq!(answer, Ok(Renewed::extended(remaining)), "{value:?}");
    }
    for value in [Value::Double(0.5), Value::Int(-3), Value::Nil, bulk(""), bulk("z")] {
        let answer = renew::decode(&renew_request(), &value, &mut None);
        assert!(answer.is_err(), "{value:?}: {answer:?}");
    }
    let answer = renew::decode(&renew_request(), &bulk("a"), &mut None);
    assert_eq!(answer, Ok(Renewed::NotHeld(NotHeld::Absent)));
}
