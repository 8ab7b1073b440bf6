//! From a stream of bytes to JSON-RPC messages.
//!
//! Used by the session, on everything that comes from a server.
//! Must stay true: where the stream is cut makes no difference, and a peer that never ends its
//! message cannot make the buffer grow beyond the limit.

use std::mem;

use serde::Deserialize;
use serde_json::Value;

/// The longest message taken, in bytes. The longest that comes is a monitor's first answer: about
/// 500 bytes for a row, so this is more than 100 000 of the rows that causeway monitors, and still a
/// size that a controller's memory holds several times over.
pub const MESSAGE_LIMIT: usize = 64 << 20;

/// Cuts a stream into its messages, each one JSON object.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    buffer: Vec<u8>,
    /// How much of the buffer the fields below speak of.
    scanned: usize,
    /// Open brackets, of either kind: that they match is the parser's to find.
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Splitter {
    /// A splitter at the beginning of a stream, whose messages may have `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            scanned: 0,
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// Takes the next bytes of the stream. Call [`Splitter::next_message`] until it has no more
    /// before pushing again.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, or none until more bytes come. After an error the stream is of no more use.
    ///
    /// # Errors
    /// [`CodecError`] if a message is too long or is no JSON-RPC message.
    pub fn next_message(&mut self) -> Result<Option<Message>, CodecError> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            self.scanned += 1;
            if self.scanned > self.limit {
                return Err(CodecError::TooLong { limit: self.limit });
            }
            if self.ends_message(byte)? {
                let rest = self.buffer.split_off(self.scanned);
                let bytes = mem::replace(&mut self.buffer, rest);
                self.scanned = 0;
                return Message::parse(&bytes).map(Some);
            }
        }
        Ok(None)
    }

    fn ends_message(&mut self, byte: u8) -> Result<bool, CodecError> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Ok(false);
        }
        match byte {
            b'{' => self.depth += 1,
            _ if self.depth == 0 && !byte.is_ascii_whitespace() => {
                return Err(CodecError::Stray { byte });
            }
            b'[' => self.depth += 1,
            b'"' => self.in_string = true,
            b'}' | b']' => {
                self.depth -= 1;
                return Ok(self.depth == 0);
            }
            _ => {}
        }
        Ok(false)
    }
}

/// What a peer may send (RFC 7047, section 4).
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A call that wants an answer with the same id.
    Request {
        /// The caller's name for this call; any JSON.
        id: Value,
        /// The method's name.
        method: String,
        /// The arguments.
        params: Value,
    },
    /// A call that wants no answer.
    Notification {
        /// The method's name.
        method: String,
        /// The arguments.
        params: Value,
    },
    /// The answer to a call.
    Reply {
        /// The id of the call.
        id: Value,
        /// What the call gave, or the error.
        result: Result<Value, Value>,
    },
}

impl Message {
    /// # Errors
    /// [`CodecError`] if the bytes are no JSON-RPC message.
    fn parse(bytes: &[u8]) -> Result<Self, CodecError> {
        #[derive(Deserialize)]
        struct Members {
            #[serde(default)]
            id: Value,
            method: Option<String>,
            #[serde(default)]
            params: Value,
            #[serde(default)]
            result: Value,
            #[serde(default)]
            error: Value,
        }
        let members: Members = serde_json::from_slice(bytes)?;
        match (members.method, members.id) {
            (Some(method), Value::Null) => Ok(Self::Notification {
                method,
                params: members.params,
            }),
            (Some(method), id) => Ok(Self::Request {
                id,
                method,
                params: members.params,
            }),
            (None, Value::Null) => Err(CodecError::Nameless),
            (None, id) => Ok(Self::Reply {
                id,
                result: match members.error {
                    Value::Null => Ok(members.result),
                    error => Err(error),
                },
            }),
        }
    }
}

/// A stream that holds no JSON-RPC messages, or one too long.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The message goes on beyond the limit.
    #[error("a message is longer than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Between messages there is something else.
    #[error("byte {byte:#04x} stands where a message should begin")]
    Stray {
        /// The first such byte.
        byte: u8,
    },
    /// Brackets that end, around something else than a message.
    #[error("a message is malformed")]
    Malformed(#[from] serde_json::Error),
    /// Neither a call nor an answer to one.
    #[error("a message has neither method nor id")]
    Nameless,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn split(limit: usize, chunks: &[&[u8]]) -> Result<Vec<Message>, CodecError> {
        let mut splitter = Splitter::new(limit);
        let mut messages = Vec::new();
        for chunk in chunks {
            splitter.push(chunk);
            while let Some(message) = splitter.next_message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    /// What a server said to a client that monitored, was probed and wrote.
    const DIALOGUE: &[u8] = include_bytes!("../tests/dialogue.json");

    #[test]
    fn a_recorded_dialogue_reads_the_same_cut_at_every_byte() {
        let whole = split(MESSAGE_LIMIT, &[DIALOGUE]).expect("is well formed");
        assert_eq!(whole.len(), 8);
        for at in 0..=DIALOGUE.len() {
            let (head, tail) = DIALOGUE.split_at(at);
            assert_eq!(
                split(MESSAGE_LIMIT, &[head, tail]).expect("is well formed"),
                whole,
                "cut at {at}"
            );
        }
        let bytes: Vec<_> = DIALOGUE.chunks(1).collect();
        assert_eq!(split(MESSAGE_LIMIT, &bytes).expect("is well formed"), whole);
    }

    #[test]
    fn brackets_and_quotes_inside_strings_end_nothing() {
        let text = br#" {"id":1,"result":"}]\"{\\","error":null} {"method":"m","params":["\\\\\""],"id":null}"#;
        assert_eq!(
            split(MESSAGE_LIMIT, &[text]).expect("is well formed"),
            [
                Message::Reply {
                    id: json!(1),
                    result: Ok(json!("}]\"{\\")),
                },
                Message::Notification {
                    method: "m".into(),
                    params: json!(["\\\\\""]),
                },
            ]
        );
    }

    #[test]
    fn a_message_of_the_limit_is_taken_and_one_byte_more_is_not() {
        let text = br#"{"method":"m"}"#;
        assert_eq!(split(text.len(), &[text]).expect("fits").len(), 1);
        assert!(matches!(
            split(text.len() - 1, &[text]),
            Err(CodecError::TooLong { limit }) if limit == text.len() - 1
        ));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let refused = |text: &[u8]| split(MESSAGE_LIMIT, &[text]).expect_err("is no message");
        assert!(matches!(refused(b"x"), CodecError::Stray { byte: b'x' }));
        assert!(matches!(refused(b"[1]"), CodecError::Stray { byte: b'[' }));
        assert!(matches!(refused(b"}"), CodecError::Stray { byte: b'}' }));
        assert!(matches!(refused(b"{]"), CodecError::Malformed(_)));
        assert!(matches!(refused(b"{\"id\":}"), CodecError::Malformed(_)));
        assert!(matches!(refused(b"{\"result\":1}"), CodecError::Nameless));
        let nested = [b"{\"id\":".as_slice(), &[b'['; 200], &[b']'; 200], b"}"].concat();
        assert!(matches!(refused(&nested), CodecError::Malformed(_)));
    }
}
