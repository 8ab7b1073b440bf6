//! Ages as people read them.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// An age in one or two units, as `k8s.io/apimachinery/pkg/util/duration.HumanDuration`.
pub(super) fn human(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    // Clocks differ a little: the future's first second is now.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let pair = |high: i64, high_unit: char, low: i64, low_unit: char| {
        if low == 0 {
            format!("{high}{high_unit}")
        } else {
            format!("{high}{high_unit}{low}{low_unit}")
        }
    };
    if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if seconds < 10 * MINUTE {
        pair(seconds / MINUTE, 'm', seconds % MINUTE, 's')
    } else if seconds < 3 * HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < 8 * HOUR {
        pair(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm')
    } else if seconds < 2 * DAY {
        format!("{}h", seconds / HOUR)
    } else if seconds < 8 * DAY {
        pair(seconds / DAY, 'd', seconds % DAY / HOUR, 'h')
    } else if seconds < 2 * YEAR {
        format!("{}d", seconds / DAY)
    } else if seconds < 8 * YEAR {
        pair(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd')
    } else {
        format!("{}y", seconds / YEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR, "9y"),
            (-1, "0s"),
            (-5, "<invalid>"),
        ];
        for (seconds, want) in cases {
            assert_eq!(
                human(SignedDuration::from_secs(seconds)),
                want,
                "{seconds} s"
            );
        }
    }
}
