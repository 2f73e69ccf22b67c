//! The attributes `#[doorbell::main]` and `#[doorbell::test]`.

use proc_macro::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, ItemFn, Token, parse_macro_input};

/// Runs an async `main` on a doorbell runtime.
///
/// The body runs on the thread that `main` runs on; tasks run on the workers.
///
/// Options: `cores = N` (an expression of type `usize`; one core per CPU unless told),
/// `start_paused = B` (an expression of type `bool`: with `true`, a clock that goes on only when
/// nothing is left to do) and `on_policy_refused = F` (what `Builder::on_policy_refused` takes: it
/// hears of the first worker of each class that the OS schedules otherwise than it asked for), and `builder = F`
/// (a function or closure that returns the `doorbell::Builder` to begin with, in place of `Builder::new`).
///
/// A function of another name may have arguments, `self` and generics. It builds a runtime each time that it is called,
/// and the caller waits until its body has returned.
///
/// # Panics
/// The program panics at its start if the runtime cannot be built, with the error's text.
///
/// ```ignore
/// #[doorbell::main(cores = 2, on_policy_refused = |worker| eprintln!("{worker}"))]
/// async fn main() { /* … */ }
///
/// #[doorbell::main(builder = doorbell_tokio::builder)]
/// async fn main() { /* … */ }
///
/// #[doorbell::main(cores = 1)]
/// async fn answer_of<T: Into<u32>>(question: T) -> u32 { question.into() + 1 }
/// ```
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(item as ItemFn);
    expand(&options, function, &Use::Main)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs an async test on a doorbell runtime of its own.
///
/// Options: `cores = N` (an expression of type `usize`; 2, or what `builder` says, unless told), `start_paused = B` (an
/// expression of type `bool`: with `true`, the clock goes on, at once, only when nothing is left
/// to do, so that a test of hours takes no time), `on_policy_refused = F` and `builder = F`, as for `main`.
///
/// # Panics
/// The test panics if the runtime cannot be built, with the error's text.
///
/// ```ignore
/// #[doorbell::test]
/// async fn answers() { assert_eq!(doorbell::spawn(async { 1 }).await.unwrap(), 1); }
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(item as ItemFn);
    expand(&options, function, &Use::Test)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

enum Use {
    Main,
    Test,
}

/// What stands in the attribute's parentheses.
#[derive(Default)]
struct Options {
    cores: Option<Expr>,
    start_paused: Option<Expr>,
    on_policy_refused: Option<Expr>,
    builder: Option<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Options::default();
        for option in Punctuated::<Named, Token![,]>::parse_terminated(input)? {
            let slot = match option.name.to_string().as_str() {
                "cores" => &mut options.cores,
                "start_paused" => &mut options.start_paused,
                "on_policy_refused" => &mut options.on_policy_refused,
                "builder" => &mut options.builder,
                other => {
                    let message = format!(
                        "there is no option `{other}`; there are `cores`, `start_paused`, `on_policy_refused` and `builder`"
                    );
                    return Err(syn::Error::new(option.name.span(), message));
                }
            };
            if slot.replace(option.value).is_some() {
                let message = format!("option `{}` stands here twice", option.name);
                return Err(syn::Error::new(option.name.span(), message));
            }
        }
        Ok(options)
    }
}

struct Named {
    name: Ident,
    value: Expr,
}

impl Parse for Named {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(Named { name, value })
    }
}

/// The program calls `main` without arguments, and the harness does so with tests.
fn check_arguments(function: &ItemFn, what: &Use) -> syn::Result<()> {
    let message = match what {
        Use::Test => "a test takes no arguments",
        Use::Main if function.sig.ident == "main" => "`main` takes no arguments",
        Use::Main => return Ok(()),
    };
    match function.sig.inputs.first() {
        Some(argument) => Err(syn::Error::new(argument.span(), message)),
        None => Ok(()),
    }
}

fn expand(
    options: &Options,
    mut function: ItemFn,
    what: &Use,
) -> syn::Result<proc_macro2::TokenStream> {
    let Some(asyncness) = function.sig.asyncness.take() else {
        let message = "this attribute makes an async function run on doorbell; write `async fn`";
        return Err(syn::Error::new(function.sig.fn_token.span(), message));
    };
    check_arguments(&function, what)?;
    for attribute in &mut function.attrs {
        // One that stands inside the body.
        attribute.style = syn::AttrStyle::Outer;
    }
    let cores = match (&options.cores, what) {
        (Some(cores), _) => quote_spanned!(cores.span()=> .cores(#cores)),
        (None, Use::Test) if options.builder.is_none() => quote!(.cores(2)),
        (None, Use::Main | Use::Test) => quote!(),
    };
    let paused = options
        .start_paused
        .as_ref()
        .map(|paused| quote_spanned!(paused.span()=> .start_paused(#paused)));
    let refused = options
        .on_policy_refused
        .as_ref()
        .map(|hook| quote_spanned!(hook.span()=> .on_policy_refused(#hook)));
    let new = quote!(::doorbell::Builder::new);
    let builder = options
        .builder
        .as_ref()
        .map_or(new, |builder| quote_spanned!(builder.span()=> #builder));
    let test = match what {
        Use::Main => quote!(),
        Use::Test => quote!(#[::core::prelude::v1::test]),
    };
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
    } = function;
    // A name that the body cannot see, nor take away.
    let runtime = Ident::new("runtime", proc_macro2::Span::mixed_site());
    let body = quote_spanned!(asyncness.span()=> async move #block);
    Ok(quote! {
        #test
        #(#attrs)*
        #vis #sig {
            let #runtime = #builder;
            let #runtime = match #runtime() #cores #paused #refused .build() {
                ::core::result::Result::Ok(runtime) => runtime,
                ::core::result::Result::Err(error) => ::core::panic!("{error}"),
            };
            #runtime.block_on(#body)
        }
    })
}
