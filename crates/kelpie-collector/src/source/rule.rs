//! Recording rules: instant queries whose results are sent under a name.

use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_net::{RequestError, escape};
use serde::Deserialize;

use super::{Source, SourceFault, push};
use crate::Pipeline;
use crate::name::METRIC_NAME;
use crate::queue::Inlet;
use crate::tick::Tick;
use crate::underway::Kind;

/// Of a rule's answer, which is held as a whole: tens of thousands of series.
const LARGEST_ANSWER: usize = 8 << 20;

const JSON: &str = "application/json";

/// A query whose result is sent under a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordingRule {
    /// What its series are called.
    pub name: String,
    /// In `PromQL`, evaluated at every tick. Its result has to be a vector.
    pub query: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Matrix(serde::de::IgnoredAny),
    Scalar(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

/// One series of an instant vector. A native histogram has no `value`, and no place in remote write 1.0.
#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
}

impl Source {
    pub(super) async fn evaluate(
        &self,
        rule: &RecordingRule,
        tick: &Tick,
        inlet: &Inlet,
    ) -> Result<(), SourceFault> {
        let body = self.query(&rule.query, tick).await?;
        tick.take(body.len())?;
        let samples = samples(&body).map_err(SourceFault::Answer)?;
        drop(body);
        let mut pipeline =
            Pipeline::new(Arc::clone(&tick.rules), Arc::clone(&tick.seen), tick.now_ms);
        let mut batches = Vec::new();
        let mut out = |batch| batches.push(batch);
        for (metric, value, timestamp_ms) in &samples {
            let labels = metric.iter().filter(|(name, _)| *name != METRIC_NAME);
            let labels = labels.map(|(name, value)| (name.as_str(), value.as_str()));
            pipeline.sample(&rule.name, labels, *value, *timestamp_ms, &mut out);
        }
        // No text was read that could have been cut.
        let _ = pipeline.finish(&mut out);
        tick.count(pipeline.take_tally());
        Ok(push(&mut batches, inlet).await?)
    }

    async fn query(&self, query: &str, tick: &Tick) -> Result<bytes::Bytes, SourceFault> {
        let asked = tick.metrics.begin(Kind::Query);
        let mut lent = self.site.connect().await?;
        let mut path = format!("{}/api/v1/query?query=", self.base);
        escape(query, &mut path);
        let answer = self.ask(&mut lent, &path, JSON, asked).await?;
        let body = match answer.collect(LARGEST_ANSWER).await {
            Ok(body) => body,
            Err(RequestError::BodyTooLarge { limit }) => {
                let text = format!("its result is larger than {limit} bytes: aggregate more");
                return Err(SourceFault::Answer(text));
            }
            Err(source) => return Err(self.site.fault(source).into()),
        };
        self.site.give_back(lent);
        Ok(body)
    }
}

/// Labels, value and time.
type Sampled = (BTreeMap<String, String>, f64, i64);

fn samples(body: &[u8]) -> Result<Vec<Sampled>, String> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| format!("its answer is not what a Prometheus answers: {error}"))?;
    let kind = match answer.data {
        Data::Vector(series) => return series.into_iter().filter_map(sample).collect(),
        Data::Matrix(_) => "matrix",
        Data::Scalar(_) => "scalar",
        Data::String(_) => "string",
    };
    Err(format!(
        "its result is a {kind}, and only a vector can be sent"
    ))
}

/// `None`: there is no value to be sent.
fn sample(series: Series) -> Option<Result<Sampled, String>> {
    let (seconds, text) = series.value?;
    let millis = (seconds * 1_000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    let timestamp_ms = millis as i64;
    Some(match text.parse() {
        Ok(value) => Ok((series.metric, value, timestamp_ms)),
        Err(_) => Err("a value of its result is no number".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: &str, result: &str) -> String {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
    }

    #[test]
    fn a_vector_is_samples_with_their_time_in_milliseconds() {
        let body = answer(
            "vector",
            r#"[{"metric":{"a":"b"},"value":[1700000000.123,"1.5"]},
                {"metric":{},"value":[1700000000,"NaN"]},
                {"metric":{},"value":[1700000000,"+Inf"]},
                {"metric":{},"value":[1700000000,"-Inf"]},
                {"metric":{},"histogram":[1700000000,{}]}]"#,
        );
        let samples = samples(body.as_bytes()).unwrap();
        assert_eq!(samples.len(), 4);
        assert_eq!(samples[0].0["a"], "b");
        assert_eq!((samples[0].1, samples[0].2), (1.5, 1_700_000_000_123));
        assert!(samples[1].1.is_nan());
        assert_eq!(
            (samples[2].1, samples[3].1),
            (f64::INFINITY, f64::NEG_INFINITY)
        );
    }

    #[test]
    fn anything_but_a_vector_is_an_error_that_says_what_it_is() {
        for (body, said) in [
            (answer("scalar", r#"[1700000000,"1"]"#), "scalar"),
            (answer("matrix", "[]"), "matrix"),
            (answer("string", r#"[1700000000,"x"]"#), "string"),
            (answer("vector", "7"), "not what a Prometheus"),
            (
                answer("vector", r#"[{"metric":{},"value":[1,"x"]}]"#),
                "no number",
            ),
            ("<html>".to_owned(), "not what a Prometheus"),
        ] {
            let error = samples(body.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{body}: {error}");
        }
    }
}
