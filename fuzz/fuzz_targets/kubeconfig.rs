//! Any bytes as a tenant's kubeconfig. What is refused is refused with words, and without the bytes.
#![no_main]

use kelpie_kube::kubeconfig::Access;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Access::from_kubeconfig(bytes) {
        assert!(error.to_string().starts_with("the kubeconfig"));
    }
});
