//! The operator and the status controller, killed at any of their writes: before it got to the API
//! server, or after it was made and before that was heard. What comes after ends as if nothing had
//! happened, and nobody who watches sees anything else either.

mod cast;
mod theatre;

use futures_util::future::join_all;
use kelpie_e2e::landscape::rest;
use serde_json::{Value, json};

use self::cast::{Cast, Death, Fate, Who};
use self::theatre::Theatre;
use super::collectors::{PLATFORM, UWL};
use super::history::History;
use super::stage::{Alone, Cluster, definition};

/// What a play came to.
#[derive(Debug, Default, PartialEq)]
struct Ending {
    /// After each act.
    scenes: Vec<Value>,
    /// The standard types that held, one after the other.
    standings: Vec<String>,
    died: bool,
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
