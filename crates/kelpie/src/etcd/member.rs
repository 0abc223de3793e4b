//! The flags that name the member and choose the checks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgAction, Args};
use kelpie_config::GoDuration;
use kelpie_etcd::{
    ConnectionSettings, EnabledChecks, EtcdOptions, EtcdUser, KeepAlive, Member, MemberConfig,
    MemberUrl, PerformanceLimits, RemoteMember, TlsCredentials,
};
use kelpie_health::{CheckGroup, HealthSettings};
use kelpie_net::TlsFilePaths;
use secrecy::SecretString;

use super::usage;

const DEFAULT_ENDPOINT: &str = "127.0.0.1:2379";

/// etcd closes a connection that is pinged more often than every 5 s. etcdctl has this minimum too.
const MIN_PING_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Args)]
#[command(next_help_heading = "Member")]
pub(crate) struct MemberFlags {
    /// Client URL of the member (exactly one)
    ///
    /// The default scheme is https if certificates are given, and http otherwise.
    #[arg(
        long,
        value_name = "URL",
        env = "ETCDCTL_ENDPOINTS",
        default_value = DEFAULT_ENDPOINT,
        value_delimiter = ','
    )]
    endpoints: Vec<String>,

    /// Certificate authority that signed the member's certificate; required for https
    #[arg(long, value_name = "FILE", env = "ETCDCTL_CACERT")]
    cacert: Option<String>,

    /// Client certificate; reloaded with its key when the files change
    #[arg(long, value_name = "FILE", env = "ETCDCTL_CERT")]
    cert: Option<String>,

    /// Private key of the client certificate
    #[arg(long, value_name = "FILE", env = "ETCDCTL_KEY")]
    key: Option<String>,

    /// Use http for an endpoint without a scheme if there are no certificates; =false requires
    /// https
    #[arg(
        long,
        env = "ETCDCTL_INSECURE_TRANSPORT",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    insecure_transport: bool,

    /// Maximum time to connect to the member
    #[arg(
        long,
        value_name = "DURATION",
        env = "ETCDCTL_DIAL_TIMEOUT",
        default_value = "10s"
    )]
    dial_timeout: GoDuration,

    /// Interval of pings that find a connection whose other end is gone; 0s for none, else at
    /// least 10s
    #[arg(
        long,
        value_name = "DURATION",
        env = "ETCDCTL_KEEPALIVE_TIME",
        default_value = "0s"
    )]
    keepalive_time: GoDuration,

    /// Maximum time to wait for the answer to a ping
    #[arg(
        long,
        value_name = "DURATION",
        env = "ETCDCTL_KEEPALIVE_TIMEOUT",
        default_value = "6s"
    )]
    keepalive_timeout: GoDuration,

    /// User to log in as; there is no password prompt
    #[arg(
        long,
        value_name = "NAME[:PASSWORD]",
        env = "ETCDCTL_USER",
        hide_env_values = true
    )]
    user: Option<String>,

    /// Password of the user; prefer the environment variable
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "ETCDCTL_PASSWORD",
        hide_env_values = true
    )]
    password: Option<String>,

    /// Metrics page of the member, which shows running defragmentations
    /// [default: /metrics of the endpoint]
    ///
    /// A separate listener (etcd's --listen-metrics-urls) also distinguishes a member that waits
    /// for its peers from one that hangs.
    #[arg(long, value_name = "URL")]
    metrics_url: Option<String>,

    /// Process ID of the member, if visible from here; distinguishes a booting or stopped member
    /// from a hung one
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// The value of etcd's own --election-timeout, as a duration [default: 1s, except for
    /// `livez/raft_loop`, which needs this flag]
    #[arg(long, value_name = "DURATION")]
    election_timeout: Option<GoDuration>,

    #[command(flatten)]
    checks: CheckFlags,
}

#[derive(Args)]
#[command(next_help_heading = "Checks")]
struct CheckFlags {
    /// Maximum duration of a livez response
    #[arg(long, value_name = "DURATION", default_value = "4s")]
    livez_deadline: GoDuration,

    /// Maximum duration of a readyz response
    #[arg(long, value_name = "DURATION", default_value = "900ms")]
    readyz_deadline: GoDuration,

    /// Maximum time that a silent member counts as booting, if neither a separate metrics listener
    /// nor --pid confirms it
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    boot_grace: GoDuration,

    /// Enable a check: `linearizable_read`, `raft_propose`, `performance` or `livez/raft_loop`
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    enable: Vec<String>,

    /// Disable a check: NAME, livez/NAME or readyz/NAME
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    disable: Vec<String>,

    /// Limit of the check `performance`: mean duration of writing the log to disk
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    max_wal_fsync: GoDuration,

    /// Limit of the check `performance`: mean duration of a commit of the store
    #[arg(long, value_name = "DURATION", default_value = "250ms")]
    max_backend_commit: GoDuration,

    /// Limit of the check `performance`: number of committed entries that are not applied
    #[arg(long, value_name = "ENTRIES", default_value_t = 1_000)]
    max_apply_backlog: u64,

    /// Detect defragmentations; disable it only to see the effect
    #[arg(
        long,
        hide = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    defrag_detection: bool,
}

impl MemberFlags {
    /// Creates the client of the member, which connects on first use. Call it inside a runtime.
    pub(crate) fn member(&self) -> Result<Arc<dyn Member>> {
        Ok(Arc::new(RemoteMember::new(self.config()?)))
    }

    pub(crate) fn config(&self) -> Result<MemberConfig> {
        let cacert = given(self.cacert.as_deref(), "cacert")?.map(PathBuf::from);
        let cert = given(self.cert.as_deref(), "cert")?;
        let identity = match (cert, given(self.key.as_deref(), "key")?) {
            (Some(cert), Some(key)) => Some((PathBuf::from(cert), PathBuf::from(key))),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--cert needs --key: set both or neither")),
            (None, Some(_)) => return Err(usage("--key needs --cert: set both or neither")),
        };
        let has_certificates = cacert.is_some() || identity.is_some();
        let endpoint = self.endpoint(has_certificates || !self.insecure_transport)?;
        if !endpoint.is_https() && !self.insecure_transport {
            return Err(usage(format_args!(
                "--insecure-transport=false forbids --endpoints {endpoint}: write https://{}",
                endpoint.authority()
            )));
        }
        if endpoint.is_https() && cacert.is_none() {
            return Err(usage(format_args!(
                "--endpoints {endpoint} needs --cacert: the authority that signed the member's \
                 certificate"
            )));
        }
        if !endpoint.is_https() && has_certificates {
            return Err(usage(format_args!(
                "--endpoints {endpoint} does not use the certificates: write https://{}",
                endpoint.authority()
            )));
        }
        let metrics_url = match &self.metrics_url {
            None => None,
            Some(url) => Some(parse_url("--metrics-url", url, endpoint.is_https())?),
        };
        if metrics_url.as_ref().is_some_and(MemberUrl::is_https) && cacert.is_none() {
            return Err(usage("--metrics-url with https needs --cacert"));
        }
        Ok(MemberConfig {
            endpoint,
            metrics_url,
            connection: self.connection()?,
            tls: TlsCredentials::new(TlsFilePaths {
                identity,
                roots: cacert,
            }),
            user: self.user()?,
            login_timeout: self
                .checks
                .livez_deadline
                .0
                .min(self.checks.readyz_deadline.0)
                * 2
                / 3,
            pid: self.pid,
        })
    }

    fn connection(&self) -> Result<ConnectionSettings> {
        let positive = |flag: &str, GoDuration(given): GoDuration| {
            if given.is_zero() {
                return Err(usage(format_args!("{flag} is 0s: set a longer duration")));
            }
            Ok(given)
        };
        let timeout = positive("--keepalive-timeout", self.keepalive_timeout)?;
        let keep_alive = (!self.keepalive_time.0.is_zero()).then(|| KeepAlive {
            interval: self.keepalive_time.0.max(MIN_PING_INTERVAL),
            timeout,
        });
        Ok(ConnectionSettings {
            dial_timeout: positive("--dial-timeout", self.dial_timeout)?,
            keep_alive,
        })
    }

    /// Returns the enabled checks with their deadlines.
    pub(crate) fn options(&self, allow_head: bool) -> Result<EtcdOptions> {
        let flags = &self.checks;
        let mut checks = EnabledChecks::default();
        for name in &flags.enable {
            let known = checks.enable(name);
            known.map_err(|error| usage(format_args!("--enable: {error}")))?;
        }
        for name in &flags.disable {
            let known = checks.disable(name);
            known.map_err(|error| usage(format_args!("--disable: {error}")))?;
        }
        if self.election_timeout.is_none() && checks.was_named("raft_loop", CheckGroup::Livez) {
            return Err(usage(
                "--enable=livez/raft_loop restarts a member that makes no progress for five \
                 election timeouts: set --election-timeout to the value of etcd's own flag, whose \
                 default is 1s",
            ));
        }
        let defaults = EtcdOptions::default();
        Ok(EtcdOptions {
            health: HealthSettings {
                livez_deadline: deadline("--livez-deadline", flags.livez_deadline)?,
                readyz_deadline: deadline("--readyz-deadline", flags.readyz_deadline)?,
                allow_head,
                ..defaults.health
            },
            boot_grace: flags.boot_grace.0,
            election_timeout: self
                .election_timeout
                .map_or(defaults.election_timeout, |given| given.0),
            defrag_detection: flags.defrag_detection,
            performance: PerformanceLimits {
                wal_fsync: flags.max_wal_fsync.0,
                backend_commit: flags.max_backend_commit.0,
                apply_backlog: flags.max_apply_backlog,
            },
            checks,
        })
    }

    /// Returns the client URL. Its default scheme is https if there are certificates.
    pub(crate) fn endpoint(&self, has_certificates: bool) -> Result<MemberUrl> {
        match self.endpoints.as_slice() {
            [empty] if given(Some(empty), "endpoints")?.is_none() => {
                parse_url("--endpoints", DEFAULT_ENDPOINT, has_certificates)
            }
            [one] => parse_url("--endpoints", one, has_certificates),
            several => Err(usage(format_args!(
                "--endpoints has {} addresses: kelpie etcd serves exactly one member; run one per \
                 member",
                several.len()
            ))),
        }
    }

    fn user(&self) -> Result<Option<EtcdUser>> {
        let user = given(self.user.as_deref(), "user")?;
        let password = given(self.password.as_deref(), "password")?;
        let (name, password) = match (user, password) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(usage("--password needs --user")),
            // Treating `name:password` as a name would print the password.
            (Some(user), Some(_)) if user.contains(':') => {
                return Err(usage(
                    "--user contains a password, and --password (or ETCDCTL_PASSWORD) is set too: \
                     write --user NAME, or unset --password",
                ));
            }
            (Some(name), Some(password)) => (name, password),
            (Some(user), None) => match user.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    (name, password)
                }
                _ => {
                    return Err(usage(
                        "--user needs a password, and there is no prompt: write NAME:PASSWORD, or \
                         set --password or ETCDCTL_PASSWORD",
                    ));
                }
            },
        };
        Ok(Some(EtcdUser {
            name: name.to_owned(),
            password: SecretString::from(password),
        }))
    }
}

/// Treats an empty environment variable as unset, as etcdctl does. An empty flag is an error.
fn given<'a>(value: Option<&'a str>, flag: &str) -> Result<Option<&'a str>> {
    if value != Some("") {
        return Ok(value);
    }
    let variable = format!("ETCDCTL_{}", flag.to_uppercase());
    if std::env::var_os(variable).is_some_and(|value| value.is_empty()) {
        return Ok(None);
    }
    Err(usage(format_args!(
        "--{flag} is empty: set a value or omit the flag"
    )))
}

fn parse_url(flag: &str, text: &str, https_if_bare: bool) -> Result<MemberUrl> {
    let parsed = MemberUrl::parse(text, https_if_bare);
    parsed.map_err(|error| usage(format_args!("{flag} {error}")))
}

fn deadline(flag: &str, GoDuration(given): GoDuration) -> Result<Duration> {
    let max = HealthSettings::MAX_DEADLINE;
    let min = Duration::from_millis(50);
    if (min..=max).contains(&given) {
        return Ok(given);
    }
    Err(usage(format_args!(
        "{flag} is {}: choose a value from {} to {}",
        GoDuration(given),
        GoDuration(min),
        GoDuration(max)
    )))
}
