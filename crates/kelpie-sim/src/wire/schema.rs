//! The fields of the kinds that kubectl writes as protobuf: as far as it can say them without a file.

use crate::kind::Kind;
use crate::resource::{CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, SECRETS};

/// A field: its number, its name in JSON, and how it is meant.
pub(super) type Field = (u64, &'static str, Shape);

/// How a field is meant.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Text,
    Truth,
    Number,
    Message(&'static [Field]),
    /// There may be several.
    Texts,
    Messages(&'static [Field]),
    /// Texts by names.
    Map,
    /// Bytes by names; in JSON they are base64.
    Data,
    /// The server's own: whatever a client says of it.
    Ours,
}

const OWNER: &[Field] = &[
    (1, "kind", Shape::Text),
    (3, "name", Shape::Text),
    (4, "uid", Shape::Text),
    (5, "apiVersion", Shape::Text),
    (6, "controller", Shape::Truth),
    (7, "blockOwnerDeletion", Shape::Truth),
];

const METADATA: Field = (
    1,
    "metadata",
    Shape::Message(&[
        (1, "name", Shape::Text),
        (2, "generateName", Shape::Text),
        (3, "namespace", Shape::Text),
        (4, "selfLink", Shape::Ours),
        (5, "uid", Shape::Text),
        (6, "resourceVersion", Shape::Text),
        (7, "generation", Shape::Ours),
        (8, "creationTimestamp", Shape::Ours),
        (9, "deletionTimestamp", Shape::Ours),
        (10, "deletionGracePeriodSeconds", Shape::Ours),
        (11, "labels", Shape::Map),
        (12, "annotations", Shape::Map),
        (13, "ownerReferences", Shape::Messages(OWNER)),
        (14, "finalizers", Shape::Texts),
        (17, "managedFields", Shape::Ours),
    ]),
);

const STATUS: Field = (3, "status", Shape::Ours);

const CONFIG_MAP: &[Field] = &[
    METADATA,
    (2, "data", Shape::Map),
    (3, "binaryData", Shape::Data),
    (4, "immutable", Shape::Truth),
];

const SECRET: &[Field] = &[
    METADATA,
    (2, "data", Shape::Data),
    (3, "type", Shape::Text),
    (4, "stringData", Shape::Map),
    (5, "immutable", Shape::Truth),
];

const NAMESPACE: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[(1, "finalizers", Shape::Texts)]),
    ),
    STATUS,
];

const CONTAINER: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "image", Shape::Text),
    (3, "command", Shape::Texts),
    (4, "args", Shape::Texts),
    (
        6,
        "ports",
        Shape::Messages(&[
            (1, "name", Shape::Text),
            (2, "hostPort", Shape::Number),
            (3, "containerPort", Shape::Number),
            (4, "protocol", Shape::Text),
        ]),
    ),
    (
        7,
        "env",
        Shape::Messages(&[(1, "name", Shape::Text), (2, "value", Shape::Text)]),
    ),
    (14, "imagePullPolicy", Shape::Text),
    (16, "stdin", Shape::Truth),
    (17, "stdinOnce", Shape::Truth),
    (18, "tty", Shape::Truth),
];

const POD_SPEC: Field = (
    2,
    "spec",
    Shape::Message(&[
        (2, "containers", Shape::Messages(CONTAINER)),
        (3, "restartPolicy", Shape::Text),
        (6, "dnsPolicy", Shape::Text),
    ]),
);

const POD: &[Field] = &[METADATA, POD_SPEC, STATUS];

const DEPLOYMENT: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "replicas", Shape::Number),
            (
                2,
                "selector",
                Shape::Message(&[(1, "matchLabels", Shape::Map)]),
            ),
            (3, "template", Shape::Message(&[METADATA, POD_SPEC])),
        ]),
    ),
    STATUS,
];

/// What the envelope of every request says of its content.
pub(super) const TYPE: &[Field] = &[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)];

/// The fields of a kind that is read so.
pub(super) fn fields(kind: &Kind) -> Option<&'static [Field]> {
    match &kind.shelf {
        shelf if *shelf == CONFIG_MAPS => Some(CONFIG_MAP),
        shelf if *shelf == SECRETS => Some(SECRET),
        shelf if *shelf == NAMESPACES => Some(NAMESPACE),
        shelf if *shelf == PODS => Some(POD),
        shelf if *shelf == DEPLOYMENTS => Some(DEPLOYMENT),
        _ => None,
    }
}
