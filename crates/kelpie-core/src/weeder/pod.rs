//! A dependant, as far as the weeder looks at it.

use std::fmt;

use serde::Serialize;

/// What is kept of a pod: the less, the more of them can be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name, which its successor may have as well.
    pub name: String,
    /// Its uid, which nobody else ever has.
    pub uid: String,
    /// The `resourceVersion` at which it was as it is described here.
    pub version: String,
    /// Who would bring it back; `None`: nobody.
    pub owner: Option<Owner>,
    /// Somebody has deleted it; it is on its way out.
    pub is_leaving: bool,
    /// Why it waits in CrashLoopBackOff; `None`: it does not.
    pub crash: Option<Box<Crash>>,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// How a container that waits in CrashLoopBackOff ended last: the evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Crash {
    /// Which container.
    pub container: String,
    /// It is an init container.
    pub is_init: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// Its exit code, if it is known.
    pub exit_code: Option<i64>,
    /// Why it ended, as one word.
    pub reason: Option<String>,
    /// What it left as its termination message.
    pub message: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// `container api, restarted 7 times: exit code 1 (Error), "no etcd"`.
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
            // Debug, as a message may hold anything, also line ends.
            Some(message) => write!(f, ", {message:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_one_line_whatever_the_message_holds() {
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
