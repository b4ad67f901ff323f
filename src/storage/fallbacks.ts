/**
 * What Storage does if its driver lacks an ability. A method that is absent and a call that rejects with `unsupported`
 * are equivalent; only this folder handles either. Storage itself rejects with `unsupported` only where this table says
 * so, and of what a handle by streams cannot do.
 *
 * | ability          | without it                                                                                |
 * | ---------------- | ----------------------------------------------------------------------------------------- |
 * | `traits`         | `defaultTraits`                                                                           |
 * | `write`          | the storage is read-only: every change rejects                                            |
 * | `mkdir`          | rejects                                                                                   |
 * | `remove`         | rejects                                                                                   |
 * | `move`           | `tryMove` resolves to false, and `src/transfer/` copies and removes                       |
 * | `copy`           | a file is read and written; a folder or symlink rejects                                   |
 * | `removeTree`     | item by item (`remove-items.ts`)                                                          |
 * | `open`           | by streams, or as a copy in the spool (`stream-handles.ts`)                               |
 * | `setAttributes`  | in the database (`attribute-overlay.ts`); rejects for what the trait `keeps` says is kept |
 * | `setSymlinkTime` | rejects                                                                                   |
 * | `readSymlink`    | rejects                                                                                   |
 * | `symlink`        | rejects                                                                                   |
 * | `hardLink`       | rejects                                                                                   |
 * | `realPath`       | the path itself                                                                           |
 * | `look`           | `realPath` and `stat`                                                                     |
 * | `identities`     | the path in this storage                                                                  |
 * | `revision`       | listings are cached for a time (`listings.ts`)                                            |
 * | `directUrl`      | undefined: the gateway sends the file                                                     |
 * | `thumbnail`      | undefined: there is none                                                                  |
 * | `usage`          | rejects; `usageWithTimeout` resolves to undefined                                         |
 * | `upload`         | an interrupted upload starts again: `write` (`resumable-write.ts`)                        |
 * | `dropUpload`     | nothing: a driver without `upload` has none to discard                                    |
 * | `copyFiles`      | rejects; `takesFilesOf` tells, and files are copied one by one                            |
 * | `close`          | nothing: there is nothing to release                                                      |
 */
import { isGatewayError } from '../contract/errors.js'

/** Runs a call of an optional method. Returns undefined if there is no method, or if it rejects with `unsupported`. */
export async function undefinedIfUnsupported<T>(call: (() => Promise<T>) | undefined): Promise<T | undefined> {
  try {
    return await call?.()
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    throw error
  }
}

/** Runs a call of an optional method. Returns false if there is no method, or if it rejects with `unsupported`. */
export async function callIfSupported(call: (() => Promise<unknown>) | undefined): Promise<boolean> {
  if (!call) return false
  try {
    await call()
    return true
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return false
    throw error
  }
}
