//! Links seen from outside: what is delivered, and when.

mod models;
mod properties;
mod spec;
mod timing;
