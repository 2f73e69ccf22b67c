//! The methods for options that several sockets have.

/// Methods that set an option, and ask for it, for a type with `fn descriptor(&self)`.
macro_rules! option_methods {
    ($($what:literal $type:ty: $get:ident $set:ident;)*) => {$(
        #[doc = concat!("Sets ", $what, ".")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $set(&self, value: $type) -> std::io::Result<()> {
            doorbell_machine::host::socket_options::$set(self.descriptor(), value)
        }

        #[doc = concat!("The value that [`", stringify!($set), "`](Self::", stringify!($set), ") sets.")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $get(&self) -> std::io::Result<$type> {
            doorbell_machine::host::socket_options::$get(self.descriptor())
        }
    )*};
}

/// As `option_methods`, for options that the standard library has, of a socket with a field `io`.
macro_rules! std_option_methods {
    ($($what:literal $type:ty: $get:ident $set:ident;)*) => {$(
        #[doc = concat!("Sets ", $what, ".")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $set(&self, value: $type) -> std::io::Result<()> {
            self.io.get().$set(value)
        }

        #[doc = concat!("The value that [`", stringify!($set), "`](Self::", stringify!($set), ") sets.")]
        ///
        /// # Errors
        /// The OS's error.
        pub fn $get(&self) -> std::io::Result<$type> {
            self.io.get().$get()
        }
    )*};
}

/// The options of IP sockets: of TCP and UDP.
macro_rules! ip_option_methods {
    () => {
        option_methods! {
            "the type of service of IPv4 packets (`IP_TOS`)" u32: tos_v4 set_tos_v4;
            "the traffic class of IPv6 packets (`IPV6_TCLASS`)" u32: tclass_v6 set_tclass_v6;
        }

        /// Binds the socket to a network interface, by name (`SO_BINDTODEVICE`): it sends and receives there
        /// alone. `None` ends that.
        ///
        /// # Errors
        /// The OS's error.
        pub fn bind_device(&self, interface: Option<&[u8]>) -> std::io::Result<()> {
            doorbell_machine::host::socket_options::bind_device(self.descriptor(), interface)
        }

        /// The network interface to which the socket is bound.
        ///
        /// # Errors
        /// The OS's error.
        pub fn device(&self) -> std::io::Result<Option<Vec<u8>>> {
            doorbell_machine::host::socket_options::device(self.descriptor())
        }
    };
}

pub(super) use {ip_option_methods, option_methods, std_option_methods};
