//! The member's metrics page, read while it streams by.

use std::sync::{Arc, Mutex, PoisonError};

use kelpie_net::{Alpn, Connection, RequestError};
use tonic::codegen::http::HeaderMap;

use crate::sample::Reader;
use crate::wire::access::{Access, Address};
use crate::wire::dial::of_connect;
use crate::{Fault, Sample};

/// A page of a busy etcd has a few hundred kilobytes.
const LARGEST_PAGE: usize = 8 * 1024 * 1024;

/// Where the page is, and a connection that is kept between two readings.
#[derive(Clone)]
pub(crate) struct Page {
    access: Access,
    address: Address,
    /// Taken out while in use: two readings at once have two connections.
    kept: Arc<Mutex<Option<Connection>>>,
}

impl Page {
    pub(crate) fn new(access: Access, address: Address) -> Self {
        Self {
            access,
            address,
            kept: Arc::default(),
        }
    }

    pub(crate) async fn read(&self) -> Result<Sample, Fault> {
        let kept = self.slot().take();
        if let Some(mut connection) = kept
            && connection.is_usable()
        {
            match self.read_over(&mut connection).await {
                // It may have ended between two readings; then a fresh one tells.
                Err(RequestError::Broken(_) | RequestError::Unusable) => {}
                read => return self.end(connection, read),
            }
        }
        let endpoint = self.access.endpoint(&self.address, Alpn::Http1)?;
        let opened = Connection::open(&endpoint).await;
        let mut connection = opened.map_err(|error| of_connect(&error))?;
        let read = self.read_over(&mut connection).await;
        self.end(connection, read)
    }

    async fn read_over(
        &self,
        connection: &mut Connection,
    ) -> Result<Result<Sample, Fault>, RequestError> {
        let headers = HeaderMap::default();
        let path = self.address.metrics_path();
        let mut response = connection.get(path, &headers).await?;
        response.check_length(LARGEST_PAGE)?;
        if response.status != 200 {
            return Ok(Err(self.useless(&format!("answers {}", response.status))));
        }
        let mut reader = Reader::default();
        let mut left = LARGEST_PAGE;
        while let Some(chunk) = response.chunk().await? {
            left = match left.checked_sub(chunk.len()) {
                Some(left) => left,
                None => {
                    return Err(RequestError::BodyTooLarge {
                        limit: LARGEST_PAGE,
                    });
                }
            };
            reader.chunk(&chunk);
        }
        Ok(reader.finish().ok_or_else(|| self.useless("is not etcd's")))
    }

    fn end(
        &self,
        connection: Connection,
        read: Result<Result<Sample, Fault>, RequestError>,
    ) -> Result<Sample, Fault> {
        match read {
            Ok(read) => {
                *self.slot() = Some(connection);
                read
            }
            Err(error @ RequestError::Tls(_)) => Err(Fault::Own(error.to_string())),
            Err(error) => Err(self.useless(&format!("cannot be read: {error}"))),
        }
    }

    fn useless(&self, why: &str) -> Fault {
        Fault::Own(format!(
            "the metrics page at {} {why}: whether a defragmentation runs is not known; give the \
             member's --listen-metrics-urls by --metrics-url",
            self.address
        ))
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
