//! `shorthaul demo`: real kernel TCP across three bad paths, direct and through the gateway.
mod figures;
mod outcome;
mod plan;
mod sentence;
mod show;
