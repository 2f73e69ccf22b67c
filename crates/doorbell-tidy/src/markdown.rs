//! The part of Markdown that rules check: headings and links. Lines are counted from 1.

use pulldown_cmark::{Event, HeadingLevel, LinkType, Parser, Tag, TagEnd};

/// The headings, with their lines and levels.
pub fn headings(text: &str) -> Vec<(usize, HeadingLevel, String)> {
    let mut headings = Vec::new();
    let mut inside = false;
    for (event, at) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                headings.push((line_at(text, at.start), level, String::new()));
                inside = true;
            }
            Event::End(TagEnd::Heading(_)) => inside = false,
            Event::Text(part) | Event::Code(part) if inside => {
                if let Some((_, _, name)) = headings.last_mut() {
                    name.push_str(&part);
                }
            }
            _ => {}
        }
    }
    headings
}

/// The lines of the titles: headings of the first level.
pub fn titles(text: &str) -> Vec<usize> {
    let mut headings = headings(text);
    headings.retain(|(_, level, _)| *level == HeadingLevel::H1);
    headings.into_iter().map(|(line, _, _)| line).collect()
}

/// The targets of the links, images and definitions of references, with their lines.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let parser = Parser::new(text);
    let defined = parser.reference_definitions().iter();
    let mut links: Vec<(usize, String)> = defined
        .map(|(_, link)| (line_at(text, link.span.start), link.dest.to_string()))
        .collect();
    for (event, at) in parser.into_offset_iter() {
        if let Event::Start(
            Tag::Link {
                link_type: LinkType::Inline,
                dest_url,
                ..
            }
            | Tag::Image {
                link_type: LinkType::Inline,
                dest_url,
                ..
            },
        ) = event
        {
            links.push((line_at(text, at.start), dest_url.to_string()));
        }
    }
    links.sort();
    links
}

fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_stand_outside_fences() {
        let text =
            "# One\n```sh\n# a comment\n```\n~~~~\n```\n# no\n~~~\n~~~~\n## Two `x`\n#three\n";
        let found = headings(text)
            .into_iter()
            .map(|(line, _, name)| (line, name));
        let expected = [(1, "One"), (10, "Two x")].map(|(line, name)| (line, name.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(titles(text), [1]);
    }

    #[test]
    fn links_are_found_and_code_spans_skipped() {
        let of = |text| {
            links(text)
                .into_iter()
                .map(|(_, target)| target)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("see [a](b.md) and ![c](d.png \"title\")"),
            ["b.md", "d.png"]
        );
        assert_eq!(of("[a](<b c.md>) [x](y_(z).md)"), ["b c.md", "y_(z).md"]);
        assert_eq!(links("a\n\n[id]: other.md"), [(3, "other.md".to_owned())]);
        assert_eq!(
            of("`[a](b.md)` and ``x ` [c](d.md)``"),
            Vec::<String>::new()
        );
    }
}
