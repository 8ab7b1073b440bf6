//! YAML as a tree that knows where each of its parts stands in the file.
//!
//! Called by the reader of files only. Documents are read one by one, so that a mistake in one does
//! not hide the next.
//! Must stay true: plain scalars mean here what they mean to the API's own clients (YAML 1.1: an
//! unquoted `Off` is a boolean), or a file would pass that `kubectl apply` refuses.

use std::{collections::BTreeMap, ops::Range};

use causeway_planner::admit::{FieldPath, PathStep};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Number, Value};

/// So many nodes an object may have when its aliases are written out: far above every legal object,
/// far below what would fill the memory.
const NODES_MAX: usize = 100_000;

/// A part of a document.
#[derive(Clone, Debug)]
pub struct Node {
    /// Bytes of the file: a scalar or `{…}` as a whole, the first key or dash of a block.
    pub span: Range<usize>,
    /// What it is.
    pub kind: Kind,
    /// Whether it stands in lines of its own, so that the key before it says more than its start.
    block: bool,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A scalar, and whether it is unquoted.
    Scalar(String, bool),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the order written.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where it stands.
    pub span: Range<usize>,
    /// The value.
    pub value: Node,
}

/// Something in a document that cannot be read.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Where, in bytes of the file.
    pub span: Range<usize>,
    /// What and why.
    pub message: String,
}

/// The documents of a file: byte offset and text. `---` at the start of a line ends a document
/// wherever it stands.
pub fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut starts = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            starts.push(offset);
        }
        offset += line.len();
    }
    starts.push(text.len());
    starts
        .windows(2)
        .filter_map(|pair| {
            let [start, end] = *pair else { return None };
            Some((start, text.get(start..end)?))
        })
        .collect()
}

/// The tree of one document, None if it is empty, and what could not be read in it.
pub fn parse(offset: usize, text: &str) -> (Option<Node>, Vec<Problem>) {
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(
            text,
            granit_parser::options! { emit_comments: false },
        ),
        text,
        offset,
        anchors: BTreeMap::new(),
        nodes: 0,
        problems: Vec::new(),
    };
    let root = reader.document().unwrap_or_default();
    (root, reader.problems)
}

/// The rest of the document cannot be read; the problem is noted.
struct Stop;

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    text: &'a str,
    offset: usize,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Option<Node>, Stop> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(None),
                other => {
                    let root = self.node(other, span)?;
                    // To the end, for mistakes after the last node.
                    while !matches!(self.next()?.0, Event::StreamEnd) {}
                    let empty = root.span.is_empty();
                    return Ok((!empty).then_some(root));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(refusal)) => Err(self.stop(&refusal)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn stop(&mut self, refusal: &ScanError) -> Stop {
        let at = refusal
            .marker()
            .byte_offset()
            .unwrap_or(0)
            .min(self.text.len());
        let start = self.offset + at;
        let end = start + self.text[at..].chars().next().map_or(0, char::len_utf8);
        self.problems.push(Problem {
            span: start..end,
            message: format!("not readable as YAML: {}", refusal.info()),
        });
        Stop
    }

    fn at(&self, span: Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        self.offset + range.start..self.offset + range.end
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Stop> {
        self.nodes += 1;
        let range = self.at(span);
        let anchor = event.anchor_id();
        let node = match event {
            Event::Scalar(text, style, ..) => Node {
                block: matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
                    || range.is_empty(),
                span: range,
                kind: Kind::Scalar(text.into_owned(), style == ScalarStyle::Plain),
            },
            Event::SequenceStart(..) => self.list(range)?,
            Event::MappingStart(..) => self.map(range)?,
            Event::Alias(id) => self.alias(id, range)?,
            _ => {
                self.problems.push(Problem {
                    span: range,
                    message: "not readable as YAML: a value is missing here".to_owned(),
                });
                return Err(Stop);
            }
        };
        if let Some(id) = anchor {
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, start: Range<usize>) -> Result<Node, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let first = items.first().map(|item: &Node| item.span.clone());
                let end = self.at(span);
                return Ok(self.collection(start, first, &end, Kind::List(items)));
            }
            items.push(self.node(event, span)?);
        }
    }

    fn map(&mut self, start: Range<usize>) -> Result<Node, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let first = entries.first().map(|entry| entry.span.clone());
                let end = self.at(span);
                return Ok(self.collection(start, first, &end, Kind::Map(entries)));
            }
            let key = self.node(event, span)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            let span = key.span.clone();
            let Kind::Scalar(key, _) = key.kind else {
                self.problems.push(Problem {
                    span,
                    message: "a key must be plain text".to_owned(),
                });
                continue;
            };
            if entries.iter().any(|entry| entry.key == key) {
                self.problems.push(Problem {
                    span,
                    message: format!("{key} is written twice in the same object; keep one"),
                });
                continue;
            }
            entries.push(Entry { key, span, value });
        }
    }

    fn collection(
        &self,
        start: Range<usize>,
        first: Option<Range<usize>>,
        end: &Range<usize>,
        kind: Kind,
    ) -> Node {
        let opening = self.text.as_bytes().get(start.start - self.offset);
        let flow = matches!(opening, Some(b'{' | b'['));
        Node {
            span: if flow {
                start.start..end.end
            } else {
                first.unwrap_or(start)
            },
            kind,
            block: !flow,
        }
    }

    /// The anchored node, as if it were written where the alias is.
    fn alias(&mut self, id: usize, here: Range<usize>) -> Result<Node, Stop> {
        let node = self.anchors.get(&id).cloned();
        self.nodes += node.as_ref().map_or(0, Node::count);
        let Some(node) = node.filter(|_| self.nodes <= NODES_MAX) else {
            self.problems.push(Problem {
                span: here,
                message: format!(
                    "this alias cannot be followed: it refers to itself, or the document grows above {NODES_MAX} nodes"
                ),
            });
            return Err(Stop);
        };
        Ok(node.moved(&here))
    }
}

impl Node {
    fn count(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar(..) => 0,
            Kind::List(items) => items.iter().map(Self::count).sum(),
            Kind::Map(entries) => entries.iter().map(|entry| entry.value.count()).sum(),
        }
    }

    fn moved(self, here: &Range<usize>) -> Self {
        Self {
            span: here.clone(),
            block: false,
            kind: match self.kind {
                Kind::Scalar(text, plain) => Kind::Scalar(text, plain),
                Kind::List(items) => {
                    Kind::List(items.into_iter().map(|item| item.moved(here)).collect())
                }
                Kind::Map(entries) => Kind::Map(
                    entries
                        .into_iter()
                        .map(|entry| Entry {
                            key: entry.key,
                            span: here.clone(),
                            value: entry.value.moved(here),
                        })
                        .collect(),
                ),
            },
        }
    }

    /// The value of a key, where this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a key, where this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// Where a field stands; where it was not written, what is around it.
    pub fn locate(&self, path: &FieldPath) -> Range<usize> {
        let mut node = self;
        let mut span = self.span.clone();
        for step in &path.0 {
            match (step, &node.kind) {
                (PathStep::Field(name), Kind::Map(_)) => {
                    let Some(entry) = node.entry(name) else { break };
                    node = &entry.value;
                    span = if node.block {
                        entry.span.clone()
                    } else {
                        node.span.clone()
                    };
                }
                (PathStep::Index(index), Kind::List(items)) => {
                    let Some(item) = items.get(*index) else { break };
                    node = item;
                    span = node.span.clone();
                }
                _ => break,
            }
        }
        span
    }

    /// Whether its own span says more than the key before it.
    pub fn stands_alone(&self) -> bool {
        !self.block
    }

    /// The node as the API's clients send it.
    pub fn json(&self) -> Value {
        match &self.kind {
            Kind::Scalar(text, true) => plain(text),
            Kind::Scalar(text, false) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            Kind::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// An unquoted scalar by the rules of YAML 1.1 as far as they differ between types.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let digits = text.replace('_', "");
    let radix = |prefix: &str, radix| {
        let rest = digits.strip_prefix(prefix)?;
        i64::from_str_radix(rest, radix).ok()
    };
    let octal = |text: &str| {
        let rest = text.strip_prefix('0').filter(|rest| !rest.is_empty())?;
        i64::from_str_radix(rest, 8).ok()
    };
    let whole = radix("0x", 16)
        .or_else(|| radix("0o", 8))
        .or_else(|| radix("0b", 2))
        .or_else(|| octal(&digits))
        .or_else(|| digits.parse().ok());
    if let Some(whole) = whole {
        return Some(whole.into());
    }
    // `1e3` and `.5` are numbers, `inf` and `nan` are words here.
    let numeric = digits.bytes().any(|b| b.is_ascii_digit())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    numeric
        .then(|| digits.parse().ok())
        .flatten()
        .and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_words_and_numbers_mean_what_kubectl_makes_of_them() {
        for (text, value) in [
            ("Off", Value::Bool(false)),
            ("yes", Value::Bool(true)),
            ("", Value::Null),
            ("~", Value::Null),
            ("310", Value::from(310)),
            ("010", Value::from(8)),
            ("0x10", Value::from(16)),
            ("1e3", Value::from(1000.0)),
            ("200-299", Value::from("200-299")),
            ("172.20.10.0", Value::from("172.20.10.0")),
            ("nan", Value::from("nan")),
        ] {
            assert_eq!(plain(text), value, "{text}");
        }
    }

    #[test]
    fn a_field_is_found_where_it_stands_and_a_missing_one_where_it_would() {
        let text = "---\nspec:\n  subnets:\n    - name: a\n      cidr: 10.0.0.0/8\n";
        let [_, (offset, document)] = documents(text)[..] else {
            panic!("two documents");
        };
        let root = parse(offset, document).0.expect("a tree");
        let cidr = FieldPath::spec().field("subnets").index(0).field("cidr");
        assert_eq!(&text[root.locate(&cidr)], "10.0.0.0/8");
        let zone = FieldPath::spec().field("subnets").index(0).field("proxmox");
        assert_eq!(&text[root.locate(&zone)], "name");
        assert_eq!(
            &text[root.locate(&FieldPath::spec().field("routes"))],
            "spec"
        );
    }

    #[test]
    fn an_alias_stands_for_what_it_names_where_it_is_written() {
        let text = "a: &x {b: 1}\nc: *x\n";
        let root = parse(0, text).0.expect("a tree");
        assert_eq!(
            root.json(),
            serde_json::json!({"a": {"b": 1}, "c": {"b": 1}})
        );
        let path = FieldPath::default().field("c").field("b");
        assert_eq!(&text[root.locate(&path)], "*x");
    }

    #[test]
    fn aliases_that_multiply_are_refused_before_they_fill_the_memory() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &[
                "a",
                &level.to_string(),
                ": &a",
                &level.to_string(),
                " [",
                &list,
                "]\n",
            ]
            .concat();
        }
        let (root, problems) = parse(0, &text);
        assert!(root.is_none());
        assert!(problems[0].message.contains("100000 nodes"), "{problems:?}");
    }

    #[test]
    fn what_is_written_twice_is_named_and_the_rest_still_read() {
        let (root, problems) = parse(0, "a: 1\na: 2\nb: 3\n");
        assert_eq!(problems[0].span, 5..6);
        assert_eq!(
            root.expect("a tree").json(),
            serde_json::json!({"a": 1, "b": 3})
        );
    }
}
