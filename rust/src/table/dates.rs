//! Parts of dates that are numbers since 1970, in the proleptic Gregorian calendar.

/// Which part of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The year.
    Year,
    /// 1 to 4.
    Quarter,
    /// 1 to 12.
    Month,
    /// Of the month, from 1 on.
    Day,
    /// Monday is 0.
    Weekday,
    /// From 1 on.
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 0 to 59.
    Minute,
    /// 0 to 59.
    Second,
}

impl Part {
    /// The part of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "day" => Self::Day,
            "weekday" => Self::Weekday,
            "dayofyear" => Self::DayOfYear,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            _ => return None,
        })
    }
}

const DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01, and those of 400 years.
const EPOCH: i64 = 719_468;
const ERA: i64 = 146_097;

/// A date as its parts; None beyond the years 1 to 9999. `per_day`: how many units a day has.
#[must_use]
pub fn parts(number: i64, per_day: i64) -> Option<Date> {
    let days = number.div_euclid(per_day);
    if !(-719_162..=2_932_896).contains(&days) {
        return None;
    }
    // Howard Hinnant, "chrono-compatible low-level date algorithms": civil_from_days.
    let shifted = days + EPOCH;
    let (era, of_era) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Some(Date { days, year, month, day, second: second_of_day(number, per_day) })
}

fn second_of_day(number: i64, per_day: i64) -> i64 {
    let within = number.rem_euclid(per_day);
    if per_day >= DAY { within / (per_day / DAY) } else { within * (DAY / per_day) }
}

/// See `parts`.
pub struct Date {
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    second: i64,
}

impl Date {
    /// One of them.
    #[must_use]
    pub const fn part(&self, part: Part) -> i64 {
        match part {
            Part::Year => self.year,
            Part::Quarter => (self.month + 2) / 3,
            Part::Month => self.month,
            Part::Day => self.day,
            Part::Weekday => (self.days + 3).rem_euclid(7),
            Part::DayOfYear => self.day_of_year(),
            Part::Hour => self.second / 3600,
            Part::Minute => self.second / 60 % 60,
            Part::Second => self.second % 60,
        }
    }

    const fn day_of_year(&self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let before = BEFORE[(self.month - 1) as usize];
        before + self.day + (is_leap && self.month > 2) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_their_parts() {
        let date = parts(951_782_399, DAY).unwrap(); // 2000-02-28 23:59:59, a Monday
        let found = [Part::Year, Part::Month, Part::Day, Part::Weekday, Part::DayOfYear, Part::Hour, Part::Second]
            .map(|part| date.part(part));
        assert_eq!(found, [2000, 2, 28, 0, 59, 23, 59]);
        assert_eq!(parts(-1, DAY).unwrap().part(Part::Year), 1969);
        assert!(parts(i64::MAX, DAY).is_none());
        assert_eq!(parts(-719_162, 1).unwrap().part(Part::Year), 1);
    }
}
