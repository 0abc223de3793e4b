//! Kubeconfigs: what is taken, what is refused, and that neither is ever shown.

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kelpie_kube::kubeconfig::{Access, KubeconfigError};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};

use crate::kubeconfig::{Kubeconfig, SECRET};
use crate::server::authority;

/// Made once: keys take their time.
static GOOD: LazyLock<String> = LazyLock::new(|| good().yaml());

fn good() -> Kubeconfig {
    Kubeconfig::with_token("https://127.0.0.1:6443", &authority().pem())
}

/// The message of the refusal.
fn refusal(yaml: &str) -> String {
    let error = Access::from_kubeconfig(yaml.as_bytes()).unwrap_err();
    let whole = format!("{error} {error:?}");
    assert!(!whole.contains(SECRET), "{whole}");
    error.to_string()
}

#[test]
fn a_token_or_a_certificate_give_access() {
    let access = Access::from_kubeconfig(good().yaml().as_bytes()).unwrap();
    assert_eq!(format!("{access:?}"), "Access(https://127.0.0.1:6443)");

    let issuer = authority();
    let key = KeyPair::generate().unwrap();
    let chain = CertificateParams::default()
        .signed_by(&key, &issuer)
        .unwrap();
    let mut certified = good();
    certified.user = vec![
        format!(
            "client-certificate-data: {}",
            BASE64_STANDARD.encode(chain.pem())
        ),
        format!(
            "client-key-data: {}",
            BASE64_STANDARD.encode(key.serialize_pem())
        ),
    ];
    Access::from_kubeconfig(certified.yaml().as_bytes()).unwrap();
    // Both is fine, and so is a name for the server, and fields that are there but empty.
    let both = certified
        .user("token: t")
        .user("tokenFile: ''")
        .user("exec: null")
        .user("as-groups: []")
        .cluster("tls-server-name: api.example")
        .cluster("insecure-skip-tls-verify: false")
        .cluster("proxy-url: ''");
    Access::from_kubeconfig(both.yaml().as_bytes()).unwrap();
}

#[test]
fn json_is_yaml_and_a_token_of_digits_is_a_token() {
    let authority = BASE64_STANDARD.encode(authority().pem());
    let json = format!(
        r#"{{"current-context":"x","contexts":[{{"name":"x","context":{{"cluster":"c","user":"u"}}}}],
        "clusters":[{{"name":"c","cluster":{{"server":"https://a","certificate-authority-data":"{authority}"}}}}],
        "users":[{{"name":"u","user":{{"token":"12345"}}}}]}}"#
    );
    Access::from_kubeconfig(json.as_bytes()).unwrap();
    let mut digits = good();
    digits.user = vec!["token: 12345".into()];
    Access::from_kubeconfig(digits.yaml().as_bytes()).unwrap();
}

#[test]
fn what_reads_files_runs_programs_or_pretends_is_refused_by_name() {
    let cluster = [
        ("certificate-authority", "/etc/ca"),
        ("insecure-skip-tls-verify", "true"),
        ("proxy-url", "http://proxy"),
    ];
    for (field, value) in cluster {
        let message = refusal(&good().cluster(&format!("{field}: {value}")).yaml());
        let expected = format!("the kubeconfig uses {field}, which is refused");
        assert!(message.starts_with(&expected), "{message}");
    }
    let user = [
        ("exec", "{command: aws, apiVersion: v1}"),
        ("auth-provider", "{name: gcp}"),
        ("tokenFile", "/var/run/token"),
        ("client-certificate", "/etc/cert"),
        ("client-key", "/etc/key"),
        ("as", "root"),
        ("as-uid", "'0'"),
        ("as-groups", "[system:masters]"),
        ("as-user-extra", "{a: [b]}"),
        ("username", "admin"),
        ("password", SECRET),
    ];
    for (field, value) in user {
        let message = refusal(&good().user(&format!("{field}: {value}")).yaml());
        let expected = format!("the kubeconfig uses {field}, which is refused");
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn what_is_missing_or_broken_is_named() {
    let change = |find: &str, put: &str| refusal(&good().yaml().replace(find, put));
    for (message, expected) in [
        (change("https://127", "http://127"), "server is not https"),
        (
            change("https://127", "https://s3cr3t@127"),
            "has a user name or password (@)",
        ),
        (
            change("https://127.0.0.1:6443", "https://a?s3cr3t"),
            "has a query (?)",
        ),
        (
            change("certificate-authority-data", "x"),
            "no certificate-authority-data",
        ),
        (
            change(
                "certificate-authority-data: ",
                "certificate-authority-data: s3cr3t!",
            ),
            "not base64",
        ),
        (
            change(
                "certificate-authority-data: L",
                "certificate-authority-data: M",
            ),
            "cannot be used",
        ),
        (change("token: s3cr3t", "a: s3cr3t"), "no credentials"),
        (
            change("token: s3cr3t", "token: 's3cr3t é'"),
            "token cannot be sent",
        ),
        (
            change("token: s3cr3t", "token: \"s3cr3t\\nx: y\""),
            "token cannot be sent",
        ),
        (
            change("token: s3cr3t", "client-key-data: s3cr3tAA"),
            "only one of",
        ),
        (change("current-context: it", ""), "no current-context"),
        (
            change("current-context: it", "current-context: s3cr3t"),
            "contexts has no element",
        ),
        (
            change("cluster: c\n", "cluster: d\n"),
            "clusters has no element",
        ),
        (change("user: u\n", "user: v\n"), "users has no element"),
        (
            change("name: other\n  user", "name: u\n  user"),
            "users has several elements",
        ),
        (
            change("token: s3cr3t", "token: [s3cr3t"),
            "not valid at line",
        ),
        (
            change("token: s3cr3t", "token: {a: s3cr3t}"),
            "not valid at line",
        ),
        (
            change("token: s3cr3t", "token: s3cr3t\n    token: s3cr3t"),
            "not valid at line",
        ),
        (refusal(""), "no current-context"),
        (refusal("[]"), "not valid"),
        (refusal("s3cr3t"), "not valid"),
    ] {
        assert!(
            message.contains(expected),
            "expected {expected}, got {message}"
        );
    }
}

#[test]
fn bombs_are_refused() {
    let message = refusal(&"#".repeat(1024 * 1024 + 1));
    assert!(message.contains("has 1048577 bytes"), "{message}");
    let deep = "[".repeat(100_000);
    assert!(refusal(&deep).contains("not valid"));
    let deep_block: String = (0..500).map(|depth| " ".repeat(depth) + "a:\n").collect();
    assert!(refusal(&deep_block).contains("not valid"));
    let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let before = level - 1;
        let line = vec![format!("*a{before}"); 9].join(",");
        writeln!(laughs, "a{level}: &a{level} [{line}]").unwrap();
    }
    assert!(refusal(&laughs).contains("not valid"));
    let many = "- a\n".repeat(200_000);
    assert!(refusal(&many).contains("not valid"));
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_access_or_an_error(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        length in 0..20_usize,
    ) {
        let mut yaml = GOOD.clone().into_bytes();
        let _ = Access::from_kubeconfig(&noise);
        let begin = at.index(yaml.len());
        let end = (begin + length).min(yaml.len());
        yaml.splice(begin..end, noise);
        if let Err(error) = Access::from_kubeconfig(&yaml) {
            let is_large = matches!(error, KubeconfigError::TooLarge { .. });
            prop_assert!(!is_large);
        }
    }
}
