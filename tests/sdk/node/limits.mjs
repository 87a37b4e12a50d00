// What the gateway tells of its limits, the official `openai` package does: it waits as long as it is told to, and tries
// nothing again that cannot pass.

import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { echo, headers, hello, raises, run, url } from './checks.mjs';

const { TEST_SECOND_KEY: second, TEST_WEEK_KEY: week, TEST_BUDGET_KEY: budget } = process.env;

/** A client with its wire: when each request left, and what came back when. */
function wired(apiKey) {
  const wire = [];
  const noted = async (...request) => {
    const sent = performance.now();
    const answer = await fetch(...request);
    wire.push({ sent, back: performance.now(), status: answer.status, headers: answer.headers });
    return answer;
  };
  const sdk = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 3, defaultHeaders: headers(), fetch: noted });
  const ask = async () => {
    const answer = await sdk.chat.completions.create({ model: 'mock-large', messages: hello });
    assert.equal(answer.choices[0].message.content, echo);
  };
  return { wire, ask };
}

const checks = {
  async itWaitsWhatItIsTold() {
    const { wire, ask } = wired(second);
    const refused = () => wire.findIndex((answer) => answer.status === 429);
    // The first two may fall into different seconds, twenty do not.
    for (let tries = 0; tries < 20 && refused() < 0; tries += 1) await ask();
    const [told, next] = wire.slice(refused());
    const wanted = Number(told.headers.get('retry-after-ms'));
    const waited = next.sent - told.back;
    assert.ok(waited >= wanted - 10 && waited <= wanted + 250, `told to wait ${wanted} ms, waited ${waited} ms`);
    assert.equal(next.status, 200);
  },

  async aWeekIsNotWaitedFor() {
    const { wire, ask } = wired(week);
    await raises(OpenAI.RateLimitError, ask);
    assert.deepEqual(wire.map((answer) => answer.status), [429]);
  },

  async aBudgetIsNotTriedAgain() {
    const { wire, ask } = wired(budget);
    const error = await raises(OpenAI.APIError, ask);
    assert.equal(error.status, 412);
    assert.deepEqual(wire.map((answer) => answer.status), [412]);
  },
};

await run(checks);
