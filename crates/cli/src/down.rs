//! `causeway down`: the end of an `up`, or of what a killed one left.

use std::process::ExitCode;

use causeway_lab::Ended;

use crate::state;

/// End a running `causeway up`, and remove what a killed one left.
///
/// The same for `causeway demo --keep`. Tells the process to end and waits for it; one that does not
/// end within half a minute is killed.
/// The objects and the kubeconfig stay for the next `up`. Where nothing runs, it says so; that is
/// no error.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    state: state::Place,
    /// Also remove the objects, the kubeconfig and the key it was made with. A kubeconfig with other
    /// clusters in it stays.
    #[arg(long)]
    forget: bool,
}

/// Ends it.
///
/// # Errors
/// What cannot be ended or removed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let state = args.state.find()?;
    let dir = state.dir().display().to_string();
    match state.end()? {
        Ended::Running { holder, killed } => {
            let how = if killed { "killed" } else { "ended" };
            anstream::println!("{how}: {holder}, state {dir}");
        }
        Ended::Leftovers => {
            anstream::println!("removed: what a killed `causeway up` left, state {dir}");
        }
        Ended::Nothing => anstream::println!("nothing runs with state {dir}"),
    }
    if args.forget && state.forget()? {
        anstream::println!("forgotten: state {dir}");
    }
    Ok(ExitCode::SUCCESS)
}
