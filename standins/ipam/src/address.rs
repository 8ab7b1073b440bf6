//! Addresses as the real provider reads them, which is Go's `netip`, with its words for what is none.
//!
//! Called for each text of a pool. Must stay true: what is read here is read there and the other way
//! round, but for IPv6 zones (`fe80::1%eth0`), which are refused here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The text is no address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("ParseAddr({text:?}): {why}{}", place(.at))]
pub(crate) struct AddressError {
    text: String,
    why: &'static str,
    /// The rest of the text, from where it is wrong.
    at: String,
}

fn place(at: &str) -> String {
    if at.is_empty() {
        return String::new();
    }
    format!(" (at {at:?})")
}

/// What is wrong, and the rest from there.
type Wrong<'a> = (&'static str, &'a str);

pub(crate) fn address(text: &str) -> Result<IpAddr, AddressError> {
    let parsed = match text.chars().find(|letter| ".:%".contains(*letter)) {
        Some('.') => v4(text).map(|bytes| Ipv4Addr::from(bytes).into()),
        Some(':') => v6(text).map(|bytes| Ipv6Addr::from(bytes).into()),
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    parsed.map_err(|(why, at)| AddressError {
        text: text.to_owned(),
        why,
        at: at.to_owned(),
    })
}

fn v4(text: &str) -> Result<[u8; 4], Wrong<'_>> {
    let mut fields = [0; 4];
    let (mut value, mut digits, mut field) = (0_u16, 0, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u16::from(text.as_bytes()[index] - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            '.' => {
                if digits == 0 || index + 1 == text.len() {
                    return Err(("IPv4 field must have at least one digit", &text[index..]));
                }
                if field == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                fields[field] = low_byte(value.into());
                (value, digits, field) = (0, 0, field + 1);
            }
            _ => return Err(("unexpected character", &text[index..])),
        }
    }
    if field < 3 {
        return Err(("IPv4 address too short", ""));
    }
    fields[3] = low_byte(value.into());
    Ok(fields)
}

fn low_byte(value: u32) -> u8 {
    value.to_be_bytes()[3]
}

fn v6(text: &str) -> Result<[u8; 16], Wrong<'_>> {
    if text.contains('%') {
        return Err(("zones are not supported", ""));
    }
    let mut rest = text;
    let mut bytes = Vec::with_capacity(16);
    // Where `::` stands.
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        (rest, gap) = (after, Some(0));
        if rest.is_empty() {
            return Ok([0; 16]);
        }
    }
    while bytes.len() < 16 {
        let (value, after) = group(rest)?;
        if after.starts_with('.') {
            if gap.is_none() && bytes.len() != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err((why, rest));
            }
            if bytes.len() > 12 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err((why, rest));
            }
            bytes.extend(v4(rest)?);
            rest = "";
            break;
        }
        bytes.extend(value.to_be_bytes());
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            (rest, gap) = (after, Some(bytes.len()));
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    filled(bytes, gap)
}

/// The hexadecimal group at the start, and what follows it.
fn group(rest: &str) -> Result<(u16, &str), Wrong<'_>> {
    let end = rest.find(|letter: char| !letter.is_ascii_hexdigit());
    let (digits, after) = rest.split_at(end.unwrap_or(rest.len()));
    if digits.len() > 4 {
        return Err(("each group must have 4 or less digits", rest));
    }
    // No digits are the only thing left that cannot be read.
    match u16::from_str_radix(digits, 16) {
        Ok(value) => Ok((value, after)),
        Err(_) => Err((
            "each colon-separated field must have at least one digit",
            rest,
        )),
    }
}

/// The gap filled with zeros.
fn filled(mut bytes: Vec<u8>, gap: Option<usize>) -> Result<[u8; 16], Wrong<'static>> {
    let missing = 16 - bytes.len();
    match gap {
        Some(_) if missing == 0 => {
            return Err(("the :: must expand to at least one field of zeros", ""));
        }
        Some(gap) => drop(bytes.splice(gap..gap, vec![0; missing])),
        None => {}
    }
    bytes
        .try_into()
        .map_err(|_| ("address string too short", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_std_reads_is_read_alike() {
        for text in [
            "10.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "1::",
            "fd00::1:0:2",
            "1:2:3:4:5:6:7:8",
            "::ffff:10.0.0.1",
            "1:2:3:4:5:6:10.0.0.1",
            "FD00::ABCD",
        ] {
            assert_eq!(address(text), Ok(text.parse().expect("std reads it")));
        }
    }

    #[test]
    fn what_is_no_address_is_told_in_gos_words() {
        for (text, words) in [
            ("", r#"ParseAddr(""): unable to parse IP"#),
            ("pool", r#"ParseAddr("pool"): unable to parse IP"#),
            ("%eth0", r#"ParseAddr("%eth0"): missing IPv6 address"#),
            ("10.0.0", r#"ParseAddr("10.0.0"): IPv4 address too short"#),
            (
                "10.0.0.1.2",
                r#"ParseAddr("10.0.0.1.2"): IPv4 address too long"#,
            ),
            (
                "10.0.0.256",
                r#"ParseAddr("10.0.0.256"): IPv4 field has value >255"#,
            ),
            (
                "10.0.0.01",
                r#"ParseAddr("10.0.0.01"): IPv4 field has octet with leading zero"#,
            ),
            (
                "10..0.1",
                r#"ParseAddr("10..0.1"): IPv4 field must have at least one digit (at ".0.1")"#,
            ),
            (
                "10.0.0.1/24",
                r#"ParseAddr("10.0.0.1/24"): unexpected character (at "/24")"#,
            ),
            (
                "fd00:::1",
                r#"ParseAddr("fd00:::1"): each colon-separated field must have at least one digit (at ":1")"#,
            ),
            (
                "fd00::1::",
                r#"ParseAddr("fd00::1::"): multiple :: in address (at ":")"#,
            ),
            ("fd00:1", r#"ParseAddr("fd00:1"): address string too short"#),
            (
                "fd00:",
                r#"ParseAddr("fd00:"): colon must be followed by more characters (at ":")"#,
            ),
            (
                "1:2:3:4:5:6:7::8",
                r#"ParseAddr("1:2:3:4:5:6:7::8"): the :: must expand to at least one field of zeros"#,
            ),
            (
                "fd000::1",
                r#"ParseAddr("fd000::1"): each group must have 4 or less digits (at "fd000::1")"#,
            ),
            (
                "1:2:3:4:5:6:7:8:9",
                r#"ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")"#,
            ),
        ] {
            let told = address(text).map_err(|error| error.to_string());
            assert_eq!(told, Err(words.to_owned()));
        }
    }
}
