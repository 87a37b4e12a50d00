// The other half of ../python/provider/story.py: its providers by their slugs, the tools that its plan calls, and what
// must have come of it. Knows no SDK.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

// The slug of each provider that plays the story, and a model that its dialect knows by name.
export const models = {
  'story-openai': 'gpt-story',
  'story-claude': 'claude-sonnet-4-5',
  'story-gemini': 'gemini-3-story',
  'story-cohere': 'command-story',
  'story-mistral': 'mistral-story',
  'story-bedrock': 'amazon.nova-story-v1:0',
};
export const everywhere = Object.keys(models);
export const asked = 'plan a trip';
export const end = 'Booked Rome for you.';
export const calls = [['weather', 'Paris'], ['weather', 'Rome'], ['book', 'Rome']];
export const thought = 'Rome is warmer than Paris.';
export const does = { weather: 'Weather of a city', book: 'Books a trip to a city' };
export const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
export const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** The model as a client names it that names its provider there. */
export const named = (slug) => `@${slug}/${models[slug]}`;
export const answer = (name, place) => (name === 'weather' ? `sunny in ${place}` : `booked ${place}`);

const upstream = process.env.TEST_UPSTREAM;
/** The requests that reached the provider so far. */
export const seen = async () => (await fetch(`${upstream}/__seen`)).json();
/** How many streams were left by their client. */
export const left = async () => (await fetch(`${upstream}/__left`)).json();

/** Waits until `probe` holds; the bound only ends a broken test. */
export async function comes(what, probe) {
  for (const until = Date.now() + 15_000; !(await probe()); await sleep(10)) assert.ok(Date.now() < until, `never came: ${what}`);
}

/** One check for each of these, with its name behind the check's. */
export const over = (names, checks) =>
  Object.fromEntries(names.flatMap((name) => Object.entries(checks).map(([is, check]) => [`${is} ${name}`, () => check(name)])));
