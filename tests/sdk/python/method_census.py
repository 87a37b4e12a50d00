"""Which methods of the SDK of another gateway a script called: found by looking at the client itself, so that no method that a
later version brings is passed over in silence."""

import functools
import inspect

from portkey_ai import Portkey

ADMIN = {
    "admin", "analytics", "api_keys", "configs", "feedback", "guardrails", "integrations", "logs", "mcp_integrations",
    "mcp_servers", "providers", "virtual_keys",
}
PROMPTS = {"prompts", "labels", "collections"}
# Calls of models and what belongs to them, which other scripts make as OpenAI's own SDK.
DATA_PLANE = {
    "audio", "batches", "beta", "chat", "completions", "containers", "conversations", "embeddings", "evals", "files",
    "fine_tuning", "generations", "images", "models", "moderations", "realtime", "responses", "skills", "uploads",
    "vector_stores", "videos", "webhooks",
}
# Not there, each for its reason.
ABSENT = {
    # By these the vendor's data plane tells its control plane what it learnt of a server. Here one process is both, and asks
    # the server itself when it is saved or tested.
    "mcp_integrations.sync", "mcp_servers.capabilities.sync", "mcp_servers.metadata.sync",
    # By these it keeps what people signed in with there. Nobody is given a stored credential here.
    "mcp_servers.get_tokens", "mcp_servers.update_tokens", "mcp_servers.delete_tokens", "mcp_servers.get_client_info",
    # By this it asks before each call whether it may be made. Here the call itself is answered.
    "mcp_servers.user_access.check",
}


def areas():
    """What a client has, by name."""
    client = Portkey(api_key="x", base_url="http://127.0.0.1:9/v1")
    # Written by hand, because it is made of what others have.
    named = {name: value for name, value in vars(client).items() if is_resource(value)}
    return {**named, **({"beta": client.beta} if hasattr(client, "beta") else {})}


def is_resource(value):
    return type(value).__module__.startswith("portkey_ai.api_resources.apis.")


def methods(resource, path):
    """Each method of a resource and of what it holds, with the class that it is of."""
    for name, value in inspect.getmembers(resource):
        if name.startswith("_"):
            continue
        if inspect.ismethod(value):
            yield f"{path}.{name}", type(resource), name
        elif is_resource(value):
            yield from methods(value, f"{path}.{name}")


class Census:
    """Begins to count with its making."""

    def __init__(self, wanted):
        self.called = set()
        self.known = set()
        every = areas()
        unknown = set(every) ^ (ADMIN | PROMPTS | DATA_PLANE)
        if unknown:
            raise AssertionError(f"nobody says what these are: {sorted(unknown)}")
        for area in wanted:
            for path, kind, name in methods(every[area], area):
                self.known.add(path)
                self.watch(path, kind, name)

    def watch(self, path, kind, name):
        method = getattr(kind, name)

        @functools.wraps(method)
        def noted(*args, **kwargs):
            self.called.add(path)
            return method(*args, **kwargs)

        setattr(kind, name, noted)

    def close(self):
        """Every method was called, and what is said not to be there is not."""
        missed = self.known - self.called - ABSENT
        if missed:
            raise AssertionError(f"nobody called {sorted(missed)}")
        gone = {path for path in ABSENT if path.split(".")[0] in {k.split(".")[0] for k in self.known}} - self.known
        if gone:
            raise AssertionError(f"the SDK has none of {sorted(gone)}")
