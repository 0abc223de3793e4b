//! The flags that say which member, and how it is asked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgAction, Args};
use kelpie_config::GoDuration;
use kelpie_etcd::{Access, Address, Member, Options, Remote, Selection, Target, User};
use kelpie_health::Settings;
use kelpie_net::FilePaths;
use secrecy::SecretString;

use super::usage;

const DEFAULT_ENDPOINT: &str = "127.0.0.1:2379";

/// Which member, and how it is asked.
#[derive(Args)]
pub(crate) struct MemberFlags {
    /// The client URL of the member: exactly one
    ///
    /// Without a scheme it is https if certificates are given, http if not.
    #[arg(
        long,
        value_name = "URL",
        env = "ETCDCTL_ENDPOINTS",
        default_value = DEFAULT_ENDPOINT,
        value_delimiter = ',',
        help_heading = "Member"
    )]
    endpoints: Vec<String>,

    /// Certificate authority that vouches for the member; needed for https
    #[arg(
        long,
        value_name = "FILE",
        env = "ETCDCTL_CACERT",
        help_heading = "Member"
    )]
    cacert: Option<String>,

    /// Client certificate; it and the key are read again when the files change
    #[arg(
        long,
        value_name = "FILE",
        env = "ETCDCTL_CERT",
        help_heading = "Member"
    )]
    cert: Option<String>,

    /// Key of the client certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "ETCDCTL_KEY",
        help_heading = "Member"
    )]
    key: Option<String>,

    /// User to log in as; the password is never asked for
    #[arg(
        long,
        value_name = "NAME[:PASSWORD]",
        env = "ETCDCTL_USER",
        hide_env_values = true,
        help_heading = "Member"
    )]
    user: Option<String>,

    /// Password of the user; better given by the environment
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "ETCDCTL_PASSWORD",
        hide_env_values = true,
        help_heading = "Member"
    )]
    password: Option<String>,

    /// Metrics page of the member, from which it is known whether a defragmentation runs
    /// [default: /metrics of the endpoint]
    ///
    /// With a listener of its own (etcd's --listen-metrics-urls) a member that waits for its peers
    /// is told from one that hangs.
    #[arg(long, value_name = "URL", help_heading = "Member")]
    metrics_url: Option<String>,

    /// Process of the member, if it can be seen from here: tells booting and stopped from hung
    #[arg(
        long,
        value_name = "PID",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Member"
    )]
    pid: Option<u32>,

    /// etcd's own --election-timeout, as a duration
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1s",
        help_heading = "Member"
    )]
    election_timeout: GoDuration,

    /// A livez answer takes no longer
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "4s",
        help_heading = "Checks"
    )]
    livez_deadline: GoDuration,

    /// A readyz answer takes no longer
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "900ms",
        help_heading = "Checks"
    )]
    readyz_deadline: GoDuration,

    /// A silent member may be booting for this long, where neither its own metrics listener nor
    /// its process tells
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10m",
        help_heading = "Checks"
    )]
    boot_grace: GoDuration,

    /// Add a check: `linearizable_read`, `raft_propose` or `livez/raft_loop`
    #[arg(
        long,
        value_name = "CHECK",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    enable: Vec<String>,

    /// Leave out a check: NAME, livez/NAME or readyz/NAME
    #[arg(
        long,
        value_name = "CHECK",
        value_delimiter = ',',
        help_heading = "Checks"
    )]
    disable: Vec<String>,

    /// Off to see what happens without it
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
    /// The member, which is connected to when it is used. Call it inside a runtime.
    pub(crate) fn member(&self) -> Result<Arc<dyn Member>> {
        kelpie_net::install_crypto();
        Ok(Arc::new(Remote::new(self.target()?)))
    }

    pub(crate) fn target(&self) -> Result<Target> {
        let cacert = given(self.cacert.as_deref(), "cacert")?.map(PathBuf::from);
        let cert = given(self.cert.as_deref(), "cert")?;
        let identity = match (cert, given(self.key.as_deref(), "key")?) {
            (Some(cert), Some(key)) => Some((PathBuf::from(cert), PathBuf::from(key))),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--cert needs --key: give both or neither")),
            (None, Some(_)) => return Err(usage("--key needs --cert: give both or neither")),
        };
        let has_certificates = cacert.is_some() || identity.is_some();
        let endpoint = self.endpoint(has_certificates)?;
        if endpoint.is_https() && cacert.is_none() {
            return Err(usage(format_args!(
                "--endpoints {endpoint} needs --cacert: the authority that signed the member's \
                 certificate"
            )));
        }
        if !endpoint.is_https() && has_certificates {
            return Err(usage(format_args!(
                "--endpoints {endpoint} would not use the certificates: write https://{}",
                endpoint.authority()
            )));
        }
        let metrics = match &self.metrics_url {
            None => None,
            Some(url) => Some(address("--metrics-url", url, endpoint.is_https())?),
        };
        if metrics.as_ref().is_some_and(Address::is_https) && cacert.is_none() {
            return Err(usage("--metrics-url with https needs --cacert"));
        }
        Ok(Target {
            endpoint,
            metrics,
            access: Access::new(FilePaths {
                identity,
                roots: cacert,
            }),
            user: self.user()?,
            log_in_wait: self.livez_deadline.0.min(self.readyz_deadline.0) * 2 / 3,
            pid: self.pid,
        })
    }

    /// What is asked and how long it may take.
    pub(crate) fn options(&self, allow_head: bool) -> Result<Options> {
        let mut checks = Selection::default();
        for name in &self.enable {
            let known = checks.enable(name);
            known.map_err(|error| usage(format_args!("--enable: {error}")))?;
        }
        for name in &self.disable {
            let known = checks.disable(name);
            known.map_err(|error| usage(format_args!("--disable: {error}")))?;
        }
        let defaults = Options::default();
        Ok(Options {
            health: Settings {
                livez_deadline: deadline("--livez-deadline", self.livez_deadline)?,
                readyz_deadline: deadline("--readyz-deadline", self.readyz_deadline)?,
                allow_head,
                ..defaults.health
            },
            boot_grace: self.boot_grace.0,
            election_timeout: self.election_timeout.0,
            defrag_detection: self.defrag_detection,
            checks,
        })
    }

    /// Where the member is, for messages.
    pub(crate) fn endpoint(&self, has_certificates: bool) -> Result<Address> {
        match self.endpoints.as_slice() {
            [empty] if given(Some(empty), "endpoints")?.is_none() => {
                address("--endpoints", DEFAULT_ENDPOINT, has_certificates)
            }
            [one] => address("--endpoints", one, has_certificates),
            several => Err(usage(format_args!(
                "--endpoints has {} addresses: kelpie etcd answers for exactly one member; run one \
                 beside each",
                several.len()
            ))),
        }
    }

    fn user(&self) -> Result<Option<User>> {
        let user = given(self.user.as_deref(), "user")?;
        let password = given(self.password.as_deref(), "password")?;
        let (name, password) = match (user, password) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(usage("--password needs --user")),
            // Its end is a password, which would be shown as part of the name.
            (Some(user), Some(_)) if user.contains(':') => {
                return Err(usage(
                    "--user has a password, and --password (or ETCDCTL_PASSWORD) gives another: \
                     write --user NAME, or leave out --password",
                ));
            }
            (Some(name), Some(password)) => (name, password),
            (Some(user), None) => match user.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    (name, password)
                }
                _ => {
                    return Err(usage(
                        "--user needs a password, which is never asked for: write NAME:PASSWORD, \
                         or give --password or ETCDCTL_PASSWORD",
                    ));
                }
            },
        };
        Ok(Some(User {
            name: name.to_owned(),
            password: SecretString::from(password),
        }))
    }
}

/// An empty environment variable is as good as none, as for etcdctl; an empty flag is a mistake.
fn given<'a>(value: Option<&'a str>, flag: &str) -> Result<Option<&'a str>> {
    if value != Some("") {
        return Ok(value);
    }
    let variable = format!("ETCDCTL_{}", flag.to_uppercase());
    if std::env::var_os(variable).is_some_and(|value| value.is_empty()) {
        return Ok(None);
    }
    Err(usage(format_args!(
        "--{flag} is empty: give a value or leave it out"
    )))
}

fn address(flag: &str, text: &str, https_if_bare: bool) -> Result<Address> {
    let parsed = Address::parse(text, https_if_bare);
    parsed.map_err(|error| usage(format_args!("{flag} {error}")))
}

fn deadline(flag: &str, GoDuration(given): GoDuration) -> Result<Duration> {
    let longest = Settings::LONGEST_DEADLINE;
    let shortest = Duration::from_millis(50);
    if (shortest..=longest).contains(&given) {
        return Ok(given);
    }
    Err(usage(format_args!(
        "{flag} is {}: choose one from {} to {}",
        GoDuration(given),
        GoDuration(shortest),
        GoDuration(longest)
    )))
}
