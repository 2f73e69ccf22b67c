//! The table of the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::mutant::{Fate, Mutant, Row, Verdict};
use super::sites::{SWEPT, Site};

/// The text above the table, and the meaning of its words.
const HEAD: &str = include_str!("head.md");

/// The table as Markdown. `how` is the command's options as given.
pub fn markdown(rows: &[Row], how: &str) -> String {
    let mut text = HEAD.to_owned();
    if !how.is_empty() {
        text = text.replace("--bin orderings >", &format!("--bin orderings -- {how} >"));
    }
    text.push('\n');
    text.push_str(&counts(rows));
    for folder in rows.iter().map(folder).collect::<BTreeSet<_>>() {
        // A string takes every write.
        let _ = writeln!(text, "\n## {folder}\n");
        text += "| file, function | access | asks for | result | s |\n|---|---|---|---|--:|\n";
        text.extend(
            rows.iter()
                .filter(|row| self::folder(row) == folder)
                .map(line),
        );
    }
    text
}

/// How many orderings of each folder have which result.
fn counts(rows: &[Row]) -> String {
    let columns = [
        "killed",
        "half killed",
        "redundant",
        "unshown",
        "survived",
        "undecided",
        "not reached",
    ];
    let mut folders: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for row in rows {
        for name in [folder(row), "all"] {
            let counts = folders.entry(name).or_default();
            *counts.entry(fate(row)).or_default() += 1;
        }
    }
    let all = folders.remove("all");
    let mut text = format!("| folder | orderings | {} |\n|---|--:", columns.join(" | "));
    text.push_str(&"|--:".repeat(columns.len()));
    text.push_str("|\n");
    for (name, counts) in folders.into_iter().chain(all.map(|all| ("**all**", all))) {
        let cells = columns.map(|column| counts.get(column).copied().unwrap_or(0).to_string());
        let sum: usize = counts.values().sum();
        let _ = writeln!(text, "| {name} | {sum} | {} |", cells.join(" | "));
    }
    text
}

/// The folder below the sources, or the file that stands there itself.
fn folder(row: &Row) -> &str {
    folder_of(&row.site)
}

fn folder_of(site: &Site) -> &str {
    let path = site.path.strip_prefix(SWEPT).unwrap_or(&site.path);
    path.split_once('/').map_or(path, |(folder, _)| folder)
}

/// The word for the result.
pub fn fate(row: &Row) -> &'static str {
    match row.fate() {
        Fate::Killed => "killed",
        _ if row.site.redundant.is_some() => "redundant",
        _ if row.site.unshown.is_some() => "unshown",
        Fate::Half => "half killed",
        Fate::Survived => "survived",
        Fate::Undecided => "undecided",
        Fate::NotReached => "not reached",
    }
}

/// The first two cells of its row: its place.
fn place(site: &Site, which: &str) -> String {
    let path = site.path.strip_prefix(SWEPT).unwrap_or(&site.path);
    let file = path.split_once('/').map_or(path, |(_, file)| file);
    let failed = if which == "second" { ", failed" } else { "" };
    let (function, access) = (&site.function, &site.access);
    format!("| {file}, `{function}` | `{access}`{failed} |")
}

/// The sites that an earlier table lacks, and those that it has but `sites` does not. Several sites of a
/// function with the same access count separately.
pub fn stale(table: &str, sites: &[Site]) -> Vec<String> {
    let mut rows: BTreeMap<String, i32> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for site in sites.iter().filter(|site| !site.of_mutant) {
        let fence = site.is_fence().then_some(("fence", Some("SeqCst")));
        let named = ["first", "second"].into_iter().zip(&site.orderings);
        let named = named.map(|(which, name)| (which, name.as_deref()));
        for (which, name) in fence.into_iter().chain(named) {
            let row = format!("{}: {}", folder_of(site), place(site, which));
            match name {
                None => {
                    unknown.insert(row);
                }
                Some("Relaxed") => {}
                Some(_) => *rows.entry(row).or_default() += 1,
            }
        }
    }
    let mut folder = "";
    for line in table.lines() {
        folder = line.strip_prefix("## ").unwrap_or(folder);
        let cells: Vec<&str> = line.splitn(4, '|').collect();
        if let ["", file, access, _] = cells[..]
            && access.contains('`')
        {
            let row = format!("{folder}: |{file}|{access}|");
            *rows.entry(row).or_default() -= 1;
        }
    }
    // Only the models know the value in a variable.
    rows.retain(|row, left| *left != 0 && !unknown.contains(row));
    let said = |(row, left): (String, i32)| match left {
        1.. => format!("no row for {row}"),
        _ => format!("no ordering for {row}"),
    };
    rows.into_iter().map(said).collect()
}

fn line(row: &Row) -> String {
    let given = row.given.as_deref().unwrap_or("a variable");
    let given = if row.which == "fence" { "fence" } else { given };
    // An empty sum of floating-point numbers is -0.0.
    let all = row.mutants.iter();
    let seconds = all.fold(0.0, |sum, mutant| sum + mutant.seconds);
    let (place, result) = (place(&row.site, &row.which), result(row));
    format!("{place} {given} | {result} | {seconds:.1} |\n")
}

/// The result, and the models behind it.
pub fn result(row: &Row) -> String {
    let word = fate(row);
    let reason = match word {
        "redundant" => row.site.redundant.as_deref(),
        "unshown" => row.site.unshown.as_deref(),
        _ => None,
    };
    let reason = reason.map_or(String::new(), |reason| format!(" because {reason}"));
    let killers: BTreeSet<String> = row.mutants.iter().filter_map(killer).collect();
    let killers = killers.into_iter().collect::<Vec<_>>().join(", ");
    let others: Vec<String> = row.mutants.iter().filter_map(other).collect();
    let others = others.join(", ");
    match row.fate() {
        Fate::Killed => format!("{word}: {killers}"),
        Fate::Half => format!("{word}{reason}: `Relaxed` by {killers}; {others}"),
        Fate::Survived if reason.is_empty() => format!("{word} {}", models(row)),
        Fate::NotReached if reason.is_empty() && row.reached_by > 0 => {
            let count = row.reached_by;
            format!("{word} but by models that were left out: {count}")
        }
        Fate::Undecided if reason.is_empty() => format!("{word}: {others}"),
        _ => format!("{word}{reason}"),
    }
}

/// How many models it survived.
fn models(row: &Row) -> String {
    match (row.tried, row.reached_by) {
        (1, 1) => "1 model".to_owned(),
        (tried, all) if tried == all => format!("{all} models"),
        (tried, all) => format!("{tried} of {all} models"),
    }
}

fn killer(mutant: &Mutant) -> Option<String> {
    match &mutant.verdict {
        Verdict::Killed { by, how } => Some(format!("`{by}` ({how})")),
        _ => None,
    }
}

/// For a mutant that survives: the missing half, or what was not finished.
fn other(mutant: &Mutant) -> Option<String> {
    let half = match mutant.to.as_str() {
        "Acquire" => "without Release",
        "Release" => "without Acquire",
        other => other,
    };
    match &mutant.verdict {
        Verdict::Killed { .. } => None,
        Verdict::Survived => Some(format!("{half} survived")),
        Verdict::Undecided { unfinished } => {
            Some(format!("{half} not finished in {}", unfinished.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, redundant: Option<&str>, verdicts: &[(&str, Verdict)]) -> Row {
        let mutant = |(to, verdict): &(&str, Verdict)| Mutant {
            to: (*to).to_owned(),
            verdict: verdict.clone(),
            seconds: 0.5,
        };
        Row {
            site: Site {
                path: format!("{SWEPT}{path}"),
                line: 1,
                column: 1,
                function: "f".to_owned(),
                access: "swap".to_owned(),
                orderings: vec![Some("AcqRel".to_owned())],
                of_mutant: false,
                redundant: redundant.map(str::to_owned),
                unshown: None,
            },
            which: "first".to_owned(),
            given: Some("AcqRel".to_owned()),
            reached_by: verdicts.len(),
            tried: verdicts.len(),
            mutants: verdicts.iter().map(mutant).collect(),
        }
    }

    #[test]
    fn each_ordering_has_a_line_and_is_counted_once() {
        let killed = || Verdict::Killed {
            by: "bell::loom::a".to_owned(),
            how: "race".to_owned(),
        };
        let rows = [
            row("bell/mod.rs", None, &[("Relaxed", killed())]),
            row(
                "bell/mod.rs",
                None,
                &[("Relaxed", killed()), ("Release", Verdict::Survived)],
            ),
            row(
                "scheduler.rs",
                Some("of a lock."),
                &[("Relaxed", Verdict::Survived)],
            ),
            row("scheduler.rs", None, &[]),
        ];
        let mut unshown = row("group/mod.rs", None, &[("Relaxed", Verdict::Survived)]);
        unshown.site.unshown = Some("nobody looks.".to_owned());
        let rows = rows.into_iter().chain([unshown]).collect::<Vec<_>>();
        let text = markdown(&rows, "--preemptions 2");
        for line in [
            "cargo run -p doorbell-tidy --bin orderings -- --preemptions 2 > docs/orderings.md",
            "| bell | 2 | 1 | 1 | 0 | 0 | 0 | 0 | 0 |",
            "| **all** | 5 | 1 | 1 | 1 | 1 | 0 | 0 | 1 |",
            "## scheduler.rs",
            "| mod.rs, `f` | `swap` | AcqRel | killed: `bell::loom::a` (race) | 0.5 |",
            "| mod.rs, `f` | `swap` | AcqRel | half killed: `Relaxed` by `bell::loom::a` (race); without Acquire survived | 1.0 |",
            "| scheduler.rs, `f` | `swap` | AcqRel | redundant because of a lock. | 0.5 |",
            "| scheduler.rs, `f` | `swap` | AcqRel | not reached | 0.0 |",
            "| mod.rs, `f` | `swap` | AcqRel | unshown because nobody looks. | 0.5 |",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
