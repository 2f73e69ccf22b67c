//! [`Error`]: what is wrong with the caller's code, and where.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

#[derive(Debug)]
pub(crate) struct Error {
    span: Span,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        let message = message.into();
        Error { span, message }
    }

    /// The code that makes the compiler report the error.
    pub(crate) fn into_compile_error(self) -> TokenStream {
        let Error { span, message } = self;
        quote_spanned!(span=> ::core::compile_error! { #message })
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
