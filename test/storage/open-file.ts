/** Entries and reads for the tests of handles. */
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'

export const entryOf = (size: number): Entry => ({ name: 'x', kind: 'file', size, modified: new Date(0) })

export async function readAt(file: OpenFile, position: number, length: number): Promise<Buffer> {
  const into = Buffer.alloc(length)
  return into.subarray(0, await file.read(into, position))
}
