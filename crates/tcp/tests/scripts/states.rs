//! Every state and every event.
