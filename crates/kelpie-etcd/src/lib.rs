//! KEP-4331 health for a real etcd member.
