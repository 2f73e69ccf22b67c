//! Pictures with lines, or with bars, on logarithmic scales.

use std::fmt::Write as _;

/// Where the lines begin and end, and the space beside them.
const LEFT: f64 = 60.0;
const WIDTH: f64 = 600.0;
const TOP: f64 = 46.0;
const HEIGHT: f64 = 300.0;
/// The length of the longest bar, and the height of a row.
const BAR: f64 = 400.0;
const ROW: f64 = 26.0;

const COLOURS: [&str; 6] = [
    "#1d4ed8", "#b98b4a", "#15803d", "#b91c1c", "#7c3aed", "#0e7490",
];

/// A line: its name, and points of two positive numbers from left to right.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<[f64; 2]>,
}

/// The picture, as SVG. Both scales are logarithmic.
pub(super) fn lines(title: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let ends = |axis: usize| {
        let logs = all().map(|point| point[axis].log10());
        logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
            (low.min(log), high.max(log))
        })
    };
    let [x, y] = [ends(0), (ends(1).0.floor(), ends(1).1.ceil())];
    let share =
        |value: f64, (low, high): (f64, f64)| (value.log10() - low) / (high - low).max(1e-9);
    let at = |point: &[f64; 2]| {
        let (right, up) = (share(point[0], x), share(point[1], y));
        [LEFT + WIDTH * right, TOP + HEIGHT * (1.0 - up)]
    };
    let bottom = TOP + HEIGHT;
    let mut out = String::new();
    let mut places: Vec<f64> = all().map(|point| point[0]).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let [x, _] = at(&[place, 1.0]);
        let text = bottom + 18.0;
        let _ = writeln!(
            out,
            r##"<path d="M{x:.1} {TOP}V{bottom}" stroke="#e5e7eb"/><text x="{x:.1}" y="{text}" text-anchor="middle">{place}</text>"##
        );
    }
    for power in y.0 as i32..=y.1 as i32 {
        let value = 10_f64.powi(power);
        let [_, y] = at(&[1.0, value]);
        let (end, text) = (LEFT + WIDTH, y + 4.0);
        let _ = writeln!(
            out,
            r##"<path d="M{LEFT} {y:.1}H{end}" stroke="#e5e7eb"/><text x="54" y="{text:.1}" text-anchor="end">{value}</text>"##
        );
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<_> = line.points.iter().map(at).collect();
        let path: Vec<_> = points
            .iter()
            .map(|[x, y]| format!("{x:.1},{y:.1}"))
            .collect();
        let path = path.join(" ");
        let [x, y] = points.last().copied().unwrap_or_default();
        let (name, x, y) = (&line.name, x + 8.0, y + 4.0);
        let _ = writeln!(
            out,
            r#"<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/><text x="{x:.1}" y="{y:.1}" fill="{colour}">{name}</text>"#
        );
    }
    page([780.0, bottom + 34.0], title, &out)
}

/// A bar.
pub(super) struct Bar<'a> {
    /// Its name stands above the first of its bars.
    pub(super) group: &'a str,
    pub(super) name: String,
    pub(super) colour: &'a str,
    /// Positive numbers, and how strongly each is painted; the greatest first.
    pub(super) parts: Vec<(f64, f64)>,
    /// What stands at its end.
    pub(super) text: String,
}

/// The bars, as SVG: `left` is where they begin, and `from` the number there.
pub(super) fn bars(title: &str, [left, from]: [f64; 2], all: &[Bar<'_>]) -> String {
    let greatest = all.iter().map(|bar| bar.parts[0].0);
    let longest = greatest.fold(10.0 * from, f64::max);
    let length = |number: f64| BAR * (number / from).log10().max(0.02) / (longest / from).log10();
    let (mut out, mut y, mut last) = (String::new(), 24.0, "");
    for bar in all {
        let (name, colour) = (&bar.name, bar.colour);
        if bar.group != last {
            last = bar.group;
            y += 22.0;
            let bold = r#"font-weight="bold""#;
            let _ = writeln!(out, r#"<text x="10" y="{y}" {bold}>{last}</text>"#);
            y += 12.0;
        }
        let (at, text) = (left + length(bar.parts[0].0) + 8.0, y + 15.0);
        let _ = writeln!(out, r#"<text x="10" y="{text}">{name}</text>"#);
        for (number, opacity) in &bar.parts {
            let width = length(*number);
            let _ = writeln!(
                out,
                r#"<rect x="{left}" y="{y}" width="{width:.1}" height="18" fill="{colour}" opacity="{opacity}"/>"#
            );
        }
        let _ = writeln!(out, r#"<text x="{at:.1}" y="{text}">{}</text>"#, bar.text);
        y += ROW;
    }
    page([left + BAR + 150.0, y + 22.0], title, &out)
}

/// A picture of this size, with a title.
fn page([width, height]: [f64; 2], title: &str, inside: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n<text x=\"10\" \
         y=\"20\">{title}</text>\n{inside}</svg>\n"
    )
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_points_where_they_belong() {
        let line = |name: &str, points: &[[f64; 2]]| Line {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let all = [
            line("call", &[[4.0, 10.0], [40.0, 10.0], [400.0, 1_000.0]]),
            line("spawn", &[[4.0, 100.0], [400.0, 100.0]]),
        ];
        let picture = lines("ns", &all);
        assert_eq!(picture.matches("<polyline").count(), 2);
        // From the left below to the right above, and in the middle of the height.
        assert!(
            picture.contains(r#"points="60.0,346.0 360.0,346.0 660.0,46.0""#),
            "{picture}"
        );
        assert!(
            picture.contains(r#"points="60.0,196.0 660.0,196.0""#),
            "{picture}"
        );
        assert!(picture.contains(">spawn</text>"), "{picture}");
    }
}
