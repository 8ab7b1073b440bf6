//! `causeway check`: what of these files would be refused, before a cluster sees them.
//!
//! The rules are `causeway_planner::admit`, the shapes are the CRDs; here files are read and
//! findings shown with their place.

mod render;
mod shape;
mod world;
mod yaml;

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use causeway_planner::admit::Weight;
pub(crate) use render::counted;
pub(crate) use shape::similar;
pub use world::{File, Finding, Judged, Report, check, judge};

use crate::live;

/// Check files against every rule that can be judged without a cluster.
///
/// All files given are one world: the zones among them decide which zone a network goes to, and
/// earlier files count as created earlier. The kinds VirtualPrivateCloud and ProxmoxNetworkZone are
/// checked, of a Namespace the labels are looked at, other kinds are listed as not checked.
///
/// With --live each object is judged on the cluster as it is, as a change of what is there: by what
/// the admission webhook would say. Nothing is written.
///
/// Exit code: 0 if nothing would be refused (there may be warnings), 1 if something would, 2 if a
/// file cannot be read (then nothing is checked) or the arguments are wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML or JSON files, folders of them, or - for the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Refuse what cannot be checked for want of a zone among the files.
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    live: live::Live,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {name}")]
struct Unreadable {
    name: String,
    source: io::Error,
}

/// Runs the command; findings go to the standard output.
///
/// # Errors
/// Where the output cannot be written, or the cluster not be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(files) = read_all(&args.files) else {
        return Ok(ExitCode::from(2));
    };
    let live = args.live.snapshot()?;
    let report = judge(&files, args.strict, live).report;
    let mut out = anstream::stdout().lock();
    show(&report, &files, &mut out)?;
    writeln!(out, "{}", render::summary(&report, files.len()))?;
    Ok(if report.count(Weight::Error) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes every finding with its place.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn show(report: &Report, files: &[File], out: &mut impl Write) -> io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}\n", render::finding(finding, files))?;
    }
    Ok(())
}

/// The files of these paths. None where one cannot be read; which and why is said on the standard
/// error.
pub(crate) fn read_all(paths: &[PathBuf]) -> Option<Vec<File>> {
    let mut files = Vec::new();
    let mut readable = true;
    for path in paths {
        match read(path) {
            Ok(found) if found.is_empty() => {
                readable = false;
                anstream::eprintln!("error: no YAML or JSON file in {}", path.display());
            }
            Ok(found) => files.extend(found),
            Err(refusal) => {
                readable = false;
                let (name, why) = (&refusal.name, &refusal.source);
                anstream::eprintln!("error: cannot read {name}: {why}");
            }
        }
    }
    readable.then_some(files)
}

fn read(path: &Path) -> Result<Vec<File>, Unreadable> {
    let unreadable = |source| Unreadable {
        name: path.display().to_string(),
        source,
    };
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        let name = "<stdin>".to_owned();
        return Ok(vec![File { name, text }]);
    }
    if !path.is_dir() {
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let name = path.display().to_string();
        return Ok(vec![File { name, text }]);
    }
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        inside.push(entry.map_err(unreadable)?.path());
    }
    inside.sort();
    let mut files = Vec::new();
    for path in inside {
        let known = path.extension().is_some_and(|end| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|one| end.eq_ignore_ascii_case(one))
        });
        if path.is_dir() || known {
            files.extend(read(&path)?);
        }
    }
    Ok(files)
}
