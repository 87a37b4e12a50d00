"""The catalogue of models as the official `openai` and `anthropic` packages list it, page by page, and look one model up.

No provider is named: the gateway answers out of its own list, in one form for both.
"""

import sys

import anthropic
import openai
from anthropic.types import ModelInfo
from openai.types import Model
from pydantic import TypeAdapter

from checks import KEY, URL, equal, raises, run

GPT = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
CLAUDE = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
KNOWN = "@claude/claude-sonnet-4-5"
OTHER = "@oa/gpt-4o"


def read(kind, model):
    """SDKs build what they get without a look at it; here every member must be what its type says."""
    return TypeAdapter(kind).validate_python(model.model_dump())


def check_openai_lists_all():
    models = list(GPT.models.list())
    ids = [read(Model, model).id for model in models]
    assert KNOWN in ids and OTHER in ids and len(ids) == len(set(ids)) > 100, ids
    equal({model.owned_by for model in models}, {"openai", "anthropic"})
    equal({model.object for model in models}, {"model"})


def check_openai_filters():
    page = GPT.models.list(extra_query={"provider": "claude", "limit": 3})
    equal([model.owned_by for model in page.data], ["anthropic"] * 3)


def check_openai_retrieves():
    model = read(Model, GPT.models.retrieve(KNOWN))
    equal((model.id, model.owned_by, model.object), (KNOWN, "anthropic", "model"))
    lost = raises(openai.NotFoundError, lambda: GPT.models.retrieve("@claude/nobody-knows"))
    equal(lost.code, "model_not_found")


def check_anthropic_pages_through_all():
    first = CLAUDE.models.list(limit=40)
    equal((len(first.data), first.has_more, first.last_id), (40, True, first.data[-1].id))
    ids = [read(ModelInfo, model).id for model in first]
    equal(ids, [model.id for model in GPT.models.list()])
    back = CLAUDE.models.list(limit=5, before_id=ids[10])
    equal([model.id for model in back.data], ids[5:10])


def check_anthropic_retrieves():
    model = read(ModelInfo, CLAUDE.models.retrieve(KNOWN))
    equal((model.id, model.type), (KNOWN, "model"))
    # A model whose first day nobody knows has the epoch, as Anthropic says of its own.
    assert model.display_name and model.created_at.tzinfo, model
    assert model.max_input_tokens >= 200_000 and model.max_tokens >= 8_000, model
    raises(anthropic.NotFoundError, lambda: CLAUDE.models.retrieve("@claude/nobody-knows"))


def check_a_model_that_ends_says_when():
    # Whichever have a day: each tells it in both forms.
    ending = [model for model in CLAUDE.models.list(limit=1000) if model.retires_at]
    assert ending, "some model of the list has the day of its end"
    for model in ending:
        equal(model.lifecycle, "deprecated")
        equal(GPT.models.retrieve(model.id).shutdown_date, model.retires_at.date().isoformat())


if __name__ == "__main__":
    run(sys.modules["__main__"])
