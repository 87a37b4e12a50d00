#[derive(Debug, Default)]
pub struct Snapshot {}
