//! One Rust file as a flat list of tokens, and its comments.
//!
//! Tokens come from the lexer, so text in string literals and comments never looks like code, and the
//! contents of macro calls are seen like everything else. Comments are the text between two tokens.

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A place in a file: line from 1, column from 0, in characters.
pub use proc_macro2::LineColumn as Pos;

/// The words with which an item begins.
const ITEMS: [&str; 15] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or a keyword.
    Ident(String),
    /// One character of punctuation.
    Punct(char),
    /// A literal of any kind, as it is written.
    Literal(String),
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

/// A `mod name;` whose code is in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, with those of the inline modules around it: `outer/name`.
    pub name: String,
    /// The value of `#[path]`.
    pub path: Option<String>,
    /// Whether only tests compile it.
    pub test: bool,
}

/// A Rust file, split into its parts.
#[derive(Debug)]
pub struct Parsed {
    /// All tokens in order, without documentation comments.
    pub tokens: Vec<Token>,
    /// All comments in order.
    pub comments: Vec<Comment>,
    /// The tokens of items under `#[cfg(test)]` or `#[test]`.
    tests: Vec<Range<usize>>,
    lines: Vec<Line>,
}

impl Parsed {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The line and the message, if it does not consist of Rust's tokens.
    pub fn of(text: &str) -> Result<Self, (usize, String)> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            (error.span().start().line, error.to_string())
        })?;
        let mut flat = Flat {
            text,
            ..Flat::default()
        };
        flat.push_all(stream, None);
        let mut comments = flat.docs;
        comments.extend(comments_between(text, &flat.spans));
        comments.sort_by_key(|comment| comment.start);
        let mut parsed = Self {
            lines: classify(text, &flat.tokens, &comments),
            tokens: flat.tokens,
            comments,
            tests: Vec::new(),
        };
        let attributes = 0..parsed.tokens.len();
        parsed.tests = attributes.filter_map(|at| parsed.test_item(at)).collect();
        Ok(parsed)
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
        let token = self.tokens.get(index);
        token.is_some_and(|token| token.kind == Kind::Punct(sign))
    }

    /// Whether `::` starts at `index`.
    pub fn is_path_sep(&self, index: usize) -> bool {
        self.is_punct(index, ':') && self.is_punct(index + 1, ':')
    }

    /// Whether a group with `delimiter` opens at `index`.
    pub fn opens(&self, index: usize, delimiter: Delimiter) -> bool {
        let token = self.tokens.get(index);
        token.is_some_and(|token| token.kind == Kind::Open(delimiter))
    }

    /// The index behind the token or group at `index`.
    fn behind(&self, index: usize) -> usize {
        self.tokens[index].mate.max(index) + 1
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
                    for (first, _) in self.parts(at) {
                        self.expand(first, &path, out);
                    }
                    return;
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

    /// The parts of the group at `open`, which commas divide: the first token of each, and the one behind its last.
    pub fn parts(&self, open: usize) -> Vec<(usize, usize)> {
        let close = self.tokens[open].mate;
        let mut found = Vec::new();
        let (mut start, mut index) = (open + 1, open + 1);
        while index < close {
            if self.is_punct(index, ',') {
                found.push((start, index));
                start = index + 1;
            }
            index = self.behind(index);
        }
        if start < close {
            found.push((start, close));
        }
        found
    }

    /// Indices of the opening halves of the enclosing groups, innermost first.
    pub fn groups_around(&self, index: usize) -> impl Iterator<Item = usize> {
        let parent = |&open: &usize| self.tokens[open].parent;
        std::iter::successors(self.tokens[index].parent, parent)
    }

    /// The same, braces only.
    pub fn braces_around(&self, index: usize) -> impl Iterator<Item = usize> {
        let groups = self.groups_around(index);
        groups.filter(|&open| self.opens(open, Delimiter::Brace))
    }

    /// Whether the token stands in code that only tests compile.
    pub fn in_test(&self, index: usize) -> bool {
        self.tests.iter().any(|span| span.contains(&index))
    }

    /// Whether the whole file does: it starts with `#![cfg(test)]`.
    fn all_test(&self) -> bool {
        self.is_punct(1, '!') && self.is_test_attribute(2)
    }

    /// The name of the function around the token.
    pub fn function_around(&self, index: usize) -> Option<&str> {
        self.braces_around(index).find_map(|open| {
            let head = self.statement_first(open, &[';'])..open;
            let mut names = head.filter(|&at| self.ident(at) == Some("fn"));
            names.find_map(|at| self.ident(at + 1))
        })
    }

    /// The modules in other files.
    pub fn modules(&self) -> impl Iterator<Item = Module> {
        let names = (1..self.tokens.len()).filter_map(|at| Some((at, self.ident(at)?)));
        let modules =
            names.filter(|(at, _)| self.ident(at - 1) == Some("mod") && self.is_punct(at + 1, ';'));
        modules.map(|(at, name)| {
            let around = self.braces_around(at);
            let mut names: Vec<_> = around
                .filter(|open| *open > 1 && self.ident(open - 2) == Some("mod"))
                .filter_map(|open| self.ident(open - 1))
                .collect();
            names.reverse();
            names.push(name);
            Module {
                name: names.join("/"),
                path: self.path_attribute(at),
                test: self.all_test() || self.in_test(at),
            }
        })
    }

    /// The value of a `#[path = "…"]` of the statement around the token.
    fn path_attribute(&self, index: usize) -> Option<String> {
        let head = self.statement_first(index, &[';'])..index;
        let mut names = head.filter(|&at| self.ident(at) == Some("path"));
        names.find_map(|at| match &self.tokens.get(at + 2)?.kind {
            Kind::Literal(text) => Some(text.trim_matches('"').to_owned()),
            _ => None,
        })
    }

    /// Whether the group at `open` is `[test]`, or `[cfg(…)]` with a condition that holds in tests only.
    fn is_test_attribute(&self, open: usize) -> bool {
        let conditions = || self.parts(open + 2).into_iter();
        match self.ident(open + 1) {
            _ if !self.opens(open, Delimiter::Bracket) => false,
            Some("test") => self.tokens[open].mate == open + 2,
            Some("cfg") => conditions().any(|(first, _)| self.needs_test(first)),
            _ => false,
        }
    }

    /// Whether the condition that begins at `index` holds in tests only.
    fn needs_test(&self, index: usize) -> bool {
        let parts = || self.parts(index + 1).into_iter().map(|(first, _)| first);
        match self.ident(index) {
            Some("all") => parts().any(|part| self.needs_test(part)),
            Some("any") => parts().all(|part| self.needs_test(part)) && parts().next().is_some(),
            name => name == Some("test"),
        }
    }

    /// The item whose attribute begins at `index`, if the attribute makes it test code.
    fn test_item(&self, index: usize) -> Option<Range<usize>> {
        if !self.is_punct(index, '#') || !self.is_test_attribute(index + 1) {
            return None;
        }
        let mut at = self.behind(index + 1);
        while self.is_punct(at, '#') {
            at = self.behind(at + 1);
        }
        if self.ident(at) == Some("pub") {
            at += 1;
            if self.opens(at, Delimiter::Parenthesis) {
                at = self.behind(at);
            }
        }
        self.ident(at).filter(|word| ITEMS.contains(word))?;
        while !self.is_punct(at, ';') && !self.opens(at, Delimiter::Brace) {
            at = self.behind(at);
            self.tokens.get(at)?;
        }
        Some(index..self.behind(at))
    }

    /// Where the enclosing statement (or match arm, item or field) starts.
    pub fn statement_start(&self, index: usize) -> Pos {
        let brace = self.braces_around(index).next();
        let mut first = index;
        while self.tokens[first].parent != brace {
            match self.tokens[first].parent {
                Some(open) => first = open,
                None => break,
            }
        }
        self.tokens[self.statement_first(first, &[';', ','])].start
    }

    /// The first token of the statement around `index`: behind one of the signs `ends`, or a brace. What goes on
    /// behind a closing brace is one statement: `} else`, `}.method()`, `}?`, and `} =`.
    pub fn statement_first(&self, index: usize, ends: &[char]) -> usize {
        let goes_on = |at| {
            let sign = ['.', '?', '='].iter().any(|sign| self.is_punct(at, *sign));
            sign || self.ident(at) == Some("else")
        };
        let mut first = index;
        while let Some(before) = first.checked_sub(1) {
            match self.tokens[before].kind {
                Kind::Punct(sign) if ends.contains(&sign) => break,
                Kind::Open(_) => break,
                Kind::Close(Delimiter::Brace) if !goes_on(first) => break,
                _ => first = self.tokens[before].mate.min(before),
            }
        }
        first
    }

    /// The comments on the lines directly above `line`, with no blank line or code in between. Attributes
    /// and documentation in between are allowed.
    pub fn comments_above(&self, line: usize) -> Vec<&Comment> {
        let note = |line: &usize| self.lines.get(*line) == Some(&Line::Note);
        let top = (1..line).rev().take_while(note).last().unwrap_or(line);
        let above = |comment: &&Comment| (top..line).contains(&comment.start.line);
        self.comments.iter().filter(above).collect()
    }

    /// The comments from `start` to the end of the line `last_line` that are in the same braces as the
    /// token, or in braces further out.
    pub fn comments_beside(&self, index: usize, start: Pos, last_line: usize) -> Vec<&Comment> {
        let around: Vec<usize> = self.groups_around(index).collect();
        let is_around = |at: Pos| {
            let behind = self.tokens.partition_point(|token| token.start < at);
            let Some(last) = behind.checked_sub(1) else {
                return true;
            };
            let own = Some(last).filter(|last| self.opens(*last, Delimiter::Brace));
            let brace = own.or_else(|| self.braces_around(last).next());
            brace.is_none_or(|open| around.contains(&open))
        };
        let beside = |comment: &&Comment| {
            let lines = comment.start >= start && comment.start.line <= last_line;
            lines && is_around(comment.start)
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
    let text = format!("{} {}", first.trim(), rest.join(" "));
    Some(text.trim().to_owned())
}

/// Tokens and documentation while a stream is flattened.
#[derive(Default)]
struct Flat<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    docs: Vec<Comment>,
    /// The bytes of every token and documentation comment, in order.
    spans: Vec<Range<usize>>,
}

impl Flat<'_> {
    fn push_all(&mut self, stream: TokenStream, parent: Option<usize>) {
        // The start of the documentation comment whose tokens are being skipped.
        let mut doc = None;
        for tree in stream {
            let bytes = tree.span().byte_range();
            if doc == Some(bytes.start) {
                continue;
            }
            // The lexer gives a documentation comment as an attribute whose tokens all have the comment's
            // span.
            let is_hash = matches!(&tree, TokenTree::Punct(sign) if sign.as_char() == '#');
            if is_hash && bytes.len() > 1 {
                doc = Some(bytes.start);
                let text = &self.text[bytes.clone()];
                self.docs.push(comment(text, tree.span().start()));
                self.spans.push(bytes);
                continue;
            }
            self.push(tree, parent);
        }
    }

    fn push(&mut self, tree: TokenTree, parent: Option<usize>) {
        let span = tree.span();
        let kind = match tree {
            TokenTree::Ident(ident) => Kind::Ident(ident.to_string()),
            TokenTree::Punct(sign) => Kind::Punct(sign.as_char()),
            TokenTree::Literal(literal) => Kind::Literal(literal.to_string()),
            TokenTree::Group(group) => {
                let open = self.add(Kind::Open(group.delimiter()), group.span_open(), parent);
                self.push_all(group.stream(), Some(open));
                let close = self.add(Kind::Close(group.delimiter()), group.span_close(), parent);
                self.tokens[open].mate = close;
                self.tokens[close].mate = open;
                return;
            }
        };
        self.add(kind, span, parent);
    }

    fn add(&mut self, kind: Kind, span: proc_macro2::Span, parent: Option<usize>) -> usize {
        let mate = self.tokens.len();
        self.tokens.push(Token {
            kind,
            start: span.start(),
            end: span.end(),
            mate,
            parent,
        });
        self.spans.push(span.byte_range());
        mate
    }
}

/// The comment with this text, including its comment signs.
fn comment(text: &str, start: Pos) -> Comment {
    let docs = ["///", "//!", "/**", "/*!"];
    let doc = docs.iter().any(|sign| text.starts_with(sign)) && !text.starts_with("////");
    let signs = |line: &str| {
        let line = line.trim().trim_end_matches("*/");
        line.trim_start_matches(['/', '*', '!']).trim().to_owned()
    };
    let lines: Vec<String> = text.lines().map(signs).collect();
    Comment {
        start,
        last_line: start.line + lines.len().max(1) - 1,
        doc,
        lines,
    }
}

/// The comments between the spans, where there is only white space beside them.
fn comments_between(text: &str, spans: &[Range<usize>]) -> Vec<Comment> {
    let ends = text.match_indices('\n').map(|(end, _)| end + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let place = |at: usize| {
        let line = starts.partition_point(|start| *start <= at);
        let column = text[starts[line - 1]..at].chars().count();
        Pos { line, column }
    };
    let mut found = Vec::new();
    let mut at = 0;
    let ends = spans.iter().map(|span| (span.start, span.end));
    for (end, next) in ends.chain([(text.len(), text.len())]) {
        while let Some(skipped) = text.get(at..end).and_then(|gap| gap.find('/')) {
            let start = at + skipped;
            let rest = &text[start..end];
            let length = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else {
                block_length(rest)
            };
            found.push(comment(rest[..length].trim_end(), place(start)));
            at = start + length;
        }
        at = next;
    }
    found
}

/// The length of the block comment with which the text begins. Block comments nest.
fn block_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(sign) = text.as_bytes().get(at..at + 2) {
        match sign {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The content of each line; index 0 is unused.
fn classify(text: &str, tokens: &[Token], comments: &[Comment]) -> Vec<Line> {
    let mut lines = vec![Line::Blank; text.lines().count() + 2];
    for comment in comments {
        lines[comment.start.line..=comment.last_line].fill(Line::Note);
    }
    let is = |at: usize, kind: Kind| tokens.get(at).is_some_and(|token| token.kind == kind);
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let open = index + 1 + usize::from(is(index + 1, Kind::Punct('!')));
        let is_attribute =
            token.kind == Kind::Punct('#') && is(open, Kind::Open(Delimiter::Bracket));
        let (kind, last) = if is_attribute {
            (Line::Note, tokens[open].mate)
        } else {
            (Line::Code, index)
        };
        for line in &mut lines[token.start.line..=tokens[last].end.line] {
            // A line with any code counts as code.
            if *line != Line::Code {
                *line = kind;
            }
        }
        index = last + 1;
    }
    lines
}

#[cfg(test)]
mod tests;
