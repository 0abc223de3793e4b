//! Which selectors go into which request.

use kelpie_net::escape;

/// Bytes of one request's query. Servers take more (a Prometheus nearly a megabyte); the target of a
/// request of ours ends at 64 KiB.
const LONGEST_QUERY: usize = 60_000;

/// A selector that fits into no request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the selector that begins with {0:?} is longer than 60,000 bytes: write several")]
pub struct TooLong(String);

/// Deals the selectors to `workers`, each of which makes its requests one after the other: the
/// queries of every worker that has any.
pub(crate) fn deal(matchers: &[String], workers: usize) -> Result<Vec<Vec<String>>, TooLong> {
    let mut hands = vec![Vec::new(); workers.clamp(1, matchers.len().max(1))];
    let count = hands.len();
    for (index, matcher) in matchers.iter().enumerate() {
        let mut parameter = "match%5B%5D=".to_owned();
        escape(matcher, &mut parameter);
        if parameter.len() > LONGEST_QUERY {
            return Err(TooLong(matcher.chars().take(40).collect()));
        }
        add(&mut hands[index % count], parameter);
    }
    hands.retain(|queries| !queries.is_empty());
    Ok(hands)
}

fn add(queries: &mut Vec<String>, parameter: String) {
    match queries.last_mut() {
        Some(query) if query.len() + 1 + parameter.len() <= LONGEST_QUERY => {
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
    fn one_parameter_per_matcher() {
        let matchers = ["up".to_owned(), "{a=\"b c\"}".to_owned()];
        let dealt = deal(&matchers, 1).unwrap();
        assert_eq!(
            dealt,
            [["match%5B%5D=up&match%5B%5D=%7Ba%3D%22b%20c%22%7D"]]
        );
    }

    #[test]
    fn every_query_is_short_enough_and_no_matcher_is_lost() {
        let matchers = selectors(5_000, 90);
        for workers in [1, 2, 7] {
            let dealt = deal(&matchers, workers).unwrap();
            assert_eq!(dealt.len(), workers);
            let queries = || dealt.iter().flatten();
            assert!(queries().all(|query| query.len() <= LONGEST_QUERY));
            let parameters: usize = queries().map(|query| query.split('&').count()).sum();
            assert_eq!(parameters, matchers.len());
            // Nearly full ones: as few requests as possible.
            let least = queries().map(String::len).sum::<usize>() / LONGEST_QUERY;
            assert!(queries().count() <= least + workers);
        }
    }

    #[test]
    fn workers_without_matchers_do_not_exist() {
        assert_eq!(deal(&selectors(2, 3), 9).unwrap().len(), 2);
        assert!(deal(&[], 3).unwrap().is_empty());
    }

    #[test]
    fn a_matcher_that_fits_nowhere_is_an_error_that_shows_where_it_begins() {
        let long = format!("{{__name__=\"{}\"}}", "m".repeat(70_000));
        let error = deal(&[long], 1).unwrap_err().to_string();
        assert!(error.contains("{__name__="), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}
