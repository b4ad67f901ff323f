/**
 * One file in a tree over memory, which records the calls of its driver; with or without handles, and with optional
 * faults.
 */
import { Readable } from 'node:stream'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { ByteRange } from '../../../src/contract/call-options.js'
import type { Entry } from '../../../src/contract/entry.js'
import { asPath, nameOf, type Path } from '../../../src/base/path.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { altered, newTree, sourceOf, type Over, type Test } from '../../tree/tree-fixture.js'

interface FileFacts {
  readonly path?: string
  /** With false, the driver has only streams. */
  readonly handles?: boolean
  readonly revision?: string
  readonly contentEncoding?: string
  readonly modified?: Date
  /** Reads end here although the entry has a larger size. */
  readonly readableBytes?: number
  /** The size in the entry, if it differs from the real one. */
  readonly toldSize?: number
  /** Called with the position of each read of a handle, and of each chunk of a stream. */
  readonly onRead?: (position: number) => void
}

export interface ServedFile {
  readonly fs: VirtualFs
  readonly path: Path
  /** Ranges of the calls of `read`; undefined for the whole file. */
  readonly asked: (ByteRange | undefined)[]
  /** Streams that the driver has opened. */
  readonly streams: Readable[]
  /** Replaces the content behind the back of the gateway. */
  readonly replace: (content: Buffer) => Promise<void>
  /** Number of handles of the driver that are not closed. */
  readonly open: () => number
}

/** Calls `onRead` with the position of each chunk before it is yielded. */
async function* watched(stream: Readable, offset: number, onRead: (position: number) => void): AsyncGenerator<Buffer> {
  let position = offset
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    onRead(position)
    yield chunk
    position += chunk.length
  }
}

export async function servedFile(t: Test, content: Buffer, facts: FileFacts = {}): Promise<ServedFile> {
  const { handles = true, revision, contentEncoding, readableBytes = Infinity, toldSize, onRead } = facts
  const path = asPath(facts.path ?? '/file.bin')
  const inner = new MemoryDriver(0)
  await inner.write(path, sourceOf(content), { modified: facts.modified })
  const told = (entry: Entry): Entry =>
    entry.name === nameOf(path)
      ? {
          ...entry,
          ...(revision !== undefined && { revision }),
          ...(contentEncoding !== undefined && { contentEncoding }),
          ...(toldSize !== undefined && { size: toldSize }),
        }
      : entry
  const asked: (ByteRange | undefined)[] = []
  const streams: Readable[] = []
  let open = 0
  const over: Over = {
    stat: async (...args) => told(await inner.stat(...args)),
    read: async (at, range, options) => {
      asked.push(range)
      const { offset, length = Infinity } = range ?? { offset: 0 }
      const left = Math.max(0, Math.min(length, readableBytes - offset))
      const content = await inner.read(at, left === Infinity ? range : { offset, length: left }, options)
      const stream = onRead ? Readable.from(watched(content, offset, onRead), { objectMode: false }) : content
      streams.push(stream)
      return stream
    },
    open: handles
      ? async (...args) => {
          const file = await inner.open(...args)
          open++
          return {
            entry: told(file.entry),
            read: async (into, position) => {
              onRead?.(position)
              return file.read(into.subarray(0, Math.max(0, readableBytes - position)), position)
            },
            close: async () => {
              open--
              await file.close()
            },
          }
        }
      : undefined,
    folderRevision: undefined,
  }
  const tree = await newTree(t, { '/': { driverOf: async () => altered(inner, over) } })
  const replace = async (changed: Buffer): Promise<void> => {
    await inner.write(path, sourceOf(changed))
  }
  return { fs: tree.as(), path, asked, streams, replace, open: () => open }
}
