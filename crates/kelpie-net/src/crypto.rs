//! The one implementation of cryptography in the process.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));

/// Makes aws-lc-rs the process's default, for libraries that make their own TLS settings. Once in
/// `main` is enough; more often does no harm. This crate itself does not need it.
pub fn install_crypto() {
    // An error means that there is a default already: the first one stays.
    let _ = provider().as_ref().clone().install_default();
}

pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}
