//! The causeway command: one binary, one subcommand a module.
//!
//! Called by `main` alone; tests call [`check::check`] too. Must stay true: what a command decides
//! is decided in other crates; here arguments become calls and results become text.

pub mod check;
pub mod crd;
#[cfg(feature = "embedded")]
pub mod demo;
#[cfg(feature = "embedded")]
pub mod down;
pub mod explain;
mod live;
mod log;
pub mod plan;
#[cfg(feature = "embedded")]
mod state;
pub mod status;
#[cfg(feature = "embedded")]
pub mod up;
pub mod webhook;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// Proxmox VMs, pods and KubeVirt VMs as layer-2 neighbours on the subnets of a tenant's VPC.
#[derive(Debug, Parser)]
#[command(name = "causeway", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Plan(plan::Args),
    Explain(explain::Args),
    Status(status::Args),
    Crd(crd::Args),
    Webhook(webhook::Args),
    #[cfg(feature = "embedded")]
    Demo(demo::Args),
    #[cfg(feature = "embedded")]
    Up(up::Args),
    #[cfg(feature = "embedded")]
    Down(down::Args),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Parses the arguments of the process and runs the command. The exit code is 0 where all is well,
/// 1 where something is wrong with what was asked about, 2 where the command cannot be run.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match execute(&cli.command) {
        Ok(code) => code,
        Err(refusal) => {
            anstream::eprintln!("error: {refusal:#}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Status(args) => status::run(args),
        Command::Crd(args) => crd::run(args).map(|()| ExitCode::SUCCESS),
        Command::Webhook(args) => webhook::run(args),
        #[cfg(feature = "embedded")]
        Command::Demo(args) => demo::run(args),
        #[cfg(feature = "embedded")]
        Command::Up(args) => up::run(args),
        #[cfg(feature = "embedded")]
        Command::Down(args) => down::run(args),
        Command::Completions { shell } => {
            let mut out = std::io::stdout();
            clap_complete::generate(*shell, &mut Cli::command(), "causeway", &mut out);
            Ok(ExitCode::SUCCESS)
        }
    }
}
