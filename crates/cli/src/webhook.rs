//! `causeway webhook`: the admission webhook beside an API server, until it is told to end.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use causeway_admission::{Options, Webhook, configuration, configuration::Places};
use causeway_planner::snapshot::{Moment, Settings};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::signal::unix::{SignalKind, signal};

/// Answer the API server which writes of causeway's kinds may happen.
///
/// Serves HTTPS: POST /validate for the API server, GET /readyz, /healthz and /metrics. Its
/// certificates are its own: they are kept in Secret causeway-webhook-tls, renewed long before they end,
/// and published as caBundle of ValidatingWebhookConfiguration causeway, which is applied with:
/// causeway webhook --print-configuration | kubectl apply --server-side -f -
///
/// Several may run side by side. Ends with exit code 0 on SIGTERM or Ctrl-C, when what has been
/// asked is answered.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the ValidatingWebhookConfiguration as YAML instead.
    #[arg(long)]
    print_configuration: bool,

    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    listen: SocketAddr,

    /// The namespace of the Secret and the Service; the controller's account is
    /// causeway-controller there.
    #[arg(long, value_name = "NAME", default_value_t = Places::default().namespace)]
    namespace: String,

    /// The Service by which the API server reaches it.
    #[arg(long, value_name = "NAME", default_value_t = Places::default().service)]
    service: String,

    /// Kube-OVN's namespace; its accounts there are never asked about.
    #[arg(long, value_name = "NAME", default_value_t = Places::default().kube_ovn_namespace)]
    kube_ovn_namespace: String,

    /// Another DNS name or address that the certificate is for; may be repeated.
    #[arg(long, value_name = "NAME")]
    also_for: Vec<String>,
}

/// Runs until it is told to end.
///
/// # Errors
/// What kept it from starting.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let places = Places {
        namespace: args.namespace.clone(),
        service: args.service.clone(),
        kube_ovn_namespace: args.kube_ovn_namespace.clone(),
    };
    if args.print_configuration {
        let text = configuration::to_yaml(&places).context("the configuration is no YAML")?;
        anstream::print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    crate::log::start();
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(serve(args, places))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: &Args, places: Places) -> anyhow::Result<()> {
    let listen = "cannot listen for signals";
    let mut terminate = signal(SignalKind::terminate()).context(listen)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(listen)?;
    let client = client(args.kubeconfig.as_deref()).await?;
    let options = Options {
        listen: args.listen,
        places,
        names: args.also_for.clone(),
        settings: Settings::default(),
        clock: Arc::new(now),
    };
    let starting = Webhook::start(client, options);
    let webhook = tokio::select! {
        webhook = starting => webhook?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    anstream::println!("causeway webhook listens on {}", webhook.address());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    webhook.stop().await;
    Ok(())
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        None => Config::infer().await.context("no API server is known")?,
        Some(path) => {
            let unusable = || format!("cannot use {}", path.display());
            let read = Kubeconfig::read_from(path).with_context(unusable)?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options).await;
            config.with_context(unusable)?
        }
    };
    Client::try_from(config).context("no client of the API server can be made")
}

fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Moment(i64::try_from(millis).unwrap_or(i64::MAX))
}
