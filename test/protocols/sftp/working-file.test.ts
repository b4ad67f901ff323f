/** Open files of an SFTP session: publication, flushes, appends, and the signal of their calls. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { WorkingFile } from '../../../protocols/sftp/working-file.js'
import type { CallOptions } from '../../../src/contract/call-options.js'
import type { Attributes, OpenFile, WritableFile } from '../../../src/contract/capabilities.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath, type Path } from '../../../src/base/path.js'

const entry = { name: 'x', kind: 'file', size: 0, modified: new Date(0) } as const

function handle(closed: () => void): WritableFile {
  return {
    entry,
    read: async () => 0,
    write: async () => undefined,
    truncate: async () => undefined,
    sync: async () => undefined,
    commit: async () => entry,
    close: async () => closed(),
  }
}

/** An open file whose session makes these calls of the tree. `isStaged`: it was never published. */
function workingFile(
  fs: object,
  file: OpenFile,
  { isStaged = true, signal = new AbortController().signal } = {},
): WorkingFile {
  const tree = fs as ConstructorParameters<typeof WorkingFile>[0]
  return new WorkingFile(tree, signal, asPath('/x'), file, isStaged, true)
}

void t.test('concurrent reads after publishing reopen the file once', async (t) => {
  let [opened, closed] = [0, 0]
  const fs = {
    open: async () => {
      opened++
      await turn()
      return handle(() => closed++)
    },
  }
  const staged = handle(() => undefined)
  const file = workingFile(fs, staged)
  await file.publish()
  await Promise.all([1, 2, 3].map(() => file.read(Buffer.alloc(1), 0)))
  t.equal(opened, 1)
  await file.release()
  t.equal(closed, opened, 'each handle is closed')
})

void t.test('a handle that takes the place of one that cannot be closed is closed', async (t) => {
  let [opened, closed] = [0, 0]
  const fs = {
    open: async () => {
      opened++
      return handle(() => closed++)
    },
  }
  const lost = async () => Promise.reject(new GatewayError('unavailable'))
  const first = { ...handle(() => undefined), commit: undefined, close: lost } as unknown as WritableFile
  const file = workingFile(fs, first, { isStaged: false })
  await t.rejects(file.restart(), { code: 'unavailable' })
  t.equal(closed, opened)
  await file.restart()
  await file.release()
  t.equal(opened, 2)
  t.equal(closed, opened)
})

void t.test('a flush that the backend does not have is ignored, one that fails prevents the publication', async (t) => {
  const flushes = [
    { sync: () => Promise.reject(new GatewayError('unsupported')), isPublished: true },
    { sync: () => Promise.reject(new GatewayError('unavailable')), isPublished: false },
  ]
  for (const { sync, isPublished } of flushes) {
    const staged = { ...handle(() => undefined), sync }
    const file = workingFile({}, staged)
    if (isPublished) {
      t.equal(await file.sync(), false)
      await file.publish()
    } else {
      await t.rejects(file.sync(), { code: 'unavailable' })
      await t.rejects(file.publish(), { code: 'unavailable' })
    }
    await file.release()
  }
})

void t.test('every call of the file system gets the signal of the session', async (t) => {
  const { signal } = new AbortController()
  const calls: [name: string, hasSignal: boolean][] = []
  const closed = () => undefined
  const inPlace = { ...handle(closed), commit: undefined }
  const fs = {
    open: async (_path: Path, mode: string, options?: CallOptions) => {
      calls.push([mode, options?.signal === signal])
      return mode === 'replace' ? handle(closed) : inPlace
    },
    stat: async (_path: Path, options?: CallOptions) => {
      calls.push(['stat', options?.signal === signal])
      return entry
    },
    setAttributes: async (_path: Path, _to: Attributes, options?: CallOptions) => {
      calls.push(['setAttributes', options?.signal === signal])
    },
  }
  const file = workingFile(fs, handle(closed), { signal })
  await file.publish()
  await file.setAttributes({ mode: 0o600 })
  await file.read(Buffer.alloc(1), 0)
  await file.write([Buffer.from('x')], 1, undefined)
  await file.restart()
  await file.release()
  t.same(calls, [
    ['setAttributes', true],
    ['read', true],
    ['stat', true],
    ['replace', true],
  ])
})

void t.test('an append fails if the end of the file is unknown, except after the name is removed', async (t) => {
  const writes: number[] = []
  const inPlace: WritableFile = {
    ...handle(() => undefined),
    entry: { ...entry, size: 5 },
    write: async (_from, position) => void writes.push(position),
  }
  let looked: () => Promise<Entry> = async () => ({ ...entry, size: 5 })
  const fs = { stat: () => looked() }
  const file = workingFile(fs, { ...inPlace, commit: undefined } as unknown as OpenFile, { isStaged: false })
  const append = () => file.write([Buffer.from('x')], 1, undefined)
  for (const code of ['unavailable', 'denied', 'timeout'] as const) {
    looked = () => Promise.reject(new GatewayError(code))
    await t.rejects(append, { code })
  }
  t.same(writes, [], 'bytes of others are not overwritten')
  looked = async () => ({ ...entry, size: 8 })
  await append()
  looked = () => Promise.reject(new GatewayError('not_found'))
  await append()
  t.same(writes, [8, 9])
  await file.release()
})
