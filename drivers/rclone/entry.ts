/** Converts what rclone reports of a file or folder to an `Entry`. */
import type { Entry, HashName } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'

/** One element of `operations/list`, or the result of `operations/stat`. */
export interface Item {
  readonly name: string
  readonly isFolder: boolean
  /** Bytes; negative for a file whose size the remote does not know. */
  readonly size: number
  readonly modified: Date
  readonly hashes: Readonly<Partial<Record<HashName, string>>>
}

/** The hashes of the contract, with the number of their digits, by the names of rclone. */
const digitsOfHashes: Readonly<Record<HashName, number>> = { md5: 32, sha1: 40, sha256: 64 }

/** The hashes of the contract among those that a remote has. */
export function usableHashes(names: readonly string[]): readonly HashName[] {
  return names.filter((name): name is HashName => Object.hasOwn(digitsOfHashes, name))
}

/** Throws `unavailable` if it is not an item. */
export function itemOf(reported: unknown): Item {
  const { Name, Size, ModTime, IsDir, Hashes } = reported as Readonly<Record<string, unknown>>
  if (typeof Name !== 'string' || typeof Size !== 'number' || typeof IsDir !== 'boolean') {
    throw new GatewayError('unavailable', { reason: 'rclone sent a listing of another form' })
  }
  const time = typeof ModTime === 'string' ? new Date(ModTime) : new Date(0)
  return {
    name: Name,
    isFolder: IsDir,
    size: Size,
    modified: Number.isNaN(time.getTime()) ? new Date(0) : time,
    hashes: hashesOf(Hashes),
  }
}

function hashesOf(reported: unknown): Item['hashes'] {
  const all = (typeof reported === 'object' ? reported : null) ?? {}
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, digest]) => {
      const digits = Object.hasOwn(digitsOfHashes, name) ? digitsOfHashes[name as HashName] : 0
      const isDigest = typeof digest === 'string' && digest.length === digits && /^[\da-f]+$/.test(digest)
      return isDigest ? [[name, digest]] : []
    }),
  )
}

/** Whether the item can be shown: not without a known size, as documents that a service exports on demand. */
export function isShown({ isFolder, size }: Item): boolean {
  return isFolder || size >= 0
}

/** `hasFolderTimes`: otherwise rclone reports the present time for folders. */
export function entryOf({ name, isFolder, size, modified, hashes }: Item, hasFolderTimes: boolean): Entry {
  if (isFolder) return { name, kind: 'folder', size: 0, modified: hasFolderTimes ? modified : new Date(0) }
  // Any of them changes with the content.
  const revision = hashes.sha256 ?? hashes.sha1 ?? hashes.md5
  return {
    name,
    kind: 'file',
    size,
    modified,
    ...(revision !== undefined && { revision, hashes }),
  }
}
