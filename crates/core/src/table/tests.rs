//! What the table must do, verb by verb.
