//! What goes wrong inside, on the standard error, for `RUST_LOG`.

/// Called once by a command that runs for long.
pub(crate) fn start() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
}
