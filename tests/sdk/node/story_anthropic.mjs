// The official `@anthropic-ai/sdk` package against strict providers of every dialect: conversations of several turns.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { key, raises, run, url } from './checks.mjs';
import { answer, asked, calls, city, comes, does, end, everywhere, left, named, over, pixel, thought } from './plan.mjs';

const client = (apiKey = key) => new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const said = (content) => [{ role: 'user', content }];
const ask = (slug, content, more = {}) => client().messages.create({ model: named(slug), max_tokens: 4000, messages: said(content), ...more });

const everyone = {
  // Which keeps the conversation at Anthropic, and falls back to sending it whole elsewhere.
  async toolRunner(slug) {
    const called = [];
    const does_it = (name) => ({ city: place }) => (called.push([name, place]), answer(name, place));
    const tools = Object.entries(does).map(([name, description]) => betaTool({ name, description, inputSchema: city, run: does_it(name) }));
    const message = await client().beta.messages.toolRunner({ model: named(slug), max_tokens: 4000, messages: said(asked), tools });
    assert.deepEqual([message.content.at(-1).text, called], [end, calls]);
  },

  async planWithThinkingStreamed(slug) {
    const tools = Object.entries(does).map(([name, description]) => ({ name, description, input_schema: city }));
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    const [messages, called, thoughts] = [said(asked), [], []];
    for (let turn = 0; turn < 5; turn += 1) {
      const stream = client().messages.stream({ model: named(slug), max_tokens: 4000, tools, thinking, messages });
      stream.on('thinking', (delta) => thoughts.push(delta));
      const { content } = await stream.finalMessage();
      messages.push({ role: 'assistant', content });
      const uses = content.filter(({ type }) => type === 'tool_use');
      if (!uses.length) break;
      for (const { name, input } of uses) called.push([name, input.city]);
      messages.push({ role: 'user', content: uses.map(({ id, name, input }) => ({ type: 'tool_result', tool_use_id: id, content: answer(name, input.city) })) });
    }
    assert.deepEqual([messages.at(-1).content.at(-1).text, called], [end, calls]);
    if (['story-claude', 'story-gemini'].includes(slug)) assert.equal(thoughts.join(''), thought.repeat(3));
  },

  async errors(slug) {
    const error = await raises(Anthropic.RateLimitError, () => ask(slug, 'error 429'));
    assert.equal(error.headers.get('retry-after'), '7');
    assert.match(error.message, /as it was asked to/);
  },
};

const sighted = {
  async image(slug) {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } };
    assert.equal((await ask(slug, [{ type: 'text', text: 'look' }, image])).content[0].text, 'I see 1 image.');
  },
};

await run({
  ...over(everywhere, everyone),
  ...over(everywhere.filter((slug) => slug !== 'story-mistral'), sighted),

  async aStreamThatIsLeftEndsUpstream() {
    const before = await left();
    const stream = await ask('story-claude', 'dawdle a while over these words', { stream: true });
    for await (const event of stream) if (event.type === 'content_block_delta') break;
    await comes("the end of the provider's stream", async () => (await left()) > before);
  },
});
