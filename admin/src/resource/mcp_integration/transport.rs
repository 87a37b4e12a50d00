//! How a server is reached: over HTTP in two ways, or as a program of the machine. Programs are named in the operator's
//! settings; an admin picks one by its name, and nothing that an admin says becomes a command.

use crate::input::Edit;
use crate::problem::{Problem, bad};
use crate::resource::outbound;
use crate::route::AdminCall;
use gateway_domain::resource::mcp::{McpIntegration, McpTransport, program_of};
use gateway_domain::resource::outbound::OutboundAuth;

pub(super) fn read(kind: &str) -> Result<McpTransport, Problem> {
    match kind {
        "http" => Ok(McpTransport::Http),
        "sse" => Ok(McpTransport::Sse),
        "stdio" => Ok(McpTransport::Stdio),
        _ => Err(bad("transport", "must be one of http, sse, stdio")),
    }
}

/// The address by the rules of the transport.
pub(super) fn check_url(transport: McpTransport, url: &str, call: &AdminCall) -> Result<(), Problem> {
    match (transport, program_of(url)) {
        (McpTransport::Stdio, Some(name)) => {
            if call.app.mcp_programs.contains(name) {
                Ok(())
            } else {
                Err(bad("url", "names no program of the settings ([[mcp.stdio]])"))
            }
        }
        (McpTransport::Stdio, None) => Err(bad("url", "must be stdio:<name of a program of the settings>")),
        (McpTransport::Http | McpTransport::Sse, Some(_)) => {
            Err(bad("url", "names a program, which belongs to transport stdio"))
        }
        (McpTransport::Http | McpTransport::Sse, None) => outbound::check_url("url", url, call),
    }
}

/// What a change says of both, which must fit each other afterwards.
pub(super) fn change(
    doc: &mut McpIntegration,
    (transport, url): (Edit<String>, Edit<String>),
    call: &AdminCall,
) -> Result<(), Problem> {
    let transport = transport.required("transport")?.map(|kind| read(&kind)).transpose()?;
    let url = url.required("url")?;
    if transport.is_none() && url.is_none() {
        return Ok(());
    }
    let (transport, url) = (transport.unwrap_or(doc.transport), url.unwrap_or_else(|| doc.outbound.url.clone()));
    check_url(transport, &url, call)?;
    (doc.transport, doc.outbound.url) = (transport, url);
    Ok(())
}

/// A program hears nothing but messages: there is no head that could say as whom it is called.
pub(super) fn check_program(doc: &McpIntegration) -> Result<(), Problem> {
    if doc.transport != McpTransport::Stdio {
        return Ok(());
    }
    let outbound = &doc.outbound;
    if outbound.auth_type != OutboundAuth::None {
        return Err(bad(
            "auth_type",
            "must be none where transport is stdio: a program gets its secrets from the settings",
        ));
    }
    if outbound.identity.is_some() {
        return Err(bad("configurations.user_identity_forwarding", "is sent in headers, of which stdio has none"));
    }
    if !outbound.secret_mappings.is_empty() {
        return Err(bad("secret_mappings", "fill headers, of which stdio has none"));
    }
    Ok(())
}
