//! [`Idle`]: which connection has been idle for the longest time.

use super::progress::Progress;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many connections one look at all of them finds. A look costs a cache miss for each connection, and each
/// of those found saves a look.
const FOUND: usize = 64;

/// The connections of a server, for its accepting task.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// All that are open, and some that are not.
    all: Vec<Arc<Progress>>,
    /// Those that had been idle for the longest time at the last look, the oldest last.
    oldest: Vec<(u64, Arc<Progress>)>,
}

impl Idle {
    /// Adds a connection; `open` is the number of all that are open.
    pub(super) fn add(&mut self, progress: Arc<Progress>, open: usize) {
        if self.all.len() > 2 * open + FOUND {
            // Otherwise only the connection itself has it.
            self.all.retain(|it| Arc::strong_count(it) > 1);
        }
        self.all.push(progress);
    }

    /// Asks the connection to leave that has been idle for the longest time. Returns whether there is one that
    /// was not asked before.
    pub(super) fn ask_oldest(&mut self) -> bool {
        self.ask_found() || {
            self.find();
            self.ask_found()
        }
    }

    fn ask_found(&mut self) -> bool {
        while let Some((since, progress)) = self.oldest.pop() {
            // It may have served a request meanwhile.
            if progress.idle_since() == Some(since) {
                progress.ask();
                return true;
            }
        }
        false
    }

    fn find(&mut self) {
        let idle = |it: &Arc<Progress>| Some((it.idle_since()?, Arc::clone(it)));
        self.oldest = self.all.iter().filter_map(idle).collect();
        self.oldest
            .sort_unstable_by_key(|(since, _)| Reverse(*since));
        let younger = self.oldest.len().saturating_sub(FOUND);
        self.oldest.drain(..younger);
    }
}
