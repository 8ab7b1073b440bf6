//! SIGKILL loses no acknowledged write.
//!
//! A child process (this program again) writes into a file and says of each write that it has been
//! acknowledged; it is killed at a random moment; what it has said must be in the file, and the
//! next child goes on from there. Not libtest's: the child must be this very program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on has failed"
)]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use causeway_kubeapi::{Clock, KubeApi};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

/// The file, in the child's environment.
const FILE: &str = "CAUSEWAY_SIGKILL_FILE";
/// The round, in the child's environment.
const ROUND: &str = "CAUSEWAY_SIGKILL_ROUND";
const ROUNDS: u64 = 20;
/// Who write at once.
const WRITERS: u64 = 4;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match std::env::var(FILE) {
        Ok(file) => runtime.block_on(write(Path::new(&file))),
        Err(_) => kill_again_and_again(&runtime),
    }
}

fn maps(api: &KubeApi) -> Api<ConfigMap> {
    Api::default_namespaced(api.client("test"))
}

/// What a writer does as its `count`th step of a round: the object's name and its new value, or
/// nothing to delete it.
fn step(writer: u64, round: u64, count: u64) -> (String, Option<String>) {
    let value = (count % 11 != 10).then(|| format!("{round}-{count}"));
    (format!("m-{writer}-{}", count % 7), value)
}

/// The child: writes until it is killed.
async fn write(file: &Path) {
    let api = KubeApi::open(file, Clock::machine()).expect("the file");
    let round: u64 = std::env::var(ROUND)
        .expect("a round")
        .parse()
        .expect("a number");
    let writers = (0..WRITERS).map(|writer| {
        let maps = maps(&api);
        async move {
            // More than any machine writes before it is killed.
            for count in 0..1_000_000_u64 {
                match step(writer, round, count) {
                    (name, Some(value)) => {
                        let config = json!({
                            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                            "data": {"value": value},
                        });
                        let params = PatchParams::apply("test");
                        maps.patch(&name, &params, &Patch::Apply(config))
                            .await
                            .expect("written");
                    }
                    (name, None) => match maps.delete(&name, &DeleteParams::default()).await {
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        deleted => drop(deleted.expect("deleted")),
                    },
                }
                let mut out = std::io::stdout().lock();
                writeln!(out, "{writer} {count}")
                    .and_then(|()| out.flush())
                    .expect("said");
            }
        }
    });
    futures::future::join_all(writers).await;
}

/// Objects by name.
type State = BTreeMap<String, String>;

fn kill_again_and_again(runtime: &tokio::runtime::Runtime) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("api.redb");
    let mut states = vec![State::new(); usize::try_from(WRITERS).expect("a few")];
    let (mut seed, mut writes) = (0x5eed_u64, 0);
    for round in 0..ROUNDS {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let lines = 1 + (seed >> 33) % 120;
        let said = one_round(&file, round, lines);
        let there = runtime.block_on(what_is_there(&file));
        for (writer, state) in (0..WRITERS).zip(&mut states) {
            let count = said.get(&writer).copied().unwrap_or_default();
            writes += count;
            check(writer, round, count, state, &there);
        }
    }
    println!(
        "{writes} writes acknowledged in {ROUNDS} rounds, each ended by SIGKILL: none is lost"
    );
}

/// Lets a child write and kills it after so many lines; how many steps each writer said it did.
fn one_round(file: &Path, round: u64, lines: u64) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .env(FILE, file)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let out = BufReader::new(child.stdout.take().expect("its output"));
    let (mut heard, mut said) = (0, BTreeMap::new());
    for line in out.lines() {
        let line = line.expect("a line");
        let (writer, count) = line.split_once(' ').expect("a writer and a count");
        let count: u64 = count.parse().expect("a number");
        said.insert(writer.parse().expect("a number"), count + 1);
        heard += 1;
        if heard == lines {
            child.kill().expect("killed");
        }
    }
    let end = child.wait().expect("its end");
    assert!(
        end.code().is_none(),
        "round {round}: the child ended by itself: {end}"
    );
    said
}

async fn what_is_there(file: &Path) -> State {
    let api = KubeApi::open(file, Clock::machine()).expect("opened again");
    let list = maps(&api)
        .list(&ListParams::default())
        .await
        .expect("a list");
    api.close();
    let value = |map: ConfigMap| {
        let value = map
            .data
            .unwrap_or_default()
            .remove("value")
            .unwrap_or_default();
        (map.metadata.name.unwrap_or_default(), value)
    };
    list.items.into_iter().map(value).collect()
}

fn take(state: &mut State, (name, value): (String, Option<String>)) {
    match value {
        Some(value) => state.insert(name, value),
        None => state.remove(&name),
    };
}

/// What a writer has said must be there, exactly; one step more may be, of which it could not
/// speak any more.
fn check(writer: u64, round: u64, count: u64, state: &mut State, there: &State) {
    let prefix = format!("m-{writer}-");
    let own = there.iter().filter(|(name, _)| name.starts_with(&prefix));
    let own: State = own
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for done in 0..count {
        take(state, step(writer, round, done));
    }
    if own != *state {
        take(state, step(writer, round, count));
    }
    assert_eq!(
        own, *state,
        "round {round}, writer {writer}: {count} steps were acknowledged"
    );
}
