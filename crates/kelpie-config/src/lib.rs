//! Configuration files of Kelpie.
