//! The lines of a request's names, inside its transaction.
//!
//! Each call is a statement or two with an index; none loads a line. The row of a lock says how
//! many wait: while nobody does, nothing here asks SQLite anything. What SQLite fails at is kept
//! until the rule has ended, and then undoes the transaction: the rules know no such failures.
//!
//! Whoever is to be told is written down as [`Letter`]s, sent after the commit. Whether anybody
//! listens at all is looked at before, so that a dead waiter costs its successor nothing.

use fencelock_core::{Lines, ListenerId, LockName, Place, Token, Told, Wakeup};
use rusqlite::Result;

use crate::{
    mail::{Hearing, Letter, PassOn},
    place,
    row::Bound,
    transaction::Transaction,
};

/// How many places whose waiters are gone one step removes before the rules see a line as empty.
/// Looking at the processes of one takes about 10 us.
const MAX_GONE: u32 = 1_000;

/// The lines of a step.
pub(crate) struct FileLines<'t, 'c> {
    transaction: &'t Transaction<'c>,
    lines: Vec<Line<'t>>,
    gone: u32,
    failed: Option<rusqlite::Error>,
}

/// The line of one name.
struct Line<'t> {
    name: &'t LockName,
    waiting: u32,
    /// The first place, as it was seen last: what its lease will be bound to.
    head: Option<(Token, Option<Bound>)>,
    /// What the leases of all places will be bound to, where all were looked at.
    seen: Vec<(Token, Option<Bound>)>,
    /// The place that was looked for last; its number, if it is there, and how far from the head.
    found: Option<(Token, Option<(i64, u32)>)>,
    /// To whom leases were handed in this step, and what those are bound to.
    handed: Vec<(Token, Option<Bound>)>,
}

impl<'t, 'c> FileLines<'t, 'c> {
    /// The lines of some names, each with its length.
    pub(crate) fn new(
        transaction: &'t Transaction<'c>,
        names: impl Iterator<Item = (&'t LockName, u32)>,
    ) -> Self {
        let line = |(name, waiting)| Line {
            name,
            waiting,
            head: None,
            seen: Vec::new(),
            found: None,
            handed: Vec::new(),
        };
        Self { transaction, lines: names.map(line).collect(), gone: 0, failed: None }
    }

    /// What went wrong on the way.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// How many wait now.
    pub(crate) fn waiting(&self, index: usize) -> u32 {
        self.lines[index].waiting
    }

    /// What a lease is bound to that was handed to this token; nothing when none was.
    pub(crate) fn handed(&self, index: usize, to: Option<Token>) -> Option<Option<&Bound>> {
        let handed = self.lines[index].handed.iter();
        let mut to_it = handed.filter(|(token, _)| Some(*token) == to);
        to_it.next_back().map(|(_, bound)| bound.as_ref())
    }

    /// All of them.
    pub(crate) fn all_handed(&self, index: usize) -> &[(Token, Option<Bound>)] {
        &self.lines[index].handed
    }

    /// An answer, or that of an empty line from the first failure on.
    fn tried<T>(&mut self, otherwise: T, step: impl FnOnce(&mut Self) -> Result<T>) -> T {
        if self.failed.is_some() {
            return otherwise;
        }
        match step(self) {
            Ok(answer) => answer,
            Err(error) => {
                self.failed = Some(error);
                otherwise
            }
        }
    }

    fn look_first(&mut self, index: usize) -> Result<Option<Place>> {
        let line = &mut self.lines[index];
        while line.waiting > 0 {
            let Some(stored) = place::first(self.transaction, line.name)? else {
                // Somebody else has deleted the places.
                line.waiting = 0;
                break;
            };
            if let Some(place) = stored.place {
                line.head = Some((place.token, stored.bound));
                return Ok(Some(place));
            }
            if self.gone == MAX_GONE {
                break;
            }
            self.gone += 1;
            if let Some(listener) = stored.listener {
                // Its socket goes too, unless other waiters share it.
                let _ = self.transaction.folder.hearing(listener);
            }
            place::remove(self.transaction, stored.number)?;
            line.found = None;
            line.waiting -= 1;
        }
        Ok(None)
    }

    fn look_at_all(&mut self, index: usize) -> Result<Vec<Place>> {
        let line = &mut self.lines[index];
        let (mut all, mut seen) = (Vec::new(), Vec::new());
        for stored in place::all(self.transaction, line.name)? {
            if let Some(place) = stored.place {
                seen.push((place.token, stored.bound));
                all.push(place);
            }
        }
        line.seen = seen;
        Ok(all)
    }

    fn look_for(&mut self, index: usize, token: Token) -> Result<bool> {
        let line = &mut self.lines[index];
        line.found = Some((token, None));
        let Some(stored) = place::find(self.transaction, line.name, token)? else {
            return Ok(false);
        };
        let position = place::position(self.transaction, line.name, stored.number)?;
        line.found = Some((token, Some((stored.number, position))));
        // It asks: so it is not gone, whatever its row looks like from here.
        Ok(stored.place.is_some())
    }

    fn write(&mut self, index: usize, place: &Place) -> Result<u32> {
        let known = match self.lines[index].found.take() {
            Some((token, known)) if token == place.token => known,
            _ if self.lines[index].waiting == 0 => None,
            _ => {
                self.look_for(index, place.token)?;
                self.lines[index].found.take().and_then(|(_, known)| known)
            }
        };
        let line = &mut self.lines[index];
        if let Some((number, position)) = known {
            place::write(self.transaction, line.name, Some(number), place)?;
            return Ok(position);
        }
        if line.waiting == 0 {
            place::clear(self.transaction, line.name)?;
        }
        place::write(self.transaction, line.name, None, place)?;
        line.waiting = line.waiting.saturating_add(1);
        Ok(line.waiting)
    }
}

impl Lines for FileLines<'_, '_> {
    fn len(&mut self, index: usize) -> u32 {
        self.lines[index].waiting
    }

    fn first(&mut self, index: usize) -> Option<Place> {
        if self.lines[index].waiting == 0 {
            return None;
        }
        self.tried(None, |lines| lines.look_first(index))
    }

    fn all(&mut self, index: usize) -> Vec<Place> {
        if self.lines[index].waiting == 0 {
            return Vec::new();
        }
        self.tried(Vec::new(), |lines| lines.look_at_all(index))
    }

    fn has(&mut self, index: usize, token: Token) -> bool {
        if self.lines[index].waiting == 0 {
            return false;
        }
        self.tried(false, |lines| lines.look_for(index, token))
    }

    fn put(&mut self, index: usize, place: Place) -> u32 {
        self.tried(1, |lines| lines.write(index, &place))
    }

    fn remove(&mut self, index: usize, token: Token) -> bool {
        if self.lines[index].waiting == 0 {
            return false;
        }
        self.tried(false, |lines| {
            let line = &mut lines.lines[index];
            let was_there = place::remove_token(lines.transaction, line.name, token)?;
            line.found = None;
            line.waiting -= u32::from(was_there);
            Ok(was_there)
        })
    }

    fn offer(&mut self, index: usize, place: &Place, wakeup: Wakeup) -> Told {
        let line = &mut self.lines[index];
        if let Some(listener) = place.listener {
            match self.transaction.folder.hearing(listener) {
                Hearing::Nobody => return Told::Nobody,
                Hearing::Somebody(to) => {
                    let pass_on = PassOn::new(line.name, place.token, place.retain);
                    let letter = Letter::offer(wakeup, to, pass_on);
                    self.transaction.mail.borrow_mut().push(letter);
                }
                Hearing::Unsure => {}
            }
        }
        match line.seen.iter().find(|(token, _)| *token == place.token) {
            Some(seen) => line.handed.push(seen.clone()),
            None => line.handed.extend(line.head.clone().filter(|(t, _)| *t == place.token)),
        }
        // Without a listener its waiter asks often.
        Told::Perhaps
    }

    fn tell(&mut self, listener: ListenerId, wakeup: Wakeup) {
        if let Hearing::Somebody(to) = self.transaction.folder.hearing(listener) {
            self.transaction.mail.borrow_mut().push(Letter::news(wakeup, to));
        }
    }
}
