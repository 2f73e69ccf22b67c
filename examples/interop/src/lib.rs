//! Third-party libraries over doorbell's sockets. See the README; the tests are the examples.
