//! A builder for kubeconfigs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// A token that must never appear in a message.
pub(crate) const SECRET: &str = "s3cr3t";

/// A kubeconfig whose parts are lines of YAML.
#[derive(Clone)]
pub(crate) struct KubeconfigBuilder {
    pub(crate) cluster: Vec<String>,
    pub(crate) user: Vec<String>,
    pub(crate) context: String,
}

impl KubeconfigBuilder {
    pub(crate) fn with_token(url: &str, authority: &str) -> Self {
        let authority = BASE64_STANDARD.encode(authority);
        Self {
            cluster: vec![
                format!("server: {url}"),
                format!("certificate-authority-data: {authority}"),
            ],
            user: vec![format!("token: {SECRET}")],
            context: "current-context: it".into(),
        }
    }

    pub(crate) fn yaml(&self) -> String {
        let lines = |lines: &[String]| lines.join("\n    ");
        format!(
            "apiVersion: v1\nkind: Config\npreferences: {{}}\n\
             clusters:\n- name: other\n  cluster:\n    server: http://other\n\
             - name: c\n  cluster:\n    {}\n\
             users:\n- name: other\n  user:\n    exec: {{command: rm}}\n\
             - name: u\n  user:\n    {}\n\
             contexts:\n- name: it\n  context:\n    cluster: c\n    user: u\n    \
             namespace: n\n{}\n",
            lines(&self.cluster),
            lines(&self.user),
            self.context
        )
    }

    pub(crate) fn cluster(mut self, line: &str) -> Self {
        self.cluster.push(line.into());
        self
    }

    pub(crate) fn user(mut self, line: &str) -> Self {
        self.user.push(line.into());
        self
    }
}
