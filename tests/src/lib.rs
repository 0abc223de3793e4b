//! Harness for tests on real servers.
