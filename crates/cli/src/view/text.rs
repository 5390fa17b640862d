//! Locks as people read them.

use std::time::SystemTime;

use fencelock::{HolderView, LockName};
use unicode_width::UnicodeWidthStr as _;

use super::crowd;
use super::record::rfc3339;
use crate::console::clean;
use crate::span;

/// Everything about one lock that is held, a line for each part.
pub(crate) fn show(name: &LockName, holder: &HolderView, dialect: &str, store: &str) -> String {
    let mut lines = vec![("lock", name.to_string())];
    let is_alone = holder.sharing.is_none();
    if is_alone {
        lines.push(("holder", one(holder)));
        lines.extend(holder.since.map(|since| ("since", ago(since))));
    } else {
        lines.extend(crowd::how(holder).map(|how| ("held as", how)));
        lines.extend(together(holder));
    }
    let renewed = if holder.unattended { ", not renewed" } else { "" };
    lines.push(("lease left", format!("{}{renewed}", left(holder))));
    if holder.revoked {
        let whose = if is_alone { "its holder is" } else { "its holders are" };
        lines.push(("revoked", format!("{whose} asked to give it back")));
    }
    if holder.waiting > 0 {
        lines.push(("waiting", holder.waiting.to_string()));
    }
    // The number of one of several is no right to write.
    match (holder.fencing_token, holder.number) {
        (Some(token), _) => lines.push(("fencing token", token.as_u64().to_string())),
        (None, Some(number)) => lines.push(("last number", number.to_string())),
        (None, None) => {}
    }
    if let (true, Some(hash)) = (is_alone, &holder.token_hash) {
        lines.push(("token hash", hash.clone()));
    }
    for (key, value) in holder.metadata.iter().filter(|_| is_alone) {
        lines.push(("meta", format!("{}={}", clean(key), clean(value))));
    }
    lines.push(("dialect", dialect.to_owned()));
    lines.push(("store", store.to_owned()));
    lines.iter().map(|(title, value)| format!("{title:<14} {value}\n")).collect()
}

/// A line for each of those who hold it together.
fn together(holder: &HolderView) -> Vec<(&'static str, String)> {
    let seen = crowd::each(holder);
    let mut lines: Vec<(&'static str, String)> = seen
        .iter()
        .map(|each| {
            let view = each.view;
            let permits = view.permits.map(|permits| match permits {
                1 => "1 permit".to_owned(),
                several => format!("{several} permits"),
            });
            let since = view.since.map(|since| format!("since {}", ago(since)));
            let left = each.left.map(|left| format!("{} left", span::show(left)));
            let unattended = each.unattended.filter(|&it| it).map(|_| "not renewed".to_owned());
            let revoked = each.revoked.filter(|&it| it).map(|_| "revoked".to_owned());
            let meta = view
                .metadata
                .iter()
                .map(|(key, value)| Some(format!("{}={}", clean(key), clean(value))));
            let parts = [Some(one(view)), permits, since, left, unattended, revoked];
            let parts: Vec<String> = parts.into_iter().chain(meta).flatten().collect();
            ("holder", parts.join(", "))
        })
        .collect();
    let untold = usize::try_from(crowd::count(holder)).unwrap_or(0).saturating_sub(seen.len());
    if untold > 0 {
        lines.push(("holder", format!("and {untold} more")));
    }
    lines
}

fn ago(since: SystemTime) -> String {
    let age = since.elapsed().map(|age| format!(" ({} ago)", span::show(age)));
    format!("{}{}", rfc3339(since), age.unwrap_or_default())
}

/// A line for each lock, in columns.
pub(crate) fn list(locks: &[(LockName, HolderView)]) -> String {
    let rows: Vec<[String; 4]> = locks
        .iter()
        .map(|(name, holder)| {
            let fencing =
                holder.fencing_token.map_or("-".to_owned(), |token| token.as_u64().to_string());
            [
                name.to_string(),
                left(holder),
                fencing,
                format!("{}{}", crowd::who(holder), notes(holder)),
            ]
        })
        .collect();
    let mut widths = [0; 4];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            if column + 1 == row.len() {
                text.push_str(cell);
            } else {
                let rest = widths[column].saturating_sub(cell.width());
                text.push_str(&format!("{cell}{:rest$}  ", ""));
            }
        }
        text.push('\n');
    }
    text
}

/// One holder in a few words.
pub(super) fn one(holder: &HolderView) -> String {
    let process = holder.pid.map(|pid| format!("process {pid}"));
    let host = holder.host.as_ref().map(|host| format!("on {}", clean(host)));
    let label = holder.label.as_ref().map(|label| format!("({})", clean(label)));
    let known: Vec<String> = [process, host, label].into_iter().flatten().collect();
    if known.is_empty() {
        "an unknown holder (it says nothing of itself)".to_owned()
    } else {
        known.join(" ")
    }
}

/// What is special about a hold, behind everything else.
fn notes(holder: &HolderView) -> String {
    let waiting = (holder.waiting > 0).then(|| format!("{} waiting", holder.waiting));
    let revoked = holder.revoked.then(|| "revoked".to_owned());
    let unattended = holder.unattended.then(|| "not renewed".to_owned());
    let notes: Vec<String> =
        [crowd::how(holder), unattended, revoked, waiting].into_iter().flatten().collect();
    if notes.is_empty() { String::new() } else { format!("  [{}]", notes.join(", ")) }
}

fn left(holder: &HolderView) -> String {
    holder.remaining.map_or("never ends".to_owned(), span::show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_cannot_write_to_the_terminal() {
        let mut holder = HolderView::default();
        holder.host = Some("h\u{1b}[2J".to_owned());
        holder.label = Some("l\n\rlock  other".to_owned());
        holder.metadata.insert("k\u{9b}".to_owned(), "v\u{202e}".to_owned());
        let text = show(&LockName::new("a\nb").expect("a name"), &holder, "native", "memory:");
        assert!(
            text.chars().all(|character| character == '\n' || !character.is_control()),
            "{text}"
        );
        assert_eq!(text.lines().count(), 6, "{text}");
    }

    #[test]
    fn columns_stand_below_each_other_also_behind_wide_letters() {
        let names = ["a", "日本", "🔒 lock"].map(|name| LockName::new(name).expect("a name"));
        let rows = names.map(|name| (name, HolderView::default()));
        let text = list(&rows);
        let starts: Vec<usize> = text
            .lines()
            .map(|line| line[..line.find("never").expect("a column")].width())
            .collect();
        assert_eq!(starts, [9, 9, 9], "{text}");
    }

    #[test]
    fn what_is_special_about_a_hold_is_shown() {
        let name = LockName::new("job").expect("a name");
        let mut holder = HolderView::default();
        let plain = list(&[(name.clone(), holder.clone())]);
        assert!(!plain.contains('['), "{plain}");
        (holder.waiting, holder.revoked, holder.unattended) = (3, true, true);
        let line = list(&[(name.clone(), holder.clone())]);
        assert!(line.ends_with("  [not renewed, revoked, 3 waiting]\n"), "{line}");
        let text = show(&name, &holder, "native", "memory:");
        for part in ["never ends, not renewed\n", "revoked   ", "waiting        3\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
