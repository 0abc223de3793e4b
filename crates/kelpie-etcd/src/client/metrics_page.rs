//! Reads the member's metrics page while it is received.

use std::sync::Arc;

use kelpie_net::{Alpn, HttpConnection, RequestError};
use parking_lot::Mutex;
use tonic::codegen::http::HeaderMap;

use crate::client::channel::from_connect_error;
use crate::client::member_url::MemberUrl;
use crate::client::tls_credentials::TlsCredentials;
use crate::etcd_metrics::MetricsParser;
use crate::{EtcdError, EtcdMetrics};

/// Maximum size of a page. The page of a busy etcd has a few hundred kilobytes.
const MAX_PAGE: usize = 8 * 1024 * 1024;

/// The metrics page of a member, with a connection that is kept between two reads.
#[derive(Clone)]
pub(crate) struct MetricsPage {
    tls: TlsCredentials,
    url: MemberUrl,
    /// Taken out while in use, so that concurrent reads use separate connections.
    idle: Arc<Mutex<Option<HttpConnection>>>,
}

impl MetricsPage {
    pub(crate) fn new(tls: TlsCredentials, url: MemberUrl) -> Self {
        Self {
            tls,
            url,
            idle: Arc::default(),
        }
    }

    pub(crate) async fn read(&self) -> Result<EtcdMetrics, EtcdError> {
        let idle = self.idle.lock().take();
        if let Some(mut connection) = idle
            && connection.is_usable()
        {
            match self.read_over(&mut connection).await {
                // The idle connection may have been closed. A new one decides.
                Err(RequestError::Broken(_) | RequestError::Unusable) => {}
                read => return self.finish(connection, read),
            }
        }
        let endpoint = self.tls.endpoint(&self.url, Alpn::Http1)?;
        let opened = HttpConnection::open(&endpoint).await;
        let mut connection = opened.map_err(|error| from_connect_error(&error))?;
        let read = self.read_over(&mut connection).await;
        self.finish(connection, read)
    }

    async fn read_over(
        &self,
        connection: &mut HttpConnection,
    ) -> Result<Result<EtcdMetrics, EtcdError>, RequestError> {
        let headers = HeaderMap::default();
        let path = self.url.metrics_path();
        let mut response = connection.get(path, &headers).await?;
        response.check_length(MAX_PAGE)?;
        if response.status != 200 {
            let problem = format!("returned HTTP {}", response.status);
            return Ok(Err(self.unusable(&problem)));
        }
        let mut parser = MetricsParser::default();
        let mut left = MAX_PAGE;
        while let Some(chunk) = response.chunk().await? {
            left = match left.checked_sub(chunk.len()) {
                Some(left) => left,
                None => return Err(RequestError::BodyTooLarge { limit: MAX_PAGE }),
            };
            parser.push(&chunk);
        }
        let metrics = parser.finish();
        Ok(metrics.ok_or_else(|| self.unusable("does not come from etcd")))
    }

    fn finish(
        &self,
        connection: HttpConnection,
        read: Result<Result<EtcdMetrics, EtcdError>, RequestError>,
    ) -> Result<EtcdMetrics, EtcdError> {
        match read {
            Ok(read) => {
                *self.idle.lock() = Some(connection);
                read
            }
            Err(error @ RequestError::Tls(_)) => Err(EtcdError::Misconfigured(error.to_string())),
            Err(error) => Err(self.unusable(&format!("cannot be read: {error}"))),
        }
    }

    fn unusable(&self, problem: &str) -> EtcdError {
        EtcdError::Misconfigured(format!(
            "the metrics page at {} {problem}: defragmentations cannot be detected; set \
             --metrics-url to one of the member's --listen-metrics-urls",
            self.url
        ))
    }
}
