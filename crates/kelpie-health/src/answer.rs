//! From results to the words and the status of an answer.

use std::fmt::Write;

use axum::http::StatusCode;

use crate::report::Finding;

/// The status and the body, to the byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl Answer {
    /// A failure is always told in full; success only to those who ask.
    pub(crate) fn new(findings: &[Finding], verbose: bool) -> Self {
        let ok = findings.iter().all(|found| found.verdict.is_ok());
        let mut body = String::new();
        if verbose || !ok {
            for found in findings {
                line(&mut body, found);
            }
        }
        body.push_str(if ok { "ok\n" } else { "\n" });
        let status = if ok {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Self { status, body }
    }
}

fn line(body: &mut String, found: &Finding) {
    let name = &found.name;
    // Writing to a string cannot fail.
    let _ = match &found.verdict {
        Ok(()) => writeln!(body, "[+]{name} ok"),
        Err(reason) => writeln!(body, "[-]{name} failed: {reason}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckName, Reason, Verdict};
    use std::time::Duration;

    fn found(name: &str, verdict: Verdict) -> Finding {
        Finding {
            name: CheckName::new(name).unwrap(),
            verdict,
            stale: None,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn answers_follow_the_contract() {
        let good = [found("b", Ok(())), found("a", Ok(()))];
        let bad = [
            found("b", Ok(())),
            found("a", Err(Reason::from("no leader"))),
        ];
        let told = "[+]b ok\n[-]a failed: no leader\n\n";
        for (name, findings, verbose, status, body) in [
            ("ok", &good[..], false, 200, "ok\n"),
            ("verbose", &good, true, 200, "[+]b ok\n[+]a ok\nok\n"),
            ("failed", &bad, false, 503, told),
            ("failed, verbose", &bad, true, 503, told),
            ("nothing to check", &[], false, 200, "ok\n"),
            ("nothing to check, verbose", &[], true, 200, "ok\n"),
        ] {
            let answer = Answer::new(findings, verbose);
            assert_eq!(answer.status.as_u16(), status, "{name}");
            assert_eq!(answer.body, body, "{name}");
        }
    }
}
