//! A cluster of etcd members.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::etcd::{EtcdMember, EtcdSetup};
use crate::{poll, port};

/// The members of one cluster, in the order in which they were added.
pub struct EtcdCluster {
    setup: EtcdSetup,
    /// All members, whether they run or not.
    pub members: Vec<EtcdMember>,
}

impl EtcdCluster {
    /// Starts `members` members and waits until all of them are healthy.
    pub async fn start(setup: &EtcdSetup, members: usize) -> Result<Self> {
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

    /// Starts only the first of `members` members. It waits for the others and serves only its
    /// metrics.
    pub async fn start_alone(setup: &EtcdSetup, members: usize) -> Result<Self> {
        for _ in 0..port::ATTEMPTS {
            let mut cluster = Self::prepare(setup, members)?;
            cluster.spawn(0)?;
            if cluster.members[0].serves_metrics().await? {
                return Ok(cluster);
            }
        }
        bail!("{} lost its port {} times", setup.name, port::ATTEMPTS)
    }

    /// Prepares members that know each other, without starting them.
    pub fn prepare(setup: &EtcdSetup, members: usize) -> Result<Self> {
        let members = (0..members).map(|index| EtcdMember::prepare(setup, &format!("m{index}")));
        Ok(Self {
            setup: setup.clone(),
            members: members.collect::<Result<_>>()?,
        })
    }

    /// Starts one member for the first time, without waiting for it.
    pub fn spawn(&mut self, index: usize) -> Result<()> {
        let cluster = self.peers();
        self.members[index].spawn(&cluster, "new")
    }

    /// Waits for a leader and returns its index.
    pub async fn leader(&self) -> Result<usize> {
        poll::until("a leader", Duration::from_secs(30), async || {
            for (index, member) in self.members.iter().enumerate() {
                let is_leader = member.metric("etcd_server_is_leader").await;
                if is_leader.is_ok_and(|value| value > 0.0) {
                    return Ok(Some(index));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Returns the index of a follower.
    pub async fn follower(&self) -> Result<usize> {
        Ok((self.leader().await? + 1) % self.members.len())
    }

    /// Adds a learner and waits until it serves.
    pub async fn add_learner(&mut self) -> Result<&mut EtcdMember> {
        let name = format!("m{}", self.members.len());
        let learner = EtcdMember::prepare(&self.setup, &name)?;
        let request = json!({"peerURLs": [learner.peer_url()], "isLearner": true});
        self.members[0]
            .call("/v3/cluster/member/add", &request)
            .await?;
        self.members.push(learner);
        self.join(self.members.len() - 1).await
    }

    /// Promotes a learner as soon as it has caught up.
    pub async fn promote(&self, index: usize) -> Result<()> {
        let id = self.id_of(index).await?;
        let leader = &self.members[self.leader().await?];
        poll::until(
            "a learner that is caught up",
            Duration::from_secs(30),
            async || {
                let request = json!({"ID": id});
                let done = leader.call("/v3/cluster/member/promote", &request).await;
                Ok(done.ok())
            },
        )
        .await?;
        Ok(())
    }

    /// Replaces a member with a new, empty one on the same ports.
    pub async fn replace(&mut self, index: usize) -> Result<&mut EtcdMember> {
        let id = self.id_of(index).await?;
        let other = (index + 1) % self.members.len();
        let request = json!({"ID": id});
        self.members[other]
            .call("/v3/cluster/member/remove", &request)
            .await?;
        self.members[index].wipe()?;
        let request = json!({"peerURLs": [self.members[index].peer_url()]});
        self.members[other]
            .call("/v3/cluster/member/add", &request)
            .await?;
        self.join(index).await
    }

    async fn join(&mut self, index: usize) -> Result<&mut EtcdMember> {
        let cluster = self.peers();
        let member = &mut self.members[index];
        member.spawn(&cluster, "existing")?;
        ensure!(member.serves().await?, "{} lost its port", member.name());
        Ok(member)
    }

    async fn id_of(&self, index: usize) -> Result<String> {
        let leader = &self.members[self.leader().await?];
        let list = leader.call("/v3/cluster/member/list", &json!({})).await?;
        let peer = self.members[index].peer_url();
        let members = list["members"].as_array().context("no members")?;
        let member = members.iter().find(|member| member["peerURLs"][0] == peer);
        let id = member.and_then(|member| member["ID"].as_str());
        Ok(id.context("not a member")?.to_owned())
    }

    fn peers(&self) -> String {
        let named = |member: &EtcdMember| format!("{}={}", member.name(), member.peer_url());
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
