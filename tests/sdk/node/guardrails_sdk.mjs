// Guardrails as users of the official `openai` and `@anthropic-ai/sdk` packages meet them.

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { collect, echo, hello, key, provider, raises, run, url } from './checks.mjs';

const model = 'mock-large';
const told = (keys) => ({ 'x-gateway-config': JSON.stringify({ provider, ...keys }) });
const forbids = (word, actions = {}) => ({ 'default.contains': { words: [word], operator: 'none' }, ...actions });
const redacts = (rule) => ({ 'default.regexReplace': { rule, redactText: '[X]' } });
const oa = (keys) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 2, defaultHeaders: told(keys) });
const claude = (keys) => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 2, defaultHeaders: told(keys) });
const chat = (keys, more = {}) => oa(keys).chat.completions.create({ model, messages: hello, ...more });
const message = (keys, more = {}) => claude(keys).messages.create({ model, max_tokens: 100, messages: hello, ...more });
const said = (chunks) => chunks.map((c) => c.choices[0]?.delta?.content ?? '').join('');

await run({
  async 'a denied request is an error'() {
    const keys = { input_guardrails: [forbids('hello', { deny: true })] };
    const error = await raises(OpenAI.APIError, () => chat(keys));
    assert.deepEqual([error.status, error.type], [446, 'hooks_failed']);
    assert.equal((await raises(Anthropic.APIError, () => message(keys))).status, 446);
  },

  async 'a soft failure is an answer'() {
    const answer = await chat({ output_guardrails: [forbids('hello')] });
    assert.equal(answer.choices[0].message.content, echo);
    assert.equal(answer.hook_results.after_request_hooks[0].verdict, false);
  },

  async 'a soft denial is an answer of the model'() {
    const keys = { input_guardrails: [forbids('hello', { deny: true, soft_deny_200: true })] };
    assert.match((await chat(keys)).choices[0].message.content, /guardrail/);
    assert.equal((await message(keys)).stop_reason, 'end_turn');
    assert.match(said(await collect(await chat(keys, { stream: true }))), /guardrail/);
    assert.match(await claude(keys).messages.stream({ model, max_tokens: 100, messages: hello }).finalText(), /guardrail/);
  },

  async 'a redaction is the same streamed and whole'() {
    const keys = { output_guardrails: [redacts('said|ther')] };
    const whole = (await chat(keys)).choices[0].message.content;
    assert.equal(whole, 'You [X]: hello [X]e');
    assert.equal(said(await collect(await chat(keys, { stream: true }))), whole);
    assert.equal(await claude(keys).messages.stream({ model, max_tokens: 100, messages: hello }).finalText(), whole);
  },

  async 'a cut stream raises'() {
    const keys = { output_guardrails: [forbids('there', { deny: true })] };
    const error = await raises(OpenAI.APIError, async () => collect(await chat(keys, { stream: true })));
    assert.match(error.message, /guardrail/);
    await raises(Anthropic.APIError, async () => collect(await message(keys, { stream: true })));
  },
});
