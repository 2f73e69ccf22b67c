//! The builder of tests that are run once more with shuffled turns: see the step `shuffled` of `.ci/run`.

/// Stands in for [`doorbell::Builder`].
pub(crate) struct Builder;

impl Builder {
    /// A builder whose runtime shuffles the turns of its tasks, if the environment gives a seed.
    #[expect(clippy::new_ret_no_self, reason = "it is called as doorbell's is")]
    pub(crate) fn new() -> doorbell::Builder {
        let builder = doorbell::Builder::new();
        match std::env::var("DOORBELL_TEST_SHUFFLE") {
            Ok(seed) => builder.shuffle(seed.parse().expect("a seed is a number")),
            Err(_) => builder,
        }
    }
}
