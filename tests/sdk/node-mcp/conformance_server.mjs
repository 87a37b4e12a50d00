// The official conformance suite asks one server twice, directly and through the gateway: every verdict must be the same.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODE, SUITE, freePort, keyed, listening, register, run } from './place.mjs';

const { TEST_PYTHON, TEST_PYTHON_2, TEST_SCRIPTS } = process.env;

/** Of each version all that the suite asks. */
const SETS = [
  ['--spec-version', '2025-03-26'],
  ['--spec-version', '2025-06-18'],
  ['--requirements', '2025-11-25'],
  ['--requirements', '2026-07-28'],
];

/** Verdicts by scenario and check. */
async function verdicts(url, set) {
  const folder = mkdtempSync(join(tmpdir(), 'conformance-'));
  await run(NODE, [SUITE, 'server', '--url', url, ...set, '--output-dir', folder], { mayFail: true });
  const found = [];
  for (const scenario of readdirSync(folder).sort()) {
    const checks = JSON.parse(readFileSync(join(folder, scenario, 'checks.json'), 'utf8'));
    const name = scenario.replace(/-\d{4}-\d{2}-\d{2}T.*$/, '');
    for (const check of checks) found.push(`${name} ${check.id} ${check.status}`);
  }
  rmSync(folder, { recursive: true });
  return found.sort();
}

const port = await freePort();
const script = join(TEST_SCRIPTS, 'mcp_conformance_server.py');
await listening(TEST_PYTHON, ['-B', script, String(port)], port, { PYTHONPATH: TEST_PYTHON_2 });
const direct = `http://127.0.0.1:${port}/mcp`;
const told = await register('suite', direct);
assert.equal(told.protocol_version, '2026-07-28');
const way = await keyed();
let passed = 0;
for (const set of SETS) {
  const alone = await verdicts(direct, set);
  const behind = await verdicts(`${way}/suite/mcp`, set);
  assert.deepEqual(behind, alone, set.join(' '));
  const failed = alone.filter((verdict) => verdict.endsWith('FAILURE') && !verdict.includes('tasks-'));
  assert.deepEqual(failed, [], 'the server that is asked does what the suite wants');
  passed += alone.filter((verdict) => verdict.endsWith('SUCCESS')).length;
}
assert.ok(passed > 250, `${passed} checks passed`);
console.log(`ok ${passed} checks alike`);
process.exit(0);
