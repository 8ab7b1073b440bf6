//! Runs a command beside a real API server, which ends with it.
//!
//! Run by `cargo xtask conformance --against real` and by hand (`with-real-api kubectl get namespaces`).
//! The command finds `KUBECONFIG` (the administrator's) and, as `CAUSEWAY_KUBEAPI_URL`, a plain URL
//! on 127.0.0.1 that needs no credentials; `CAUSEWAY_KUBECONFIG` and `CAUSEWAY_KUBECTL` are for the
//! table of kubectl, and `CAUSEWAY_KUBEAPI_COLLECTS` says that garbage is collected. With `--ipam` the
//! in-cluster IPAM manager runs too, with its webhooks; for that it must be called in a network
//! namespace that has loopback alone.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, ExitCode, Stdio},
};

use causeway_lab::{Cluster, Progress, chain, end_sites_on_signals};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let with_ipam = arguments.next_if(|argument| argument == "--ipam").is_some();
    let Some(program) = arguments.next() else {
        return Err("usage: with-real-api [--ipam] COMMAND [ARGUMENT…]".into());
    };
    end_sites_on_signals()?;
    let name = format!("real-{}", std::process::id());
    let progress = Progress::new(|step| eprintln!("… {step}"));
    let mut cluster = Cluster::start(&name, &progress).await?;
    if with_ipam {
        eprintln!("… starting the real in-cluster IPAM manager");
        cluster.ipam_with_webhooks().await?;
    }
    let mut proxy = Proxy::start(&cluster)?;
    let status = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("CAUSEWAY_KUBEAPI_URL", proxy.url()?)
        .env("CAUSEWAY_KUBEAPI_COLLECTS", "1")
        .env("CAUSEWAY_KUBECONFIG", cluster.kubeconfig())
        .env("CAUSEWAY_KUBECTL", cluster.kubectl_command().get_program())
        .status()?;
    drop(proxy);
    cluster.stop()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `kubectl proxy`, which ends with this value.
struct Proxy(Child);

impl Proxy {
    fn start(cluster: &Cluster) -> Result<Self, Failure> {
        let mut command = cluster.kubectl_command();
        command
            .args(["proxy", "--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// It says `Starting to serve on 127.0.0.1:PORT`.
    fn url(&mut self) -> Result<String, Failure> {
        let output = self.0.stdout.take().ok_or("kubectl proxy has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default();
        match address.parse::<std::net::SocketAddr>() {
            Ok(address) => Ok(format!("http://{address}")),
            Err(_) => Err(format!("kubectl proxy says {line:?}").into()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("kubectl proxy does not end: {error}");
        }
    }
}
