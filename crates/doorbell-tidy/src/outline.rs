//! The syntax of a file: statements, functions, modules, test code.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, Lit, Meta, Visibility};

use crate::parsed::Pos;

/// A function with or without a body.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its visibility or `fn`.
    pub first_line: usize,
    /// The line of its closing brace.
    pub last_line: usize,
}

/// A `mod name;` whose code is in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// The inline modules around it, outermost first.
    pub inside: Vec<String>,
    /// The value of `#[path]`.
    pub path: Option<String>,
    /// The values of `path` inside `cfg_attr`: they hold under some conditions only.
    pub other_paths: Vec<String>,
    /// Whether only tests compile it.
    pub test: bool,
}

/// The outline of one file.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Statements, match arms, items and fields: everything that a comment can be above.
    pub units: Vec<Range<Pos>>,
    /// The contents of macro calls with braces.
    pub macro_braces: Vec<Range<Pos>>,
    /// Items under `#[cfg(test)]` or `#[test]`.
    pub test_spans: Vec<Range<Pos>>,
    /// All functions.
    pub functions: Vec<Function>,
    /// Modules in other files.
    pub modules: Vec<Module>,
    /// Paths in `include!`.
    pub includes: Vec<String>,
    /// Whether the file starts with `#![cfg(test)]`.
    pub all_test: bool,
    /// State of the walk: the enclosing inline modules.
    inside: Vec<String>,
    /// State of the walk: how many enclosing items are test code.
    test_depth: usize,
}

impl Outline {
    /// The outline of `file`.
    pub fn of(file: &syn::File) -> Self {
        let mut outline = Self {
            all_test: is_test(&file.attrs),
            ..Self::default()
        };
        outline.visit_file(file);
        outline
    }

    fn unit(&mut self, node: &impl Spanned) {
        self.units.push(range(node));
    }

    /// Visits an item, counting whether it is test code.
    fn within(&mut self, attrs: &[Attribute], span: Range<Pos>, visit: impl FnOnce(&mut Self)) {
        let test = is_test(attrs);
        self.test_depth += usize::from(test);
        visit(self);
        self.test_depth -= usize::from(test);
        if test {
            self.test_spans.push(span);
        }
    }

    fn function(&mut self, sig: &syn::Signature, start: Pos, end: Pos) {
        let (first_line, last_line) = (start.line, end.line);
        self.functions.push(Function {
            name: sig.ident.to_string(),
            first_line,
            last_line,
        });
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item(&mut self, item: &'ast Item) {
        self.unit(item);
        self.within(attrs_of(item), range(item), |this| {
            visit::visit_item(this, item);
        });
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if item.content.is_none() {
            self.modules.push(Module {
                name,
                inside: self.inside.clone(),
                path: item
                    .attrs
                    .iter()
                    .find_map(|attr| string_value(&attr.meta, "path")),
                other_paths: conditional_paths(&item.attrs),
                test: self.test_depth > 0,
            });
            return;
        }
        self.inside.push(name);
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let start = start_of(&item.vis, &item.sig);
        self.function(&item.sig, start, range(&item.block).end);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        self.unit(item);
        let attrs: &[Attribute] = match item {
            syn::ImplItem::Fn(function) => &function.attrs,
            _ => &[],
        };
        self.within(attrs, range(item), |this| {
            visit::visit_impl_item(this, item);
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let start = start_of(&item.vis, &item.sig);
        self.function(&item.sig, start, range(&item.block).end);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        self.unit(item);
        visit::visit_trait_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let end = item
            .default
            .as_ref()
            .map_or(range(&item.sig).end, |block| range(block).end);
        self.function(&item.sig, range(&item.sig).start, end);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_stmt(&mut self, node: &'ast syn::Stmt) {
        self.unit(node);
        visit::visit_stmt(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        self.unit(node);
        visit::visit_arm(self, node);
    }

    fn visit_field_value(&mut self, node: &'ast syn::FieldValue) {
        self.unit(node);
        visit::visit_field_value(self, node);
    }

    fn visit_variant(&mut self, node: &'ast syn::Variant) {
        self.unit(node);
        visit::visit_variant(self, node);
    }

    fn visit_macro(&mut self, node: &'ast syn::Macro) {
        if let syn::MacroDelimiter::Brace(brace) = &node.delimiter {
            let (open, close) = (brace.span.open().start(), brace.span.close().end());
            self.macro_braces.push(open.into()..close.into());
        }
        if node.path.is_ident("include")
            && let Ok(path) = node.parse_body::<syn::LitStr>()
        {
            self.includes.push(path.value());
        }
        // Items that a macro wraps, such as `cfg_loom! { mod model; }`.
        if let Ok(file) = node.parse_body::<syn::File>() {
            for item in &file.items {
                self.visit_item(item);
            }
        }
        visit::visit_macro(self, node);
    }
}

/// From the start to the end of a node.
fn range(node: &impl Spanned) -> Range<Pos> {
    let span = node.span();
    span.start().into()..span.end().into()
}

/// Where a function starts, after its attributes. A missing visibility has no position.
fn start_of(vis: &Visibility, sig: &syn::Signature) -> Pos {
    match vis {
        Visibility::Inherited => range(sig).start,
        given => range(given).start,
    }
}

/// The string of `name = "string"`.
fn string_value(meta: &Meta, name: &str) -> Option<String> {
    let Meta::NameValue(pair) = meta else {
        return None;
    };
    let Expr::Lit(syn::ExprLit {
        lit: Lit::Str(text),
        ..
    }) = &pair.value
    else {
        return None;
    };
    pair.path.is_ident(name).then(|| text.value())
}

/// The values of `#[cfg_attr(…, path = "…")]`.
fn conditional_paths(attrs: &[Attribute]) -> Vec<String> {
    let conditional = attrs.iter().filter(|attr| attr.path().is_ident("cfg_attr"));
    let parts = conditional.flat_map(|attr| nested(&attr.meta));
    parts
        .filter_map(|meta| string_value(&meta, "path"))
        .collect()
}

/// Whether the attributes make an item test code.
fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let conditions = nested(&attr.meta);
        let cfg = attr.path().is_ident("cfg") && conditions.iter().any(needs_test);
        cfg || attr.path().is_ident("test")
    })
}

/// Whether a condition of `cfg` holds in tests only.
fn needs_test(meta: &Meta) -> bool {
    let parts = nested(meta);
    if meta.path().is_ident("all") {
        parts.iter().any(needs_test)
    } else if meta.path().is_ident("any") {
        !parts.is_empty() && parts.iter().all(needs_test)
    } else {
        meta.path().is_ident("test")
    }
}

/// The parts of `name(part, part)`.
fn nested(meta: &Meta) -> Vec<Meta> {
    type Parts = syn::punctuated::Punctuated<Meta, syn::Token![,]>;
    let Meta::List(list) = meta else {
        return Vec::new();
    };
    let parts = list.parse_args_with(Parts::parse_terminated);
    parts
        .map(|parts| parts.into_iter().collect())
        .unwrap_or_default()
}

fn attrs_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Outline {
        Outline::of(&syn::parse_file(text).expect("snippet parses"))
    }

    #[test]
    fn functions_span_signature_and_body_without_docs() {
        let found =
            outline("/// Doc.\n#[inline]\npub fn f(\n    x: u8,\n) {\n}\ntrait T { fn g(); }\n");
        let lines: Vec<_> = found
            .functions
            .iter()
            .map(|f| (f.first_line, f.last_line))
            .collect();
        assert_eq!(lines, [(3, 6), (7, 7)]);
    }

    #[test]
    fn modules_keep_path_place_and_test() {
        let text = "mod a;\n#[cfg(all(test, feature = \"x\"))]\nmod b;\n\
            mod c {\n    #[path = \"p.rs\"]\n    mod d;\n}\n\
            #[cfg(any(test, feature = \"x\"))]\n#[cfg_attr(unix, path = \"u.rs\")]\nmod e;\n\
            wrapped! { inner! { mod f; } }\n#[cfg(not(test))]\nmod g;\n#[cfg(test)]\nmod h { mod i; }\n";
        let module = |name: &str, inside: &[&str], path: Option<&str>, test| Module {
            name: name.to_owned(),
            inside: inside.iter().map(|&text| text.to_owned()).collect(),
            path: path.map(str::to_owned),
            other_paths: Vec::new(),
            test,
        };
        let conditional = Module {
            other_paths: vec!["u.rs".to_owned()],
            ..module("e", &[], None, false)
        };
        let expected = [
            module("a", &[], None, false),
            module("b", &[], None, true),
            module("d", &["c"], Some("p.rs"), false),
            conditional,
            module("f", &[], None, false),
            module("g", &[], None, false),
            module("i", &["h"], None, true),
        ];
        assert_eq!(outline(text).modules, expected);
    }

    #[test]
    fn test_code_and_includes_are_seen() {
        let found = outline("#[cfg(test)]\nfn f() {}\n#[test]\nfn g() {}\ninclude!(\"x.rs\");\n");
        assert_eq!(found.test_spans.len(), 2);
        assert_eq!(found.includes, ["x.rs"]);
        assert!(outline("#![cfg(test)]\n").all_test);
    }
}
