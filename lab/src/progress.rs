//! What a site says while it is being built.
//!
//! Called by every step of `Site::start` and of obtaining OVN; the CLI shows the lines.

use std::{fmt, sync::Arc};

/// A receiver of progress lines; cheap to clone.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Every step is told to `show`, in words, when it begins.
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Nobody looks.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn step(&self, words: &str) {
        (self.0)(words);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
