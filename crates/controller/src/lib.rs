//! Carries plans out.
//!
//! ```text
//! Wakes ──key──▶ observe ──Snapshot──▶ planner ──Plan──▶ execute ──▶ API ──answers──▶ observe
//!                                              └─NorthboundPlan──▶ northbound ──▶ OVN NB
//! ```
//!
//! Called by the command (`causeway demo`; later `controller` and `up`) and by tests. Decides
//! nothing: what to write, in which order, and what to report is the planner's. Must stay true: a
//! plan is never made from a world older than our own last write.

mod error;
mod execute;
mod northbound;
mod render;
mod report;

use std::{sync::Arc, time::Duration};

use causeway_drive::{Backoff, Wakes};
use causeway_observe::{Clock, Key, ObserveError, Observer, OvnRemotes};
use causeway_planner::{northbound::plan_northbound, plan::Plan, snapshot::Settings};
use causeway_planner::{vpc::plan_vpc, zone::plan_zone};

pub use error::PassError;

/// How often every key gets a pass, whatever the watches said.
const FULL_PASS: Duration = Duration::from_mins(5);

/// Rounds of one pass: a plan, its steps, a plan on what they changed. A VPC of 64 subnets needs
/// fewer than ten; more means that something undoes our writes.
const ROUNDS_MAX: usize = 64;

/// What a controller is started with.
#[derive(Clone)]
pub struct Options {
    /// Settings of the installation.
    pub settings: Settings,
    /// The OVN databases; none: every gateway is reported as not to be seen.
    pub ovn: Option<OvnRemotes>,
    /// Tells the time.
    pub clock: Clock,
    /// Seed of the waits after failures.
    pub seed: u64,
}

/// The controllers of zones, VPCs and northbound rows.
pub struct Controller {
    observer: Observer,
    wakes: Arc<Wakes<Key>>,
    backoff: Backoff<Key>,
}

impl Controller {
    /// Connects and waits until the world is known.
    ///
    /// # Errors
    /// [`ObserveError`] if the API cannot be observed.
    pub async fn start(client: kube::Client, options: Options) -> Result<Self, ObserveError> {
        let wakes = Arc::new(Wakes::default());
        let observer = Observer::start(
            client,
            options.ovn,
            options.settings,
            options.clock,
            Arc::clone(&wakes),
        )
        .await?;
        Ok(Self {
            observer,
            wakes,
            backoff: Backoff::new(options.seed),
        })
    }

    /// Passes over keys for ever. Dropping the future is a stop at any point, which every later pass
    /// recovers from; to stop between two passes, drop it while [`Controller::run_until`] waits.
    pub async fn run(&mut self) {
        self.run_until(std::future::pending()).await;
    }

    /// Passes over keys until `stop` is ready; the pass under way is finished first.
    pub async fn run_until(&mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut full = tokio::time::interval(FULL_PASS);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => return,
                _ = full.tick() => self.observer.wake_everything(&self.wakes),
                key = self.wakes.next() => self.attend(&key).await,
            }
        }
    }

    async fn attend(&mut self, key: &Key) {
        match self.pass(key).await {
            Ok(()) => self.backoff.did_well(key),
            Err(error) => {
                let wait = self.backoff.failed(key);
                error.log(key, wait);
                self.wakes.wake_after(key.clone(), wait);
            }
        }
    }

    /// One pass: plan and write until nothing is left to write, then report.
    async fn pass(&self, key: &Key) -> Result<(), PassError> {
        for _ in 0..ROUNDS_MAX {
            if !self.round(key).await? {
                return Ok(());
            }
        }
        Err(PassError::NeverDone { key: key.clone() })
    }

    /// One round. True if it wrote something that the next round must see.
    async fn round(&self, key: &Key) -> Result<bool, PassError> {
        let plan = match key {
            Key::Zone(zone) => self.observer.with_snapshot(|seen| plan_zone(zone, seen)),
            Key::Vpc(vpc) => self.observer.with_snapshot(|seen| plan_vpc(vpc, seen)),
            Key::Northbound => return self.northbound_round().await,
        };
        self.wake_at(key, plan.wake_at);
        self.carry_out(plan).await
    }

    async fn carry_out(&self, plan: Plan) -> Result<bool, PassError> {
        let caches = &self.observer.caches;
        let wrote = !plan.steps.is_empty();
        for step in plan.steps {
            execute::step(caches, &step, self.observer.now()).await?;
        }
        if !wrote {
            for status in &plan.statuses {
                report::status(caches, status).await?;
            }
        }
        Ok(wrote)
    }

    async fn northbound_round(&self) -> Result<bool, PassError> {
        let (plan, global) = self.observer.with_snapshot(|seen| {
            let global = seen.northbound.as_ref();
            let global = global.map(|nb| (nb.global.clone(), nb.nb_cfg));
            (plan_northbound(seen), global)
        });
        self.wake_at(&Key::Northbound, plan.wake_at);
        match (&self.observer.ovn, global) {
            (Some(ovn), Some(global)) if !plan.is_empty() => {
                northbound::write(&ovn.northbound, global, &plan).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn wake_at(&self, key: &Key, at: Option<causeway_planner::snapshot::Moment>) {
        if let Some(at) = at {
            let wait = at.since(self.observer.now());
            self.wakes.wake_after(key.clone(), wait);
        }
    }
}
