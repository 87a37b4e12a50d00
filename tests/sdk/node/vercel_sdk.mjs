// Vercel's AI SDK (`ai`) with its providers for OpenAI, OpenAI-compatible services, Anthropic and Google.

import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, Output, embedMany, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { collect, key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, comes, does, end, everywhere, left, models, named, over, pixel, thought } from './plan.mjs';

const openai = (apiKey) => createOpenAI({ baseURL: `${url}/v1`, apiKey });
const compatible = (apiKey) =>
  createOpenAICompatible({ name: 'gateway', baseURL: `${url}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const header = (slug) => ({ 'x-gateway-provider': `@${slug}` });

const ways = {
  chat: (slug, apiKey) => openai(apiKey).chat(named(slug)),
  responses: (slug, apiKey) => openai(apiKey)(named(slug)),
  compatible: (slug, apiKey) => compatible(apiKey)(named(slug)),
  // By a header, since what a model can do is known by the beginning of its name.
  anthropic: (slug, apiKey) => createAnthropic({ baseURL: `${url}/v1`, apiKey, headers: header(slug) })('claude-sonnet-4-5'),
  google: (slug, apiKey) => createGoogleGenerativeAI({ baseURL: `${url}/v1/proxy/v1beta`, apiKey, headers: header(slug) })(models[slug]),
};
const all = [
  ...['chat', 'compatible', 'anthropic', 'responses'].flatMap((way) => everywhere.map((slug) => `${way} ${slug}`)),
  'google story-gemini',
];
function ask(told, more = {}, apiKey = key) {
  const [way, slug] = told.split(' ');
  return { model: ways[way](slug, apiKey), maxRetries: 0, ...more };
}

function tools() {
  const called = [];
  const inputSchema = z.object({ city: z.string() });
  const made = Object.entries(does).map(([name, description]) => {
    const execute = async ({ city }) => (called.push([name, city]), answer(name, city));
    return [name, tool({ description, inputSchema, execute })];
  });
  return { called, plan: { prompt: asked, tools: Object.fromEntries(made), stopWhen: stepCountIs(5) } };
}

const everyone = {
  async text(told) {
    const { text, usage, finishReason } = await generateText(ask(told, { prompt: 'hello there' }));
    assert.deepEqual([text, finishReason], ['You said: hello there', 'stop']);
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [50, 8]);
  },

  async stream(told) {
    const stream = streamText(ask(told, { prompt: 'hello there' }));
    const pieces = await collect(stream.textStream);
    assert.equal(pieces.join(''), 'You said: hello there');
    assert.ok(pieces.length >= 4, `${pieces.length} pieces`);
    const usage = await stream.usage;
    assert.deepEqual([usage.inputTokens, usage.outputTokens], [50, 8]);
  },

  async planOfThreeSteps(told) {
    const { called, plan } = tools();
    const { text, steps } = await generateText(ask(told, plan));
    assert.deepEqual([text, called, steps.length], [end, calls, 3]);
  },

  async planStreamed(told) {
    const { called, plan } = tools();
    const stream = streamText(ask(told, { ...plan, onError: () => {} }));
    await stream.consumeStream();
    assert.deepEqual([await stream.text, called, (await stream.steps).length], [end, calls, 3]);
  },

  async structuredOutput(told) {
    const output = Output.object({ schema: z.object({ city: z.string(), days: z.number() }) });
    const { output: trip } = await generateText(ask(told, { prompt: 'which trip', output }));
    assert.deepEqual(trip, { city: 'mock', days: 1 });
  },

  async errors(told) {
    const error = await raises(APICallError, () => generateText(ask(told, { prompt: 'error 429' })));
    assert.deepEqual([error.statusCode, error.responseHeaders['retry-after'], error.isRetryable], [429, '7', true]);
    assert.match(error.message, /as it was asked to/);
    const unknown = await raises(APICallError, () => generateText(ask(told, { prompt: 'hello' }, 'nobody')));
    assert.equal(unknown.statusCode, 401);
    assert.match(unknown.message, /key/i);
  },

  async retriesOfTheSdk(told) {
    const prompt = `fail 1 times as vercel-${told.replace(' ', '-')}`;
    const { text } = await generateText(ask(told, { prompt, maxRetries: 2 }));
    assert.equal(text, `You said: ${prompt}`);
  },
};

const sighted = {
  async image(told) {
    const content = [{ type: 'text', text: 'look' }, { type: 'image', image: pixel, mediaType: 'image/png' }];
    const { text } = await generateText(ask(told, { messages: [{ role: 'user', content }] }));
    assert.equal(text, 'I see 1 image.');
  },
};

const thinking = {
  async planWithThinking(told) {
    const { called, plan } = tools();
    const providerOptions = {
      anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } },
      google: { thinkingConfig: { includeThoughts: true, thinkingLevel: 'low' } },
      openai: { store: false, reasoningEffort: 'low', forceReasoning: true, reasoningSummary: 'auto' },
    };
    const stream = streamText(ask(told, { ...plan, providerOptions, onError: () => {} }));
    await stream.consumeStream();
    assert.deepEqual([await stream.text, called], [end, calls]);
    const thoughts = (await stream.steps).map((step) => step.reasoningText);
    assert.deepEqual(thoughts, [thought, thought, thought]);
  },
};

const embedding = {
  async embeddings(told) {
    const [way, slug] = told.split(' ');
    const model = { chat: () => openai(key).embedding(named(slug)), compatible: () => compatible(key).embeddingModel(named(slug)) };
    const { embeddings } = await embedMany({ model: model[way](), values: ['a', 'b'] });
    assert.deepEqual(embeddings, [[0.5, -0.25, 1], [0.5, -0.25, 1]]);
  },
};

const once = {
  async 'a plan of which everything is sent whole'() {
    const { called, plan } = tools();
    const model = openai(key)(named('story-claude'));
    const providerOptions = { openai: { store: false } };
    const { text } = await generateText({ model, maxRetries: 0, providerOptions, ...plan });
    assert.deepEqual([text, called], [end, calls]);
  },

  async 'a response that is not kept names the way out'() {
    const model = openai(key)(named('story-claude'));
    const providerOptions = { openai: { previousResponseId: 'resp_of_nobody' } };
    const error = await raises(APICallError, () => generateText({ model, maxRetries: 0, prompt: 'hello', providerOptions }));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /store: false/);
  },

  async 'a stream that is left ends upstream'() {
    const before = await left();
    const leaving = new AbortController();
    const stream = streamText(ask('chat story-claude', { prompt: 'dawdle a while over these words', abortSignal: leaving.signal }));
    for await (const piece of stream.textStream) if (piece) leaving.abort();
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },
};

await run({
  ...over(all, everyone),
  ...over(all.filter((told) => !told.endsWith('mistral')), sighted),
  ...over(['anthropic story-claude', 'google story-gemini', 'responses story-claude', 'responses story-gemini'], thinking),
  ...over(['chat story-openai', 'chat story-gemini', 'compatible story-mistral', 'compatible story-cohere'], embedding),
  ...once,
});
