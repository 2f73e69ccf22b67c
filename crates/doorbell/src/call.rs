//! Types of calls to cores. The functions are at the root: [`call_on`](crate::call_on()), [`call_many`](crate::call_many()),
//! [`call_all`](crate::call_all()), [`post_on`](crate::post_on()).

pub use crate::call_class::CallBuilder;
pub use crate::call_many::{CallMany, ManyResults};
pub use crate::call_on::Call;
