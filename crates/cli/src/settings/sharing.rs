//! `shared`, `permits` and `limit`: one setting, how a lock is held, in three parts.

use super::{Key, Layer, Sourced, last, value};
use crate::failure::Failure;
use crate::hold::Manner;

/// What the three say together; nothing when the lock is held alone.
///
/// The first layer that has any of them decides whether it is shared or has permits; the two numbers
/// of permits may come from different places, as a limit that all agree on does.
pub(super) fn manner(layers: &[Layer]) -> Result<Option<Sourced<Manner>>, Failure> {
    let permits = last(layers, Key::Permits, value::permits)?;
    let limit = last(layers, Key::Limit, value::permits)?;
    let mut decided = None;
    for layer in layers {
        let shared = layer.read(Key::Shared, value::switch)?;
        let counted = layer.read(Key::Permits, value::permits)?;
        let counted = counted.or(layer.read(Key::Limit, value::permits)?);
        let own = match (shared, counted) {
            (Some(shared), Some(counted)) if shared.value => {
                let sentence = format!("can't be used together with {}", counted.origin);
                return Err(shared.origin.fail(&sentence));
            }
            (Some(shared), _) if shared.value => Some(Decision::Shared(shared)),
            (_, Some(counted)) => Some(Decision::Counted(counted)),
            (Some(_), None) => Some(Decision::Alone),
            (None, None) => None,
        };
        if let Some(own) = own {
            decided.get_or_insert(own);
        }
    }
    let counted = match decided {
        None | Some(Decision::Alone) => return Ok(None),
        Some(Decision::Shared(shared)) => {
            return Ok(Some(Sourced { value: Manner::Shared, origin: shared.origin }));
        }
        Some(Decision::Counted(counted)) => counted,
    };
    let Some(limit) = limit else {
        return Err(counted.origin.fail(
            "needs --limit N, how many permits there are for all together: everybody who uses the \
             lock says the same number",
        ));
    };
    if let Some(permits) = permits.as_ref().filter(|permits| permits.value > limit.value) {
        let (asked, most) = (permits.value, limit.value);
        let sentence = format!("is at most the limit: there are no {asked} permits of {most}");
        return Err(permits.origin.fail(&sentence));
    }
    let permits = permits.map_or(1, |permits| permits.value);
    let value = Manner::Permits { permits, limit: limit.value };
    Ok(Some(Sourced { value, origin: limit.origin }))
}

enum Decision {
    Alone,
    Shared(Sourced<bool>),
    Counted(Sourced<u32>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;

    fn layer(settings: &[(Key, &str)], origin: fn(Key) -> Origin) -> Layer {
        let mut layer = Layer::default();
        for (key, text) in settings {
            layer.set(origin(*key), *key, Some((*text).to_owned()));
        }
        layer
    }

    fn read(flags: &[(Key, &str)], variables: &[(Key, &str)]) -> Result<Option<Manner>, Failure> {
        let layers = [layer(flags, Origin::Flag), layer(variables, Origin::Variable)];
        manner(&layers).map(|manner| manner.map(|manner| manner.value))
    }

    #[test]
    fn the_first_place_that_says_anything_decides_how_a_lock_is_held() {
        use Key::{Limit, Permits, Shared};
        let permits = |permits, limit| Some(Manner::Permits { permits, limit });
        for (flags, variables, expected) in [
            (&[][..], &[][..], None),
            (&[(Shared, "true")], &[], Some(Manner::Shared)),
            (&[(Shared, "true")], &[(Limit, "4")], Some(Manner::Shared)),
            (&[(Limit, "4")], &[(Shared, "true")], permits(1, 4)),
            (&[(Permits, "3")], &[(Limit, "4")], permits(3, 4)),
            (&[(Limit, "5")], &[(Permits, "5"), (Limit, "6")], permits(5, 5)),
            (&[(Shared, "false")], &[(Shared, "true")], None),
            (&[(Shared, "false"), (Limit, "2")], &[], permits(1, 2)),
            (&[(Permits, "1000000"), (Limit, "1000000")], &[], permits(1_000_000, 1_000_000)),
        ] {
            assert_eq!(read(flags, variables), Ok(expected), "{flags:?} {variables:?}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_where_it_stands() {
        use Key::{Limit, Permits, Shared};
        for (flags, variables, code, word) in [
            (&[(Permits, "1")][..], &[][..], 64, "--permits needs --limit"),
            (&[], &[(Permits, "1")], 78, "FENCELOCK_PERMITS needs --limit"),
            (&[(Permits, "5"), (Limit, "4")], &[], 64, "no 5 permits of 4"),
            (&[(Permits, "5")], &[(Limit, "4")], 64, "--permits is at most"),
            (&[(Limit, "4")], &[(Permits, "5")], 78, "FENCELOCK_PERMITS is at most"),
            (
                &[(Shared, "true"), (Limit, "4")],
                &[],
                64,
                "--shared can't be used together with --limit",
            ),
            (&[(Shared, "true"), (Permits, "4")], &[], 64, "together with --permits"),
            (&[(Limit, "0")], &[], 64, "1 to 1000000"),
            (&[(Limit, "1000001")], &[], 64, "1 to 1000000"),
            (&[(Limit, "-1")], &[], 64, "1 to 1000000"),
            (&[(Shared, "true")], &[(Limit, "x")], 78, "FENCELOCK_LIMIT"),
        ] {
            let failure = read(flags, variables).expect_err(word);
            assert_eq!(failure.code(), code, "{failure}");
            assert!(failure.to_string().contains(word), "{failure}");
        }
    }
}
