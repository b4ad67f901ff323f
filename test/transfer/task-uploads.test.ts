/** Resumable uploads of large files: when one is stored, resumed and discarded. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { ByteRange } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import { asPath as p, type Path } from '../../src/base/path.js'
import { writeResumable, type ResumableUpload } from '../../src/storage/fallbacks/resumable-write.js'
import { createLog } from '../../src/process/log.js'
import { TaskUploads } from '../../src/transfer/task-uploads.js'
import { openLocal } from '../drivers/env.js'
import { flaky, type Planned } from '../drivers/flaky.js'
import { newGuardedDriver } from '../storage/new-guarded-driver.js'
import { altered, newTree, sourceOf, type Over, type Test, type Tree } from '../tree/tree-fixture.js'
import { Journal } from './journal.js'

const mebibyte = 1024 * 1024
const data = randomBytes(20 * mebibyte + 5)
const taskId = 'a task'

interface Stage extends Tree {
  /** The local folder of the target storage. */
  readonly folder: string
  /** Ranges of the source that were read. */
  readonly reads: (ByteRange | undefined)[]
  /** Planned faults of the source. */
  readonly plan: Planned[]
  /** Copies the file in another run of the task. Resolves to the bytes that were counted. */
  readonly copy: (to?: Path) => Promise<number>
  /** Sizes of the staged files at the target. */
  readonly staged: () => number[]
}

interface Ask {
  readonly content?: Buffer
  /** Changes the entry that the source returns. */
  readonly told?: (entry: Entry) => Entry
  /** Replaced methods of the target's driver. */
  readonly over?: Over
}

async function stage(t: Test, { content = data, told = (entry) => entry, over = {} }: Ask = {}): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-kept-'))
  const reads: (ByteRange | undefined)[] = []
  const plan: Planned[] = []
  const near = new MemoryDriver(0)
  const counting = altered(near, {
    read: (path, range, options) => {
      reads.push(range)
      return near.read(path, range, options)
    },
    stat: async (path, options) => told(await near.stat(path, options)),
  })
  const begun: { tree?: Tree } = {}
  const tokens = async () => begun.tree?.uploads.tokens() ?? []
  const tree = await newTree(t, {
    '/near': { driverOf: async () => flaky(counting, plan).driver },
    '/far': {
      driverOf: async (): Promise<Driver> => altered(await openLocal(folder, {}, { resumableUploads: tokens }), over),
    },
    '/farther': {},
  })
  begun.tree = tree
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  await tree.store.tasks.insert({
    id: taskId,
    ...{
      kind: 'copy',
      subject: '',
      userId: 1,
      username: 'ada',
      role: 'general',
      state: 'running',
      status: '',
      error: '',
    },
    ...{ totalBytes: 0, doneBytes: 0, plan: '{}', tries: 1, created: new Date(), started: undefined, ended: undefined },
  })
  await tree.as().write(p('/near/file'), sourceOf(content))
  let runs = 0
  const copy = async (to = p('/far/file')) => {
    const journal = new Journal(runs++ > 0)
    Object.assign(journal, {
      resumableUpload: (path: Path, source: string) => tree.uploads.forFile(taskId, path, source),
    })
    let done = 0
    const advance = (bytes: number) => (done += bytes)
    await tree.as().copy(p('/near/file'), to, { overwrite: false, journal, advance })
    return done
  }
  const staged = () => {
    const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
    return found
      .filter(({ parentPath }) => parentPath !== folder)
      .map((each) => statSync(join(each.parentPath, each.name)).size)
  }
  return { ...tree, folder, reads, plan, copy, staged }
}

/**
 * A fault of the source: its first read fails after `after` bytes, and it wants no further one for longer than a copy
 * waits.
 */
function cut(after: number, code: ErrorCode = 'unavailable'): Planned {
  return { method: 'read', call: 1, fault: { kind: 'cut', after, error: new GatewayError(code, { retryAfter: 60 }) } }
}

void t.test('the copy of a large file resumes at the offset that its target holds', async (t) => {
  const { plan, copy, reads, staged, folder, uploads } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  const [held = 0, ...others] = staged()
  t.ok(held >= 16 * mebibyte && held <= 18 * mebibyte, `${held} bytes are staged`)
  t.same(others, [])
  t.equal((await uploads.tokens()).length, 1)
  t.equal(await copy(), data.length, 'the staged bytes count as done')
  t.same(reads, [undefined, { offset: held }], 'only the remaining range is read')
  t.ok(readFileSync(join(folder, 'file')).equals(data))
  t.same(staged(), [])
  t.same(await uploads.tokens(), [])
})

void t.test('a copy starts again from the beginning if its source has changed', async (t) => {
  const { plan, copy, reads, staged, folder, as } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  const other = randomBytes(data.length)
  await as().write(p('/near/file'), sourceOf(other))
  t.equal(await copy(), other.length)
  t.same(reads, [undefined, undefined])
  t.ok(readFileSync(join(folder, 'file')).equals(other), 'it has no bytes of the old source')
  t.same(staged(), [])
})

void t.test('a copy starts again from the beginning if its target is now on another storage', async (t) => {
  const { plan, copy, reads, staged, uploads } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  // The new storage has no resumable uploads, so the row remains until the task has ended.
  t.equal(await copy(p('/farther/file')), data.length)
  t.same(reads, [undefined, undefined])
  await uploads.discardAll(taskId)
  t.same(staged(), [])
  t.same(await uploads.tokens(), [])
})

void t.test('no resumable upload is stored for small files', async (t) => {
  const { plan, copy, staged, uploads } = await stage(t, { content: data.subarray(0, 15 * mebibyte) })
  plan.push(cut(14 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  t.same(staged(), [])
  t.same(await uploads.tokens(), [])
})

void t.test('no resumable upload is stored if the error is permanent', async (t) => {
  const { plan, copy, staged, uploads } = await stage(t)
  plan.push(cut(18 * mebibyte, 'denied'))
  await t.rejects(copy(), { code: 'denied' })
  t.same(staged(), [])
  t.same(await uploads.tokens(), [])
})

void t.test('a resumed copy does not replace a file of another request', async (t) => {
  const { plan, copy, staged, uploads, as, folder } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  await as().write(p('/far/file'), sourceOf('of somebody else'))
  await t.rejects(copy(), { code: 'exists' })
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'of somebody else')
  await uploads.discardAll(taskId)
  t.same(staged(), [])
})

void t.test('uploads of a deleted task on a disabled storage are discarded when it starts again', async (t) => {
  const { plan, copy, staged, uploads, store, mounts, supervisor } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  const row = mounts.rowOf(p('/far'))
  if (!row) throw new Error('the storage has a row')
  await supervisor.apply({ ...row, disabled: true })
  await store.tasks.delete([taskId])
  await uploads.discardAll(taskId)
  t.equal(staged().length, 1, 'nothing is discarded on a disabled storage')
  t.equal((await store.uploads.orphaned()).length, 1)
  t.same(await uploads.tokens(), [], 'the upload cannot be resumed')
  await supervisor.apply(row)
  while ((await store.uploads.orphaned()).length > 0) await new Promise(setImmediate)
  t.same(staged(), [])
})

void t.test('a resumed copy succeeds if an earlier run has already stored an equal file', async (t) => {
  const { plan, copy, reads, folder, uploads, store } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  const [token = ''] = await uploads.tokens()
  await copy()
  const row = { taskId, path: p('/near/file'), source: 'an old state', storageId: 2, token }
  await store.uploads.insert(row)
  t.equal(await copy(), data.length, 'the file is found to be equal')
  t.equal(reads.length, 3, 'the whole source is read for the comparison')
  t.ok(readFileSync(join(folder, 'file')).equals(data))
})

void t.test('a new resume token replaces the previous one', async (t) => {
  const tree = await stage(t)
  const resumes: (string | undefined)[] = []
  const memory = new MemoryDriver(0)
  const driver = altered(memory, {
    upload: async (path, { resumeToken: resume, replaceToken: replace }) => {
      resumes.push(resume)
      return {
        token: resume ?? 'nothing',
        committedOffset: 0,
        write: async (from) => {
          from.destroy()
          await replace?.('half of it')
          if (resume === undefined) throw new GatewayError('unavailable')
        },
        commit: () => memory.write(path, sourceOf(data)),
        close: async () => undefined,
      }
    },
    dropUpload: async () => undefined,
  })
  await tree.mount('/replacing', { driverOf: async () => driver })
  await t.rejects(tree.copy(p('/replacing/file')), { code: 'unavailable' })
  t.same(await tree.uploads.tokens(), ['half of it'])
  await tree.copy(p('/replacing/file'))
  t.same(resumes, [undefined, 'half of it'])
  t.same(await tree.uploads.tokens(), [])
})

void t.test('an upload whose token cannot be stored is closed once, then discarded', async (t) => {
  const calls: string[] = []
  const memory = new MemoryDriver(0)
  const driver = altered(memory, {
    upload: async () => ({
      token: 'token',
      committedOffset: 0,
      write: async () => undefined,
      commit: () => memory.write(p('/x'), sourceOf(data)),
      close: async () => void calls.push('close'),
    }),
    dropUpload: async () => void calls.push('drop'),
  })
  const resumable: ResumableUpload = {
    withResume: (_storageId, work) => work(undefined, () => Promise.reject(new GatewayError('busy'))),
  }
  await t.rejects(writeResumable(newGuardedDriver(driver), 1, [p('/x'), sourceOf(data)], resumable, {}), {
    code: 'busy',
  })
  t.same(calls, ['close', 'drop'])
})

for (const [title, modified] of [
  ['without a modification time', new Date(0)],
  ['with a modification time of now', new Date()],
] as const) {
  void t.test(`no resumable upload is stored for a source without revisions and ${title}`, async (t) => {
    const told = ({ revision: _none, ...entry }: Entry) => ({ ...entry, modified })
    const { plan, copy, staged, uploads, reads, folder, as } = await stage(t, { told })
    plan.push(cut(18 * mebibyte))
    await t.rejects(copy(), { code: 'unavailable' })
    plan.length = 0
    t.same(staged(), [])
    t.same(await uploads.tokens(), [])
    const other = randomBytes(data.length)
    await as().write(p('/near/file'), sourceOf(other))
    await copy()
    t.same(reads, [undefined, undefined])
    t.ok(readFileSync(join(folder, 'file')).equals(other), 'it has no bytes of the old source')
  })
}

void t.test('a resumable upload is stored for a source without revisions that changed an hour ago', async (t) => {
  const modified = new Date(Date.now() - 3_600_000)
  const told = ({ revision: _none, ...entry }: Entry) => ({ ...entry, modified })
  const { plan, copy, reads, staged } = await stage(t, { told })
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  const [held] = staged()
  await copy()
  t.same(reads, [undefined, { offset: held }])
})

void t.test('a copy starts again from the beginning if the storage of its source was reconfigured', async (t) => {
  const { plan, copy, reads, mounts, supervisor } = await stage(t)
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  plan.length = 0
  const row = mounts.rowOf(p('/near'))
  if (!row) throw new Error('the storage has a row')
  await supervisor.apply({ ...row, modified: new Date(row.modified.getTime() + 1) })
  await copy()
  t.same(reads, [undefined, undefined])
})

void t.test('no resumable upload is stored if the source changes during the copy', async (t) => {
  const changed: { state?: string } = {}
  const told = (entry: Entry) => ({ ...entry, ...(changed.state !== undefined && { revision: changed.state }) })
  const { copy, staged, uploads, reads } = await stage(t, { told })
  changed.state = 'first'
  const change = async () => {
    while (reads.length === 0) await new Promise(setImmediate)
    changed.state = 'second'
  }
  await Promise.all([t.rejects(copy(), { code: 'busy' }), change()])
  // The revision is the first one again, but half of what was read may be of the second.
  changed.state = 'first'
  t.same(staged(), [])
  t.same(await uploads.tokens(), [])
})

void t.test('a discard that hangs does not delay other tasks, and is retried when the storage starts', async (t) => {
  const asked: (() => void)[] = []
  let hangs = true
  const dropUpload = () =>
    new Promise<void>((resolve, reject) => {
      asked.push(() => (hangs ? reject(new GatewayError('unavailable')) : resolve()))
    })
  const { plan, copy, uploads, store, mounts, supervisor } = await stage(t, { over: { dropUpload } })
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  const first = uploads.discardAll(taskId)
  while (asked.length === 0) await new Promise(setImmediate)
  const order = await Promise.race([first.then(() => 'first'), uploads.discardAll('another task').then(() => 'second')])
  t.equal(order, 'second')
  asked[0]?.()
  await first
  await uploads.discardAll('another task')
  t.equal(asked.length, 1)
  hangs = false
  const row = mounts.rowOf(p('/far'))
  if (!row) throw new Error('the storage has a row')
  await supervisor.apply(row)
  while (asked.length < 2) await new Promise(setImmediate)
  asked[1]?.()
  while ((await store.uploads.orphaned()).length > 0) await new Promise(setImmediate)
})

void t.test('a failed discard is retried at intervals until it succeeds', async (t) => {
  let asked = 0
  const dropUpload = async () => {
    if (++asked < 3) throw new GatewayError('unavailable')
  }
  const { plan, copy, store, mounts } = await stage(t, { over: { dropUpload } })
  plan.push(cut(18 * mebibyte))
  await t.rejects(copy(), { code: 'unavailable' })
  const storageOf = (id: number) => mounts.storageOf(id)
  const uploads = new TaskUploads({ store: store.uploads, storageOf, log: createLog('silent') }, 500)
  t.teardown(() => uploads.close())
  await uploads.discardAll(taskId)
  await uploads.discardAll('another task')
  t.equal(asked, 1, 'the end of another task does not retry')
  // The timer of the retry does not keep the process alive; these do.
  while ((await store.uploads.orphaned()).length > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  t.equal(asked, 3)
})
