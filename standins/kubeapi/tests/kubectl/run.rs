//! Running kubectl and comparing what it prints.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{ChildStderr, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use causeway_kubeapi::{Clock, GarbageCollector, KubeApi, Server};

/// Longer than any command takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// One command and what it prints.
pub struct Case {
    /// Its arguments, split at spaces outside of single quotes.
    pub command: &'static str,
    /// What it reads.
    pub input: &'static str,
    /// Whether it succeeds.
    pub succeeds: bool,
    /// What it prints: output, then errors.
    pub prints: &'static str,
}

pub struct Kubectl {
    program: PathBuf,
}

impl Kubectl {
    pub fn find() -> Option<Self> {
        if let Some(program) = std::env::var_os("CAUSEWAY_KUBECTL") {
            return Some(Self {
                program: program.into(),
            });
        }
        let path = std::env::var_os("PATH")?;
        let found = std::env::split_paths(&path).map(|dir| dir.join("kubectl"));
        found
            .into_iter()
            .find(|program| program.is_file())
            .map(|program| Self { program })
    }
}

/// A stand-in, served, and its collector.
struct StandIn {
    server: Server,
    _collector: GarbageCollector,
}

/// kubectl with a kubeconfig and a home of its own.
pub struct Session {
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    stand_in: Option<StandIn>,
    home: tempfile::TempDir,
}

impl Session {
    pub async fn begin(kubectl: Kubectl) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        if let Some(kubeconfig) = std::env::var_os("CAUSEWAY_KUBECONFIG") {
            return Self {
                kubectl,
                kubeconfig: kubeconfig.into(),
                stand_in: None,
                home,
            };
        }
        let api = KubeApi::new(Clock::machine()).expect("a stand-in");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let server = api.serve(any, home.path()).await.expect("a server");
        Self {
            kubectl,
            kubeconfig: server.kubeconfig().to_owned(),
            stand_in: Some(StandIn {
                server,
                _collector: api.collect_in_background(),
            }),
            home,
        }
    }

    pub async fn end(self) {
        if let Some(stand_in) = self.stand_in {
            stand_in.server.stop().await;
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.kubectl.program);
        command
            .args(split(arguments))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end, or kills it when it takes too long.
    fn run(&self, arguments: &str, input: &str) -> Output {
        let mut child = self.command(arguments).spawn().expect("kubectl runs");
        let mut to = child.stdin.take().expect("its input");
        to.write_all(input.as_bytes()).expect("written");
        drop(to);
        let (done, is_done) = std::sync::mpsc::channel();
        let pipes: (ChildStdout, ChildStderr) = (
            child.stdout.take().expect("its output"),
            child.stderr.take().expect("its errors"),
        );
        let reader = std::thread::spawn(move || {
            let errors = std::thread::spawn(move || read(pipes.1));
            let read = (read(pipes.0), errors.join().expect("its errors"));
            // Nobody waits any more if it took too long.
            let _ = done.send(());
            read
        });
        if is_done.recv_timeout(PATIENCE).is_err() {
            child.kill().expect("killed");
        }
        let status = child.wait().expect("its end");
        let (stdout, stderr) = reader.join().expect("its output");
        Output {
            status,
            stdout,
            stderr,
        }
    }

    /// Runs a command; what differs, if something does.
    pub fn check(&self, case: &Case) -> Result<(), String> {
        let output = self.run(case.command, case.input);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() == case.succeeds && matches(case.prints, &printed) {
            return Ok(());
        }
        Err(format!(
            "$ kubectl {}\n({})\n{printed}--- expected ---\n{}",
            case.command, output.status, case.prints
        ))
    }

    /// `get --watch` prints a line when something changes.
    pub fn watches_while_something_happens(&self) -> Result<(), String> {
        let mut child = self
            .command("get configmaps -n tenant-a --watch-only -o name --request-timeout=60s")
            .spawn()
            .expect("kubectl runs");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let mut lines = out.lines();
        // The watch may begin after the first ones: made again until one is shown.
        let (tell, told) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let first = lines.next().and_then(Result::ok);
            // Nobody listening any more is an end too.
            let _ = tell.send(first);
        });
        let mut seen = None;
        for _ in 0..60 {
            self.run("create configmap watched -n tenant-a", "");
            self.run("delete configmap watched -n tenant-a", "");
            if let Ok(line) = told.try_recv() {
                seen = line;
                break;
            }
        }
        child.kill().expect("killed");
        child.wait().expect("its end");
        reader.join().expect("the reader");
        match seen.as_deref() {
            Some("configmap/watched") => Ok(()),
            other => Err(format!("get --watch-only printed {other:?}")),
        }
    }
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).expect("read");
    all
}

fn split(arguments: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in arguments.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => {
                if let Some(word) = words.last_mut() {
                    word.push(other);
                }
            }
        }
    }
    words
}

/// Whether the text is what a pattern expects.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<&str> = pattern.trim().lines().map(str::trim_end).collect();
    let text: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    lines_match(&pattern, &text)
}

fn lines_match(pattern: &[&str], text: &[&str]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([first, rest @ ..], _) if first.trim() == "..." => {
            (0..=text.len()).any(|skipped| lines_match(rest, &text[skipped..]))
        }
        ([first, rest @ ..], [line, more @ ..]) => {
            line_matches(first, line) && lines_match(rest, more)
        }
        _ => false,
    }
}

/// Word by word, so that an age may be as long as it is.
fn line_matches(pattern: &str, line: &str) -> bool {
    // kubectl 1.33 and later say more of some things.
    if let Some(start) = pattern.strip_suffix("...") {
        return line.starts_with(start);
    }
    if !pattern.contains('*') {
        return pattern == line;
    }
    let (pattern, line) = (pattern.split_whitespace(), line.split_whitespace());
    let (pattern, line): (Vec<_>, Vec<_>) = (pattern.collect(), line.collect());
    pattern.len() == line.len()
        && pattern
            .iter()
            .zip(&line)
            .all(|(wanted, word)| match wanted.split_once('*') {
                None => wanted == word,
                Some((start, end)) => {
                    word.len() >= start.len() + end.len()
                        && word.starts_with(start)
                        && word.ends_with(end)
                }
            })
}

impl Case {
    /// The same, but it fails and prints this.
    pub const fn fails(self, prints: &'static str) -> Self {
        Self {
            succeeds: false,
            prints,
            ..self
        }
    }
}
