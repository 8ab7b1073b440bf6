//! A TCP transfer between two guests, by sockets of this process opened in their namespaces.
//!
//! Called through `Site` by scenarios about sizes and policies. Each end is a thread of its own,
//! which enters the namespace, does its part and ends: no thread returns to other work from there.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use crate::guest::Guest;

/// Longest that a connection may stand still.
const STALL: Duration = Duration::from_secs(10);

const CHUNK: usize = 64 * 1024;

/// A transfer failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {guest}")]
pub struct TcpError {
    action: &'static str,
    guest: String,
    #[source]
    source: io::Error,
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpReport {
    /// Bytes that the receiver read.
    pub bytes: u64,
    /// From the connection's begin until the receiver had read all.
    pub took: Duration,
}

/// Sends `bytes` bytes from `from` to the address of `to`.
pub(crate) async fn transfer(from: &Guest, to: &Guest, bytes: u64) -> Result<TcpReport, TcpError> {
    let (address, listening) = oneshot::channel();
    let server = to.clone();
    let received = inside(to, "receive at", move || {
        let listener = TcpListener::bind((server.address(), 0))?;
        // Unheard if the caller gave up; then nobody connects and `accept` below ends by itself.
        let _unheard = address.send(listener.local_addr()?);
        count(&accept(&listener)?)
    })?;
    let address = listening
        .await
        .map_err(|error| failed("listen at", to, io::Error::other(error)))?;
    let begun = Instant::now();
    let sent = inside(from, "send from", move || send(address, bytes))?;
    ended(sent, "send from", from).await?;
    let bytes = ended(received, "receive at", to).await?;
    Ok(TcpReport {
        bytes,
        took: begun.elapsed(),
    })
}

fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + STALL;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

fn count(mut stream: &TcpStream) -> io::Result<u64> {
    stream.set_read_timeout(Some(STALL))?;
    let mut chunk = vec![0; CHUNK];
    let mut total: u64 = 0;
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(total),
            read => total += read as u64,
        }
    }
}

fn send(address: SocketAddr, bytes: u64) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&address, STALL)?;
    stream.set_write_timeout(Some(STALL))?;
    io::copy(&mut io::repeat(0x5a).take(bytes), &mut &stream)?;
    (&stream).flush()?;
    stream.shutdown(Shutdown::Write)
}

type End<T> = oneshot::Receiver<io::Result<T>>;

fn inside<T: Send + 'static>(
    guest: &Guest,
    action: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<End<T>, TcpError> {
    let path = guest.netns().path();
    let (end, ended) = oneshot::channel();
    let enter = move || -> io::Result<()> {
        let netns = File::open(path)?;
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    };
    thread::Builder::new()
        .name(format!("tcp-{}", guest.name()))
        // The receiver may be gone: then the caller has given up, and the result with it.
        .spawn(move || drop(end.send(enter().and_then(|()| work()))))
        .map_err(|source| failed(action, guest, source))?;
    Ok(ended)
}

async fn ended<T>(end: End<T>, action: &'static str, guest: &Guest) -> Result<T, TcpError> {
    end.await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| failed(action, guest, source))
}

fn failed(action: &'static str, guest: &Guest, source: io::Error) -> TcpError {
    TcpError {
        action,
        guest: guest.name().to_owned(),
        source,
    }
}
