//! An API server of the simulator, behind TLS like a real one.

use std::time::Duration;

use anyhow::Result;
use kelpie_core::Time;
use kelpie_net::{ClientAuth, Identity, Roots, TlsServer, TlsServerSettings};
use kelpie_sim::server::{ListenerHandle, ServerHooks, SimServer, UserInfo};
use kelpie_sim::{ObjectStore, ServerLease, SimClock};
use kube::Client;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretSlice;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::credentials::{ADMIN, Credentials, UNPRIVILEGED};
use crate::folder::Folder;
use crate::kubectl;
use crate::landscape::wall_clock::now;
use crate::pki::TestCa;

/// A simulated API server on a socket. It stops listening on drop.
pub struct SimApiServer {
    /// The server, for direct access to its store and users.
    pub server: SimServer,
    listening: ListenerHandle,
    ca: TestCa,
    folder: Folder,
    _lease: JoinSet<()>,
}

impl SimApiServer {
    /// Starts a server with the users of [`crate::KubeApiServer`].
    pub async fn start(hooks: ServerHooks) -> Result<Self> {
        let _ = ring::default_provider().install_default();
        let start = Time::from_micros(now().as_microsecond());
        let server = SimServer::new(ObjectStore::new(SimClock::starting_at(start), 1), hooks);
        server.users().add_token(ADMIN, UserInfo::admin());
        let stranger = UserInfo::new("stranger", &["system:authenticated"]);
        server.users().add_token(UNPRIVILEGED, stranger);
        let ca = TestCa::new()?;
        let serving = ca.serving()?;
        let key = SecretSlice::from(serving.key.into_bytes());
        let identity = Identity::from_pem(serving.certificate.as_bytes(), &key)?;
        let roots = Roots::from_pem(ca.certificate().as_bytes())?;
        let settings = TlsServerSettings {
            clients: ClientAuth::Optional(roots),
            ..TlsServerSettings::default()
        };
        let tls = TlsServer::new(&identity, settings)?;
        let mut lease = JoinSet::new();
        lease.spawn(renew_lease(server.store().clone()));
        Ok(Self {
            listening: server.listen(tls).await?,
            server,
            ca,
            folder: Folder::new("simulated")?,
            _lease: lease,
        })
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// The certificate of the authority that signed the serving certificate, as PEM.
    pub fn ca_certificate(&self) -> String {
        self.ca.certificate()
    }

    /// Adds a user, and issues a client certificate for it.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Credentials> {
        let certified = self.ca.client(name, groups)?;
        let der = CertificateDer::from_pem_slice(certified.certificate.as_bytes())?;
        self.server
            .users()
            .add_certificate(&der, UserInfo::new(name, groups));
        Ok(Credentials::Certificate(certified))
    }

    /// Returns a self-contained kubeconfig.
    pub fn kubeconfig(&self, credentials: &Credentials) -> String {
        credentials.kubeconfig(&self.url(), &self.ca_certificate())
    }

    /// Returns a client that never retries, so that a test sees every response.
    pub async fn client(&self, credentials: &Credentials) -> Result<Client> {
        kubectl::client(&self.kubeconfig(credentials)).await
    }

    /// Runs kubectl as the admin, and returns its stdout.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl::run(
            &self.kubeconfig(&Credentials::admin()),
            self.folder.path(),
            arguments,
        )
        .await
    }

    /// Prepares a kubectl command as the admin, without starting it.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Result<Command> {
        kubectl::command(
            "kubectl",
            &self.kubeconfig(&Credentials::admin()),
            self.folder.path(),
            arguments,
        )
    }
}

/// Renews the Lease by which an API server announces itself, as a real one does. Without it the
/// version of a store that no client writes to would stand still.
async fn renew_lease(store: ObjectStore) {
    let time = || Time::from_micros(now().as_microsecond());
    let mut lease = ServerLease::new(&store, time());
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        lease.catch_up(&store, false, time());
    }
}
