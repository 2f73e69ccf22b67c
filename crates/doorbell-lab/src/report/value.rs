//! Any JSON as text: what `info`, `calibrate` and `sim` print.

use serde_json::{Map, Value};

use super::figure;
use super::table::{TABLE_MAX, aligned, push_wrapped};

/// Each field on a line by its name, and below them each list of objects as a table.
pub(crate) fn text_of(value: &Value) -> String {
    let (mut facts, mut below) = (String::new(), String::new());
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                below += &["\n", name, "\n", &table(items)].concat();
            }
            Value::Array(items) if items.iter().any(Value::is_string) => {
                for item in items {
                    push_wrapped(&mut facts, &format!("{name}: {}", cell(item)));
                }
            }
            Value::String(lines) if lines.contains('\n') => {
                below += &["\n", name, "\n", lines].concat();
            }
            value => push_wrapped(&mut facts, &format!("{name}: {}", cell(value))),
        }
    }
    facts + &below
}

/// A row for each object, with a column for each of their fields. A line that is too long ends with a sign for that.
fn table(objects: &[Value]) -> String {
    let objects: Vec<&Map<_, _>> = objects.iter().filter_map(Value::as_object).collect();
    let mut titles: Vec<&String> = Vec::new();
    for name in objects.iter().flat_map(|object| object.keys()) {
        if !titles.contains(&name) {
            titles.push(name);
        }
    }
    let of = |object: &&Map<_, _>| {
        let cell = |name: &&String| object.get(*name).map_or_else(String::new, cell);
        titles.iter().map(cell).collect()
    };
    let head = titles.iter().map(|title| (*title).clone()).collect();
    let rows: Vec<Vec<String>> = [head].into_iter().chain(objects.iter().map(of)).collect();
    let text = aligned(&rows, titles.len());
    let shortened = |line: &str| match line.char_indices().nth(TABLE_MAX) {
        Some((end, _)) => format!("{}…\n", &line[..end]),
        None => format!("{line}\n"),
    };
    text.lines().map(shortened).collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => figure(number.as_f64().unwrap_or_default()),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name}: {}", cell(value));
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_lines_and_lists_of_objects_are_tables() {
        let value = json!({
            "cpus": [0, 3], "sched_fifo": {"refused": "not permitted"}, "rtprio": null, "seconds": 1.25,
            "remedies": ["one", "two"],
            "workers": [{"core": 0, "class": "Rt"}, {"core": 1, "class": "Fair", "got": "SCHED_IDLE"}],
            "last_events": "core 0\n  thread 1\n",
        });
        let expected = "\
cpus: 0, 3
sched_fifo: refused: not permitted
rtprio: -
seconds: 1.25
remedies: one
remedies: two

workers
core  class  got
----  -----  ----------
0     Rt
1     Fair   SCHED_IDLE

last_events
core 0
  thread 1
";
        assert_eq!(text_of(&value), expected);
    }

    #[test]
    fn a_long_line_of_a_table_is_shortened() {
        let text = text_of(&json!({"all": [{"what": "x".repeat(200)}]}));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(
            widest == Some(TABLE_MAX + 1) && text.contains("x…"),
            "{text}"
        );
    }
}
