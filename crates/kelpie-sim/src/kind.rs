//! The kinds an API server knows: a table, and what definitions add to it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::resource::{EVENTS, NAMESPACES, Resource};

/// A kind of objects and how its resource behaves.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "traits of their own, as the table has them"
)]
pub(crate) struct Kind {
    /// As it is addressed.
    pub(crate) resource: Resource,
    /// Under what its objects are kept; two groups may serve the same objects.
    pub(crate) shelf: Resource,
    pub(crate) version: String,
    /// Such as `Pod`.
    pub(crate) name: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) is_namespaced: bool,
    /// Where it stands in the object, if it has a status of its own.
    pub(crate) status: Status,
    pub(crate) scale: Option<Scale>,
    /// Changes of what the owner wants are counted.
    pub(crate) counts_generations: bool,
    /// Whether an update may go without a version to rest on.
    pub(crate) unconditional: bool,
    /// Whether an update makes what is not there.
    pub(crate) created_by_update: bool,
    /// Whether a deletion answers with what was deleted.
    pub(crate) shows_deleted: bool,
    /// Known by a definition.
    pub(crate) is_custom: bool,
    pub(crate) columns: Vec<Column>,
}

/// What becomes of `status` in writes to the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It is a field like others.
    Plain,
    /// A subresource: writes to the object leave it alone.
    Separate,
    /// The same, but whoever creates the object may say it.
    SeparateAfterCreate,
}

/// Where the counts of a scale stand in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// JSON pointers.
    pub(crate) wanted: String,
    pub(crate) present: String,
    /// Of a selector in words; nothing for those whose selector is a label selector.
    pub(crate) selector: Option<String>,
}

/// A column of what kubectl prints: a name and a JSON path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) priority: i64,
}

/// All kinds of one API server by their resources.
pub(crate) type Kinds = BTreeMap<Resource, Arc<Kind>>;

/// The kinds every API server has.
pub(crate) static KINDS: LazyLock<Arc<Kinds>> = LazyLock::new(|| {
    let kinds = ROWS.iter().map(|row| {
        let kind = row.kind();
        (kind.resource.clone(), Arc::new(kind))
    });
    Arc::new(kinds.collect())
});

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A row of the table: group, version, kind, plural, short names, and traits by letters.
struct Row(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

/// The letters: `N` in namespaces; `S` status apart, `s` the same but may be created with; `R` can be scaled;
/// `G` generations are counted; `U` updates may be unconditional; `C` an update creates; `D` a deletion shows
/// what was deleted; `A` is in the category `all`.
const ROWS: [Row; 20] = [
    Row("", "v1", "Namespace", "namespaces", &["ns"], "SU"),
    Row("", "v1", "Node", "nodes", &["no"], "sU"),
    Row("", "v1", "Pod", "pods", &["po"], "NSGUDA"),
    Row("", "v1", "Service", "services", &["svc"], "NSUDAC"),
    Row(
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        &["sa"],
        "NUD",
    ),
    Row("", "v1", "Endpoints", "endpoints", &["ep"], "NUC"),
    Row("", "v1", "Secret", "secrets", &[], "NU"),
    Row("", "v1", "ConfigMap", "configmaps", &["cm"], "NU"),
    Row("", "v1", "Event", "events", &["ev"], "NUC"),
    Row("events.k8s.io", "v1", "Event", "events", &["ev"], "NUC"),
    Row(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        &[],
        "NGUC",
    ),
    Row("coordination.k8s.io", "v1", "Lease", "leases", &[], "NC"),
    Row(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        &["deploy"],
        "NSRGUA",
    ),
    Row("apps", "v1", "ReplicaSet", "replicasets", &["rs"], "NSRGUA"),
    Row(
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        &["sts"],
        "NSRGUA",
    ),
    Row("apps", "v1", "DaemonSet", "daemonsets", &["ds"], "NSGUA"),
    Row(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        &[],
        "U",
    ),
    Row(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        &[],
        "U",
    ),
    Row(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &["pdb"],
        "NSG",
    ),
    Row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        "SG",
    ),
];

impl Row {
    fn kind(&self) -> Kind {
        let Self(group, version, kind, plural, short, traits) = *self;
        let has = |letter| traits.contains(letter);
        let resource = Resource::known(group, plural);
        let counts = Scale {
            wanted: "/spec/replicas".into(),
            present: "/status/replicas".into(),
            selector: None,
        };
        Kind {
            shelf: if plural == EVENTS.plural() {
                EVENTS
            } else {
                resource.clone()
            },
            resource,
            version: version.into(),
            name: kind.into(),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(ToString::to_string).collect(),
            categories: if has('A') {
                vec!["all".into()]
            } else {
                Vec::new()
            },
            is_namespaced: has('N'),
            status: match (has('S'), has('s')) {
                (true, _) => Status::Separate,
                (_, true) => Status::SeparateAfterCreate,
                _ => Status::Plain,
            },
            scale: has('R').then_some(counts),
            counts_generations: has('G'),
            unconditional: has('U'),
            created_by_update: has('C'),
            shows_deleted: has('D'),
            is_custom: false,
            columns: Vec::new(),
        }
    }
}

impl Kind {
    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        match self.resource.group() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The kind in the place of the plural, as some messages have it: `Lease.coordination.k8s.io`.
    pub(crate) fn singular_resource(&self) -> Resource {
        Resource::new(self.resource.group(), &self.name)
    }

    /// What can be done with its objects.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let mut verbs = VERBS.to_vec();
        // All namespaces at once would be the end of everything.
        verbs.retain(|verb| *verb != "deletecollection" || self.shelf != NAMESPACES);
        verbs
    }

    /// Whether it has a subresource.
    pub(crate) fn has(&self, subresource: &str) -> bool {
        match subresource {
            "status" => self.status != Status::Plain,
            "scale" => self.scale.is_some(),
            _ => false,
        }
    }

    /// The kind that a definition defines; nothing if it does not say enough.
    pub(crate) fn defined_by(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let texts = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(text)
                .collect()
        };
        let versions = spec["versions"].as_array()?;
        let version = versions.iter().find(|version| version["storage"] == true)?;
        let subresources = &version["subresources"];
        let resource = Resource::new(spec["group"].as_str()?, names["plural"].as_str()?);
        let name = text(&names["kind"])?;
        let has_status = subresources.get("status").is_some();
        Some(Self {
            shelf: resource.clone(),
            resource,
            version: text(&version["name"])?,
            singular: text(&names["singular"]).unwrap_or_else(|| name.to_lowercase()),
            name,
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            is_namespaced: spec["scope"] == "Namespaced",
            status: if has_status {
                Status::Separate
            } else {
                Status::Plain
            },
            scale: Scale::defined_by(&subresources["scale"]),
            counts_generations: true,
            unconditional: false,
            created_by_update: false,
            shows_deleted: false,
            is_custom: true,
            columns: Column::defined_by(&version["additionalPrinterColumns"]),
        })
    }
}

impl Scale {
    fn defined_by(scale: &Value) -> Option<Self> {
        let pointer = |field: &str| Some(scale[field].as_str()?.replace('.', "/"));
        Some(Self {
            wanted: pointer("specReplicasPath")?,
            present: pointer("statusReplicasPath")?,
            selector: pointer("labelSelectorPath"),
        })
    }
}

impl Column {
    fn defined_by(columns: &Value) -> Vec<Self> {
        let column = |column: &Value| {
            Some(Self {
                name: column["name"].as_str()?.to_owned(),
                kind: column["type"].as_str()?.to_owned(),
                path: column["jsonPath"].as_str()?.to_owned(),
                priority: column["priority"].as_i64().unwrap_or(0),
            })
        };
        columns
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(column)
            .collect()
    }
}
