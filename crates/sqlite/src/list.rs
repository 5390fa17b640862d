//! Listing held names, a page at a time, in the order of the names.
//!
//! The cursor is the last name that was looked at. A page looks at a limited number of rows, so
//! that a file full of free names does not make one page long.

use fencelock_core::{Cursor, InspectRequest, Inspection, ListRequest, LockName, Page, Rules};
use rusqlite::{Result, params};

use crate::{
    row::{NAME, Slot, columns},
    transaction::Transaction,
};

/// How many rows one page looks at: a few milliseconds.
const MAX_LOOKS: usize = 10_000;

const SELECT: &str =
    concat!("SELECT ", columns!(), ", name FROM lock WHERE name > ?1 AND name >= ?2 ORDER BY name");

impl Transaction<'_> {
    /// The next page.
    pub(crate) fn list(&self, rules: Rules, request: &ListRequest) -> Result<Page> {
        let limit = request.limit.clamp(1, ListRequest::MAX_LIMIT);
        // Every name is after the empty one.
        let mut last: Vec<u8> =
            request.cursor.as_ref().map(|cursor| cursor.as_bytes().to_vec()).unwrap_or_default();
        let mut locks = Vec::new();
        let mut select = self.sql.prepare_cached(SELECT)?;
        let mut rows = select.query(params![last, request.prefix])?;
        let mut looks = 0;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(NAME)?.as_blob()?;
            if !name.starts_with(&request.prefix) {
                break;
            }
            if looks == MAX_LOOKS {
                return Ok(Page::new(locks, Some(Cursor::new(last))));
            }
            looks += 1;
            if let Ok(lock) = LockName::new(name) {
                let slot = self.complete(&lock, Slot::of(row, self.here, self.now))?;
                let seen = self.inspection(rules, &InspectRequest::new(lock.clone()), &slot);
                if !matches!(seen, Inspection::Free { .. }) {
                    if locks.len() == limit {
                        return Ok(Page::new(locks, Some(Cursor::new(last))));
                    }
                    locks.push((lock, seen));
                }
            }
            last.clear();
            last.extend_from_slice(name);
        }
        Ok(Page::new(locks, None))
    }
}
