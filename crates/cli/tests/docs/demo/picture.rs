//! A terminal's text as an SVG: plain text in the reader's own monospace font, no scripts, no
//! fonts from elsewhere.
//!
//! Must stay true: each column of a line is placed by its own position, so that signs which a font
//! lacks (→, ✗) cannot shift what stands behind them.

use std::fmt::Write;

/// Columns of the window; longer lines are wrapped at a space.
const COLUMNS: usize = 108;
/// Width of ten characters of the font, in pixels.
const TEN_WIDE: usize = 78;
/// Of a line, in pixels.
const HEIGHT: usize = 18;
const MARGIN: usize = 16;
/// Height of the window's title bar.
const BAR: usize = 28;

const TEXT: &str = "#d7dce2";
const DIM: &str = "#8b949e";
const GOOD: &str = "#56d364";
const STRONG: &str = "#ffffff";

/// The picture of this text.
pub fn draw(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with('…') && !line.starts_with("building "))
        .flat_map(wrap)
        .collect();
    let width = x(COLUMNS) + MARGIN;
    let height = BAR + lines.len() * HEIGHT + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-size=\"13\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n\
         <circle cx=\"18\" cy=\"14\" r=\"5\" fill=\"#ff5f57\"/>\
         <circle cx=\"36\" cy=\"14\" r=\"5\" fill=\"#febc2e\"/>\
         <circle cx=\"54\" cy=\"14\" r=\"5\" fill=\"#28c840\"/>\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = BAR + (number + 1) * HEIGHT;
        for (column, part) in parts(line) {
            let at = x(column);
            let colour = colour(line, part);
            let weight = if colour == STRONG {
                " font-weight=\"bold\""
            } else {
                ""
            };
            let part = part.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(
                svg,
                "<text x=\"{at}\" y=\"{y}\" fill=\"{colour}\"{weight}>{part}</text>"
            )
            .expect("a string takes everything");
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where a column begins.
fn x(column: usize) -> usize {
    MARGIN + column * TEN_WIDE / 10
}

fn wrap(line: &str) -> Vec<String> {
    let mut lines = vec![line.to_owned()];
    while let Some(last) = lines.last().filter(|last| last.chars().count() > COLUMNS) {
        let cut: String = last.chars().take(COLUMNS).collect();
        let Some((kept, _)) = cut.rsplit_once(' ') else {
            break;
        };
        let (kept, rest) = (kept.to_owned(), last[kept.len() + 1..].to_owned());
        lines.pop();
        lines.extend([kept, rest]);
    }
    lines
}

/// The runs of a line that two spaces or more divide, each with its column.
fn parts(line: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    for part in line.split("  ") {
        let text = part.trim_start();
        if !text.is_empty() {
            let before = &line[..start + part.len() - text.len()];
            parts.push((before.chars().count(), text.trim_end()));
        }
        start += part.len() + 2;
    }
    parts
}

fn colour(line: &str, part: &str) -> &'static str {
    let is_check = line.starts_with("  ok ");
    if line.starts_with("$ ") || line.starts_with("demo: ") || line.starts_with("NAME ") {
        STRONG
    } else if is_check && part == "ok" {
        GOOD
    } else if is_check && part.contains(" sent, ") {
        DIM
    } else {
        TEXT
    }
}

#[test]
fn columns_are_found_and_long_lines_wrapped_at_spaces() {
    let line = "  ok   VM w1 → it      3 sent";
    assert_eq!(parts(line), [(2, "ok"), (7, "VM w1 → it"), (23, "3 sent")]);
    let wrapped = wrap(&"abcd ".repeat(30));
    assert_eq!(wrapped.len(), 2);
    assert!(wrapped.iter().all(|line| line.chars().count() <= COLUMNS));
    assert!(draw("a < b & c").contains("a &lt; b &amp; c"));
}
