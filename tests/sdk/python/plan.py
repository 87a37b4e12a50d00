"""The other half of `provider/story.py`: its providers by their slugs, the tools that its plan calls, and what must have come
of it. Knows no SDK.
"""

import json
import os
import time
import urllib.request

# The slug of each provider that plays the story, and a model that its dialect knows by name.
MODELS = {
    "story-openai": "gpt-story",
    "story-claude": "claude-sonnet-4-5",
    "story-gemini": "gemini-3-story",
    "story-cohere": "command-story",
    "story-mistral": "mistral-story",
    "story-bedrock": "amazon.nova-story-v1:0",
}
EVERYWHERE = tuple(MODELS)
ASKED = "plan a trip"
END = "Booked Rome for you."
CALLS = [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"}), ("book", {"city": "Rome"})]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# The client's own key, the header that names the provider; what is sent beside them is the SDK's own.
UPSTREAM = os.environ.get("TEST_UPSTREAM", "")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
DOES = {"weather": "Weather of a city", "book": "Books a trip to a city"}


def named(slug):
    """The model as a client names it that names its provider there."""
    return f"@{slug}/{MODELS[slug]}"


def answer(name, arguments):
    return f"sunny in {arguments['city']}" if name == "weather" else f"booked {arguments['city']}"


def seen():
    """The requests that reached the provider so far."""
    return json.load(urllib.request.urlopen(f"{UPSTREAM}/__seen"))


def left():
    return json.load(urllib.request.urlopen(f"{UPSTREAM}/__left"))


def comes(what, probe):
    """Waits until `probe` holds; the bound only ends a broken test."""
    end = time.monotonic() + 15
    while not probe():
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.01)
