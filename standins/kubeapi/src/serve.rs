//! HTTPS on a loopback address, for programs that are not this one (kubectl above all).
//!
//! Every connection is somebody: by a client certificate that this server has issued, or by a
//! bearer token of its own; else `system:anonymous`. What they may do is for roles and bindings to
//! say. Must stay true: it listens on loopback only; keys and kubeconfigs are readable by their
//! owner alone; a stopped server leaves no task behind.

mod authority;
mod kept;

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::{
    KubeApi, User,
    service::{self, DoorError, ResponseBody},
    status::Failure,
};
use authority::Authority;
pub use authority::AuthorityError;
pub(crate) use kept::unfinished;
use kept::{Card, write_private};
pub use kept::{ForeignKubeconfig, forget_server, remove_unfinished};

/// The administrator's kubeconfig, in the directory given to [`KubeApi::serve`].
const KUBECONFIG: &str = "kubeconfig";
/// Who the administrator is, as kubeadm names them.
const ADMINISTRATOR: &str = "kubernetes-admin";

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests under way may take once the server is to stop.
const GRACE: Duration = Duration::from_secs(2);

/// The server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Everybody could reach it.
    #[error("{0} is no loopback address")]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Certificates cannot be made.
    #[error("the certificates of the API server")]
    Authority(#[from] AuthorityError),
    /// There is a kubeconfig that is not to be replaced.
    #[error("{path} is left as it is: move it away, or use another directory")]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Why it is not to be replaced.
        source: ForeignKubeconfig,
    },
    /// A file cannot be written or removed.
    #[error("cannot write {path}")]
    File {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A server under way. Dropping it ends it at once; [`stop`](Self::stop) lets requests finish.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    authority: Arc<Authority>,
    kubeconfig: PathBuf,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl KubeApi {
    /// Serves the API by HTTPS on a loopback address and writes a kubeconfig for someone who may do
    /// everything into the directory, `kubeconfig`, mode 0600. The kubeconfig of an earlier server of
    /// the directory goes on working: the authority is the same, and so is port 0 (any port) as long
    /// as nobody else has taken it. A kubeconfig of anybody else's is left as it is.
    ///
    /// # Errors
    /// [`ServeError`] if the address is not to be had, a file cannot be written or there is a
    /// kubeconfig already that no server of the directory has written.
    pub async fn serve(&self, address: SocketAddr, dir: &Path) -> Result<Server, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let kubeconfig = dir.join(KUBECONFIG);
        let foreign = |source| ServeError::Foreign {
            path: kubeconfig.clone(),
            source,
        };
        let file = |(path, source)| ServeError::File { path, source };
        remove_unfinished(dir, &[]).map_err(file)?;
        let card = Card::read(dir).map_err(foreign)?;
        let listener = listen(address, card.as_ref()).await;
        let failed = |source| ServeError::Listen { address, source };
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let authority = Arc::new(Authority::new(address, kept::key(dir)?)?);
        let administrator = User::master(ADMINISTRATOR);
        match card {
            Some(card) if card.address == address => {
                authority.admit(&card.certificate, &administrator);
            }
            Some(card) if !card.alone => {
                return Err(foreign(ForeignKubeconfig::Shared(card.address)));
            }
            _ => {
                let text = authority.kubeconfig(&administrator)?;
                let written = write_private(&kubeconfig, &text);
                written.map_err(|source| file((kubeconfig.clone(), source)))?;
            }
        }
        let (stop, stopped) = watch::channel(false);
        let site = Site {
            api: self.clone(),
            authority: Arc::clone(&authority),
            acceptor: TlsAcceptor::from(authority.tls()?),
            stopped,
        };
        Ok(Server {
            address,
            authority,
            kubeconfig,
            stop,
            task: Some(tokio::spawn(site.listen(listener))),
        })
    }
}

/// The kubeconfig in a directory is one that a server there may use, or there is none. For those
/// who have much to do before they serve.
///
/// # Errors
/// [`ServeError::Foreign`] with why it is not.
pub fn check_kubeconfig(dir: &Path) -> Result<(), ServeError> {
    let foreign = |source| ServeError::Foreign {
        path: dir.join(KUBECONFIG),
        source,
    };
    Card::read(dir).map(drop).map_err(foreign)
}

/// Where the earlier server was, if any port will do and that one is free.
async fn listen(address: SocketAddr, earlier: Option<&Card>) -> std::io::Result<TcpListener> {
    if let Some(card) = earlier
        && address.port() == 0
        && card.address.ip() == address.ip()
        && let Ok(listener) = TcpListener::bind(card.address).await
    {
        return Ok(listener);
    }
    TcpListener::bind(address).await
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The text of a kubeconfig by which somebody else comes in, with a certificate of their own.
    ///
    /// # Errors
    /// [`AuthorityError`] if the certificate cannot be made.
    pub fn kubeconfig_of(&self, user: &User) -> Result<String, AuthorityError> {
        self.authority.kubeconfig(user)
    }

    /// A fresh bearer token of a user, good as long as the server runs.
    ///
    /// # Errors
    /// [`AuthorityError`] if there is no randomness.
    pub fn token_of(&self, user: &User) -> Result<String, AuthorityError> {
        self.authority.token(user)
    }

    /// Ends watches, lets other requests finish for a moment, and returns when all is over.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // A task that panicked has said so, and has ended too.
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Site {
    api: KubeApi,
    authority: Arc<Authority>,
    acceptor: TlsAcceptor,
    stopped: watch::Receiver<bool>,
}

impl Site {
    async fn listen(self, listener: TcpListener) {
        let mut stopped = self.stopped.clone();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // An error is told too: then the server is gone.
                _ = stopped.wait_for(|stopped| *stopped) => break,
                accepted = listener.accept() => {
                    // A connection that fails before it begins is its client's affair.
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(self.clone().connection(stream));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        let rest = async { while connections.join_next().await.is_some() {} };
        // Who is not done in time is cut off when the set is dropped.
        let _ = tokio::time::timeout(GRACE, rest).await;
    }

    async fn connection(self, stream: TcpStream) {
        let shaken = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        // Without a handshake there is no way to say more.
        let Ok(Ok(stream)) = shaken else { return };
        let shown = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first);
        let user = shown.and_then(|certificate| self.authority.by_certificate(certificate));
        let user = user.unwrap_or_else(User::anonymous);
        let mut stopped = self.stopped.clone();
        let service = tower::service_fn(move |request| self.clone().answer(user.clone(), request));
        let builder = Builder::new(TokioExecutor::new());
        let connection =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            // A client that breaks off has its reasons.
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }

    async fn answer<B>(
        self,
        user: User,
        request: Request<B>,
    ) -> Result<Response<ResponseBody>, DoorError>
    where
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let bearer = request.headers().get(header::AUTHORIZATION);
        let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let user = match bearer {
            None => user,
            Some(token) => match self.authority.by_token(token.trim()) {
                Some(user) => user,
                None => return service::refusal(&Failure::unauthorized(), &[]),
            },
        };
        let response = self.api.door_as(user).oneshot(request).await?;
        Ok(response.map(|body| self.until_stopped(body)))
    }

    /// Watches end with the server, as they would with their time.
    fn until_stopped(&self, body: ResponseBody) -> ResponseBody {
        if body.size_hint().exact().is_some() {
            return body;
        }
        let mut stopped = self.stopped.clone();
        let end = async move {
            // The server being gone is an end too.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let frames = BodyStream::new(body).take_until(Box::pin(end));
        BodyExt::boxed_unsync(StreamBody::new(
            frames.map(|frame| -> Result<_, Infallible> { frame }),
        ))
    }
}
