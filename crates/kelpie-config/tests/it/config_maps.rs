//! Files inside of a `ConfigMap`, as kubectl prints it.

use kelpie_config::{ProberConfig, Strictness, prober, weeder};

const FILE: &str = "\
kubeConfigSecretName: probe-secret
probeInterval: 20s

guard: {}
";

fn indented(file: &str, by: usize) -> String {
    let lines = file.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("{}{line}\n", " ".repeat(by)),
    });
    lines.collect()
}

/// A `ConfigMap` whose only value is a literal block.
fn config_map(file: &str) -> String {
    let file = indented(file, 4);
    format!(
        "apiVersion: v1\ndata:\n  config.yaml: |\n{file}kind: ConfigMap\nmetadata:\n  name: a\n  \
         namespace: garden\n"
    )
}

fn parse(text: &str) -> Result<ProberConfig, String> {
    let parsed = prober::parse(text.as_bytes(), Strictness::Strict);
    parsed.map(|it| it.value).map_err(|it| it.to_string())
}

#[test]
fn file_is_read_in_every_style() {
    let expected = parse(FILE);
    expected.as_ref().unwrap();
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": FILE}, "metadata": {"name": "a"},
    });
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n    \
         ca.crt: |\n      -----BEGIN\n      a\n- apiVersion: v1\n  kind: ConfigMap\n  data:\n    \
         config.yaml: |\n{}",
        indented(FILE, 6)
    );
    let other = "watchDuration: 1m\nservicesAndDependantSelectors: {}\n";
    let with_other = config_map(FILE).replace(
        "data:\n",
        &format!("data:\n  a.txt: text\n  weeder: |\n{}", indented(other, 4)),
    );
    for text in [
        config_map(FILE),
        config_map(&format!("---\n{FILE}")),
        config_map(FILE).replace(": |", ": |-"),
        json.to_string(),
        serde_json::to_string_pretty(&json).unwrap(),
        list,
        with_other,
    ] {
        assert_eq!(parse(&text), expected, "{text}");
    }
}

#[test]
fn problems_have_the_position_in_the_config_map() {
    let problem = |text: &str| parse(text).unwrap_err();
    let bad = FILE.replace("probeInterval: 20s", "probeIntervall: 20s\nguard: {a: 1}");
    let literal = problem(&config_map(&bad));
    let expected = "\
5:5: probeIntervall: unknown key; did you mean `probeInterval`?
6:13: guard.a: unknown key; expected one of enabled, duration, zone, pool
8:5: guard: set twice, first on line 6; expected it only once";
    assert_eq!(literal, expected);
    let quoted = format!(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: {}\n",
        serde_json::to_string("kubeConfigSecretName: a\nguard: {}\nprobeIntervall: 1s").unwrap()
    );
    let expected = "4:6: probeIntervall: unknown key (line 3, column 1 of the value); did you \
                    mean `probeInterval`?";
    assert_eq!(problem(&quoted), expected);
}

#[test]
fn file_must_be_the_only_one() {
    let data = |data: &str| parse(&format!("apiVersion: v1\nkind: ConfigMap\ndata: {data}\n"));
    for (values, problem) in [
        (
            "{}",
            "the file is a ConfigMap without a value under `data`; expected a map",
        ),
        (
            "",
            "the file is a ConfigMap without a value under `data`; expected a map",
        ),
        (
            "{a: text, b: text}",
            "the file is a ConfigMap, and no value in it is the configuration; expected a map",
        ),
        (
            "{a: 'guard: {}', b: 'probeInterval: 1s'}",
            "the file has several values that could be the configuration; expected one; save one",
        ),
        ("{a: 'guard: ['}", "3:11: "),
        ("{a: ''}", "3:11: the file is empty"),
        (
            "{a: 'watchDuration: 1m, servicesAndDependantSelectors: {}'}",
            "3:11: ",
        ),
    ] {
        let error = data(values).unwrap_err();
        assert!(error.contains(problem), "{values}: {error}");
    }
    let weeder = "servicesAndDependantSelectors: {a: {podSelectors: [{matchLabels: {a: b}}]}}\n";
    weeder::parse(config_map(weeder).as_bytes(), Strictness::Strict).unwrap();
    let other = parse(&config_map(weeder)).unwrap_err();
    assert!(other.contains("looks like a weeder file"), "{other}");
}

#[test]
fn repeated_aliases_are_bounded() {
    let value = "a".repeat(1_000);
    let aliases: Vec<_> = (0..20_000).map(|it| format!("k{it}: *v")).collect();
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\ndata: {{k: &v '{value}', {}}}\n",
        aliases.join(", ")
    );
    let error = parse(&text).unwrap_err();
    assert!(
        error.contains("the file has values of a ConfigMap that are too large"),
        "{error}"
    );
}
