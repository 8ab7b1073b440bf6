//! Links between pages, and into the repository.

use crate::{pages, root};

#[test]
fn every_link_leads_to_a_file() {
    let mut followed = 0;
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        let at = root().join(&path);
        let folder = at.parent().expect("a page is in a folder");
        for rest in page.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                at.clone()
            } else {
                folder.join(file)
            };
            if !file.exists() {
                wrong.push(format!("{path}: {target}"));
            } else if !heading.is_empty() && !has_heading(&file, heading) {
                wrong.push(format!("{path}: {target}: no such heading"));
            }
            followed += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 10, "links have been found: {followed}");
}

/// Whether a page has a heading with this anchor.
fn has_heading(page: &std::path::Path, anchor: &str) -> bool {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .replace(' ', "-")
        })
        .any(|heading| heading == anchor)
}

#[test]
fn decisions_are_numbered_without_gaps() {
    let mut number = 0;
    for (path, page) in pages() {
        let Some(name) = path.strip_prefix("docs/decisions/") else {
            continue;
        };
        number += 1;
        assert!(name.starts_with(&format!("{number:04}-")), "{name}");
        assert!(page.starts_with(&format!("# {number}. ")), "{name}");
        for part in ["**Context.**", "**Choice.**", "**Why.**"] {
            assert!(page.contains(part), "{name} has no {part}");
        }
    }
    assert!(number > 0);
}
