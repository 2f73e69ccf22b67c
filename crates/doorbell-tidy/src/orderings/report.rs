//! The table of the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::mutant::Row;
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
    for folder in rows
        .iter()
        .map(|row| folder_of(&row.site))
        .collect::<BTreeSet<_>>()
    {
        // A string takes every write.
        let _ = writeln!(text, "\n## {folder}\n");
        text += "| file, function | access | asks for | result | s |\n|---|---|---|---|--:|\n";
        let rows = rows.iter().filter(|row| folder_of(&row.site) == folder);
        text.extend(rows.map(line));
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
        for name in [folder_of(&row.site), "all"] {
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
fn folder_of(site: &Site) -> &str {
    let path = site.path.strip_prefix(SWEPT).unwrap_or(&site.path);
    path.split_once('/').map_or(path, |(folder, _)| folder)
}

/// The word for the result, whatever the sources say.
fn found(row: &Row) -> &'static str {
    match row.missed {
        _ if row.tried == 0 => "not reached",
        None => "killed",
        Some(_) if !row.killers.is_empty() => "half killed",
        Some(_) if row.is_undecided => "undecided",
        Some(_) => "survived",
    }
}

/// The word for the result.
pub fn fate(row: &Row) -> &'static str {
    match found(row) {
        "killed" => "killed",
        _ if row.site.redundant.is_some() => "redundant",
        _ if row.site.unshown.is_some() => "unshown",
        other => other,
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
    let (place, result) = (place(&row.site, row.which), result(row));
    let seconds = row.took.as_secs_f64();
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
    let killers = row.killers.iter().map(String::as_str);
    let killers = killers.collect::<Vec<_>>().join(", ");
    let missed = row.missed.as_deref().unwrap_or_default();
    match found(row) {
        "killed" => format!("{word}: {killers}"),
        "half killed" => format!("{word}{reason}: `Relaxed` by {killers}; {missed}"),
        _ if !reason.is_empty() => format!("{word}{reason}"),
        "survived" => format!("{word} {}", models(row)),
        "undecided" => format!("{word}: {missed}"),
        _ if row.reached_by > 0 => {
            let count = row.reached_by;
            format!("{word} but by models that were left out: {count}")
        }
        _ => word.to_owned(),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Killed by so many models, and what none notices.
    fn row(path: &str, killers: usize, missed: Option<&str>) -> Row {
        let killers: BTreeSet<_> = ["`bell::loom::a` (race)".to_owned()]
            .into_iter()
            .take(killers)
            .collect();
        let tried = killers.len() + usize::from(missed.is_some());
        Row {
            site: Site {
                path: format!("{SWEPT}{path}"),
                line: 1,
                column: 1,
                function: "f".to_owned(),
                access: "swap".to_owned(),
                orderings: vec![Some("AcqRel".to_owned())],
                of_mutant: false,
                redundant: None,
                unshown: None,
            },
            which: "first",
            given: Some("AcqRel".to_owned()),
            reached_by: tried,
            tried,
            killers,
            missed: missed.map(str::to_owned),
            is_undecided: false,
            took: Duration::from_millis(500 * tried as u64),
        }
    }

    #[test]
    fn a_half_that_nobody_notices_is_not_killed() {
        let mut row = row("bell/mod.rs", 1, None);
        assert_eq!(fate(&row), "killed");
        row.missed = Some("without Acquire not finished in m".to_owned());
        row.is_undecided = true;
        assert_eq!(fate(&row), "half killed");
        row.killers.clear();
        assert_eq!(fate(&row), "undecided");
        row.is_undecided = false;
        assert_eq!(fate(&row), "survived");
        row.tried = 0;
        assert_eq!(fate(&row), "not reached");
    }

    #[test]
    fn each_ordering_has_a_line_and_is_counted_once() {
        let mut redundant = row("scheduler.rs", 0, Some("Relaxed survived"));
        redundant.site.redundant = Some("of a lock.".to_owned());
        let rows = [
            row("bell/mod.rs", 1, None),
            row("bell/mod.rs", 1, Some("without Acquire survived")),
            redundant,
            row("scheduler.rs", 0, None),
        ];
        let mut unshown = row("group/mod.rs", 0, Some("Relaxed survived"));
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
