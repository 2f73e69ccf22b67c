//! The part of Markdown that rules check: titles, headings and links, outside code.

/// One line of prose: outside every fenced code block.
#[derive(Clone, Copy, Debug)]
pub struct Prose<'a> {
    /// Line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: &'a str,
}

impl<'a> Prose<'a> {
    /// Level and text, if the line is a heading (`## Words` is level 2, "Words").
    pub fn heading(&self) -> Option<(usize, &'a str)> {
        let level = self.text.bytes().take_while(|&byte| byte == b'#').count();
        let text = self.text[level..].strip_prefix(' ')?;
        (1..=6).contains(&level).then_some((level, text.trim()))
    }

    /// Targets of the links and images on the line, and of a reference definition.
    pub fn links(&self) -> Vec<String> {
        let text = without_code_spans(self.text);
        let mut targets = Vec::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            targets.extend(target(rest));
        }
        let definition = text
            .trim_start()
            .strip_prefix('[')
            .and_then(|text| text.split_once("]:"));
        if let Some((name, rest)) = definition
            && !name.contains(']')
        {
            targets.extend(rest.split_whitespace().next().map(str::to_owned));
        }
        targets
    }
}

/// The lines of `text` that are not in a fenced code block.
pub fn prose(text: &str) -> Vec<Prose<'_>> {
    let mut fence: Option<(char, usize)> = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mark = fence_of(line);
        match (fence, mark) {
            (None, Some((sign, count, _))) => fence = Some((sign, count)),
            (None, None) => lines.push(Prose {
                line: index + 1,
                text: line,
            }),
            (Some((open, least)), Some((sign, count, bare))) => {
                if sign == open && count >= least && bare {
                    fence = None;
                }
            }
            (Some(_), None) => {}
        }
    }
    lines
}

/// The lines of `text` that are titles: level 1 headings outside code.
pub fn titles(text: &str) -> Vec<usize> {
    let title = |line: &Prose<'_>| line.heading().is_some_and(|(level, _)| level == 1);
    prose(text)
        .iter()
        .filter(|line| title(line))
        .map(|line| line.line)
        .collect()
}

/// The fence's character, its length and whether the line ends there, if the line opens or closes a fenced
/// code block.
fn fence_of(line: &str) -> Option<(char, usize, bool)> {
    let text = line.trim_start();
    let sign = text
        .chars()
        .next()
        .filter(|sign| matches!(sign, '`' | '~'))?;
    let count = text.chars().take_while(|&next| next == sign).count();
    let rest = &text[count..];
    // A line such as ```` ```x``` ```` is a code span, not a fence.
    let span = sign == '`' && rest.contains('`');
    (count >= 3 && !span).then_some((sign, count, rest.trim().is_empty()))
}

/// The target of a link whose text after `](` is `rest`.
fn target(rest: &str) -> Option<String> {
    if let Some(angled) = rest.strip_prefix('<') {
        return angled.split_once('>').map(|(target, _)| target.to_owned());
    }
    let mut depth = 1;
    let end = rest.find(|next| {
        depth += match next {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    rest[..end].split_whitespace().next().map(str::to_owned)
}

/// The line with every code span blanked out. A run of backticks closes at the next equal run.
fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let count = rest[at..].bytes().take_while(|&byte| byte == b'`').count();
        let (before, after) = (&rest[..at], &rest[at + count..]);
        out.push_str(before);
        let run = "`".repeat(count);
        rest = after
            .split_once(run.as_str())
            .map_or(after, |(_, closed)| closed);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(line: &str) -> Vec<String> {
        Prose {
            line: 1,
            text: line,
        }
        .links()
    }

    #[test]
    fn headings_stand_outside_fences() {
        let text = "# One\n```sh\n# a comment\n```\n~~~~\n```\n# no\n~~~\n~~~~\n## Two\n#three\n";
        let headings: Vec<_> = prose(text).iter().filter_map(Prose::heading).collect();
        assert_eq!(headings, [(1, "One"), (2, "Two")]);
        assert_eq!(titles(text), [1]);
    }

    #[test]
    fn links_are_found_and_code_spans_skipped() {
        assert_eq!(
            links("see [a](b.md) and ![c](d.png \"title\")"),
            ["b.md", "d.png"]
        );
        assert_eq!(links("[a](<b c.md>) [x](y_(z).md)"), ["b c.md", "y_(z).md"]);
        assert_eq!(links("[id]: other.md"), ["other.md"]);
        assert_eq!(
            links("`[a](b.md)` and ``x ` [c](d.md)``"),
            Vec::<String>::new()
        );
    }
}
