//! What a refusal of a server in a cluster means for where the request goes next.

use fencelock_store::StoreErrorKind;

use super::map::{Address, address};
use crate::error::Failure;

/// Where to ask next, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another server serves the slot now.
    Moved(u16, Address),
    /// The slot is on the way to another server, and the key, should there be one, is there.
    Ask(Address),
    /// The same server, after a pause: the keys of a set are on both sides, or it is loading.
    Pause,
    /// Nobody is known to serve the slot there: another view of the cluster is needed first.
    Lost,
}

impl Redirect {
    /// Reads a failure; nothing for one that another server would not mend. All that are read here
    /// from the words of a server were refused before anything was done.
    pub(super) fn of(failure: &Failure, asked: &str) -> Option<Self> {
        let mut words = failure.cause.split(' ');
        let code = words.next().unwrap_or_default();
        let slot = words.next().and_then(|word| word.parse().ok());
        let to = words.next().and_then(|word| {
            let (host, port) = word.trim_end().rsplit_once(':')?;
            Some(address(host, port.parse().ok()?, asked))
        });
        match code {
            "MOVED" => slot.zip(to).map(|(slot, to)| Self::Moved(slot, to)),
            "ASK" => to.map(Self::Ask),
            "TRYAGAIN" | "LOADING" => Some(Self::Pause),
            "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" => Some(Self::Lost),
            // It serves, but not us, or not now: another view of the cluster does not help.
            "BUSY" | "NOREPLICAS" | "MISCONF" | "ERR" => None,
            _ => (failure.kind == StoreErrorKind::Unavailable).then_some(Self::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{from_server, unreachable};

    fn read(code: &str, text: &str) -> Option<Redirect> {
        Redirect::of(&from_server(code, text, "redis://h:1/0"), "h:1")
    }

    #[test]
    fn each_refusal_says_where_to_ask_next() {
        let at = |text: &str| Address::from(text);
        assert_eq!(
            read("MOVED", "3999 127.0.0.1:6381"),
            Some(Redirect::Moved(3_999, at("127.0.0.1:6381")))
        );
        assert_eq!(read("MOVED", "1 :6381"), Some(Redirect::Moved(1, at("h:6381"))));
        assert_eq!(read("MOVED", "1 ::1:6381"), Some(Redirect::Moved(1, at("::1:6381"))));
        assert_eq!(read("ASK", "3999 a.b:7"), Some(Redirect::Ask(at("a.b:7"))));
        assert_eq!(read("MOVED", "nonsense"), None);
        for code in ["TRYAGAIN", "LOADING"] {
            assert_eq!(read(code, "x"), Some(Redirect::Pause), "{code}");
        }
        for code in ["CLUSTERDOWN", "MASTERDOWN", "READONLY"] {
            assert_eq!(read(code, "x"), Some(Redirect::Lost), "{code}");
        }
        for code in ["BUSY", "NOREPLICAS", "MISCONF", "OOM", "NOPERM", "WRONGPASS"] {
            assert_eq!(read(code, "x"), None, "{code}");
        }
        let failure = unreachable("redis://h:1/0", "Connection refused (os error 111)");
        assert_eq!(Redirect::of(&failure, "h:1"), Some(Redirect::Lost));
    }
}
