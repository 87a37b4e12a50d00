//! Who may call what: every route of the table by every kind of actor, and what belongs to others.

use crate::harness::{ADMIN, Answer, DATA_SERVICE, House, text};
use gateway_admin::{RouteInfo, routes};
use gateway_domain::PolicyId;
use gateway_domain::ports::Holder;
use http::Method;
use serde_json::{Value, json};

/// Routes whose scopes no Admin key holds.
pub(crate) fn is_of_workspaces(path: &str) -> bool {
    path.ends_with("/invoke")
        || path.contains("/feedback")
        || path.ends_with("/logs")
        || path.ends_with("/tokenize")
        || path.contains("/batches/")
}

/// What is the same to all organisations.
pub(crate) fn is_everybodys(path: &str) -> bool {
    ["/scim/ResourceTypes/{id}", "/scim/Schemas/{id}"].contains(&path)
}

/// Things of the default workspace, by the name of their list.
pub(crate) struct Things {
    pub(crate) config: String,
    pub(crate) integration: String,
    pub(crate) provider: String,
    pub(crate) key: String,
    pub(crate) guardrail: String,
    pub(crate) plugin: String,
    pub(crate) secret_reference: String,
    pub(crate) deployment: String,
    pub(crate) oauth_client: String,
    pub(crate) alert: String,
    pub(crate) mcp_integration: String,
    pub(crate) mcp_server: String,
    pub(crate) agent_integration: String,
    pub(crate) agent_server: String,
    pub(crate) policy: String,
    pub(crate) usage_policy: String,
    pub(crate) workspace: String,
    pub(crate) user: String,
    pub(crate) invite: String,
    pub(crate) prompt: String,
    pub(crate) partial: String,
    pub(crate) collection: String,
    pub(crate) label: String,
    pub(crate) directory_user: String,
    pub(crate) directory_group: String,
    pub(crate) mapping: String,
    pub(crate) organisation: String,
}

impl Things {
    pub(crate) async fn of(house: &House, key: &str, tag: &str) -> Self {
        let post = |path: &'static str, body: Value| async move { house.with(key).post(path, body).await.expect(200) };
        let slug = |v: Value| text(&v["slug"]);
        let integration = json!({"name": tag, "slug": tag, "ai_provider_id": "openai", "key": "k"});
        let integration = slug(post("/integrations", integration).await);
        let provider = json!({"name": "p", "slug": format!("{tag}-p"), "integration_id": tag});
        let provider = slug(post("/providers", provider).await);
        let config = slug(post("/configs", json!({"name": "c", "config": {"provider": "openai"}})).await);
        let check = json!({"id": "contains", "parameters": {"words": ["x"]}});
        let guardrail = slug(post("/guardrails", json!({"name": "g", "checks": [check]})).await);
        let made = post("/api-keys/workspace/service", json!({"name": "k", "scopes": ["configs.list"]})).await;
        let policy =
            json!({"type": "requests", "unit": "rpm", "value": 1, "conditions": [{"key": "api_key", "value": "*"}]});
        let policy = text(&post("/policies/rate-limits", policy).await["id"]);
        let usage = json!({"type": "cost", "credit_limit": 1, "conditions": [{"key": "api_key", "value": "*"}]});
        let usage_policy = text(&post("/policies/usage-limits", usage).await["id"]);
        let holder = Holder::Policy(PolicyId(usage_policy.parse().expect("an id")));
        house.counters.put(holder, "", 1, false);
        let workspace = if key == ADMIN {
            let made = house.as_admin().post("/admin/workspaces", json!({"name": format!("of {tag}")})).await;
            text(&made.expect(200)["id"])
        } else {
            house.default_workspace().to_string()
        };
        let seat = json!([{"id": workspace, "role": "member"}]);
        let (user, _) = house.user(&format!("{tag}@example.com"), "member", seat, None).await;
        let invite = json!({"email": format!("{tag}@example.org"), "role": "member", "workspaces": []});
        let invite = text(&house.as_admin().post("/admin/users/invites", invite).await.expect(200)["id"]);
        let prompt = slug(post("/prompts", json!({"name": "p", "string": "Hi", "parameters": {}})).await);
        let partial = slug(post("/prompts/partials", json!({"name": "p", "string": "Hi"})).await);
        let collection = slug(post("/collections", json!({"name": "c"})).await);
        let label = text(&post("/labels", json!({"name": tag})).await["id"]);
        let alert = json!({"name": tag, "type": "spend", "threshold": 5,
            "channels": [{"type": "webhook", "url": "https://hooks.example.com/x"}]});
        let alert = slug(post("/alerts", alert).await);
        let core = "urn:ietf:params:scim:schemas:core:2.0";
        let ask = |path: &'static str, body: Value| async move {
            text(&house.as_admin().post(path, body).await.json()["id"])
        };
        let body = json!({"schemas": [format!("{core}:User")], "userName": format!("{tag}@example.info")});
        let directory_user = ask("/scim/Users", body).await;
        let directory_group =
            ask("/scim/Groups", json!({"schemas": [format!("{core}:Group")], "displayName": tag})).await;
        let body = json!({"workspace_id": "default", "scim_group_id": directory_group, "role": "member"});
        let mapping = ask("/scim/workspaces", body).await;
        let sign_on = json!({"issuer": "https://login.example.com", "client_id": "c"});
        house.as_admin().put("/admin/organisation/sign-on", sign_on).await.expect(200);
        let body = json!({"name": tag, "slug": format!("{tag}-sec"), "manager_type": "hashicorp_vault", "secret_path": "a",
            "auth_config": {"vault_auth_type": "token", "vault_addr": "https://vault.example.com", "vault_token": "t"}});
        let secret_reference = text(&house.as_admin().post("/secret-references", body).await.expect(200)["slug"]);
        let body = json!({"name": tag, "slug": format!("{tag}-dep"), "type": "production"});
        let deployment = text(&house.as_admin().post("/deployments", body).await.expect(200)["slug"]);
        let body = json!({"name": tag, "slug": format!("{tag}-app"), "type": "public", "redirect_uris": ["app://cb"]});
        let oauth_client = text(&house.as_admin().post("/oauth-clients", body).await.expect(200)["slug"]);
        let organisation = json!({"name": format!("of {tag}")});
        let organisation = house.as_admin().post("/admin/organisations", organisation).await.expect(200);
        let organisation = text(&organisation["id"]);
        let (plugin, key) = (plugin(house).await, text(&made["id"]));
        let body = json!({"name": tag, "slug": format!("{tag}-int"), "url": "https://mcp.example.com/", "auth_type": "none",
            "transport": "http"});
        let mcp_integration = slug(post("/mcp-integrations", body).await);
        let body = json!({"name": tag, "slug": format!("{tag}-srv"), "mcp_integration_id": mcp_integration});
        let mcp_server = slug(post("/mcp-servers", body).await);
        let body = json!({"name": tag, "slug": format!("{tag}-agi"), "url": "https://agent.example.com/",
            "auth_type": "none"});
        let agent_integration = slug(post("/agent-integrations", body).await);
        let body = json!({"name": tag, "slug": format!("{tag}-agt"), "agent_integration_id": agent_integration});
        let agent_server = slug(post("/agent-servers", body).await);
        // Each of these was something else before.
        for (at, id) in [
            ("/integrations", &integration),
            ("/api-keys", &key),
            ("/policies/rate-limits", &policy),
            ("/policies/usage-limits", &usage_policy),
        ] {
            house.as_admin().put(&format!("{at}/{id}"), json!({"description": "changed"})).await.expect(200);
        }
        Self {
            config,
            integration,
            provider,
            key,
            guardrail,
            plugin,
            secret_reference,
            deployment,
            oauth_client,
            alert,
            mcp_integration,
            mcp_server,
            agent_integration,
            agent_server,
            policy,
            usage_policy,
            workspace,
            user,
            invite,
            prompt,
            partial,
            collection,
            label,
            directory_user,
            directory_group,
            mapping,
            organisation,
        }
    }

    /// Names and ids that nothing has.
    pub(crate) fn none() -> Self {
        Self {
            config: "pc-none".into(),
            guardrail: "pg-none".into(),
            plugin: "none".into(),
            secret_reference: "none".into(),
            deployment: "none".into(),
            oauth_client: "none".into(),
            alert: "none".into(),
            mcp_integration: "none".into(),
            mcp_server: "none".into(),
            agent_integration: "none".into(),
            agent_server: "none".into(),
            integration: "none".into(),
            provider: "none".into(),
            key: "0194f1f2-0000-7000-8000-000000000001".into(),
            policy: "0194f1f2-0000-7000-8000-000000000002".into(),
            usage_policy: "0194f1f2-0000-7000-8000-000000000002".into(),
            workspace: "0194f1f2-0000-7000-8000-000000000003".into(),
            user: "0194f1f2-0000-7000-8000-000000000004".into(),
            invite: "0194f1f2-0000-7000-8000-000000000005".into(),
            prompt: "pp-none".into(),
            partial: "pl-none".into(),
            collection: "col-none".into(),
            label: "0194f1f2-0000-7000-8000-000000000006".into(),
            directory_user: "0194f1f2-0000-7000-8000-000000000007".into(),
            directory_group: "0194f1f2-0000-7000-8000-000000000008".into(),
            mapping: "0194f1f2-0000-7000-8000-000000000009".into(),
            organisation: "0194f1f2-0000-7000-8000-00000000000a".into(),
        }
    }

    /// The ids and slugs by which these things would be known again in an answer.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = [
            &self.config,
            &self.guardrail,
            &self.key,
            &self.policy,
            &self.usage_policy,
            &self.workspace,
            &self.user,
            &self.invite,
            &self.prompt,
            &self.partial,
            &self.collection,
            &self.label,
            &self.directory_user,
            &self.directory_group,
            &self.mapping,
            &self.organisation,
            &self.alert,
            &self.integration,
            &self.provider,
            &self.secret_reference,
            &self.deployment,
            &self.oauth_client,
            &self.mcp_integration,
            &self.mcp_server,
            &self.agent_integration,
            &self.agent_server,
        ];
        all.into_iter().cloned().collect()
    }

    /// The route's path with its variables filled in.
    pub(crate) fn fill(&self, path: &str) -> String {
        let id = match path.split('/').nth(1) {
            Some("configs") => self.config.as_str(),
            Some("integrations") => self.integration.as_str(),
            Some("providers" | "virtual-keys") => self.provider.as_str(),
            Some("api-keys") => self.key.as_str(),
            Some("guardrails") => self.guardrail.as_str(),
            Some("plugins") => self.plugin.as_str(),
            Some("secret-references") => self.secret_reference.as_str(),
            Some("deployments") => self.deployment.as_str(),
            Some("oauth-clients") => self.oauth_client.as_str(),
            Some("alerts") => self.alert.as_str(),
            Some("prompts") if path.starts_with("/prompts/partials") => self.partial.as_str(),
            Some("prompts") => self.prompt.as_str(),
            Some("collections") => self.collection.as_str(),
            Some("labels") => self.label.as_str(),
            Some("scim") if path.starts_with("/scim/Users") => self.directory_user.as_str(),
            Some("scim") if path.starts_with("/scim/Groups") => self.directory_group.as_str(),
            Some("scim") if path.starts_with("/scim/workspaces") => self.mapping.as_str(),
            Some("scim") if path.starts_with("/scim/ResourceTypes") => "User",
            Some("scim") => "urn:ietf:params:scim:schemas:core:2.0:User",
            Some("mcp-integrations") => self.mcp_integration.as_str(),
            Some("mcp-servers") => self.mcp_server.as_str(),
            Some("agent-integrations") => self.agent_integration.as_str(),
            Some("agent-servers") => self.agent_server.as_str(),
            Some("policies") if path.starts_with("/policies/usage") => self.usage_policy.as_str(),
            Some("policies") => self.policy.as_str(),
            Some("workspaces") => self.workspace.as_str(),
            Some("admin") if path.starts_with("/admin/organisations") => self.organisation.as_str(),
            Some("admin") if path.starts_with("/admin/workspaces") => self.workspace.as_str(),
            Some("admin") if path.starts_with("/admin/users/invites") => self.invite.as_str(),
            Some("admin") => self.user.as_str(),
            _ => "0194f1f2-0000-7000-8000-000000000000",
        };
        path.replace("{id}", id)
            .replace("{user_id}", &self.user)
            .replace("{group_by}", "users")
            .replace("{key}", "team")
            .replace("{entity}", "e0")
            .replace("{version}", "1")
            .replace("{type}", "workspace")
            .replace("{sub_type}", "service")
    }
}

/// Adds a plugin of a partner that has no credentials yet, and returns its slug.
async fn plugin(house: &House) -> String {
    for partner in ["mistral", "patronus", "pillar", "qualifire", "sydelabs", "walledai", "zscaler"] {
        let body = json!({"partner": partner, "credentials": {"apiKey": "k"}});
        let made = house.as_admin().post("/plugins", body).await;
        if made.status != 409 {
            return text(&made.expect(200)["slug"]);
        }
    }
    panic!("no partner is left")
}

/// Empty bodies are enough: who may go on is told what is missing, or nothing changes.
pub(crate) async fn call(house: &House, key: Option<&str>, route: &RouteInfo, things: &Things) -> Answer {
    let asker = key.map_or_else(|| house.nobody(), |k| house.with(k));
    let body = matches!(route.method, Method::POST | Method::PUT).then(|| json!({}));
    asker.ask(route.method.clone(), &things.fill(route.path), body).await
}

pub(crate) async fn scopes_of(house: &House, key: &str) -> Vec<String> {
    let own = house.with(key).get("/v2/api-keys/self/details").await.expect(200);
    own["scopes"].as_array().expect("a list").iter().map(text).collect()
}

pub(crate) fn opens(route: &RouteInfo, scopes: &[String]) -> bool {
    route.scopes.is_empty() || route.scopes.iter().any(|s| scopes.iter().any(|own| own == s))
}

pub(crate) fn guarded() -> Vec<RouteInfo> {
    let mut all = routes();
    all.retain(|r| !r.public);
    // What deletes comes last, the innermost first, so that the rest still finds its things.
    all.sort_by_key(|r| (r.method == Method::DELETE, std::cmp::Reverse(r.path.len())));
    assert!(all.len() >= 60, "the table is walked whole");
    all
}

#[tokio::test]
async fn every_route_asks_for_a_key_and_its_scope() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "matrix").await;
    for route in guarded() {
        call(&house, None, &route, &things).await.refused(401, "AB05");
        call(&house, Some("gw_svc_unknown"), &route, &things).await.refused(401, "AB05");
        let bare = house.key("workspace/service", json!({"scopes": []})).await.1;
        let answer = call(&house, Some(&bare), &route, &things).await;
        if route.scopes.is_empty() {
            answer.expect(200);
            continue;
        }
        let said = answer.refused(403, "AB03");
        assert!(said.contains(route.scopes[0]), "{} {}: {said}", route.method, route.path);
    }
}

#[tokio::test]
async fn one_scope_opens_its_routes_and_no_other() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "matrix").await;
    let all = guarded();
    let mut scopes: Vec<&str> = all.iter().flat_map(|r| r.scopes.clone()).collect();
    scopes.sort_unstable();
    scopes.dedup();
    for scope in scopes {
        let body = json!({"name": "k", "scopes": [scope]});
        let made = house.as_admin().post("/api-keys/workspace/service", body).await;
        let admins_only = made.status == 400;
        let key = if admins_only {
            house.key("organisation/service", json!({"scopes": [scope]})).await.1
        } else {
            text(&made.expect(200)["key"])
        };
        for route in all.iter().filter(|r| !r.scopes.is_empty()) {
            let answer = call(&house, Some(&key), route, &things).await;
            let opens = route.scopes.contains(&scope);
            let let_in = answer.status != 401 && !(answer.status == 403 && answer.text.contains("lacks the scope"));
            // Whoever tells of calls must be one who may make them.
            let needs_both = route.method == Method::POST && route.path == "/logs";
            // A handler may ask for the one scope of a row's own kind after the gate.
            assert!(
                let_in || !opens || needs_both || route.scopes.len() > 1,
                "{scope} on {} {}: {}",
                route.method,
                route.path,
                answer.text
            );
            assert!(opens || !let_in, "{scope} on {} {}: {}", route.method, route.path, answer.text);
        }
    }
}

#[tokio::test]
async fn the_token_of_the_data_service_lists_configs_and_does_nothing_else() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "service").await;
    let listed = house.with(DATA_SERVICE).get("/v2/configs").await.expect(200);
    assert_eq!(listed["data"][0]["slug"], json!(things.config));
    for route in guarded() {
        let answer = call(&house, Some(DATA_SERVICE), &route, &things).await;
        match route.path {
            _ if route.scopes.contains(&"configs.list") => drop(answer.expect(200)),
            "/api-keys/self/session" => assert_eq!(answer.expect(200)["ended"], false),
            // It is no key that could be shown.
            "/api-keys/self/details" | "/api-keys/self/limits" => drop(answer.refused(404, "AB08")),
            _ => drop(answer.refused(403, "AB03")),
        }
    }
}

#[tokio::test]
async fn admin_and_workspace_keys_are_let_in_everywhere_that_they_belong() {
    let house = House::new().await;
    let (_, user) =
        house.key("workspace/user", json!({"scopes": ["configs.list", "providers.read", "policies.list"]})).await;
    for (key, tag) in [(ADMIN, "by-admin"), (crate::harness::SERVICE, "by-service")] {
        let things = Things::of(&house, key, tag).await;
        let own = scopes_of(&house, key).await;
        for route in guarded() {
            let answer = call(&house, Some(key), &route, &things).await;
            if !opens(&route, &own) {
                answer.refused(403, "AB03");
                continue;
            }
            let fine = match (route.method.as_str(), route.path) {
                ("POST", "/admin/users/invites/{id}/resend" | "/api-keys/{id}/rotate") => answer.status == 200,
                ("PUT", "/admin/users/{id}") => answer.status == 400,
                ("PUT", path) if path.ends_with("/users/{user_id}") => answer.status == 400,
                // Nothing is asked here, which the answer says.
                ("POST", path) if path.ends_with("/{id}/test") => answer.status == 200,
                ("POST", path) if path.starts_with("/logs/exports/{id}") => answer.status == 404,
                ("PUT" | "PATCH", path) if path.starts_with("/scim/") => answer.status == 400,
                ("DELETE", "/scim/Users/{id}" | "/scim/Groups/{id}") => answer.status == 204,
                // The body may leave everything out, which means all of it.
                ("POST", path) if path.ends_with("/fork") || path.ends_with("/unshare") => answer.status == 200,
                ("POST", _) => answer.status == 400,
                ("PUT", path) if path.starts_with("/prompts/") && path != "/prompts/{id}" => {
                    answer.status == if path == "/prompts/partials/{id}" { 200 } else { 400 }
                }
                ("PUT", "/collections/{id}") => answer.status == 400,
                ("PUT", path) if path.starts_with("/mcp-") && path.ends_with("/capabilities") => answer.status == 400,
                ("PUT", path) if path.starts_with("/agent-") && path.matches('/').count() == 3 => {
                    answer.status == if path.ends_with("/user-access") { 200 } else { 400 }
                }
                (_, "/agent-servers/{id}/agent-card") => answer.status == 404,
                ("PUT", "/mcp-integrations/{id}/workspaces") => answer.status == 400,
                ("DELETE", "/mcp-integrations/{id}" | "/agent-integrations/{id}") => {
                    answer.status == 200 || answer.status == 409
                }
                ("PUT", path) if path.starts_with("/workspace-exclusions/") => answer.status == 400,
                (_, path) if path.starts_with("/logs/") && path.contains("{id}") => answer.status == 404,
                // They ask for a range, or for what was said.
                (_, path) if path.starts_with("/analytics/") || path.starts_with("/logs/groups/") => {
                    answer.status == 400
                }
                ("PUT", "/feedback/{id}" | "/batches/{id}") => answer.status == 404,
                (_, "/audit-logs") => answer.status == 400,
                ("PUT" | "DELETE", "/integrations/{id}/models" | "/integrations/{id}/integration-models") => {
                    answer.status == 400
                }
                // Those of one workspace are not shared out.
                ("PUT", "/integrations/{id}/workspaces") => answer.status == if key == ADMIN { 200 } else { 400 },
                // `DELETE /virtual-keys/{id}` has just removed it: both paths name the same thing.
                ("DELETE", "/providers/{id}") => answer.status == 404,
                // Its twin below /admin has just done it.
                ("DELETE", path) if path.starts_with("/workspaces/") => answer.status == 404,
                ("DELETE", "/integrations/{id}") => answer.status == 200 || answer.status == 409,
                _ => answer.status == 200,
            };
            assert!(fine, "{tag} {} {}: {} {}", route.method, route.path, answer.status, answer.text);
        }
    }
    house.with(&user).get("/configs").await.expect(200);
    house.with(&user).get("/api-keys").await.refused(403, "AB03");
}

#[tokio::test]
async fn what_belongs_elsewhere_is_answered_like_what_does_not_exist() {
    let house = House::new().await;
    let other = house.workspace("other").await;
    let scopes = scopes_of(&house, crate::harness::SERVICE).await;
    let (_, foreign) = house.key("workspace/service", json!({"scopes": scopes, "workspace_id": other})).await;
    let things = Things::of(&house, crate::harness::SERVICE, "mine").await;
    let nothing = Things::none();
    let plain = |answer: Answer| {
        let mut body = answer.json();
        body.as_object_mut().expect("an object").remove("request_id");
        (answer.status, body)
    };
    for route in guarded().iter().filter(|r| r.path.contains("{id}") && opens(r, &scopes)) {
        let theirs = call(&house, Some(&foreign), route, &things).await;
        let missing = call(&house, Some(&foreign), route, &nothing).await;
        assert_eq!(theirs.status, 404, "{} {}", route.method, route.path);
        assert_eq!(plain(theirs), plain(missing), "{} {}", route.method, route.path);
    }
    for path in ["/configs", "/providers", "/integrations", "/policies/rate-limits", "/logs"] {
        assert_eq!(house.with(&foreign).get(path).await.expect(200)["total"], 0, "{path}");
        for named in ["default", &house.default_workspace().to_string()] {
            house.with(&foreign).get(&format!("{path}?workspace_id={named}")).await.refused(404, "AB08");
        }
    }
    let elsewhere = json!({"name": "c", "config": {"provider": "openai"}, "workspace_id": "default"});
    house.with(&foreign).post("/configs", elsewhere).await.refused(404, "AB08");
    house.as_service().get(&format!("/configs/{}", things.config)).await.expect(200);
}

#[tokio::test]
async fn organisations_do_not_see_each_other() {
    let house = House::new().await;
    let theirs = house.organisation("rival").await;
    let things = Things::of(&house, ADMIN, "mine").await;
    for route in guarded().iter().filter(|r| r.path.contains("{id}") && !is_everybodys(r.path)) {
        call(&house, Some(&theirs), route, &things).await.refused(404, "AB08");
    }
    assert_eq!(house.with(&theirs).get("/api-keys").await.expect(200)["total"], 1);
    assert_eq!(house.with(&theirs).get("/integrations").await.expect(200)["total"], 0);
    let workspace = house.default_workspace();
    house.with(&theirs).get(&format!("/configs?workspace_id={workspace}")).await.refused(404, "AB08");
    let borrowed = json!({"name": "p", "integration_id": house.integration_id("mine")});
    house.with(&theirs).post("/providers", borrowed).await.refused(400, "AB01");
}

#[tokio::test]
async fn an_admin_key_that_means_one_of_several_is_asked_which() {
    let house = House::new().await;
    for name in ["a", "b"] {
        let workspace = house.workspace(name).await;
        let integration = json!({"name": name, "slug": format!("i-{name}"), "ai_provider_id": "openai", "key": "k",
            "workspace_id": workspace, "default_provider_slug": "twin"});
        house.as_admin().post("/integrations", integration).await.expect(200);
    }
    let said = house.as_admin().get("/providers/twin").await.refused(400, "AB01");
    assert!(said.starts_with("workspace_id is required"), "{said}");
    house.as_admin().get("/providers/twin?workspace_id=a").await.expect(200);
}
