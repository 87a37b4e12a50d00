// The official `cohere-ai` package on Cohere's own API, passed through: chat, embed, rerank.

import assert from 'node:assert/strict';
import { CohereClientV2, CohereError } from 'cohere-ai';
import { collect, key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, city, comes, does, end, left, models, named, pixel } from './plan.mjs';

const model = models['story-cohere'];
const options = { headers: { 'x-gateway-provider': '@story-cohere' }, maxRetries: 0 };
const client = (token = key) => new CohereClientV2({ token, environment: `${url}/v1/proxy` });
const said = (content) => [{ role: 'user', content }];
const ask = (content, more = {}, token = key) => client(token).chat({ model, messages: said(content), ...more }, options);
const tools = Object.entries(does).map(([name, description]) => ({ type: 'function', function: { name, description, parameters: city } }));

await run({
  async chat() {
    const { message, finishReason, usage } = await ask('hello there');
    assert.deepEqual([message.content[0].text, finishReason], ['You said: hello there', 'COMPLETE']);
    assert.deepEqual([usage.tokens.inputTokens, usage.tokens.outputTokens], [50, 8]);
  },

  async theProviderNamedByTheModel() {
    const { message } = await client().chat({ model: named('story-cohere'), messages: said('hello there') });
    assert.equal(message.content[0].text, 'You said: hello there');
  },

  async stream() {
    const events = await collect(await client().chatStream({ model, messages: said('hello there') }, options));
    const texts = events.filter(({ type }) => type === 'content-delta').map(({ delta }) => delta.message.content.text);
    assert.deepEqual([texts.join(''), texts.length, events.at(-1).type], ['You said: hello there', 4, 'message-end']);
  },

  async planOfThreeSteps() {
    const messages = said(asked);
    const called = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const { message } = await client().chat({ model, messages, tools }, options);
      messages.push(message);
      if (!message.toolCalls?.length) break;
      for (const { id, function: wanted } of message.toolCalls) {
        const place = JSON.parse(wanted.arguments).city;
        called.push([wanted.name, place]);
        messages.push({ role: 'tool', toolCallId: id, content: answer(wanted.name, place) });
      }
    }
    assert.deepEqual([messages.at(-1).content[0].text, called], [end, calls]);
  },

  async jsonAndAnImage() {
    const { message } = await ask('some json', { responseFormat: { type: 'json_object', jsonSchema: city } });
    assert.deepEqual(JSON.parse(message.content[0].text), { city: 'mock' });
    const image = { type: 'image_url', imageUrl: { url: `data:image/png;base64,${pixel}` } };
    assert.equal((await ask([{ type: 'text', text: 'look' }, image])).message.content[0].text, 'I see 1 image.');
  },

  async embed() {
    const asked = { model: 'embed-story', texts: ['a', 'b'], inputType: 'search_document', embeddingTypes: ['float'] };
    const { embeddings } = await client().embed(asked, options);
    assert.deepEqual(embeddings.float, [[0.5, -0.25, 1], [0.5, -0.25, 1]]);
  },

  async rerank() {
    const { results } = await client().rerank({ model: 'rerank-story', query: 'which', documents: ['a', 'b', 'c'], topN: 2 }, options);
    assert.deepEqual(results.map(({ index }) => index), [0, 1]);
  },

  async errors() {
    const error = await raises(CohereError, () => ask('error 429'));
    assert.deepEqual([error.statusCode, error.rawResponse.headers.get('retry-after')], [429, '7']);
    assert.match(error.message, /as it was asked to/);
    const unknown = await raises(CohereError, () => ask('hello', {}, 'nobody'));
    assert.equal(unknown.statusCode, 401);
    assert.match(unknown.message, /key/i);
  },

  async retriesOfTheSdk() {
    const asked = 'fail 1 times as cohere-node';
    const { message } = await client().chat({ model, messages: said(asked) }, { ...options, maxRetries: 2 });
    assert.equal(message.content[0].text, `You said: ${asked}`);
  },

  async aStreamThatIsLeftEndsUpstream() {
    const before = await left();
    const leaving = new AbortController();
    const messages = said('dawdle a while over these words');
    const stream = await client().chatStream({ model, messages }, { ...options, abortSignal: leaving.signal });
    const read = async () => { for await (const _ of stream) leaving.abort(); };
    await read().catch(() => {});
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },
});
