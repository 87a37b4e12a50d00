// The catalogue of models as the official `openai` and `@anthropic-ai/sdk` packages list it, page by page, and look one
// model up. No provider is named: the gateway answers out of its own list, in one form for both.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { collect, key, raises, run, url } from './checks.mjs';

const gpt = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const known = '@claude/claude-sonnet-4-5';
const ids = (models) => models.map((model) => model.id);

const checks = {
  async openaiListsAll() {
    const models = await collect(await gpt.models.list());
    assert.ok(ids(models).includes(known) && ids(models).includes('@oa/gpt-4o') && models.length > 100);
    for (const model of models) {
      assert.equal(model.object, 'model');
      assert.equal(typeof model.created, 'number');
      assert.ok(['openai', 'anthropic'].includes(model.owned_by), model.owned_by);
    }
  },

  async openaiRetrieves() {
    const model = await gpt.models.retrieve(known);
    assert.deepEqual([model.id, model.owned_by], [known, 'anthropic']);
    const lost = await raises(OpenAI.NotFoundError, () => gpt.models.retrieve('@claude/nobody-knows'));
    assert.equal(lost.code, 'model_not_found');
  },

  async anthropicPagesThroughAll() {
    const first = await claude.models.list({ limit: 40 });
    assert.deepEqual([first.data.length, first.has_more], [40, true]);
    const models = await collect(first);
    assert.deepEqual(ids(models), ids(await collect(await gpt.models.list())));
    for (const model of models) {
      assert.equal(model.type, 'model');
      assert.ok(!Number.isNaN(Date.parse(model.created_at)) && model.display_name, JSON.stringify(model));
      assert.equal(model.lifecycle, model.retires_at ? 'deprecated' : 'active');
      for (const limit of [model.max_input_tokens, model.max_tokens]) assert.ok(limit === undefined || limit > 0);
    }
  },

  async anthropicRetrieves() {
    const model = await claude.models.retrieve(known);
    assert.deepEqual([model.id, model.type], [known, 'model']);
    assert.ok(model.max_input_tokens >= 200_000, JSON.stringify(model));
    await raises(Anthropic.NotFoundError, () => claude.models.retrieve('@claude/nobody-knows'));
  },
};

await run(checks);
