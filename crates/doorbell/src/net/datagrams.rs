//! The methods that sockets for datagrams share.

/// Three methods for each operation of a socket with a field `io`: one that waits, one for code that polls, and one
/// that returns an error instead of waiting.
macro_rules! operations {
    ($(
        $(#[$doc:meta])+
        $direction:ident $wait:ident $poll:ident $try:ident($($given:ident: $type:ty),*) -> $done:ty = $syscall:expr;
    )+) => {$(
        $(#[$doc])+
        pub async fn $wait(&self, $($given: $type),*) -> io::Result<$done> {
            self.io.io(Direction::$direction, $syscall).await
        }

        #[doc = concat!("As [`", stringify!($wait), "`](Self::", stringify!($wait), ").")]
        ///
        /// # Errors
        /// As there.
        pub fn $poll(&self, cx: &mut Context<'_>, $($given: $type),*) -> Poll<io::Result<$done>> {
            self.io.poll_io(cx, Direction::$direction, $syscall)
        }

        #[doc = concat!(
            "As [`", stringify!($wait), "`](Self::", stringify!($wait), "), but returns an error instead of waiting."
        )]
        ///
        /// # Errors
        /// As there; [`io::ErrorKind::WouldBlock`] instead of waiting.
        pub fn $try(&self, $($given: $type),*) -> io::Result<$done> {
            self.io.try_io(Direction::$direction, $syscall)
        }
    )+};
}

/// The methods of a socket for datagrams, whose addresses are of type `$address`.
macro_rules! datagram_methods {
    ($address:ty) => {
        super::datagrams::operations! {
            /// Sends a datagram to the connected socket. Returns the number of bytes sent.
            ///
            /// # Errors
            /// The OS's error, which may concern an earlier datagram, for example one that was refused. An error
            /// if it has to wait and the thread has no runtime.
            Write send poll_send try_send(datagram: &[u8]) -> usize = |socket| net::write(socket, datagram);

            /// Receives a datagram: if the socket is connected, from the other end only. Returns the number of
            /// bytes. Bytes that do not fit into `buffer` are lost. If the future is dropped before it is ready,
            /// no datagram has been taken.
            ///
            /// # Errors
            /// The OS's error, which may concern a datagram that was sent before, for example one that was
            /// refused. An error if it has to wait and the thread has no runtime.
            Read recv poll_recv try_recv(buffer: &mut [u8]) -> usize = |socket| socket.recv(buffer);

            /// As [`recv`](Self::recv), and returns the sender's address too.
            ///
            /// # Errors
            /// As there.
            Read recv_from poll_recv_from try_recv_from(buffer: &mut [u8]) -> (usize, $address) =
                |socket| socket.recv_from(buffer);
        }

        /// Waits until there may be a datagram. Then use [`try_recv`](Self::try_recv) and the like.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub async fn readable(&self) -> io::Result<()> {
            self.io.ready(Direction::Read).await.map(drop)
        }

        /// Waits until there may be room to send. Then use [`try_send`](Self::try_send) and the like.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub async fn writable(&self) -> io::Result<()> {
            self.io.ready(Direction::Write).await.map(drop)
        }

        /// Ready when there may be a datagram. Of several tasks that poll this, only the last one is woken.
        ///
        /// # Errors
        /// As for [`readable`](Self::readable).
        pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io.poll_ready(cx, Direction::Read)
        }

        /// Ready when there may be room to send. Of several tasks that poll this, only the last one is woken.
        ///
        /// # Errors
        /// As for [`readable`](Self::readable).
        pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io.poll_ready(cx, Direction::Write)
        }
    };
}

pub(super) use {datagram_methods, operations};
