//! The cryptography provider of the process.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, ring};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

/// Makes ring the default provider of the process, for libraries that build their own TLS
/// configuration. Calling it once in `main` is enough, and further calls do no harm. This crate
/// does not depend on the default.
pub fn install_crypto() {
    // An error means that a default is installed already. The first one stays.
    let _ = provider().as_ref().clone().install_default();
}

pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}
