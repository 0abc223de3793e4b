//! An API server of the simulator, over TLS like a real one.

use anyhow::Result;
use kelpie_core::Time;
use kelpie_net::{Identity, Roots, TlsServer};
use kelpie_sim::server::{Hooks, Listening, Server, User};
use kelpie_sim::{Clock, Store};
use kube::Client;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretSlice;
use tokio::process::Command;

use crate::credentials::{ADMIN, Credentials, STRANGER};
use crate::folder::Folder;
use crate::kubectl;
use crate::landscape::wall_clock::now;
use crate::pki::Authority;

/// A simulated API server that listens. It ends when dropped.
pub struct Simulated {
    /// The server behind the socket.
    pub server: Server,
    listening: Listening,
    authority: Authority,
    folder: Folder,
}

impl Simulated {
    /// Starts one with the users of [`crate::ApiServer`].
    pub async fn start(hooks: Hooks) -> Result<Self> {
        let _ = aws_lc_rs::default_provider().install_default();
        let start = Time::from_micros(now().as_microsecond());
        let server = Server::new(Store::new(Clock::starting_at(start), 1), hooks);
        server.users().add_token(ADMIN, User::admin());
        let stranger = User::new("stranger", &["system:authenticated"]);
        server.users().add_token(STRANGER, stranger);
        let authority = Authority::new()?;
        let serving = authority.serving()?;
        let key = SecretSlice::from(serving.key.into_bytes());
        let identity = Identity::from_pem(serving.certificate.as_bytes(), &key)?;
        let roots = Roots::from_pem(authority.certificate().as_bytes())?;
        let tls = TlsServer::asking(&identity, &roots)?;
        Ok(Self {
            listening: server.listen(tls).await?,
            server,
            authority,
            folder: Folder::new("simulated")?,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// The certificate authority, as PEM.
    pub fn authority(&self) -> String {
        self.authority.certificate()
    }

    /// A user of the given name and groups, by certificate.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Credentials> {
        let certified = self.authority.client(name, groups)?;
        let der = CertificateDer::from_pem_slice(certified.certificate.as_bytes())?;
        self.server
            .users()
            .add_certificate(&der, User::new(name, groups));
        Ok(Credentials::Certificate(certified))
    }

    /// A kubeconfig with everything inside it.
    pub fn kubeconfig(&self, credentials: &Credentials) -> String {
        credentials.kubeconfig(&self.url(), &self.authority())
    }

    /// A client that retries nothing.
    pub async fn client(&self, credentials: &Credentials) -> Result<Client> {
        kubectl::client(&self.kubeconfig(credentials)).await
    }

    /// Runs kubectl as the admin and gives what it printed.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl::run(
            &self.kubeconfig(&Credentials::admin()),
            self.folder.path(),
            arguments,
        )
        .await
    }

    /// kubectl as the admin, ready to be started.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Result<Command> {
        kubectl::command(
            "kubectl",
            &self.kubeconfig(&Credentials::admin()),
            self.folder.path(),
            arguments,
        )
    }
}
