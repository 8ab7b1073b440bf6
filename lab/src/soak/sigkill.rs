//! `causeway up` is killed at random points and started again on the same state: in the end all is
//! as if nothing had happened, and nothing is left on the machine.
//!
//! Run by `cargo xtask soak sigkill`. Must stay true: what it compares with is a run of the same
//! command that nobody has disturbed; every third point kills the next start too, every third lets
//! `causeway down` clear the dead one away first.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use causeway_api::{ProxmoxNetwork, VirtualPrivateCloud};
use futures::{FutureExt, StreamExt, future::try_join};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::{Draws, picture::Picture};
use crate::{
    CommandError, DumpError, Progress, State, StateError, chain,
    command::Run,
    embedded::{ApplyError, EmbeddedError, apply_documents, is_ready, wait, when_all},
    ovn::{self, ObtainError, Ovn},
    scenarios::{Checks, ZONE},
    up::{Up, UpError, client, traces},
};

/// How long a run may take to look as it should.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long an undisturbed run goes on after all is Ready: points fall there too.
const AFTER: Duration = Duration::from_secs(1);
/// How many times in a row it must look the same to count as settled: each is a moment after the
/// one before, so that no pass is under way across all of them.
const EQUAL: usize = 3;
/// Differences that a line shows.
const SHOWN: usize = 3;

/// On `workers` of the example.
const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: tenant-example
  annotations:
    k8s.v1.cni.cncf.io/networks: tenant-example/subnet-7bb6e3ad
spec:
  nodeName: node1
  containers: [{name: main, image: none}]
";

/// What is applied, in this order, and the object that it makes.
const DOCUMENTS: [(&str, &str); 4] = [
    (ZONE, "ProxmoxNetworkZone /default"),
    (
        include_str!("../../../examples/vpc.yaml"),
        "VirtualPrivateCloud tenant-example/main",
    ),
    (
        include_str!("../../../examples/second-tenant.yaml"),
        "VirtualPrivateCloud tenant-other/main",
    ),
    (POD, "Pod tenant-example/db"),
];

/// The run cannot go on. What is not as it should be is a failed line instead.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// The command.
    #[error(transparent)]
    Up(#[from] UpError),
    /// A state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// OVN's tools.
    #[error(transparent)]
    Ovn(#[from] ObtainError),
    /// Objects.
    #[error("the API is not as it should be")]
    Embedded(#[from] EmbeddedError),
    /// Applying.
    #[error("an object cannot be applied")]
    Apply(#[from] ApplyError),
    /// Rows.
    #[error("the northbound database cannot be read")]
    Dump(#[from] DumpError),
    /// The machine.
    #[error("the machine cannot be looked at")]
    Io(#[from] io::Error),
    /// A pattern of ours.
    #[error("a pattern cannot be used")]
    Pattern(#[from] regex::Error),
    /// It never looks as it should.
    #[error("after {within} s, {0}", within = PATIENCE.as_secs())]
    Never(String),
    /// An answered write is not there after the restart.
    #[error("{0} was applied and answered, and is lost")]
    Lost(&'static str),
    /// A network has another VLAN than a client has seen.
    #[error("network {network} had VLAN {seen} and has {now:?} now")]
    Vlan {
        /// Which.
        network: String,
        /// Before.
        seen: u16,
        /// After.
        now: Option<u16>,
    },
    /// Something of it is still on the machine.
    #[error("left behind: {0}")]
    Left(String),
}

/// Where the runs are.
pub struct Soak {
    program: PathBuf,
    ovn: Ovn,
    dir: tempfile::TempDir,
}

/// The run that nobody disturbed.
pub struct Reference {
    picture: Picture,
    /// From the start until it was up.
    starts: Duration,
    /// From there until all was Ready.
    applies: Duration,
}

/// When to kill.
pub struct Point {
    number: u32,
    /// After the start.
    at: Duration,
    /// After the start that follows, where that one is killed too.
    second: Duration,
}

impl Reference {
    /// One of `times` points that are spread over a whole run.
    pub fn point(&self, number: u32, times: u32, draws: &mut Draws) -> Point {
        let whole = self.starts + self.applies + AFTER;
        let share = (f64::from(number) + draws.next_share()) / f64::from(times.max(1));
        Point {
            number,
            at: whole.mul_f64(share),
            second: self.starts.mul_f64(draws.next_share()),
        }
    }
}

/// What became of a run before it was killed.
#[derive(Debug, Default)]
struct Before {
    up: bool,
    /// How many documents were applied and answered.
    applied: usize,
    ready: bool,
    /// VLAN numbers that a client has seen, by network.
    vlans: BTreeMap<String, u16>,
}

impl Before {
    fn words(&self) -> String {
        match (self.up, self.ready) {
            (false, _) => "starting".to_owned(),
            (true, false) => format!("up, {} of {} applied", self.applied, DOCUMENTS.len()),
            (true, true) => "all Ready".to_owned(),
        }
    }
}

impl Soak {
    /// With this program.
    ///
    /// # Errors
    /// [`SoakError`] if OVN's tools or a folder cannot be had.
    pub async fn new(program: &Path) -> Result<Self, SoakError> {
        Ok(Self {
            program: program.to_owned(),
            ovn: ovn::obtain(&Progress::silent()).await?,
            dir: tempfile::tempdir()?,
        })
    }

    /// Makes the run that nobody disturbs: up, everything applied, ended, and up again.
    ///
    /// # Errors
    /// [`SoakError`] if already that goes wrong.
    pub async fn undisturbed(&self, checks: &mut Checks) -> Result<Reference, SoakError> {
        let state = State::at(&self.dir.path().join("undisturbed"))?;
        let begun = Instant::now();
        let mut up = Up::start(&self.program, &state)?;
        up.ready().await?;
        let starts = begun.elapsed();
        let client = client(&state).await?;
        apply(&client, &Mutex::default()).await?;
        all_ready(&client).await?;
        let applies = begun.elapsed().saturating_sub(starts);
        let picture = settled(&state, &client, &self.ovn).await?;
        up.end(Signal::TERM).await?;
        let reference = Reference {
            picture,
            starts,
            applies,
        };
        let before = Before {
            applied: DOCUMENTS.len(),
            ..Before::default()
        };
        let again = self.again(&state, &reference, &before, Signal::TERM).await;
        let again = again.map(|()| {
            format!(
                "up after {:.1} s, all Ready {:.1} s later; the same when started again",
                starts.as_secs_f64(),
                applies.as_secs_f64()
            )
        });
        line(checks, "undisturbed", again);
        Ok(reference)
    }

    /// Kills at one point, and looks at what becomes of it.
    pub async fn kill_at(&self, reference: &Reference, point: &Point, checks: &mut Checks) {
        let mut words = format!(
            "point {}: killed at {:.2} s",
            point.number + 1,
            point.at.as_secs_f64()
        );
        let path = self.dir.path().join(format!("point-{}", point.number));
        let outcome = self.kill_in(&path, reference, point, &mut words).await;
        let outcome = outcome.map(|end| format!("as undisturbed; {end}, nothing left"));
        line(checks, &words, outcome);
    }

    async fn kill_in(
        &self,
        path: &Path,
        reference: &Reference,
        point: &Point,
        words: &mut String,
    ) -> Result<&'static str, SoakError> {
        let state = State::at(path)?;
        let before = self.kill_after(&state, point.at).await?;
        words.push_str(", ");
        words.push_str(&before.words());
        match point.number % 3 {
            1 => {
                let second = format!(", and {:.2} s later", point.second.as_secs_f64());
                words.push_str(&second);
                self.kill_after(&state, point.second).await?;
            }
            2 => {
                words.push_str(", then down");
                self.down(&state).await?;
                nothing_left(&state)?;
            }
            _ => {}
        }
        // Every way to end follows every way to go on.
        let (end, how) = match point.number / 3 % 3 {
            0 => (Signal::TERM, "SIGTERM"),
            1 => (Signal::KILL, "SIGKILL and down"),
            _ => (Signal::INT, "SIGINT"),
        };
        self.again(&state, reference, &before, end).await?;
        std::fs::remove_dir_all(state.dir())?;
        Ok(how)
    }

    /// A run that is killed after so long.
    async fn kill_after(&self, state: &State, at: Duration) -> Result<Before, SoakError> {
        let before = Mutex::<Before>::default();
        let mut up = Up::start(&self.program, state)?;
        if let Ok(failed) = timeout(at, live(state, &mut up, &before)).await {
            failed?;
        }
        up.end(Signal::KILL).await?;
        Ok(before.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// A run after one that was killed, to the end.
    async fn again(
        &self,
        state: &State,
        reference: &Reference,
        before: &Before,
        end: Signal,
    ) -> Result<(), SoakError> {
        let mut up = Up::start(&self.program, state)?;
        up.ready().await?;
        let client = client(state).await?;
        let first = Picture::take(state, &client, &self.ovn).await?;
        for (_, object) in &DOCUMENTS[..before.applied] {
            if !first.has(object) {
                return Err(SoakError::Lost(object));
            }
        }
        apply(&client, &Mutex::default()).await?;
        all_ready(&client).await?;
        self.as_undisturbed(state, reference, &client).await?;
        same_numbers(&client, before).await?;
        up.end(end).await?;
        if end == Signal::KILL {
            self.down(state).await?;
        }
        nothing_left(state)
    }

    async fn as_undisturbed(
        &self,
        state: &State,
        reference: &Reference,
        client: &Client,
    ) -> Result<(), SoakError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let picture = Picture::take(state, client, &self.ovn).await?;
            let difference = reference.picture.difference(&picture);
            if difference.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let shown = difference.iter().take(SHOWN).cloned().collect::<Vec<_>>();
                let shown = shown.join("\n    ");
                let count = difference.len();
                return Err(SoakError::Never(format!(
                    "{count} lines differ:\n    {shown}"
                )));
            }
            sleep(LOOK).await;
        }
    }

    /// Ends and removes whatever of this run is still there.
    ///
    /// # Errors
    /// [`SoakError`] with what stays.
    pub fn clear(&self) -> Result<(), SoakError> {
        for entry in std::fs::read_dir(self.dir.path())? {
            State::at(&entry?.path())?.end()?;
        }
        Ok(())
    }

    async fn down(&self, state: &State) -> Result<(), SoakError> {
        let down = Run::new(&self.program).args(["down", "--state"]);
        down.args([state.dir()]).stdout().await?;
        Ok(())
    }
}

/// Applies everything as soon as it is up, and watches what comes of it. Returns only if something
/// fails.
async fn live(state: &State, up: &mut Up, before: &Mutex<Before>) -> Result<(), SoakError> {
    up.ready().await?;
    lock(before).up = true;
    let client = client(state).await?;
    let networks: Api<ProxmoxNetwork> = Api::all(client.clone());
    let networks = watcher(networks, watcher::Config::default()).default_backoff();
    let watch = networks.applied_objects().for_each(|network| {
        // A watch that breaks off is begun again.
        if let Ok(network) = network
            && let Some(vlan) = network.status.as_ref().and_then(|status| status.vlan)
        {
            lock(before).vlans.insert(network.name_any(), vlan);
        }
        std::future::ready(())
    });
    let work = async {
        apply(&client, before).await?;
        all_ready(&client).await?;
        lock(before).ready = true;
        Ok(())
    };
    try_join(work, watch.map(Ok)).await.map(drop)
}

/// Applies everything, the pod when its network is there.
async fn apply(client: &Client, before: &Mutex<Before>) -> Result<(), SoakError> {
    for (yaml, object) in DOCUMENTS {
        if object.starts_with("Pod ") {
            let networks: Api<ProxmoxNetwork> = Api::namespaced(client.clone(), "tenant-example");
            wait(&networks, "subnet-7bb6e3ad", |network| {
                let status = network.status.as_ref();
                status.is_some_and(|status| is_ready(&status.conditions))
            })
            .await?;
        }
        apply_documents(client, yaml).await?;
        lock(before).applied += 1;
    }
    Ok(())
}

async fn all_ready(client: &Client) -> Result<(), SoakError> {
    for namespace in ["tenant-example", "tenant-other"] {
        let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(client.clone(), namespace);
        wait(&vpcs, "main", |vpc| {
            let status = vpc.status.as_ref();
            status.is_some_and(|status| {
                status.observed_generation == vpc.metadata.generation
                    && is_ready(&status.conditions)
            })
        })
        .await?;
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "tenant-example");
    wait(&pods, "db", |pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    })
    .await?;
    Ok(())
}

/// What it looks like once it has stopped changing.
async fn settled(state: &State, client: &Client, ovn: &Ovn) -> Result<Picture, SoakError> {
    let deadline = Instant::now() + PATIENCE;
    let mut picture = Picture::take(state, client, ovn).await?;
    let mut equal = 1;
    loop {
        sleep(AFTER).await;
        let next = Picture::take(state, client, ovn).await?;
        if next == picture {
            equal += 1;
            if equal == EQUAL {
                return Ok(picture);
            }
            continue;
        }
        equal = 1;
        if Instant::now() > deadline {
            let difference = picture.difference(&next);
            return Err(SoakError::Never(format!(
                "it still changes: {difference:?}"
            )));
        }
        picture = next;
    }
}

/// What a client has seen goes for good.
async fn same_numbers(client: &Client, before: &Before) -> Result<(), SoakError> {
    let networks: Api<ProxmoxNetwork> = Api::all(client.clone());
    let all = when_all(networks, "the networks", |all| {
        all.len() >= before.vlans.len()
    })
    .await?;
    for network in all.values() {
        let now = network.status.as_ref().and_then(|status| status.vlan);
        match before.vlans.get(&network.name_any()) {
            Some(seen) if Some(*seen) != now => {
                return Err(SoakError::Vlan {
                    network: network.name_any(),
                    seen: *seen,
                    now,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn nothing_left(state: &State) -> Result<(), SoakError> {
    match traces(state)?.as_slice() {
        [] => Ok(()),
        left => Err(SoakError::Left(left.join(", "))),
    }
}

fn line(checks: &mut Checks, what: &str, outcome: Result<String, SoakError>) {
    match outcome {
        Ok(seen) => checks.line(true, what, seen),
        Err(error) => checks.line(false, what, chain(&error)),
    }
}

fn lock(before: &Mutex<Before>) -> MutexGuard<'_, Before> {
    before.lock().unwrap_or_else(PoisonError::into_inner)
}
