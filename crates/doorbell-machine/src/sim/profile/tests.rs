use std::io;
use std::path::PathBuf;

use super::{KEYS, Problem, Profile, ProfileError};

/// A valid profile. Tests below rely on its line numbers.
const GOOD: &str = "\
about = \"two cores\"

[shape]
sockets = { value = 1, source = \"a test\" }
llc_groups_per_socket = { value = 1, source = \"a test\" }
cores_per_llc = { value = 2, source = \"a test\" }
smt = { value = 1, source = \"a test\" }

[costs]
own_hit_ns = { value = 1, source = \"a test\" }
smt_ns = { value = 10, source = \"a test\" }
llc_ns = { value = 4_0, source = \"a test\" }
socket_ns = { value = 0x50, source = \"a test\" }
cross_socket_ns = { value = 200, source = \"a test\" }
memory_ns = { value = 90, source = \"a test\" }
rmw_extra_ns = { value = 5, source = \"a test\" }
fence_ns = { value = 8, source = \"a test\" }
clock_ns = { value = 15, source = \"a test\" }
relax_ns = { value = 20, source = \"a test\" }
context_switch_ns = { value = 1000, source = \"a test\" }
syscall_ns = { value = 150, source = \"a test\" }
futex_wake_ns = { value = 900, source = \"a test\" }
eventfd_wait_ns = { value = 200, source = \"a test\" }
eventfd_wake_ns = { value = 1000, source = \"a test\" }
idle_exit_20us_ns = { value = 500, source = \"a test\" }
idle_exit_200us_ns = { value = 900, source = \"a test\" }
idle_exit_ns = { value = 2000, source = \"a test\" }
idle_exit_10ms_ns = { value = 3000, source = \"a test\" }
timer_late_ns = { value = 50, source = \"a test\" }
ipi_latency_ns = { value = 700, source = \"a test\" }
spawn_ns = { value = 9000, source = \"a test\" }
smt_busy_percent = { value = 160, source = \"a test\" }
jitter_percent = { value = 20, source = \"a test\" }

[tso]
drain_min_ns = { value = 5, source = \"a test\" }
drain_max_ns = { value = 400, source = \"a test\" }
store_buffer = { value = 56, source = \"a test\" }

[policy]
slice_ns = { value = 3000000, source = \"a test\" }
";

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse("test", "test.toml", text)
}

/// The error that [`GOOD`] gives with one part replaced.
fn error_with(part: &str, by: &str) -> ProfileError {
    assert_eq!(GOOD.matches(part).count(), 1, "{part} stands there once");
    parse(&GOOD.replace(part, by)).expect_err("it has a fault")
}

/// Line, key and text of an error, with the file.
fn place(error: &ProfileError) -> (&str, usize, &str, String) {
    match error {
        ProfileError::Invalid {
            file, line, key, ..
        } => (file, *line, key, error.to_string()),
        other => panic!("{other}"),
    }
}

fn problem(error: ProfileError) -> Problem {
    match error {
        ProfileError::Invalid { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

/// A file that is removed together with its folder.
struct Scratch(PathBuf);

impl Scratch {
    fn with(name: &str, bytes: &[u8]) -> Self {
        let folder = std::env::temp_dir().join(format!("doorbell-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let file = folder.join("mine.toml");
        std::fs::write(&file, bytes).expect("the file can be written");
        Scratch(file)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("it is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let folder = self.0.parent().expect("it lies in a folder");
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}

#[test]
fn every_number_is_read_with_its_source() {
    let profile = parse(GOOD).expect("it is right");
    assert_eq!((profile.name(), profile.about()), ("test", "two cores"));
    let spec = profile.spec();
    assert_eq!(
        (spec.cpus(), spec.costs.llc_ns, spec.costs.socket_ns),
        (2, 40, 80)
    );
    assert_eq!((spec.drain_ns.min_ns, spec.drain_ns.max_ns), (5, 400));
    assert_eq!(profile.entries().count(), KEYS.len());
    assert!(profile.entries().all(|(_, _, source)| source == "a test"));
}

#[test]
fn what_is_written_is_read_again() {
    let profile = parse(GOOD).expect("it is right");
    let again = parse(&profile.to_toml()).expect("it was written by us");
    assert_eq!(again.spec(), profile.spec());
    assert_eq!(again.to_toml(), profile.to_toml());
}

#[test]
fn profiles_that_come_with_doorbell_are_right_and_say_where_each_number_is_from() {
    for name in Profile::built_in() {
        let profile = Profile::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name(), name);
        for (key, _, source) in profile.entries() {
            assert!(
                source.len() > 15,
                "{name}: {} has a short source",
                key.path()
            );
            let assumed = source.strip_prefix("assumed: ");
            let reason = assumed.is_none_or(|rest| rest.contains("because"));
            assert!(reason, "{name}: {} is assumed without a reason", key.path());
        }
    }
}

#[test]
fn built_in_profiles_have_the_shapes_of_their_names() {
    let cpus = |name: &str| {
        let profile = Profile::load(name).expect("it is built in");
        profile.spec().cpus()
    };
    let all: Vec<_> = Profile::built_in().map(|name| (name, cpus(name))).collect();
    assert_eq!(
        all,
        [
            ("epyc-2x64", 256),
            ("broadwell-2x22-smt", 88),
            ("xeon-40", 40),
            ("smt-20", 40),
            ("zen3-2x64", 256),
            ("vm-2", 2),
        ]
    );
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let cases = [
        ("smt_ns =", "smt_nss =", 11, "costs.smt_nss", Some("smt_ns")),
        ("[costs]", "[cost]", 9, "cost", Some("costs")),
        ("about = ", "abut = ", 1, "abut", Some("about")),
        (
            "{ value = 5, source = \"a test\" }\nfence_ns",
            "{ value = 5, sorce = \"a test\" }\nfence_ns",
            16,
            "costs.rmw_extra_ns.sorce",
            Some("source"),
        ),
        ("slice_ns = {", "zzz = {", 41, "policy.zzz", None),
    ];
    for (part, by, line, key, nearest) in cases {
        let error = error_with(part, by);
        let (file, at, found, text) = place(&error);
        assert_eq!((file, at, found), ("test.toml", line, key), "{text}");
        let start = format!("test.toml:{line}: `{key}`: no such key");
        assert!(text.starts_with(&start), "{text}");
        let nearest = nearest.map(str::to_owned);
        assert_eq!(problem(error), Problem::UnknownKey { nearest });
    }
}

#[test]
fn a_missing_key_is_named_at_its_table() {
    let line = "smt = { value = 1, source = \"a test\" }\n";
    let error = error_with(line, "");
    assert_eq!(place(&error).1, 3);
    assert_eq!(
        error.to_string(),
        "test.toml:3: `shape.smt`: is missing (hardware threads of a physical core); add \
         `smt = { value = …, source = \"…\" }`"
    );
    let table = "[policy]\nslice_ns = { value = 3000000, source = \"a test\" }\n";
    let error = error_with(table, "");
    assert_eq!(place(&error).2, "policy.slice_ns");
    assert!(
        error
            .to_string()
            .ends_with("add `[policy] slice_ns = { value = …, source = \"…\" }`"),
        "{error}"
    );
    let error = error_with("about = \"two cores\"", "");
    assert_eq!((place(&error).1, place(&error).2), (1, "about"));
    let error = error_with("cores_per_llc = { value = 2, ", "cores_per_llc = { ");
    assert_eq!(
        (place(&error).1, place(&error).2),
        (6, "shape.cores_per_llc.value")
    );
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    let cases = [
        (
            "value = 10,",
            "value = \"10\",",
            11,
            "costs.smt_ns",
            "a text",
        ),
        (
            "value = 10,",
            "value = 1.5,",
            11,
            "costs.smt_ns",
            "a number with a point",
        ),
        (
            "value = 90,",
            "value = true,",
            15,
            "costs.memory_ns",
            "true or false",
        ),
        ("\"two cores\"", "2", 1, "about", "a whole number"),
        ("\"two cores\"", "\" \"", 1, "about", "empty"),
        (
            "smt = { value = 1, source = \"a test\" }",
            "smt = [1]",
            7,
            "shape.smt",
            "a list",
        ),
        (
            "{ value = 90, source = \"a test\" }",
            "{ value = 90, source = 1979-05-27 }",
            15,
            "costs.memory_ns.source",
            "a date",
        ),
    ];
    for (part, by, line, key, found) in cases {
        let error = error_with(part, by);
        let (_, at, name, text) = place(&error);
        assert_eq!((at, name), (line, key), "{text}");
        assert!(text.contains(&format!("is {found}; it must be")), "{text}");
    }
    let flat = parse("shape = 3\n").expect_err("it is no table");
    assert_eq!((place(&flat).1, place(&flat).2), (1, "shape"));
}

#[test]
fn a_value_out_of_range_is_named_with_the_range() {
    let cases = [
        (
            "sockets = { value = 1,",
            "sockets = { value = 0,",
            4,
            "shape.sockets",
            "0",
        ),
        (
            "cores_per_llc = { value = 2,",
            "cores_per_llc = { value = 1025,",
            6,
            "shape.cores_per_llc",
            "1025",
        ),
        ("value = 10,", "value = -1,", 11, "costs.smt_ns", "-1"),
        (
            "value = 10,",
            "value = 99999999999999999999999,",
            11,
            "costs.smt_ns",
            "99999999999999999999999",
        ),
        (
            "relax_ns = { value = 20,",
            "relax_ns = { value = 0,",
            19,
            "costs.relax_ns",
            "0",
        ),
        (
            "jitter_percent = { value = 20,",
            "jitter_percent = { value = 100,",
            33,
            "costs.jitter_percent",
            "100",
        ),
    ];
    for (part, by, line, key, value) in cases {
        let error = error_with(part, by);
        let (_, at, name, text) = place(&error);
        assert_eq!((at, name), (line, key), "{text}");
        let start = format!("test.toml:{line}: `{key}`: is {value}; write a number from ");
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn a_machine_that_is_too_large_or_a_range_that_is_none_is_named() {
    let large = GOOD
        .replace("sockets = { value = 1,", "sockets = { value = 33,")
        .replace(
            "cores_per_llc = { value = 2,",
            "cores_per_llc = { value = 32,",
        );
    let error = parse(&large).expect_err("it has 1,056 CPUs");
    assert_eq!(
        error.to_string(),
        "test.toml:4: `shape`: the machine has 1056 CPUs; at most 1024 can be simulated, so lower \
         one of its numbers"
    );
    let error = error_with(
        "drain_max_ns = { value = 400,",
        "drain_max_ns = { value = 4,",
    );
    assert_eq!(
        error.to_string(),
        "test.toml:37: `tso.drain_max_ns`: is less than `tso.drain_min_ns`; write the smaller \
         value there"
    );
}

#[test]
fn a_value_without_a_source_is_an_error() {
    let whole = "clock_ns = { value = 15, source = \"a test\" }";
    for by in [
        "clock_ns = 15",
        "clock_ns = { value = 15 }",
        "clock_ns = { value = 15, source = \"  \" }",
    ] {
        let error = error_with(whole, by);
        let (_, line, key, text) = place(&error);
        assert_eq!((line, key), (18, "costs.clock_ns"), "{text}");
        assert!(
            text.contains("write `{ value = 15, source = \"…\" }`"),
            "{text}"
        );
        assert!(matches!(problem(error), Problem::NoSource { .. }));
    }
}

#[test]
fn the_first_fault_of_a_file_is_told() {
    let both = GOOD
        .replace("clock_ns = {", "clok_ns = {")
        .replace("smt = {", "smd = {");
    let error = parse(&both).expect_err("it has four faults");
    // A missing key is reported at its table, but only after a key that has a wrong name.
    assert_eq!((place(&error).1, place(&error).2), (7, "shape.smd"));
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let cases = [
        (
            "smt_ns = {",
            "smt_ns {",
            11,
            "smt_ns { value = 10, source = \"a test\" }",
        ),
        (
            "smt_ns = {",
            "own_hit_ns = {",
            11,
            "own_hit_ns = { value = 10, source = \"a test\" }",
        ),
    ];
    for (part, by, at, words) in cases {
        let error = error_with(part, by);
        let ProfileError::Syntax {
            file, line, text, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((&file[..], *line, &text[..]), ("test.toml", at, words));
        assert!(error.to_string().contains("correct the line"), "{error}");
    }
}

#[test]
fn files_are_read_and_faults_name_them() {
    let good = Scratch::with("good", GOOD.as_bytes());
    let profile = Profile::load(good.name()).expect("it is right");
    assert_eq!(profile.name(), "mine");

    let mut bytes = GOOD.as_bytes().to_vec();
    let bad = GOOD.find("two").expect("it stands there");
    bytes[bad] = 0xFF;
    let no_text = Scratch::with("no-text", &bytes);
    let error = Profile::load(no_text.name()).expect_err("it is not UTF-8");
    assert!(
        matches!(error, ProfileError::NotUtf8 { line: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().starts_with(no_text.name()), "{error}");

    let gone = format!("{}-gone.toml", no_text.name());
    let error = Profile::load(&gone).expect_err("it is not there");
    let ProfileError::Unreadable { file, source } = &error else {
        panic!("{error}");
    };
    assert_eq!((file, source.kind()), (&gone, io::ErrorKind::NotFound));
    assert!(error.to_string().contains("check the path"), "{error}");
}

#[test]
fn an_unknown_name_is_told_with_the_known_ones() {
    let error = Profile::load("xeon40").expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "there is no profile `xeon40` (did you mean `xeon-40`?); there are epyc-2x64, \
         broadwell-2x22-smt, xeon-40, smt-20, zen3-2x64, vm-2, or give the path of a file \
         (`./xeon40.toml`)"
    );
}

#[test]
fn the_readme_explains_every_key() {
    let readme = include_str!("../../../profiles/README.md");
    for key in &KEYS {
        let row = format!("| `{}` | ", key.path());
        let rows: Vec<_> = readme
            .lines()
            .filter(|line| line.starts_with(&row))
            .collect();
        assert_eq!(rows.len(), 1, "{}", key.path());
        assert!(rows[0].contains(key.about), "{}", rows[0]);
    }
}
