// The official `openai` package against the gateway.

import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { called, collect, echo, family, headers, hello, key, provider, raises, run, url, weather } from './checks.mjs';

const model = 'mock-large';
const tools = [{ type: 'function', function: { name: 'weather', parameters: weather } }];

function client({ apiKey = key, maxRetries = 0, ...mock } = {}) {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries, defaultHeaders: headers(mock) });
}

const ask = (sdk, more = {}) => sdk.chat.completions.create({ model, messages: hello, ...more });
const texts = (chunks) => chunks.flatMap((c) => c.choices.map((choice) => choice.delta.content ?? '')).join('');

const responseTool = { type: 'function', name: 'weather', parameters: weather, strict: false };
const respond = (sdk, more = {}) => sdk.responses.create({ model, input: 'hello there', ...more });

// Where the provider has the Responses API itself; elsewhere it is made of chat.
const native = ['@oa', '@azure', '@mistral'].includes(provider);

const responses = {
  async response() {
    const answer = await respond(client());
    assert.deepEqual([answer.object, answer.status, answer.output_text], ['response', 'completed', echo]);
    assert.equal(answer.usage.output_tokens, 4);
  },

  async responseStream() {
    const events = await collect(await respond(client(), { stream: true }));
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.deepEqual([events[0].type, events.at(-1).type], ['response.created', 'response.completed']);
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    assert.equal(deltas.map((event) => event.delta).join(''), echo);
  },

  async responseStreamHelperAndTool() {
    const asked = { model, input: 'hello there', tools: [responseTool], tool_choice: 'required' };
    const answer = await client().responses.stream(asked).finalResponse();
    const call = answer.output.find((item) => item.type === 'function_call');
    assert.deepEqual(JSON.parse(call.arguments), called);
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'rain' };
    const input = [...hello, ...answer.output, result];
    assert.equal((await respond(client(), { input, tools: [responseTool] })).output_text, 'You said: rain');
  },

  async responseWithImage() {
    const image = { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'auto' };
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'hello there' }, image] }];
    assert.equal((await respond(client(), { input })).output_text, echo);
  },

  async responseErrors() {
    const error = await raises(OpenAI.RateLimitError, () => respond(client({ status: 429 })));
    assert.equal(error.status, 429);
    const events = await collect(await respond(client({ fault: 'error-mid' }), { stream: true }));
    const kinds = events.map((event) => event.type);
    if (native) assert.equal(kinds.at(-1), 'error');
    else assert.deepEqual(kinds.slice(-2), ['error', 'response.failed']);
  },
};

const kept = {
  async keptResponses() {
    const sdk = client();
    const first = await respond(sdk, { store: true });
    const again = await respond(sdk, { input: 'and now', previous_response_id: first.id });
    assert.deepEqual([again.previous_response_id, again.output_text], [first.id, 'You said: and now']);
    assert.equal((await sdk.responses.retrieve(first.id)).id, first.id);
    assert.equal((await collect(await sdk.responses.inputItems.list(first.id))).length, 1);
    if (native) assert.equal((await sdk.responses.cancel(first.id)).status, 'cancelled');
    await sdk.responses.delete(first.id);
  },
};

const unkept = {
  async whatNeedsKeptResponsesIsRefused() {
    await raises(OpenAI.BadRequestError, () => respond(client(), { previous_response_id: 'resp_1' }));
    await raises(OpenAI.BadRequestError, () => client().responses.retrieve('resp_1'));
  },
};

const checks = {
  ...responses,
  ...kept,
  ...(native ? {} : unkept),

  async chat() {
    const answer = await ask(client());
    assert.equal(answer.choices[0].message.content, echo);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.deepEqual([answer.usage.prompt_tokens, answer.usage.completion_tokens], [2, 4]);
  },

  async chatWithAnImage() {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'hello there' }, image] }];
    assert.equal((await ask(client(), { messages })).choices[0].message.content, echo);
  },

  async stream() {
    const chunks = await collect(await ask(client(), { stream: true }));
    assert.equal(texts(chunks), echo);
    assert.equal(chunks.filter((c) => c.choices.length).at(-1).choices[0].finish_reason, 'stop');
  },

  async streamWithUsage() {
    const chunks = await collect(await ask(client(), { stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.at(-1).usage.completion_tokens, 4);
    // A translated stream tells it with its finish as well.
    for (const { usage } of chunks.filter((c) => c.usage)) assert.deepEqual(usage, chunks.at(-1).usage);
    if (family === 'openai') assert.equal(chunks.filter((c) => c.usage).length, 1);
  },

  async streamHelper() {
    const stream = client().chat.completions.stream({ model, messages: hello });
    assert.equal(await stream.finalContent(), echo);
  },

  async toolCallAndItsResult() {
    const sdk = client();
    const answer = await ask(sdk, { tools, tool_choice: 'required' });
    assert.equal(answer.choices[0].finish_reason, 'tool_calls');
    const call = answer.choices[0].message.tool_calls[0];
    assert.deepEqual(JSON.parse(call.function.arguments), called);
    const result = { role: 'tool', tool_call_id: call.id, content: 'rain' };
    const next = await ask(sdk, { tools, messages: [...hello, answer.choices[0].message, result] });
    assert.equal(next.choices[0].message.content, 'You said: rain');
  },

  async streamedToolCall() {
    const stream = client().chat.completions.stream({ model, messages: hello, tools, tool_choice: 'required' });
    const { choices } = await stream.finalChatCompletion();
    assert.equal(choices[0].message.tool_calls[0].function.name, 'weather');
    assert.deepEqual(JSON.parse(choices[0].message.tool_calls[0].function.arguments), called);
  },

  async rawHeaders() {
    const options = { headers: { 'x-gateway-trace-id': 'sdk-trace' } };
    const { response } = await client().chat.completions.create({ model, messages: hello }, options).withResponse();
    assert.equal(response.headers.get('x-gateway-trace-id'), 'sdk-trace');
  },

  async unknownKeyIs401() {
    const error = await raises(OpenAI.AuthenticationError, () => ask(client({ apiKey: 'no-such-key' })));
    assert.equal(error.status, 401);
    assert.ok(error.error.message);
  },

  async boundIs400AndNamesTheField() {
    const error = await raises(OpenAI.BadRequestError, () => ask(client(), { temperature: 9 }));
    assert.equal(error.param, 'temperature');
    assert.match(error.message, /temperature/);
  },

  async upstream404() {
    await raises(OpenAI.NotFoundError, () => ask(client({ status: 404 })));
  },

  async tooManyRequestsKeepsItsHeaders() {
    const error = await raises(OpenAI.RateLimitError, () => ask(client({ status: 429, 'retry-after': 7 })));
    assert.equal(error.headers.get('retry-after'), '7');
  },

  async theSdkRetriesOnItsOwn() {
    const told = { 'fail-first': 1, status: 429, 'retry-after-ms': 1, id: `node-openai-${family}` };
    const answer = await ask(client({ maxRetries: 2, ...told }));
    assert.equal(answer.choices[0].message.content, echo);
  },

  async anErrorInTheStreamIsRaised() {
    await raises(OpenAI.APIError, async () => collect(await ask(client({ fault: 'error-mid' }), { stream: true })));
  },

  async leavingAStreamEndsIt() {
    const stream = await ask(client({ 'chunk-gap': 50, 'reply-bytes': 5000 }), { stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    assert.ok(stream.controller.signal.aborted);
  },
};

const openaiOnly = {
  async embeddings() {
    const [packed, plain] = await Promise.all([
      client().embeddings.create({ model: 'mock-embedding', input: ['a', 'b'] }),
      client().embeddings.create({ model: 'mock-embedding', input: ['a', 'b'], encoding_format: 'float' }),
    ]);
    assert.deepEqual([...packed.data[1].embedding], plain.data[1].embedding);
  },

  async models() {
    const ids = (await collect(await client().models.list())).map((m) => m.id);
    assert.ok(ids.includes('mock-large'), ids.join());
  },
};

await run(family === 'openai' ? { ...checks, ...openaiOnly } : checks);
