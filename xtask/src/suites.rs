//! The conformance suites, those of the stand-ins and that of the webhook: which there are, and how
//! each runs beside the stand-ins and beside what they stand for.
//!
//! Called for `conformance` and `real-api`. Must stay true: the same test program runs both times; only
//! what is beside it differs.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    packages, peers,
    run::{Tally, cargo, step},
    steps::{build, built},
};

/// What a suite runs beside when it does not run against the stand-in.
enum Real {
    /// A real control plane.
    Api,
    /// The same with the in-cluster IPAM manager.
    Ipam,
    /// Nothing: why not.
    Recorded(&'static str),
}

/// A test of a crate.
struct Suite {
    /// How it is asked for.
    name: &'static str,
    /// What its step is called.
    title: &'static str,
    package: &'static str,
    test: &'static str,
    real: Real,
}

/// Several of one name are parts of one suite, each with a control plane of its own.
const SUITES: [Suite; 5] = [
    Suite {
        name: "kubeapi",
        title: "kubeapi",
        package: "causeway-kubeapi",
        test: "conformance",
        real: Real::Api,
    },
    Suite {
        name: "kubeapi",
        title: "kubeapi as kubectl sees it",
        package: "causeway-kubeapi",
        test: "kubectl",
        real: Real::Api,
    },
    Suite {
        name: "admission",
        title: "admission",
        package: "causeway-admission",
        test: "conformance",
        real: Real::Api,
    },
    Suite {
        name: "ipam",
        title: "ipam",
        package: "causeway-ipam",
        test: "conformance",
        real: Real::Ipam,
    },
    Suite {
        name: "kubeovn",
        title: "kubeovn",
        package: "causeway-lab",
        test: "kubeovn",
        real: Real::Recorded(
            "Kube-OVN itself does not run here: its recorded objects and rows are the reference, \
             and the suite compares the stand-in with them (--against standin)",
        ),
    },
];

/// The stand-ins' suites, against the stand-ins or against what they stand for.
pub fn conformance(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (chosen, against) = match words[..] {
        ["--against", against] => (None, against),
        [suite, "--against", against] | ["--against", against, suite] => (Some(suite), against),
        _ => bail!("usage: cargo xtask conformance [SUITE] --against standin|real"),
    };
    let suites: Vec<&Suite> = SUITES
        .iter()
        .filter(|suite| chosen.is_none_or(|chosen| chosen == suite.name))
        .collect();
    if suites.is_empty() {
        let mut names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        names.dedup();
        bail!("no such suite; there are {}", names.join(", "));
    }
    let real = match against {
        "standin" => false,
        "real" => true,
        other => bail!("there is no {other:?} to run against: standin or real"),
    };
    if real {
        // Asked for by its name, a suite that cannot be run is an error.
        for suite in suites.iter().filter(|_| chosen.is_some()) {
            suite.on_the_real_system().map_err(anyhow::Error::msg)?;
        }
        if peers::build()?.is_none() {
            bail!("{}", peers::NO_GO);
        }
        prepare(&suites)?;
    }
    let mut total = Tally::default();
    for suite in suites {
        let command = if real {
            suite.on_the_real_system()
        } else {
            Ok(suite.on_the_stand_in()?)
        };
        let title = format!("{}, {against}", suite.title);
        match command {
            Ok(command) => total.add(step(&title, command)?),
            Err(why) => println!("\n== {title}: left out. {why}"),
        }
    }
    println!("\n{}", total.line());
    Ok(total.failed == 0)
}

/// All that run on real systems, for who has built them: with [`build_all`], or with everything.
pub fn on_the_real_systems() -> Vec<(&'static str, Command)> {
    let all = SUITES
        .iter()
        .filter_map(|suite| Some((suite.title, suite.on_the_real_system().ok()?)));
    all.collect()
}

/// Builds all of them.
pub fn build_all() -> Result<()> {
    prepare(&SUITES.iter().collect::<Vec<_>>())
}

/// Builds what is run beside the real systems: there it may lack a network.
fn prepare(suites: &[&Suite]) -> Result<()> {
    build("causeway-lab")?;
    for suite in suites {
        if suite.on_the_real_system().is_err() {
            continue;
        }
        let status = suite.tests().arg("--no-run").status()?;
        if !status.success() {
            bail!("the suite of {} does not build", suite.name);
        }
    }
    Ok(())
}

impl Suite {
    fn tests(&self) -> Command {
        cargo(&[
            "test",
            "--locked",
            "--package",
            self.package,
            "--test",
            self.test,
        ])
    }

    fn on_the_stand_in(&self) -> Result<Command> {
        let mut command = self.tests();
        // That of the peers, if they are built; else the one on PATH, if there is one.
        if let Some(folder) = peers::built()? {
            command.env("CAUSEWAY_KUBECTL", folder.join("kubectl"));
        }
        Ok(command)
    }

    /// The command with the real system beside it, or why there is none.
    fn on_the_real_system(&self) -> Result<Command, &'static str> {
        let with = built("with-real-api");
        let mut command = match self.real {
            Real::Api => packages::as_root(&with),
            Real::Ipam => {
                // Its webhooks listen on every interface: here there is loopback alone.
                let mut command = packages::as_root("unshare");
                let script = "ip link set lo up && exec \"$@\"";
                command.args(["--net", "sh", "-c", script, "sh", &with, "--ipam"]);
                command
            }
            Real::Recorded(why) => return Err(why),
        };
        let tests = self.tests();
        command.arg(tests.get_program()).args(tests.get_args());
        Ok(command)
    }
}
