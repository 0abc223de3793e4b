//! Panics during a run count as violations, even if they are caught.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// The panics of this thread that have not been taken yet. A run has a thread to itself.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the panics of all tasks of this thread since the last call. Panics of detached tasks would
/// be lost otherwise, and a probe that panics is just restarted.
pub(crate) fn take() -> Vec<String> {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that is exiting has no list any more.
            let _ = PANICS.try_with(|panics| panics.borrow_mut().push(panic.to_string()));
            previous(panic);
        }));
    });
    PANICS.take()
}
