//! One call over gRPC.

use prost::Message;
use secrecy::{ExposeSecret, SecretString};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::Fault;
use crate::wire::dial::Line;

/// Answers are small; a stranger's need not be.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// What is sent beside the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    /// The member answers for itself.
    NotNeeded,
    /// Without a leader the member says so at once.
    Needed,
}

impl Line {
    /// Calls once.
    pub(crate) async fn call<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        leader: Leader,
        token: Option<&SecretString>,
    ) -> Result<A, Fault>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        if leader == Leader::Needed {
            metadata.insert("hasleader", MetadataValue::from_static("true"));
        }
        if let Some(token) = token {
            let value = token.expose_secret().parse::<MetadataValue<Ascii>>();
            let mut value =
                value.map_err(|_| Fault::Foreign("the auth token is no text".into()))?;
            value.set_sensitive(true);
            metadata.insert("token", value);
        }
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        let answer = match grpc.ready().await {
            Ok(()) => {
                let path = PathAndQuery::from_static(path);
                let codec = ProstCodec::<Q, A>::default();
                grpc.unary(request, path, codec).await
            }
            Err(error) => Err(Status::from_error(error.into())),
        };
        let result = match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.fault(&status)),
        };
        if result.as_ref().map_or_else(Fault::is_answer, |_| true) {
            self.answered();
        }
        result
    }
}
