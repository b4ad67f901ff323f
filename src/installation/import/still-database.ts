/** The database of another program as one state of it, also while that program changes it. */
import { createReadStream, createWriteStream } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { GatewayError, isGatewayError } from '../../base/errors.js'
import { inScratchFolder } from '../scratch-folder.js'

/** How often the files are copied until they do not change meanwhile. */
const attempts = 5

/** Milliseconds, longer than the steps of the times that file systems store. */
const timeStep = 20

/**
 * The endings of the names of a database's files: of itself, its write-ahead log, and what is left of a transaction
 * that was cut off.
 */
const suffixes = ['', '-wal', '-journal'] as const

/** The states of the files that are not empty, by suffix. */
type State = Partial<Record<(typeof suffixes)[number], Readonly<Record<'size' | 'modified' | 'inode', bigint>>>>

/**
 * Calls `work` with the path of the database, or of a copy of it with its write-ahead log, because SQLite writes beside
 * a database that has one. The copy is in a new folder in `scratch`, readable by this user only, and is removed
 * afterwards. Nothing is written beside `file`. Rejects with `invalid` if the files cannot be read, with `busy` if they
 * change all the time, with `no_space` if there is no room for the copy, and with the errors of `work`.
 */
export async function withStillDatabase<T>(
  file: string,
  scratch: string,
  work: (file: string) => Promise<T>,
): Promise<T> {
  const state = await stateOf(file)
  if (state['-wal'] === undefined) {
    const result = await work(file)
    if (isDeepStrictEqual(state, await stateOf(file))) return result
  }
  return inScratchFolder(scratch, async (folder) => {
    const copy = join(folder, 'data.db')
    for (let attempt = 0; attempt < attempts; attempt++) {
      const before = await stateOf(file)
      // A change at the time of the last one would not be seen: let that time pass.
      await delay(timeStep)
      for (const suffix of ['', '-wal'] as const) {
        if (before[suffix]) await copyPrivately(file + suffix, copy + suffix)
        else await rm(copy + suffix, { force: true })
      }
      if (isDeepStrictEqual(before, await stateOf(file))) return work(copy)
    }
    throw new GatewayError('busy', { reason: `the database ${file} changes all the time: stop the other program` })
  })
}

async function stateOf(file: string): Promise<State> {
  const state: State = {}
  for (const suffix of suffixes) {
    try {
      const found = await stat(file + suffix, { bigint: true })
      if (!found.isFile()) throw new GatewayError('invalid', { reason: `${file}${suffix} is not a file` })
      if (found.size > 0n) state[suffix] = { size: found.size, modified: found.mtimeNs, inode: found.ino }
    } catch (error) {
      if (suffix !== '' && (error as NodeJS.ErrnoException).code === 'ENOENT') continue
      throw unreadable(file, error)
    }
  }
  if (state['-journal'] === undefined) return state
  throw new GatewayError('invalid', {
    reason: `${file}-journal has a change that was cut off: start and stop the other program once`,
  })
}

async function copyPrivately(from: string, to: string): Promise<void> {
  try {
    await pipeline(createReadStream(from), createWriteStream(to, { mode: 0o600 }))
  } catch (error) {
    throw unreadable(from, error)
  }
}

function unreadable(file: string, cause: unknown): GatewayError {
  if (isGatewayError(cause)) return cause
  const { code, message } = cause as NodeJS.ErrnoException
  if (code === 'ENOSPC') {
    return new GatewayError('no_space', { reason: `there is no room for a copy of the database ${file}`, cause })
  }
  return new GatewayError('invalid', { reason: `the database ${file} cannot be read: ${message}`, cause })
}
