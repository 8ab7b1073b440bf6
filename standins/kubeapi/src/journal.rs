//! The file in which the objects outlast the process.
//!
//! The store notes every change while it is locked; a thread writes what has gathered since its
//! last transaction in one more, so that many writers share one flush to the disk. Must stay true:
//! no answer leaves the API before everything it shows is on the disk (`Durable`), so that no
//! acknowledged write is ever lost; after a failed write nothing is answered any more.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, backends::FileBackend};
use tokio::sync::watch;

use crate::{kinds::Resource, object::Object, serve::unfinished, status::Failure, store::Key};

/// Group, plural, namespace, name; the object as JSON.
const OBJECTS: TableDefinition<'_, (&str, &str, &str, &str), &[u8]> =
    TableDefinition::new("objects");
/// Numbers by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const REVISION: &str = "revision";

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The database.
    #[error("the database file")]
    Database(#[from] redb::Error),
    /// An object in it.
    #[error("an object in the database is no JSON")]
    Object(#[from] serde_json::Error),
    /// The file, or no thread to write it.
    #[error("the database file cannot be opened or written")]
    File(#[from] std::io::Error),
}

/// How far the file has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durable {
    revision: u64,
    /// Why it will come no further.
    failed: Option<Arc<str>>,
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Saved {
    /// 0: the file is new.
    pub(crate) revision: u64,
    pub(crate) objects: Vec<(Resource, Object)>,
}

#[derive(Debug)]
struct Change {
    resource: Resource,
    key: Key,
    /// Nothing: removed.
    object: Option<Object>,
}

#[derive(Debug, Default)]
struct Pending {
    changes: Vec<Change>,
    revision: u64,
    closing: bool,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    news: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to write; nothing when there will be no more.
    fn next(&self) -> Option<Pending> {
        let idle = |pending: &mut Pending| pending.revision == 0 && !pending.closing;
        let guard = self.news.wait_while(self.lock(), idle);
        let mut pending = guard.unwrap_or_else(PoisonError::into_inner);
        let closing = pending.closing;
        let taken = std::mem::take(&mut *pending);
        pending.closing = closing;
        (taken.revision != 0).then_some(taken)
    }
}

/// The writing side. Dropping it writes what is left and closes the file.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    durable: watch::Receiver<Durable>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens a file, making it if it is absent, and reads what it holds.
    pub(crate) fn open(path: &Path) -> Result<(Self, Saved), JournalError> {
        let database = database(path)?;
        let saved = read(&database)?;
        let (sender, durable) = watch::channel(Durable {
            revision: saved.revision,
            failed: None,
        });
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("kubeapi-journal".into())
            .spawn(move || keep_writing(&database, &theirs, &sender))?;
        let journal = Self {
            shared,
            durable,
            thread: Some(thread),
        };
        Ok((journal, saved))
    }

    /// Notes what became of an object.
    pub(crate) fn note(
        &self,
        resource: &Resource,
        key: Key,
        object: Option<Object>,
        revision: u64,
    ) {
        let mut pending = self.shared.lock();
        pending.revision = revision;
        pending.changes.push(Change {
            resource: resource.clone(),
            key,
            object,
        });
        self.shared.news.notify_one();
    }

    /// Notes a revision that belongs to no object.
    pub(crate) fn note_revision(&self, revision: u64) {
        self.shared.lock().revision = revision;
        self.shared.news.notify_one();
    }

    /// Tells how far the file has come.
    pub(crate) fn durable(&self) -> watch::Receiver<Durable> {
        self.durable.clone()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// Waits until everything up to a revision is on the disk.
pub(crate) async fn settled(
    durable: &mut watch::Receiver<Durable>,
    revision: u64,
) -> Result<(), Failure> {
    let reached = |durable: &Durable| durable.revision >= revision || durable.failed.is_some();
    let why: Arc<str> = match durable.wait_for(reached).await {
        Ok(durable) => match &durable.failed {
            None => return Ok(()),
            Some(why) => Arc::clone(why),
        },
        Err(_) => "its thread has ended".into(),
    };
    Err(Failure::internal(format!(
        "the store cannot be written: {why}"
    )))
}

/// The database of a file. A new one has its name only when it is whole: one whose making was cut
/// off could not be opened.
fn database(path: &Path) -> Result<Database, JournalError> {
    let opened = |options: &mut OpenOptions, path: &Path| -> Result<_, JournalError> {
        // There may be Secrets in it.
        let file = options.read(true).write(true).mode(0o600).open(path)?;
        let file = FileBackend::new(file).map_err(redb::Error::from)?;
        let database = Database::builder().create_with_backend(file);
        Ok(database.map_err(redb::Error::from)?)
    };
    if path.try_exists()? {
        return opened(&mut OpenOptions::new(), path);
    }
    let fresh = unfinished(path);
    let database = opened(OpenOptions::new().create(true).truncate(true), &fresh)?;
    fs::rename(&fresh, path)?;
    Ok(database)
}

/// The revision and every object as bytes.
type Rows = (u64, Vec<(Resource, Vec<u8>)>);

fn rows(database: &Database) -> Result<Rows, redb::Error> {
    let begun = database.begin_write()?;
    begun.open_table(OBJECTS)?;
    begun.open_table(NUMBERS)?;
    begun.commit()?;
    let reading = database.begin_read()?;
    let revision = reading.open_table(NUMBERS)?.get(REVISION)?;
    let mut objects = Vec::new();
    for row in reading.open_table(OBJECTS)?.iter()? {
        let (key, object) = row?;
        let (group, plural, ..) = key.value();
        let resource = Resource {
            group: group.to_owned(),
            plural: plural.to_owned(),
        };
        objects.push((resource, object.value().to_vec()));
    }
    let revision = revision.map(|number| number.value()).unwrap_or_default();
    Ok((revision, objects))
}

fn read(database: &Database) -> Result<Saved, JournalError> {
    let (revision, rows) = rows(database)?;
    let objects = rows
        .into_iter()
        .map(|(resource, json)| Ok((resource, Arc::new(serde_json::from_slice(&json)?))))
        .collect::<Result<_, serde_json::Error>>()?;
    Ok(Saved { revision, objects })
}

fn keep_writing(database: &Database, shared: &Shared, durable: &watch::Sender<Durable>) {
    while let Some(pending) = shared.next() {
        let failed = write(database, &pending).err();
        let failed = failed.map(|error| Arc::from(error.to_string()));
        let end = failed.is_some();
        durable.send_modify(|durable| {
            durable.failed = failed;
            if !end {
                durable.revision = pending.revision;
            }
        });
        if end {
            return;
        }
    }
}

fn write(database: &Database, pending: &Pending) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    {
        let mut objects = writing.open_table(OBJECTS)?;
        for Change {
            resource,
            key: (namespace, name),
            object,
        } in &pending.changes
        {
            let key = (
                resource.group.as_str(),
                resource.plural.as_str(),
                namespace.as_str(),
                name.as_str(),
            );
            match object {
                Some(object) => {
                    let json = object.to_string();
                    objects.insert(key, json.as_bytes())?;
                }
                None => {
                    objects.remove(key)?;
                }
            }
        }
        writing
            .open_table(NUMBERS)?
            .insert(REVISION, pending.revision)?;
    }
    writing.commit()?;
    Ok(())
}
