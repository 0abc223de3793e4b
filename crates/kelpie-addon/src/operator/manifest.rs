//! The objects of a collector, as applied. They depend on nothing but the inputs.

use kelpie_core::addon::AddonComponent;
use kelpie_core::fnv1a;
use kelpie_kube::objects::ObjectKind;
use serde_json::{Value, json};

use super::allowlist::Allowlist;
use super::hub_info::HubInfo;
use super::inputs::{CLIENT_CERTIFICATE, HUB_CA};
use super::options::OperatorOptions;
use crate::addon::{ADDON, AddonRef, ObservabilityAddon};
use crate::owned::{
    DEPLOYMENT, FIELD_MANAGER, MANAGED_BY, PROMETHEUS_RULE, SERVICE, SERVICE_MONITOR, object_name,
};

/// The port on which a collector serves its own metrics.
const PORT: u16 = 8080;

/// Returns a label selector for the pods of a collector.
pub(super) fn pod_selector(component: AddonComponent) -> String {
    let name = object_name(component);
    format!("{MANAGED_BY}={FIELD_MANAGER},app.kubernetes.io/name={name}")
}

/// Builds the objects of a collector.
pub(super) struct ManifestBuilder<'a> {
    pub(super) component: AddonComponent,
    pub(super) addon: &'a ObservabilityAddon,
    pub(super) addon_ref: &'a AddonRef,
    /// The kinds of the Prometheus operator that the API server has.
    pub(super) monitoring_kinds: &'a [ObjectKind],
}

/// The inputs of a collector's pod template.
pub(super) struct TemplateInputs<'a> {
    pub(super) options: &'a OperatorOptions,
    pub(super) hub: &'a HubInfo,
    pub(super) allowlist: &'a Allowlist,
    /// The existing Secrets for TLS to the hub.
    pub(super) secrets: &'a [&'static str],
    /// The ID of an OpenShift cluster.
    pub(super) openshift: Option<&'a str>,
}

/// The objects of a collector.
pub(super) struct CollectorManifests {
    /// The objects to apply. The Deployment is the last one.
    pub(super) objects: Vec<(ObjectKind, Value)>,
    /// The hash of the pod template.
    pub(super) rollout: String,
}

impl ManifestBuilder<'_> {
    /// Builds all objects of a collector that runs.
    pub(super) fn running(&self, inputs: &TemplateInputs<'_>) -> CollectorManifests {
        let (template, rollout) = self.template(inputs);
        let deployment = json!({
            "replicas": 1,
            "selector": { "matchLabels": self.labels() },
            "template": template,
        });
        let mut objects = self.companions();
        objects.push(self.object(DEPLOYMENT, &deployment));
        CollectorManifests { objects, rollout }
    }

    /// Builds the objects beside the Deployment. They depend on no input but the spec.
    pub(super) fn companions(&self) -> Vec<(ObjectKind, Value)> {
        let labels = self.labels();
        let service = json!({
            "selector": labels,
            "ports": [
                { "name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP" },
            ],
        });
        let mut objects = vec![self.object(SERVICE, &service)];
        if self.monitoring_kinds.contains(&SERVICE_MONITOR) {
            let monitor = json!({
                "selector": { "matchLabels": labels },
                "endpoints": [{ "port": "metrics", "path": "/metrics" }],
            });
            objects.push(self.object(SERVICE_MONITOR, &monitor));
        }
        if self.monitoring_kinds.contains(&PROMETHEUS_RULE) {
            objects.push(self.object(PROMETHEUS_RULE, &self.alerts()));
        }
        objects
    }

    fn name(&self) -> &'static str {
        object_name(self.component)
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.name(),
            MANAGED_BY: FIELD_MANAGER,
        })
    }

    fn object(&self, kind: ObjectKind, spec: &Value) -> (ObjectKind, Value) {
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": self.name(),
                "namespace": self.addon_ref.namespace,
                "labels": self.labels(),
                "ownerReferences": [{
                    "apiVersion": ADDON.api_version(),
                    "kind": ADDON.kind,
                    "name": self.addon_ref.name,
                    "uid": self.addon.uid,
                    "controller": true,
                    "blockOwnerDeletion": false,
                }],
            },
            "spec": spec,
        });
        (kind, object)
    }

    /// Returns the pod template and its hash. The hash is taken without the environment variable
    /// that passes it to the pod.
    fn template(&self, inputs: &TemplateInputs<'_>) -> (Value, String) {
        let mut environment = vec![json!({ "name": "KELPIE_ADDON_UID", "value": self.addon.uid })];
        let hash = fingerprint(&self.template_with(inputs, &environment).to_string());
        environment.push(json!({ "name": "KELPIE_ADDON_ROLLOUT", "value": hash }));
        (self.template_with(inputs, &environment), hash)
    }

    fn template_with(&self, inputs: &TemplateInputs<'_>, environment: &[Value]) -> Value {
        let mut container = json!({
            "name": "collector",
            "image": inputs.options.image,
            "args": self.arguments(inputs),
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
        // The names of the volumes, each with its Secret.
        let mut secrets = vec![("client", CLIENT_CERTIFICATE), ("hub", HUB_CA)];
        secrets.retain(|(_, secret)| inputs.secrets.contains(secret));
        let mount = |(name, _): &(&str, &str)| {
            let path = format!("/tls/{name}");
            json!({ "name": name, "mountPath": path, "readOnly": true })
        };
        let volume = |(name, secret): &(&str, &str)| {
            let secret = json!({ "secretName": secret });
            json!({ "name": name, "secret": secret })
        };
        let mut pod = json!({ "serviceAccountName": inputs.options.service_account });
        let placement = &inputs.options.placement;
        if !placement.node_selector.is_empty() {
            pod["nodeSelector"] = json!(placement.node_selector);
        }
        if !placement.tolerations.is_empty() {
            pod["tolerations"] = json!(placement.tolerations);
        }
        if !placement.pull_secrets.is_empty() {
            let named = placement.pull_secrets.iter();
            pod["imagePullSecrets"] = named.map(|name| json!({ "name": name })).collect();
        }
        if !secrets.is_empty() {
            container["volumeMounts"] = secrets.iter().map(mount).collect();
            pod["volumes"] = secrets.iter().map(volume).collect();
        }
        pod["containers"] = vec![container].into();
        json!({ "metadata": { "labels": self.labels() }, "spec": pod })
    }

    fn arguments(&self, inputs: &TemplateInputs<'_>) -> Vec<String> {
        let TemplateInputs {
            options,
            hub,
            allowlist,
            secrets,
            openshift,
        } = inputs;
        let spec = &self.addon.spec;
        let source = match self.component {
            AddonComponent::Platform => &options.platform,
            AddonComponent::Uwl => &options.uwl,
        };
        let mut arguments = vec!["addon".to_owned(), "collector".to_owned()];
        let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
        flag("component", self.component.name());
        flag("namespace", &self.addon_ref.namespace);
        flag("name", &self.addon_ref.name);
        flag("from", &source.url);
        if openshift.is_some() {
            flag("from-query", &options.query_url);
        }
        flag("to-upload", &hub.endpoint);
        if secrets.contains(&CLIENT_CERTIFICATE) {
            flag("to-upload-cert", "/tls/client/tls.crt");
            flag("to-upload-key", "/tls/client/tls.key");
        }
        if secrets.contains(&HUB_CA) {
            flag("to-upload-ca", "/tls/hub/ca.crt");
        }
        flag("interval", &format!("{}s", spec.interval().as_secs()));
        flag("limit-bytes", &spec.scrape_size_limit_bytes.to_string());
        flag("worker-number", &spec.workers().to_string());
        flag("listen", &format!(":{PORT}"));
        flag("label", &format!("cluster={}", hub.cluster));
        let id = openshift.unwrap_or(&hub.cluster);
        flag("label", &format!("clusterID={id}"));
        if options.no_status {
            arguments.push("--no-status".to_owned());
        }
        let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
        for (old, new) in &allowlist.renames {
            flag("rename", &format!("{old}={new}"));
        }
        for rule in &allowlist.rules {
            let rule = json!({ "name": rule.record, "query": rule.expr });
            flag("recordingrule", &rule.to_string());
        }
        for selector in &allowlist.matches {
            flag("match", selector);
        }
        arguments
    }

    /// Returns the spec of the `PrometheusRule`. While metrics are disabled it has no alerts; it is
    /// applied all the same, to remove earlier ones.
    fn alerts(&self) -> Value {
        if !self.addon.spec.enable_metrics {
            return json!({ "groups": [] });
        }
        let (name, namespace) = (self.name(), &self.addon_ref.namespace);
        json!({ "groups": [{ "name": name, "rules": [{
            "alert": "MetricsCollectorDown",
            "expr": format!("absent(up{{job={name:?}, namespace={namespace:?}}} == 1)"),
            "for": "15m",
            "labels": { "severity": "warning" },
            "annotations": {
                "summary": format!("the {} is down", self.component),
                "description": "Metrics of this cluster do not reach the hub.",
            },
        }] }] })
    }
}

/// Returns a hash in hexadecimal that is the same in every version.
fn fingerprint(text: &str) -> String {
    format!("{:016x}", fnv1a(text.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::options::Placement;

    /// Returns the object of a kind, for an addon with this spec.
    fn manifest_of(kind: ObjectKind, spec: &Value) -> Value {
        manifest_with(kind, spec, &OperatorOptions::default(), None)
    }

    fn manifest_with(
        kind: ObjectKind,
        spec: &Value,
        options: &OperatorOptions,
        openshift: Option<&str>,
    ) -> Value {
        let addon = ObservabilityAddon::read(json!({ "metadata": { "uid": "u" }, "spec": spec }));
        let builder = ManifestBuilder {
            component: AddonComponent::Platform,
            addon: &addon,
            addon_ref: &AddonRef {
                namespace: "spoke".into(),
                name: "addon".into(),
            },
            monitoring_kinds: &[SERVICE_MONITOR, PROMETHEUS_RULE],
        };
        let inputs = TemplateInputs {
            options,
            hub: &HubInfo {
                cluster: "c".into(),
                endpoint: "https://hub".into(),
            },
            allowlist: &Allowlist::default(),
            secrets: &[],
            openshift,
        };
        let mut objects = builder.running(&inputs).objects.into_iter();
        objects.find(|(found, _)| *found == kind).unwrap().1
    }

    #[test]
    fn disabled_collector_has_no_alerts() {
        let groups = |on: bool| {
            manifest_of(PROMETHEUS_RULE, &json!({ "enableMetrics": on }))["spec"]["groups"].clone()
        };
        let alert = &groups(true)[0]["rules"][0]["alert"];
        assert_eq!(alert, "MetricsCollectorDown");
        assert_eq!(groups(false), json!([]));
    }

    #[test]
    fn openshift_has_its_id_and_its_querier() {
        let arguments = |openshift| {
            let options = OperatorOptions::default();
            let deployment = manifest_with(DEPLOYMENT, &json!({}), &options, openshift);
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
        };
        let elsewhere = arguments(None);
        assert!(elsewhere.contains("--label=clusterID=c\""), "{elsewhere}");
        assert!(!elsewhere.contains("--from-query"), "{elsewhere}");
        let openshift = arguments(Some("6f1b"));
        assert!(
            openshift.contains("--label=clusterID=6f1b\""),
            "{openshift}"
        );
        assert!(openshift.contains("--label=cluster=c\""), "{openshift}");
        let querier = "--from-query=https://thanos-querier.openshift-monitoring.svc:9091";
        assert!(openshift.contains(querier), "{openshift}");
    }

    #[test]
    fn pods_are_placed_as_asked() {
        let options = OperatorOptions {
            placement: Placement {
                node_selector: [("infra".to_owned(), "yes".to_owned())].into(),
                tolerations: vec![json!({ "key": "infra", "operator": "Exists" })],
                pull_secrets: vec!["registry".to_owned()],
            },
            ..OperatorOptions::default()
        };
        let deployment = manifest_with(DEPLOYMENT, &json!({}), &options, None);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({ "infra": "yes" }));
        assert_eq!(pod["tolerations"][0]["key"], "infra");
        assert_eq!(pod["imagePullSecrets"], json!([{ "name": "registry" }]));
        let plain = manifest_of(DEPLOYMENT, &json!({}));
        let plain = plain["spec"]["template"]["spec"].as_object().unwrap();
        assert!(!plain.contains_key("nodeSelector") && !plain.contains_key("tolerations"));
    }

    #[test]
    fn number_of_workers_is_clamped() {
        for (desired, passed) in [(0, 1), (1, 1), (7, 7), (70_000, 1_000)] {
            let deployment = manifest_of(DEPLOYMENT, &json!({ "workers": desired }));
            let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
            let expected = json!(format!("--worker-number={passed}"));
            let arguments = arguments.as_array().unwrap();
            assert!(arguments.contains(&expected), "{desired}: {arguments:?}");
        }
    }

    #[test]
    fn fingerprint_matches_published_examples() {
        for (text, hash) in [
            ("", "cbf29ce484222325"),
            ("a", "af63dc4c8601ec8c"),
            ("foobar", "85944171f73967e8"),
        ] {
            assert_eq!(fingerprint(text), hash);
        }
    }
}
