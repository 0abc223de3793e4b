//! The dependants of a service.

use std::fmt;

use serde::Serialize;

/// The fields of a Pod object that are used. They are few, so that many pods can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The name. A replacement may have the same one.
    pub name: String,
    /// The uid, which is never reused.
    pub uid: String,
    /// The `resourceVersion` of this state.
    pub version: String,
    /// The controller that would replace the pod; `None` if there is none.
    pub owner: Option<Owner>,
    /// The pod has a `deletionTimestamp`.
    pub is_terminating: bool,
    /// The last crash of a container in CrashLoopBackOff; `None` if no container is.
    pub crash: Option<Box<Crash>>,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `ReplicaSet`.
    pub kind: String,
    /// The name in the pod's namespace.
    pub name: String,
    /// The uid, which tells two owners of the same name apart.
    pub uid: String,
}

/// The last termination of a container in CrashLoopBackOff. It is the evidence for a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Crash {
    /// The name of the container.
    pub container: String,
    /// The container is an init container.
    pub is_init: bool,
    /// The number of restarts.
    pub restarts: u32,
    /// The exit code, if it is known.
    pub exit_code: Option<i64>,
    /// The reason of the termination, such as `OOMKilled`.
    pub reason: Option<String>,
    /// The termination message of the container, which may contain anything.
    pub message: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Prints one line, such as `container api, restarted 7 times: exit code 1 (Error), "no etcd"`.
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_init {
            "init container"
        } else {
            "container"
        };
        let times = if self.restarts == 1 { "time" } else { "times" };
        let (container, restarts) = (&self.container, self.restarts);
        write!(f, "{kind} {container}, restarted {restarts} {times}: ")?;
        match self.exit_code {
            Some(code) => write!(f, "exit code {code}")?,
            None => f.write_str("exit code unknown")?,
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        match &self.message {
            // Debug escapes line breaks and control characters, which a message may contain.
            Some(message) => write!(f, ", {message:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_prints_on_one_line() {
        let crash = Crash {
            container: "api".into(),
            restarts: 7,
            exit_code: Some(1),
            reason: Some("Error".into()),
            message: Some("no etcd\n\u{1b}[2J".into()),
            ..Crash::default()
        };
        assert_eq!(
            crash.to_string(),
            r#"container api, restarted 7 times: exit code 1 (Error), "no etcd\n\u{1b}[2J""#
        );
        let bare = Crash {
            container: "wait".into(),
            is_init: true,
            restarts: 1,
            ..Crash::default()
        };
        assert_eq!(
            bare.to_string(),
            "init container wait, restarted 1 time: exit code unknown"
        );
    }
}
