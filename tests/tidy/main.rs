//! House rules as tests: they read the source, and know nothing of what it does.

#[cfg(test)]
mod allowed;
#[cfg(test)]
mod circles;
#[cfg(test)]
mod comments;
#[cfg(test)]
mod floors;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod lengths;
#[cfg(test)]
mod names;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod rooms;
#[cfg(test)]
mod source;
