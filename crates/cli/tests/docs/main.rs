//! The documentation is true: what it shows is what happens, and what it names is there.
//!
//! - `console` blocks are run, line by line, in a folder that has the examples and the command.
//! - The demo's output in the tutorial is compared with a run of it (root is needed, as for every
//!   site), and `docs/demo.svg` is drawn from it.
//! - Commands in `sh` blocks that take long are run by CI itself; here they are looked up.

#![cfg(feature = "embedded")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "what these tests share may fail them"
)]

mod architecture;
mod commands;
mod console;
mod demo;
mod links;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every page: path and text.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for folder in ["docs", "docs/decisions", "docs/reference"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder of the documentation") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "md") {
                let name = path.file_name().unwrap_or_default().display();
                paths.push(format!("{folder}/{name}"));
            }
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

/// The blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("\n```{language}\n");
    let rests = page.split(fence.as_str()).skip(1);
    rests
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}
