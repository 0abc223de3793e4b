//! The client of a third language: Python's `kubernetes`.
