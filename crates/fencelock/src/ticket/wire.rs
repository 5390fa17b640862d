//! A ticket in files and messages, by serde (feature `serde`).
//!
//! Formats for people get a map; others get the text of [`Ticket::to_text`]:
//! ```text
//! {"version":1,"names":["invoice:42"],"token":"<32 hexadecimal digits>","ttl_ms":30000,"fencing_token":1764558000000000}
//! ```
//! `names_hex` has the names that are not UTF-8, and `fencing_token` is left out where there is none.
//! Another version, and any field that is not known, is refused: what it says may be what matters.
//! Neither form hides anything: the token is the secret itself.

use fencelock_core::{FencingToken, LockName, Names, Ttl};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Ticket, hex, unhex};

/// The layout that is written.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Ticket")]
struct Map {
    #[serde(deserialize_with = "version")]
    version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names_hex: Vec<String>,
    token: String,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
}

impl Serialize for Ticket {
    /// With the secret: whoever reads it can renew, adopt and release the lock.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_str(&self.to_text());
        }
        let (mut names, mut names_hex) = (Vec::new(), Vec::new());
        for name in &self.names {
            match str::from_utf8(name.as_bytes()) {
                Ok(text) => names.push(text.to_owned()),
                Err(_) => names_hex.push(hex(name)),
            }
        }
        let map = Map {
            version: VERSION,
            names,
            names_hex,
            token: self.token.reveal(),
            ttl_ms: self.ttl.as_millis().into(),
            fencing_token: self.fencing_token.map(FencingToken::as_u64),
        };
        map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            read(Map::deserialize(deserializer)?).map_err(de::Error::custom)
        } else {
            String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
        }
    }
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        VERSION => Ok(VERSION),
        other => {
            let what = format!("a ticket of version {other}; this library reads version {VERSION}");
            Err(de::Error::custom(what))
        }
    }
}

/// What is wrong is told without what was read, which may be the secret.
fn read(map: Map) -> Result<Ticket, String> {
    let mut names = Vec::new();
    for text in map.names {
        names.push(LockName::new(text).map_err(|error| format!("a name: {error}"))?);
    }
    for text in &map.names_hex {
        names.push(unhex(text).ok_or("a name in `names_hex` that is none")?);
    }
    let names = Names::new(names).map_err(|error| format!("the names: {error}"))?;
    let token = map.token.parse().map_err(|_| "`token` is not 32 hexadecimal digits")?;
    let ttl = Ttl::from_millis(map.ttl_ms).map_err(|error| format!("`ttl_ms`: {error}"))?;
    let fencing_token = map.fencing_token.map(FencingToken::new).transpose();
    let fencing_token = fencing_token.map_err(|error| format!("`fencing_token`: {error}"))?;
    Ok(Ticket::new(names, token, ttl, fencing_token))
}

#[cfg(test)]
mod tests {
    use fencelock_core::Token;
    use proptest::prelude::*;

    use super::*;

    const WRITTEN: &str = r#"{"version":1,"names":["invoice:42"],"token":"000102030405060708090a0b0c0d0e0f","ttl_ms":30000,"fencing_token":7}"#;

    fn ticket() -> Ticket {
        let token: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).expect("small"));
        Ticket::new(
            Names::one(LockName::new("invoice:42").expect("a name")),
            Token::from_bytes(token),
            Ttl::from_millis(30_000).expect("a ttl"),
            Some(FencingToken::new(7).expect("a fencing token")),
        )
    }

    #[test]
    fn what_version_1_wrote_is_read_for_ever() {
        assert_eq!(serde_json::to_string(&ticket()).expect("it is written"), WRITTEN);
        assert_eq!(serde_json::from_str::<Ticket>(WRITTEN).expect("it is read"), ticket());
    }

    #[test]
    fn another_version_is_refused_and_says_which() {
        let later = WRITTEN.replace("\"version\":1", "\"version\":2");
        let error = serde_json::from_str::<Ticket>(&later).expect_err("it is unknown").to_string();
        assert!(error.contains("version 2") && error.contains("version 1"), "{error}");
        for wrong in ["\"version\":0", "\"version\":\"1\"", "\"version\":-1", "\"release\":1"] {
            let wrong = WRITTEN.replace("\"version\":1", wrong);
            assert!(serde_json::from_str::<Ticket>(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused_and_the_secret_is_not_told() {
        let secret = "000102030405060708090a0b0c0d0e0f";
        let cases = [
            (secret, "000102030405060708090a0b0c0d0e0"),
            (secret, "000102030405060708090a0b0c0d0e0f00"),
            ("invoice:42", ""),
            ("\"names\":[\"invoice:42\"]", "\"names\":[]"),
            ("\"names\":[\"invoice:42\"]", "\"names_hex\":[\"0g\"]"),
            ("30000", "0"),
            ("30000", "86400001"),
            ("\"fencing_token\":7", "\"fencing_token\":0"),
            ("\"fencing_token\":7", "\"fencing_token\":7,\"more\":1"),
        ];
        for (right, wrong) in cases {
            let text = WRITTEN.replacen(right, wrong, 1);
            let error = serde_json::from_str::<Ticket>(&text).expect_err(&text).to_string();
            assert!(!error.contains("00010203"), "{error}");
        }
    }

    #[test]
    fn a_format_that_is_not_for_people_has_the_text() {
        let bytes = postcard::to_allocvec(&ticket()).expect("it is written");
        assert!(bytes.ends_with(ticket().to_text().as_bytes()));
        assert_eq!(postcard::from_bytes::<Ticket>(&bytes).expect("it is read"), ticket());
        let later = ticket().to_text().replace("ticket-1", "ticket-2");
        let bytes = postcard::to_allocvec(&later).expect("it is written");
        assert!(postcard::from_bytes::<Ticket>(&bytes).is_err(), "another version");
    }

    proptest! {
        #[test]
        fn it_reads_back_from_json_toml_and_bytes(
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 1..4),
            token: [u8; 16],
            ttl in 10u64..86_400_000,
            fencing in prop::option::of(1u64..1 << 53),
        ) {
            let names = Names::new(names.into_iter().map(|n| LockName::new(n).expect("a name")));
            let ticket = Ticket::new(
                names.expect("names"),
                Token::from_bytes(token),
                Ttl::from_millis(ttl).expect("a ttl"),
                fencing.map(|number| FencingToken::new(number).expect("a fencing token")),
            );
            let json = serde_json::to_string(&ticket).expect("it is written");
            prop_assert_eq!(&serde_json::from_str::<Ticket>(&json).expect("it is read"), &ticket);
            let toml = toml::to_string(&ticket).expect("it is written");
            prop_assert_eq!(&toml::from_str::<Ticket>(&toml).expect("it is read"), &ticket);
            let bytes = postcard::to_allocvec(&ticket).expect("it is written");
            prop_assert_eq!(&postcard::from_bytes::<Ticket>(&bytes).expect("it is read"), &ticket);
        }
    }
}
