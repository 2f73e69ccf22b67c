//! Weakens each ordering of `doorbell-core`, one at a time, and prints which models notice.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use doorbell_tidy::Tree;
use doorbell_tidy::orderings::models::{End, Model, Program, Reach, Run, by_access};
use doorbell_tidy::orderings::mutant::{Row, judge, rows};
use doorbell_tidy::orderings::report;
use doorbell_tidy::orderings::sites::{SWEPT, Site, sites};

/// A model that takes longer without a mutant is stopped.
const UNCHANGED_LIMIT: Duration = Duration::from_mins(30);

/// Weakens each ordering of doorbell-core, one at a time, and prints which models notice.
///
/// Progress goes to standard error, the table to standard output.
#[derive(Debug, Parser)]
struct Options {
    /// Sweep only files whose path contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Explore at most this many preemptions in every model, instead of each model's own number.
    #[arg(long)]
    preemptions: Option<usize>,
    /// Leave out models that take longer than this many seconds of CPU time with nothing weakened.
    #[arg(long)]
    slowest: Option<u64>,
}

impl Options {
    /// The bounds of the search, as given.
    fn bounds(&self) -> String {
        let preemptions = self.preemptions.map(|most| format!("--preemptions {most}"));
        let slowest = self.slowest.map(|seconds| format!("--slowest {seconds}"));
        preemptions
            .into_iter()
            .chain(slowest)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error in writing to standard error is ignored.
            let _ = writeln!(io::stderr(), "orderings: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted = |site: &Site| {
        let filter = options.filter.as_ref();
        !site.of_mutant && filter.is_none_or(|part| site.path.contains(part))
    };
    let all = sites(&Tree::read(&root)?);
    let chosen: Vec<&Site> = all.iter().filter(|site| wanted(site)).collect();
    let program = Program::build(&root, options.preemptions)?;
    let reach = reach(&program, options)?;
    all_are_listed(&all, &reach)?;
    let mut table: Vec<Row> = chosen.iter().flat_map(|site| rows(site, &reach)).collect();
    sweep(&mut table, &reach, &program, options)?;
    let text = report::markdown(&table, &options.bounds());
    write!(io::stdout(), "{text}")
}

/// Runs every model without a mutant. A model that is left out shows only what it reached until it was
/// stopped.
fn reach(program: &Program, options: &Options) -> io::Result<Reach> {
    let limit = options.slowest.map_or(UNCHANGED_LIMIT, Duration::from_secs);
    let names = program.models()?;
    let mut models = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let (Run { end, cpu: took }, reached) = program.reach(name, limit)?;
        let seconds = took.as_secs_f64();
        let (number, count) = (index + 1, names.len());
        writeln!(
            io::stderr(),
            "model {number}/{count} {name}: {seconds:.1} s"
        )?;
        let wrong = match end {
            End::Failed(status, said) => format!("fails with nothing weakened: {status}\n{said}"),
            End::TimeUp if options.slowest.is_none() => {
                "does not end with nothing weakened".to_owned()
            }
            End::Passed | End::TimeUp => String::new(),
        };
        if !wrong.is_empty() {
            return Err(io::Error::other(format!("{name} {wrong}")));
        }
        let name = name.clone();
        models.push((Model { name, took }, reached));
    }
    Ok(by_access(&models))
}

/// Checks that the list contains every access that the models reach and that asks for more than `Relaxed`.
/// Otherwise the list is incomplete.
fn all_are_listed(all: &[Site], reach: &Reach) -> io::Result<()> {
    let listed: BTreeSet<String> = all.iter().map(Site::place).collect();
    let in_tests = |place: &str| place.contains("loom") || place.contains("test");
    let is_swept = |place: &&str| place.starts_with(SWEPT) && !in_tests(place);
    let strong = reach.all().filter(|access| access.given != "Relaxed");
    let places = strong.map(|access| access.place.as_str()).filter(is_swept);
    let missing: BTreeSet<&str> = places.filter(|place| !listed.contains(*place)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = Vec::from_iter(missing).join("\n");
    let what = "models reach accesses that the sources do not show";
    Err(io::Error::other(format!("{what}:\n{missing}")))
}

fn sweep(table: &mut [Row], reach: &Reach, program: &Program, options: &Options) -> io::Result<()> {
    let slowest = options.slowest.map_or(Duration::MAX, Duration::from_secs);
    let (count, start) = (table.len(), Instant::now());
    for (index, row) in table.iter_mut().enumerate() {
        judge(row, reach, program, slowest)?;
        let (place, function, access) = (row.site.place(), &row.site.function, &row.site.access);
        let (which, given) = (&row.which, row.given.as_deref().unwrap_or("a variable"));
        let (minutes, number) = (start.elapsed().as_secs() / 60, index + 1);
        let what = format!("{place} {function} {access} {which} {given}");
        let result = report::result(row);
        writeln!(
            io::stderr(),
            "{number}/{count}, {minutes} min: {what}: {result}"
        )?;
    }
    Ok(())
}
