//! The attributes `#[doorbell::main]` and `#[doorbell::test]`.

#[cfg(test)]
mod tests;

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
/// With the option `sim`, and doorbell's feature of that name, the test runs on simulated cores, as `doorbell::sim::run`
/// describes: `cores = N` (8 unless told), `seeds = R` (a range of `u64`; `0..10` unless told), `machine = M` (an
/// expression of type `doorbell::sim::MachineSpec`), `builder = F` and `faults(F, …)` (`deschedule`, `slow_core`,
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
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let function = parse_macro_input!(item as ItemFn);
    let expanded = match &options.sim {
        Some(_) => expand_simulated(&options, function),
        None => expand(&options, function, &Use::Test),
    };
    expanded
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
    /// The word `sim`.
    sim: Option<Ident>,
    seeds: Option<Expr>,
    machine: Option<Expr>,
    faults: Option<Vec<Ident>>,
}

/// The faults of a simulation: the words of the attribute, and the names of the enum.
const FAULTS: [(&str, &str); 5] = [
    ("deschedule", "Deschedule"),
    ("slow_core", "SlowCore"),
    ("offline", "Offline"),
    ("clock_jump", "ClockJump"),
    ("late_wakes", "LateWakes"),
];

impl Options {
    /// Options that mean something only with `sim`, or only without.
    fn check(&self, name: &Ident) -> syn::Result<()> {
        let host = [
            ("start_paused", &self.start_paused),
            ("on_policy_refused", &self.on_policy_refused),
        ];
        let simulated = [("seeds", &self.seeds), ("machine", &self.machine)];
        let (wrong, why): (&[_], _) = match self.sim {
            Some(_) => (&host, "has no meaning with `sim`"),
            None => (&simulated, "needs the option `sim`"),
        };
        for (option, value) in wrong {
            if let Some(value) = value {
                let message = format!("option `{option}` {why}");
                return Err(syn::Error::new(value.span(), message));
            }
        }
        if self.faults.is_some() && self.sim.is_none() {
            let message = "option `faults` needs the option `sim`";
            return Err(syn::Error::new(name.span(), message));
        }
        Ok(())
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Options::default();
        for option in Punctuated::<Named, Token![,]>::parse_terminated(input)? {
            let value = match option.value {
                Value::Flag if option.name == "sim" => {
                    once(
                        &option.name,
                        options.sim.replace(option.name.clone()).is_some(),
                    )?;
                    continue;
                }
                Value::List(names) if option.name == "faults" => {
                    once(&option.name, options.faults.replace(names).is_some())?;
                    continue;
                }
                Value::Is(value) => value,
                Value::Flag | Value::List(_) => {
                    let message = format!("option `{0}` is written `{0} = …`", option.name);
                    return Err(syn::Error::new(option.name.span(), message));
                }
            };
            let slot = match option.name.to_string().as_str() {
                "cores" => &mut options.cores,
                "seeds" => &mut options.seeds,
                "machine" => &mut options.machine,
                "start_paused" => &mut options.start_paused,
                "on_policy_refused" => &mut options.on_policy_refused,
                "builder" => &mut options.builder,
                other => {
                    let message = format!(
                        "there is no option `{other} = …`; there are `cores`, `start_paused`, `on_policy_refused` and `builder`, and with `sim` `cores`, `seeds`, `machine`, `builder` and `faults(…)`"
                    );
                    return Err(syn::Error::new(option.name.span(), message));
                }
            };
            once(&option.name, slot.replace(value).is_some())?;
        }
        Ok(options)
    }
}

/// An error if an option was there before.
fn once(name: &Ident, was_there: bool) -> syn::Result<()> {
    if !was_there {
        return Ok(());
    }
    let message = format!("option `{name}` stands here twice");
    Err(syn::Error::new(name.span(), message))
}

struct Named {
    name: Ident,
    value: Value,
}

/// What stands behind the name of an option.
enum Value {
    /// Nothing.
    Flag,
    /// `= expression`.
    Is(Expr),
    /// `(name, name)`.
    List(Vec<Ident>),
}

impl Parse for Named {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        let value = if input.peek(syn::token::Paren) {
            let inner;
            syn::parenthesized!(inner in input);
            let names = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?;
            Value::List(names.into_iter().collect())
        } else if input.is_empty() || input.peek(Token![,]) {
            Value::Flag
        } else {
            input.parse::<Token![=]>()?;
            Value::Is(input.parse()?)
        };
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

/// The expression for each fault that is named.
fn faults_of(options: &Options) -> syn::Result<Vec<proc_macro2::TokenStream>> {
    let named = options.faults.iter().flatten();
    let fault = |name: &Ident| {
        let known = FAULTS.iter().find(|(word, _)| name == word);
        let Some((_, fault)) = known else {
            let words: Vec<String> = FAULTS.iter().map(|(word, _)| format!("`{word}`")).collect();
            let message = format!("there is no fault `{name}`; there are {}", words.join(", "));
            return Err(syn::Error::new(name.span(), message));
        };
        let fault = Ident::new(fault, name.span());
        Ok(quote_spanned!(name.span()=> ::doorbell::sim::Fault::#fault))
    };
    named.map(fault).collect()
}

/// A test on simulated cores: the function becomes the program inside one that runs it.
fn expand_simulated(
    options: &Options,
    mut function: ItemFn,
) -> syn::Result<proc_macro2::TokenStream> {
    options.check(&function.sig.ident)?;
    check_async(&function)?;
    check_arguments(&function, &Use::Test)?;
    let builder = options.builder.iter();
    let cores = options.cores.iter();
    let seeds = options.seeds.iter();
    let machine = options.machine.iter();
    let faults = faults_of(options)?;
    let mut attrs = std::mem::take(&mut function.attrs);
    begin_outside(&mut attrs);
    let vis = std::mem::replace(&mut function.vis, syn::Visibility::Inherited);
    let name = &function.sig.ident;
    Ok(quote! {
        #[::core::prelude::v1::test]
        #(#attrs)*
        #vis fn #name() {
            // Of the same name, so that it hides nothing that the body could mean.
            #function
            ::doorbell::sim::test(
                ::doorbell::sim::Config::new()
                    #(.builder((#builder)()))*
                    #(.cores(#cores))*
                    #(.seeds(#seeds))*
                    #(.machine(#machine))*
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

/// Attributes that stand inside the body go in front of the function.
fn begin_outside(attributes: &mut [syn::Attribute]) {
    for attribute in attributes {
        attribute.style = syn::AttrStyle::Outer;
    }
}

/// The attribute is for async functions.
fn check_async(function: &ItemFn) -> syn::Result<()> {
    if function.sig.asyncness.is_some() {
        return Ok(());
    }
    let message = "this attribute makes an async function run on doorbell; write `async fn`";
    Err(syn::Error::new(function.sig.fn_token.span(), message))
}

fn expand(
    options: &Options,
    mut function: ItemFn,
    what: &Use,
) -> syn::Result<proc_macro2::TokenStream> {
    if let Some(sim) = &options.sim {
        let message = "`sim` is an option of tests; call `doorbell::sim::run` elsewhere";
        return Err(syn::Error::new(sim.span(), message));
    }
    options.check(&function.sig.ident)?;
    check_async(&function)?;
    let asyncness = function.sig.asyncness.take();
    check_arguments(&function, what)?;
    begin_outside(&mut function.attrs);
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
