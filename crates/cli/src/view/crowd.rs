//! Those who hold one name together, as they are printed.
//!
//! A store tells of the one who came last, of some of the others, and of all together: how many there
//! are, until when the last lease runs, whether any was asked back and whether none is renewed. What
//! is only said of all is shown of one where it can mean nothing else.

use std::time::Duration;

use fencelock::{HolderView, Kind, SharingView};

use super::text::one;

/// One of those who hold a name.
pub(crate) struct Each<'a> {
    /// What the store says of it.
    pub(crate) view: &'a HolderView,
    /// What is left of its own lease, where the store tells that.
    pub(crate) left: Option<Duration>,
    /// Whether it was asked back.
    pub(crate) revoked: Option<bool>,
    /// Whether nobody renews its lease.
    pub(crate) unattended: Option<bool>,
}

/// All that a store told of, the one who came last first.
pub(crate) fn each(holder: &HolderView) -> Vec<Each<'_>> {
    let one = |view| Each {
        view,
        left: view.remaining,
        revoked: Some(view.revoked),
        unattended: Some(view.unattended),
    };
    let Some(sharing) = holder.sharing.as_deref().filter(|sharing| sharing.holders > 1) else {
        return vec![one(holder)];
    };
    let others = &sharing.others;
    let all_told = is_complete(sharing);
    let last = Each {
        view: holder,
        left: holder.remaining.filter(|&left| {
            all_told && others.iter().all(|other| other.remaining.is_some_and(|its| its < left))
        }),
        revoked: (!holder.revoked || all_told && others.iter().all(|other| !other.revoked))
            .then_some(holder.revoked),
        unattended: (holder.unattended || all_told && others.iter().all(|other| other.unattended))
            .then_some(holder.unattended),
    };
    std::iter::once(last).chain(others.iter().map(one)).collect()
}

/// How many hold the name.
pub(crate) fn count(holder: &HolderView) -> u32 {
    holder.sharing.as_ref().map_or(1, |sharing| sharing.holders)
}

/// Whether the grant with this hash holds the name; nothing where too many do for a store to tell.
pub(crate) fn has(holder: &HolderView, token_hash: &str) -> Option<bool> {
    if of(holder, token_hash).is_some() {
        return Some(true);
    }
    let complete = holder.sharing.as_deref().is_none_or(is_complete);
    complete.then_some(false)
}

/// Whether nobody renews the lease of one of them.
pub(crate) fn is_left(holder: &HolderView) -> bool {
    each(holder).iter().any(|each| each.unattended == Some(true))
}

/// The one with this hash.
pub(crate) fn of<'a>(holder: &'a HolderView, token_hash: &str) -> Option<Each<'a>> {
    each(holder).into_iter().find(|each| each.view.token_hash.as_deref() == Some(token_hash))
}

/// Who holds a lock, in a few words: of several how many, and the one who came last.
pub(crate) fn who(holder: &HolderView) -> String {
    let last = one(holder);
    let taken = taken(holder).map_or(String::new(), |taken| format!(" ({taken})"));
    match count(holder) {
        0 | 1 => format!("{last}{taken}"),
        several => format!("{several} holders{taken}, the last of them {last}"),
    }
}

/// How a lock is held by several, in a few words; nothing where it is held alone.
pub(crate) fn how(holder: &HolderView) -> Option<String> {
    let sharing = holder.sharing.as_deref()?;
    Some(match (holder.kind, &sharing.owner, taken(holder)) {
        (Kind::Lock, Some(owner), _) => {
            let owner = String::from_utf8_lossy(owner.as_bytes());
            format!("held {} times by owner {}", sharing.holders, crate::console::clean(&owner))
        }
        (Kind::Lock, None, _) => "shared".to_owned(),
        (kind, _, Some(taken)) => format!("{kind}, {taken}"),
        (kind, _, None) => kind.to_string(),
    })
}

/// How much of the limit is taken.
fn taken(holder: &HolderView) -> Option<String> {
    let sharing = holder.sharing.as_deref()?;
    let (used, limit) = (sharing.used, sharing.limit?);
    let what = match holder.kind {
        Kind::Latch => "steps",
        Kind::Barrier => "parties",
        _ => "permits",
    };
    Some(format!("{used} of {limit} {what}"))
}

fn is_complete(sharing: &SharingView) -> bool {
    usize::try_from(sharing.holders).is_ok_and(|holders| holders <= sharing.others.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(hash: &str, left: u64) -> HolderView {
        let mut view = HolderView::default();
        view.token_hash = Some(hash.to_owned());
        view.remaining = Some(Duration::from_secs(left));
        view
    }

    fn crowd(holders: u32, last: HolderView, others: Vec<HolderView>) -> HolderView {
        let mut sharing = SharingView::default();
        (sharing.holders, sharing.used, sharing.others) = (holders, holders, others);
        let mut crowd = last;
        crowd.sharing = Some(Box::new(sharing));
        crowd
    }

    #[test]
    fn what_is_said_of_all_is_told_of_the_last_only_where_it_is_certain() {
        let certain = crowd(2, view("b", 30), vec![view("a", 20)]);
        let seen = each(&certain);
        assert_eq!(seen[0].left, Some(Duration::from_secs(30)));
        assert_eq!((seen[0].revoked, seen[0].unattended), (Some(false), None));
        assert_eq!((seen[1].revoked, seen[1].unattended), (Some(false), Some(false)));

        let mut unclear = crowd(2, view("b", 30), vec![view("a", 30)]);
        unclear.revoked = true;
        unclear.sharing.as_mut().expect("a crowd").others[0].revoked = true;
        let seen = each(&unclear);
        assert_eq!((seen[0].left, seen[0].revoked), (None, None), "it may have less");
        assert_eq!(seen[1].left, Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_grant_that_is_not_told_of_may_be_one_of_the_rest() {
        let few = crowd(2, view("b", 1), vec![view("a", 1)]);
        assert_eq!(
            (has(&few, "a"), has(&few, "b"), has(&few, "c")),
            (Some(true), Some(true), Some(false))
        );
        let many = crowd(3, view("b", 1), vec![view("a", 1)]);
        assert_eq!((has(&many, "a"), has(&many, "c")), (Some(true), None));
        assert_eq!(has(&view("a", 1), "b"), Some(false));
    }

    #[test]
    fn of_several_it_is_said_how_many() {
        let mut one = view("a", 1);
        one.pid = Some(7);
        assert_eq!(who(&one), "process 7");
        let mut several = crowd(3, one.clone(), vec![]);
        assert_eq!(who(&several), "3 holders, the last of them process 7");
        assert_eq!(how(&several).as_deref(), Some("shared"));
        several.kind = Kind::Semaphore;
        several.sharing.as_mut().expect("a crowd").limit = Some(4);
        assert_eq!(who(&several), "3 holders (3 of 4 permits), the last of them process 7");
        assert_eq!(how(&several).as_deref(), Some("semaphore, 3 of 4 permits"));
        assert_eq!(how(&one), None);
    }
}
