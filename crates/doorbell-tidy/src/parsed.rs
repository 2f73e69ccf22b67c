//! One Rust file as a flat list of tokens, its comments, and an outline of its syntax.
//!
//! Tokens come from the lexer, so text in string literals and comments never looks like code, and the
//! contents of macro calls are seen like everything else. Comments are the text between two tokens.

use std::ops::Range;

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};

use crate::outline::Outline;

/// A place in a file: line from 1, column from 0, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos {
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 0.
    pub column: usize,
}

impl From<LineColumn> for Pos {
    fn from(at: LineColumn) -> Self {
        Self {
            line: at.line,
            column: at.column,
        }
    }
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or a keyword.
    Ident(String),
    /// One character of punctuation.
    Punct(char),
    /// A literal of any kind.
    Literal,
    /// The opening half of a group.
    Open(Delimiter),
    /// The closing half of a group.
    Close(Delimiter),
}

/// One token.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Where it starts.
    pub start: Pos,
    /// Where it ends, exclusive.
    pub end: Pos,
    /// For half of a group: the index of the other half. Otherwise its own index.
    pub mate: usize,
    /// The index of the opening half of the innermost enclosing group.
    pub parent: Option<usize>,
}

/// One comment, documentation included.
#[derive(Clone, Debug)]
pub struct Comment {
    /// Where it starts.
    pub start: Pos,
    /// Its last line.
    pub last_line: usize,
    /// Whether it is documentation.
    pub doc: bool,
    /// Its lines without the signs of a comment, trimmed.
    pub lines: Vec<String>,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Blank,
    /// Only comments, documentation and attributes.
    Note,
    Code,
}

/// A Rust file, split into its parts.
#[derive(Debug)]
pub struct Parsed {
    /// All tokens in order, without documentation comments.
    pub tokens: Vec<Token>,
    /// All comments in order.
    pub comments: Vec<Comment>,
    /// Statements, functions, modules.
    pub outline: Outline,
    lines: Vec<Line>,
}

impl Parsed {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The line and the message, if it is not valid Rust.
    pub fn of(text: &str) -> Result<Self, (usize, String)> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            (error.span().start().line, error.to_string())
        })?;
        let mut flat = Flat::default();
        flat.push_all(stream.clone(), None);
        let file: syn::File =
            syn::parse2(stream).map_err(|error| (error.span().start().line, error.to_string()))?;
        let mut comments = flat.docs;
        comments.extend(comments_between(text, &flat.spans));
        comments.sort_by_key(|comment| comment.start);
        let lines = classify(text, &flat.tokens, &comments);
        Ok(Self {
            tokens: flat.tokens,
            comments,
            outline: Outline::of(&file),
            lines,
        })
    }

    /// The identifier at `index`, if it is one.
    pub fn ident(&self, index: usize) -> Option<&str> {
        match &self.tokens.get(index)?.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// Whether the token at `index` is the character `sign`.
    pub fn is_punct(&self, index: usize, sign: char) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| token.kind == Kind::Punct(sign))
    }

    /// Whether `::` starts at `index`.
    pub fn is_path_sep(&self, index: usize) -> bool {
        self.is_punct(index, ':') && self.is_punct(index + 1, ':')
    }

    /// Whether a group with `delimiter` opens at `index`.
    pub fn opens(&self, index: usize, delimiter: Delimiter) -> bool {
        self.tokens
            .get(index)
            .is_some_and(|token| token.kind == Kind::Open(delimiter))
    }

    /// All paths that start at the identifier `index`, each with its line. Groups of a `use` are expanded.
    pub fn paths(&self, index: usize) -> Vec<(usize, Vec<String>)> {
        let mut paths = Vec::new();
        self.expand(index, &[], &mut paths);
        paths
    }

    fn expand(&self, index: usize, before: &[&str], out: &mut Vec<(usize, Vec<String>)>) {
        let mut path: Vec<&str> = before.to_vec();
        let mut at = index;
        let line = self.tokens[index].start.line;
        loop {
            match self.ident(at) {
                Some("self") if !path.is_empty() => {}
                Some(name) => path.push(name),
                None if self.is_punct(at, '*') => path.push("*"),
                None if self.opens(at, Delimiter::Brace) => {
                    return self.expand_group(at, &path, out);
                }
                None => break,
            }
            if !self.is_path_sep(at + 1) {
                break;
            }
            at += 3;
        }
        out.push((line, path.into_iter().map(str::to_owned).collect()));
    }

    /// The paths in the group of a `use` that opens at `open`.
    fn expand_group(&self, open: usize, path: &[&str], out: &mut Vec<(usize, Vec<String>)>) {
        let close = self.tokens[open].mate;
        let mut first = true;
        let mut at = open + 1;
        while at < close {
            if first {
                self.expand(at, path, out);
            }
            first = self.is_punct(at, ',');
            at = self.tokens[at].mate.max(at) + 1;
        }
    }

    /// Indices of the opening halves of the enclosing groups, innermost first.
    pub fn groups_around(&self, index: usize) -> impl Iterator<Item = usize> {
        let parent = |&open: &usize| self.tokens[open].parent;
        std::iter::successors(self.tokens[index].parent, parent)
    }

    /// Whether the token stands in code that only tests compile.
    pub fn in_test(&self, index: usize) -> bool {
        let at = self.tokens[index].start;
        self.outline
            .test_spans
            .iter()
            .any(|span| span.contains(&at))
    }

    /// Where the enclosing statement (or match arm, item or field) starts.
    ///
    /// The contents of a macro call's braces have no syntax of their own. There a statement starts after a
    /// `;`, a `,`, a `}` or the opening brace.
    pub fn statement_start(&self, index: usize) -> Pos {
        let at = self.tokens[index].start;
        let units = self.outline.units.iter().filter(|unit| unit.contains(&at));
        let parsed = units.map(|unit| unit.start).max().unwrap_or(at);
        let scanned = self.scan_statement_start(index);
        let in_macro = self
            .outline
            .macro_braces
            .iter()
            .any(|span| span.contains(&at));
        if in_macro {
            parsed.max(scanned)
        } else {
            parsed
        }
    }

    fn scan_statement_start(&self, index: usize) -> Pos {
        let brace = self
            .groups_around(index)
            .find(|&open| self.opens(open, Delimiter::Brace));
        let mut first = index;
        while self.tokens[first].parent != brace {
            match self.tokens[first].parent {
                Some(open) => first = open,
                None => break,
            }
        }
        while first > 0 {
            let before = &self.tokens[first - 1];
            match before.kind {
                Kind::Punct(';' | ',') | Kind::Open(_) | Kind::Close(Delimiter::Brace) => break,
                Kind::Close(_) => first = before.mate,
                _ => first -= 1,
            }
        }
        self.tokens[first].start
    }

    /// The comments on the lines directly above `line`, with no blank line or code in between. Attributes
    /// and documentation in between are allowed.
    pub fn comments_above(&self, line: usize) -> Vec<&Comment> {
        let note = |line: &usize| self.lines.get(*line) == Some(&Line::Note);
        let top = (1..line).rev().take_while(note).last().unwrap_or(line);
        let above = |comment: &&Comment| (top..line).contains(&comment.start.line);
        self.comments.iter().filter(above).collect()
    }

    /// The opening half of the innermost braces around a position.
    fn braces_around(&self, at: Pos) -> Option<usize> {
        let after = self.tokens.partition_point(|token| token.start < at);
        let brace = |open: &usize| self.opens(*open, Delimiter::Brace);
        let last = after.checked_sub(1)?;
        let own = Some(last).filter(brace);
        own.or_else(|| self.groups_around(last).find(brace))
    }

    /// The comments from `start` to the end of the line `last_line` that are in the same braces as the
    /// token, or in braces further out.
    pub fn comments_beside(&self, index: usize, start: Pos, last_line: usize) -> Vec<&Comment> {
        let around: Vec<usize> = self.groups_around(index).collect();
        let beside = |comment: &&Comment| {
            comment.start >= start
                && comment.start.line <= last_line
                && self
                    .braces_around(comment.start)
                    .is_none_or(|open| around.contains(&open))
        };
        self.comments.iter().filter(beside).collect()
    }
}

/// The text after `tag` in a series of comments, including the lines that follow it; `None` without the
/// tag. Documentation is ignored.
pub fn tagged(comments: &[&Comment], tag: &str) -> Option<String> {
    let plain = comments.iter().filter(|comment| !comment.doc);
    let mut lines = plain.flat_map(|comment| &comment.lines);
    let first = lines.find_map(|line| line.strip_prefix(tag))?;
    let rest: Vec<&str> = lines.map(String::as_str).collect();
    Some(
        format!("{} {}", first.trim(), rest.join(" "))
            .trim()
            .to_owned(),
    )
}

/// Tokens and documentation while a stream is flattened.
#[derive(Default)]
struct Flat {
    tokens: Vec<Token>,
    docs: Vec<Comment>,
    /// Start and end of every token and documentation comment, in order.
    spans: Vec<Range<Pos>>,
}

impl Flat {
    fn push_all(&mut self, stream: TokenStream, parent: Option<usize>) {
        // The start of the documentation comment whose tokens are being skipped.
        let mut doc = None;
        for tree in stream {
            let span = tree.span();
            let (start, end) = (Pos::from(span.start()), Pos::from(span.end()));
            if doc == Some(start) {
                continue;
            }
            // The lexer gives a documentation comment as an attribute whose tokens all have the comment's
            // span.
            let is_hash = matches!(&tree, TokenTree::Punct(sign) if sign.as_char() == '#');
            if is_hash && (end.line > start.line || end.column > start.column + 1) {
                doc = Some(start);
                self.docs
                    .push(comment(&span.source_text().unwrap_or_default(), start));
                self.spans.push(start..end);
                continue;
            }
            self.push(tree, start, end, parent);
        }
    }

    fn push(&mut self, tree: TokenTree, start: Pos, end: Pos, parent: Option<usize>) {
        let kind = match tree {
            TokenTree::Ident(ident) => Kind::Ident(ident.to_string()),
            TokenTree::Punct(sign) => Kind::Punct(sign.as_char()),
            TokenTree::Literal(_) => Kind::Literal,
            TokenTree::Group(group) => {
                let span = |span: proc_macro2::Span| (span.start().into(), span.end().into());
                let (start, end) = span(group.span_open());
                let open = self.add(Kind::Open(group.delimiter()), start, end, parent);
                self.push_all(group.stream(), Some(open));
                let (start, end) = span(group.span_close());
                let close = self.add(Kind::Close(group.delimiter()), start, end, parent);
                self.tokens[open].mate = close;
                self.tokens[close].mate = open;
                return;
            }
        };
        self.add(kind, start, end, parent);
    }

    fn add(&mut self, kind: Kind, start: Pos, end: Pos, parent: Option<usize>) -> usize {
        let mate = self.tokens.len();
        self.tokens.push(Token {
            kind,
            start,
            end,
            mate,
            parent,
        });
        self.spans.push(start..end);
        mate
    }
}

/// The comment with this text, including its comment signs.
fn comment(text: &str, start: Pos) -> Comment {
    let doc = ["///", "//!", "/**", "/*!"]
        .iter()
        .any(|sign| text.starts_with(sign));
    let signs = |line: &str| {
        let line = line.trim().trim_end_matches("*/");
        line.trim_start_matches(['/', '*', '!']).trim().to_owned()
    };
    let lines: Vec<String> = text.lines().map(signs).collect();
    let last_line = start.line + lines.len().max(1) - 1;
    Comment {
        start,
        last_line,
        doc: doc && !text.starts_with("////"),
        lines,
    }
}

/// The comments between the spans.
fn comments_between(text: &str, spans: &[Range<Pos>]) -> Vec<Comment> {
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let first = Pos { line: 1, column: 0 };
    let last = Pos {
        line: lines.len() + 1,
        column: 0,
    };
    let starts = std::iter::once(first).chain(spans.iter().map(|span| span.end));
    let ends = spans
        .iter()
        .map(|span| span.start)
        .chain(std::iter::once(last));
    starts
        .zip(ends)
        .flat_map(|(start, end)| comments_in_gap(&lines, start, end))
        .collect()
}

/// A gap contains only white space and comments.
fn comments_in_gap(lines: &[Vec<char>], start: Pos, end: Pos) -> Vec<Comment> {
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        let Some(rest) = lines
            .get(at.line - 1)
            .and_then(|line| line.get(at.column..))
        else {
            at = Pos {
                line: at.line + 1,
                column: 0,
            };
            continue;
        };
        if rest.starts_with(&['/', '/']) {
            found.push(comment(&rest.iter().collect::<String>(), at));
            at = Pos {
                line: at.line + 1,
                column: 0,
            };
        } else if rest.starts_with(&['/', '*']) {
            let (text, after) = block_comment(lines, at);
            found.push(comment(&text, at));
            at = after;
        } else if rest.is_empty() {
            at = Pos {
                line: at.line + 1,
                column: 0,
            };
        } else {
            at.column += 1;
        }
    }
    found
}

/// The text and end of the block comment that starts at `at`. Block comments nest.
fn block_comment(lines: &[Vec<char>], mut at: Pos) -> (String, Pos) {
    let (mut text, mut depth) = (String::new(), 0);
    while let Some(line) = lines.get(at.line - 1) {
        let rest = line.get(at.column..).unwrap_or_default();
        let step = match rest {
            ['/', '*', ..] => 1,
            ['*', '/', ..] => -1,
            [] => {
                text.push('\n');
                at = Pos {
                    line: at.line + 1,
                    column: 0,
                };
                continue;
            }
            [next, ..] => {
                text.push(*next);
                at.column += 1;
                continue;
            }
        };
        depth += step;
        text.extend(&rest[..2]);
        at.column += 2;
        if depth == 0 {
            break;
        }
    }
    (text, at)
}

/// The content of each line; index 0 is unused.
fn classify(text: &str, tokens: &[Token], comments: &[Comment]) -> Vec<Line> {
    let mut lines = vec![Line::Blank; text.lines().count() + 2];
    for comment in comments {
        lines[comment.start.line..=comment.last_line].fill(Line::Note);
    }
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let bracket = |at: usize| {
            tokens
                .get(at)
                .filter(|t| t.kind == Kind::Open(Delimiter::Bracket))
        };
        let inner = usize::from(
            tokens
                .get(index + 1)
                .is_some_and(|t| t.kind == Kind::Punct('!')),
        );
        let attribute = bracket(index + 1 + inner).filter(|_| token.kind == Kind::Punct('#'));
        let (kind, last) = match attribute {
            Some(open) => (Line::Note, open.mate),
            None => (Line::Code, index),
        };
        for line in &mut lines[token.start.line..=tokens[last].end.line] {
            // A line with any code counts as code.
            *line = if *line == Line::Code {
                Line::Code
            } else {
                kind
            };
        }
        index = last + 1;
    }
    lines
}

#[cfg(test)]
mod tests;
