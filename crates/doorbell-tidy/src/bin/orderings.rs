//! Weakens each ordering of `doorbell-core`, one at a time, and prints which models notice.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Parser;
use doorbell_tidy::Tree;
use doorbell_tidy::orderings::models::{End, Model, Program, Reach, by_access};
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

fn main() -> Result<()> {
    let options = Options::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted = |site: &&Site| {
        let filter = options.filter.as_ref();
        !site.of_mutant && filter.is_none_or(|part| site.path.contains(part))
    };
    let all = sites(&Tree::read(&root)?);
    let program = Program::build(&root, options.preemptions)?;
    let reach = reach(&program, &options)?;
    all_are_listed(&all, &reach)?;
    let chosen = all.iter().filter(wanted);
    let mut table: Vec<Row> = chosen.flat_map(|site| rows(site, &reach)).collect();
    sweep(&mut table, &reach, &program, &options)?;
    let given: Vec<String> = std::env::args().skip(1).collect();
    let text = report::markdown(&table, &given.join(" "));
    Ok(write!(io::stdout(), "{text}")?)
}

/// Runs every model without a mutant. A model that is left out shows only what it reached until it was
/// stopped.
fn reach(program: &Program, options: &Options) -> Result<Reach> {
    let limit = options.slowest.map_or(UNCHANGED_LIMIT, Duration::from_secs);
    let names = program.models()?;
    let count = names.len();
    let mut models = Vec::new();
    for (name, number) in names.into_iter().zip(1..) {
        let (end, took, reached) = program.reach(&name, limit)?;
        let seconds = took.as_secs_f64();
        writeln!(
            io::stderr(),
            "model {number}/{count} {name}: {seconds:.1} s"
        )?;
        match end {
            End::Failed(status, said) => {
                bail!("{name} fails with nothing weakened: {status}\n{said}")
            }
            End::TimeUp if options.slowest.is_none() => {
                bail!("{name} does not end with nothing weakened")
            }
            End::Passed | End::TimeUp => models.push((Model { name, took }, reached)),
        }
    }
    Ok(by_access(models))
}

/// Checks that the list contains every access that the models reach and that asks for more than `Relaxed`.
/// Otherwise the list is incomplete.
fn all_are_listed(all: &[Site], reach: &Reach) -> Result<()> {
    let listed: BTreeSet<String> = all.iter().map(Site::place).collect();
    let is_swept = |place: &str| {
        place.starts_with(SWEPT) && !place.contains("loom") && !place.contains("test")
    };
    let missing = reach.keys().filter(|[place, _, given]| {
        given != "Relaxed" && is_swept(place) && !listed.contains(place)
    });
    let missing: BTreeSet<&str> = missing.map(|[place, ..]| &**place).collect();
    let places = Vec::from_iter(&missing);
    ensure!(
        missing.is_empty(),
        "models reach accesses that the sources do not show: {places:?}"
    );
    Ok(())
}

fn sweep(table: &mut [Row], reach: &Reach, program: &Program, options: &Options) -> Result<()> {
    let slowest = options.slowest.map_or(Duration::MAX, Duration::from_secs);
    let (count, start) = (table.len(), Instant::now());
    for (row, number) in table.iter_mut().zip(1..) {
        judge(row, reach, program, slowest)?;
        let (place, function, access) = (row.site.place(), &row.site.function, &row.site.access);
        let (which, given) = (row.which, row.given.as_deref().unwrap_or("a variable"));
        let minutes = start.elapsed().as_secs() / 60;
        let what = format!("{place} {function} {access} {which} {given}");
        let result = report::result(row);
        writeln!(
            io::stderr(),
            "{number}/{count}, {minutes} min: {what}: {result}"
        )?;
    }
    Ok(())
}
