//! What jobs of one kind are called where a deployment keeps its own to its own nodes.

/// The kind itself where there is no deployment. Made once for a process, and never freed.
pub(crate) fn of_deployment(kind: &'static str, deployment: Option<&str>) -> &'static str {
    deployment.map_or(kind, |slug| Box::leak(format!("{kind}@{slug}").into_boxed_str()))
}
