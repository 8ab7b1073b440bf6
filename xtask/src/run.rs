//! Runs commands, shows what they print, and counts what test runners say.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};

/// What passed and what failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
}

impl Tally {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// The closing line.
    pub fn line(self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

/// A `cargo` of the toolchain that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments);
    command
}

/// Runs one step, printing what it prints. A step that names no counts itself counts as one.
pub fn step(name: &str, mut command: Command) -> Result<Tally> {
    println!("\n== {name}");
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let mut counted = None;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.context("cannot read what the step prints")?;
            println!("{line}");
            if let Some(more) = counts(&line) {
                counted.get_or_insert_with(Tally::default).add(more);
            }
        }
    }
    let status = child.wait().context("cannot wait for the step")?;
    let mut tally = counted.unwrap_or_default();
    match (counted, status.success()) {
        (None, true) => tally.passed = 1,
        // A failure that no runner counted: it did not compile, or it died.
        (_, false) if tally.failed == 0 => tally.failed = 1,
        _ => {}
    }
    println!(
        "== {name}: {} ({:.1} s)",
        tally.line(),
        start.elapsed().as_secs_f64()
    );
    Ok(tally)
}

/// Counts of a test runner's closing line: cargo's, or our own `N passed, N failed`, after what
/// they are of where they are of something.
fn counts(line: &str) -> Option<Tally> {
    let line = line.trim();
    let rest = match line.strip_prefix("test result: ") {
        Some(rest) => rest.split_once(". ")?.1.replace("; ", ", "),
        None => ["demo: ", "kubectl: "]
            .iter()
            .find_map(|of| line.strip_prefix(of))
            .unwrap_or(line)
            .to_owned(),
    };
    let mut parts = rest.split(", ");
    let number =
        |part: Option<&str>, word: &str| part?.strip_suffix(word)?.trim().parse::<u64>().ok();
    Some(Tally {
        passed: number(parts.next(), "passed")?,
        failed: number(parts.next(), "failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_runners_are_counted_and_other_lines_are_not() {
        let tally = |passed, failed| Some(Tally { passed, failed });
        for (line, expected) in [
            (
                "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                tally(7, 0),
            ),
            (
                "test result: FAILED. 6 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
                tally(6, 1),
            ),
            ("demo: 12 passed, 0 failed", tally(12, 0)),
            ("kubectl: 68 passed, 1 failed", tally(68, 1)),
            ("3 passed, 1 failed", tally(3, 1)),
            ("test a ... ok", None),
            ("2 passed", None),
            ("12 passed, some failed", None),
        ] {
            assert_eq!(counts(line), expected, "{line}");
        }
    }
}
