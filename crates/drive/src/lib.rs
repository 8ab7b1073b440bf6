//! The scheduler that controllers and stand-ins share: ordered wake set, backoff, apply
