//! The proxies in front of a shoot cluster's API server, and the tokens for it.

use anyhow::Result;
use kube::Client;

use super::fault::RaceFault;
use crate::landscape::{
    InterceptAction, Interceptor, ProxyFault, ShootCluster, TcpProxy, create_tenant_token,
    grant_guard_rules,
};
use crate::{Credentials, KubeApiServer};

/// Kubelets and kube-controller-manager connect through the TCP proxy. A prober connects to the
/// interceptor, which terminates TLS and connects through the TCP proxy as well.
pub(super) struct ShootProxies {
    tcp: TcpProxy,
    interceptor: Interceptor,
    /// Tokens of two service accounts with the permissions of a probe and of a guard.
    tokens: [Credentials; 2],
}

impl ShootProxies {
    /// Starts the proxies. The tokens may write a guard if `guarded`.
    pub(super) async fn start(api: &KubeApiServer, client: &Client, guarded: bool) -> Result<Self> {
        let tcp = TcpProxy::start(api.url()).await?;
        let tokens = [
            create_tenant_token(client, "dwd-0").await?,
            create_tenant_token(client, "dwd-1").await?,
        ];
        for name in ["dwd-0", "dwd-1"].iter().filter(|_| guarded) {
            let user = format!("system:serviceaccount:default:{name}");
            grant_guard_rules(client, &user).await?;
        }
        Ok(Self {
            interceptor: Interceptor::start_for_url(api, tcp.url()).await?,
            tcp,
            tokens,
        })
    }

    /// The address at which kubelets and kube-controller-manager reach the API server.
    pub(super) fn url(&self) -> &str {
        self.tcp.url()
    }

    /// The kubeconfig of the probers after this many rotations.
    pub(super) fn kubeconfig(&self, rotations: usize) -> String {
        self.interceptor.kubeconfig(self.token(rotations))
    }

    fn token(&self, rotations: usize) -> &Credentials {
        &self.tokens[rotations % self.tokens.len()]
    }

    /// Begins a fault that lasts for the whole trial.
    pub(super) fn begin(&self, fault: RaceFault, rng: &mut fastrand::Rng) {
        if fault == RaceFault::CredentialsRefused {
            self.interceptor
                .set_rule(|_| InterceptAction::Reject(401, Vec::new()));
        }
        if let RaceFault::ShootErrors(share) = fault {
            let mut rng = rng.fork();
            self.interceptor.set_rule(move |_| {
                if rng.f64() < share {
                    InterceptAction::Reject(503, Vec::new())
                } else {
                    InterceptAction::Pass
                }
            });
        }
    }

    /// Makes the API server unreachable, or reachable again.
    pub(super) fn set_away(&self, away: bool) {
        let fault = if away {
            ProxyFault::Reset
        } else {
            ProxyFault::None
        };
        self.tcp.set_fault(fault);
    }

    /// Lets no data pass, or lets it pass again.
    pub(super) fn set_stalled(&self, stalled: bool) {
        let fault = if stalled {
            ProxyFault::Stall
        } else {
            ProxyFault::None
        };
        self.tcp.set_fault(fault);
    }

    /// Replaces the token in the Secret, and rejects the one before it from now on.
    pub(super) async fn rotate(&self, shoot: &ShootCluster, rotations: usize) -> Result<()> {
        let old = match self.token(rotations + 1) {
            Credentials::Token(token) => token.clone(),
            Credentials::Certificate(_) => String::new(),
        };
        self.interceptor.set_rule(move |request| {
            if request.token == old {
                InterceptAction::Reject(401, Vec::new())
            } else {
                InterceptAction::Pass
            }
        });
        shoot.rotate_kubeconfig(&self.kubeconfig(rotations)).await
    }

    /// Ends all faults. A token that was replaced works again.
    pub(super) fn end(&self) {
        self.set_away(false);
        self.interceptor.set_rule(|_| InterceptAction::Pass);
    }
}
