//! What the rules look at in one Rust file: calls with what is passed to them, and paths.
//!
//! syn parses the file. What stands in a macro is parsed too, as far as it is Rust; see `Reader::read_macro`.

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprCall, ExprIf, ExprMethodCall, ExprPath,
    FieldValue, File, Ident, ImplItem, ImplItemFn, Item, ItemFn, Macro, Meta, Path, Signature,
    Stmt, Token, TraitItemFn, UseName, UseRename, UseTree,
};

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `a.f()`.
    Method,
    /// `a::f()`.
    Path,
    /// `f()`.
    Name,
}

/// A call of a function or method.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method or function.
    pub name: String,
    /// How it is called.
    pub form: Form,
    /// The line of its name, or of the type before it, from 1.
    pub line: usize,
    /// The column of the same, from 1, as the compiler counts.
    pub column: usize,
    /// How many arguments it has.
    pub arguments: usize,
    /// The paths in its arguments, except in calls inside them and in comparisons.
    pub passed: Vec<Passed>,
    /// The function around it.
    pub function: String,
    /// Whether only tests compile it.
    pub in_test: bool,
    /// Whether it stands in braces that only a mutant enters: `if M::breaks(…) {`.
    pub in_mutant: bool,
    /// The lines on which its notes may stand: above its statement, and from its first line to its last.
    notes: [Vec<String>; 2],
}

/// A path in the arguments of a call.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Its line.
    pub line: usize,
    /// Its names.
    pub path: Vec<String>,
    /// Which argument it is, if it is a whole one.
    pub argument: Option<usize>,
}

/// A path, or one of the paths of a `use`.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its names.
    pub path: Vec<String>,
    /// Whether only tests compile it.
    pub in_test: bool,
}

/// A Rust file.
#[derive(Debug, Default)]
pub struct Parsed {
    /// All calls, in order of place.
    pub calls: Vec<Call>,
    /// All paths.
    pub paths: Vec<Named>,
}

impl Parsed {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The line and the message, if it is not Rust.
    pub fn of(text: &str) -> Result<Self, (usize, String)> {
        let file = syn::parse_file(text)
            .map_err(|error| (error.span().start().line, error.to_string()))?;
        let mut reader = Reader {
            lines: text.lines().collect(),
            ..Reader::default()
        };
        reader.visit_file(&file);
        let mut found = reader.found;
        found.calls.sort_by_key(|call| (call.line, call.column));
        Ok(found)
    }
}

impl Call {
    /// The text after `tag` in the comments above its statement, or in those of its own lines; with the comments on the
    /// lines that follow. Documentation is ignored.
    pub fn note(&self, tag: &str) -> Option<String> {
        self.notes.iter().find_map(|lines| {
            let first = lines.iter().position(|line| line.starts_with(tag))?;
            let text = lines[first..].join(" ");
            Some(text[tag.len()..].trim().to_owned())
        })
    }
}

/// What is around the code that is read.
#[derive(Clone, Default)]
struct Around {
    in_test: bool,
    in_mutant: bool,
    function: String,
    /// The first line of the statement, or of the match arm, field or item.
    statement: usize,
    /// The call whose arguments are read.
    call: Option<usize>,
    /// The argument of that call that begins here.
    argument: Option<usize>,
}

/// Walks through a file.
#[derive(Default)]
struct Reader<'a> {
    lines: Vec<&'a str>,
    found: Parsed,
    around: Around,
}

impl Reader<'_> {
    /// Reads something that has more around it.
    fn within(&mut self, add: impl FnOnce(&mut Around), read: impl FnOnce(&mut Self)) {
        let before = self.around.clone();
        add(&mut self.around);
        read(self);
        self.around = before;
    }

    /// Reads an item, a statement or what else a note may stand above.
    fn noted(&mut self, node: &impl Spanned, read: impl FnOnce(&mut Self)) {
        let line = node.span().start().line;
        self.within(|around| around.statement = line, read);
    }

    fn function(&mut self, signature: &Signature, read: impl FnOnce(&mut Self)) {
        self.within(|around| around.function = signature.ident.to_string(), read);
    }

    fn add_path(&mut self, path: Vec<String>) {
        let in_test = self.around.in_test;
        self.found.paths.push(Named { path, in_test });
    }

    /// Adds the paths of a `use`, behind these names.
    fn expand(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.expand(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.expand(one, before)),
            UseTree::Name(UseName { ident }) | UseTree::Rename(UseRename { ident, .. })
                if ident != "self" =>
            {
                self.add_path(with(ident));
            }
            _ => self.add_path(before.to_vec()),
        }
    }

    /// Adds a call that is named at a place, and reads its arguments.
    fn add_call(
        &mut self,
        (form, name, place): (Form, &Ident, &Ident),
        whole: &impl Spanned,
        arguments: &Punctuated<Expr, Token![,]>,
    ) {
        let (at, span, number) = (place.span().start(), whole.span(), self.found.calls.len());
        self.found.calls.push(Call {
            name: name.to_string(),
            form,
            line: at.line,
            column: at.column + 1,
            arguments: arguments.len(),
            passed: Vec::new(),
            function: self.around.function.clone(),
            in_test: self.around.in_test,
            in_mutant: self.around.in_mutant,
            notes: self.notes(span.start().line, span.end().line),
        });
        for (place, argument) in arguments.iter().enumerate() {
            let add = |around: &mut Around| {
                around.call = Some(number);
                around.argument = Some(place);
            };
            self.within(add, |reader| reader.visit_expr(argument));
        }
    }

    /// The comments that may be about a call on these lines: above its statement, and above its first line or on its
    /// own ones.
    fn notes(&self, first: usize, last: usize) -> [Vec<String>; 2] {
        let text = |line: usize| {
            self.lines
                .get(line.wrapping_sub(1))
                .map_or("", |line| *line)
        };
        let comment = |line: usize| {
            let comment = text(line).trim_start().strip_prefix("//")?;
            (!comment.starts_with(['/', '!'])).then(|| comment.trim().to_owned())
        };
        let above = |line: usize| {
            let mut above: Vec<String> = (1..line).rev().map_while(comment).collect();
            above.reverse();
            above
        };
        // Above a brace that closes stand notes about what it closes.
        let closes = text(first).trim_start().starts_with('}');
        let mut own = if closes { Vec::new() } else { above(first) };
        let behind = |line: usize| {
            // Behind an odd number of quotes stands a string.
            let is_code = |at: &usize| text(line)[..*at].matches('"').count() % 2 == 0;
            let mut signs = text(line).match_indices("//").map(|(at, _)| at);
            let start = signs.find(is_code)?;
            Some(text(line)[start + 2..].trim().to_owned())
        };
        own.extend((first..=last).filter_map(behind));
        [above(self.around.statement), own]
    }

    /// Reads what a macro is given as expressions between commas, as statements or as items, without `$`. What is none
    /// of these is read group by group.
    fn read_macro(&mut self, tokens: TokenStream) {
        let is_code =
            |one: &TokenTree| !matches!(one, TokenTree::Punct(sign) if sign.as_char() == '$');
        let tokens: TokenStream = tokens.into_iter().filter(is_code).collect();
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(all) = expressions.parse2(tokens.clone()) {
            all.iter().for_each(|one| self.visit_expr(one));
        } else if let Ok(all) = Block::parse_within.parse2(tokens.clone()) {
            for one in &all {
                self.visit_stmt(one);
            }
        } else if let Ok(file) = syn::parse2::<File>(tokens.clone()) {
            self.visit_file(&file);
        } else {
            for token in tokens {
                if let TokenTree::Group(group) = token {
                    self.read_macro(group.stream());
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.around.in_test |= is_test(attribute);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        self.noted(item, |reader| visit::visit_item(reader, item));
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        self.noted(item, |reader| visit::visit_impl_item(reader, item));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, |reader| visit::visit_impl_item_fn(reader, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function(&item.sig, |reader| visit::visit_trait_item_fn(reader, item));
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        self.expand(tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        self.add_path(names(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, found: &'ast Macro) {
        self.read_macro(found.tokens.clone());
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        self.noted(stmt, |reader| visit::visit_stmt(reader, stmt));
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.noted(arm, |reader| visit::visit_arm(reader, arm));
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        self.noted(field, |reader| visit::visit_field_value(reader, field));
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        let argument = self.around.argument.take();
        if let (Expr::Path(path), Some(call)) = (expr, self.around.call) {
            self.found.calls[call].passed.push(Passed {
                line: path.span().start().line,
                path: names(&path.path),
                argument,
            });
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.visit_expr(&call.receiver);
        let named = (Form::Method, &call.method, &call.method);
        self.add_call(named, call, &call.args);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let Expr::Path(ExprPath { path, .. }) = &*call.func else {
            return visit::visit_expr_call(self, call);
        };
        self.visit_path(path);
        let mut behind = path.segments.iter().rev().map(|segment| &segment.ident);
        match (behind.next(), behind.next()) {
            (Some(name), _) if is_type(&name.to_string()) => {
                call.args.iter().for_each(|one| self.visit_expr(one));
            }
            (Some(name), None) => self.add_call((Form::Name, name, name), call, &call.args),
            (Some(name), Some(of)) => self.add_call((Form::Path, name, of), call, &call.args),
            (None, _) => {}
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let compares = matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_));
        for operand in [&*binary.left, &*binary.right] {
            match operand {
                Expr::Path(ExprPath { path, .. }) if compares => self.visit_path(path),
                operand => self.visit_expr(operand),
            }
        }
    }

    fn visit_expr_if(&mut self, choice: &'ast ExprIf) {
        self.visit_expr(&choice.cond);
        let is_mutant = breaks(&choice.cond);
        let add = |around: &mut Around| around.in_mutant |= is_mutant;
        self.within(add, |reader| reader.visit_block(&choice.then_branch));
        if let Some((_, otherwise)) = &choice.else_branch {
            self.visit_expr(otherwise);
        }
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = path.segments.iter();
    names.map(|segment| segment.ident.to_string()).collect()
}

/// Whether it is the name of a type or a variant.
fn is_type(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
}

/// Whether a mutant is asked for, and nothing else.
fn breaks(condition: &Expr) -> bool {
    match condition {
        Expr::Binary(binary) => breaks(&binary.left) || breaks(&binary.right),
        Expr::Paren(inner) => breaks(&inner.expr),
        Expr::Call(call) => matches!(&*call.func, Expr::Path(path)
            if path.path.segments.last().is_some_and(|last| last.ident == "breaks")),
        _ => false,
    }
}

/// Whether it is `#[test]`, or `#[cfg(…)]` with a condition that holds in tests only.
fn is_test(attribute: &Attribute) -> bool {
    let condition = || attribute.parse_args::<Meta>();
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && condition().is_ok_and(|condition| needs_test(&condition))
}

fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let parts = parts.unwrap_or_default();
    let all = list.path.is_ident("all") && parts.iter().any(needs_test);
    all || list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
}

#[cfg(test)]
mod tests;
