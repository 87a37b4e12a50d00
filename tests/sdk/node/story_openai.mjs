// The official `openai` package against strict providers of every dialect: conversations of several turns.

import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { collect, key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, city, comes, does, end, everywhere, left, named, over, pixel } from './plan.mjs';

const client = (apiKey = key) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const said = (content) => [{ role: 'user', content }];
const ask = (slug, content, more = {}) => client().chat.completions.create({ model: named(slug), messages: said(content), ...more });

/** The tools as `runTools` wants them, and what was called. */
function runnable() {
  const called = [];
  const tools = Object.entries(does).map(([name, description]) => {
    const does_it = ({ city: place }) => (called.push([name, place]), answer(name, place));
    return { type: 'function', function: { name, description, parameters: city, parse: JSON.parse, function: does_it } };
  });
  return { called, tools };
}

const everyone = {
  async runTools(slug) {
    const { called, tools } = runnable();
    const runner = client().chat.completions.runTools({ model: named(slug), messages: said(asked), tools });
    assert.deepEqual([await runner.finalContent(), called], [end, calls]);
  },

  async runToolsStreamed(slug) {
    const { called, tools } = runnable();
    const runner = client().chat.completions.runTools({ model: named(slug), messages: said(asked), tools, stream: true });
    assert.deepEqual([await runner.finalContent(), called], [end, calls]);
  },

  async responsesOfThreeSteps(slug) {
    const tools = Object.entries(does).map(([name, description]) => ({ type: 'function', name, description, parameters: city, strict: true }));
    const [input, called] = [said(asked), []];
    let response;
    for (let turn = 0; turn < 5; turn += 1) {
      response = await client().responses.stream({ model: named(slug), input, tools, store: false }).finalResponse();
      input.push(...response.output.map(({ parsed_arguments, ...item }) => item));
      const wanted = response.output.filter(({ type }) => type === 'function_call');
      if (!wanted.length) break;
      for (const { call_id, name, arguments: text } of wanted) {
        const place = JSON.parse(text).city;
        called.push([name, place]);
        input.push({ type: 'function_call_output', call_id, output: answer(name, place) });
      }
    }
    assert.deepEqual([response.output_text, called], [end, calls]);
  },

  async structuredOutput(slug) {
    const response_format = zodResponseFormat(z.object({ city: z.string(), days: z.number() }), 'trip');
    const { choices } = await client().chat.completions.parse({ model: named(slug), messages: said('which trip'), response_format });
    assert.deepEqual(choices[0].message.parsed, { city: 'mock', days: 1 });
  },

  async errors(slug) {
    const error = await raises(OpenAI.RateLimitError, () => ask(slug, 'error 429'));
    assert.equal(error.headers.get('retry-after'), '7');
    assert.match(error.message, /as it was asked to/);
    await raises(OpenAI.BadRequestError, () => ask(slug, 'error 400', { stream: true }));
  },
};

const sighted = {
  async image(slug) {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } };
    assert.equal((await ask(slug, [{ type: 'text', text: 'look' }, image])).choices[0].message.content, 'I see 1 image.');
  },
};

await run({
  ...over(everywhere, everyone),
  ...over(everywhere.filter((slug) => slug !== 'story-mistral'), sighted),

  async usageOfAStream() {
    const chunks = await collect(await ask('story-gemini', 'hello', { stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual([chunks.at(-1).usage.prompt_tokens, chunks.at(-1).usage.completion_tokens], [50, 8]);
  },

  async aStreamThatIsLeftEndsUpstream() {
    const before = await left();
    for await (const chunk of await ask('story-claude', 'dawdle a while over these words', { stream: true })) if (chunk.choices[0]?.delta.content) break;
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },
});
