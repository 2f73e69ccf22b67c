//! Options of sockets that the standard library does not have.

use socket2::SockRef;
use std::io;
use std::os::fd::AsFd;

/// Makes a function that asks for an option, and one that sets it, of those of `socket2`.
macro_rules! options {
    ($($what:literal $type:ty: $get:ident as $own_get:ident, $set:ident as $own_set:ident;)*) => {$(
        #[doc = concat!("Sets ", $what, ".")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $set(socket: impl AsFd, value: $type) -> io::Result<()> {
            SockRef::from(&socket).$own_set(value)
        }

        #[doc = concat!("Returns ", $what, ".")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $get(socket: impl AsFd) -> io::Result<$type> {
            SockRef::from(&socket).$own_get()
        }
    )*};
}

options! {
    "whether a new listener may have the address of an old one's connections (`SO_REUSEADDR`)"
        bool: reuseaddr as reuse_address, set_reuseaddr as set_reuse_address;
    "whether several sockets may share an address (`SO_REUSEPORT`)"
        bool: reuseport as reuse_port, set_reuseport as set_reuse_port;
    "whether the OS probes a silent peer (`SO_KEEPALIVE`)"
        bool: is_keepalive as keepalive, set_is_keepalive as set_keepalive;
    "whether small writes are sent at once (`TCP_NODELAY`)"
        bool: nodelay as tcp_nodelay, set_nodelay as set_tcp_nodelay;
    "whether data is acknowledged at once (`TCP_QUICKACK`)"
        bool: quickack as tcp_quickack, set_quickack as set_tcp_quickack;
    "the size of the send buffer in bytes (`SO_SNDBUF`)"
        usize: send_buffer_size as send_buffer_size, set_send_buffer_size as set_send_buffer_size;
    "the size of the receive buffer in bytes (`SO_RCVBUF`)"
        usize: recv_buffer_size as recv_buffer_size, set_recv_buffer_size as set_recv_buffer_size;
    "the type of service of IPv4 packets (`IP_TOS`)"
        u32: tos_v4 as tos_v4, set_tos_v4 as set_tos_v4;
    "the traffic class of IPv6 packets (`IPV6_TCLASS`)"
        u32: tclass_v6 as tclass_v6, set_tclass_v6 as set_tclass_v6;
}

/// Binds a socket to a network interface, by name (`SO_BINDTODEVICE`); `None` ends that.
///
/// # Errors
/// The OS's error.
pub fn bind_device(socket: impl AsFd, interface: Option<&[u8]>) -> io::Result<()> {
    SockRef::from(&socket).bind_device(interface)
}

/// The name that [`bind_device`] has set.
///
/// # Errors
/// The OS's error.
pub fn device(socket: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    SockRef::from(&socket).device()
}

/// Takes the pending error of a socket (`SO_ERROR`), if there is one.
///
/// # Errors
/// The OS's error for this query.
pub fn take_error(socket: impl AsFd) -> io::Result<Option<io::Error>> {
    SockRef::from(&socket).take_error()
}
