//! One ordering, weakened in every relevant way, and whether the models notice.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use super::models::{End, Model, Program, Reach, Reached, Run};
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

/// One ordering of a site.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where it is used.
    pub site: Site,
    /// `first`, `second` or `fence`.
    pub which: String,
    /// Its value; `None` if a variable holds it and no model reaches it.
    pub given: Option<String>,
    /// How many models reach it.
    pub reached_by: usize,
    /// How many of them, the fastest, were to run with it weakened.
    pub tried: usize,
    /// The weaker orderings, weakest first.
    pub mutants: Vec<Mutant>,
}

/// A weaker ordering, and its verdict.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The new ordering. For a fence, `Relaxed` means that it is removed.
    pub to: String,
    /// Whether a model notices.
    pub verdict: Verdict,
    /// The CPU time of the runs, in seconds.
    pub seconds: f64,
}

/// Whether a model notices a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One does.
    Killed {
        /// Which model.
        by: String,
        /// How the model failed.
        how: String,
    },
    /// Every model that reaches it passes.
    Survived,
    /// None failed, but some were not run to their end.
    Undecided {
        /// The models that were not run to their end.
        unfinished: Vec<String>,
    },
}

/// The result for an ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Each mutant is noticed.
    Killed,
    /// The weakest mutant is noticed, but not each half of an `AcqRel`.
    Half,
    /// No mutant is noticed.
    Survived,
    /// No model failed, and some were not run to their end.
    Undecided,
    /// No model reaches it, or none that was to be run.
    NotReached,
}

impl Row {
    /// The result for this ordering.
    pub fn fate(&self) -> Fate {
        let killed = |mutant: &&Mutant| matches!(mutant.verdict, Verdict::Killed { .. });
        let undecided = |mutant: &Mutant| matches!(mutant.verdict, Verdict::Undecided { .. });
        match self.mutants.iter().filter(killed).count() {
            _ if self.tried == 0 => Fate::NotReached,
            count if count == self.mutants.len() => Fate::Killed,
            0 if self.mutants.iter().any(undecided) => Fate::Undecided,
            0 => Fate::Survived,
            _ => Fate::Half,
        }
    }
}

/// The orderings of a site that can be weakened, without results. The value in a variable is known from the
/// models that reach it.
pub fn rows(site: &Site, reach: &Reach) -> Vec<Row> {
    let row = |which: &str, given: Option<String>| Row {
        site: site.clone(),
        which: which.to_owned(),
        given,
        reached_by: 0,
        tried: 0,
        mutants: Vec::new(),
    };
    if site.is_fence() {
        return vec![row("fence", Some("SeqCst".to_owned()))];
    }
    let mut rows = Vec::new();
    for (which, literal) in ["first", "second"].iter().zip(&site.orderings) {
        let place = site.place();
        let is_it = |access: &&Reached| access.place == place && access.which == *which;
        let seen = reach.all().filter(is_it);
        let given: Vec<Option<String>> = match literal {
            Some(name) => vec![Some(name.clone())],
            None => seen.map(|access| Some(access.given.clone())).collect(),
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
pub fn judge(row: &mut Row, reach: &Reach, program: &Program, slowest: Duration) -> io::Result<()> {
    let Some(given) = row.given.clone() else {
        return Ok(());
    };
    let access = Reached {
        place: row.site.place(),
        which: row.which.clone(),
        given,
    };
    let mut models = reach.models(&access).to_vec();
    row.reached_by = models.len();
    models.retain(|model| model.took <= slowest);
    row.tried = models.len();
    if models.is_empty() {
        return Ok(());
    }
    for &to in weaker(&row.site.access, &access) {
        let (verdict, cpu) = hunt(&access, to, &models, program)?;
        let killer = match &verdict {
            Verdict::Killed { by, .. } => models.iter().position(|model| model.name == *by),
            _ => None,
        };
        row.mutants.push(Mutant {
            to: to.to_owned(),
            verdict,
            seconds: cpu.as_secs_f64(),
        });
        match killer {
            // The model that notices the weakest is likely to notice the others.
            Some(index) => models[..=index].rotate_right(1),
            // A stronger one would survive as well.
            None => break,
        }
    }
    Ok(())
}

/// The orderings to try instead of that of an access: the weakest, then those in between.
fn weaker(access: &str, reached: &Reached) -> &'static [&'static str] {
    let both = matches!(reached.given.as_str(), "AcqRel" | "SeqCst");
    let one_way = matches!(access, "load" | "store") || reached.which != "first";
    let all = &["Relaxed", "Acquire", "Release"];
    if both && !one_way { all } else { &all[..1] }
}

/// Runs the models until one notices. Also returns the CPU time of all of them.
fn hunt(
    access: &Reached,
    to: &str,
    models: &[Model],
    program: &Program,
) -> io::Result<(Verdict, Duration)> {
    let (mut unfinished, mut all) = (Vec::new(), Duration::ZERO);
    for model in models {
        let limit = model.took * PATIENCE + GRACE;
        let Run { end, cpu } = program.weakened(&model.name, access, to, limit)?;
        all += cpu;
        let how = match end {
            End::Passed => continue,
            End::TimeUp => UNDECIDED.to_owned(),
            End::Failed(status, said) => how(&said, status),
        };
        let by = model.name.clone();
        if how != UNDECIDED {
            return Ok((Verdict::Killed { by, how }, all));
        }
        unfinished.push(by);
    }
    if unfinished.is_empty() {
        return Ok((Verdict::Survived, all));
    }
    Ok((Verdict::Undecided { unfinished }, all))
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
    use std::collections::BTreeSet;
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

    fn access(which: &str, given: &str) -> Reached {
        Reached {
            place: "a.rs:1:2".to_owned(),
            which: which.to_owned(),
            given: given.to_owned(),
        }
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
        let reach = by_access(&[(model, seen)]);
        let given = |site: &Site| -> Vec<(String, Option<String>)> {
            rows(site, &reach)
                .into_iter()
                .map(|row| (row.which, row.given))
                .collect()
        };
        let first = |name: &str| ("first".to_owned(), Some(name.to_owned()));
        let exchange = site("compare_exchange", &[None, Some("Relaxed")]);
        assert_eq!(given(&exchange), [first("AcqRel"), first("Release")]);
        let mut elsewhere = site("fetch_or", &[None]);
        elsewhere.line = 9;
        assert_eq!(given(&elsewhere), [("first".to_owned(), None)]);
        assert_eq!(
            given(&site("fence_light", &[])),
            [("fence".to_owned(), Some("SeqCst".to_owned()))]
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

    #[test]
    fn a_half_that_nobody_notices_is_not_killed() {
        let mut row = rows(&site("swap", &[Some("AcqRel")]), &Reach::default()).remove(0);
        assert_eq!(row.fate(), Fate::NotReached);
        row.tried = 1;
        let killed = Verdict::Killed {
            by: "m".to_owned(),
            how: "race".to_owned(),
        };
        let mutant = |verdict: &Verdict| Mutant {
            to: "Relaxed".to_owned(),
            verdict: verdict.clone(),
            seconds: 0.0,
        };
        row.mutants = vec![mutant(&killed), mutant(&killed)];
        assert_eq!(row.fate(), Fate::Killed);
        row.mutants[1] = mutant(&Verdict::Survived);
        assert_eq!(row.fate(), Fate::Half);
        row.mutants.remove(0);
        assert_eq!(row.fate(), Fate::Survived);
        let unfinished = vec!["m".to_owned()];
        row.mutants = vec![mutant(&Verdict::Undecided { unfinished })];
        assert_eq!(row.fate(), Fate::Undecided);
    }
}
