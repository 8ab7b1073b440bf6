//! An error and what caused it, in one line.
//!
//! Called by whoever tells an error to a person. Relies on errors whose text does not repeat their
//! source's.

use std::error::Error;

/// The error, its source, and so on.
pub fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
