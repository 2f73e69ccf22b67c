//! The `doorbell` program. All of it is in the library `doorbell_lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    doorbell_lab::main()
}
