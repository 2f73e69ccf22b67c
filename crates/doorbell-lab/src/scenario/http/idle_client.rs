//! A process that holds idle connections.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::child::{allow_descriptors, connections_of, wait_for_end};
use super::exchange::{connect, get};
use crate::error::LabError;

/// Opens the connections (at most as many as this process may have), makes one request on each, and prints
/// how many there are. Closes them when standard input ends, or after `most`.
///
/// # Errors
/// [`LabError::System`] if the server does not answer.
pub(super) fn run(
    address: SocketAddr,
    wanted: u64,
    most: Duration,
    say: impl FnOnce(&str) -> Result<(), LabError>,
) -> Result<(), LabError> {
    allow_descriptors()?;
    let open = |_| -> std::io::Result<TcpStream> {
        let mut stream = connect(address)?;
        get(&mut stream, "/healthz")?;
        Ok(stream)
    };
    let all = (0..connections_of(wanted)).map(open);
    let all = all.collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|source| LabError::System {
        what: "opening a connection that is to be idle",
        source,
    })?;
    say(&format!("{}\n", all.len()))?;
    wait_for_end(most)
}
