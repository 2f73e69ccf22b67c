//! The options of `doorbell info`.

use clap::Args;

/// Options of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Print JSON instead of the table; unknown values are `null`
    #[arg(long)]
    pub json: bool,
}
