//! A client of one database: a task that keeps a session and its replica, and handles to it.
//!
//! Held by whoever reads or writes Northbound or Southbound.
//! Must stay true: a replica outlives no session, and a transaction is sent at most once.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep},
};
use tracing::{debug, info, warn};

use crate::{
    Remote,
    operation::{Operation, TransactError, TransactReply},
    replica::{Replica, UpdateError},
    schema::Schema,
    session::{Answer, Event, Session, SessionError},
    table::Monitors,
};

/// How long to wait before connecting again, at first and at most. The first is what a server needs
/// to start; the most keeps a server that many wait for from being hit by all at once for long.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How many transactions may wait to be sent before [`Client::transact`] waits itself.
const QUEUE: usize = 64;

/// A handle to one database. Clones share the session, which ends when the last of them is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    transactions: mpsc::Sender<Transaction>,
    replica: watch::Receiver<Arc<Replica>>,
}

#[derive(Debug)]
struct Transaction {
    operations: Vec<Value>,
    answer: Answer,
}

impl Client {
    /// Keeps a session with `database` at `remote` that monitors these columns. The server need not
    /// be there yet. Must be called within a tokio runtime.
    pub fn start(remote: Remote, database: impl Into<String>, monitors: Monitors) -> Self {
        let (transactions, waiting) = mpsc::channel(QUEUE);
        let (publish, replica) = watch::channel(Arc::default());
        let keeper = Keeper {
            remote,
            database: database.into(),
            monitors,
            waiting,
            publish,
        };
        tokio::spawn(keeper.run());
        Self {
            transactions,
            replica,
        }
    }

    /// The replica as it is now.
    pub fn replica(&self) -> Arc<Replica> {
        Arc::clone(&self.replica.borrow())
    }

    /// The replica as it is now and as it becomes. Its sender is gone once the last client is.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Replica>> {
        self.replica.clone()
    }

    /// Waits until the replica is such.
    pub async fn when(&self, such: impl Fn(&Replica) -> bool) -> Arc<Replica> {
        let mut replica = self.replica.clone();
        let found = replica.wait_for(|replica| such(replica)).await;
        // The guard must not be held over a wait: futures with it cannot change threads.
        match found.map(|replica| Arc::clone(&replica)) {
            Ok(replica) => replica,
            // The task lives as long as this handle, unless its runtime is ending: then so is this.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits until there is a session, and gives its replica.
    pub async fn connected(&self) -> Arc<Replica> {
        self.when(|replica| replica.connected).await
    }

    /// Does these operations, all or none.
    ///
    /// Once this has returned, [`Client::replica`] contains what the transaction changed (unless the
    /// session has ended since): a server sends a transaction's updates before its answer, and the
    /// session takes them in that order.
    ///
    /// A transaction is never sent twice. If the future is dropped, the transaction may be done
    /// nevertheless. A server that hangs is waited for: bound the wait where that matters.
    ///
    /// # Errors
    /// [`TransactError`] unless every operation and the commit worked.
    pub async fn transact(
        &self,
        operations: Vec<Operation>,
    ) -> Result<TransactReply, TransactError> {
        let (answer, answered) = oneshot::channel();
        let transaction = Transaction {
            operations: operations
                .iter()
                .map(serde_json::to_value)
                .collect::<Result<_, _>>()?,
            answer,
        };
        self.transactions
            .send(transaction)
            .await
            .map_err(|_| TransactError::NotConnected)?;
        let reply = answered
            .await
            .map_err(|_| TransactError::OutcomeUnknown)??;
        TransactReply::read(&operations, reply)
    }
}

/// What the task holds.
struct Keeper {
    remote: Remote,
    database: String,
    monitors: Monitors,
    waiting: mpsc::Receiver<Transaction>,
    publish: watch::Sender<Arc<Replica>>,
}

impl Keeper {
    /// One session after another, until no client is left.
    async fn run(mut self) {
        let (first, most) = BACKOFF;
        let mut pause = first;
        loop {
            let begun = Instant::now();
            if self.session().await.is_none() {
                return;
            }
            // A session that ends at once, again and again, must not be rebuilt in a hurry.
            if begun.elapsed() > most {
                pause = first;
            }
            if refusing(&mut self.waiting, sleep(pause)).await.is_none() {
                return;
            }
            pause = most.min(pause * 2);
        }
    }

    /// One session, from beginning to end; none when no client is left.
    async fn session(&mut self) -> Option<()> {
        let begin = Session::begin(&self.remote, &self.database, &self.monitors);
        match refusing(&mut self.waiting, begin).await? {
            Err(trouble) => self.disconnected(trouble),
            Ok((mut session, schema, (last_txn_id, rows))) => {
                let end = match self.change(|replica| replica.fill(&schema, last_txn_id, rows)) {
                    Ok(()) => {
                        info!(database = self.database, "connected");
                        self.live(&mut session, &schema).await?
                    }
                    Err(trouble) => trouble,
                };
                // Before the session is dropped: whoever then learns that an outcome is unknown
                // must not find the old rows.
                self.disconnected(end);
            }
        }
        Some(())
    }

    /// Passes transactions in and updates and answers out, until the session ends.
    async fn live(&mut self, session: &mut Session, schema: &Schema) -> Option<SessionError> {
        loop {
            tokio::select! {
                transaction = self.waiting.recv() => {
                    let Transaction { operations, answer } = transaction?;
                    session.transact(operations, answer);
                }
                event = session.next() => match event {
                    Ok(Event::Update(last_txn_id, updates)) => {
                        let changed =
                            self.change(|replica| replica.apply(schema, last_txn_id, updates));
                        if let Err(trouble) = changed {
                            return Some(trouble);
                        }
                    }
                    Ok(Event::Answered(answer, result)) => reply(answer, result),
                    Err(trouble) => return Some(trouble),
                },
            }
        }
    }

    /// Changes the replica in place where nobody holds it; nobody ever sees half a change.
    fn change(
        &self,
        apply: impl FnOnce(&mut Replica) -> Result<(), UpdateError>,
    ) -> Result<(), SessionError> {
        let mut outcome = Ok(());
        self.publish
            .send_modify(|replica| outcome = apply(Arc::make_mut(replica)));
        Ok(outcome?)
    }

    fn disconnected(&self, trouble: SessionError) {
        let database = self.database.as_str();
        let error: &dyn std::error::Error = &trouble;
        // Every further attempt fails alike for as long as the server is away.
        if self.publish.borrow().trouble.is_none() {
            warn!(database, error, "not connected");
        } else {
            debug!(database, error, "still not connected");
        }
        self.publish
            .send_modify(|replica| Arc::make_mut(replica).drop_rows(trouble));
    }
}

/// Does `work`, and meanwhile refuses transactions; none when no client is left.
async fn refusing<T>(
    waiting: &mut mpsc::Receiver<Transaction>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            transaction = waiting.recv() => {
                reply(transaction?.answer, Err(TransactError::NotConnected));
            }
        }
    }
}

fn reply(answer: Answer, result: Result<Value, TransactError>) {
    if answer.send(result).is_err() {
        debug!("a transaction was answered after its caller had gone");
    }
}
