//! The real kubectl against the stand-in's HTTPS, as a table of commands and what they print.
//!
//! Not libtest's: where there is no kubectl it says in one line that it is left out. kubectl is
//! `CAUSEWAY_KUBECTL` or the one on PATH; with `CAUSEWAY_KUBECONFIG` the same commands are run
//! against that (fresh) cluster instead. Of the expected output `*` stands for any run of
//! characters without a space (ages, uids), `...` for any end of a line, a line `...` for any lines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on has failed"
)]

mod kubectl {
    pub mod commands;
    pub mod run;
}

use kubectl::run::{Kubectl, Session};

fn main() {
    let Some(kubectl) = Kubectl::find() else {
        println!("kubectl is left out: there is none on PATH, and CAUSEWAY_KUBECTL names none");
        println!("kubectl: 0 passed, 0 failed");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let session = runtime.block_on(Session::begin(kubectl));
    let mut wrong = Vec::new();
    let commands = kubectl::commands::all();
    for command in &commands {
        if let Err(why) = session.check(command) {
            wrong.push(why);
        }
    }
    wrong.extend(session.watches_while_something_happens().err());
    runtime.block_on(session.end());
    let all = commands.len() + 1;
    println!(
        "kubectl: {} passed, {} failed",
        all - wrong.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "what differs:\n\n{}", wrong.join("\n\n"));
}
