//! Distributes selectors over requests.

use kelpie_net::percent_encode;

/// Limits the query of one request. Servers accept more (a Prometheus nearly a megabyte), but the
/// HTTP client limits the request target to 64 KiB.
const MAX_QUERY_BYTES: usize = 60_000;

/// A selector that does not fit into a request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the selector that starts with {0:?} is longer than 60,000 bytes: split it")]
pub struct MatcherTooLong(String);

/// Distributes the selectors over `workers`, each of which sends its requests one after the other.
/// Returns the queries of every worker that has any.
pub(crate) fn assign_matchers(
    matchers: &[String],
    workers: usize,
) -> Result<Vec<Vec<String>>, MatcherTooLong> {
    let mut worker_queries = vec![Vec::new(); workers.clamp(1, matchers.len().max(1))];
    let workers = worker_queries.len();
    for (index, matcher) in matchers.iter().enumerate() {
        let mut parameter = "match%5B%5D=".to_owned();
        percent_encode(matcher, &mut parameter);
        if parameter.len() > MAX_QUERY_BYTES {
            return Err(MatcherTooLong(matcher.chars().take(40).collect()));
        }
        add(&mut worker_queries[index % workers], parameter);
    }
    worker_queries.retain(|queries| !queries.is_empty());
    Ok(worker_queries)
}

fn add(queries: &mut Vec<String>, parameter: String) {
    match queries.last_mut() {
        Some(query) if query.len() + 1 + parameter.len() <= MAX_QUERY_BYTES => {
            query.push('&');
            query.push_str(&parameter);
        }
        _ => queries.push(parameter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selectors(count: usize, length: usize) -> Vec<String> {
        let name = |number| format!("{{__name__=\"m{number:0length$}\"}}");
        (0..count).map(name).collect()
    }

    #[test]
    fn each_matcher_is_one_parameter() {
        let matchers = ["up".to_owned(), "{a=\"b c\"}".to_owned()];
        let assigned = assign_matchers(&matchers, 1).unwrap();
        assert_eq!(
            assigned,
            [["match%5B%5D=up&match%5B%5D=%7Ba%3D%22b%20c%22%7D"]]
        );
    }

    #[test]
    fn queries_are_short_and_complete() {
        let matchers = selectors(5_000, 90);
        for workers in [1, 2, 7] {
            let assigned = assign_matchers(&matchers, workers).unwrap();
            assert_eq!(assigned.len(), workers);
            let queries = || assigned.iter().flatten();
            assert!(queries().all(|query| query.len() <= MAX_QUERY_BYTES));
            let parameters: usize = queries().map(|query| query.split('&').count()).sum();
            assert_eq!(parameters, matchers.len());
            // Queries are nearly full, so that there are as few requests as possible.
            let least = queries().map(String::len).sum::<usize>() / MAX_QUERY_BYTES;
            assert!(queries().count() <= least + workers);
        }
    }

    #[test]
    fn workers_without_matchers_are_dropped() {
        assert_eq!(assign_matchers(&selectors(2, 3), 9).unwrap().len(), 2);
        assert!(assign_matchers(&[], 3).unwrap().is_empty());
    }

    #[test]
    fn too_long_matcher_is_rejected_with_excerpt() {
        let long = format!("{{__name__=\"{}\"}}", "m".repeat(70_000));
        let error = assign_matchers(&[long], 1).unwrap_err().to_string();
        assert!(error.contains("{__name__="), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}
