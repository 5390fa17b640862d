//! What must not have been, by the rule that it broke.

/// What holds for all primitives of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Nobody is beside a writer, and no other way of holding beside an owner.
    Alone,
    /// Two owners are not beside each other.
    Owners,
    /// Holds of one owner have one number.
    OneWriter,
    /// Permits are at most the limit.
    Permits,
    /// Who asks after a grant gets a larger number.
    Numbers,
    /// A latch opens after its last step at the earliest.
    Latch,
    /// Nobody passes a barrier before all parties came.
    Barrier,
    /// What is valid is held.
    Validity,
    /// Everybody is granted what it waits for.
    Liveness,
    /// Nothing fails in a way that nothing explains.
    Failures,
}

/// One that was broken.
#[derive(Clone, Debug)]
#[allow(dead_code)] // The text is for whoever reads the panic.
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    what: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, what: String) -> Self {
        Self { rule, what }
    }
}
