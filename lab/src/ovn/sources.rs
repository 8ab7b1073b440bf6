//! Which Debian mirror this machine uses, read from its own apt sources.
//!
//! Called when OVN has to be downloaded. No mirror is known to the lab itself: what the machine's
//! administrator chose is used, proxies and local mirrors included.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Suites under which an archive holds Debian itself; security and backports archives have others.
const SUITES: [&str; 8] = [
    "stable",
    "testing",
    "oldstable",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
];

/// A Debian archive as the machine names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Archive {
    pub(super) uri: String,
    /// The keyring's path, if the source names one by path.
    pub(super) signed_by: Option<PathBuf>,
}

/// The first Debian archive in `/etc/apt`, the most likely ones first.
pub(super) fn debian_archive(etc_apt: &Path) -> io::Result<Option<Archive>> {
    let mut archives = Vec::new();
    for path in source_files(etc_apt)? {
        let text = fs::read_to_string(&path)?;
        let deb822 = path.extension().is_some_and(|ext| ext == "sources");
        archives.extend(if deb822 {
            from_stanzas(&text)
        } else {
            from_lines(&text)
        });
    }
    // Third parties use Debian's suite names too; Debian's mirrors end in /debian by custom.
    let custom = |archive: &Archive| archive.uri.trim_end_matches('/').ends_with("/debian");
    Ok(archives
        .iter()
        .find(|archive| custom(archive))
        .or(archives.first())
        .cloned())
}

fn source_files(etc_apt: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let parts = etc_apt.join("sources.list.d");
    if parts.is_dir() {
        for entry in fs::read_dir(parts)? {
            files.push(entry?.path());
        }
    }
    files.retain(|path| {
        path.extension()
            .is_some_and(|ext| ext == "sources" || ext == "list")
    });
    files.sort();
    let list = etc_apt.join("sources.list");
    if list.is_file() {
        files.insert(0, list);
    }
    Ok(files)
}

fn from_stanzas(text: &str) -> Vec<Archive> {
    let mut archives = Vec::new();
    for stanza in text.split("\n\n") {
        let fields = fields(stanza);
        let words = |key: &str| {
            let value = fields.get(key).map_or("", String::as_str);
            value.split_whitespace().collect::<Vec<_>>()
        };
        let off = fields.get("enabled").is_some_and(|value| value == "no");
        if off
            || !words("types").contains(&"deb")
            || !is_debian(&words("suites"), &words("components"))
        {
            continue;
        }
        archives.extend(words("uris").into_iter().map(|uri| Archive {
            uri: uri.to_owned(),
            signed_by: fields.get("signed-by").and_then(|value| keyring(value)),
        }));
    }
    archives
}

/// The fields of a deb822 stanza by lower-case name, folded lines joined, comments left out.
fn fields(stanza: &str) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    for line in stanza.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            if let Some(value) = fields.get_mut(&last) {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            last = name.trim().to_lowercase();
            fields.insert(last.clone(), value.trim().to_owned());
        }
    }
    fields
}

/// `deb [signed-by=/a arch=b] URI SUITE COMPONENT…`
fn from_lines(text: &str) -> Vec<Archive> {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("deb")?;
            let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => ("", rest),
            };
            let rest = rest.split('#').next()?;
            let mut words = rest.split_whitespace();
            let (uri, suite) = (words.next()?, words.next()?);
            let components: Vec<_> = words.collect();
            is_debian(&[suite], &components).then(|| Archive {
                uri: uri.to_owned(),
                signed_by: options
                    .split_whitespace()
                    .find_map(|option| option.strip_prefix("signed-by="))
                    .and_then(keyring),
            })
        })
        .collect()
}

fn is_debian(suites: &[&str], components: &[&str]) -> bool {
    components.contains(&"main") && suites.iter().any(|suite| SUITES.contains(suite))
}

/// A keyring by path; a key written into the source itself is not used.
fn keyring(value: &str) -> Option<PathBuf> {
    let first = value.split([',', ' ']).next()?;
    first.starts_with('/').then(|| PathBuf::from(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(uri: &str, signed_by: Option<&str>) -> Archive {
        Archive {
            uri: uri.to_owned(),
            signed_by: signed_by.map(PathBuf::from),
        }
    }

    #[test]
    fn a_stanza_with_comments_and_folded_lines_is_read() {
        let text = "Types: deb\n# http://old.test/debian\nURIs: http://mirror.test/debian\n \
                    http://second.test/debian\nSuites: bookworm bookworm-updates\n\
                    Components: main\nSigned-By: /keys/a.gpg\n\nTypes: deb\n\
                    URIs: http://mirror.test/debian-security\nSuites: bookworm-security\n\
                    Components: main\n";
        assert_eq!(
            from_stanzas(text),
            [
                archive("http://mirror.test/debian", Some("/keys/a.gpg")),
                archive("http://second.test/debian", Some("/keys/a.gpg")),
            ]
        );
    }

    #[test]
    fn a_disabled_stanza_and_one_of_sources_only_are_passed_over() {
        let rest = "URIs: http://mirror.test/debian\nSuites: trixie\nComponents: main\n";
        assert_eq!(
            from_stanzas(&format!("Types: deb\nEnabled: no\n{rest}")),
            []
        );
        assert_eq!(from_stanzas(&format!("Types: deb-src\n{rest}")), []);
    }

    #[test]
    fn one_line_sources_are_read_with_and_without_options() {
        let text = "# deb http://off.test/debian trixie main\n\
                    deb-src http://src.test/debian trixie main\n\
                    deb [arch=amd64 signed-by=/keys/b.gpg] http://a.test/debian trixie main # a\n\
                    deb\thttp://b.test/mirror/ stable contrib main\n\
                    deb http://third.test/apt nodistro main\n";
        assert_eq!(
            from_lines(text),
            [
                archive("http://a.test/debian", Some("/keys/b.gpg")),
                archive("http://b.test/mirror/", None),
            ]
        );
    }
}
