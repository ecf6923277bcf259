// SPDX-License-Identifier: Apache-2.0
export * from './redlock.js';
export {Redlock as default} from './redlock.js';
