//! Members that know each other.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::etcd::{Etcd, Setup};
use crate::{poll, port};

/// Members of one cluster, in the order of their start.
pub struct Cluster {
    setup: Setup,
    /// The members, running or not.
    pub members: Vec<Etcd>,
}

impl Cluster {
    /// Starts this many members and waits until each is healthy.
    pub async fn start(setup: &Setup, members: usize) -> Result<Self> {
        for _ in 0..port::ATTEMPTS {
            let mut cluster = Self::prepare(setup, members)?;
            for index in 0..members {
                cluster.spawn(index)?;
            }
            if cluster.is_healthy().await? {
                return Ok(cluster);
            }
        }
        bail!("{} lost its port {} times", setup.name, port::ATTEMPTS)
    }

    /// Starts the first of so many members: it waits for the others and serves nobody but those who
    /// read its metrics.
    pub async fn start_alone(setup: &Setup, members: usize) -> Result<Self> {
        for _ in 0..port::ATTEMPTS {
            let mut cluster = Self::prepare(setup, members)?;
            cluster.spawn(0)?;
            if cluster.members[0].tells_metrics().await? {
                return Ok(cluster);
            }
        }
        bail!("{} lost its port {} times", setup.name, port::ATTEMPTS)
    }

    /// Members that know each other and of which none runs.
    pub fn prepare(setup: &Setup, members: usize) -> Result<Self> {
        let members = (0..members).map(|index| Etcd::prepare(setup, &format!("m{index}")));
        Ok(Self {
            setup: setup.clone(),
            members: members.collect::<Result<_>>()?,
        })
    }

    /// Starts one member for the first time and does not wait for it.
    pub fn spawn(&mut self, index: usize) -> Result<()> {
        let cluster = self.peers();
        self.members[index].spawn(&cluster, "new")
    }

    /// Which member leads, once there is one.
    pub async fn leader(&self) -> Result<usize> {
        poll::until("a leader", Duration::from_secs(30), async || {
            for (index, member) in self.members.iter().enumerate() {
                let leads = member.metric("etcd_server_is_leader").await;
                if leads.is_ok_and(|value| value > 0.0) {
                    return Ok(Some(index));
                }
            }
            Ok(None)
        })
        .await
    }

    /// A follower's place among the members.
    pub async fn follower(&self) -> Result<usize> {
        Ok((self.leader().await? + 1) % self.members.len())
    }

    /// Adds a member that does not vote, and waits until it serves.
    pub async fn add_learner(&mut self) -> Result<&mut Etcd> {
        let name = format!("m{}", self.members.len());
        let learner = Etcd::prepare(&self.setup, &name)?;
        let asked = json!({"peerURLs": [learner.peer_url()], "isLearner": true});
        self.members[0]
            .call("/v3/cluster/member/add", &asked)
            .await?;
        self.members.push(learner);
        self.join(self.members.len() - 1).await
    }

    /// Makes a learner vote, as soon as the leader finds it caught up.
    pub async fn promote(&self, index: usize) -> Result<()> {
        let id = self.id_of(index).await?;
        let leader = &self.members[self.leader().await?];
        poll::until(
            "a learner that is caught up",
            Duration::from_secs(30),
            async || {
                let asked = json!({"ID": id});
                let done = leader.call("/v3/cluster/member/promote", &asked).await;
                Ok(done.ok())
            },
        )
        .await?;
        Ok(())
    }

    /// Removes a member and lets a new one take its place and ports, without data.
    pub async fn replace(&mut self, index: usize) -> Result<&mut Etcd> {
        let id = self.id_of(index).await?;
        let other = (index + 1) % self.members.len();
        let asked = json!({"ID": id});
        self.members[other]
            .call("/v3/cluster/member/remove", &asked)
            .await?;
        self.members[index].wipe()?;
        let asked = json!({"peerURLs": [self.members[index].peer_url()]});
        self.members[other]
            .call("/v3/cluster/member/add", &asked)
            .await?;
        self.join(index).await
    }

    async fn join(&mut self, index: usize) -> Result<&mut Etcd> {
        let cluster = self.peers();
        let member = &mut self.members[index];
        member.spawn(&cluster, "existing")?;
        ensure!(member.serves().await?, "{} lost its port", member.name());
        Ok(member)
    }

    async fn id_of(&self, index: usize) -> Result<String> {
        let asker = &self.members[self.leader().await?];
        let list = asker.call("/v3/cluster/member/list", &json!({})).await?;
        let peer = self.members[index].peer_url();
        let members = list["members"].as_array().context("no members")?;
        let member = members.iter().find(|member| member["peerURLs"][0] == peer);
        let id = member.and_then(|member| member["ID"].as_str());
        Ok(id.context("not a member")?.to_owned())
    }

    fn peers(&self) -> String {
        let named = |member: &Etcd| format!("{}={}", member.name(), member.peer_url());
        let named: Vec<String> = self.members.iter().map(named).collect();
        named.join(",")
    }

    async fn is_healthy(&mut self) -> Result<bool> {
        for member in &mut self.members {
            if !member.is_healthy().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
