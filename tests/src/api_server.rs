//! A real kube-apiserver with its own keys, its own users, and RBAC.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use rustls::crypto::ring;
use xtask::cache;

use crate::credentials::{ADMIN, Credentials, UNPRIVILEGED};
use crate::etcd::EtcdMember;
use crate::folder::Folder;
use crate::pki::{self, TestCa};
use crate::process::ServerProcess;
use crate::{kubectl, poll, port};

/// Limit for the start, which takes two seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_mins(1);

const AUDIT_LOG: &str = "audit.log";

/// A running kube-apiserver. It is killed on drop.
pub struct KubeApiServer {
    process: ServerProcess,
    arguments: Vec<String>,
    url: String,
    ca: TestCa,
    // Declared after the process, which must be gone before its folder is removed.
    folder: Folder,
}

/// A response with its body, whatever its status.
pub struct ApiResponse {
    /// The HTTP status, which may be an error.
    pub status: StatusCode,
    /// The header `Content-Type`; empty if the server sent none.
    pub content_type: String,
    /// The whole body, undecoded.
    pub body: Vec<u8>,
}

impl KubeApiServer {
    /// Starts a server that keeps its objects in `etcd` under `prefix`. Servers with different
    /// prefixes are separate clusters.
    pub async fn start(etcd: &EtcdMember, prefix: &str) -> Result<Self> {
        Self::start_with(etcd, prefix, None).await
    }

    /// Starts a server that also writes an audit log according to `policy`.
    pub async fn start_with_audit_log(
        etcd: &EtcdMember,
        prefix: &str,
        policy: &str,
    ) -> Result<Self> {
        Self::start_with(etcd, prefix, Some(policy)).await
    }

    async fn start_with(etcd: &EtcdMember, prefix: &str, policy: Option<&str>) -> Result<Self> {
        // Fails if the process has a provider already, which is then the same one.
        let _ = ring::default_provider().install_default();
        let program = cache::find("kube-apiserver")?;
        for _ in 0..port::ATTEMPTS {
            let folder = Folder::new("kube-apiserver")?;
            let ca = TestCa::new()?;
            let port = port::free()?;
            let mut arguments = key_files(folder.path(), &ca)?;
            arguments.extend(flags(etcd.url(), prefix, port));
            if let Some(policy) = policy {
                arguments.extend(audit_flags(folder.path(), policy)?);
            }
            let log = folder.path().join("log");
            let mut server = Self {
                process: ServerProcess::start(&program, &arguments, &log)?,
                arguments,
                url: format!("https://127.0.0.1:{port}"),
                ca,
                folder,
            };
            if server.until_ready().await? {
                return Ok(server);
            }
        }
        bail!("kube-apiserver lost its port {} times", port::ATTEMPTS)
    }

    /// The server process, for its id, log and CPU time.
    pub fn process(&self) -> &ServerProcess {
        &self.process
    }

    /// Kills the server. Its objects stay in etcd, and [`restart`](Self::restart) brings it back.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again with its previous address and keys, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.kill();
        let program = cache::find("kube-apiserver")?;
        let log = self.folder.path().join("log-of-the-new-process");
        self.process = ServerProcess::start(&program, &self.arguments, &log)?;
        ensure!(self.until_ready().await?, "kube-apiserver lost its port");
        Ok(())
    }

    /// Reads the audit log, one line of JSON per request.
    pub fn audit_log(&self) -> Result<String> {
        let path = self.folder.path().join(AUDIT_LOG);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Stops the server with SIGTERM, so that it finishes pending requests. Its objects stay in
    /// etcd.
    pub fn terminate(&mut self) {
        self.process.terminate();
        self.process.kill();
    }

    /// A user with all permissions.
    pub fn admin(&self) -> Credentials {
        Credentials::admin()
    }

    /// A user that is authenticated and has no permissions.
    pub fn unprivileged(&self) -> Credentials {
        Credentials::unprivileged()
    }

    /// Issues a client certificate for a user. RBAC decides about its permissions.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Credentials> {
        let certified = self.ca.client(name, groups)?;
        Ok(Credentials::Certificate(certified))
    }

    /// Returns a self-contained kubeconfig.
    pub fn kubeconfig(&self, credentials: &Credentials) -> String {
        credentials.kubeconfig(&self.url, &self.ca.certificate())
    }

    /// Returns a kubeconfig that reaches this server at another address.
    pub fn kubeconfig_for_url(&self, url: &str, credentials: &Credentials) -> String {
        credentials.kubeconfig(url, &self.ca.certificate())
    }

    /// The certificate of the authority that signed the serving certificate, as PEM.
    pub fn ca_certificate(&self) -> String {
        self.ca.certificate()
    }

    /// The address of the server, as in `https://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client that never retries, so that a test sees every response.
    pub async fn client(&self, credentials: &Credentials) -> Result<Client> {
        kubectl::client(&self.kubeconfig(credentials)).await
    }

    /// Runs kubectl as the admin, and returns its stdout.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(&self.admin());
        kubectl::run(&kubeconfig, self.folder.path(), arguments).await
    }

    /// Runs helm as the admin, and returns its stdout.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(&self.admin());
        kubectl::run_tool("helm", &kubeconfig, self.folder.path(), arguments).await
    }

    /// Installs custom resource definitions by name, as in `machines.machine.sapcloud.io`, and
    /// waits until the server serves them.
    pub async fn install_crds(&self, names: &[&str]) -> Result<()> {
        let file = |name: &&str| {
            let path = cache::definition(name)?;
            Ok(format!("--filename={}", path.display()))
        };
        let files = names.iter().map(file).collect::<Result<Vec<String>>>()?;
        for command in [
            ["create", "--output=name"].as_slice(),
            &["wait", "--for=condition=Established", "--timeout=30s"],
        ] {
            let files = files.iter().map(String::as_str);
            let arguments: Vec<&str> = command.iter().copied().chain(files).collect();
            self.kubectl(&arguments).await?;
        }
        Ok(())
    }

    /// Waits until the server is ready. Returns false if it lost its port.
    async fn until_ready(&mut self) -> Result<bool> {
        let client = self.client(&self.admin()).await?;
        let process = &mut self.process;
        poll::until_serving(process, "a ready API server", TIMEOUT, async |_| {
            is_ok(&client, "/readyz").await
        })
        .await
    }
}

/// Returns true if a GET of `path` succeeds with status 200.
pub(crate) async fn is_ok(client: &Client, path: &str) -> bool {
    let response = get_raw(client, path, "*/*").await;
    response.is_ok_and(|response| response.status == 200)
}

/// GETs `path` with this `Accept` header. No status is an error.
pub async fn get_raw(client: &Client, path: &str, accept: &str) -> Result<ApiResponse> {
    let request = Request::get(path).header(header::ACCEPT, accept);
    let response = client.send(request.body(Body::empty())?).await?;
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(ApiResponse {
        status: response.status(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: response.into_body().collect_bytes().await?.to_vec(),
    })
}

/// Writes the files with the server's keys and users, and returns the flags that name them.
fn key_files(folder: &Path, ca: &TestCa) -> Result<Vec<String>> {
    let serving = ca.serving()?;
    let (signing, verifying) = pki::signing_key()?;
    let users = format!("{ADMIN},admin,1,system:masters\n{UNPRIVILEGED},stranger,2\n");
    let files = [
        ("client-ca-file", ca.certificate()),
        ("tls-cert-file", serving.certificate),
        ("tls-private-key-file", serving.key),
        ("service-account-signing-key-file", signing),
        ("service-account-key-file", verifying),
        ("token-auth-file", users),
    ];
    files
        .into_iter()
        .map(|(flag, content)| {
            let path = folder.join(flag);
            fs::write(&path, content)?;
            Ok(format!("--{flag}={}", path.display()))
        })
        .collect()
}

/// Writes the audit policy, and returns the flags that enable the audit log.
fn audit_flags(folder: &Path, policy: &str) -> Result<[String; 2]> {
    let file = folder.join("audit-policy-file");
    fs::write(&file, policy)?;
    let log = folder.join(AUDIT_LOG);
    Ok([
        format!("--audit-policy-file={}", file.display()),
        format!("--audit-log-path={}", log.display()),
    ])
}

/// The flags of a server that stores and authorizes objects without any other component.
fn flags(etcd: &str, prefix: &str, port: u16) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={etcd}"),
        format!("--etcd-prefix=/{prefix}"),
        format!("--secure-port={port}"),
    ];
    let fixed = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        // No client looks this server up by its Service.
        "--endpoint-reconciler-type=none",
        // Pods can be created without a controller that creates service accounts first.
        "--disable-admission-plugins=ServiceAccount",
    ];
    flags.extend(fixed.map(str::to_owned));
    flags
}
