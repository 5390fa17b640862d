//! Which store a url means.

use crate::Error;

/// A url by its scheme; what follows is the store's to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address<'a> {
    /// The whole url.
    Redis(&'a str),
    /// The path of the file.
    Sqlite(&'a str),
    Memory,
}

const SCHEMES: &str = "redis://host:port/db, rediss://host:port/db, \
     redis+sentinel://host,host/service, redis+cluster://host,host/, redis+unix:///path, \
     sqlite:path, memory:";

impl<'a> Address<'a> {
    pub(crate) fn parse(url: &'a str) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once(':') else {
            // The text is not repeated: it may be a password that landed in the wrong place.
            return Err(Error::config(format!("a store is one of {SCHEMES}: there is no scheme")));
        };
        match scheme.to_ascii_lowercase().as_str() {
            // Also what it does not speak yet: it says so itself.
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster" | "redis+unix" | "unix" => Ok(Self::Redis(url)),
            "sqlite" => {
                // Only three slashes are an absolute path; two would make the first folder a host.
                let path = match rest.strip_prefix("//") {
                    Some(path) if path.starts_with('/') => path,
                    Some(_) => {
                        let what = "a sqlite url is sqlite:path or sqlite:///absolute/path";
                        return Err(Error::config(what));
                    }
                    None => rest,
                };
                match path {
                    "" => Err(Error::config("a sqlite url names a file: sqlite:path")),
                    path => Ok(Self::Sqlite(path)),
                }
            }
            "memory" if rest.is_empty() || rest == "//" => Ok(Self::Memory),
            "memory" => Err(Error::config("memory: takes nothing behind the colon")),
            _ => {
                let scheme = crate::display_safe(&scheme.chars().take(20).collect::<String>());
                Err(Error::config(format!(
                    "a store is one of {SCHEMES}; {scheme}: is none of them"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_is_known_in_any_case() {
        assert_eq!(Address::parse("memory:").ok(), Some(Address::Memory));
        assert_eq!(Address::parse("sqlite:a.db").ok(), Some(Address::Sqlite("a.db")));
        assert_eq!(Address::parse("sqlite:///a/b").ok(), Some(Address::Sqlite("/a/b")));
        assert_eq!(Address::parse("sqlite:/a/b").ok(), Some(Address::Sqlite("/a/b")));
        for url in ["redis://h/", "REDIS://h", "redis+unix:///s", "unix:///s", "redis+cluster://h"]
        {
            assert_eq!(Address::parse(url).ok(), Some(Address::Redis(url)));
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_list_and_without_the_text() {
        for url in ["", "localhost", "reddis://:secret@h", "sqlite:", "sqlite://a/b", "memory:x"] {
            let error = Address::parse(url).expect_err("it is not a store");
            assert!(error.is_config(), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let error = Address::parse("etcd://h").expect_err("it is not a store").to_string();
        assert!(error.contains("sqlite:") && error.contains("redis:") && error.contains("etcd:"));
    }
}
