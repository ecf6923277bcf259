// SPDX-License-Identifier: Apache-2.0
//
// says(sentence, test) names the sentence of the contract that a test is about, and checks that it is still there.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {REPOSITORY} from './package.mjs';

const words = text => text.replace(/[\s*`]+|\/\//g, ' ').split(/\s+/).filter(word => word !== '').join(' ');
const CONTRACT = ['session.md', 'lock_service.proto', 'lock.proto', 'look.proto']
  .map(name => words(readFileSync(`${REPOSITORY}proto/distlock/v1/${name}`, 'utf8'))).join(' ');

/** A test of a sentence, or of a part of one. Line breaks and markup do not matter. */
export function says(sentence, what, run) {
  test(`${what} ("${sentence}")`, async context => {
    assert.ok(CONTRACT.includes(words(sentence)), `the contract does not say: ${sentence}`);
    await run(context);
  });
}
