// The official `@google/genai` package on Gemini's own API, passed through, with the gateway's key for its own.

import assert from 'node:assert/strict';
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, createPartFromFunctionResponse } from '@google/genai';
import { collect, key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, city, comes, does, end, left, models, pixel, seen, thought } from './plan.mjs';

const model = models['story-gemini'];
const tools = [{ functionDeclarations: Object.entries(does).map(([name, description]) => ({ name, description, parametersJsonSchema: city })) }];

function client(apiKey = key, provider = '@story-gemini') {
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl: `${url}/v1/proxy`, headers: { 'x-gateway-provider': provider } } });
}

const ask = (contents, config = {}, sdk = client()) => sdk.models.generateContent({ model, contents, config });

async function plan(next) {
  const contents = [{ role: 'user', parts: [{ text: asked }] }];
  const called = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const parts = await next(contents);
    contents.push({ role: 'model', parts });
    const wanted = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
    if (!wanted.length) return { said: parts.filter((part) => !part.thought).map((part) => part.text).join(''), called, contents };
    for (const { name, args } of wanted) called.push([name, args.city]);
    contents.push({ role: 'user', parts: wanted.map(({ id, name, args }) => createPartFromFunctionResponse(id ?? '', name, { output: answer(name, args.city) })) });
  }
  assert.fail(`no end: ${called}`);
}

await run({
  async content() {
    const made = await ask('hello there');
    assert.equal(made.text, 'You said: hello there');
    assert.deepEqual([made.usageMetadata.promptTokenCount, made.usageMetadata.candidatesTokenCount], [50, 8]);
  },

  async stream() {
    const chunks = await collect(await client().models.generateContentStream({ model, contents: 'hello there' }));
    assert.equal(chunks.map((chunk) => chunk.text ?? '').join(''), 'You said: hello there');
    assert.ok(chunks.length >= 4, `${chunks.length} chunks`);
  },

  async planOfThreeSteps() {
    const { said, called } = await plan(async (contents) => (await ask(contents, { tools })).candidates[0].content.parts);
    assert.deepEqual([said, called], [end, calls]);
  },

  async planWithThinkingStreamed() {
    const config = { tools, thinkingConfig: { includeThoughts: true } };
    const next = async (contents) => {
      const chunks = await collect(await client().models.generateContentStream({ model, contents, config }));
      return chunks.flatMap((chunk) => chunk.candidates[0].content.parts).filter((part) => part.text !== '');
    };
    const { said, called, contents } = await plan(next);
    assert.deepEqual([said, called], [end, calls]);
    assert.equal(contents.flatMap(({ parts }) => parts).filter((part) => part.thought).length, 3);
    assert.ok(contents.some(({ parts }) => parts.some((part) => part.text === thought)));
  },

  async chatsRemember() {
    const chat = client().chats.create({ model });
    assert.equal((await chat.sendMessage({ message: 'hello there' })).text, 'You said: hello there');
    assert.equal((await chat.sendMessage({ message: 'and now' })).text, 'You said: and now');
  },

  async structuredOutputAndAnImage() {
    const made = await ask('which trip', { responseMimeType: 'application/json', responseJsonSchema: city });
    assert.deepEqual(JSON.parse(made.text), { city: 'mock' });
    const image = { inlineData: { data: pixel, mimeType: 'image/png' } };
    assert.equal((await ask([{ role: 'user', parts: [{ text: 'look' }, image] }])).text, 'I see 1 image.');
  },

  async embeddingsAndTokens() {
    const sdk = client();
    const { embeddings } = await sdk.models.embedContent({ model, contents: ['a', 'b'] });
    assert.deepEqual(embeddings.map(({ values }) => values), [[0.5, -0.25, 1], [0.5, -0.25, 1]]);
    assert.equal((await sdk.models.countTokens({ model, contents: 'hello' })).totalTokens, 50);
  },

  async models() {
    const names = (await collect(await client().models.list())).map(({ name }) => name);
    assert.deepEqual(names, ['models/gemini-3-story']);
  },

  async errors() {
    const error = await raises(ApiError, () => ask('error 429'));
    assert.equal(error.status, 429);
    assert.match(error.message, /as it was asked to/);
    const forced = { toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } }, tools };
    const streamed = client().models.generateContentStream({ model, contents: 'error 400', config: forced });
    assert.equal((await raises(ApiError, () => streamed)).status, 400);
    const unknown = await raises(ApiError, () => ask('hello', {}, client('nobody')));
    assert.equal(unknown.status, 401);
    assert.match(unknown.message, /key/i);
    const nowhere = await raises(ApiError, () => ask('hello', {}, client(key, '@no-such')));
    assert.match(nowhere.message, /no-such/);
  },

  async aStreamThatIsLeftEndsUpstream() {
    const before = await left();
    const leaving = new AbortController();
    const config = { abortSignal: leaving.signal };
    const stream = await client().models.generateContentStream({ model, contents: 'dawdle a while over these words', config });
    await stream.next();
    leaving.abort();
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },

  async theGatewaysKeyStaysHere() {
    await ask('what do you see');
    const { path, headers } = (await seen()).filter(({ body }) => JSON.stringify(body).includes('what do you see')).at(-1);
    assert.deepEqual([headers['x-goog-api-key'], headers['x-gateway-provider']], ['sk-managed', undefined]);
    assert.match(path, new RegExp(`^/v1\\w*/models/${model}:generateContent`));
  },
});
