//! Compile-time assertions of the ABI.
