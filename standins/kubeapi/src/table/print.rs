//! Tables as text, as `kubectl get` prints them.

use std::fmt::Write as _;

use kube::Client;
use serde_json::Value;

/// Between two columns, as in `k8s.io/cli-runtime/pkg/printers.GetNewTabWriter`.
const GAP: usize = 3;

/// A table cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    /// The request cannot be built.
    #[error("{path:?} is no path")]
    Path {
        /// The path.
        path: String,
        /// Why.
        source: http::Error,
    },
    /// The API refuses.
    #[error("the table of {path} cannot be fetched")]
    Api {
        /// The path.
        path: String,
        /// What it says.
        source: Box<kube::Error>,
    },
}

/// Asks the API for the table of a path, for example
/// `/apis/proxmox.cozystack.io/v1alpha1/namespaces/tenant-a/proxmoxnetworks`.
///
/// # Errors
/// [`PrintError`] if the API refuses.
pub async fn fetch(client: &Client, path: &str) -> Result<Value, PrintError> {
    let request = http::Request::get(path)
        .header(
            http::header::ACCEPT,
            "application/json;as=Table;g=meta.k8s.io;v=v1",
        )
        .body(Vec::new())
        .map_err(|source| PrintError::Path {
            path: path.to_owned(),
            source,
        })?;
    client
        .request(request)
        .await
        .map_err(|source| PrintError::Api {
            path: path.to_owned(),
            source: Box::new(source),
        })
}

/// The text of a table: upper-case headers, three spaces between columns, one line per row; with
/// `wide` also the columns of higher priority.
pub fn print(table: &Value, wide: bool) -> String {
    let list = |field: &str| {
        table
            .get(field)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let columns = list("columnDefinitions");
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| {
            wide || columns[*index]
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default()
                == 0
        })
        .collect();
    let header = |index: &usize| {
        columns[*index]["name"]
            .as_str()
            .unwrap_or_default()
            .to_uppercase()
    };
    let mut lines: Vec<Vec<String>> = vec![shown.iter().map(header).collect()];
    for row in list("rows") {
        lines.push(
            shown
                .iter()
                .map(|index| text(row.pointer(&format!("/cells/{index}"))))
                .collect(),
        );
    }
    layout(&lines)
}

/// A cell's text; kubectl shows nothing for nothing.
fn text(cell: Option<&Value>) -> String {
    match cell {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.lines().next().unwrap_or_default().to_owned(),
        Some(other) => other.to_string(),
    }
}

fn layout(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let mut out = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            if column + 1 == columns {
                out.push_str(cell);
            } else {
                // Writing to a string cannot fail.
                let _ = write!(out, "{cell:<width$}", width = widths[column] + GAP);
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_laid_out_as_kubectl_does() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Free", "priority": 0},
                {"name": "Reason", "priority": 1},
            ],
            "rows": [
                {"cells": ["subnet-7bb6e3ad", 128, "Ready"]},
                {"cells": ["b", null, "ZoneExhausted"]},
            ],
        });
        assert_eq!(
            print(&table, false),
            "NAME              FREE\nsubnet-7bb6e3ad   128\nb                 \n"
        );
        assert_eq!(
            print(&table, true),
            "NAME              FREE   REASON\n\
             subnet-7bb6e3ad   128    Ready\n\
             b                        ZoneExhausted\n"
        );
    }
}
