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
