//! The attributes `#[doorbell::main]` and `#[doorbell::test]`.

mod error;
mod function;
mod options;
#[cfg(test)]
mod tests;

use error::{Error, Result};
use function::Function;
use options::Options;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

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
pub fn main(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    made(options.into(), item.into(), &Use::Main)
}

/// Runs an async test on a doorbell runtime of its own.
///
/// Options: `cores = N` (an expression of type `usize`; 2, or what `builder` says, unless told), `start_paused = B` (an
/// expression of type `bool`: with `true`, the clock goes on, at once, only when nothing is left
/// to do, so that a test of hours takes no time), `on_policy_refused = F` and `builder = F`, as for `main`.
///
/// With the option `sim`, and doorbell's feature of that name, the test runs on simulated cores, as `doorbell::sim::run`
/// describes: `cores = N` (8 unless told), `seeds = R` (a range of `u64`; `0..10` unless told), `machine = M` (an
/// expression of type `doorbell::sim::MachineSpec`) or `profile = "name or file"`, `builder = F` and `faults(F, …)` (`deschedule`, `slow_core`,
/// `offline`, `clock_jump`, `late_wakes`). Such a test returns nothing or a `Result`.
///
/// # Panics
/// The test panics if the runtime cannot be built, with the error's text. A simulated one panics if a run fails, with the
/// seed, what failed, and a command that repeats it.
///
/// ```ignore
/// #[doorbell::test]
/// async fn answers() { assert_eq!(doorbell::spawn(async { 1 }).await.unwrap(), 1); }
///
/// #[doorbell::test(sim, cores = 64, seeds = 0..100, faults(deschedule, late_wakes))]
/// async fn answers_on_many_cores() { assert_eq!(doorbell::spawn(async { 1 }).await.unwrap(), 1); }
/// ```
#[proc_macro_attribute]
pub fn test(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    made(options.into(), item.into(), &Use::Test)
}

/// What the attribute makes of a function, or an error for the compiler to report.
fn made(options: TokenStream, item: TokenStream, what: &Use) -> proc_macro::TokenStream {
    let made = Options::parse(options).and_then(|options| {
        let function = Function::parse(item)?;
        match (what, &options.sim) {
            (Use::Test, Some(_)) => expand_simulated(&options, &function),
            (Use::Test, None) | (Use::Main, _) => expand(&options, &function, what),
        }
    });
    made.unwrap_or_else(Error::into_compile_error).into()
}

enum Use {
    Main,
    Test,
}

/// The faults of a simulation: the words of the attribute, and the names of the enum.
const FAULTS: [(&str, &str); 5] = [
    ("deschedule", "Deschedule"),
    ("slow_core", "SlowCore"),
    ("offline", "Offline"),
    ("clock_jump", "ClockJump"),
    ("late_wakes", "LateWakes"),
];

/// The program calls `main` without arguments, and the harness does so with tests.
fn check_arguments(function: &Function, what: &Use) -> Result<()> {
    let message = match what {
        Use::Test => "a test takes no arguments",
        Use::Main if function.name == "main" => "`main` takes no arguments",
        Use::Main => return Ok(()),
    };
    match function.arguments.stream().into_iter().next() {
        Some(argument) => Err(Error::new(argument.span(), message)),
        None => Ok(()),
    }
}

/// The expression for each fault that is named.
fn faults_of(options: &Options) -> Result<Vec<TokenStream>> {
    let named = options.faults.iter().flatten();
    let fault = |name: &Ident| {
        let known = FAULTS.iter().find(|(word, _)| name == word);
        let Some((_, fault)) = known else {
            let words: Vec<String> = FAULTS.iter().map(|(word, _)| format!("`{word}`")).collect();
            let message = format!("there is no fault `{name}`; there are {}", words.join(", "));
            return Err(Error::new(name.span(), message));
        };
        let fault = Ident::new(fault, name.span());
        Ok(quote_spanned!(name.span()=> ::doorbell::sim::Fault::#fault))
    };
    named.map(fault).collect()
}

/// A test on simulated cores: the function becomes the program inside one that runs it.
fn expand_simulated(options: &Options, function: &Function) -> Result<TokenStream> {
    options.check(&function.name)?;
    check_async(function)?;
    check_arguments(function, &Use::Test)?;
    let builder = options.builder.iter();
    let cores = options.cores.iter();
    let seeds = options.seeds.iter();
    let machine = options.machine.iter();
    let profile = options.profile.iter();
    let faults = faults_of(options)?;
    let Function {
        attributes,
        visibility,
        name,
        ..
    } = function;
    let program = function.bare();
    Ok(quote! {
        #[::core::prelude::v1::test]
        #attributes
        #visibility fn #name() {
            // Of the same name, so that it hides nothing that the body could mean.
            #program
            ::doorbell::sim::test(
                ::doorbell::sim::Config::new()
                    #(.builder((#builder)()))*
                    #(.cores(#cores))*
                    #(.seeds(#seeds))*
                    #(.machine(#machine))*
                    #(.profile(#profile))*
                    .faults([#(#faults),*]),
                ::doorbell::sim::Place {
                    package: ::core::option_env!("CARGO_PKG_NAME"),
                    module: ::core::module_path!(),
                    name: ::core::stringify!(#name),
                },
                #name,
            )
        }
    })
}

/// Where `async` stands: the attribute is for async functions.
fn check_async(function: &Function) -> Result<Span> {
    let message = "this attribute makes an async function run on doorbell; write `async fn`";
    let missing = || Error::new(function.keyword.span(), message);
    function.asyncness.ok_or_else(missing)
}

fn expand(options: &Options, function: &Function, what: &Use) -> Result<TokenStream> {
    if let Some(sim) = &options.sim {
        let message = "`sim` is an option of tests; call `doorbell::sim::run` elsewhere";
        return Err(Error::new(sim.span(), message));
    }
    options.check(&function.name)?;
    let asyncness = check_async(function)?;
    check_arguments(function, what)?;
    let cores = match (&options.cores, what) {
        (Some(cores), _) => quote_spanned!(cores.span=> .cores(#cores)),
        (None, Use::Test) if options.builder.is_none() => quote!(.cores(2)),
        (None, Use::Main | Use::Test) => quote!(),
    };
    let paused = options
        .start_paused
        .as_ref()
        .map(|paused| quote_spanned!(paused.span=> .start_paused(#paused)));
    let refused = options
        .on_policy_refused
        .as_ref()
        .map(|hook| quote_spanned!(hook.span=> .on_policy_refused(#hook)));
    let new = quote!(::doorbell::Builder::new);
    let builder = options
        .builder
        .as_ref()
        .map_or(new, |builder| quote!(#builder));
    let test = match what {
        Use::Main => quote!(),
        Use::Test => quote!(#[::core::prelude::v1::test]),
    };
    // A name that the body cannot see, nor take away.
    let runtime = Ident::new("runtime", Span::mixed_site());
    let Function {
        attributes,
        visibility,
        body,
        ..
    } = function;
    let signature = function.signature();
    let body = quote_spanned!(asyncness=> async move #body);
    Ok(quote! {
        #test
        #attributes
        #visibility #signature {
            let #runtime = #builder;
            let #runtime = match #runtime() #cores #paused #refused .build() {
                ::core::result::Result::Ok(runtime) => runtime,
                ::core::result::Result::Err(error) => ::core::panic!("{error}"),
            };
            #runtime.block_on(#body)
        }
    })
}
