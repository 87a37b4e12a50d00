// Runs named checks one after the other and says which failed. The scripts use the official SDKs as their
// users do: only base URL, key and headers differ.

import assert from 'node:assert/strict';

export const url = process.env.TEST_URL;
export const key = process.env.TEST_KEY;
// What `x-gateway-provider` shall say, and the dialect that this provider speaks.
export const provider = process.env.TEST_PROVIDER;
export const family = process.env.TEST_FAMILY;

export const hello = [{ role: 'user', content: 'hello there' }];
export const echo = 'You said: hello there';
export const called = { city: 'mock city', days: 1 };
export const weather = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
};

/** Headers of a client; `{'fail-first': 1}` becomes `x-mock-fail-first: 1`, forwarded upstream. */
export function headers(mock = {}) {
  const told = Object.fromEntries(Object.entries(mock).map(([name, value]) => [`x-mock-${name}`, String(value)]));
  const names = Object.keys(told).join(',');
  return { 'x-gateway-provider': provider, ...told, ...(names && { 'x-gateway-forward-headers': names }) };
}

/** The error of this class that `call` ends with. */
export async function raises(kind, call) {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof kind, `${error?.constructor?.name} instead of ${kind.name}: ${error?.stack}`);
    return error;
  }
  assert.fail(`${kind.name} was not raised`);
}

export async function collect(stream) {
  const all = [];
  for await (const item of stream) all.push(item);
  return all;
}

export async function run(checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}\n${error?.stack ?? error}`);
    }
  }
  process.exit(failed ? 1 : 0);
}
