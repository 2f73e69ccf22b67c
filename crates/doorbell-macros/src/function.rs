//! [`Function`]: the item that has the attribute, cut into the parts that the attribute changes.
//!
//! By hand: a parser of all of Rust takes longer to build than the rest of this crate, and most of a function is passed on
//! as it stands.

use crate::error::{Error, Result};
use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::quote;
use std::iter::Peekable;

type Tokens = Peekable<std::vec::IntoIter<TokenTree>>;

const NO_FUNCTION: &str = "this attribute is for functions";

#[derive(Debug)]
pub(crate) struct Function {
    /// Those in front of the function, and those that stand inside its body: all as if in front.
    pub(crate) attributes: TokenStream,
    /// `pub` and the like.
    pub(crate) visibility: TokenStream,
    /// `const`, `unsafe`, `extern "C"`.
    qualifiers: TokenStream,
    /// Where `async` stands; `None` if it does not.
    pub(crate) asyncness: Option<Span>,
    /// `fn`.
    pub(crate) keyword: Ident,
    pub(crate) name: Ident,
    generics: TokenStream,
    pub(crate) arguments: Group,
    /// The output and the `where` clause.
    output: TokenStream,
    /// In braces.
    pub(crate) body: Group,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let mut tokens = flat(item).into_iter().peekable();
        let mut attributes = TokenStream::new();
        while let Some(hash) = tokens.next_if(|token| is_punct(token, '#')) {
            attributes.extend([Some(hash), tokens.next()].into_iter().flatten());
        }
        let mut visibility = TokenStream::new();
        if let Some(word) = tokens.next_if(|token| is_ident(token, "pub")) {
            visibility.extend([word]);
            visibility.extend(tokens.next_if(|token| is_group(token, Delimiter::Parenthesis)));
        }
        let (qualifiers, asyncness, keyword) = head(&mut tokens)?;
        let Some(TokenTree::Ident(name)) = tokens.next() else {
            return Err(Error::new(keyword.span(), NO_FUNCTION));
        };
        let generics = generics(&mut tokens);
        let Some(TokenTree::Group(arguments)) =
            tokens.next_if(|token| is_group(token, Delimiter::Parenthesis))
        else {
            return Err(Error::new(name.span(), NO_FUNCTION));
        };
        let mut rest: Vec<TokenTree> = tokens.collect();
        let Some(body) = rest.pop().and_then(braces) else {
            return Err(Error::new(name.span(), "this function has no body"));
        };
        let (inside, body) = attributes_inside(&body);
        attributes.extend(inside);
        Ok(Function {
            attributes,
            visibility,
            qualifiers,
            asyncness,
            keyword,
            name,
            generics,
            arguments,
            output: rest.into_iter().collect(),
            body,
        })
    }

    /// The function from its qualifiers to its output, without `async`.
    pub(crate) fn signature(&self) -> TokenStream {
        let Function {
            qualifiers,
            keyword,
            name,
            generics,
            arguments,
            output,
            ..
        } = self;
        quote!(#qualifiers #keyword #name #generics #arguments #output)
    }

    /// The same async function, without attributes and visibility.
    pub(crate) fn bare(&self) -> TokenStream {
        let (signature, body) = (self.signature(), &self.body);
        quote!(async #signature #body)
    }
}

/// The item's tokens. What a macro by example has put in has invisible delimiters, which are taken away in front of the
/// name.
fn flat(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens = Vec::new();
    let mut is_in_front = true;
    for token in item {
        match token {
            TokenTree::Group(group) if is_in_front && group.delimiter() == Delimiter::None => {
                let inside = flat(group.stream());
                is_in_front = !inside.iter().any(|token| is_ident(token, "fn"));
                tokens.extend(inside);
            }
            other => {
                is_in_front &= !is_ident(&other, "fn");
                tokens.push(other);
            }
        }
    }
    tokens
}

/// What stands in front of the name: qualifiers, where `async` stands, and `fn`.
fn head(tokens: &mut Tokens) -> Result<(TokenStream, Option<Span>, Ident)> {
    let mut qualifiers = TokenStream::new();
    let mut asyncness = None;
    for token in tokens.by_ref() {
        match token {
            TokenTree::Ident(word) if word == "fn" => return Ok((qualifiers, asyncness, word)),
            TokenTree::Ident(word) if word == "async" => asyncness = Some(word.span()),
            token @ (TokenTree::Ident(_) | TokenTree::Literal(_)) => qualifiers.extend([token]),
            other => return Err(Error::new(other.span(), NO_FUNCTION)),
        }
    }
    Err(Error::new(Span::call_site(), NO_FUNCTION))
}

/// `<…>`, if the next token opens it.
fn generics(tokens: &mut Tokens) -> TokenStream {
    let mut taken = TokenStream::new();
    if !tokens.peek().is_some_and(|token| is_punct(token, '<')) {
        return taken;
    }
    let mut depth = 0_usize;
    // Of `->` and `=>` the second sign closes nothing.
    let mut is_arrow = false;
    for token in tokens.by_ref() {
        if let TokenTree::Punct(punct) = &token {
            match punct.as_char() {
                '<' => depth += 1,
                '>' if !is_arrow => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_arrow = matches!(punct.as_char(), '-' | '=') && punct.spacing() == Spacing::Joint;
        }
        taken.extend([token]);
        if depth == 0 {
            break;
        }
    }
    taken
}

/// The group in braces, also where a macro by example has put it in.
fn braces(token: TokenTree) -> Option<Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inside = group.stream().into_iter();
            let only = inside.next()?;
            inside.next().is_none().then(|| braces(only))?
        }
        _ => None,
    }
}

/// Takes the attributes `#![…]` at the begin of a body out of it, and makes them `#[…]`.
fn attributes_inside(body: &Group) -> (TokenStream, Group) {
    let mut attributes = TokenStream::new();
    let mut tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    while let [hash, bang, attribute, ..] = tokens.as_slice()
        && is_punct(hash, '#')
        && is_punct(bang, '!')
        && is_group(attribute, Delimiter::Bracket)
    {
        attributes.extend([hash.clone(), attribute.clone()]);
        tokens.drain(..3);
    }
    let mut rest = Group::new(Delimiter::Brace, tokens.into_iter().collect());
    rest.set_span(body.span());
    (attributes, rest)
}

fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

pub(crate) fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

pub(crate) fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}
