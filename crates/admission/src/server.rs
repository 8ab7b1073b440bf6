//! HTTPS: connections, handshakes, and an end that answers what has been asked.
//!
//! Started by the webhook. Must stay true: a connection that fails concerns nobody but its client; once
//! told to stop, no new connection is taken and every request under way is answered.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rustls::{ServerConfig, crypto::ring};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{keeper::Served, service::Service};

/// How long a client may take to shake hands, and to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long requests under way may take once the server is to stop: the API server waits 5 s.
const GRACE: Duration = Duration::from_secs(6);

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// A server that listens.
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    site: Site,
}

/// What every connection needs.
#[derive(Clone)]
struct Site {
    acceptor: TlsAcceptor,
    service: Service,
}

impl Server {
    pub(crate) async fn bind(
        address: SocketAddr,
        served: Arc<Served>,
        service: Service,
    ) -> Result<Self, BindError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(served);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let failed = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            address: listener.local_addr().map_err(failed)?,
            listener,
            site: Site {
                acceptor: TlsAcceptor::from(Arc::new(config)),
                service,
            },
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is true or gone.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = told(stop.clone()) => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.site.clone().connection(stream, stop.clone()));
                    }
                    Err(error) => {
                        // Too many open files, mostly: they become fewer as connections end.
                        tracing::warn!(error = &error as &dyn std::error::Error, "cannot accept");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        let rest = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!("connections that do not end are cut off");
        }
    }
}

/// Until it is true, or its sender gone.
async fn told(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

impl Site {
    async fn connection(self, stream: TcpStream, stop: watch::Receiver<bool>) {
        let shaken = tokio::time::timeout(PATIENCE, self.acceptor.accept(stream)).await;
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "no handshake");
                return;
            }
            Err(_) => return,
        };
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE);
        let service = TowerToHyperService::new(self.service);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = told(stop) => None,
        };
        let ended = if let Some(ended) = ended {
            ended
        } else {
            connection.as_mut().graceful_shutdown();
            connection.await
        };
        if let Err(error) = ended {
            tracing::debug!(error = &*error, "a connection broke off");
        }
    }
}
