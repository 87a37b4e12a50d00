// The official `@mistralai/mistralai` package: it speaks chat, so that it reaches every provider.

import assert from 'node:assert/strict';
import { HTTPClient, Mistral } from '@mistralai/mistralai';
import { MistralError } from '@mistralai/mistralai/models/errors';
import { z } from 'zod';
import { collect, key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, city, comes, does, end, everywhere, left, models, named, over, pixel } from './plan.mjs';

const client = (apiKey = key) => new Mistral({ apiKey, serverURL: url });
const ask = (slug, content, more = {}) => client().chat.complete({ model: named(slug), messages: [{ role: 'user', content }], ...more });
const tools = Object.entries(does).map(([name, description]) => ({ type: 'function', function: { name, description, parameters: city } }));
const parsed = (text) => (typeof text === 'string' ? JSON.parse(text) : text);

const everyone = {
  async chat(slug) {
    const { choices, usage } = await ask(slug, 'hello there');
    assert.deepEqual([choices[0].message.content, choices[0].finishReason], ['You said: hello there', 'stop']);
    assert.deepEqual([usage.promptTokens, usage.completionTokens], [50, 8]);
  },

  async stream(slug) {
    const stream = await client().chat.stream({ model: named(slug), messages: [{ role: 'user', content: 'hello there' }] });
    const chunks = (await collect(stream)).map(({ data }) => data);
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), 'You said: hello there');
  },

  async planOfThreeSteps(slug) {
    const messages = [{ role: 'user', content: asked }];
    const called = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const { message } = (await client().chat.complete({ model: named(slug), messages, tools })).choices[0];
      messages.push({ ...message, role: 'assistant' });
      if (!message.toolCalls?.length) break;
      for (const { id, function: wanted } of message.toolCalls) {
        const place = parsed(wanted.arguments).city;
        called.push([wanted.name, place]);
        messages.push({ role: 'tool', name: wanted.name, toolCallId: id, content: answer(wanted.name, place) });
      }
    }
    assert.deepEqual([messages.at(-1).content, called], [end, calls]);
  },

  async structuredOutput(slug) {
    const responseFormat = z.object({ city: z.string(), days: z.number() });
    const { choices } = await client().chat.parse({ model: named(slug), messages: [{ role: 'user', content: 'which trip' }], responseFormat });
    assert.deepEqual(choices[0].message.parsed, { city: 'mock', days: 1 });
  },

  async errors(slug) {
    const error = await raises(MistralError, () => ask(slug, 'error 429'));
    assert.deepEqual([error.statusCode, error.headers.get('retry-after')], [429, '7']);
    assert.match(error.body, /as it was asked to/);
  },
};

const sighted = {
  async image(slug) {
    const image = { type: 'image_url', imageUrl: `data:image/png;base64,${pixel}` };
    assert.equal((await ask(slug, [{ type: 'text', text: 'look' }, image])).choices[0].message.content, 'I see 1 image.');
  },
};

await run({
  ...over(everywhere, everyone),
  // OpenAI takes an address as an object only, and gets what the client sent.
  ...over(everywhere.filter((slug) => slug !== 'story-openai'), sighted),

  // The SDK asks of every answer an id, which Mistral's have and OpenAI's have not.
  async embeddings() {
    const { data } = await client().embeddings.create({ model: named('story-mistral'), inputs: ['a', 'b'] });
    assert.deepEqual(data.map(({ embedding }) => embedding), [[0.5, -0.25, 1], [0.5, -0.25, 1]]);
  },

  async theProviderByAHeaderOfAllCalls() {
    const httpClient = new HTTPClient();
    httpClient.addHook('beforeRequest', (request) => {
      request.headers.set('x-gateway-provider', '@story-claude');
    });
    const sdk = new Mistral({ apiKey: key, serverURL: url, httpClient });
    const { choices } = await sdk.chat.complete({ model: models['story-claude'], messages: [{ role: 'user', content: 'hello' }] });
    assert.equal(choices[0].message.content, 'You said: hello');
  },

  async aBadKeyAndABadProvider() {
    const messages = [{ role: 'user', content: 'x' }];
    const unknown = await raises(MistralError, () => client('nobody').chat.complete({ model: 'x', messages }));
    assert.equal(unknown.statusCode, 401);
    const nowhere = await raises(MistralError, () => client().chat.complete({ model: '@no-such/x', messages }));
    assert.match(nowhere.body, /no-such/);
  },

  async aStreamThatIsLeftEndsUpstream() {
    const before = await left();
    const messages = [{ role: 'user', content: 'dawdle a while over these words' }];
    for await (const _ of await client().chat.stream({ model: named('story-mistral'), messages })) break;
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },
});
