//! Secrets that contain the kubeconfig of a cluster.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretSlice;
use serde_json::Value;

use crate::objects::ObjectKind;
use crate::projection::FieldPath;
use crate::watch::WatchedResource;

/// A kubeconfig has a few KB; anything larger than this is not one.
const MAX_BYTES: usize = 1 << 20;

/// The kubeconfig in a Secret.
#[derive(Debug, Clone)]
pub struct KubeconfigSecret {
    /// The namespace of the Secret, which is the control plane namespace of the cluster.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// The decoded value of the key `kubeconfig`, or the reason why it cannot be used.
    pub kubeconfig: Result<SecretSlice<u8>, String>,
}

impl WatchedResource for KubeconfigSecret {
    const KIND: ObjectKind = ObjectKind::new("", "v1", "Secret", "secrets");
    const FIELDS: &'static [FieldPath] = &[&["data", "kubeconfig"]];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kubeconfig: kubeconfig_of(object, "kubeconfig"),
        }
    }
}

/// Returns the decoded value of a key of a Secret, or the reason why it is no kubeconfig.
pub fn kubeconfig_of(secret: &Value, key: &str) -> Result<SecretSlice<u8>, String> {
    let text = secret["data"][key].as_str();
    let text = text.ok_or_else(|| format!("it has no key `{key}`"))?;
    // Base64 encodes three bytes in four characters.
    if text.len() > MAX_BYTES.div_ceil(3) * 4 {
        return Err("its kubeconfig is larger than 1 MiB".to_owned());
    }
    let bytes = BASE64_STANDARD.decode(text);
    let bytes = bytes.map_err(|_| "its kubeconfig is not base64".to_owned())?;
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
    fn debug_hides_the_kubeconfig() {
        let secret = read(&json!({ "kubeconfig": "aGVsbG8=" }));
        assert_eq!(
            secret.kubeconfig.as_ref().unwrap().expose_secret(),
            b"hello"
        );
        let shown = format!("{secret:?}");
        assert!(
            !shown.contains("hello") && !shown.contains("aGVsbG8"),
            "{shown}"
        );
        assert!(!shown.contains("104"), "no bytes either: {shown}");
    }

    #[test]
    fn unusable_kubeconfig_has_a_problem() {
        let longest = BASE64_STANDARD.encode(vec![0; MAX_BYTES]);
        let too_long = BASE64_STANDARD.encode(vec![0; MAX_BYTES + 3]);
        assert!(read(&json!({ "kubeconfig": longest })).kubeconfig.is_ok());
        for (data, reason) in [
            (json!(null), "no key"),
            (json!({}), "no key"),
            (json!({ "kubeconfig": 7 }), "no key"),
            (json!({ "kubeconfig": "***" }), "not base64"),
            (json!({ "kubeconfig": too_long }), "larger than 1 MiB"),
        ] {
            let problem = read(&data).kubeconfig.unwrap_err();
            assert!(problem.contains(reason), "{reason}");
        }
    }
}
