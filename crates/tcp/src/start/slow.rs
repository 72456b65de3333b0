use super::Start;

/// A sender begins with the initial window, whatever was known of its path before (RFC 5681 §3.1, §4.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart;

impl Start for SlowStart {
    fn knows_nothing(&self) -> bool {
        true
    }
}
