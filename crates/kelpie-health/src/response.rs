//! Renders the results of a probe as an HTTP status and body.

use std::fmt::Write;

use axum::http::StatusCode;

use crate::report::CheckReport;

/// The status and the exact body of a probe's response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProbeResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl ProbeResponse {
    /// Lists every check if one failed, or if the probe is verbose.
    pub(crate) fn new(checks: &[CheckReport], verbose: bool) -> Self {
        let ok = checks.iter().all(|check| check.result.is_ok());
        let mut body = String::new();
        if verbose || !ok {
            for check in checks {
                write_line(&mut body, check);
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

fn write_line(body: &mut String, check: &CheckReport) {
    let name = &check.name;
    // Writing to a string cannot fail.
    let _ = match &check.result {
        Ok(()) => writeln!(body, "[+]{name} ok"),
        Err(reason) => writeln!(body, "[-]{name} failed: {reason}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckName, CheckResult, FailureReason};
    use std::time::Duration;

    fn report(name: &str, result: CheckResult) -> CheckReport {
        CheckReport {
            name: CheckName::new(name).unwrap(),
            result,
            reused_age: None,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn bodies_follow_the_contract() {
        let good = [report("b", Ok(())), report("a", Ok(()))];
        let bad = [
            report("b", Ok(())),
            report("a", Err(FailureReason::from("no leader"))),
        ];
        let listed = "[+]b ok\n[-]a failed: no leader\n\n";
        for (name, checks, verbose, status, body) in [
            ("ok", &good[..], false, 200, "ok\n"),
            ("verbose", &good, true, 200, "[+]b ok\n[+]a ok\nok\n"),
            ("failed", &bad, false, 503, listed),
            ("failed, verbose", &bad, true, 503, listed),
            ("nothing to check", &[], false, 200, "ok\n"),
            ("nothing to check, verbose", &[], true, 200, "ok\n"),
        ] {
            let response = ProbeResponse::new(checks, verbose);
            assert_eq!(response.status.as_u16(), status, "{name}");
            assert_eq!(response.body, body, "{name}");
        }
    }
}
