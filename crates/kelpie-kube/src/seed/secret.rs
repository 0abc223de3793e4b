//! Secrets with the kubeconfig of a cluster.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretSlice;
use serde_json::Value;

use super::sieve::Keep;
use super::watch::Watched;

/// A kubeconfig is a few KB; what is larger is not one.
const LARGEST: usize = 1 << 20;

/// A Secret's kubeconfig.
#[derive(Debug, Clone)]
pub struct KubeconfigSecret {
    /// The namespace it is in: its cluster's.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the key `kubeconfig` holds; `None` if it cannot be used.
    pub kubeconfig: Option<SecretSlice<u8>>,
    /// Why it cannot be used.
    pub problem: Option<&'static str>,
}

pub(super) const PAGE: u32 = 500;

impl Watched for KubeconfigSecret {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Secret";
    const PLURAL: &'static str = "secrets";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[
                ("name", Keep::All),
                ("namespace", Keep::All),
                ("resourceVersion", Keep::All),
            ]),
        ),
        ("data", Keep::Fields(&[("kubeconfig", Keep::All)])),
    ]);

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let (kubeconfig, problem) = match decode(&object["data"]["kubeconfig"]) {
            Ok(kubeconfig) => (Some(kubeconfig), None),
            Err(problem) => (None, Some(problem)),
        };
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kubeconfig,
            problem,
        }
    }
}

fn decode(text: &Value) -> Result<SecretSlice<u8>, &'static str> {
    let text = text.as_str().ok_or("it has no key `kubeconfig`")?;
    // Three bytes stand in four characters.
    if text.len() > LARGEST.div_ceil(3) * 4 {
        return Err("its kubeconfig is larger than 1 MiB");
    }
    let bytes = BASE64_STANDARD.decode(text);
    let bytes = bytes.map_err(|_| "its kubeconfig is not base64")?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    fn read(data: &Value) -> KubeconfigSecret {
        KubeconfigSecret::read("ns", "name", &json!({ "data": data }))
    }

    #[test]
    fn the_kubeconfig_is_decoded_and_never_shown() {
        let secret = read(&json!({ "kubeconfig": "aGVsbG8=" }));
        assert_eq!(
            secret.kubeconfig.as_ref().unwrap().expose_secret(),
            b"hello"
        );
        assert_eq!(secret.problem, None);
        let shown = format!("{secret:?}");
        assert!(
            !shown.contains("hello") && !shown.contains("aGVsbG8"),
            "{shown}"
        );
        assert!(!shown.contains("104"), "no bytes either: {shown}");
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_absent_with_a_reason() {
        let longest = BASE64_STANDARD.encode(vec![0; LARGEST]);
        let too_long = BASE64_STANDARD.encode(vec![0; LARGEST + 3]);
        assert!(read(&json!({ "kubeconfig": longest })).kubeconfig.is_some());
        for (data, reason) in [
            (json!(null), "no key"),
            (json!({}), "no key"),
            (json!({ "kubeconfig": 7 }), "no key"),
            (json!({ "kubeconfig": "***" }), "not base64"),
            (json!({ "kubeconfig": too_long }), "larger than 1 MiB"),
        ] {
            let secret = read(&data);
            assert!(secret.kubeconfig.is_none());
            assert!(secret.problem.unwrap().contains(reason), "{reason}");
        }
    }
}
