"""A client that a generator makes of the description of the Admin API, and calls over it: what is sent is built by its models, what
comes back is read by them, errors too."""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from checks import equal, run

ADMIN = os.environ["TEST_ADMIN_URL"]
PLACE = tempfile.TemporaryDirectory(prefix="generated-client-")
FOLDER = Path(PLACE.name)
# The formatter of its files is not wanted here.
SETTINGS = "post_hooks: []\n"


def generate():
    """The package, and what the generator could not make of the document."""
    (FOLDER / "openapi.json").write_text(httpx.get(f"{ADMIN}/openapi.json", timeout=60).text)
    (FOLDER / "settings.yml").write_text(SETTINGS)
    made = subprocess.run(
        [sys.executable, "-B", "-m", "openapi_python_client", "generate", "--path", FOLDER / "openapi.json", "--config",
         FOLDER / "settings.yml", "--meta", "none", "--output-path", FOLDER / "gateway_client"],
        capture_output=True, text=True, check=False, cwd=FOLDER,
    )
    if made.returncode:
        raise AssertionError(made.stdout + made.stderr)
    sys.path.insert(0, str(FOLDER))
    return re.findall(r"WARNING parsing (\S+ \S+)", made.stdout + made.stderr)


WARNED = generate()

from gateway_client import AuthenticatedClient  # noqa: E402
from gateway_client.api.configs import get_configs, post_configs  # noqa: E402
from gateway_client.api.integrations import (  # noqa: E402
    delete_integrations_id, get_integrations, get_integrations_id, post_integrations, put_integrations_id,
)
from gateway_client.api.secret_references import get_secret_references_id, post_secret_references  # noqa: E402
from gateway_client.api.workspaces import get_admin_workspaces_id, post_admin_workspaces  # noqa: E402
from gateway_client.models import (  # noqa: E402
    PostAdminWorkspacesBody, PostConfigsBody, PostIntegrationsBody, PostSecretReferencesBody, Problem, PutIntegrationsIdBody,
)

admin = AuthenticatedClient(
    base_url=ADMIN, token=os.environ["TEST_ADMIN_KEY"], prefix="", auth_header_name="x-gateway-api-key", timeout=httpx.Timeout(60)
)


def body(kind, **fields):
    return kind.from_dict(fields)


def check_every_operation_has_a_function():
    # Their bodies come under two media types (RFC 7644), whose models this generator gives one name.
    beyond = [told for told in WARNED if "/scim/" not in told]
    equal(beyond, [])
    document = json.loads((FOLDER / "openapi.json").read_text())
    operations = [
        told["operationId"] for methods in document["paths"].values() for told in methods.values() if isinstance(told, dict)
    ]
    functions = [file for file in (FOLDER / "gateway_client" / "api").glob("*/*.py") if file.stem != "__init__"]
    # Those of SCIM that are warned of are there all the same, without their bodies.
    equal(len(functions), len(operations))
    for file in functions:
        importlib.import_module(f"gateway_client.api.{file.parent.stem}.{file.stem}")


def check_integrations():
    new = body(PostIntegrationsBody, name="Generated", slug="generated", ai_provider_id="openai", key="sk-quite-a-long-generated-1",
               tags={"a": "b"}, configurations={"openai_project": "p"}, create_default_provider=False)
    made = post_integrations.sync(client=admin, body=new)
    equal(made.slug, "generated")
    read = get_integrations_id.sync(client=admin, id="generated")
    equal((read.name, read.masked_key, read.status), ("Generated", "****ed-1", "active"))
    equal(read.to_dict()["configurations"], {"openai_project": "p"})
    listed = get_integrations.sync(client=admin, search="generat", page_size=5)
    equal((listed.total, listed.data[0].id), (1, made.id))
    put_integrations_id.sync(client=admin, id="generated", body=body(PutIntegrationsIdBody, name="Again"))
    equal(get_integrations_id.sync(client=admin, id="generated").name, "Again")
    delete_integrations_id.sync(client=admin, id="generated")
    gone = get_integrations_id.sync_detailed(client=admin, id="generated")
    equal((int(gone.status_code), type(gone.parsed), gone.parsed.data.error_code), (404, Problem, "AB08"))


def check_errors_are_read():
    refused = post_integrations.sync(client=admin, body=body(PostIntegrationsBody, name="x", ai_provider_id="nobody"))
    equal((type(refused), refused.data.error_code), (Problem, "AB01"))
    if "ai_provider_id" not in refused.data.message:
        raise AssertionError(refused.data.message)


def check_secret_references():
    auth = {"vault_auth_type": "token", "vault_addr": "https://vault.example.com", "vault_token": "a-token-of-a-vault"}
    new = body(PostSecretReferencesBody, name="Kept", slug="kept", manager_type="hashicorp_vault", secret_path="kv/a",
               auth_config=auth, allowed_workspaces=["default"])
    equal(post_secret_references.sync(client=admin, body=new).slug, "kept")
    read = get_secret_references_id.sync(client=admin, id="kept")
    equal((read.secret_path, read.allow_all_workspaces, len(read.allowed_workspaces)), ("kv/a", False, 1))
    equal(read.auth_config.to_dict()["vault_token"], "****ault")


def check_configs_and_workspaces():
    config = {"strategy": {"mode": "single"}, "targets": [{"provider": "mock"}]}
    made = post_configs.sync(client=admin, body=body(PostConfigsBody, name="Generated", config=config))
    names = [row.slug for row in get_configs.sync(client=admin).data]
    if made.slug not in names:
        raise AssertionError(names)
    workspace = post_admin_workspaces.sync(client=admin, body=body(PostAdminWorkspacesBody, name="Made", slug="made"))
    equal(get_admin_workspaces_id.sync(client=admin, id="made").id, workspace.id)


run(sys.modules[__name__])
