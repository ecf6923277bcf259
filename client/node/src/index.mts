// SPDX-License-Identifier: Apache-2.0
//
// For `import`: the same code as for `require`, so that a process that uses both has one class of each error.
export * from './index.js';
