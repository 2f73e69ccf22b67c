//! The simulated machine against what it promises.

mod litmus;
