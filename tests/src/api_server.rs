//! A real kube-apiserver with its own keys, users and RBAC.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{Request, StatusCode, header};
use kube::Client;
use kube::client::Body;
use rustls::crypto::aws_lc_rs;
use xtask::cache;

use crate::credentials::{ADMIN, Credentials, STRANGER};
use crate::etcd::Etcd;
use crate::folder::Folder;
use crate::pki::{self, Authority};
use crate::process::Process;
use crate::{kubectl, poll, port};

/// From the start to ready; it takes two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(1);

const AUDIT_LOG: &str = "audit.log";

/// A running API server. It ends when dropped.
pub struct ApiServer {
    process: Process,
    arguments: Vec<String>,
    url: String,
    authority: Authority,
    // After the process: it must be gone before its folder goes.
    folder: Folder,
}

/// What a server answered.
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The content type.
    pub content_type: String,
    /// The whole body.
    pub body: Vec<u8>,
}

impl ApiServer {
    /// Starts a server that keeps its objects in `etcd` under `prefix`. Servers with different
    /// prefixes are different clusters.
    pub async fn start(etcd: &Etcd, prefix: &str) -> Result<Self> {
        Self::start_with(etcd, prefix, None).await
    }

    /// The same with an audit log of what `policy` says.
    pub async fn start_audited(etcd: &Etcd, prefix: &str, policy: &str) -> Result<Self> {
        Self::start_with(etcd, prefix, Some(policy)).await
    }

    async fn start_with(etcd: &Etcd, prefix: &str, policy: Option<&str>) -> Result<Self> {
        // Only the first one of the process counts; they are all the same.
        let _ = aws_lc_rs::default_provider().install_default();
        let program = cache::find("kube-apiserver")?;
        for _ in 0..port::ATTEMPTS {
            let folder = Folder::new("kube-apiserver")?;
            let authority = Authority::new()?;
            let port = port::free()?;
            let mut arguments = key_files(folder.path(), &authority)?;
            arguments.extend(flags(etcd.url(), prefix, port));
            if let Some(policy) = policy {
                arguments.extend(audit(folder.path(), policy)?);
            }
            let log = folder.path().join("log");
            let mut server = Self {
                process: Process::start(&program, &arguments, &log)?,
                arguments,
                url: format!("https://127.0.0.1:{port}"),
                authority,
                folder,
            };
            if server.is_ready().await? {
                return Ok(server);
            }
        }
        bail!("kube-apiserver lost its port {} times", port::ATTEMPTS)
    }

    /// The process behind it.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it; its objects stay in etcd. [`come_back`](Self::come_back) starts it again.
    pub fn go_down(&mut self) {
        self.process.kill();
    }

    /// Starts it again under its old address, with its old keys, and waits until it is ready.
    pub async fn come_back(&mut self) -> Result<()> {
        self.process.kill();
        let program = cache::find("kube-apiserver")?;
        let log = self.folder.path().join("log-of-the-new-process");
        self.process = Process::start(&program, &self.arguments, &log)?;
        ensure!(self.is_ready().await?, "kube-apiserver lost its port");
        Ok(())
    }

    /// The audit log so far, a line of JSON for each request.
    pub fn audit_log(&self) -> Result<String> {
        let path = self.folder.path().join(AUDIT_LOG);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Asks it to end, and lets it finish what it is at; its objects stay in etcd.
    pub fn shut_down(&mut self) {
        self.process.end();
        self.process.kill();
    }

    /// May do everything.
    pub fn admin(&self) -> Credentials {
        Credentials::admin()
    }

    /// Known to the server, without any rights.
    pub fn stranger(&self) -> Credentials {
        Credentials::stranger()
    }

    /// A user of the given name and groups, by certificate. RBAC decides what it may do.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Credentials> {
        let certified = self.authority.client(name, groups)?;
        Ok(Credentials::Certificate(certified))
    }

    /// A kubeconfig with everything inside it.
    pub fn kubeconfig(&self, credentials: &Credentials) -> String {
        credentials.kubeconfig(&self.url, &self.authority.certificate())
    }

    /// The same for who comes by way of another address.
    pub fn kubeconfig_at(&self, url: &str, credentials: &Credentials) -> String {
        credentials.kubeconfig(url, &self.authority.certificate())
    }

    /// The certificate of who vouches for it, as PEM.
    pub fn authority(&self) -> String {
        self.authority.certificate()
    }

    /// Where it listens, as in `https://127.0.0.1:40123`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client that retries nothing: a test sees what the server answered.
    pub async fn client(&self, credentials: &Credentials) -> Result<Client> {
        kubectl::client(&self.kubeconfig(credentials)).await
    }

    /// Runs kubectl as the admin and gives what it printed.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(&self.admin());
        kubectl::run(&kubeconfig, self.folder.path(), arguments).await
    }

    /// Runs helm as the admin and gives what it printed.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(&self.admin());
        kubectl::run_tool("helm", &kubeconfig, self.folder.path(), arguments).await
    }

    /// Installs custom resource definitions by name, as in `machines.machine.sapcloud.io`, and
    /// waits until the server serves them.
    pub async fn install_definitions(&self, names: &[&str]) -> Result<()> {
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

    /// True once it is ready, false if it lost its port.
    async fn is_ready(&mut self) -> Result<bool> {
        let client = self.client(&self.admin()).await?;
        let process = &mut self.process;
        poll::until_serving(process, "a ready API server", PATIENCE, async |_| {
            is_ok(&client, "/readyz").await
        })
        .await
    }
}

/// Whether a server answers `path` with 200.
pub(crate) async fn is_ok(client: &Client, path: &str) -> bool {
    let answer = get(client, path, "*/*").await;
    answer.is_ok_and(|answer| answer.status == 200)
}

/// Asks for `path`, saying which content types are welcome. Every status is an answer.
pub async fn get(client: &Client, path: &str, accept: &str) -> Result<Answer> {
    let request = Request::get(path).header(header::ACCEPT, accept);
    let response = client.send(request.body(Body::empty())?).await?;
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(Answer {
        status: response.status(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: response.into_body().collect_bytes().await?.to_vec(),
    })
}

/// Writes the server's keys and users, and gives the flags that name them.
fn key_files(folder: &Path, authority: &Authority) -> Result<Vec<String>> {
    let serving = authority.serving()?;
    let (signing, verifying) = pki::signing_key()?;
    let users = format!("{ADMIN},admin,1,system:masters\n{STRANGER},stranger,2\n");
    let files = [
        ("client-ca-file", authority.certificate()),
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

/// Writes the policy, and gives the flags for a log by it.
fn audit(folder: &Path, policy: &str) -> Result<[String; 2]> {
    let file = folder.join("audit-policy-file");
    fs::write(&file, policy)?;
    let log = folder.join(AUDIT_LOG);
    Ok([
        format!("--audit-policy-file={}", file.display()),
        format!("--audit-log-path={}", log.display()),
    ])
}

/// A lone API server that is useful: nobody else has to run for objects to be kept and guarded.
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
        // Nobody needs to find this server by its Service.
        "--endpoint-reconciler-type=none",
        // Pods may be made without a controller that makes service accounts first.
        "--disable-admission-plugins=ServiceAccount",
    ];
    flags.extend(fixed.map(str::to_owned));
    flags
}
