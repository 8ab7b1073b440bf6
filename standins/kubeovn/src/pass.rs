//! Why a pass over a key ended early. It is tried again, later and later.

use causeway_ovn::{ReplicaError, TransactError};

use crate::{addresses::AddressError, attachments::AttachmentError, cni::CniError};

/// A pass that did not reach its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the API refused")]
    Api(#[from] Box<kube::Error>),
    #[error("the northbound transaction was not done")]
    Transact(#[from] TransactError),
    #[error("the northbound database cannot be read")]
    Replica(#[from] ReplicaError),
    #[error("an object cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    #[error("an address is wrong")]
    Address(#[from] AddressError),
    #[error("the pod's networks are wrong")]
    Attachment(#[from] AttachmentError),
    #[error("a node refused")]
    Cni(#[from] CniError),
    /// In the real one's words where they are known: they become a condition's message.
    #[error("{0}")]
    Refused(String),
    /// Something that has to be there first.
    #[error("waiting for {0}")]
    Waiting(String),
}

impl From<kube::Error> for PassError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl PassError {
    pub(crate) fn refused(words: impl Into<String>) -> Self {
        Self::Refused(words.into())
    }

    pub(crate) fn waiting(thing: impl Into<String>) -> Self {
        Self::Waiting(thing.into())
    }
}
