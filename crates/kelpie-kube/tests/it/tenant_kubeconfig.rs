//! Kubeconfigs of tenants: accepted, refused, and never quoted in messages.

use std::fmt::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kelpie_kube::kubeconfig::{KubeconfigError, TenantConfig};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};

use crate::kubeconfig_builder::{KubeconfigBuilder, SECRET};
use crate::scripted_server::authority;

/// A valid kubeconfig. It is created once, because keys are slow to generate.
static VALID: LazyLock<String> = LazyLock::new(|| valid().yaml());

fn valid() -> KubeconfigBuilder {
    KubeconfigBuilder::with_token("https://127.0.0.1:6443", &authority().pem())
}

/// Returns the message of the refusal, which must not contain the secret.
fn refusal(yaml: &str) -> String {
    let error = TenantConfig::from_kubeconfig(yaml.as_bytes()).unwrap_err();
    let output = format!("{error} {error:?}");
    assert!(!output.contains(SECRET), "{output}");
    error.to_string()
}

#[test]
fn token_and_client_certificate_are_accepted() {
    let config = TenantConfig::from_kubeconfig(valid().yaml().as_bytes()).unwrap();
    assert_eq!(
        format!("{config:?}"),
        "TenantConfig(https://127.0.0.1:6443)"
    );

    let issuer = authority();
    let key = KeyPair::generate().unwrap();
    let chain = CertificateParams::default()
        .signed_by(&key, &issuer)
        .unwrap();
    let mut certified = valid();
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
    TenantConfig::from_kubeconfig(certified.yaml().as_bytes()).unwrap();
    // Both together are accepted, and so are a server name and refused fields that are empty.
    let both = certified
        .user("token: t")
        .user("tokenFile: ''")
        .user("exec: null")
        .user("as-groups: []")
        .cluster("tls-server-name: api.example")
        .cluster("insecure-skip-tls-verify: false")
        .cluster("proxy-url: ''");
    TenantConfig::from_kubeconfig(both.yaml().as_bytes()).unwrap();
}

#[test]
fn json_and_numeric_token_are_accepted() {
    let authority = BASE64_STANDARD.encode(authority().pem());
    let json = format!(
        r#"{{"current-context":"x",
        "contexts":[{{"name":"x","context":{{"cluster":"c","user":"u"}}}}],
        "clusters":[{{"name":"c","cluster":{{"server":"https://a",
            "certificate-authority-data":"{authority}"}}}}],
        "users":[{{"name":"u","user":{{"token":"12345"}}}}]}}"#
    );
    TenantConfig::from_kubeconfig(json.as_bytes()).unwrap();
    let mut digits = valid();
    digits.user = vec!["token: 12345".into()];
    TenantConfig::from_kubeconfig(digits.yaml().as_bytes()).unwrap();
}

#[test]
fn dangerous_fields_are_refused_by_name() {
    let cluster = [
        ("certificate-authority", "/etc/ca"),
        ("insecure-skip-tls-verify", "true"),
        ("proxy-url", "http://proxy"),
    ];
    for (field, value) in cluster {
        let message = refusal(&valid().cluster(&format!("{field}: {value}")).yaml());
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
        let message = refusal(&valid().user(&format!("{field}: {value}")).yaml());
        let expected = format!("the kubeconfig uses {field}, which is refused");
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn invalid_parts_are_named() {
    let change = |find: &str, put: &str| refusal(&valid().yaml().replace(find, put));
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
fn yaml_bombs_are_refused() {
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
    fn arbitrary_bytes_never_panic(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        length in 0..20_usize,
    ) {
        let mut yaml = VALID.clone().into_bytes();
        let _ = TenantConfig::from_kubeconfig(&noise);
        let start = at.index(yaml.len());
        let end = (start + length).min(yaml.len());
        yaml.splice(start..end, noise);
        if let Err(error) = TenantConfig::from_kubeconfig(&yaml) {
            let is_large = matches!(error, KubeconfigError::TooLarge { .. });
            prop_assert!(!is_large);
        }
    }
}
