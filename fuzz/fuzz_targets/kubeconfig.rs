//! Parses arbitrary bytes as the kubeconfig of a tenant. Errors do not quote the bytes.
#![no_main]

use kelpie_kube::kubeconfig::TenantConfig;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = TenantConfig::from_kubeconfig(bytes) {
        assert!(error.to_string().starts_with("the kubeconfig"));
    }
});
