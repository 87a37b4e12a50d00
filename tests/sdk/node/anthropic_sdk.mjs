// The official `@anthropic-ai/sdk` package against the gateway.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { called, collect, echo, family, headers, hello, key, raises, run, url, weather } from './checks.mjs';

const model = 'mock-large';
const tools = [{ name: 'weather', description: 'Weather of a city', input_schema: weather }];

function client({ apiKey = key, maxRetries = 0, ...mock } = {}) {
  return new Anthropic({ baseURL: url, apiKey, maxRetries, defaultHeaders: headers(mock) });
}

const ask = (sdk, more = {}) => sdk.messages.create({ model, max_tokens: 100, messages: hello, ...more });

const checks = {
  async message() {
    const answer = await ask(client());
    assert.equal(answer.content[0].text, echo);
    assert.equal(answer.stop_reason, 'end_turn');
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [2, 4]);
  },

  async stream() {
    const stream = client().messages.stream({ model, max_tokens: 100, messages: hello });
    assert.equal(await stream.finalText(), echo);
    assert.equal((await stream.finalMessage()).usage.output_tokens, 4);
  },

  async rawStreamEvents() {
    const kinds = (await collect(await ask(client(), { stream: true }))).map((event) => event.type);
    assert.deepEqual([kinds[0], kinds.at(-1)], ['message_start', 'message_stop']);
  },

  async toolUseAndItsResult() {
    const sdk = client();
    const answer = await ask(sdk, { tools, tool_choice: { type: 'tool', name: 'weather' } });
    assert.equal(answer.stop_reason, 'tool_use');
    const use = answer.content.find((block) => block.type === 'tool_use');
    assert.deepEqual(use.input, called);
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'rain' }] };
    const messages = [...hello, { role: 'assistant', content: answer.content }, result];
    assert.equal((await ask(sdk, { tools, messages })).content[0].text, 'You said: rain');
  },

  async streamedToolUse() {
    const asked = { model, max_tokens: 100, messages: hello, tools, tool_choice: { type: 'any' } };
    const answer = await client().messages.stream(asked).finalMessage();
    assert.deepEqual(answer.content.find((block) => block.type === 'tool_use').input, called);
  },

  async imagesAndDocuments() {
    const source = (media_type, data) => ({ type: 'base64', media_type, data });
    const image = { type: 'image', source: source('image/png', 'iVBORw0KGgo=') };
    const document = { type: 'document', source: source('application/pdf', 'JVBERi0=') };
    const asked = (...parts) => ask(client(), { messages: [{ role: 'user', content: [...parts, ...hello.map(({ content }) => ({ type: 'text', text: content }))] }] });
    assert.equal((await asked(image)).content[0].text, echo);
    // Cohere takes no files, and says so.
    if (family === 'cohere') await raises(Anthropic.BadRequestError, () => asked(document));
    else assert.equal((await asked(image, document)).content[0].text, echo);
  },

  async countTokensCounts() {
    const { input_tokens } = await client().messages.countTokens({ model, messages: hello });
    assert.ok(input_tokens > 0 && input_tokens < 20, `${input_tokens}`);
  },

  async rawHeaders() {
    const options = { headers: { 'x-gateway-trace-id': 'sdk-trace' } };
    const call = client().messages.create({ model, max_tokens: 100, messages: hello }, options);
    const { response } = await call.withResponse();
    assert.equal(response.headers.get('x-gateway-trace-id'), 'sdk-trace');
  },

  async unknownKeyIs401() {
    const error = await raises(Anthropic.AuthenticationError, () => ask(client({ apiKey: 'no-such-key' })));
    assert.equal(error.error.error.type, 'authentication_error');
  },

  async missingMessagesIs400() {
    const error = await raises(Anthropic.BadRequestError, () => ask(client(), { messages: [] }));
    assert.match(error.message, /messages/);
  },

  async upstream404() {
    await raises(Anthropic.NotFoundError, () => ask(client({ status: 404 })));
  },

  async tooManyRequestsKeepsItsHeaders() {
    const error = await raises(Anthropic.RateLimitError, () => ask(client({ status: 429, 'retry-after': 7 })));
    assert.equal(error.headers.get('retry-after'), '7');
    assert.equal(error.error.error.type, 'rate_limit_error');
  },

  async theSdkRetriesOnItsOwn() {
    const told = { 'fail-first': 1, status: 429, 'retry-after-ms': 1, id: `node-anthropic-${family}` };
    assert.equal((await ask(client({ maxRetries: 2, ...told }))).content[0].text, echo);
  },

  async anErrorInTheStreamIsRaised() {
    const read = async () => collect(await ask(client({ fault: 'error-mid' }), { stream: true }));
    await raises(Anthropic.APIError, read);
  },
};

const anthropicOnly = {
  async countTokens() {
    assert.equal((await client().messages.countTokens({ model, messages: hello })).input_tokens, 2);
  },

  async models() {
    const ids = (await collect(await client().models.list())).map((m) => m.id);
    assert.ok(ids.includes('mock-large'), ids.join());
  },
};

await run(family === 'anthropic' ? { ...checks, ...anthropicOnly } : checks);
