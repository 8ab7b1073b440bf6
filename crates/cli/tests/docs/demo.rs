//! The demo's output in the tutorial, and the picture of it in the README.

mod picture;

use std::{env, fs, process::Command};

use crate::{blocks, read, root};

const PICTURE: &str = "docs/demo.svg";

/// What the tutorial shows of the demo, its command included.
fn shown() -> String {
    let page = read("docs/tutorial.md");
    let blocks = blocks(&page, "text");
    let demo = blocks
        .iter()
        .find(|block| block.starts_with("$ cargo xtask demo\n"));
    (*demo.expect("the tutorial shows the demo")).to_owned()
}

/// Lines without what differs from run to run: progress, times, ages.
fn essence(text: &str) -> Vec<String> {
    let figure = |word: &str| {
        let number = word.strip_suffix('s').unwrap_or(word);
        let decimal = number.contains('.') && number.parse::<f64>().is_ok();
        let age = word.ends_with('s') && number.parse::<u32>().is_ok();
        decimal || age
    };
    let line = |line: &str| {
        let words = line.split_whitespace();
        let words = words.map(|word| if figure(word) { "#" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('…'))
        .map(line)
        .collect()
}

#[test]
fn the_demo_prints_what_the_tutorial_shows() {
    let output = Command::new(env!("CARGO_BIN_EXE_causeway"))
        .args(["demo", "--name", "docs"])
        .output()
        .expect("the command runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
    let mut expected = essence(&shown());
    // What `cargo xtask` says before it starts the command.
    expected.retain(|line| line != "$ cargo xtask demo" && !line.starts_with("building "));
    assert_eq!(essence(&printed), expected, "docs/tutorial.md");
}

#[test]
fn only_times_and_progress_are_left_out_of_the_comparison() {
    let text = "… building site demo\n  ok   a → b   3 sent, 3 received, ttl 63, 1.3 ms\n\nz 172.20.10.0/24 128 14s\n";
    assert_eq!(
        essence(text),
        [
            "ok a → b 3 sent, 3 received, ttl 63, # ms",
            "z 172.20.10.0/24 128 #"
        ]
    );
}

#[test]
fn the_picture_shows_what_the_tutorial_shows() {
    let drawn = picture::draw(&shown());
    let path = root().join(PICTURE);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &drawn).expect("the picture can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == drawn,
        "{PICTURE} differs; UPDATE=1 cargo test -p causeway-cli --test docs draws it"
    );
}
