//! One ordering, weakened in every relevant way, and whether the models notice.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Result;

use super::models::{Access, End, Model, Program, Reach};
use super::sites::Site;

/// With a mutant, a model may take this many times as long as without, plus [`GRACE`]: a weaker ordering
/// lets threads read more values, so there is more to explore.
const PATIENCE: u32 = 5;

/// What a model may take beyond that.
const GRACE: Duration = Duration::from_secs(20);

/// The messages of the model checker and the models; the first match counts.
const SAYINGS: [(&str, &str); 4] = [
    ("not all were run", UNDECIDED),
    ("Causality violation", "race"),
    ("deadlock; threads", "deadlock"),
    ("exceeded maximum number of branches", "no progress"),
];

/// The result of a model that was not run to its end.
const UNDECIDED: &str = "undecided";

/// One ordering of a site, and whether models notice when it is weakened.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it is used.
    pub site: Site,
    /// `first`, `second` or `fence`.
    pub which: &'static str,
    /// Its value; `None` if a variable holds it and no model reaches it.
    pub given: Option<String>,
    /// How many models reach it.
    pub reached_by: usize,
    /// How many of them, the fastest, were to run with it weakened.
    pub tried: usize,
    /// The models that notice a weaker ordering, and how.
    pub killers: BTreeSet<String>,
    /// The weaker ordering that no model notices, and what that means.
    pub missed: Option<String>,
    /// Whether some models were not run to their end with that one.
    pub is_undecided: bool,
    /// The CPU time of all runs.
    pub took: Duration,
}

/// The orderings of a site that can be weakened, without results. The value in a variable is known from the
/// models that reach it.
pub fn rows(site: &Site, reach: &Reach) -> Vec<Row> {
    let row = |which, given| Row {
        site: site.clone(),
        which,
        given,
        reached_by: 0,
        tried: 0,
        killers: BTreeSet::new(),
        missed: None,
        is_undecided: false,
        took: Duration::ZERO,
    };
    if site.is_fence() {
        return vec![row("fence", Some("SeqCst".to_owned()))];
    }
    let mut rows = Vec::new();
    for (which, literal) in ["first", "second"].into_iter().zip(&site.orderings) {
        let place = site.place();
        let is_it = |access: &&Access| access[0] == place && access[1] == which;
        let seen = reach.keys().filter(is_it);
        let given: Vec<Option<String>> = match literal {
            Some(name) => vec![Some(name.clone())],
            None => seen.map(|access| Some(access[2].clone())).collect(),
        };
        let given = if given.is_empty() { vec![None] } else { given };
        let weakens = |given: &Option<String>| given.as_deref() != Some("Relaxed");
        let weakened = given.into_iter().filter(weakens);
        rows.extend(weakened.map(|given| row(which, given)));
    }
    rows
}

/// Determines the result for `row`, by models that take at most `slowest` without a mutant.
///
/// # Errors
/// If a model does not start.
pub fn judge(row: &mut Row, reach: &Reach, program: &Program, slowest: Duration) -> Result<()> {
    let Some(given) = row.given.clone() else {
        return Ok(());
    };
    let access = [row.site.place(), row.which.to_owned(), given];
    let mut models = reach.get(&access).cloned().unwrap_or_default();
    row.reached_by = models.len();
    models.retain(|model| model.took <= slowest);
    row.tried = models.len();
    if models.is_empty() {
        return Ok(());
    }
    for &to in weaker(&row.site.access, &access) {
        if let Some(index) = hunt(row, &access, to, &models, program)? {
            // The model that notices the weakest is likely to notice the others.
            models[..=index].rotate_right(1);
        } else {
            // A stronger one would survive as well.
            break;
        }
    }
    Ok(())
}

/// The orderings to try instead of that of an access: the weakest, then those in between.
fn weaker(access: &str, [_, which, given]: &Access) -> &'static [&'static str] {
    let both = matches!(given.as_str(), "AcqRel" | "SeqCst");
    let one_way = matches!(access, "load" | "store") || which != "first";
    let all = &["Relaxed", "Acquire", "Release"];
    if both && !one_way { all } else { &all[..1] }
}

/// Runs the models until one notices. Which one that was.
fn hunt(
    row: &mut Row,
    access: &Access,
    to: &str,
    models: &[Model],
    program: &Program,
) -> Result<Option<usize>> {
    let mut unfinished = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let limit = model.took * PATIENCE + GRACE;
        let (end, cpu) = program.weakened(&model.name, access, to, limit)?;
        row.took += cpu;
        let how = match end {
            End::Passed => continue,
            End::TimeUp => UNDECIDED.to_owned(),
            End::Failed(status, said) => how(&said, status),
        };
        if how != UNDECIDED {
            row.killers.insert(format!("`{}` ({how})", model.name));
            return Ok(Some(index));
        }
        unfinished.push(&*model.name);
    }
    let half = match to {
        "Acquire" => "without Release",
        "Release" => "without Acquire",
        other => other,
    };
    row.is_undecided = !unfinished.is_empty();
    row.missed = Some(if row.is_undecided {
        format!("{half} not finished in {}", unfinished.join(", "))
    } else {
        format!("{half} survived")
    });
    Ok(None)
}

/// How a model failed, by its output and exit status.
fn how(said: &str, status: ExitStatus) -> String {
    let known = SAYINGS.iter().find(|(saying, _)| said.contains(saying));
    let is_before = |line: &&str| !line.contains("panicked at");
    let first = said.lines().skip_while(is_before).nth(1).map(str::trim);
    match (known, first) {
        (Some((_, how)), _) => (*how).to_owned(),
        (None, Some(first)) => first.replace('`', "").replace('|', "/"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::by_access;
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn site(access: &str, orderings: &[Option<&str>]) -> Site {
        Site {
            path: "a.rs".to_owned(),
            line: 1,
            column: 2,
            function: "f".to_owned(),
            access: access.to_owned(),
            orderings: orderings
                .iter()
                .map(|name| name.map(str::to_owned))
                .collect(),
            of_mutant: false,
            redundant: None,
            unshown: None,
        }
    }

    fn access(which: &str, given: &str) -> Access {
        ["a.rs:1:2", which, given].map(str::to_owned)
    }

    #[test]
    fn a_variable_is_what_the_models_saw_in_it() {
        let seen = BTreeSet::from([
            access("first", "AcqRel"),
            access("first", "Release"),
            access("second", "Acquire"),
        ]);
        let model = Model {
            name: "m".to_owned(),
            took: Duration::ZERO,
        };
        let reach = by_access(vec![(model, seen)]);
        let given = |site: &Site| -> Vec<(&str, Option<String>)> {
            rows(site, &reach)
                .into_iter()
                .map(|row| (row.which, row.given))
                .collect()
        };
        let first = |name: &str| ("first", Some(name.to_owned()));
        let exchange = site("compare_exchange", &[None, Some("Relaxed")]);
        assert_eq!(given(&exchange), [first("AcqRel"), first("Release")]);
        let mut elsewhere = site("fetch_or", &[None]);
        elsewhere.line = 9;
        assert_eq!(given(&elsewhere), [("first", None)]);
        assert_eq!(
            given(&site("fence_light", &[])),
            [("fence", Some("SeqCst".to_owned()))]
        );
    }

    #[test]
    fn only_what_reads_and_writes_has_two_halves() {
        assert_eq!(
            weaker("swap", &access("first", "AcqRel")),
            ["Relaxed", "Acquire", "Release"]
        );
        assert_eq!(weaker("load", &access("first", "SeqCst")), ["Relaxed"]);
        assert_eq!(
            weaker("compare_exchange", &access("second", "Acquire")),
            ["Relaxed"]
        );
        assert_eq!(
            weaker("fence_heavy", &access("fence", "SeqCst")),
            ["Relaxed"]
        );
    }

    #[test]
    fn a_search_that_was_not_finished_kills_nothing() {
        let panic =
            |text: &str| format!("1 executions\nthread 'x' panicked at a.rs:1:2:\n{text}\nnote");
        let status = ExitStatus::from_raw(6);
        assert_eq!(how(&panic("not all were run"), status), UNDECIDED);
        assert_eq!(
            how(&panic("Causality violation: Concurrent"), status),
            "race"
        );
        assert_eq!(how(&panic("a `task` was lost"), status), "a task was lost");
        assert_eq!(
            how("free(): invalid pointer", status),
            "signal: 6 (SIGABRT)"
        );
    }
}
