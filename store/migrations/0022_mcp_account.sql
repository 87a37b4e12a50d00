-- Accounts of people at MCP servers, and the gateway as a client of the servers where they signed in. Tokens and secrets are
-- sealed; an account whose tokens are over has none.
CREATE TABLE mcp_account (
    -- The integration and the user, with a dot between them.
    id TEXT NOT NULL PRIMARY KEY,
    integration TEXT NOT NULL,
    user_id TEXT NOT NULL,
    org TEXT NOT NULL,
    sealed TEXT NOT NULL,
    version BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- Until then one node renews it.
    renewing_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX mcp_account_newest ON mcp_account (integration, updated_at);
CREATE INDEX mcp_account_org ON mcp_account (org);
CREATE TABLE mcp_server_client (
    -- A digest of organisation and issuer.
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT NOT NULL,
    issuer TEXT NOT NULL,
    sealed TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX mcp_server_client_org ON mcp_server_client (org, created_at);
