//! `console` blocks: after each `$ command` stands what it prints.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{blocks, pages, root};

/// A folder like a clone in which the command has been built.
fn clone() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clone");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an earlier run's folder goes");
    }
    let built = folder.join("target/debug");
    fs::create_dir_all(&built).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_causeway"), built.join("causeway")).expect("a link");
    let examples = folder.join("examples");
    fs::create_dir(&examples).expect("a folder");
    for entry in fs::read_dir(root().join("examples")).expect("examples") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), examples.join(entry.file_name())).expect("a copy");
    }
    folder
}

/// The commands of a block, with what is shown to be printed.
fn transcript(block: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command, String::new()));
        } else {
            let (_, printed) = commands.last_mut().expect("a block begins with a command");
            printed.push_str(line);
            printed.push('\n');
        }
    }
    commands
}

#[test]
fn every_console_block_prints_what_it_shows() {
    let mut run = 0;
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        let folder = clone();
        let commands = blocks(&page, "console").into_iter().flat_map(transcript);
        for (command, shown) in commands {
            let output = Command::new("sh")
                .args(["-c", &format!("{{ {command}\n}} 2>&1")])
                .current_dir(&folder)
                .output()
                .expect("sh runs");
            let printed = String::from_utf8_lossy(&output.stdout);
            if printed.trim_end() != shown.trim_end() {
                wrong.push(format!("{path}: $ {command}\nprints\n{printed}"));
            }
            run += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run >= 5, "the tutorial's commands have been found: {run}");
}
