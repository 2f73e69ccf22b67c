//! Other people's libraries over doorbell's sockets. See the README, and the tests, which are the
//! examples.
