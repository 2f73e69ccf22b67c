//! [`Options`]: what stands in the attribute's parentheses.

use crate::error::{Error, Result};
use crate::function::{is_group, is_punct};
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};

const SHOWN: &str = "there are `cores`, `start_paused`, `on_policy_refused` and `builder`, and with `sim` `cores`, `seeds`, `machine`, `profile`, `builder` and `faults(…)`";

/// The value of an option: an expression, as it stands there.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) tokens: TokenStream,
    /// Where it begins.
    pub(crate) span: Span,
}

impl quote::ToTokens for Value {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.tokens.clone());
    }
}

#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) cores: Option<Value>,
    pub(crate) start_paused: Option<Value>,
    pub(crate) on_policy_refused: Option<Value>,
    pub(crate) builder: Option<Value>,
    /// The word `sim`.
    pub(crate) sim: Option<Ident>,
    pub(crate) seeds: Option<Value>,
    pub(crate) machine: Option<Value>,
    pub(crate) profile: Option<Value>,
    pub(crate) faults: Option<Vec<Ident>>,
}

impl Options {
    pub(crate) fn parse(text: TokenStream) -> Result<Self> {
        let mut options = Options::default();
        for option in split(text) {
            options.add(&option)?;
        }
        Ok(options)
    }

    /// Adds the option of these tokens; there is at least one.
    fn add(&mut self, option: &[TokenTree]) -> Result<()> {
        let (name, behind) = match option {
            [TokenTree::Ident(name), behind @ ..] => (name, behind),
            [other, ..] => return Err(Error::new(other.span(), format!("no option; {SHOWN}"))),
            [] => return Ok(()),
        };
        let written = || {
            Error::new(
                name.span(),
                format!("option `{name}` is written `{name} = …`"),
            )
        };
        let was_there = match behind {
            [] if name == "sim" => self.sim.replace(name.clone()).is_some(),
            [TokenTree::Group(list)]
                if name == "faults" && list.delimiter() == Delimiter::Parenthesis =>
            {
                self.faults.replace(names(list.stream())?).is_some()
            }
            [equals, first, ..] if is_punct(equals, '=') => {
                let value = Value {
                    tokens: behind[1..].iter().cloned().collect(),
                    span: first.span(),
                };
                self.slot(name)?.replace(value).is_some()
            }
            [TokenTree::Group(_)] | [] => return Err(written()),
            [equals] if is_punct(equals, '=') => return Err(written()),
            [other, ..] => return Err(Error::new(other.span(), "expected `=`")),
        };
        if was_there {
            let message = format!("option `{name}` stands here twice");
            return Err(Error::new(name.span(), message));
        }
        Ok(())
    }

    fn slot(&mut self, name: &Ident) -> Result<&mut Option<Value>> {
        Ok(match name.to_string().as_str() {
            "cores" => &mut self.cores,
            "seeds" => &mut self.seeds,
            "machine" => &mut self.machine,
            "profile" => &mut self.profile,
            "start_paused" => &mut self.start_paused,
            "on_policy_refused" => &mut self.on_policy_refused,
            "builder" => &mut self.builder,
            other => {
                let instead = match other {
                    "worker_threads" => " (write `cores = …`)",
                    "flavor" => " (for one thread write `cores = 1`)",
                    _ => "",
                };
                let message = format!("there is no option `{other} = …`{instead}; {SHOWN}");
                return Err(Error::new(name.span(), message));
            }
        })
    }

    /// Options that mean something only with `sim`, or only without. `name` is that of the function.
    pub(crate) fn check(&self, name: &Ident) -> Result<()> {
        let host = [
            ("start_paused", &self.start_paused),
            ("on_policy_refused", &self.on_policy_refused),
        ];
        let simulated = [
            ("seeds", &self.seeds),
            ("machine", &self.machine),
            ("profile", &self.profile),
        ];
        let (wrong, why): (&[_], _) = match self.sim {
            Some(_) => (&host, "has no meaning with `sim`"),
            None => (&simulated, "needs the option `sim`"),
        };
        for (option, value) in wrong {
            if let Some(value) = value {
                return Err(Error::new(value.span, format!("option `{option}` {why}")));
            }
        }
        if let (Some(machine), Some(_)) = (&self.machine, &self.profile) {
            let message = "`machine` and `profile` say the same thing; write one of them";
            return Err(Error::new(machine.span, message));
        }
        if self.faults.is_some() && self.sim.is_none() {
            let message = "option `faults` needs the option `sim`";
            return Err(Error::new(name.span(), message));
        }
        Ok(())
    }
}

/// Names with commas between them.
fn names(list: TokenStream) -> Result<Vec<Ident>> {
    let name = |part: Vec<TokenTree>| match part.as_slice() {
        [TokenTree::Ident(name)] => Ok(name.clone()),
        [.., last] => Err(Error::new(last.span(), "expected names and commas")),
        [] => Err(Error::new(Span::call_site(), "expected names and commas")),
    };
    split(list).into_iter().map(name).collect()
}

/// Cuts the tokens at their commas, without empty parts. Commas in `|…|` of a closure and in `<…>` of a path
/// cut nothing.
fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts: Vec<Vec<TokenTree>> = vec![Vec::new()];
    let mut angles = 0_usize;
    let mut is_in_bars = false;
    // From the `->` of a closure to its block.
    let mut is_in_output = false;
    for token in tokens {
        let part = parts.last_mut().expect("one part is always there");
        let sign = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            TokenTree::Ident(_) | TokenTree::Group(_) | TokenTree::Literal(_) => ' ',
        };
        match sign {
            ',' if angles == 0 && !is_in_bars => {
                parts.push(Vec::new());
                continue;
            }
            '|' if is_in_bars => is_in_bars = false,
            '|' => is_in_bars = begins_closure(part),
            '<' if angles > 0 || is_in_output || follows(part, ':') => angles += 1,
            '>' if follows(part, '-') => is_in_output = true,
            '>' if !follows(part, '=') => angles = angles.saturating_sub(1),
            _ => {}
        }
        is_in_output &= !is_group(&token, Delimiter::Brace);
        part.push(token);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether the last of these tokens is this sign.
fn follows(part: &[TokenTree], sign: char) -> bool {
    part.last().is_some_and(|token| is_punct(token, sign))
}

/// Whether a `|` after these tokens opens a closure: it stands where an expression begins.
fn begins_closure(part: &[TokenTree]) -> bool {
    match part.last() {
        Some(TokenTree::Punct(_)) | None => true,
        Some(TokenTree::Ident(word)) => word == "move" || word == "async" || word == "return",
        Some(TokenTree::Group(_) | TokenTree::Literal(_)) => false,
    }
}
