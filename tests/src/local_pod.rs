//! A pod without a node: the `kelpie` binary on this machine, started as its Deployment would start
//! it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::folder::Folder;
use crate::landscape::ALLOW_LOCAL_CLUSTERS;
use crate::{ImageRoot, Kelpie, KubeApiServer, poll};

/// The time for which the probes may fail after the start.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Flags with fixed ports in a Deployment. All processes of a test share one host, so they get free
/// ports instead.
const ADDRESS_FLAGS: [&str; 2] = ["--metrics-bind-addr=", "--health-bind-addr="];

/// The command of a pod, with the files it mounts and the rights of its service account.
pub struct LocalPod {
    arguments: Vec<String>,
    probes: Vec<String>,
    folder: Folder,
}

impl LocalPod {
    /// Reads the Deployment from the server, with the `ConfigMaps` and Secrets that it mounts.
    pub async fn from_deployment(
        api: &KubeApiServer,
        namespace: &str,
        deployment: &str,
    ) -> Result<Self> {
        let get = async |kind: &str, name: &str| -> Result<Value> {
            let namespace = format!("--namespace={namespace}");
            let arguments = ["get", kind, name, &namespace, "--output=json"];
            Ok(serde_json::from_str(&api.kubectl(&arguments).await?)?)
        };
        let spec = get("deployment", deployment).await?["spec"]["template"]["spec"].take();
        let container = &spec["containers"][0];
        let arguments = container["args"]
            .as_array()
            .context("the container has no args")?;
        let mut arguments: Vec<String> = arguments
            .iter()
            .filter_map(Value::as_str)
            .filter(|word| !ADDRESS_FLAGS.iter().any(|flag| word.starts_with(flag)))
            .map(str::to_owned)
            .collect();

        let folder = Folder::new(deployment)?;
        for volume in spec["volumes"].as_array().into_iter().flatten() {
            let name = volume["name"].as_str().context("a volume has no name")?;
            let object = match &volume["configMap"]["name"] {
                Value::String(map) => get("configmap", map).await?,
                _ => {
                    get(
                        "secret",
                        volume["secret"]["secretName"].as_str().unwrap_or(name),
                    )
                    .await?
                }
            };
            let directory = folder.path().join(name);
            write_files(&object, &directory)?;
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let mut mounts = mounts.filter(|mount| mount["name"] == name);
            let mount = mounts.next().and_then(|mount| mount["mountPath"].as_str());
            let mount = mount.with_context(|| format!("{name} is not mounted"))?;
            for argument in &mut arguments {
                *argument = argument.replace(mount, &directory.display().to_string());
            }
        }

        let account = spec["serviceAccountName"]
            .as_str()
            .context("the pod has no service account")?;
        let account = format!("system:serviceaccount:{namespace}:{account}");
        let kubeconfig = folder.path().join("account.kubeconfig");
        fs::write(&kubeconfig, api.kubeconfig(&api.user(&account, &[])?))?;
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        if arguments
            .first()
            .is_some_and(|component| component == "prober")
        {
            arguments.push(ALLOW_LOCAL_CLUSTERS.to_owned());
        }

        let probes = ["livenessProbe", "readinessProbe"];
        let probes = probes.map(|probe| container[probe]["httpGet"]["path"].as_str());
        let probes: Vec<String> = probes.into_iter().flatten().map(str::to_owned).collect();
        ensure!(
            probes.len() == 2,
            "the container lacks a liveness or a readiness probe"
        );
        Ok(Self {
            arguments,
            probes,
            folder,
        })
    }

    /// The arguments of `kelpie`, without the addresses to listen on.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Starts the process and waits until both probes succeed.
    pub async fn start(&self) -> Result<Kelpie> {
        self.until_healthy(Kelpie::start(&self.arguments_with_addresses()).await?)
            .await
    }

    /// Like [`start`](Self::start), in the container image.
    pub async fn start_in(&self, image: &ImageRoot) -> Result<Kelpie> {
        let arguments = self.arguments_with_addresses();
        let mounts = [self.folder.path()];
        self.until_healthy(Kelpie::start_in(image, &mounts, &arguments).await?)
            .await
    }

    fn arguments_with_addresses(&self) -> Vec<String> {
        let addresses = ADDRESS_FLAGS.map(|flag| format!("{flag}127.0.0.1:0"));
        [self.arguments.as_slice(), &addresses].concat()
    }

    async fn until_healthy(&self, running: Kelpie) -> Result<Kelpie> {
        for path in &self.probes {
            let healthy = poll::until(path, TIMEOUT, async || {
                Ok((running.health(path).await?.status == 200).then_some(()))
            });
            healthy.await.with_context(|| running.log())?;
        }
        Ok(running)
    }
}

/// Writes the entries of a `ConfigMap` or a Secret as files, as the kubelet mounts them.
fn write_files(object: &Value, folder: &Path) -> Result<()> {
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
