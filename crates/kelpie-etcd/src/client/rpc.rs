//! One gRPC call.

use futures_util::Stream;
use prost::Message;
use secrecy::{ExposeSecret, SecretString};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::EtcdError;
use crate::client::channel::MemberChannel;

/// Maximum size of a response. etcd's are small, but another server may listen there.
const MAX_RESPONSE: usize = 1024 * 1024;

/// Makes a call fail early on a member without a leader, through the metadata `hasleader`.
#[derive(Clone, Copy)]
pub(crate) struct RequireLeader(pub(crate) bool);

impl MemberChannel {
    /// Makes one call, without retries.
    pub(crate) async fn call<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        leader: RequireLeader,
        token: Option<&SecretString>,
    ) -> Result<A, EtcdError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = with_metadata(message, leader, token)?;
        let mut grpc = self.grpc();
        let response = match grpc.ready().await {
            Ok(()) => {
                let path = PathAndQuery::from_static(path);
                let codec = ProstCodec::<Q, A>::default();
                grpc.unary(request, path, codec).await
            }
            Err(error) => Err(Status::from_error(error.into())),
        };
        let result = match response {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.error(&status)),
        };
        if result
            .as_ref()
            .map_or_else(EtcdError::is_response, |_| true)
        {
            self.record_answer();
        }
        result
    }

    /// Opens a stream in both directions, without retries.
    pub(crate) async fn stream<Q, A, S>(
        &self,
        path: &'static str,
        messages: S,
        token: Option<&SecretString>,
    ) -> Result<Streaming<A>, EtcdError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let request = with_metadata(messages, RequireLeader(false), token)?;
        let mut grpc = self.grpc();
        let opened = async {
            grpc.ready()
                .await
                .map_err(|error| Status::from_error(error.into()))?;
            let path = PathAndQuery::from_static(path);
            grpc.streaming(request, path, ProstCodec::<Q, A>::default())
                .await
        };
        let response = opened.await.map_err(|status| self.error(&status))?;
        Ok(response.into_inner())
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_RESPONSE)
    }
}

fn with_metadata<M>(
    message: M,
    leader: RequireLeader,
    token: Option<&SecretString>,
) -> Result<Request<M>, EtcdError> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    if leader.0 {
        metadata.insert("hasleader", MetadataValue::from_static("true"));
    }
    if let Some(token) = token {
        let value = token.expose_secret().parse::<MetadataValue<Ascii>>();
        let mut value =
            value.map_err(|_| EtcdError::NotEtcd("the auth token is not ASCII text".into()))?;
        value.set_sensitive(true);
        metadata.insert("token", value);
    }
    Ok(request)
}
