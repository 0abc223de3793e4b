//! A real member.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use prost::Message;

use crate::boot::{Boot, ProcessState};
use crate::member::{Call, Member, Serving, Status, tells_corruption};
use crate::wire::access::{Access, Address};
use crate::wire::dial::Line;
use crate::wire::message::{
    Answered, ClusterMember, HealthResponse, MemberListRequest, MemberListResponse, Plain,
    RangeRequest, StatusResponse,
};
use crate::wire::page::Page;
use crate::wire::rpc::Leader;
use crate::wire::token::{Tokens, User};
use crate::{Fault, Sample, Version, process};

/// The key that is read. `etcdctl endpoint health` reads the same, so that one permission serves
/// both. It need not exist.
const KEY: &[u8] = b"health";

/// Where a member is and how to speak to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its client URL.
    pub endpoint: Address,
    /// Its metrics page, if it is not below the client URL.
    pub metrics: Option<Address>,
    /// Certificates, for both.
    pub access: Access,
    /// Whom to log in as.
    pub user: Option<User>,
    /// How long a call waits for the log-in before it fails for want of it; less than any deadline,
    /// so that a log-in that hangs is not taken for a read that does.
    pub log_in_wait: Duration,
    /// Its process, if it can be seen from here.
    pub pid: Option<u32>,
}

/// A member that is spoken to over the network. Clones are the same connection.
#[derive(Clone)]
pub struct Remote {
    line: Line,
    tokens: Option<Tokens>,
    page: Page,
    target: Arc<Target>,
}

impl Remote {
    /// Connects when it is used. Must be made inside a runtime.
    pub fn new(target: Target) -> Self {
        let line = Line::new(&target.access, &target.endpoint);
        let page = target.metrics.clone().unwrap_or(target.endpoint.clone());
        let user = target.user.clone();
        Self {
            tokens: user.map(|user| Tokens::new(user, line.clone(), target.log_in_wait)),
            page: Page::new(target.access.clone(), page),
            line,
            target: Arc::new(target),
        }
    }

    /// Calls, and a second time where the first says nothing: the connection had ended unnoticed,
    /// the token had run out, or another leader was just elected.
    async fn call<Q, A>(&self, path: &'static str, message: Q, leader: Leader) -> Result<A, Fault>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.call_over(&self.line, path, message, leader).await
    }

    async fn call_over<Q, A>(
        &self,
        line: &Line,
        path: &'static str,
        message: Q,
        leader: Leader,
    ) -> Result<A, Fault>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut tried = false;
        loop {
            let token = match &self.tokens {
                Some(tokens) => tokens.get().await?,
                None => None,
            };
            let secret = token.as_deref();
            let result = line.call(path, message.clone(), leader, secret).await;
            match (&result, &self.tokens) {
                _ if tried => return result,
                (Err(Fault::Broken(_) | Fault::LeaderChanged), _) => {}
                (Err(fault), Some(tokens)) if fault.wants_new_token() => {
                    tokens.discard(token.as_ref());
                }
                _ => return result,
            }
            tried = true;
        }
    }

    async fn range(self, serializable: bool) -> Result<(), Fault> {
        let request = RangeRequest {
            key: KEY.to_vec(),
            limit: 1,
            serializable,
            keys_only: true,
        };
        let leader = if serializable {
            Leader::NotNeeded
        } else {
            Leader::Needed
        };
        let Answered {} = self.call("/etcdserverpb.KV/Range", request, leader).await?;
        Ok(())
    }

    async fn members(&self, linearizable: bool) -> Result<Vec<ClusterMember>, Fault> {
        let request = MemberListRequest { linearizable };
        let leader = if linearizable {
            Leader::Needed
        } else {
            Leader::NotNeeded
        };
        let path = "/etcdserverpb.Cluster/MemberList";
        let answer: MemberListResponse = self.call(path, request, leader).await?;
        Ok(answer.members)
    }

    async fn status_over(&self, line: &Line) -> Result<Status, Fault> {
        let path = "/etcdserverpb.Maintenance/Status";
        let asked = self.call_over(line, path, Plain {}, Leader::NotNeeded);
        let answer: StatusResponse = asked.await?;
        Ok(Status {
            version: Version::parse(&answer.version),
            id: answer.header.map_or(0, |header| header.member_id),
            leader: answer.leader,
            commit: answer.raft_index,
            applied: answer.raft_applied_index,
            is_learner: answer.is_learner,
            is_corrupt: tells_corruption(&answer.errors),
        })
    }

    /// Another member, asked once over a connection of its own.
    async fn commit_of(self, id: u64) -> Result<u64, Fault> {
        let members = self.members(false).await?;
        let leader = members.into_iter().find(|member| member.id == id);
        let urls = leader.map(|leader| leader.client_urls).unwrap_or_default();
        // A token does not go where it would be readable unless it already is.
        let ours = self.target.endpoint.is_https();
        let address = urls.iter().find_map(|url| {
            let address = Address::parse(url, ours).ok()?;
            (address.is_https() == ours).then_some(address)
        });
        let Some(address) = address else {
            let text = "the leader has no client URL that can be asked";
            return Err(Fault::Own(text.to_owned()));
        };
        let line = Line::new(&self.target.access, &address);
        commit_if(&self.status_over(&line).await?, id)
    }
}

/// The commit index of the leader, if it is the leader that answered: URLs are what members were
/// told to advertise, and some advertise an address that all of them share.
fn commit_if(answered: &Status, leader: u64) -> Result<u64, Fault> {
    if answered.id == leader {
        return Ok(answered.commit);
    }
    let text = "another member answers at the leader's client URL";
    Err(Fault::Own(text.to_owned()))
}

impl Member for Remote {
    fn serializable_read(&self) -> Call<()> {
        self.clone().range(true).boxed()
    }

    fn linearizable_read(&self) -> Call<()> {
        self.clone().range(false).boxed()
    }

    fn read_index(&self) -> Call<()> {
        let this = self.clone();
        async move { this.members(true).await.map(drop) }.boxed()
    }

    fn status(&self) -> Call<Status> {
        let this = self.clone();
        async move { this.status_over(&this.line).await }.boxed()
    }

    fn leader_commit(&self, leader: u64) -> Call<u64> {
        self.clone().commit_of(leader).boxed()
    }

    fn ping(&self) -> Call<Serving> {
        let this = self.clone();
        async move {
            // Anybody may ask, so no log-in can hold it up.
            let path = "/grpc.health.v1.Health/Check";
            let asked = this.line.call(path, Plain {}, Leader::NotNeeded, None);
            let HealthResponse { status } = asked.await?;
            Ok(if status == HealthResponse::NOT_SERVING {
                Serving::NotServing
            } else {
                Serving::Serving
            })
        }
        .boxed()
    }

    fn propose(&self) -> Call<()> {
        let this = self.clone();
        async move {
            let path = "/etcdserverpb.Maintenance/Alarm";
            let Answered {} = this.call(path, Plain {}, Leader::Needed).await?;
            Ok(())
        }
        .boxed()
    }

    fn metrics(&self) -> Call<Sample> {
        let page = self.page.clone();
        async move { page.read().await }.boxed()
    }

    fn has_own_metrics_listener(&self) -> bool {
        let Target {
            endpoint, metrics, ..
        } = &*self.target;
        let elsewhere = |metrics: &Address| metrics.authority() != endpoint.authority();
        metrics.as_ref().is_some_and(elsewhere)
    }

    fn boot(&self) -> Boot {
        *self
            .line
            .boot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> ProcessState {
        let unknown = ProcessState::Unknown;
        self.target.pid.map_or(unknown, process::state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_answers_for_the_leader_must_be_it() {
        let answered = |id| Status {
            version: None,
            id,
            leader: 7,
            commit: 40,
            applied: 40,
            is_learner: false,
            is_corrupt: false,
        };
        assert_eq!(commit_if(&answered(7), 7), Ok(40));
        for other in [8, 0] {
            assert!(commit_if(&answered(other), 7).unwrap_err().is_own());
        }
    }
}
