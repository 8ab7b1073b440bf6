//! The operations of a transaction (RFC 7047, section 5.2) and what a server answers to them.
//!
//! Built by whoever writes rows, sent by [`Client::transact`](crate::Client::transact).
//! Must stay true: a transaction counts as done only if every element of the answer says so. A server
//! answers a failed transaction with the uuids of the inserts before the failed operation, and
//! answers one that failed only at its commit with an error behind a full list of results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    notation::{Atom, Condition, Datum, Mutation, NamedUuid, Row, Uuid},
    table::Table,
};

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Adds a row. One of a table that is no root is collected at the commit if nothing refers to it.
    Insert {
        /// The row's table.
        table: String,
        /// The columns that are not to have their default.
        row: Row,
        /// The row's name within this transaction.
        #[serde(rename = "uuid-name", skip_serializing_if = "Option::is_none")]
        name: Option<NamedUuid>,
    },
    /// Reads rows.
    Select {
        /// The rows' table.
        table: String,
        /// Which rows: those that meet all of these.
        #[serde(rename = "where")]
        at: Vec<Condition>,
        /// The columns wanted.
        columns: Vec<String>,
    },
    /// Sets whole columns.
    Update {
        /// The rows' table.
        table: String,
        /// Which rows: those that meet all of these.
        #[serde(rename = "where")]
        at: Vec<Condition>,
        /// The columns' new values.
        row: Row,
    },
    /// Changes parts of columns.
    Mutate {
        /// The rows' table.
        table: String,
        /// Which rows: those that meet all of these.
        #[serde(rename = "where")]
        at: Vec<Condition>,
        /// The changes, in this order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows.
    Delete {
        /// The rows' table.
        table: String,
        /// Which rows: those that meet all of these.
        #[serde(rename = "where")]
        at: Vec<Condition>,
    },
    /// Fails the transaction unless the rows that meet the conditions are, in these columns, equal
    /// (or unequal) to the given ones.
    Wait {
        /// How long to wait for it, in milliseconds. 0 decides at once.
        timeout: u32,
        /// The rows' table.
        table: String,
        /// Which rows: those that meet all of these.
        #[serde(rename = "where")]
        at: Vec<Condition>,
        /// The columns compared.
        columns: Vec<String>,
        /// Whether the rows must be equal or unequal.
        until: Until,
        /// The rows compared with.
        rows: Vec<Row>,
    },
    /// Leaves a note in the database's file.
    Comment {
        /// The note.
        comment: String,
    },
}

/// What [`Operation::Wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Until {
    /// The rows are the given ones.
    #[serde(rename = "==")]
    Equal,
    /// The rows are not the given ones.
    #[serde(rename = "!=")]
    Unequal,
}

/// Short forms for rows of a [`Table`]. `at` is one condition, or several that all must be met; `[]`
/// is every row.
impl Operation {
    /// Adds `row`.
    pub fn insert<T: Table>(row: &T) -> Self {
        Self::Insert {
            table: T::NAME.into(),
            row: row.to_row(),
            name: None,
        }
    }

    /// Adds `row`, which other operations of the transaction may refer to by `name`.
    pub fn insert_as<T: Table>(name: NamedUuid, row: &T) -> Self {
        Self::Insert {
            table: T::NAME.into(),
            row: row.to_row(),
            name: Some(name),
        }
    }

    /// Adds `row` and puts it into the set `column` of the `Parent` row at `parent`, which the same
    /// transaction may have added before. `name` must be the row's own within the transaction.
    pub fn insert_into<Parent: Table, T: Table>(
        parent: impl Into<Vec<Condition>>,
        column: &str,
        name: NamedUuid,
        row: &T,
    ) -> [Self; 2] {
        [
            Self::insert_as(name.clone(), row),
            Self::mutate::<Parent>(parent, [Mutation::insert(column, Atom::from(name))]),
        ]
    }

    /// Sets these columns of the rows at `at`.
    pub fn update<T: Table>(at: impl Into<Vec<Condition>>, row: Row) -> Self {
        Self::Update {
            table: T::NAME.into(),
            at: at.into(),
            row,
        }
    }

    /// Changes parts of the rows at `at`.
    pub fn mutate<T: Table>(
        at: impl Into<Vec<Condition>>,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Self {
        Self::Mutate {
            table: T::NAME.into(),
            at: at.into(),
            mutations: mutations.into_iter().collect(),
        }
    }

    /// Removes the rows at `at`.
    pub fn delete<T: Table>(at: impl Into<Vec<Condition>>) -> Self {
        Self::Delete {
            table: T::NAME.into(),
            at: at.into(),
        }
    }

    /// Fails the transaction, at once, unless exactly one row is at `at` and these columns of it have
    /// these values.
    pub fn require<T: Table>(at: impl Into<Vec<Condition>>, row: Row) -> Self {
        Self::Wait {
            timeout: 0,
            table: T::NAME.into(),
            at: at.into(),
            columns: row.keys().cloned().collect(),
            until: Until::Equal,
            rows: vec![row],
        }
    }

    /// Fails the transaction if any row meets the conditions. Decides at once.
    pub fn require_none<T: Table>(at: impl Into<Vec<Condition>>) -> Self {
        Self::Wait {
            timeout: 0,
            table: T::NAME.to_owned(),
            at: at.into(),
            columns: T::COLUMNS.iter().take(1).map(ToString::to_string).collect(),
            until: Until::Equal,
            rows: Vec::new(),
        }
    }

    /// The operation's name on the wire.
    fn word(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Comment { .. } => "comment",
        }
    }
}

/// What one operation of a committed transaction did.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// An insert: the new row's name.
    Inserted(Uuid),
    /// An update, mutate or delete: how many rows met its conditions. None is no error to OVSDB.
    Matched(u64),
    /// A select: the rows.
    Selected(Vec<Row>),
    /// A wait that was met, or a comment.
    Done,
}

/// The outcomes of a committed transaction, one for each operation.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactReply {
    outcomes: Vec<Outcome>,
}

impl TransactReply {
    /// The outcomes, in the order of the operations.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The names of the rows that the transaction's inserts added, in their order.
    pub fn inserted(&self) -> impl Iterator<Item = Uuid> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Inserted(uuid) => Some(*uuid),
            _ => None,
        })
    }

    /// Reads the answer to `operations`.
    ///
    /// # Errors
    /// [`TransactError`] unless every element is the success that its operation can have, and
    /// nothing follows.
    pub(crate) fn read(operations: &[Operation], reply: Value) -> Result<Self, TransactError> {
        let Value::Array(elements) = reply else {
            return Err(TransactError::unreadable(&reply));
        };
        let mut outcomes = Vec::with_capacity(operations.len());
        for (index, element) in elements.into_iter().enumerate() {
            let refusal = Refusal::of(&element);
            match (operations.get(index), refusal) {
                (Some(operation), Some(refusal)) => {
                    return Err(TransactError::Operation {
                        index,
                        operation: operation.word(),
                        refusal,
                    });
                }
                (None, Some(refusal)) => return Err(TransactError::Commit { refusal }),
                (Some(operation), None) => outcomes.push(operation.outcome(element)?),
                (None, None) => return Err(TransactError::unreadable(&element)),
            }
        }
        if outcomes.len() < operations.len() {
            return Err(TransactError::Unreadable {
                json: format!("{} of {} results", outcomes.len(), operations.len()),
            });
        }
        Ok(Self { outcomes })
    }
}

impl Operation {
    fn outcome(&self, element: Value) -> Result<Outcome, TransactError> {
        #[derive(Deserialize)]
        struct Members {
            uuid: Option<Datum>,
            count: Option<u64>,
            rows: Option<Vec<Row>>,
        }
        let unreadable = TransactError::unreadable(&element);
        let Ok(members) = serde_json::from_value::<Members>(element) else {
            return Err(unreadable);
        };
        match self {
            Self::Insert { .. } => members
                .uuid
                .and_then(|datum| crate::table::Column::read(&datum))
                .map(Outcome::Inserted),
            Self::Update { .. } | Self::Mutate { .. } | Self::Delete { .. } => {
                members.count.map(Outcome::Matched)
            }
            Self::Select { .. } => members.rows.map(Outcome::Selected),
            Self::Wait { .. } | Self::Comment { .. } => Some(Outcome::Done),
        }
        .ok_or(unreadable)
    }
}

/// The server's words for why it did not do something.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{error}{}", details.as_ref().map(|details| format!(": {details}")).unwrap_or_default())]
pub struct Refusal {
    /// The kind of error, such as `constraint violation` or `timed out`.
    pub error: String,
    /// What exactly, in words for people.
    pub details: Option<String>,
}

impl Refusal {
    pub(crate) fn of(element: &Value) -> Option<Self> {
        Self::deserialize(element).ok()
    }
}

/// A transaction that was not done, or of which that is not known.
#[derive(Debug, thiserror::Error)]
pub enum TransactError {
    /// The operations could not be written as JSON. Nothing was sent.
    #[error("the operations cannot be written")]
    Unwritable(#[from] serde_json::Error),
    /// There is no session with the server. Nothing was sent.
    #[error("not connected to the database; nothing was sent")]
    NotConnected,
    /// The session ended between the sending and the answer: the transaction was committed or was
    /// not. Look at the rebuilt replica before sending anything again.
    #[error("the connection was lost before the answer: the outcome of the transaction is unknown")]
    OutcomeUnknown,
    /// An operation failed, so none was done.
    #[error("operation {index} ({operation}) failed")]
    Operation {
        /// The operation's place in the transaction, from 0.
        index: usize,
        /// The operation's name.
        operation: &'static str,
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// Every operation worked, but not all of them together, so none was done.
    #[error("the commit failed")]
    Commit {
        /// Why.
        #[source]
        refusal: Refusal,
    },
    /// The server did not take the call for a transaction of a database that it has.
    #[error("the server refused the call: {json}")]
    Call {
        /// The server's words.
        json: String,
    },
    /// The answer is none that the operations can have. The outcome is unknown.
    #[error("the answer cannot be read, so the outcome is unknown: {json}")]
    Unreadable {
        /// The part that cannot be read.
        json: String,
    },
}

impl TransactError {
    pub(crate) fn call(error: &Value) -> Self {
        Self::Call {
            json: error.to_string(),
        }
    }

    fn unreadable(json: &Value) -> Self {
        Self::Unreadable {
            json: json.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UUID: &str = "7ec644e5-4c34-4cb6-bb4a-d86bbec34165";

    fn insert_and_delete() -> [Operation; 2] {
        let table = || "T".into();
        [
            Operation::Insert {
                table: table(),
                row: Row::new(),
                name: None,
            },
            Operation::Delete {
                table: table(),
                at: Vec::new(),
            },
        ]
    }

    #[test]
    fn each_operation_has_the_outcome_of_its_kind() {
        let reply = json!([{"uuid": ["uuid", UUID]}, {"count": 2}]);
        let reply = TransactReply::read(&insert_and_delete(), reply).expect("is done");
        let uuid = UUID.parse().expect("is a UUID");
        assert_eq!(
            reply.outcomes(),
            [Outcome::Inserted(uuid), Outcome::Matched(2)]
        );
        assert_eq!(reply.inserted().collect::<Vec<_>>(), [uuid]);
    }

    #[test]
    fn an_answer_that_is_not_wholly_success_is_none() {
        let inserted = json!({"uuid": ["uuid", UUID]});
        for reply in [
            json!(null),
            json!({}),
            json!([]),
            json!([inserted]),
            json!([inserted, null]),
            json!([inserted, {}]),
            json!([{"count": 1}, {"count": 1}]),
            json!([{"uuid": ["named-uuid", "a"]}, {"count": 1}]),
            json!([inserted, {"count": 1}, {}]),
            json!([inserted, {"count": 1}, null]),
        ] {
            let error = TransactReply::read(&insert_and_delete(), reply.clone())
                .expect_err("is not success");
            assert!(
                matches!(error, TransactError::Unreadable { .. }),
                "{reply}: {error}"
            );
        }
    }

    #[test]
    fn an_error_names_the_operation_or_the_commit_and_the_servers_words() {
        let inserted = json!({"uuid": ["uuid", UUID]});
        let error = json!({"error": "constraint violation", "details": "too many"});
        let refused = |reply| {
            let error =
                TransactReply::read(&insert_and_delete(), reply).expect_err("is not success");
            let source = std::error::Error::source(&error).map(ToString::to_string);
            (error.to_string(), source)
        };
        let words = Some("constraint violation: too many".to_owned());
        assert_eq!(
            refused(json!([error, null])),
            ("operation 0 (insert) failed".into(), words.clone())
        );
        assert_eq!(
            refused(json!([inserted, error])),
            ("operation 1 (delete) failed".into(), words.clone())
        );
        assert_eq!(
            refused(json!([inserted, {"count": 1}, error])),
            ("the commit failed".into(), words)
        );
        assert_eq!(
            refused(json!([inserted, {"error": "timed out"}])),
            (
                "operation 1 (delete) failed".into(),
                Some("timed out".into())
            )
        );
    }
}
