//! From what came over the wire to plain values. Nothing here panics, and nothing that is odd
//! becomes an answer: "not ours" is only ever what a script said in so many words.

use std::{sync::Arc, time::Duration};

use fencelock_core::{
    Fence, FencingToken, Foreign, ForeignKind, Grant, Holder, Kind, LockName, Metadata, Names,
    NotHeld, Novelty, Owner, Proof, Sharing, StoreTime, Token,
};
use redis::Value;

/// What was answered makes no sense; says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Odd(pub(crate) &'static str);

/// The bytes of a string of any kind.
pub(crate) fn bytes(value: &Value) -> Result<&[u8], Odd> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.as_bytes()),
        Value::Okay => Ok(b"OK"),
        Value::Attribute { data, .. } => bytes(data),
        _ => Err(Odd("something that is not a string")),
    }
}

/// A whole number, in whichever form a server or something between writes it.
pub(crate) fn number(value: &Value) -> Result<i64, Odd> {
    const ODD: Odd = Odd("something that is not a whole number");
    match value {
        Value::Int(number) => Ok(*number),
        Value::Boolean(flag) => Ok(i64::from(*flag)),
        Value::Double(number) if number.fract() == 0.0 && number.abs() <= 9e15 => {
            // Within 2^53, where a float is a whole number and fits.
            #[allow(clippy::cast_possible_truncation)]
            Ok(*number as i64)
        }
        Value::Attribute { data, .. } => number(data),
        other => {
            let text = std::str::from_utf8(bytes(other).map_err(|_| ODD)?).map_err(|_| ODD)?;
            text.parse().map_err(|_| ODD)
        }
    }
}

/// The elements of a list.
pub(crate) fn list(value: &Value) -> Result<&[Value], Odd> {
    match value {
        Value::Array(elements) | Value::Set(elements) => Ok(elements),
        Value::Attribute { data, .. } => list(data),
        _ => Err(Odd("something that is not a list")),
    }
}

/// A time left in ms as the server says it: -1 for ever, -2 gone.
pub(crate) fn time_left(value: &Value) -> Result<Option<Duration>, Odd> {
    match number(value)? {
        -1 => Ok(None),
        -2 => Ok(Some(Duration::ZERO)),
        millis => u64::try_from(millis)
            .map(|millis| Some(Duration::from_millis(millis)))
            .map_err(|_| Odd("a negative time left")),
    }
}

/// The type of a value of another kind, by the server's word for it.
pub(crate) fn foreign_type(word: &[u8]) -> ForeignKind {
    match word {
        b"" => ForeignKind::Unreadable,
        word => ForeignKind::Type(Arc::from(String::from_utf8_lossy(word))),
    }
}

/// The word for the kind of a record, or the letter where it is none that is known.
fn kind_word(letter: &[u8]) -> Arc<str> {
    let known = match letter {
        [letter] => Kind::from_letter(char::from(*letter)),
        _ => None,
    };
    known.map_or_else(|| Arc::from(String::from_utf8_lossy(letter)), |kind| kind.as_str().into())
}

/// Reads the strings that the native scripts answer with, field by field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// The stamp that a lease counts from, and how long it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFields {
    stamp: u64,
    millis: u64,
}

impl LeaseFields {
    /// No lease runs.
    const NONE: Self = Self { stamp: 9_999_999_999_999_999, millis: 99_999_999 };

    /// What is left at an instant.
    pub(crate) fn remaining(self, at: StoreTime) -> Duration {
        let end = self.stamp.saturating_add(self.millis.saturating_mul(1_000));
        StoreTime::from_micros(end).saturating_since(at)
    }
}

impl<'a> Fields<'a> {
    /// The marks where nothing is known of any holder.
    const NOBODY: u8 = b'8';

    pub(crate) fn new(value: &'a Value) -> Result<Self, Odd> {
        Ok(Self { rest: bytes(value)? })
    }

    /// The fields of a message.
    pub(crate) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Odd> {
        let (field, rest) = self.rest.split_at_checked(length).ok_or(Odd("too short a string"))?;
        self.rest = rest;
        Ok(field)
    }

    pub(crate) fn letter(&mut self) -> Result<u8, Odd> {
        self.take(1).map(|field| field[0])
    }

    fn digits(&mut self, length: usize) -> Result<u64, Odd> {
        // At most 16 digits, so that this can't overflow.
        self.take(length)?.iter().try_fold(0, |number, &digit| match digit {
            b'0'..=b'9' => Ok(number * 10 + u64::from(digit - b'0')),
            _ => Err(Odd("something that is not a digit in a number")),
        })
    }

    pub(crate) fn time(&mut self) -> Result<StoreTime, Odd> {
        self.digits(FencingToken::DIGITS).map(StoreTime::from_micros)
    }

    pub(crate) fn fencing_token(&mut self) -> Result<Option<FencingToken>, Odd> {
        match self.digits(FencingToken::DIGITS)? {
            0 => Ok(None),
            number => FencingToken::new(number).map(Some).map_err(|_| Odd("too large a token")),
        }
    }

    /// A fencing token with the mark before it, whether it was written by the holder's token.
    pub(crate) fn fence(&mut self) -> Result<Fence, Odd> {
        let mark = self.letter()?;
        match (mark, self.fencing_token()?) {
            (b'0' | b'1', None) => Ok(Fence::None),
            (b'1', Some(token)) => Ok(Fence::Token(token)),
            (b'0', Some(token)) => Ok(Fence::Behind(token)),
            _ => Err(Odd("an unknown mark of a fencing token")),
        }
    }

    pub(crate) fn lease(&mut self) -> Result<LeaseFields, Odd> {
        Ok(LeaseFields { stamp: self.digits(16)?, millis: self.digits(8)? })
    }

    /// The name at an index that counts from 1.
    pub(crate) fn name<'n>(&mut self, names: &'n Names) -> Result<&'n LockName, Odd> {
        let index = usize::try_from(self.digits(4)?).ok().and_then(|index| index.checked_sub(1));
        index.and_then(|index| names.as_slice().get(index)).ok_or(Odd("a key that was not asked"))
    }

    pub(crate) fn metadata(self) -> Result<Metadata, Odd> {
        Metadata::new(self.rest).map_err(|_| Odd("too much metadata"))
    }

    /// A number of what the reply has several of.
    pub(crate) fn count(&mut self) -> Result<usize, Odd> {
        usize::try_from(self.digits(4)?).map_err(|_| Odd("too large a number"))
    }

    /// Whether everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A number of places.
    pub(crate) fn waiting(&mut self) -> Result<u32, Odd> {
        u32::try_from(self.digits(8)?).map_err(|_| Odd("too large a number of places"))
    }

    /// A ttl.
    pub(crate) fn millis(&mut self) -> Result<Duration, Odd> {
        self.digits(8).map(Duration::from_millis)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Odd> {
        match self.letter()? {
            b'0' => Ok(false),
            b'1' => Ok(true),
            _ => Err(Odd("an unknown flag")),
        }
    }

    /// A holder without proof: `who` in the scripts.
    pub(crate) fn holder(mut self, at: StoreTime) -> Result<Holder, Odd> {
        let waiting = self.waiting()?;
        let is_own = self.flag()?;
        let last_fence = self.fencing_token()?;
        let first_fence = self.fencing_token()?;
        let lease = self.lease()?;
        let mut holder = Holder::new(Some(lease.remaining(at)));
        let marks = self.letter()?;
        if !(b'0'..=b'8').contains(&marks) {
            return Err(Odd("unknown marks of a lease"));
        }
        holder.waiting = waiting;
        if lease == LeaseFields::NONE {
            holder.remaining = None;
        }
        if marks == Self::NOBODY {
            holder.remaining = None;
            return Ok(holder);
        }
        holder.fencing_token = first_fence.filter(|_| is_own).or(last_fence);
        holder.last_fence = last_fence;
        holder.revoked = marks & 1 != 0;
        holder.unattended = marks & 2 != 0;
        if marks & 4 != 0 {
            (holder.fencing_token, holder.last_fence) = (last_fence, None);
            self.sharing(&mut holder, at)?;
        }
        holder.metadata = self.metadata()?;
        Ok(holder)
    }

    /// How several hold a name: see `crowd.lua`.
    fn sharing(&mut self, holder: &mut Holder, at: StoreTime) -> Result<(), Odd> {
        let kind = Kind::from_letter(char::from(self.letter()?));
        holder.kind = kind.ok_or(Odd("an unknown kind of lock"))?;
        let mut sharing = Sharing::default();
        sharing.holders = self.waiting()?;
        sharing.used = self.amount()?;
        let limit = self.amount()?;
        sharing.limit = (holder.kind != Kind::Lock).then_some(limit);
        let length = self.length(2)?;
        if length > 0 {
            let owner = Owner::new(self.take(length)?);
            sharing.owner = Some(owner.map_err(|_| Odd("too long an owner"))?);
        }
        for _ in 0..self.length(2)? {
            let proof = Proof::new(self.take(Token::HEX_CHARACTERS)?);
            let end = self.time()?;
            let mut other = Holder::new(Some(end.saturating_since(at)));
            other.kind = holder.kind;
            other.proof = Some(proof);
            other.fencing_token = self.fencing_token()?;
            let marks = self.letter()?;
            (other.revoked, other.unattended) = (marks & 1 != 0, marks & 2 != 0);
            let length = self.count()?;
            other.metadata = Self::of(self.take(length)?).metadata()?;
            sharing.others.push(other);
        }
        holder.sharing = Some(sharing);
        Ok(())
    }

    /// A number of bytes or of parts.
    fn length(&mut self, digits: usize) -> Result<usize, Odd> {
        usize::try_from(self.digits(digits)?).map_err(|_| Odd("too large a number"))
    }

    /// A number of permits, steps or parties.
    pub(crate) fn amount(&mut self) -> Result<u32, Odd> {
        u32::try_from(self.digits(10)?).map_err(|_| Odd("too large a limit"))
    }

    pub(crate) fn repeated(mut self, at: StoreTime) -> Result<Grant, Odd> {
        let fence = self.fence()?;
        let last_fence = self.fencing_token()?.filter(|last| Some(*last) != fence.token());
        let waiting = self.waiting()?;
        let mut grant = Grant::new(fence, self.lease()?.remaining(at), Novelty::Repeated);
        grant.last_fence = last_fence;
        grant.waiting = waiting;
        Ok(grant)
    }

    pub(crate) fn foreign(mut self, names: &Names) -> Result<Foreign, Odd> {
        let name = self.name(names)?.clone();
        Ok(Foreign::new(name, self.foreign_kind()?))
    }

    pub(crate) fn foreign_kind(mut self) -> Result<ForeignKind, Odd> {
        let word = |rest: &[u8]| Arc::from(String::from_utf8_lossy(rest));
        match self.letter()? {
            b's' => Ok(ForeignKind::String),
            b't' => Ok(foreign_type(self.rest)),
            b'v' => Ok(ForeignKind::Version(word(self.rest))),
            b'k' => Ok(ForeignKind::Kind(kind_word(self.rest))),
            b'u' => Ok(ForeignKind::Unreadable),
            _ => Err(Odd("an unknown kind of value")),
        }
    }

    pub(crate) fn not_held(mut self) -> Result<NotHeld, Odd> {
        match self.letter()? {
            b'a' => Ok(NotHeld::Absent),
            b'r' => Ok(NotHeld::Released),
            b'x' => Ok(NotHeld::Expired),
            b't' => Ok(NotHeld::Taken),
            b'f' => Ok(NotHeld::Foreign(self.foreign_kind()?)),
            _ => Err(Odd("an unknown reason")),
        }
    }

    /// What is left, as text.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.rest).into_owned()
    }
}
