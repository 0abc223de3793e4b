//! Evaluates recording rules as instant queries.

use std::collections::BTreeMap;

use kelpie_net::{RequestError, percent_encode};
use serde::Deserialize;

use super::{PrometheusSource, SourceError, send_all};
use crate::name::METRIC_NAME;
use crate::queue::BatchSender;
use crate::request_metrics::RequestKind;
use crate::tick::Tick;
use crate::time_limit::TimeLimit;

/// Limits the response to a rule, which is held in memory: tens of thousands of series.
const MAX_RESPONSE_BYTES: usize = 8 << 20;

const JSON: &str = "application/json";

/// A query whose result is sent under a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordingRule {
    /// The metric name of the resulting series.
    pub name: String,
    /// The `PromQL` query, evaluated at every tick. Its result must be an instant vector.
    pub query: String,
}

#[derive(Deserialize)]
struct QueryResponse {
    data: QueryData,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum QueryData {
    Vector(Vec<VectorSeries>),
    Matrix(serde::de::IgnoredAny),
    Scalar(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

/// One series of an instant vector. A native histogram has no `value`, and remote write 1.0 cannot
/// carry it.
#[derive(Deserialize)]
struct VectorSeries {
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
}

impl PrometheusSource {
    pub(super) async fn evaluate(
        &self,
        rule: &RecordingRule,
        tick: &Tick,
        sender: &BatchSender,
    ) -> Result<(), SourceError> {
        let body = self.query(&rule.query, tick).await?;
        tick.count_bytes(body.len())?;
        let samples = samples(&body).map_err(SourceError::Response)?;
        drop(body);
        let mut pipeline = tick.pipeline();
        let mut batches = Vec::new();
        let mut out = |batch| batches.push(batch);
        for (metric, value, timestamp_ms) in &samples {
            let labels = metric.iter().filter(|(name, _)| *name != METRIC_NAME);
            let labels = labels.map(|(name, value)| (name.as_str(), value.as_str()));
            pipeline.push_sample(&rule.name, labels, *value, *timestamp_ms, &mut out);
        }
        // No text was parsed that could be truncated.
        let _ = pipeline.finish(&mut out);
        tick.count_samples(pipeline.take_counts());
        Ok(send_all(&mut batches, sender).await?)
    }

    async fn query(&self, query: &str, tick: &Tick) -> Result<bytes::Bytes, SourceError> {
        let request = tick.metrics.start_request(RequestKind::Query);
        let limit = TimeLimit::start(tick.reading.response_timeout);
        let mut pooled = limit.wait(self.query_api.peer.connect()).await??;
        let mut path = format!("{}/api/v1/query?query=", self.query_api.base);
        percent_encode(query, &mut path);
        let response = self
            .query_api
            .get(&mut pooled, &path, JSON, request, limit)
            .await?;
        let body = match limit.wait(response.collect(MAX_RESPONSE_BYTES)).await? {
            Ok(body) => body,
            Err(RequestError::BodyTooLarge { limit }) => {
                let text = format!("the result is larger than {limit} bytes: aggregate more");
                return Err(SourceError::Response(text));
            }
            Err(source) => return Err(self.query_api.peer.request_error(source).into()),
        };
        self.query_api.peer.release(pooled);
        Ok(body)
    }
}

/// The labels, value and timestamp of one result.
type QuerySample = (BTreeMap<String, String>, f64, i64);

fn samples(body: &[u8]) -> Result<Vec<QuerySample>, String> {
    let response: QueryResponse = serde_json::from_slice(body)
        .map_err(|error| format!("the response is not a Prometheus query result: {error}"))?;
    let kind = match response.data {
        QueryData::Vector(series) => return series.into_iter().filter_map(sample).collect(),
        QueryData::Matrix(_) => "matrix",
        QueryData::Scalar(_) => "scalar",
        QueryData::String(_) => "string",
    };
    Err(format!(
        "the result is a {kind}, but only a vector can be sent"
    ))
}

/// Converts one series. Returns `None` if it has no value to send.
fn sample(series: VectorSeries) -> Option<Result<QuerySample, String>> {
    let (seconds, text) = series.value?;
    let millis = (seconds * 1_000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    let timestamp_ms = millis as i64;
    Some(match text.parse() {
        Ok(value) => Ok((series.metric, value, timestamp_ms)),
        Err(_) => Err("a value of the result is not a number".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(kind: &str, result: &str) -> String {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
    }

    #[test]
    fn vector_is_converted_to_samples() {
        let body = response(
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
    fn other_result_types_are_rejected() {
        for (body, expected) in [
            (response("scalar", r#"[1700000000,"1"]"#), "scalar"),
            (response("matrix", "[]"), "matrix"),
            (response("string", r#"[1700000000,"x"]"#), "string"),
            (response("vector", "7"), "not a Prometheus query result"),
            (
                response("vector", r#"[{"metric":{},"value":[1,"x"]}]"#),
                "not a number",
            ),
            ("<html>".to_owned(), "not a Prometheus query result"),
        ] {
            let error = samples(body.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }
}
