//! A pod without a node: the product on this machine, started as a Deployment would start it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::folder::Folder;
use crate::{ApiServer, Kelpie, poll};

/// How long its probes may fail after the start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everybody's are the same in pods; here they have to be free ones.
const ADDRESSES: [&str; 2] = ["--metrics-bind-addr=", "--health-bind-addr="];

/// What the pod of a Deployment would run, with its files and as its service account.
pub struct Pod {
    arguments: Vec<String>,
    probes: Vec<String>,
    _folder: Folder,
}

impl Pod {
    /// From the Deployment, the `ConfigMaps` and the Secrets that are on the server.
    pub async fn of(api: &ApiServer, namespace: &str, deployment: &str) -> Result<Self> {
        let get = async |kind: &str, name: &str| -> Result<Value> {
            let namespace = format!("--namespace={namespace}");
            let found = ["get", kind, name, &namespace, "--output=json"];
            Ok(serde_json::from_str(&api.kubectl(&found).await?)?)
        };
        let spec = get("deployment", deployment).await?["spec"]["template"]["spec"].take();
        let container = &spec["containers"][0];
        let arguments = container["args"].as_array().context("no arguments")?;
        let mut arguments: Vec<String> = arguments
            .iter()
            .filter_map(Value::as_str)
            .filter(|word| !ADDRESSES.iter().any(|flag| word.starts_with(flag)))
            .map(str::to_owned)
            .collect();

        let folder = Folder::new(deployment)?;
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            let name = volume["name"].as_str().context("no name")?;
            let files = match &volume["configMap"]["name"] {
                Value::String(map) => get("configmap", map).await?,
                _ => {
                    get(
                        "secret",
                        volume["secret"]["secretName"].as_str().unwrap_or(name),
                    )
                    .await?
                }
            };
            let place = folder.path().join(name);
            write(&files, &place)?;
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let mut mounts = mounts.filter(|mount| mount["name"] == name);
            let mount = mounts.next().and_then(|mount| mount["mountPath"].as_str());
            let mount = mount.with_context(|| format!("{name} is not mounted"))?;
            for argument in &mut arguments {
                *argument = argument.replace(mount, &place.display().to_string());
            }
        }

        let account = spec["serviceAccountName"].as_str().context("no account")?;
        let account = format!("system:serviceaccount:{namespace}:{account}");
        let kubeconfig = folder.path().join("account.kubeconfig");
        fs::write(&kubeconfig, api.kubeconfig(&api.user(&account, &[])?))?;
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));

        let probes = ["livenessProbe", "readinessProbe"];
        let probes = probes.map(|probe| container[probe]["httpGet"]["path"].as_str());
        let probes: Vec<String> = probes.into_iter().flatten().map(str::to_owned).collect();
        ensure!(probes.len() == 2, "it has not both probes");
        Ok(Self {
            arguments,
            probes,
            _folder: folder,
        })
    }

    /// What it starts the product with, but for the addresses to listen at.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Starts it, and waits until both probes are content.
    pub async fn start(&self) -> Result<Kelpie> {
        let addresses = ADDRESSES.map(|flag| format!("{flag}127.0.0.1:0"));
        let running = Kelpie::start(&[self.arguments.as_slice(), &addresses].concat()).await?;
        for path in &self.probes {
            let healthy = poll::until(path, PATIENCE, async || {
                Ok((running.health(path).await?.status == 200).then_some(()))
            });
            healthy.await.with_context(|| running.log())?;
        }
        Ok(running)
    }
}

/// The files of a `ConfigMap` or a Secret.
fn write(object: &Value, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    for (name, content) in object["data"].as_object().into_iter().flatten() {
        let text = content.as_str().unwrap_or_default();
        let content = match object["kind"].as_str() {
            Some("Secret") => BASE64_STANDARD.decode(text)?,
            _ => text.as_bytes().to_vec(),
        };
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}
