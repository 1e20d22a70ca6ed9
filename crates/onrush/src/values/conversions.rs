//! Types of the crates uuid, chrono and time as arguments and replies, behind the features of their names.
//!
//! A UUID is written as its text with hyphens, and read from any of its text forms or from its 16 bytes. A moment is
//! written as RFC 3339 says, in UTC, and read from that, or from a whole number of seconds since 1970 (as replies of
//! EXPIRETIME are). Dates and times without a zone have their ISO forms.

use crate::error::RedisResult;
use crate::values::args::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
use crate::values::from_value::FromRedisValue;
use crate::values::value::Value;

/// What the text of a reply says, if `read` can read it.
fn text<T>(value: Value, wanted: &str, read: impl FnOnce(&str) -> Option<T>) -> RedisResult<T> {
    let value = value.into_result()?;
    let text = value.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(read).ok_or_else(|| value.mismatch(wanted))
}

macro_rules! written {
    ($($kind:ty, $value:ident => $text:expr;)*) => {$(
        impl ToRedisArgs for $kind {
            fn write_redis_args<W: RedisWrite + ?Sized>(&self, out: &mut W) {
                let $value = self;
                out.write_arg($text.as_ref());
            }
        }

        impl ToSingleRedisArg for $kind {}
    )*};
}

#[cfg(feature = "uuid")]
mod with_uuid {
    use super::*;
    use uuid::Uuid;

    written! {
        Uuid, uuid => uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer());
    }

    impl FromRedisValue for Uuid {
        fn from_redis_value(value: Value) -> RedisResult<Uuid> {
            if let Some(bytes) = value.as_bytes().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
                return Ok(Uuid::from_bytes(bytes));
            }
            text(value, "UUID", |text| Uuid::try_parse(text).ok())
        }
    }
}

#[cfg(feature = "chrono")]
mod with_chrono {
    use super::*;
    use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, Utc};

    written! {
        DateTime<Utc>, moment => moment.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        NaiveDate, date => date.to_string();
        NaiveTime, time => time.to_string();
        NaiveDateTime, moment => format!("{:?}", moment);
    }

    impl FromRedisValue for DateTime<Utc> {
        fn from_redis_value(value: Value) -> RedisResult<DateTime<Utc>> {
            if let Value::Int(seconds) = value {
                return DateTime::from_timestamp(seconds, 0).ok_or_else(|| value.mismatch("moment"));
            }
            text(value, "moment (RFC 3339)", |text| {
                let seconds = || DateTime::from_timestamp(text.parse().ok()?, 0);
                DateTime::parse_from_rfc3339(text).ok().map(|moment| moment.to_utc()).or_else(seconds)
            })
        }
    }

    macro_rules! parsed {
        ($($kind:ty)*) => {$(
            impl FromRedisValue for $kind {
                fn from_redis_value(value: Value) -> RedisResult<$kind> {
                    text(value, stringify!($kind), |text| text.parse().ok())
                }
            }
        )*};
    }

    parsed!(NaiveDate NaiveTime NaiveDateTime);
}

#[cfg(feature = "time")]
mod with_time {
    use super::*;
    use time::format_description::well_known::{Iso8601, Rfc3339};
    use time::{Date, OffsetDateTime, UtcOffset};

    // Years beyond 9999 have no such form; they are written as seconds.
    written! {
        OffsetDateTime, moment => {
            let moment = moment.to_offset(UtcOffset::UTC);
            moment.format(&Rfc3339).unwrap_or_else(|_| moment.unix_timestamp().to_string())
        };
        Date, date => date.format(&Iso8601::DATE).unwrap_or_else(|_| date.to_string());
    }

    impl FromRedisValue for OffsetDateTime {
        fn from_redis_value(value: Value) -> RedisResult<OffsetDateTime> {
            if let Value::Int(seconds) = value {
                return OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| value.mismatch("moment"));
            }
            text(value, "moment (RFC 3339)", |text| {
                let seconds = || OffsetDateTime::from_unix_timestamp(text.parse().ok()?).ok();
                OffsetDateTime::parse(text, &Rfc3339).ok().or_else(seconds)
            })
        }
    }

    impl FromRedisValue for Date {
        fn from_redis_value(value: Value) -> RedisResult<Date> {
            text(value, "date", |text| Date::parse(text, &Iso8601::DATE).ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(dead_code)]
    fn check<T: ToRedisArgs + FromRedisValue + PartialEq + std::fmt::Debug>(value: T, text: &str) {
        assert_eq!(value.to_redis_args(), [text.as_bytes()]);
        assert_eq!(T::from_redis_value(Value::BulkString(text.into())).as_ref(), Ok(&value), "{text}");
        assert!(T::from_redis_value(Value::BulkString(b"neither".to_vec())).is_err());
        assert!(T::from_redis_value(Value::Nil).is_err());
    }

    #[cfg(feature = "uuid")]
    #[test]
    fn uuids_are_read_as_they_are_written() {
        let uuid = uuid::Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        check(uuid, "01234567-89ab-cdef-0123-456789abcdef");
        let forms: [&[u8]; 3] =
            [b"0123456789ABCDEF0123456789abcdef", b"{01234567-89ab-cdef-0123-456789abcdef}", uuid.as_bytes()];
        for form in forms {
            assert_eq!(uuid::Uuid::from_redis_value(Value::BulkString(form.to_vec())), Ok(uuid));
        }
    }

    #[cfg(feature = "chrono")]
    #[test]
    fn chronos_moments_are_read_as_they_are_written() {
        use chrono::{DateTime, NaiveDate};
        let moment = DateTime::from_timestamp(1_700_000_000, 5_000_000).unwrap();
        check(moment, "2023-11-14T22:13:20.005Z");
        check(NaiveDate::from_ymd_opt(2024, 2, 29).unwrap(), "2024-02-29");
        check(moment.time(), "22:13:20.005");
        check(moment.naive_utc(), "2023-11-14T22:13:20.005");
        let whole = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        assert_eq!(DateTime::from_redis_value(Value::Int(1_700_000_000)), Ok(whole));
        assert_eq!(DateTime::from_redis_value(Value::BulkString(b"2023-11-14T23:13:20+01:00".to_vec())), Ok(whole));
        assert!(DateTime::from_redis_value(Value::Int(i64::MAX)).is_err());
    }

    #[cfg(feature = "time")]
    #[test]
    fn times_moments_are_read_as_they_are_written() {
        use time::OffsetDateTime;
        let moment = OffsetDateTime::from_unix_timestamp_nanos(1_700_000_000_005_000_000).unwrap();
        check(moment, "2023-11-14T22:13:20.005Z");
        check(moment.date(), "2023-11-14");
        let whole = OffsetDateTime::from_unix_timestamp(1_700_000_000).unwrap();
        assert_eq!(OffsetDateTime::from_redis_value(Value::Int(1_700_000_000)), Ok(whole));
        assert!(OffsetDateTime::from_redis_value(Value::Int(i64::MAX)).is_err());
    }
}
