//! The rules of Fencelock.
#![no_std]
