//! The models: the tests of `doorbell-core` that the model checker runs, and what each reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// A test is a model if the name of a module on its path starts or ends with this.
const MODEL: &str = "loom";

/// Marks tests of mutants, which run a model with a broken line in a child process. They reach nothing
/// themselves.
const MUTANT: &str = "mutant";

/// The variable with the file to which a model appends what it reaches.
const REACHED: &str = "DOORBELL_REACHED";

/// The variable with the access to weaken.
const WEAKEN: &str = "DOORBELL_WEAKEN";

/// The variable that bounds the preemptions that a model explores.
const PREEMPTIONS: &str = "LOOM_MAX_PREEMPTIONS";

/// The time between two checks whether a model has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The unit of CPU times of processes: Linux reports 100 ticks a second.
const TICK: Duration = Duration::from_millis(10);

/// A model that still runs after this time is stopped, however little CPU time it got.
const WALL_MAX: Duration = Duration::from_hours(1);

/// A reached ordering: its file, line and column; which ordering of the access it is, `first`, `second` or `fence`; and
/// its value.
pub type Access = [String; 3];

/// Which models reach an access, fastest first.
pub type Reach = BTreeMap<Access, Vec<Model>>;

/// The test program of `doorbell-core`.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// It goes with this value.
    folder: TempDir,
    preemptions: Option<usize>,
}

/// How one run of a model ended.
#[derive(Debug)]
pub enum End {
    /// All interleavings passed.
    Passed,
    /// One failed, or the process died; with its output.
    Failed(ExitStatus, String),
    /// It was stopped when its time was over.
    TimeUp,
}

/// A model that passes, and its cost.
#[derive(Clone, Debug)]
pub struct Model {
    /// The full name of the test.
    pub name: String,
    /// The CPU time that it took.
    pub took: Duration,
}

impl Program {
    /// Builds the test program of `doorbell-core` in the tree at `root`. Models explore `preemptions`
    /// preemptions, or by default as many as each one sets.
    ///
    /// # Errors
    /// If cargo does not start, or the program does not compile.
    pub fn build(root: &Path, preemptions: Option<usize>) -> Result<Self> {
        let output = Command::new("cargo")
            .args(["test", "--package", "doorbell-core", "--lib", "--no-run"])
            .arg("--message-format=json")
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()?;
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let path = messages.lines().rev().find_map(executable);
        let path = path.filter(|_| output.status.success());
        let path = path.context("the tests of doorbell-core do not compile")?;
        let folder = TempDir::new()?;
        // A copy, so that a later build does not replace it.
        let copy = folder.path().join("models");
        fs::copy(path, &copy)?;
        Ok(Self {
            path: copy,
            folder,
            preemptions,
        })
    }

    /// The names of all models.
    ///
    /// # Errors
    /// If the program does not list its tests.
    pub fn models(&self) -> Result<Vec<String>> {
        let mut list = Command::new(&self.path);
        let output = list.args(["--list", "--format=terse"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        let models = names.filter(|name| is_model(name));
        Ok(models.map(str::to_owned).collect())
    }

    /// Runs one model unchanged, for at most `limit` of CPU time: how it ended, the CPU time that it took, which unlike the
    /// duration does not depend on other programs, and what it reached.
    ///
    /// # Errors
    /// If it does not start, or its report of what it reached cannot be read.
    pub fn reach(&self, name: &str, limit: Duration) -> Result<(End, Duration, BTreeSet<Access>)> {
        let file = self.folder.path().join("reached");
        fs::write(&file, "")?;
        let (end, took) = self.run(name, REACHED, &file.to_string_lossy(), limit)?;
        let lines = fs::read_to_string(&file)?;
        Ok((end, took, lines.lines().filter_map(reached).collect()))
    }

    /// Runs one model with an access weakened to the ordering `to`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn weakened(
        &self,
        name: &str,
        access: &Access,
        to: &str,
        limit: Duration,
    ) -> Result<(End, Duration)> {
        self.run(name, WEAKEN, &format!("{} {to}", access.join(" ")), limit)
    }

    fn run(
        &self,
        name: &str,
        variable: &str,
        value: &str,
        limit: Duration,
    ) -> Result<(End, Duration)> {
        let said = self.folder.path().join("said");
        let file = File::create(&said)?;
        let mut command = Command::new(&self.path);
        command
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env_remove(WEAKEN)
            .env_remove(REACHED)
            .env(variable, value)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file));
        if let Some(preemptions) = self.preemptions {
            command.env(PREEMPTIONS, preemptions.to_string());
        }
        let mut child = command.spawn()?;
        let (start, mut cpu) = (Instant::now(), Duration::ZERO);
        loop {
            // An ended process reports its time until it is waited for.
            cpu = cpu_time(child.id()).unwrap_or(cpu);
            if let Some(status) = child.try_wait()? {
                let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
                let end = if status.success() {
                    End::Passed
                } else {
                    End::Failed(status, said)
                };
                return Ok((end, cpu));
            }
            if cpu > limit || start.elapsed() > WALL_MAX {
                child.kill()?;
                child.wait()?;
                return Ok((End::TimeUp, cpu));
            }
            thread::sleep(LOOK);
        }
    }
}

/// The CPU time of a process, in user and system mode.
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&stat).map(|ticks| TICK * ticks)
}

/// The 14th and the 15th field of a process's line. The second field may contain blanks.
fn ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// Groups by access what each model reached.
pub fn by_access(mut models: Vec<(Model, BTreeSet<Access>)>) -> Reach {
    models.sort_by_key(|(model, _)| model.took);
    let mut reach = Reach::new();
    for (model, accesses) in models {
        for access in accesses {
            reach.entry(access).or_default().push(model.clone());
        }
    }
    reach
}

/// Whether the test with this name is a model, and not a test of a mutant.
fn is_model(name: &str) -> bool {
    let (modules, test) = name.rsplit_once("::").unwrap_or(("", name));
    let mut modules = modules.split("::");
    let of_models = modules.any(|module| module.starts_with(MODEL) || module.ends_with(MODEL));
    of_models && !test.starts_with(MUTANT)
}

/// The program in a message of cargo.
fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    Some(PathBuf::from(message.get("executable")?.as_str()?))
}

/// Parses a line that a model wrote.
fn reached(line: &str) -> Option<Access> {
    let parts: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_from_other_tests_by_their_modules() {
        for model in [
            "bell::loom::two",
            "call::loom_many::three",
            "scheduler::offline::loom::a",
            "worker::loom::flood::b",
        ] {
            assert!(is_model(model), "{model}");
        }
        for other in [
            "bell::tests::loom_is_fine",
            "bell::loom::mutant_no_ring",
            "wheel::tests::model::a",
        ] {
            assert!(!is_model(other), "{other}");
        }
    }

    #[test]
    fn the_time_of_a_process_is_read_behind_its_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(cpu_time(std::process::id()).is_some());
    }

    #[test]
    fn the_fastest_model_that_reaches_an_access_comes_first() {
        let access = reached("a.rs:1:2 first AcqRel").expect("three words");
        let model = |name: &str, seconds| Model {
            name: name.to_owned(),
            took: Duration::from_secs(seconds),
        };
        let only = BTreeSet::from([access.clone()]);
        let reach = by_access(vec![
            (model("slow", 9), only.clone()),
            (model("elsewhere", 1), BTreeSet::new()),
            (model("fast", 2), only),
        ]);
        let names: Vec<&str> = reach[&access].iter().map(|model| &*model.name).collect();
        assert_eq!(names, ["fast", "slow"]);
        assert_eq!(reach.len(), 1);
    }
}
