//! The objects of a collector, as they are applied. The same inputs give the same objects.

use kelpie_core::addon::Component;
use kelpie_kube::objects::Kind;
use serde_json::{Value, json};

use super::allowlist::Allowlist;
use super::hub_info::HubInfo;
use super::settings::OperatorOptions;
use super::world::{AUTHORITY, CLIENT_CERTIFICATE, World};
use crate::addon::{ADDON, Addon, AddonRef};
use crate::made::{DEPLOYMENT, MANAGER, MONITOR, RULE, SERVICE};

/// Where a collector serves its own metrics.
const PORT: u16 = 8080;

/// What a collector's Deployment, and all its other objects, are called.
pub(super) const fn deployment_name(component: Component) -> &'static str {
    match component {
        Component::Platform => "metrics-collector",
        Component::Uwl => "uwl-metrics-collector",
    }
}

/// What a collector's pods are selected by.
pub(super) fn selector(component: Component) -> String {
    let name = deployment_name(component);
    format!("app.kubernetes.io/managed-by={MANAGER},app.kubernetes.io/name={name}")
}

/// What a collector is made from.
pub(super) struct Recipe<'a> {
    pub(super) component: Component,
    pub(super) addon: &'a Addon,
    pub(super) place: &'a AddonRef,
    pub(super) options: &'a OperatorOptions,
    pub(super) hub: &'a HubInfo,
    pub(super) list: &'a Allowlist,
    pub(super) world: &'a World,
}

/// An object to be applied.
pub(super) struct Manifest {
    pub(super) kind: Kind,
    pub(super) object: Value,
}

/// A collector's objects, and the hash of its pods' template.
pub(super) struct Collector {
    /// The Deployment is the last.
    pub(super) manifests: Vec<Manifest>,
    pub(super) rollout: String,
}

impl Recipe<'_> {
    pub(super) fn collector(&self) -> Collector {
        let (template, rollout) = self.template();
        let replicas = u8::from(self.addon.spec.enable_metrics);
        let labels = self.selected();
        let deployment = json!({
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": template,
        });
        let service = json!({
            "selector": labels,
            "ports": [{ "name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP" }],
        });
        let mut manifests = vec![self.manifest(SERVICE, &service)];
        if self.world.kinds.contains(&MONITOR) {
            let monitor = json!({
                "selector": { "matchLabels": labels },
                "endpoints": [{ "port": "metrics", "path": "/metrics" }],
            });
            manifests.push(self.manifest(MONITOR, &monitor));
        }
        if self.world.kinds.contains(&RULE) {
            manifests.push(self.manifest(RULE, &self.alerts()));
        }
        manifests.push(self.manifest(DEPLOYMENT, &deployment));
        Collector { manifests, rollout }
    }

    fn name(&self) -> &'static str {
        deployment_name(self.component)
    }

    fn selected(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.name(),
            "app.kubernetes.io/managed-by": MANAGER,
        })
    }

    fn manifest(&self, kind: Kind, spec: &Value) -> Manifest {
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": self.name(),
                "namespace": self.place.namespace,
                "labels": self.selected(),
                "ownerReferences": [{
                    "apiVersion": ADDON.api_version(),
                    "kind": ADDON.kind,
                    "name": self.place.name,
                    "uid": self.addon.uid,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
            "spec": spec,
        });
        Manifest { kind, object }
    }

    /// The pods' template with the hash of itself in their environment.
    fn template(&self) -> (Value, String) {
        let mut environment = vec![json!({ "name": "KELPIE_ADDON_UID", "value": self.addon.uid })];
        let hash = fingerprint(&self.template_with(&environment).to_string());
        environment.push(json!({ "name": "KELPIE_ADDON_ROLLOUT", "value": hash }));
        (self.template_with(&environment), hash)
    }

    fn template_with(&self, environment: &[Value]) -> Value {
        let mut container = json!({
            "name": "collector",
            "image": self.options.image,
            "args": self.arguments(),
            "env": environment,
            "ports": [{ "name": "metrics", "containerPort": PORT, "protocol": "TCP" }],
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": "metrics" } },
            "livenessProbe": { "httpGet": { "path": "/livez", "port": "metrics" } },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "capabilities": { "drop": ["ALL"] },
            },
        });
        if let Some(resources) = &self.addon.spec.resources {
            container["resources"] = resources.clone();
        }
        let secrets = self.mounted();
        let mounts: Vec<Value> = secrets
            .iter()
            .map(|(name, _)| json!({ "name": name, "mountPath": format!("/tls/{name}"), "readOnly": true }))
            .collect();
        let volumes: Vec<Value> = secrets
            .iter()
            .map(|(name, secret)| json!({ "name": name, "secret": { "secretName": secret } }))
            .collect();
        let mut pod = json!({
            "serviceAccountName": self.options.service_account,
            "containers": [],
        });
        if !mounts.is_empty() {
            container["volumeMounts"] = mounts.into();
            pod["volumes"] = volumes.into();
        }
        pod["containers"] = vec![container].into();
        json!({ "metadata": { "labels": self.selected() }, "spec": pod })
    }

    /// Volumes and the Secrets that they hold.
    fn mounted(&self) -> Vec<(&'static str, &'static str)> {
        let mut volumes = vec![("client", CLIENT_CERTIFICATE), ("hub", AUTHORITY)];
        volumes.retain(|(_, secret)| self.has(secret));
        volumes
    }

    fn has(&self, secret: &str) -> bool {
        self.world.secrets.contains(&secret)
    }

    fn arguments(&self) -> Vec<String> {
        let spec = &self.addon.spec;
        let source = match self.component {
            Component::Platform => &self.options.platform,
            Component::Uwl => &self.options.uwl,
        };
        let mut arguments = vec!["addon".to_owned(), "collector".to_owned()];
        let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
        flag("component", self.component.name());
        flag("namespace", &self.place.namespace);
        flag("name", &self.place.name);
        flag("from", &source.url);
        flag("to-upload", &self.hub.endpoint);
        if self.has(CLIENT_CERTIFICATE) {
            flag("to-upload-cert", "/tls/client/tls.crt");
            flag("to-upload-key", "/tls/client/tls.key");
        }
        if self.has(AUTHORITY) {
            flag("to-upload-ca", "/tls/hub/ca.crt");
        }
        flag("interval", &format!("{}s", spec.interval().as_secs()));
        flag("limit-bytes", &spec.scrape_size_limit_bytes.to_string());
        flag("worker-number", &spec.workers().to_string());
        flag("listen", &format!(":{PORT}"));
        flag("label", &format!("cluster={}", self.hub.cluster));
        flag("label", &format!("clusterID={}", self.hub.cluster));
        if self.options.no_status {
            arguments.push("--no-status".to_owned());
        }
        let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
        for (old, new) in &self.list.renames {
            flag("rename", &format!("{old}={new}"));
        }
        for rule in &self.list.rules {
            let rule = json!({ "name": rule.record, "query": rule.expr });
            flag("recordingrule", &rule.to_string());
        }
        for selector in &self.list.matches {
            flag("match", selector);
        }
        arguments
    }

    /// None while the collector is switched off: empty rather than absent, to replace those that were.
    fn alerts(&self) -> Value {
        if !self.addon.spec.enable_metrics {
            return json!({ "groups": [] });
        }
        let (name, namespace) = (self.name(), &self.place.namespace);
        json!({ "groups": [{ "name": name, "rules": [{
            "alert": "MetricsCollectorDown",
            "expr": format!("absent(up{{job={name:?}, namespace={namespace:?}}} == 1)"),
            "for": "15m",
            "labels": { "severity": "warning" },
            "annotations": {
                "summary": format!("the {} is not there", self.component),
                "description": "Metrics of this cluster do not reach the hub.",
            },
        }] }] })
    }
}

/// 64 bits of FNV-1a, in hexadecimal: the same for ever, whatever compiles this.
fn fingerprint(text: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is applied of this kind for an addon with this spec.
    fn made(kind: Kind, spec: &Value) -> Value {
        let addon = Addon::read(json!({ "metadata": { "uid": "u" }, "spec": spec }));
        let world = World {
            hub: Err(String::new()),
            lists: [Ok(Allowlist::default()), Ok(Allowlist::default())],
            sources: [Ok(true), Ok(true)],
            deployments: [None, None],
            secrets: Vec::new(),
            kinds: vec![MONITOR, RULE],
        };
        let recipe = Recipe {
            component: Component::Platform,
            addon: &addon,
            place: &AddonRef {
                namespace: "spoke".into(),
                name: "addon".into(),
            },
            options: &OperatorOptions::default(),
            hub: &HubInfo {
                cluster: "c".into(),
                endpoint: "https://hub".into(),
            },
            list: &Allowlist::default(),
            world: &world,
        };
        let mut manifests = recipe.collector().manifests.into_iter();
        let found = manifests.find(|manifest| manifest.kind == kind);
        found.unwrap().object
    }

    #[test]
    fn nobody_is_alerted_of_a_collector_that_is_switched_off() {
        let groups =
            |on: bool| made(RULE, &json!({ "enableMetrics": on }))["spec"]["groups"].clone();
        let alert = &groups(true)[0]["rules"][0]["alert"];
        assert_eq!(alert, "MetricsCollectorDown");
        assert_eq!(groups(false), json!([]));
    }

    #[test]
    fn a_collector_is_told_of_no_more_workers_than_it_takes() {
        for (wanted, told) in [(0, 1), (1, 1), (7, 7), (70_000, 1_000)] {
            let deployment = made(DEPLOYMENT, &json!({ "workers": wanted }));
            let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
            let expected = json!(format!("--worker-number={told}"));
            let arguments = arguments.as_array().unwrap();
            assert!(arguments.contains(&expected), "{wanted}: {arguments:?}");
        }
    }

    #[test]
    fn the_fingerprint_is_that_of_the_published_examples() {
        for (text, hash) in [
            ("", "cbf29ce484222325"),
            ("a", "af63dc4c8601ec8c"),
            ("foobar", "85944171f73967e8"),
        ] {
            assert_eq!(fingerprint(text), hash);
        }
    }
}
