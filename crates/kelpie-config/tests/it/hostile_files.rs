//! Hostile files: parsing them is cheap and never panics.

use std::fmt::Write;
use std::path::Path;

use kelpie_config::{MAX_BYTES, Strictness, prober, weeder};
use proptest::collection::vec;
use proptest::prelude::*;

/// Parses with both parsers in both modes. The results do not matter, only that there are any.
fn parse_all_ways(bytes: &[u8]) {
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        for result in [
            prober::parse(bytes, strictness).map(|parsed| parsed.warnings),
            weeder::parse(bytes, strictness).map(|parsed| parsed.warnings),
        ] {
            let problems = result.unwrap_or_else(|report| {
                assert!(!report.problems.is_empty(), "rejected without a reason");
                report.problems
            });
            for problem in problems {
                assert!(problem.line > 0 && !problem.to_string().is_empty());
            }
        }
    }
}

/// Asserts that the file has this problem and no other.
fn assert_problem(bytes: &[u8], expected: &str) {
    let error = prober::parse(bytes, Strictness::Strict).unwrap_err();
    assert_eq!(error.problems.len(), 1, "{error}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_utf8_is_located() {
    assert_problem(
        b"name: a\nnamespace: \xc3\xa4\xff\n",
        "2:13: the file is not UTF-8 text: byte 0xff; save it as UTF-8",
    );
    assert_problem(
        b"\xff\xfen\0a\0m\0e\0",
        "1:1: the file is not UTF-8 text: byte 0xff; save it as UTF-8",
    );
}

#[test]
fn oversized_file_is_rejected() {
    let mut bytes = vec![b'#'; MAX_BYTES];
    assert_problem(
        &bytes,
        "1:1: the file is empty; expected a map with at least kubeConfigSecretName and \
         dependentResourceInfos",
    );
    bytes.push(b'\n');
    assert_problem(
        &bytes,
        "1:1: the file is too large; expected at most 1048576 bytes",
    );
}

#[test]
fn alias_bomb_is_rejected() {
    let mut laughs = String::from("l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for n in 1..10 {
        let item = format!("*l{}", n - 1);
        writeln!(laughs, "l{n}: &l{n} [{}]", vec![item; 10].join(", ")).unwrap();
    }
    assert_problem(
        laughs.as_bytes(),
        "5:45: the file expands to more than 100000 values",
    );
}

#[test]
fn merge_key_bomb_is_rejected() {
    let mut file = String::from("m0: &m0 {");
    for n in 0..500 {
        write!(file, "k{n}: 1, ").unwrap();
    }
    file.push_str("}\n");
    for n in 1..500 {
        writeln!(file, "m{n}: {{<<: *m0}}").unwrap();
    }
    assert_problem(
        file.as_bytes(),
        "100:11: the file expands to more than 100000 values",
    );
}

#[test]
fn deep_nesting_is_rejected() {
    assert_problem(
        "[".repeat(10_000).as_bytes(),
        "1:65: the file is not valid YAML: nested deeper than 64 levels",
    );
    assert_problem(
        "- ".repeat(10_000).as_bytes(),
        "1:129: the file is not valid YAML: nested deeper than 64 levels",
    );
    let mut chain = String::from("a0: &a0 [x]\n");
    for n in 1..5_000 {
        writeln!(chain, "a{n}: &a{n} [*a{}]", n - 1).unwrap();
    }
    assert_problem(
        chain.as_bytes(),
        "63:11: the file is not valid YAML: nested deeper than 64 levels",
    );
}

#[test]
fn many_problems_are_all_reported() {
    let mut file = String::new();
    for n in 0..5_000 {
        writeln!(file, "unknown{n}: 1").unwrap();
    }
    let report = prober::parse(file.as_bytes(), Strictness::Strict).unwrap_err();
    assert_eq!(report.problems.len(), 5_002);
}

#[test]
fn long_values_are_truncated_in_messages() {
    let file = format!("probeInterval: {}\n", "x".repeat(100_000));
    let report = prober::parse(file.as_bytes(), Strictness::Strict).unwrap_err();
    assert!(report.to_string().len() < 1_000);
}

#[test]
fn fuzz_corpus_never_panics() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut seen = 0;
    for folder in ["prober", "weeder"] {
        for file in corpus.join(folder).read_dir().unwrap() {
            parse_all_ways(&std::fs::read(file.unwrap().path()).unwrap());
            seen += 1;
        }
    }
    assert!(seen >= 20, "the corpus has {seen} files");
}

/// Generates text from fragments of real files and real mistakes.
fn yamlish() -> impl Strategy<Value = String> {
    let fragment = proptest::sample::select(vec![
        "kubeConfigSecretName",
        "dependentResourceInfos",
        "ref",
        "scaleUp",
        "scaleDown",
        "level",
        "replicas",
        "probeInterval",
        "servicesAndDependantSelectors",
        "podSelectors",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "In",
        "Exists",
        "<<",
        "name",
        "etcd",
        ":",
        ": ",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\"",
        "'",
        "|\n",
        ">-\n",
        "&a ",
        "*a",
        "&b ",
        "*b",
        "!!str ",
        "!!int ",
        "!x ",
        "? ",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "#",
        "\t",
        "\r\n",
        "\u{feff}",
        "\0",
        "~",
        "null",
        "true",
        "no",
        "10",
        "-1",
        "0.6",
        ".nan",
        "10s",
        "1h30m",
        "-5s",
        "apps/v1",
        "Deployment",
        "\u{1f980}",
        "\u{85}",
        "\u{2028}",
        "%",
        "@",
    ]);
    vec(fragment, 0..60).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        parse_all_ways(&bytes);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        parse_all_ways(text.as_bytes());
    }

    #[test]
    fn arbitrary_fragments_never_panic(text in yamlish()) {
        parse_all_ways(text.as_bytes());
    }

    #[test]
    fn truncated_files_never_panic(cut in 0..400_usize, flip in any::<u8>()) {
        let mut bytes = b"\
kubeConfigSecretName: a
dependentResourceInfos:
- ref: &r {apiVersion: apps/v1, kind: Deployment, name: a}
  scaleUp: {level: 1}
  scaleDown: {<<: *r}
".to_vec();
        let at = cut % bytes.len();
        bytes[at] ^= flip;
        parse_all_ways(&bytes);
        parse_all_ways(&bytes[..at]);
    }
}
