//! What a session does, told through the public functions of the crate: decide, apply, ask what is owed.

mod bounds;
mod cases;
mod phases;
mod properties;
mod strict;
mod told;
mod unknown;
mod who;
mod work;
mod world;
