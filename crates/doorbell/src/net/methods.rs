//! The methods that all streams and their halves have, which differ in who may call them only: a
//! stream by `&`, a half by `&mut` where it moves bytes.

/// How to read, of something with `fn io(&self)`; `mut` in the brackets for `&mut self`.
macro_rules! read_methods {
    ([$($mut:tt)?]) => {
        /// Reads what there is, at most so much; 0 at the end. `buffer` need not be written to
        /// before. Of several tasks that poll so, the last one is woken.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub fn poll_read_uninit(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &mut [MaybeUninit<u8>],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read_uninit(cx, buffer)
        }

        /// Reads what there is, at most so much; 0 at the end. Of several tasks that poll so, the
        /// last one is woken.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub fn poll_read(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read(cx, buffer)
        }

        /// The same into several buffers, one behind the other.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub fn poll_read_vectored(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffers: &mut [IoSliceMut<'_>],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_read_vectored(cx, buffers)
        }

        /// Ready when there may be something to read, or the end.
        ///
        /// # Errors
        /// That there is no runtime to wait in.
        pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io().poll_ready(cx, Direction::Read)
        }

        /// Reads what there is, at most so much; 0 at the end. Dropped before it is ready, it has
        /// read nothing.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn read(& $($mut)? self, buffer: &mut [u8]) -> io::Result<usize> {
            self.io().read(buffer).await
        }

        /// The same into several buffers, one behind the other.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn read_vectored(
            & $($mut)? self,
            buffers: &mut [IoSliceMut<'_>],
        ) -> io::Result<usize> {
            let read = |socket: &_| Bytes::read_slices(socket, buffers);
            self.io().io(Direction::Read, read).await
        }

        /// Reads until the buffer is full. Dropped before it is ready, it may have read some of it.
        ///
        /// # Errors
        /// What the OS said; [`io::ErrorKind::UnexpectedEof`] at the end.
        pub async fn read_exact(& $($mut)? self, buffer: &mut [u8]) -> io::Result<()> {
            self.io().read_exact(buffer).await
        }

        /// Reads what there is and leaves it there.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn peek(& $($mut)? self, buffer: &mut [u8]) -> io::Result<usize> {
            let peek = |socket: &_| net::peek(socket, buffer);
            self.io().io(Direction::Read, peek).await
        }

        /// Waits until there may be something to read, or the end: then `try_read`.
        ///
        /// # Errors
        /// That there is no runtime to wait in.
        pub async fn readable(&self) -> io::Result<()> {
            self.io().ready(Direction::Read).await
        }

        /// Reads what there is, at most so much, if there is something; 0 at the end.
        ///
        /// # Errors
        /// [`io::ErrorKind::WouldBlock`] if there is nothing yet; what the OS said.
        pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = |socket: &_| Bytes::read_bytes(socket, buffer);
            self.io().try_io(Direction::Read, read)
        }

        /// The same into several buffers, one behind the other.
        ///
        /// # Errors
        /// As for `try_read`.
        pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let read = |socket: &_| Bytes::read_slices(socket, buffers);
            self.io().try_io(Direction::Read, read)
        }
    };
}

/// How to write, of something with `fn io(&self)`; `mut` in the brackets for `&mut self`.
macro_rules! write_methods {
    ([$($mut:tt)?]) => {
        /// Writes as much as there is room for. Of several tasks that poll so, the last one is woken.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub fn poll_write(
            & $($mut)? self,
            cx: &mut Context<'_>,
            buffer: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.io().poll_write(cx, buffer)
        }

        /// The same of several buffers, one behind the other.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
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
        /// That there is no runtime to wait in.
        pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.io().poll_ready(cx, Direction::Write)
        }

        /// Writes as much as there is room for. Dropped before it is ready, it has written nothing.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn write(& $($mut)? self, buffer: &[u8]) -> io::Result<usize> {
            self.io().write(buffer).await
        }

        /// The same of several buffers, one behind the other.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn write_vectored(& $($mut)? self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            let write = |socket: &_| Bytes::write_slices(socket, buffers);
            self.io().io(Direction::Write, write).await
        }

        /// Writes all of it. Dropped before it is ready, it may have written some of it.
        ///
        /// # Errors
        /// What the OS said, or that there is no runtime to wait in.
        pub async fn write_all(& $($mut)? self, buffer: &[u8]) -> io::Result<()> {
            self.io().write_all(buffer).await
        }

        /// Waits until there may be room to write: then `try_write`.
        ///
        /// # Errors
        /// That there is no runtime to wait in.
        pub async fn writable(&self) -> io::Result<()> {
            self.io().ready(Direction::Write).await
        }

        /// Writes as much as there is room for, if there is any.
        ///
        /// # Errors
        /// [`io::ErrorKind::WouldBlock`] if there is none; what the OS said.
        pub fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
            let write = |socket: &_| Bytes::write_bytes(socket, buffer);
            self.io().try_io(Direction::Write, write)
        }

        /// The same of several buffers, one behind the other.
        ///
        /// # Errors
        /// As for `try_write`.
        pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            let write = |socket: &_| Bytes::write_slices(socket, buffers);
            self.io().try_io(Direction::Write, write)
        }
    };
}

pub(super) use {read_methods, write_methods};
