//! Invalid weeder files and the problems reported for them.

use kelpie_config::{Strictness, weeder};

/// An otherwise valid file with `lines` at its top.
fn with(lines: &str) -> String {
    format!("{lines}\n{}", selector("{matchLabels: {role: apiserver}}"))
}

/// A file whose only service has this value.
fn service(service: &str) -> String {
    format!("servicesAndDependantSelectors:\n  etcd-main-client: {service}\n")
}

fn selector(selector: &str) -> String {
    service(&format!("{{podSelectors: [{selector}]}}"))
}

fn expression(expression: &str) -> String {
    selector(&format!("{{matchExpressions: [{expression}]}}"))
}

fn cases() -> Vec<(&'static str, String)> {
    vec![
        ("empty", String::new()),
        ("no services", "watchDuration: 5m\n".into()),
        (
            "services without value",
            "servicesAndDependantSelectors:\n".into(),
        ),
        (
            "services are empty",
            "servicesAndDependantSelectors: {}\n".into(),
        ),
        (
            "services are a list",
            "servicesAndDependantSelectors: [etcd]\n".into(),
        ),
        (
            "the other spelling",
            "servicesAndDependentSelectors: {}\n".into(),
        ),
        ("a prober's key", with("probeInterval: 10s")),
        (
            "a prober file",
            "kubeConfigSecretName: a\ndependentResourceInfos: []\n".into(),
        ),
        ("some other file", "name: web\nservices: {}\n".into()),
        (
            "a Deployment",
            "apiVersion: apps/v1\nkind: Deployment\nspec: {}\n".into(),
        ),
        ("zero watch", with("watchDuration: 0s")),
        ("watch without unit", with("watchDuration: 300")),
        ("watch in words", with("watchDuration: 5 minutes")),
        ("negative watch", with("watchDuration: -5m")),
        ("no deletions", with("maxDeletionsPerPod: 0")),
        ("deletions with a fraction", with("maxDeletionsPerPod: 2.5")),
        ("readiness misspelt", with("readiness: al")),
        ("readiness in capitals", with("readiness: ALL")),
        ("readiness is something else", with("readiness: quorum")),
        ("readiness is a truth value", with("readiness: on")),
        ("readiness is a list", with("readiness: [any]")),
        ("dry run is text", with("dryRun: 'true'")),
        ("dry run is a word", with("dryRun: sometimes")),
        (
            "service with a dot",
            "servicesAndDependantSelectors: {etcd.main: {podSelectors: [{matchLabels: {a: b}}]}}\n"
                .into(),
        ),
        (
            "service twice",
            "servicesAndDependantSelectors:\n  etcd: {podSelectors: [{matchLabels: {a: b}}]}\n  \
             etcd: {podSelectors: []}\n"
                .into(),
        ),
        (
            "service three times",
            "servicesAndDependantSelectors:\n  etcd: {podSelectors: [{matchLabels: {a: b}}]}\n  \
             etcd: {}\n  etcd: {}\n"
                .into(),
        ),
        ("service without value", service("")),
        ("service is a list", service("[{matchLabels: {a: b}}]")),
        ("no selectors", service("{}")),
        ("selectors are empty", service("{podSelectors: []}")),
        (
            "selectors are a map",
            service("{podSelectors: {matchLabels: {a: b}}}"),
        ),
        (
            "selector misspelt",
            service("{podSelector: [{matchLabels: {a: b}}]}"),
        ),
        ("labels of the service", service("{matchLabels: {a: b}}")),
        ("selector is empty", selector("{}")),
        (
            "selector of two empty halves",
            selector("{matchLabels: {}, matchExpressions: []}"),
        ),
        ("selector is nothing", selector("null")),
        ("selector is a text", selector("'role=apiserver'")),
        (
            "selector with a foreign key",
            selector("{matchLabel: {a: b}}"),
        ),
        ("labels are a list", selector("{matchLabels: [a]}")),
        ("label key is bad", selector("{matchLabels: {'a b': c}}")),
        (
            "label key with two slashes",
            selector("{matchLabels: {a/b/c: d}}"),
        ),
        ("label value is bad", selector("{matchLabels: {a: 'b c'}}")),
        (
            "label value is too long",
            selector(&format!("{{matchLabels: {{a: {}}}}}", "b".repeat(64))),
        ),
        ("label value is a list", selector("{matchLabels: {a: [b]}}")),
        ("label value is nothing", selector("{matchLabels: {a: }}")),
        (
            "label value is a loose truth value",
            selector("{matchLabels: {a: yes}}"),
        ),
        ("label twice", selector("{matchLabels: {a: b, a: c}}")),
        (
            "expressions are a map",
            selector("{matchExpressions: {key: a}}"),
        ),
        ("expression is a text", expression("a in (b)")),
        ("expression is empty", expression("{}")),
        (
            "expression with a foreign key",
            expression("{key: a, operator: Exists, value: b}"),
        ),
        (
            "operator in lower case",
            expression("{key: a, operator: in, values: [b]}"),
        ),
        (
            "operator unknown",
            expression("{key: a, operator: Gt, values: ['1']}"),
        ),
        (
            "operator is a list",
            expression("{key: a, operator: [In], values: [b]}"),
        ),
        ("In without values", expression("{key: a, operator: In}")),
        (
            "In with no values",
            expression("{key: a, operator: In, values: []}"),
        ),
        (
            "NotIn with a text",
            expression("{key: a, operator: NotIn, values: b}"),
        ),
        (
            "Exists with values",
            expression("{key: a, operator: Exists, values: [b]}"),
        ),
        (
            "DoesNotExist with a text",
            expression("{key: a, operator: DoesNotExist, values: b}"),
        ),
        (
            "a bad key and a bad value",
            expression("{key: '-a', operator: In, values: [b, 'c/d', null]}"),
        ),
        ("key of a selector at the top", with("podSelectors: []")),
    ]
}

#[test]
fn every_problem_has_position_and_remedy() {
    let cases = cases();
    for (name, file) in &cases {
        assert!(
            weeder::parse(file.as_bytes(), Strictness::Strict).is_err(),
            "{name} is accepted"
        );
    }
    let table =
        super::error_report::table(&cases, |bytes| weeder::parse(bytes, Strictness::Strict));
    insta::assert_snapshot!(table);
}

#[test]
fn case_templates_are_valid() {
    for file in [
        with(""),
        expression("{key: a, operator: Exists, values: []}"),
    ] {
        assert!(
            weeder::parse(file.as_bytes(), Strictness::Strict).is_ok(),
            "{file}"
        );
    }
}
