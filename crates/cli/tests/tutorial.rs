//! The `shell-session` blocks of the tutorial and of each how-to: each command is run, in order, against
//! a real `causeway up` with a real kubectl, and prints what stands after it. `UPDATE=1` writes what is
//! printed into the page instead; the diff is read by whoever changed it.
//!
//! Not libtest's: where there is no kubectl it says in one line that it is left out. kubectl is
//! `CAUSEWAY_KUBECTL`, or the one on PATH, or what `cargo xtask peers` has built. Left out of the
//! comparison is what differs from run to run: progress, times, ages, ports, process numbers, and the
//! names of the state and its site. A command that only looks is typed again, as a reader would, until
//! it shows what it should.

#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use causeway_lab::{State, cluster::Peers, up::Up};
use tempfile::TempDir;

/// Set: pages are written, not compared.
const UPDATE: &str = "UPDATE";
/// Longest that a command that only looks may show something else.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOKING: [&str; 7] = [
    "target/debug/causeway check --live ",
    "target/debug/causeway explain ",
    "target/debug/causeway status",
    "kubectl get ",
    "kubectl describe ",
    "kubectl wait ",
    "ip netns exec ",
];
const LOOK: Duration = Duration::from_millis(200);
/// As a reader calls it.
const CAUSEWAY: &str = "target/debug/causeway ";

#[tokio::main]
async fn main() {
    let Some(kubectl) = kubectl() else {
        println!(
            "tutorial: left out, there is no kubectl on PATH, CAUSEWAY_KUBECTL names none, and \
             `cargo xtask peers` has built none"
        );
        return;
    };
    let mut pages = vec![root().join("docs/tutorial.md")];
    let entries = fs::read_dir(root().join("docs/how-to")).expect("the how-tos");
    pages.extend(entries.map(|entry| entry.expect("a file").path()));
    pages.retain(|page| page.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    for page in &pages {
        follow(page, &kubectl).await;
    }
}

/// Types every command of a page, as its reader would.
async fn follow(path: &Path, kubectl: &Path) {
    let page = fs::read_to_string(path).expect("a page");
    let update = env::var_os(UPDATE).is_some();
    let mut reader = Reader::new(kubectl);
    let mut wrong = Vec::new();
    let (mut written, mut done) = (String::new(), 0);
    let mut run = 0;
    for (command, mut shown) in commands(&page) {
        let as_shown = shown.len();
        if let Err(printed) = reader.types(command, &shown, update).await {
            wrong.push(format!("$ {command}\n{printed}"));
            shown = printed;
        }
        let typed = format!("$ {command}\n");
        let at = done + page[done..].find(&typed).expect("the command") + typed.len();
        written.push_str(&page[done..at]);
        written.push_str(shown.trim_end());
        written.push_str(if shown.trim().is_empty() { "" } else { "\n" });
        done = at + as_shown;
        run += 1;
    }
    let found = reader.types("echo this", "that\n", update).await;
    assert!(found.is_err(), "a difference is found");
    drop(reader);
    let name = path.strip_prefix(root()).unwrap_or(path).display();
    if update {
        written.push_str(&page[done..]);
        fs::write(path, written).expect("a page that can be written");
    } else {
        assert!(wrong.is_empty(), "{name}, prints:\n{}", wrong.join("\n"));
    }
    assert!(run > 10, "commands have been found in {name}: {run}");
    println!("{name}: {run} commands print what is shown");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn kubectl() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CAUSEWAY_KUBECTL") {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    let mut found = env::split_paths(&path).map(|folder| folder.join("kubectl"));
    let found = found.find(|file| file.is_file());
    found.or_else(|| Peers::find().ok().map(|peers| peers.kubectl()))
}

/// Each command with the lines after it.
fn commands(page: &str) -> Vec<(&str, String)> {
    let blocks = page.split("\n```shell-session\n").skip(1);
    let lines = blocks.flat_map(|rest| rest.split("```").next().unwrap_or_default().lines());
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command, String::new()));
        } else if let Some((_, shown)) = commands.last_mut() {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    commands
}

/// Somebody with two terminals, in a folder like a clone in which the command has been built.
struct Reader {
    folder: TempDir,
    path: std::ffi::OsString,
    state: State,
    up: Option<Up>,
}

impl Reader {
    fn new(kubectl: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for dir in ["bin", "target/debug", "home", "state"] {
            fs::create_dir_all(at(dir)).expect("a folder");
        }
        for (from, to) in [
            (kubectl.to_owned(), "bin/kubectl"),
            (
                env!("CARGO_BIN_EXE_causeway").into(),
                "target/debug/causeway",
            ),
            (root().join("examples"), "examples"),
            (root().join("docs"), "docs"),
        ] {
            symlink(from, at(to)).expect("a link");
        }
        let own = [at("bin")].into_iter();
        let path = env::var_os("PATH").unwrap_or_default();
        Self {
            path: env::join_paths(own.chain(env::split_paths(&path))).expect("a path"),
            state: State::at(&at("state/causeway")).expect("a state"),
            up: None,
            folder,
        }
    }

    /// Types a command; what is printed, if it is not what is shown. `once`: without patience.
    async fn types(&mut self, command: &str, shown: &str, once: bool) -> Result<(), String> {
        let expected = essence(shown);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = match command.strip_prefix(CAUSEWAY) {
                Some("up") => self.starts(&["up"]).await,
                Some("demo --keep") => self.starts(&["demo", "--keep"]).await,
                _ => self.runs(command),
            };
            let known = printed
                .replace(&self.state.dir().display().to_string(), STATE)
                .replace(&self.state.site(), SITE);
            if essence(&known) == expected {
                return Ok(());
            }
            if once || !only_looks(command) || Instant::now() > deadline {
                return Err(known);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// In the first terminal.
    async fn starts(&mut self, words: &[&str]) -> String {
        let program = self.folder.path().join("target/debug/causeway");
        let up = Up::start_with(&program, words, &self.state);
        let up = self.up.insert(up.expect("started"));
        match up.ready().await {
            Ok(lines) => {
                // The demo's lines are shown further up on the page.
                let from = lines.iter().position(|line| line.starts_with("demo: "));
                lines[from.unwrap_or(0)..].join("\n")
            }
            Err(error) => error.to_string(),
        }
    }

    /// In the second terminal.
    fn runs(&self, command: &str) -> String {
        let command = command.replace(SITE, &self.state.site());
        let at = |name: &str| self.folder.path().join(name);
        let output = Command::new("sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("HOME", at("home"))
            .env("XDG_STATE_HOME", at("state"))
            .env("KUBECONFIG", self.state.dir().join("kubeconfig"))
            .output()
            .expect("sh runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Nothing of it stays, whatever went wrong.
impl Drop for Reader {
    fn drop(&mut self) {
        if let Err(error) = self.state.end() {
            eprintln!("{}: {error}", self.state.dir().display());
        }
    }
}

/// The state and the site on the page.
const STATE: &str = "/root/.local/state/causeway";
const SITE: &str = "up-4c1f9a37";

/// Typed twice, it does no more than typed once.
fn only_looks(command: &str) -> bool {
    LOOKING.iter().any(|start| command.starts_with(start))
}

/// Lines without what differs from run to run.
fn essence(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('…'));
    lines.map(without_figures).collect()
}

fn without_figures(line: &str) -> String {
    let mut before = "";
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        words.push(if is_figure(before, word) {
            "#".to_owned()
        } else {
            word.to_owned()
        });
        before = word;
    }
    words.join(" ")
}

/// A process number, a port, an age or a time.
fn is_figure(before: &str, word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bare = word.trim_end_matches([',', ':']);
    // `2003ms`, `14s`, `2m3s`
    let units = bare.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let of_time = |letter: char| letter.is_ascii_digit() || "dhms".contains(letter);
    let is_time = bare != units && !units.is_empty() && units.chars().all(of_time);
    let is_decimal = |part: &str| part.contains('.') && part.parse::<f64>().is_ok();
    let are_times = bare.contains('/') && bare.split('/').all(is_decimal);
    let is_process = before == "process" && digits(bare);
    is_time || are_times || is_process || bare.starts_with("127.0.0.1:")
}
