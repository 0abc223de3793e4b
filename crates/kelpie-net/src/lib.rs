//! Bounded HTTP over TLS: the one product crate that names hyper and rustls.
