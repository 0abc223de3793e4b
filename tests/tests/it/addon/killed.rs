//! The operator and the status controller, killed at any of their writes: before it got to the API
//! server, or after it was made and before that was heard. What comes after ends as if nothing had
//! happened, and nobody who watches sees anything else either.

use std::fmt;

use futures_util::future::join_all;
use kelpie_addon::{AddonRef, Reporter, StatusWriter};
use kelpie_core::addon::{Component, Forward, Report};
use kelpie_e2e::landscape::{Asked, Doorman, Ruling, rest};
use kelpie_e2e::{Kelpie, poll};
use kelpie_kube::seed::{Seed, SeedOptions};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::collectors::{HUB_INFO, PLATFORM, UWL, environment, hub_info_data};
use super::history::History;
use super::stage::{Alone, Cluster, NAME, PATIENCE, definition, server_as, trues};

/// Nothing happens any more.
const SETTLED: Duration = Duration::from_secs(1);

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Operator,
    Status,
}

/// Where a write is when its writer dies.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Unsent,
    Unheard,
}

/// How somebody dies.
#[derive(Clone, Copy, Debug)]
struct Death {
    who: Who,
    /// At which of its writes.
    at: usize,
    fate: Fate,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, at, fate } = self;
        write!(f, "{who:?} at write {at}, {fate:?}")
    }
}

/// What a play came to.
#[derive(Debug, Default, PartialEq)]
struct Ending {
    /// After each act.
    scenes: Vec<Value>,
    /// The standard types that held, one after the other.
    standings: Vec<String>,
    died: bool,
}

/// One namespace with all that an addon needs.
struct Theatre<'a> {
    spoke: &'a Cluster,
    namespace: String,
}

impl<'a> Theatre<'a> {
    async fn new(spoke: &'a Cluster, namespace: String) -> Self {
        spoke.namespace(&namespace).await;
        let theatre = Self { spoke, namespace };
        let labels = json!({ "app": "uwl" });
        let objects = [
            (
                "api/v1",
                "secrets",
                json!({ "metadata": { "name": "hub-info-secret" }, "data": hub_info_data(HUB_INFO) }),
            ),
            (
                "api/v1",
                "configmaps",
                json!({
                    "metadata": { "name": "observability-metrics-allowlist" },
                    "data": {
                        "metrics_list.yaml": "names: [up]\n",
                        "uwl_metrics_list.yaml": "names: [mine]\n",
                    },
                }),
            ),
            (
                "api/v1",
                "services",
                json!({ "metadata": { "name": "prometheus" }, "spec": { "ports": [{ "port": 1 }] } }),
            ),
            (
                "apis/apps/v1",
                "statefulsets",
                json!({
                    "metadata": { "name": "prometheus-uwl" },
                    "spec": {
                        "selector": { "matchLabels": labels },
                        "serviceName": "uwl",
                        "template": {
                            "metadata": { "labels": labels },
                            "spec": { "containers": [{ "name": "c", "image": "i" }] },
                        },
                    },
                }),
            ),
            (
                "apis/observability.open-cluster-management.io/v1beta1",
                "observabilityaddons",
                json!({
                    "apiVersion": "observability.open-cluster-management.io/v1beta1",
                    "kind": "ObservabilityAddon",
                    "metadata": { "name": NAME },
                }),
            ),
        ];
        for (group, kind, object) in objects {
            let path = theatre.path(group, kind);
            // A definition is served by all parts of the server a moment after it is established.
            poll::until("an object", PATIENCE, async || {
                Ok(rest::create(&spoke.client, &path, &object).await.ok())
            })
            .await
            .unwrap();
        }
        theatre
    }

    fn path(&self, group: &str, kind: &str) -> String {
        format!("/{group}/namespaces/{}/{kind}", self.namespace)
    }

    fn addon_path(&self) -> String {
        let group = "apis/observability.open-cluster-management.io/v1beta1";
        format!("{}/{NAME}", self.path(group, "observabilityaddons"))
    }

    async fn addon(&self) -> Value {
        let path = self.addon_path();
        rest::read(&self.spoke.client, &path).await.unwrap()
    }

    async fn change(&self, spec: &Value) {
        let patch = json!({ "spec": spec });
        rest::merge(&self.spoke.client, &self.addon_path(), &patch)
            .await
            .unwrap();
    }

    async fn made(&self, group: &str, kind: &str) -> Vec<Value> {
        let list = rest::read(&self.spoke.client, &self.path(group, kind)).await;
        let mut list = list.unwrap();
        let Value::Array(mut items) = list["items"].take() else {
            return Vec::new();
        };
        items.retain(|item| item["metadata"]["ownerReferences"].is_array());
        items
    }

    /// All that counts, without what differs from one addon to the next.
    async fn scene(&self) -> Value {
        let addon = self.addon().await;
        let deployments = self.made("apis/apps/v1", "deployments").await;
        let services = self.made("api/v1", "services").await;
        let hashes: Vec<String> = deployments
            .iter()
            .map(|deployment| environment(deployment, "KELPIE_ADDON_ROLLOUT").to_owned())
            .collect();
        let essence = |objects: Vec<Value>| -> Vec<Value> {
            let essence = |mut object: Value| {
                let spec = object["spec"].as_object_mut().unwrap();
                spec.retain(|field, _| !field.starts_with("clusterIP"));
                let metadata = &object["metadata"];
                json!([
                    metadata["name"],
                    metadata["labels"],
                    metadata["ownerReferences"],
                    object["spec"]
                ])
            };
            objects.into_iter().map(essence).collect()
        };
        let mut status = addon["status"].clone();
        if let Some(conditions) = status["conditions"].as_array_mut() {
            for condition in conditions.iter_mut() {
                condition["lastTransitionTime"].take();
            }
            conditions.sort_by_key(|condition| condition["type"].to_string());
        }
        let scene = json!([status, essence(deployments), essence(services)]);
        let uid = addon["metadata"]["uid"].as_str().unwrap();
        let mut text = scene.to_string().replace(uid, "UID");
        text = text.replace(&self.namespace, "NAMESPACE");
        for hash in hashes {
            text = text.replace(&hash, "ROLLOUT");
        }
        serde_json::from_str(&text).unwrap()
    }

    /// Both collectors forward, if what they were rolled out for is announced.
    async fn forward(&self) {
        let addon = self.addon().await;
        for component in Component::ALL {
            let mut reporter = Reporter::new(self.writer().await, None);
            let report = Report {
                component,
                forward: Forward::Successful,
                message: "sent".into(),
                rollout: addon["status"]["rollouts"][component.name()]
                    .as_str()
                    .map(str::to_owned),
            };
            reporter.report(report).await.unwrap();
        }
    }

    async fn writer(&self) -> StatusWriter {
        let options = SeedOptions {
            kubeconfig: Some(self.spoke.kubeconfig()),
            qps: 0.0,
            burst: 0,
            user_agent: "test".into(),
        };
        let seed = Seed::connect_as("spoke", &options).await.unwrap();
        let addon = AddonRef {
            namespace: self.namespace.clone(),
            name: NAME.into(),
        };
        StatusWriter::new(seed.objects(), addon)
    }

    /// Starts somebody, by way of a door if one is given.
    async fn enter(&self, who: Who, door: Option<&Doorman>) -> Kelpie {
        let admin = self.spoke.api.admin();
        let kubeconfig = match door {
            Some(door) => door.kubeconfig(&admin),
            None => self.spoke.api.kubeconfig(&admin),
        };
        let name = format!("{}-{who:?}-{}", self.namespace, door.is_some());
        let kubeconfig = self.spoke.keep(&name, &kubeconfig);
        let namespace = &self.namespace;
        let own = format!("--namespace={namespace}");
        let platform = format!("--platform-service={namespace}/prometheus");
        let uwl = format!("--uwl-stateful-set={namespace}/prometheus-uwl");
        match who {
            Who::Operator => server_as(&kubeconfig, "operator", &[&own, &platform, &uwl]).await,
            Who::Status => server_as(&kubeconfig, "status", &[&own]).await,
        }
    }
}

/// Who is on stage, and who is to die.
struct Cast<'a> {
    theatre: &'a Theatre<'a>,
    operator: Option<Kelpie>,
    status: Option<Kelpie>,
    death: Option<(Death, Doorman)>,
    died: bool,
}

impl<'a> Cast<'a> {
    async fn new(theatre: &'a Theatre<'a>, death: Option<Death>) -> Self {
        let door = match death {
            None => None,
            Some(death) => {
                let door = Doorman::start(&theatre.spoke.api).await.unwrap();
                let mut writes = 0;
                door.rule(move |asked| {
                    writes += usize::from(is_write(asked));
                    match death.fate {
                        _ if writes != death.at || !is_write(asked) => Ruling::Pass,
                        Fate::Unsent => Ruling::Hold,
                        Fate::Unheard => Ruling::HoldAnswer,
                    }
                });
                Some((death, door))
            }
        };
        let way = |who| door.as_ref().filter(|(death, _)| death.who == who);
        let way = |who| way(who).map(|(_, door)| door);
        Self {
            status: Some(theatre.enter(Who::Status, way(Who::Status)).await),
            operator: Some(theatre.enter(Who::Operator, way(Who::Operator)).await),
            theatre,
            death: door,
            died: false,
        }
    }

    /// Kills whose time has come, and starts them again.
    async fn tend(&mut self) {
        let is_due = |(_, door): &mut (Death, Doorman)| !door.held().is_empty();
        let Some((death, door)) = self.death.take_if(is_due) else {
            return;
        };
        let actor = match death.who {
            Who::Operator => &mut self.operator,
            Who::Status => &mut self.status,
        };
        actor.take().unwrap().kill();
        // With it goes what was held.
        drop(door);
        *actor = Some(self.theatre.enter(death.who, None).await);
        self.died = true;
    }

    async fn until(&mut self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let found = poll::until(what, PATIENCE, async || {
            self.tend().await;
            Ok(is_so().await.then_some(()))
        });
        if let Err(error) = found.await {
            panic!("{error:#}; the last was {:#}", self.theatre.scene().await);
        }
    }

    /// Waits for what comes out of an act: what it was in the play that nobody died in, else
    /// whatever it is when nothing happens any more.
    async fn act(&mut self, ending: &mut Ending, model: Option<&Ending>, standing: &str) {
        let theatre = self.theatre;
        self.until(standing, async || {
            trues(&theatre.addon().await) == [standing]
        })
        .await;
        let mut scene = theatre.scene().await;
        if let Some(model) = model {
            let wanted = &model.scenes[ending.scenes.len()];
            self.until("the same scene", async || {
                scene = theatre.scene().await;
                scene == *wanted
            })
            .await;
        } else {
            let mut since = Instant::now();
            self.until("nothing to happen", async || {
                let now = theatre.scene().await;
                if now != scene {
                    (scene, since) = (now, Instant::now());
                }
                since.elapsed() >= SETTLED
            })
            .await;
        }
        ending.scenes.push(scene);
    }
}

fn is_write(asked: &Asked) -> bool {
    asked.method != "GET" && !asked.path.contains("/events")
}

/// Boot, change, no more user workloads, off.
async fn play(spoke: &Cluster, death: Option<Death>, model: Option<&Ending>) -> Ending {
    let name = match death {
        None => "undisturbed".to_owned(),
        Some(Death { who, at, fate }) => format!("{who:?}-{at}-{fate:?}").to_lowercase(),
    };
    let theatre = Theatre::new(spoke, name).await;
    let history = History::start(&spoke.client, &theatre.namespace).await;
    let mut cast = Cast::new(&theatre, death).await;
    let mut ending = Ending::default();

    cast.act(&mut ending, model, "Progressing").await;
    theatre.forward().await;
    cast.act(&mut ending, model, "Available").await;

    theatre.change(&json!({ "interval": 77 })).await;
    cast.act(&mut ending, model, "Progressing").await;
    theatre.forward().await;
    cast.act(&mut ending, model, "Available").await;

    let uwl = theatre.path("apis/apps/v1", "statefulsets/prometheus-uwl");
    rest::delete(&spoke.client, &uwl).await.unwrap();
    let is_gone = async || theatre.made("apis/apps/v1", "deployments").await.len() == 1;
    cast.until("one collector", is_gone).await;
    cast.act(&mut ending, model, "Available").await;

    theatre.change(&json!({ "enableMetrics": false })).await;
    cast.act(&mut ending, model, "Disabled").await;

    let last = theatre.addon().await;
    history.until_seen(&last).await;
    ending.standings = history.standings();
    ending.died = cast.died;
    ending
}

async fn spoke() -> Alone {
    let stage = Alone::bare().await;
    stage.spoke.install(&definition().await).await;
    stage
}

/// Nobody dies. What was made is what the acts are about: else all others would be alike for nothing.
async fn undisturbed(spoke: &Cluster) -> Ending {
    let model = play(spoke, None, None).await;
    let seen = [
        "-",
        "Progressing",
        "Available",
        "Progressing",
        "Available",
        "Disabled",
    ];
    assert_eq!(model.standings, seen);
    let text: Vec<String> = model.scenes.iter().map(Value::to_string).collect();
    for (act, words) in [
        (0, [PLATFORM, UWL, "UpdateSuccessful"]),
        (1, [PLATFORM, UWL, "ForwardSuccessful"]),
        (2, ["--interval=77s", UWL, "UpdateSuccessful"]),
        (3, ["--interval=77s", UWL, "ForwardSuccessful"]),
        (4, ["--interval=77s", PLATFORM, "ForwardSuccessful"]),
        (5, ["\"replicas\":0", PLATFORM, "DisabledMetrics"]),
    ] {
        for word in words {
            assert!(
                text[act].contains(word),
                "{word} in act {act}: {}",
                text[act]
            );
        }
    }
    assert!(!text[4].contains(UWL), "{}", text[4]);
    model
}

/// Dies at each of these writes, a few at a time, until there are no more; how many there were.
async fn die(
    spoke: &Cluster,
    model: &Ending,
    who: Who,
    deaths: impl Iterator<Item = (usize, Fate)>,
) -> usize {
    let mut deaths = deaths.map(|(at, fate)| Death { who, at, fate }).peekable();
    let mut died = 0;
    while deaths.peek().is_some() {
        let few: Vec<Death> = deaths.by_ref().take(3).collect();
        let plays = few
            .iter()
            .map(|death| play(spoke, Some(*death), Some(model)));
        let endings = join_all(plays).await;
        for (death, ending) in few.iter().zip(&endings) {
            println!("{death}: {}", if ending.died { "died" } else { "lived" });
            assert_eq!(ending.scenes, model.scenes, "{death}");
            assert_eq!(ending.standings, model.standings, "{death}");
        }
        let count = endings.iter().filter(|ending| ending.died).count();
        died += count;
        if count < few.len() {
            break;
        }
    }
    died
}

/// Every other one is not heard of.
fn alternately(step: usize) -> impl Iterator<Item = (usize, Fate)> {
    let fates = [Fate::Unsent, Fate::Unheard].into_iter().cycle();
    (1..).step_by(step).zip(fates)
}

#[tokio::test]
async fn killed_at_some_of_its_writes_each_ends_as_if_nothing_had_happened() {
    let stage = spoke().await;
    let model = undisturbed(&stage.spoke).await;
    let died = die(&stage.spoke, &model, Who::Operator, alternately(6)).await;
    assert!(died >= 3, "{died}");
    let died = die(&stage.spoke, &model, Who::Status, alternately(3)).await;
    assert!(died >= 2, "{died}");
}

#[tokio::test]
#[ignore = "minutes of dying"]
async fn killed_at_any_of_its_writes_each_ends_as_if_nothing_had_happened() {
    let stage = spoke().await;
    let model = undisturbed(&stage.spoke).await;
    for who in [Who::Operator, Who::Status] {
        for fate in [Fate::Unsent, Fate::Unheard] {
            let all = (1..).zip(std::iter::repeat(fate));
            let died = die(&stage.spoke, &model, who, all).await;
            println!("{who:?}, {fate:?}: {died} deaths");
            assert!(died >= 4, "{died}");
        }
    }
}
