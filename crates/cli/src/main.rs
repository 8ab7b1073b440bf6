//! The causeway command.

use std::process::ExitCode;

fn main() -> ExitCode {
    causeway_cli::run()
}
