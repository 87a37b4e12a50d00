"""Who is measured: how each is started and made ready. Measuring itself happens elsewhere."""
import json
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request

from .processes import Process

CHAT = "/v1/chat/completions"
TOOL = "/bench/mcp"

NGINX = """
worker_processes {threads}; daemon off; pid {dir}/pid; error_log {dir}/error.log error;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; tcp_nodelay on;
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  client_max_body_size 64m; client_body_buffer_size 2m;
  upstream up {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


def request(url, body=None, headers=None, timeout=10):
    """Sends JSON, returns JSON (or None when the answer is empty or something else)."""
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(url, data=data, headers={"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(ask, timeout=timeout) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url} answered {error.code}: {error.read().decode(errors='replace')}")
    try:
        return json.loads(text)
    except ValueError:
        return None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Contender:
    """Something that answers chat requests on `port`. `process` is None for the upstream itself."""

    name = "direct"
    workers = r""    # threads that serve requests, by name
    writers = r"$^"  # threads that store records

    def __init__(self):
        self.port = free_port()
        self.process = None
        self.headers = {}
        self.sent = 0       # requests that reached the upstream through it
        self.answered = 0   # requests that clients sent to it, failed ones included

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}{CHAT}"

    @property
    def tool_url(self):
        return f"http://127.0.0.1:{self.port}{TOOL}"

    def wait_ready(self, probe_url=None, timeout=120):
        until = time.time() + timeout
        while time.time() < until:
            if self.process and self.process.has_ended():
                break
            try:
                with urllib.request.urlopen(probe_url or f"http://127.0.0.1:{self.port}/count", timeout=2):
                    return
            except urllib.error.HTTPError as error:
                error.close()
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{self.name} is not ready; see {self.process and self.process.log}")


class Upstream(Contender):
    """The load tool's upstream: both what all others forward to and the contender `direct`. In a `burst` it writes a
    stream at once."""

    def __init__(self, rig, burst=False):
        super().__init__()
        rig.upstream_port = self.port
        command = [rig.load, "upstream", "--listen", f"127.0.0.1:{self.port}"]
        self.server = Process("upstream", [*command, "--burst"] if burst else command, rig.dir)
        self.wait_ready()

    def count(self):
        return request(f"http://127.0.0.1:{self.port}/count")["requests"]


class Nginx(Contender):
    name = "nginx"

    def __init__(self, rig):
        super().__init__()
        folder = os.path.join(rig.dir, "nginx")
        os.makedirs(folder, exist_ok=True)
        conf = os.path.join(folder, "nginx.conf")
        with open(conf, "w") as file:
            file.write(NGINX.format(threads=rig.threads, dir=folder, port=self.port, upstream=rig.upstream_port))
        self.process = Process("nginx", ["nginx", "-p", folder, "-e", f"{folder}/error.log", "-c", conf], rig.dir)
        self.wait_ready()


class Bare(Contender):
    name = "bare pingora"
    workers = r"^Pingora HTTP"

    def __init__(self, rig):
        super().__init__()
        self.process = Process("bare-proxy", [
            *rig.wrap, rig.bare, "--upstream", f"127.0.0.1:{rig.upstream_port}",
            "--listen", f"127.0.0.1:{self.port}", "--threads", str(rig.threads)], rig.dir)
        self.wait_ready()


class Gateway(Contender):
    """The gateway doing its whole job: key, saved config, managed provider, one policy, records."""

    name = "gateway"
    log_store = None  # where records go, when not with the configuration
    limits = ("requests",)  # what policies hold it to
    redis = None      # where nodes share limits
    more = {}         # keys of its config beside the usual ones

    def __init__(self, rig):
        super().__init__()
        self.workers, self.writers = rig.worker_threads, rig.writer_threads
        admin_port = free_port()
        self.admin = f"http://127.0.0.1:{admin_port}/v1"
        self.admin_key, workspace_key = (f"bench-{secrets.token_hex(24)}" for _ in range(2))
        data = os.path.join(rig.dir, f"{self.name}-data".replace(" ", "-"))
        elsewhere = ["--log-store-url", self.log_store] if self.log_store else []
        elsewhere += ["--redis-url", self.redis] if self.redis else []
        self.process = Process(self.name.replace(" ", "-"), [
            *rig.wrap, rig.gateway, "serve", "--data-dir", data, "--threads", str(rig.threads),
            "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{admin_port}",
            "--trusted-custom-hosts", "127.0.0.1", *elsewhere,
            # Servers of tools are asked what they offer when they are saved, and not while something is measured.
            "--mcp-sync-interval", "0s",
            "--bootstrap-admin-key", self.admin_key, "--bootstrap-workspace-key", workspace_key], rig.dir,
            # A line per request to a log file is off, as in nginx; the records are stored.
            env={"GATEWAY_ACCESS_LOG": "false"})
        self.wait_ready(f"http://127.0.0.1:{admin_port}/health/ready")
        config = self._configure(f"http://127.0.0.1:{rig.upstream_port}/v1")
        self._serve_tools(f"http://127.0.0.1:{rig.upstream_port}{TOOL}")
        self.headers = {"authorization": f"Bearer {workspace_key}", "x-gateway-config": config}

    def _configure(self, upstream):
        integration = self._create("integrations", {
            "name": "bench", "ai_provider_id": "openai", "key": "sk-bench-0123456789abcdef",
            "create_default_provider": False, "configurations": {"custom_host": upstream}})
        self._create("providers", {"name": "bench", "slug": "bench", "integration_id": integration["id"]})
        for what in self.limits:
            held = {"name": what, "type": what, "group_by": [{"key": "api_key"}]}
            if what == "cost":
                self._create("policies/usage-limits", held | {
                    "credit_limit": 1_000_000, "periodic_reset": "weekly", "conditions": [{"key": "api_key", "value": "*"}]})
            else:
                self._create("policies/rate-limits", held | {
                    "unit": {"requests": "rpm", "tokens": "tpm"}[what], "value": 1_000_000_000,
                    "conditions": [{"key": "workspace_id", "value": "*"}]})
        config = self._create("configs", {
            "name": "bench", "config": {"provider": "@bench", "retry": {"attempts": 1}} | self.more})
        return config["slug"]

    def _serve_tools(self, upstream):
        """A server of one tool, which is held to a limit of its own."""
        self._create("mcp-integrations", {
            "name": "bench", "slug": "bench-tools", "url": upstream, "auth_type": "none", "transport": "http"})
        self._create("mcp-servers", {"name": "bench", "slug": "bench", "mcp_integration_id": "bench-tools"})
        if "requests" in self.limits:
            self._create("policies/rate-limits", {
                "name": "tools", "type": "requests", "target": "mcp_tools", "unit": "rpm", "value": 1_000_000_000,
                "group_by": [{"key": "api_key"}], "conditions": [{"key": "workspace_id", "value": "*"}]})

    def _create(self, what, body):
        return request(f"{self.admin}/{what}", body, {"x-gateway-api-key": self.admin_key})

    def records(self):
        answer = request(f"{self.admin}/logs?page_size=1", headers={"x-gateway-api-key": self.admin_key})
        return answer["total"]


class Unlimited(Gateway):
    """Without a policy."""

    name = "no policy"
    log_store = "off:"
    limits = ()


class InProcess(Gateway):
    """One exact policy, counted in the process."""

    name = "in process"
    log_store = "off:"


class AllInProcess(InProcess):
    """By requests, tokens and money."""

    name = "all in process"
    limits = ("requests", "tokens", "cost")


class OnRedis(Gateway):
    """One exact policy, counted in Redis."""

    name = "on redis"
    log_store = "off:"

    def __init__(self, rig):
        port = free_port()
        self.server = Process(f"{self.name}-server".replace(" ", "-"), [
            "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], rig.dir)
        self.redis = f"redis://127.0.0.1:{port}"
        super().__init__(rig)
        until = time.time() + 30
        while request(f"{self.admin[:-3]}/health/status")["components"]["counters"]["mode"] != "redis":
            if time.time() > until:
                raise SystemExit("limits are not counted in Redis")
            time.sleep(0.1)


class TokensOnRedis(OnRedis):
    name = "tokens on redis"
    limits = ("tokens",)


class CostOnRedis(OnRedis):
    name = "cost on redis"
    limits = ("cost",)


class AllOnRedis(OnRedis):
    """By requests, tokens and money: a call of Redis at each of the two stages, and settling."""

    name = "all on redis"
    limits = ("requests", "tokens", "cost")


class RecordsOn(Gateway):
    """Records take their whole way, into a store that throws them away and counts them."""

    name = "records on"
    log_store = "null:"


# In as many letters as texts begin with: the ends of most pieces might begin one of them, and wait for the next piece.
FORBIDDEN = """abattoir ammunition backdoor ballistic blackmail bribery carjack cartel confidential contraband counterfeit
credential cyanide deepfake detonator embezzle espionage exploit explosive extort fentanyl forgery fraudulent grenade
hijack homicide hostage identity insider jailbreak keylogger kidnap launder malware massacre narcotic nerve-agent overdose
passphrase password phishing piracy poison ransom sabotage smuggle spyware steganography terror trafficking""".split()


class Guarded(RecordsOn):
    """A guardrail of fifty words judges the answers, those that stream in windows."""

    name = "guarded"
    more = {"output_guardrails": [{"default.contains": {"words": FORBIDDEN, "operator": "none"}, "deny": True,
                                   "stream": "window"}]}


class AllRecorded(RecordsOn):
    """By requests, tokens and money, in process."""

    name = "all limits"
    limits = ("requests", "tokens", "cost")


class RecordsOff(Gateway):
    """Records end where they would leave the hot path."""

    name = "records off"
    log_store = "off:"


def build(*arguments):
    subprocess.run(["cargo", "build", "--quiet", *arguments], check=True)
