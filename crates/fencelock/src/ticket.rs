//! What is left of a guard that let go of its lease: enough to take it over, renew or release it.

#[cfg(feature = "serde")]
mod wire;

use std::{fmt, str::FromStr};

use fencelock_core::{FencingToken, LockName, Names, Token, Ttl};

use crate::Error;

/// A lease without a guard. It contains the secret: whoever has it can release the lock.
///
/// `Debug` shows four characters of the secret; [`Ticket::to_text`] all.
///
/// With the feature `serde` it can be written to files and messages, the secret included: as a map with
/// a version, in formats for people (`{"version":1,"names":["invoice:42"],"token":..}`), as its text in
/// others. What another version wrote, or has unknown fields, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    names: Names,
    token: Token,
    ttl: Ttl,
    fencing_token: Option<FencingToken>,
}

impl Ticket {
    pub(crate) fn new(
        names: Names,
        token: Token,
        ttl: Ttl,
        fencing_token: Option<FencingToken>,
    ) -> Self {
        Self { names, token, ttl, fencing_token }
    }

    /// The names of the lock.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The secret that proves the hold.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// How long the lease ran when the ticket was made.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// The fencing token of the grant that the ticket stands for.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// The ticket as one line of ASCII, the secret included. [`FromStr`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names: Vec<String> = self.names.iter().map(hex).collect();
        let fencing_token = self.fencing_token.map_or(0, FencingToken::as_u64);
        let ttl = self.ttl.as_millis();
        format!("{PREFIX}:{}:{}:{ttl}:{fencing_token}", names.join(","), self.token.reveal())
    }
}

/// What a ticket of this layout begins with.
const PREFIX: &str = "fencelock-ticket-1";

fn hex(name: &LockName) -> String {
    name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<LockName> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect();
    LockName::new(bytes?).ok()
}

impl FromStr for Ticket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The text itself is not shown: it may be most of a secret.
        parse(text.trim()).ok_or_else(|| Error::config("this is not a ticket of fencelock"))
    }
}

fn parse(text: &str) -> Option<Ticket> {
    let mut fields = text.split(':');
    if fields.next()? != PREFIX {
        return None;
    }
    let names: Option<Vec<LockName>> = fields.next()?.split(',').map(unhex).collect();
    let names = Names::new(names?).ok()?;
    let token = fields.next()?.parse().ok()?;
    let ttl = Ttl::from_millis(fields.next()?.parse().ok()?).ok()?;
    let fencing_token = match fields.next()?.parse().ok()? {
        0 => None,
        number => Some(FencingToken::new(number).ok()?),
    };
    fields.next().is_none().then_some(Ticket { names, token, ttl, fencing_token })
}

impl fmt::Display for Ticket {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket for {} ({})", self.names, self.token)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_reads_back_and_the_rest_hides_the_secret(
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
            let read: Ticket = ticket.to_text().parse().expect("it reads back");
            prop_assert_eq!(&read, &ticket);
            let shown = format!("{ticket} {ticket:?}");
            prop_assert!(!shown.contains(&ticket.token().reveal()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _read = text.parse::<Ticket>();
        }
    }
}
