//! A socket that gets ready beside one lone task that yields.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::super::trial::{Outcome, Trial};
use super::crowd::start_reader;
use super::jobs::{Job, Part, Scene, Tally};
use super::peers::Peer;
use crate::error::LabError;
use crate::measure::{Spread, median};

/// Its name in the table.
pub(super) const VARIANT: &str = "socket beside a lone task";

/// This on one runtime with one worker.
#[derive(Debug)]
pub(super) struct Lone<P> {
    is_baseline: bool,
    host: Option<P>,
}

impl<P> Lone<P> {
    pub(super) fn new(is_baseline: bool) -> Self {
        Self {
            is_baseline,
            host: None,
        }
    }
}

impl<P: Peer> Trial for Lone<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn variant(&self) -> &'static str {
        VARIANT
    }

    fn group(&self) -> &'static str {
        VARIANT
    }

    fn is_baseline(&self) -> bool {
        self.is_baseline
    }

    fn setup(&mut self) -> Result<(), LabError> {
        self.host = Some(P::start(1)?);
        Ok(())
    }

    fn run(&mut self, amount_ms: u32) -> Result<Outcome, LabError> {
        let host = self.host.as_mut().ok_or(LabError::NotSetUp)?;
        let (scene, all) = Scene::new();
        let stream = start_reader(host, &scene)?;
        host.launch(Job {
            scene: Arc::clone(&scene),
            part: Part::YieldAndWrite(stream),
        })?;
        thread::sleep(Duration::from_millis(u64::from(amount_ms)));
        scene.end();
        drop(scene);
        let tally = Tally::of(&all);
        if tally.yields.is_empty() || tally.yields.len() != tally.read.len() {
            return Err(LabError::TaskLost);
        }
        let mut figures = BTreeMap::new();
        figures.extend(median(&tally.yields).map(|count| ("yields_count", count)));
        let ends = Spread::of(&tally.yields);
        figures.extend(ends.map(|ends| ("yields_max_count", ends.max)));
        Ok(Outcome {
            operations: tally.read.len() as u64,
            figures,
            late: tally.read,
            ..Outcome::default()
        })
    }

    fn teardown(&mut self) -> Result<(), LabError> {
        self.host.take().map_or(Ok(()), P::stop)
    }
}
