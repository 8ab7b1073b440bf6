//! Running kubectl and comparing what it prints.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use causeway_kubeapi::{Clock, GarbageCollector, KubeApi, Server};

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

/// A stand-in, served, and kubectl with its kubeconfig and a home of its own.
pub struct Session {
    kubectl: Kubectl,
    server: Server,
    home: tempfile::TempDir,
    _collector: GarbageCollector,
}

impl Session {
    pub async fn begin(kubectl: Kubectl) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let api = KubeApi::new(Clock::machine()).expect("a stand-in");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        Self {
            kubectl,
            server: api.serve(any, home.path()).await.expect("a server"),
            home,
            _collector: api.collect_in_background(),
        }
    }

    pub async fn end(self) {
        self.server.stop().await;
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.kubectl.program);
        command
            .args(split(arguments))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.server.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &str, input: &str) -> Output {
        let mut child = self.command(arguments).spawn().expect("kubectl runs");
        let mut to = child.stdin.take().expect("its input");
        to.write_all(input.as_bytes()).expect("written");
        drop(to);
        child.wait_with_output().expect("its end")
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
    pub fn fails(self, prints: &'static str) -> Self {
        Self {
            succeeds: false,
            prints,
            ..self
        }
    }
}
