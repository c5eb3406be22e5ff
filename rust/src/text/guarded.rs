//! A library that panics where it should answer: its words do not go to the standard error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What `work` makes.
///
/// # Errors
/// In words, what it stumbled over.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                usual(panic);
            }
        }));
    });
    let before = IS_GUARDED.replace(true);
    let made = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(before);
    made.unwrap_or_else(|_| Err("the tokenizer's library failed at it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| Ok(1)), Ok(1));
        assert_eq!(
            guarded::<()>(|| panic!("nobody reads this")),
            Err("the tokenizer's library failed at it".to_owned())
        );
        assert!(!IS_GUARDED.get());
    }
}
