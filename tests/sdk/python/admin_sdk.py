"""The Admin API by the SDK of another gateway, unmodified: only base URL and key differ. Every method of what is built
is called once with all that it can send, and what it reads back is compared."""

import os
import sys
import time

from portkey_ai import AsyncPortkey, Portkey

from checks import URL, equal, raises, run
from method_census import ABSENT, ADMIN, Census

KEY = os.environ["TEST_ADMIN_KEY"]
CENSUS = Census(ADMIN)
# The proxy port, as such clients have it: one address for both.
admin = Portkey(api_key=KEY, base_url=f"{URL}/v1")

CONFIG = {"strategy": {"mode": "single"}, "targets": [{"provider": "mock"}]}
RATES = [{"type": "requests", "unit": "rpm", "value": 5}]
BUDGET = {"type": "cost", "credit_limit": 10, "alert_threshold": 5}
SCOPES = ["logs.view", "completions.write", "configs.list"]


def refused(call, *words):
    """The gateway refuses it, and says why in these words."""
    said = str(raises(Exception, call))
    for word in words:
        if word not in said:
            raise AssertionError(f"{word!r} is not in {said!r}")


def plain(value):
    """What the SDK made of an answer, as the JSON that it was."""
    return value.model_dump() if hasattr(value, "model_dump") else dict(value)


def rows(answer):
    return plain(answer)["data"]


def check_configs():
    made = plain(admin.configs.create(name="py", config=CONFIG, is_default=0))
    slug = made.get("slug") or made["data"]["slug"]
    read = plain(admin.configs.retrieve(slug=slug))
    equal((read.get("data") or read)["config"]["targets"], CONFIG["targets"])
    admin.configs.update(slug=slug, name="py two", config=CONFIG, status="active")
    assert any(row["name"] == "py two" for row in rows(admin.configs.list()))
    assert any(row["slug"] == slug for row in rows(admin.configs.list(workspace_id="default")))
    admin.configs.delete(slug=slug)
    refused(lambda: admin.configs.retrieve(slug=slug))


def check_guardrails():
    feedback = {"feedback": {"value": 1, "weight": 1, "metadata": ""}}
    actions = {"deny": True, "async": False, "on_success": feedback, "on_fail": feedback}
    checks = [{"id": "default.contains", "name": "n", "is_enabled": True, "parameters": {"words": ["x"]}}]
    made = admin.guardrails.create(name="py", checks=checks, actions=actions, workspace_id="default")
    assert made.slug.startswith("pg-") and made.version_id, made
    read = plain(admin.guardrails.retrieve(guardrail_id=made.slug))
    # The SDK sends no text that is empty.
    bare = {"feedback": {"value": 1, "weight": 1}}
    wanted = {**actions, "on_success": bare, "on_fail": bare}
    equal((read["name"], read["status"], read["checks"], read["actions"]), ("py", "active", checks, wanted))
    changed = admin.guardrails.update(guardrail_id=made.id, name="py two", checks=checks, actions=actions)
    assert changed.slug == made.slug and changed.version_id != made.version_id, changed
    assert any(row["name"] == "py two" for row in rows(admin.guardrails.list(workspace_id="default", page_size=5)))
    shared = admin.guardrails.create(
        name="all", checks=checks, actions=actions, organisation_id=read["organisation_id"]
    )
    listed = rows(admin.guardrails.list(organisation_id=read["organisation_id"], current_page=0))
    equal([row["slug"] for row in listed], [shared.slug])
    refused(lambda: admin.guardrails.create(name="x", checks=[{"id": "contains"}], actions=actions), "words", "is required")
    for one in (made, shared):
        admin.guardrails.delete(guardrail_id=one.slug)
    refused(lambda: admin.guardrails.retrieve(guardrail_id=made.slug))


def check_api_keys():
    for kind, part in (("organisation", "service"), ("workspace", "service"), ("workspace", "user")):
        more = {} if kind == "organisation" else {"rate_limits": RATES, "usage_limits": BUDGET}
        scopes = ["logs.view", "configs.list"] if kind == "organisation" else SCOPES
        if part == "user":
            more["user_id"] = seated()
        made = admin.api_keys.create(
            type=kind, sub_type=part, name="py", description="d", scopes=scopes, expires_at="2100-01-01T00:00:00Z", **more
        )
        read = plain(admin.api_keys.retrieve(id=made.id))
        equal((read["type"], read["scopes"]), (f"{kind}-{part}", scopes))
        turned = scopes[::-1]
        admin.api_keys.update(id=made.id, name="py two", description="e", scopes=turned)
        read = plain(admin.api_keys.retrieve(id=made.id))
        equal((read["name"], read["scopes"]), ("py two", turned))
        admin.api_keys.delete(id=made.id)
    page = plain(admin.api_keys.list(page_size=1, current_page=0))
    assert len(page["data"]) == 1 and page["total"] > 1, page
    assert rows(admin.api_keys.list(workspace_id="default"))


def check_integrations_and_providers():
    made = admin.integrations.create(
        name="Py", slug="py-oa", description="d", ai_provider_id="openai", key="sk-1", configurations={}
    )
    equal(plain(made)["slug"], "py-oa")
    equal(plain(admin.integrations.retrieve(slug="py-oa"))["name"], "Py")
    admin.integrations.update(slug="py-oa", name="Py two", description="e", key="sk-2", configurations={})
    assert "py-oa" in [row["slug"] for row in rows(admin.integrations.list(type="organisation"))]
    equal(len(rows(admin.integrations.list(current_page=0, page_size=1))), 1)
    admin.integrations.models.update(
        slug="py-oa", allow_all_models=True, models=[{"slug": "gpt-4o", "enabled": False}]
    )
    equal(plain(admin.integrations.models.list(slug="py-oa"))["models"][0]["slug"], "gpt-4o")
    admin.integrations.models.delete(slug="py-oa", slugs="gpt-4o")
    equal(plain(admin.integrations.models.list(slug="py-oa"))["models"], [])
    shut = [{"id": "default", "enabled": False}]
    admin.integrations.workspaces.update(slug="py-oa", workspaces=shut, global_workspace_access={"enabled": True})
    equal(plain(admin.integrations.workspaces.list(slug="py-oa"))["workspaces"][0]["enabled"], False)
    admin.integrations.workspaces.update(slug="py-oa", override_existing_workspaces_access=True)
    equal(plain(admin.integrations.workspaces.list(slug="py-oa"))["workspaces"], [])

    # Without rate limits: the SDK's type of a provider takes them for an object, the contract and its other SDK for a list.
    admin.providers.create(
        name="Py", slug="py-own", integration_id="py-oa", workspace_id="default", note="n", usage_limits=BUDGET,
        expires_at="2100-01-01T00:00:00Z",
    )
    equal(plain(admin.providers.retrieve(slug="py-own", workspace_id="default"))["note"], "n")
    admin.providers.update(slug="py-own", workspace_id="default", name="Py two", note="m", reset_usage=True)
    listed = rows(admin.providers.list(workspace_id="default", current_page=0, page_size=100))
    assert "Py two" in [row["name"] for row in listed], listed
    admin.providers.delete(slug="py-own", workspace_id="default")
    admin.integrations.delete(slug="py-oa")
    refused(lambda: admin.integrations.retrieve(slug="py-oa"))


def check_virtual_keys():
    made = plain(admin.virtual_keys.create(
        name="Py Azure", provider="azure-openai", key="k-1", note="n", apiVersion="2024-10-21", resourceName="res",
        deploymentName="gpt-4o", usage_limits=BUDGET, rate_limits=RATES,
    ))
    slug = made.get("slug") or made["data"]["slug"]
    wanted = {"apiVersion": "2024-10-21", "resourceName": "res", "deploymentName": "gpt-4o"}
    equal(plain(admin.virtual_keys.retrieve(slug=slug))["model_config"], wanted)
    admin.virtual_keys.update(slug=slug, name="Py two", key="k-2", note="m", usage_limits=BUDGET, rate_limits=RATES)
    assert "Py two" in [row["name"] for row in rows(admin.virtual_keys.list(workspace_id="default"))]
    admin.virtual_keys.delete(slug=slug)


def check_workspaces():
    made = admin.admin.workspaces.create(name="Py", description="d", defaults={"metadata": {"a": "b"}}, users=[])
    equal(plain(admin.admin.workspaces.retrieve(workspace_id=made.id))["description"], "d")
    admin.admin.workspaces.update(workspace_id=made.id, name="Py two", description="e", defaults={"metadata": {}})
    page = plain(admin.admin.workspaces.list(page_size=1, current_page=0))
    assert len(page["data"]) == 1 and page["total"] > 1, page
    equal([row["id"] for row in rows(admin.admin.workspaces.list(exact_name="Py two"))], [made.id])
    user = invited("seat@example.com")
    seats = admin.admin.workspaces.users
    seats.create(workspace_id=made.id, users=[{"id": user, "role": "member"}])
    seats.update(workspace_id=made.id, user_id=user, role="manager")
    equal(plain(seats.retrieve(workspace_id=made.id, user_id=user))["role"], "manager")
    found = plain(seats.list(workspace_id=made.id, page_size=5, current_page=0, email="seat@example.com", role="manager"))
    equal(found["total"], 1)
    seats.delete(workspace_id=made.id, user_id=user)
    admin.admin.workspaces.delete(workspace_id=made.id, name="Py two")
    refused(lambda: admin.admin.workspaces.retrieve(workspace_id=made.id))


def check_users_and_invites():
    invites = admin.admin.users.invites
    seats = [{"id": "default", "role": "member"}]
    made = invites.create(
        email="py@example.com", role="member", workspaces=seats, workspace_api_key_details={"scopes": SCOPES[:2]}
    )
    equal(plain(invites.retrieve(invite_id=made.id))["email"], "py@example.com")
    found = plain(invites.list(page_size=10, current_page=0, email="py@example.com", role="member", status="pending"))
    equal(found["total"], 1)
    invites.resend(invite_id=made.id)
    invites.delete(invite_id=made.id)
    user = invited("gone@example.com")
    users = admin.admin.users
    equal(plain(users.retrieve(user_id=user))["email"], "gone@example.com")
    users.update(user_id=user, role="admin")
    found = plain(users.list(page_size=10, current_page=0, email="gone@example.com", role="admin"))
    equal(found["total"], 1)
    users.delete(user_id=user)
    refused(lambda: users.retrieve(user_id=user))


SPAN = {"time_of_generation_min": "2025-01-01T00:00:00Z", "time_of_generation_max": "2030-01-01T00:00:00Z"}
GRAPHS = ("requests", "cost", "latency", "tokens", "users", "users_requests", "errors", "errors_rate", "errors_stacks",
          "errors_status_codes", "requests_rescued", "cache_hit_rate", "cache_latency", "feedbacks",
          "feedbacks_scores", "feedbacks_weighted", "feedbacks_ai_models")


def check_analytics():
    for name in GRAPHS:
        graph = plain(getattr(admin.analytics.graphs, name)(**SPAN, workspace_slug="default"))
        assert graph["object"] == "analytics-graph" and "summary" in graph, (name, graph)
    filters = {"status_code": "200,429", "virtual_keys": "x", "ai_org_model": "mock__m", "total_units_min": 1}
    equal(plain(admin.analytics.graphs.requests(**SPAN, **filters))["summary"], {"total": 0})
    groups = admin.analytics.groups
    order = {"order_by": "cost", "order_by_type": "asc", "page_size": 5, "current_page": 0}
    for answer in (groups.users(**SPAN), groups.ai_models(**SPAN, **order), groups.workspaces(**SPAN),
                   groups.metadata(metadata_key="team", **SPAN)):
        assert plain(answer)["object"] == "list", answer
    for by in ("ai_service", "model", "status_code", "api_key", "config", "workspace", "provider"):
        told = plain(groups.group_by(group_by=by, **SPAN, columns="requests,p95_latency", include_total=True))
        equal((told["object"], told["total"]), ("list", len(told["data"])))
    equal(plain(admin.analytics.summary.cache(**SPAN, workspace_slug="default"))["object"], "analytics-summary")
    equal(plain(admin.analytics.graphs.cost(**SPAN, cache_status="hit"))["object"], "analytics-graph")
    refused(lambda: admin.analytics.graphs.cost(**SPAN, cache_status="warm"), "cache_status")


def check_feedback():
    key = admin.api_keys.create(type="workspace", sub_type="service", name="judge", scopes=["logs.write"]).key
    judge = Portkey(api_key=key, base_url=f"{URL}/v1")
    told = judge.feedback.create(trace_id="py", value=5, weight=0.5, metadata={"by": "py"})
    equal((told.status, len(told.feedback_ids)), ("success", 1))
    judge.feedback.update(feedback_id=told.feedback_ids[0], value=-5, weight=1.0, metadata={})
    many = judge.feedback.bulk_create(feedbacks=[{"trace_id": "py", "value": 1}, {"trace_id": "py", "value": 2}])
    equal(len(many.feedback_ids), 2)
    graph = plain(admin.analytics.graphs.feedbacks_scores(**SPAN, trace_id="py"))
    equal([point["score"] for point in graph["data_points"]], [-5, 1, 2])


def check_logs_of_ones_own():
    scopes = ["logs.write", "completions.write"]
    key = admin.api_keys.create(type="workspace", sub_type="service", name="teller", scopes=scopes).key
    teller = Portkey(api_key=key, base_url=f"{URL}/v1")
    request = {"url": "https://api.openai.com/v1/embeddings", "method": "POST", "body": {"model": "text-embedding-3-small"}}
    response = {"status": 200, "body": {"usage": {"prompt_tokens": 5, "total_tokens": 5}}, "response_time": 12}
    teller.logs.create(request=request, response=response, metadata={"trace_id": "py-own", "span_id": "1"})
    refused(lambda: teller.logs.create(request=request, response={"status": 7, "body": {}}), "response.status")


def check_exports():
    exports = admin.logs.exports
    made = exports.create(filters={"time_of_generation_min": SPAN["time_of_generation_min"], "ai_model": "none"},
                          workspace_id="default", description="py", requested_data=["id", "cost"])
    equal((made.total, made.object), (0, "export"))
    equal(exports.retrieve(export_id=made.id).status, "draft")
    equal(exports.update(export_id=made.id, filters={"status_code": "200"}, requested_data=["trace_id"]).id, made.id)
    equal(exports.start(export_id=made.id).message, "Export started")
    for _ in range(600):
        if exports.retrieve(export_id=made.id).status != "in_progress":
            break
        time.sleep(0.1)
    found = [row for row in exports.list(workspace_id="default").data if row["id"] == made.id]
    equal((found[0]["status"], found[0]["requested_data"]), ("success", ["trace_id"]))
    url = exports.download(export_id=made.id).signed_url
    assert f"/v1/logs/exports/{made.id}/file" in url, url
    refused(lambda: exports.cancel(export_id=made.id), "not in progress")
    refused(lambda: exports.create(filters={}, requested_data=["colour"]), "requested_data")


def check_mcp():
    integrations, servers = admin.mcp_integrations, admin.mcp_servers
    made = integrations.create(
        name="Py", slug="py-mcp", url="http://127.0.0.1:9/mcp", auth_type="headers", transport="http", description="d",
        configurations={"custom_headers": {"authorization": "Bearer x"}},
    )
    here = {"mcp_integration_id": made.slug}
    integrations.update(**here, name="Py two", description="e", url="http://127.0.0.1:9/mcp", auth_type="headers", transport="http")
    read = plain(integrations.retrieve(**here))
    equal((read["name"], read["description"], read["auth_type"]), ("Py two", "e", "headers"))
    assert made.slug in [row["slug"] for row in rows(integrations.list(type="organisation", page_size=5, search="py"))]
    integrations.workspaces.update(**here, workspaces=[{"id": "default", "enabled": True}])
    equal(plain(integrations.workspaces.list(**here))["workspaces"][0]["enabled"], True)
    off = [{"name": "send", "type": "tool", "enabled": False}]
    integrations.capabilities.update(**here, capabilities=off)
    equal(plain(integrations.capabilities.list(**here))["data"][0]["enabled"], False)
    assert plain(integrations.metadata.retrieve(**here))
    assert "success" in plain(integrations.test(**here))

    server = servers.create(name="Py", slug="py-server", mcp_integration_id=made.slug, workspace_id="default", description="d")
    here = {"mcp_server_id": server.slug}
    servers.update(**here, name="Py two", description="e")
    equal(plain(servers.retrieve(**here))["name"], "Py two")
    equal([row["slug"] for row in rows(servers.list(workspace_id="default", page_size=5, search="py"))], [server.slug])
    servers.capabilities.update(**here, capabilities=off)
    equal(plain(servers.capabilities.list(**here))["data"][0]["enabled"], False)
    user = invited("mcp@example.com")
    admin.admin.workspaces.users.create(workspace_id="default", users=[{"id": user, "role": "member"}])
    servers.user_access.update(**here, user_access=[{"user_id": user, "enabled": True}], default_user_access="deny")
    # The SDK's type of the answer takes `default_user_access` for an object; the contract and its other SDK have a word.
    refused(lambda: servers.user_access.list(**here), "default_user_access", "input_value='deny'")
    assert plain(servers.metadata.retrieve(**here))
    assert "success" in plain(servers.test(**here))
    for path in ABSENT:
        call = admin
        for part in path.split("."):
            call = getattr(call, part)
        one = {"mcp_integration_id": made.slug} if path.startswith("mcp_integrations") else here
        more = {"access_token": "x"} if path.endswith("update_tokens") else {}
        refused(lambda: call(**one, **more), "no such route")
    servers.delete(**here)
    integrations.delete(mcp_integration_id=made.slug)
    refused(lambda: integrations.retrieve(mcp_integration_id=made.slug))


async def check_the_asynchronous_client():
    client = AsyncPortkey(api_key=KEY, base_url=f"{URL}/v1")
    made = await client.api_keys.create(type="workspace", sub_type="service", name="py", scopes=SCOPES)
    await client.api_keys.update(id=made.id, name="py two")
    equal(plain(await client.api_keys.retrieve(id=made.id))["scopes"], SCOPES)
    await client.api_keys.delete(id=made.id)


def check_what_cannot_be_done_is_said():
    refused(lambda: admin.configs.create(name="x", config={"nonsense": 1}), "nonsense")
    refused(lambda: admin.admin.workspaces.list(colour="red"), "colour", "not a known parameter")
    refused(lambda: admin.api_keys.create(type="workspace", sub_type="service", name="k", scopes=["no.such"]), "no.such")


def check_that_no_method_is_left():
    CENSUS.close()


def invited(email):
    """A user who accepted an invite without a seat; the SDK has no method for accepting."""
    made = admin.admin.users.invites.create(email=email, role="member")
    token = plain(made)["invite_link"].split("#")[1]
    body = {"token": token, "first_name": "A", "last_name": "B"}
    return plain(admin.post("/invites/accept", **body))["id"]


def seated():
    """A user with a seat in the default workspace."""
    user = invited("person@example.com")
    admin.admin.workspaces.users.create(workspace_id="default", users=[{"id": user, "role": "admin"}])
    return user


if __name__ == "__main__":
    run(sys.modules[__name__])
