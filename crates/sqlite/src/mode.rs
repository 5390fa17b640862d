//! The mode of a place, and what a crowd has besides its shares, as bytes of a column.
//!
//! ```text
//!   mode    one byte for the mode, then its numbers (4 bytes each, the greatest first) or its owner
//!   crowd   limit, 4 bytes, 0 for none; the length of the owner and the number of spent tokens, a
//!           byte each; the owner, with room for the longest; the spent tokens, 16 bytes each, with
//!           room for all of them: so a release writes over it in place, and needs no room
//! ```

use fencelock_core::{Crowd, Mode, Owner, Token};

/// A mode as its column holds it; alone, the mode of a mutex, is NULL.
pub(crate) fn mode_column(mode: &Mode) -> Option<Vec<u8>> {
    let numbers = |tag: u8, numbers: &[u32]| {
        let mut bytes = vec![tag];
        bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        bytes
    };
    match mode {
        Mode::Shared => Some(vec![SHARED]),
        Mode::Owned(owner) => Some([&[OWNED], owner.as_bytes()].concat()),
        Mode::Permits { permits, limit } => Some(numbers(PERMITS, &[*permits, *limit])),
        Mode::CountDown { count } => Some(numbers(COUNT_DOWN, &[*count])),
        Mode::Opening { count } => Some(numbers(OPENING, &[*count])),
        Mode::Meeting { parties } => Some(numbers(MEETING, &[*parties])),
        // The only one that is left.
        _ => None,
    }
}

/// Reads what [`mode_column`] wrote.
pub(crate) fn mode(column: Option<&[u8]>) -> Option<Mode> {
    let (&tag, rest) = column.unwrap_or(&[ALONE]).split_first()?;
    let number = |index: usize| {
        let bytes = rest.get(4 * index..4 * index + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    match tag {
        ALONE => Some(Mode::Exclusive),
        SHARED => Some(Mode::Shared),
        OWNED => Owner::new(rest).ok().map(Mode::Owned),
        PERMITS => Some(Mode::Permits { permits: number(0)?, limit: number(1)? }),
        COUNT_DOWN => Some(Mode::CountDown { count: number(0)? }),
        OPENING => Some(Mode::Opening { count: number(0)? }),
        MEETING => Some(Mode::Meeting { parties: number(0)? }),
        _ => None,
    }
}

const ALONE: u8 = 0;
const SHARED: u8 = 1;
const OWNED: u8 = 2;
const PERMITS: u8 = 3;
const COUNT_DOWN: u8 = 4;
const OPENING: u8 = 5;
const MEETING: u8 = 6;

/// What a crowd has besides its shares, as its column holds it.
pub(crate) fn crowd_column(crowd: &Crowd) -> Vec<u8> {
    let owner = crowd.owner.as_ref().map_or(&[][..], Owner::as_bytes);
    let mut bytes = crowd.limit.unwrap_or(0).to_be_bytes().to_vec();
    bytes.push(u8::try_from(owner.len()).unwrap_or(0));
    bytes.push(u8::try_from(crowd.spent.len()).unwrap_or(0));
    bytes.extend_from_slice(owner);
    bytes.resize(SPENT_FROM, 0);
    bytes.extend(crowd.spent.iter().flat_map(|token| *token.as_bytes()));
    bytes.resize(CROWD_BYTES, 0);
    bytes
}

/// Reads what [`crowd_column`] wrote: a crowd without shares.
pub(crate) fn crowd(column: &[u8]) -> Option<Crowd> {
    let column: &[u8; CROWD_BYTES] = column.try_into().ok()?;
    let (limit, rest) = column.split_first_chunk::<4>()?;
    let [owner_length, spent_length, ..] = *rest else { return None };
    let owner = column.get(6..SPENT_FROM)?.get(..usize::from(owner_length))?;
    let (spent, _) = column.get(SPENT_FROM..)?.as_chunks::<{ Token::BYTES }>();
    let spent = spent.get(..usize::from(spent_length))?;
    let limit = Some(u32::from_be_bytes(*limit)).filter(|&limit| limit > 0);
    let mut crowd = Crowd { limit, ..Crowd::default() };
    if !owner.is_empty() {
        crowd.owner = Some(Owner::new(owner).ok()?);
    }
    crowd.spent = spent.iter().map(|bytes| Token::from_bytes(*bytes)).collect();
    Some(crowd)
}

const SPENT_FROM: usize = 6 + Owner::MAX_BYTES;
const CROWD_BYTES: usize = SPENT_FROM + Crowd::MAX_SPENT * Token::BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_come_back() {
        let owner = |bytes: &[u8]| Owner::new(bytes).expect("a short owner");
        for all in [
            Mode::Exclusive,
            Mode::Shared,
            Mode::Owned(owner(b"\0\xff")),
            Mode::Permits { permits: 1, limit: u32::MAX },
            Mode::CountDown { count: 3 },
            Mode::Opening { count: 256 },
            Mode::Meeting { parties: 65_536 },
        ] {
            assert_eq!(mode(mode_column(&all).as_deref()), Some(all));
        }
        for wrong in [&[][..], &[99], &[OWNED], &[PERMITS, 0, 0, 0, 1], &[MEETING, 1]] {
            assert_eq!(mode(Some(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn crowds_come_back() {
        let mut full = Crowd { limit: Some(7), ..Crowd::default() };
        full.owner = Owner::new(b"job".to_vec()).ok();
        full.spent = (0..32).map(|number| Token::from_bytes([number; Token::BYTES])).collect();
        for all in [Crowd::default(), full] {
            assert_eq!(crowd(&crowd_column(&all)), Some(all));
        }
        let mut wrong = crowd_column(&Crowd::default());
        wrong[4] = 65;
        assert_eq!(crowd(&wrong), None);
        wrong[4] = 0;
        wrong[5] = 33;
        assert_eq!(crowd(&wrong), None);
        assert_eq!(crowd(&wrong[1..]), None);
    }
}
