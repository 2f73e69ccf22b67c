//! The methods that all streams and their halves share. They differ only in the receiver: streams take
//! `&self`, and halves take `&mut self` where bytes move.

/// The methods that read, for a type with `fn io(&self)`. With `mut` in the brackets they take `&mut self`.
macro_rules! read_methods {
    ([$($mut:tt)?]) => {
        /// Reads the bytes that have arrived, up to the length of `buffer`, and returns their number; 0 at the
        /// end of the stream, and at once if `buffer` is empty. `buffer` may be uninitialized. Of several tasks
        /// that poll this, only the last one is woken.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_read_uninit(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &mut [MaybeUninit<u8>],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read_uninit(cx, buffer)
        }

        /// Reads the bytes that have arrived, up to the length of `buffer`, and returns their number; 0 at the
        /// end of the stream, and at once if `buffer` is empty. Of several tasks that poll this, only the last
        /// one is woken.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_read(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read(cx, buffer)
        }

        /// As `poll_read`, into several buffers, which are filled in order.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_read_vectored(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffers: &mut [IoSliceMut<'_>],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read_vectored(cx, buffers)
        }

        /// Ready when there may be bytes to read, or the end of the stream.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io().poll_ready(cx, Direction::Read)
        }

        /// Reads the bytes that have arrived, up to the length of `buffer`, and returns their number; 0 at the
        /// end of the stream, and at once if `buffer` is empty. If the future is dropped before it is ready,
        /// nothing has been read.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn read(& $($mut)? self, buffer: &mut [u8]) -> io::Result<usize> {
            self.io().read(buffer).await
        }

        /// As `read`, into several buffers, which are filled in order.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn read_vectored(
            & $($mut)? self,
            buffers: &mut [IoSliceMut<'_>],
        ) -> io::Result<usize> {
            self.io().read_vectored(buffers).await
        }

        /// Reads until `buffer` is full. If the future is dropped before it is ready, some bytes may have
        /// been read.
        ///
        /// # Errors
        /// [`io::ErrorKind::UnexpectedEof`] if the stream ends before; the OS's error; an error if it has to
        /// wait and the thread has no runtime.
        pub async fn read_exact(& $($mut)? self, buffer: &mut [u8]) -> io::Result<()> {
            self.io().read_exact(buffer).await
        }

        /// Waits until there may be bytes to read, or the end of the stream. Then use `try_read`.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub async fn readable(&self) -> io::Result<()> {
            self.io().ready(Direction::Read).await.map(drop)
        }

        /// As `read`, but returns an error instead of waiting.
        ///
        /// # Errors
        /// [`io::ErrorKind::WouldBlock`] if no bytes have arrived; the OS's error.
        pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            self.io().try_read(buffer)
        }

        /// As `try_read`, into the room that a `bytes::BufMut` has: for a `Vec`, its spare capacity, at least 64
        /// bytes if there is none.
        ///
        /// # Errors
        /// As for `try_read`.
        #[cfg(feature = "tokio-io")]
        pub fn try_read_buf<B: bytes::BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
            super::traits::fill(buffer, |room| Ok((self.io().try_read_uninit(room)?, ())))
                .map(|(read, ())| read)
        }

        /// As `try_read`, into several buffers, which are filled in order.
        ///
        /// # Errors
        /// As for `try_read`.
        pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            self.io().try_read_vectored(buffers)
        }
    };
}

/// The methods that look at what has arrived, of sockets; otherwise as `read_methods`.
macro_rules! peek_methods {
    ([$($mut:tt)?]) => {
        /// As `read`, but leaves the bytes in the socket.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn peek(& $($mut)? self, buffer: &mut [u8]) -> io::Result<usize> {
            self.io().peek(buffer).await
        }

        /// As `peek`, for code that polls. Of several tasks that poll this, only the last one is woken.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_peek(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_peek(cx, buffer)
        }

        /// As `peek`, but returns an error instead of waiting.
        ///
        /// # Errors
        /// [`io::ErrorKind::WouldBlock`] if no bytes have arrived; the OS's error.
        pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
            self.io().try_peek(buffer)
        }
    };
}

/// The methods that write, for a type with `fn io(&self)`. With `mut` in the brackets they take `&mut self`.
macro_rules! write_methods {
    ([$($mut:tt)?]) => {
        /// Writes as many bytes as there is room for, and returns their number. Of several tasks that poll
        /// this, only the last one is woken.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_write(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_write(cx, buffer)
        }

        /// As `poll_write`, from several buffers, in order.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub fn poll_write_vectored(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffers: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_write_vectored(cx, buffers)
        }

        /// Ready when there may be room to write.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io().poll_ready(cx, Direction::Write)
        }

        /// Writes as many bytes as there is room for, and returns their number. If the future is dropped
        /// before it is ready, nothing has been written.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn write(& $($mut)? self, buffer: &[u8]) -> io::Result<usize> {
            self.io().write(buffer).await
        }

        /// As `write`, from several buffers, in order.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn write_vectored(& $($mut)? self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            self.io().write_vectored(buffers).await
        }

        /// Writes all bytes. If the future is dropped before it is ready, some may have been written.
        ///
        /// # Errors
        /// The OS's error. An error if it has to wait and the thread has no runtime.
        pub async fn write_all(& $($mut)? self, buffer: &[u8]) -> io::Result<()> {
            self.io().write_all(buffer).await
        }

        /// Waits until there may be room to write. Then use `try_write`.
        ///
        /// # Errors
        /// The thread has no runtime, or the OS refuses to wait for the socket.
        pub async fn writable(&self) -> io::Result<()> {
            self.io().ready(Direction::Write).await.map(drop)
        }

        /// As `write`, but returns an error instead of waiting.
        ///
        /// # Errors
        /// [`io::ErrorKind::WouldBlock`] if there is no room; the OS's error.
        pub fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
            self.io().try_write(buffer)
        }

        /// As `try_write`, from several buffers, in order.
        ///
        /// # Errors
        /// As for `try_write`.
        pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            self.io().try_write_vectored(buffers)
        }
    };
}

pub(super) use {peek_methods, read_methods, write_methods};
