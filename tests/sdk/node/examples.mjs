// The JavaScript of docs/clients.md, as it stands there: each block by itself, against providers of the slugs that it names.

import { readFile, writeFile } from 'node:fs/promises';
import { key, run, url } from './checks.mjs';

const page = await readFile(process.env.TEST_PAGE, 'utf8');
process.env.WORKSPACE_KEY = key;
// What the examples take for granted.
const given = `const messages = [{ role: 'user', content: 'Hello' }];`;

const checks = {};
for (const part of page.split(/^## /m).slice(1)) {
  const title = part.split('\n')[0];
  const blocks = [...part.matchAll(/^```js\n(.*?)^```/gms)].map(([, code]) => code);
  if (!blocks.length) continue;
  // The blocks of a title belong together.
  const code = [given, ...blocks].join('\n').replaceAll('http://127.0.0.1:8787', url);
  checks[title] = async () => {
    const file = new URL(`./example-${Object.keys(checks).indexOf(title)}.mjs`, import.meta.url);
    await writeFile(file, code);
    await import(file);
  };
}
await run(checks);
