//! Panics are defects, whoever catches them.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// Those of this thread that nobody has taken yet. A run has its thread to itself.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the panics of this thread since the last time, in any of its tasks: of those that nobody waits
/// for nothing else would be heard, and a probe that ends by one is just started again.
pub(super) fn take() -> Vec<String> {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that is about to end has no list any more.
            let _ = PANICS.try_with(|panics| panics.borrow_mut().push(panic.to_string()));
            before(panic);
        }));
    });
    PANICS.take()
}
