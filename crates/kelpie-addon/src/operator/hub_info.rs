//! The hub-info Secret, in which the hub describes itself to the spoke.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// The used values of the hub-info Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubInfo {
    /// The name of this cluster on the hub.
    pub(crate) cluster: String,
    /// The URL for remote write.
    pub(crate) endpoint: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HubInfoYaml {
    #[serde(default)]
    cluster_name: String,
    #[serde(default)]
    observatorium_api_endpoint: String,
}

impl HubInfo {
    /// Parses the Secret. Errors never contain its values.
    pub(crate) fn read(secret: &Value) -> Result<Self, String> {
        let text = value(secret, "hub-info.yaml")?.ok_or("it has no key `hub-info.yaml`")?;
        let parsed: HubInfoYaml = serde_saphyr::from_str(&text)
            .map_err(|_| "its `hub-info.yaml` is not the expected YAML")?;
        let cluster_name = value(secret, "cluster-name")?.map(|name| name.trim().to_owned());
        let cluster = cluster_name.unwrap_or(parsed.cluster_name);
        if cluster.is_empty() {
            return Err("its `hub-info.yaml` has no `cluster-name`".to_owned());
        }
        let endpoint = parsed.observatorium_api_endpoint;
        if !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
            let problem = "its `observatorium-api-endpoint` is not an http(s) URL";
            return Err(problem.to_owned());
        }
        Ok(Self { cluster, endpoint })
    }
}

fn value(secret: &Value, key: &str) -> Result<Option<String>, String> {
    let Some(encoded) = secret["data"][key].as_str() else {
        return Ok(None);
    };
    let bytes = BASE64_STANDARD.decode(encoded);
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some)
        .ok_or_else(|| format!("its `{key}` is not base64-encoded text"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> Value {
        let mut data = json!({});
        for (key, text) in pairs {
            data[*key] = BASE64_STANDARD.encode(text).into();
        }
        json!({ "data": data })
    }

    const GOOD: &str = "cluster-name: a\nobservatorium-api-endpoint: https://hub/write\nother: 1\n";

    #[test]
    fn secret_has_cluster_and_endpoint() {
        let info = HubInfo::read(&secret(&[("hub-info.yaml", GOOD)])).unwrap();
        assert_eq!(
            (info.cluster.as_str(), info.endpoint.as_str()),
            ("a", "https://hub/write")
        );
        let named = secret(&[("hub-info.yaml", GOOD), ("cluster-name", "b\n")]);
        assert_eq!(HubInfo::read(&named).unwrap().cluster, "b");
    }

    #[test]
    fn errors_never_contain_values() {
        for (secret, reason) in [
            (json!({}), "no key"),
            (json!({ "data": { "hub-info.yaml": "*" } }), "base64"),
            (
                secret(&[("hub-info.yaml", "hunter2: {")]),
                "not the expected YAML",
            ),
            (secret(&[("hub-info.yaml", "x: hunter2")]), "cluster-name"),
            (
                secret(&[(
                    "hub-info.yaml",
                    "cluster-name: a\nobservatorium-api-endpoint: hunter2",
                )]),
                "not an http(s) URL",
            ),
        ] {
            let error = HubInfo::read(&secret).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
