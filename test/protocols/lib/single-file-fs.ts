/** A tree of one file, as far as sending it needs one: with handles or without, and with faults on demand. */
import type { Entry } from '../../../src/driver.js'
import { Readable } from 'node:stream'
import { GatewayError } from '../../../src/errors.js'
import type { VirtualFs } from '../../../src/virtual-fs.js'
import type { WritingHandle } from '../../../src/writing.js'

export interface SingleFile {
  content: Buffer
  modified: Date
  revision?: string
  /** false: only streams. */
  handles: boolean
  /** Reads end here although the entry promises more. */
  readableBytes?: number
  /** Every `open` or `stat` rejects with it. */
  refuse?: GatewayError
  /** Waited for before each positional read. */
  beforeRead?: () => Promise<void>
  /** Handles that were not closed. */
  open: number
  streams: Readable[]
}

export function singleFile(content: Buffer, facts: Partial<SingleFile> = {}): SingleFile {
  return { content, modified: new Date('2024-05-17T16:05:36.465Z'), handles: true, open: 0, streams: [], ...facts }
}

export function singleFileFs(file: SingleFile): VirtualFs {
  const entry = (): Entry => {
    if (file.refuse !== undefined) throw file.refuse
    const { modified, revision } = file
    const facts = { name: 'file', kind: 'file', size: file.content.length, modified } as const
    return revision === undefined ? facts : { ...facts, revision }
  }
  const end = (): number => Math.min(file.content.length, file.readableBytes ?? Infinity)
  const fs = {
    async stat() {
      return entry()
    },
    async open(): Promise<WritingHandle> {
      if (!file.handles) throw new GatewayError('unsupported')
      const opened = entry()
      file.open += 1
      return {
        entry: opened,
        old: opened,
        async read(into, position) {
          await file.beforeRead?.()
          return file.content.copy(into, 0, position, Math.max(position, Math.min(end(), position + into.length)))
        },
        async close() {
          file.open -= 1
        },
      }
    },
    async read(_path, range) {
      const from = range?.offset ?? 0
      const stream = Readable.from(
        (function* () {
          for (let at = from; at < Math.min(end(), from + (range?.length ?? Infinity)); at += 1000) {
            yield file.content.subarray(at, Math.min(at + 1000, end(), from + (range?.length ?? Infinity)))
          }
        })(),
      )
      file.streams.push(stream)
      return stream
    },
  } satisfies Partial<VirtualFs>
  return fs as unknown as VirtualFs
}
