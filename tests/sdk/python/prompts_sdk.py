"""Saved prompts by the SDK of another gateway, unmodified: only base URL and key differ. Every method of it for prompts,
partials, collections and labels is called, and what a prompt becomes is read from the answer of the model."""

import os
import sys

from portkey_ai import Portkey

from checks import ECHO, KEY, URL, equal, raises, run
from method_census import PROMPTS, Census

CENSUS = Census(PROMPTS)
# The proxy port, as such clients have it: one address for both.
admin = Portkey(api_key=os.environ["TEST_ADMIN_KEY"], base_url=f"{URL}/v1")
client = Portkey(api_key=KEY, base_url=f"{URL}/v1", provider="mock")


def plain(value):
    """What the SDK made of an answer, as the JSON that it was."""
    return value.model_dump() if hasattr(value, "model_dump") else dict(value)


def prompt(string, **fields):
    home = plain(admin.collections.list(workspace_id="default"))["data"][0]["id"]
    made = admin.prompts.create(
        name="py", collection_id=home, string=string, parameters={"max_tokens": 50}, model="mock-large", **fields
    )
    return plain(made)["slug"]


def check_a_prompt_is_completed_streamed_and_rendered():
    slug = prompt("hello {{where}}")
    said = client.prompts.completions.create(prompt_id=slug, variables={"where": "there"})
    equal(said.choices[0].message.content, ECHO)
    chunks = client.prompts.completions.create(prompt_id=slug, variables={"where": "there"}, stream=True)
    equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), ECHO)
    shown = plain(client.prompts.render(prompt_id=slug, variables={"where": "there"}, temperature=0.5))
    equal(shown["data"]["messages"][0]["content"], "hello there")
    equal((shown["data"]["model"], shown["data"]["temperature"], shown["data"]["max_tokens"]), ("mock-large", 0.5, 50))
    raises(Exception, lambda: client.prompts.completions.create(prompt_id="pp-none", variables={}))


def check_versions_and_labels():
    slug = prompt("one")
    admin.prompts.update(slug, string="two", parameters={}, model="mock-large", version_description="d")
    equal(plain(admin.prompts.retrieve(slug))["string"], "one")
    admin.prompts.publish(slug, version=2)
    equal(plain(admin.prompts.retrieve(slug))["string"], "two")
    versions = plain(admin.prompts.versions.list(slug))["data"]
    equal([v["prompt_version"] for v in versions], [2, 1])
    label = plain(admin.labels.create(name="py", workspace_id="default", description="d", color_code="#111111"))["id"]
    admin.prompts.versions.update(slug, versions[1]["id"], label_id=label)
    equal(plain(admin.prompts.versions.retrieve(slug, versions[1]["id"]))["prompt_version_label_id"], label)
    shown = plain(client.prompts.render(prompt_id=f"{slug}@py", variables={}))
    equal(shown["data"]["messages"][0]["content"], "one")
    admin.labels.update(label, name="py-2")
    equal(plain(admin.labels.retrieve(label))["name"], "py-2")
    assert any(row["id"] == label for row in plain(admin.labels.list(workspace_id="default"))["data"])
    raises(Exception, lambda: admin.labels.delete(label))
    admin.prompts.delete(slug)
    admin.labels.delete(label)


def check_partials():
    made = plain(admin.prompts.partials.create(name="py", string="hello {{where}}", workspace_id="default"))
    partial = made["slug"]
    slug = prompt("{{>" + partial + "}}")
    said = client.prompts.completions.create(prompt_id=slug, variables={"where": "there"})
    equal(said.choices[0].message.content, ECHO)
    admin.prompts.partials.update(partial, string="other", description="second")
    admin.prompts.partials.publish(partial, version=2)
    equal(plain(admin.prompts.partials.retrieve(partial))["string"], "other")
    equal(len(plain(admin.prompts.partials.versions.list(partial))["data"]), 2)
    assert any(row["slug"] == partial for row in plain(admin.prompts.partials.list())["data"])
    raises(Exception, lambda: admin.prompts.partials.delete(partial))
    admin.prompts.delete(slug)
    admin.prompts.partials.delete(partial)


def check_collections():
    made = plain(admin.collections.create("py", workspace_id="default"))["id"]
    inner = plain(admin.collections.create("inner", workspace_id="default", parent_collection_id=made))["id"]
    admin.collections.update(made, name="py two")
    read = plain(admin.collections.retrieve(made))
    equal((read["name"], read["child_collections"][0]["id"]), ("py two", inner))
    slug = plain(admin.prompts.create(name="p", collection_id=inner, string="x", parameters={}))["slug"]
    listed = plain(admin.prompts.list(collection_id=inner, workspace_id="default", search="P", page_size=5))
    equal([row["slug"] for row in listed["data"]], [slug])
    admin.prompts.delete(slug)
    admin.collections.delete(inner)
    admin.collections.delete(made)


def check_that_no_method_is_left():
    CENSUS.close()


if __name__ == "__main__":
    run(sys.modules[__name__])
