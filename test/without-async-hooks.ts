/**
 * Loaded before each test file by `test/suite.ts`. tap follows every promise with `async_hooks`, to report an uncaught
 * error as a failure of its subtest, which takes a quarter of the suite's processor time. Without that, an uncaught
 * error ends the process, which is a failure of the file.
 */
import hooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const inactive: AsyncHook = { enable: () => inactive, disable: () => inactive }
hooks.createHook = () => inactive
syncBuiltinESMExports()
