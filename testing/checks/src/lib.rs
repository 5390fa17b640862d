//! Nothing to import: the checks are this package's tests.
