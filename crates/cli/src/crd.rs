//! `causeway crd`: the definitions that a cluster needs before causeway can run on it.

use std::io::{self, Write};

/// Print the definitions (CRDs) of causeway's kinds as YAML.
///
/// Apply them with: causeway crd | kubectl apply --server-side -f -
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also VirtualPrivateCloud of apps.cozystack.io. Leave it out on a Cozystack platform, which
    /// serves that kind itself.
    #[arg(long)]
    apps: bool,
    /// Also the foreign kinds that causeway uses, for a test cluster without Kube-OVN, Multus and
    /// the in-cluster IPAM provider. They know the fields that causeway uses and keep all others
    /// unchecked: never apply them where the real ones are installed.
    #[arg(long)]
    foreign: bool,
}

/// Runs the command.
///
/// # Errors
/// Where a definition cannot be written as YAML, or the output not at all.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut definitions = causeway_api::crds();
    if args.apps {
        definitions.extend(causeway_api::apps_crds());
    }
    if args.foreign {
        definitions.extend(causeway_api::foreign_crds());
    }
    let mut out = io::stdout().lock();
    for definition in &definitions {
        writeln!(
            out,
            "---\n{}",
            causeway_api::to_yaml(definition)?.trim_end()
        )?;
    }
    Ok(())
}
