//! Findings as text: what, where with the lines of the file, of which object.
//!
//! Called by `causeway check`; the shape is that of rustc's messages.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use causeway_planner::admit::Weight;

use super::world::{File, Finding, Report};

/// One finding with its lines of the file.
pub fn finding(finding: &Finding, files: &[File]) -> String {
    let level = match finding.weight {
        Weight::Error => Level::ERROR,
        Weight::Warning => Level::WARNING,
        Weight::Unchecked => Level::NOTE,
    };
    let Some(file) = files.get(finding.file) else {
        return finding.message.clone();
    };
    let mut annotation = AnnotationKind::Primary.span(visible(&file.text, finding));
    if !finding.field.is_empty() {
        annotation = annotation.label(finding.field.as_str());
    }
    let snippet = Snippet::source(file.text.as_str())
        .path(file.name.as_str())
        .annotation(annotation);
    let mut group = level
        .primary_title(finding.message.as_str())
        .element(snippet);
    let object = format!("in {}", finding.object);
    if !finding.object.is_empty() {
        group = group.element(Level::NOTE.message(object));
    }
    Renderer::styled().render(&[group])
}

/// The span, at least one character wide where the line has one, and within its first line.
fn visible(text: &str, finding: &Finding) -> std::ops::Range<usize> {
    let start = finding.span.start.min(text.len());
    let end = finding.span.end.clamp(start, text.len());
    let inside = text.get(start..end).unwrap_or_default();
    let line = inside.split('\n').next().unwrap_or_default().trim_end();
    start..start + line.len()
}

/// `checked 3 files, 4 objects: 2 errors, 1 warning`.
pub fn summary(report: &Report, files: usize) -> String {
    let errors = report.count(Weight::Error);
    let warnings = report.count(Weight::Warning);
    format!(
        "checked {}, {}: {}, {}",
        counted(files, "file"),
        counted(report.objects, "object"),
        counted(errors, "error"),
        counted(warnings, "warning")
    )
}

/// `no errors`, `1 error`, `2 errors`.
pub fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
