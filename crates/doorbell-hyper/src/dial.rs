//! [`Dial`]: how one of several addresses is connected to.

use doorbell::net::{TcpSocket, TcpStream};
use doorbell::time::timeout;
use futures_util::future::{Either, select};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

/// Settings of [`DoorbellConnector`](crate::DoorbellConnector), which explains them.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) timeout: Option<Duration>,
    /// How long the first kind of addresses is tried alone; `None` if all are tried in turn.
    pub(crate) head_start: Option<Duration>,
    pub(crate) local_v4: Option<Ipv4Addr>,
    pub(crate) local_v6: Option<Ipv6Addr>,
}

impl Default for Dial {
    fn default() -> Self {
        Dial {
            timeout: None,
            head_start: Some(Duration::from_millis(300)),
            local_v4: None,
            local_v6: None,
        }
    }
}

/// The address that was tried last, and its error.
type Refused = (SocketAddr, io::Error);

impl Dial {
    /// The addresses that fit the address of this end.
    pub(crate) fn usable(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if self.local_v4.is_some() != self.local_v6.is_some() {
            addresses.retain(|address| address.is_ipv4() == self.local_v4.is_some());
        }
        addresses
    }

    /// Connects to one of these; there is at least one.
    pub(crate) async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Refused> {
        let is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
        let of_kind = |wanted| {
            addresses
                .iter()
                .copied()
                .filter(move |it| it.is_ipv4() == wanted)
        };
        let first: Vec<_> = of_kind(is_v4).collect();
        let second: Vec<_> = of_kind(!is_v4).collect();
        let head_start = match self.head_start {
            Some(head_start) if !second.is_empty() => head_start,
            _ => return self.in_turn(addresses).await,
        };
        let mut first = pin!(self.in_turn(&first));
        match timeout(head_start, first.as_mut()).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(_)) => return self.in_turn(&second).await,
            Err(_) => {}
        }
        let second = pin!(self.in_turn(&second));
        match select(first, second).await {
            Either::Left((Ok(stream), _)) | Either::Right((Ok(stream), _)) => Ok(stream),
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
        }
    }

    /// Connects to the first of these that accepts.
    async fn in_turn(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Refused> {
        let share = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let limit = self.timeout.map(|limit| limit / share);
        let mut refused = None;
        for &address in addresses {
            match self.one(address, limit).await {
                Ok(stream) => {
                    // A failure only makes requests slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => refused = Some((address, error)),
            }
        }
        let none = || {
            (
                SocketAddr::from(([0; 4], 0)),
                io::ErrorKind::AddrNotAvailable.into(),
            )
        };
        Err(refused.unwrap_or_else(none))
    }

    async fn one(&self, address: SocketAddr, limit: Option<Duration>) -> io::Result<TcpStream> {
        let (socket, local) = if address.is_ipv4() {
            (TcpSocket::new_v4()?, self.local_v4.map(IpAddr::V4))
        } else {
            (TcpSocket::new_v6()?, self.local_v6.map(IpAddr::V6))
        };
        if let Some(local) = local {
            socket.bind(SocketAddr::new(local, 0))?;
        }
        let connecting = socket.connect(address);
        match limit {
            None => connecting.await,
            Some(limit) => timeout(limit, connecting)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::net::TcpListener;
    use doorbell::time::Instant;
    use futures::FutureExt as _;
    use futures::future::join_all;

    /// Far longer than anything here takes.
    const LONG: Duration = Duration::from_secs(20);

    /// A listener whose queue is full. A client that connects to it waits.
    async fn full(address: &str) -> Option<(TcpListener, Vec<TcpStream>)> {
        let address: SocketAddr = address.parse().unwrap();
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.ok()?;
        socket.bind(address).ok()?;
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let all = join_all((0..8).map(|_| {
            let time = Duration::from_millis(200);
            timeout(time, TcpStream::connect(address))
        }));
        let connected = all.await.into_iter().flatten().flatten();
        Some((listener, connected.collect()))
    }

    #[doorbell::test]
    async fn another_kind_of_address_is_tried_beside_one_that_does_not_answer() {
        // A machine may have no IPv6.
        let Some((stuck, _filled)) = full("[::1]:0").await else {
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let addresses = [stuck.local_addr().unwrap(), good];
        let start = Instant::now();
        let stream = timeout(LONG, Dial::default().connect(&addresses)).await;
        assert_eq!(stream.unwrap().unwrap().peer_addr().unwrap(), good);
        assert!(start.elapsed() >= Duration::from_millis(300));
        // Alone, or in turn, it waits.
        let in_turn = Dial {
            head_start: None,
            ..Dial::default()
        };
        assert!(in_turn.connect(&addresses).now_or_never().is_none());
        // One that is refused is given up at once.
        drop(stuck);
        let long = Dial {
            head_start: Some(LONG * 10),
            ..Dial::default()
        };
        let stream = timeout(LONG, long.connect(&addresses)).await;
        assert_eq!(stream.unwrap().unwrap().peer_addr().unwrap(), good);
    }

    #[doorbell::test]
    async fn the_time_for_a_connection_is_limited() {
        let (stuck, _filled) = full("127.0.0.1:0").await.unwrap();
        let address = stuck.local_addr().unwrap();
        let dial = Dial {
            timeout: Some(Duration::from_millis(200)),
            ..Dial::default()
        };
        let (last, error) = dial.connect(&[address, address]).await.unwrap_err();
        assert_eq!((last, error.kind()), (address, io::ErrorKind::TimedOut));
    }

    #[test]
    fn addresses_fit_the_address_of_this_end() {
        let [v4, v6] = ["127.0.0.1:80", "[::1]:80"].map(|it| it.parse().unwrap());
        let mut dial = Dial::default();
        assert_eq!(dial.usable(vec![v4, v6]), [v4, v6]);
        dial.local_v4 = Some(Ipv4Addr::LOCALHOST);
        assert_eq!(dial.usable(vec![v6, v4]), [v4]);
        dial.local_v6 = Some(Ipv6Addr::LOCALHOST);
        assert_eq!(dial.usable(vec![v6, v4]), [v6, v4]);
        dial.local_v4 = None;
        assert_eq!(dial.usable(vec![v4]), []);
    }
}
