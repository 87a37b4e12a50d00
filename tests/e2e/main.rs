//! The gateway from outside: its real binary between real clients and scripted upstreams.
//! One module per subject; nothing here reaches into the program.

#[cfg(test)]
#[path = "../harness/harness.rs"]
mod harness;

#[cfg(test)]
mod first_request;
