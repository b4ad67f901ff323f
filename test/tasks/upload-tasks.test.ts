/** Upload tasks: the spool that holds the received files, and the state after a restart. */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import t from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import { Spool, type Spooled } from '../../src/storage/fallbacks/spool.js'
import { subjectOf, type Task, type TaskItems, type TaskRun } from '../../src/tasks/task.js'
import { spooledFiles, uploadRequest, uploadTasks, type UploadOptions } from '../../src/tasks/upload-tasks.js'
import { principal, type Asker } from '../accounts/principals.js'
import { newTree, sourceOf, text, type Test } from '../tree/tree-fixture.js'

const instance = { name: 'run', isOver: () => true }
const mounts = { rowOf: () => undefined }

function taskOf(received: Spooled, to: string, options: Partial<UploadOptions> = {}, who: Asker = {}): Task {
  const asked = { createOnly: false, ...options }
  const { plan, subject, ...request } = uploadRequest(principal(who), asPath(to), received, asked, mounts)
  const stored = { plan: JSON.stringify(plan), subject: JSON.stringify(subject) }
  return { ...request, ...stored, id: 'id', state: 'running' } as Task
}

async function stage(t: Test) {
  const tree = await newTree(t)
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-spool-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const spool = await Spool.open(folder, { instance })
  const type = uploadTasks(spool, () => tree.as())
  const run = async (task: Task, resumes = false, who: Asker = {}) => {
    let done = 0
    const fields: Pick<TaskRun, 'setPhase' | 'setPlan' | 'setRemark' | 'setTotal' | 'advance'> = {
      setPhase: () => undefined,
      setPlan: async () => undefined,
      setRemark: () => undefined,
      setTotal: () => undefined,
      advance: (bytes) => (done += bytes),
    }
    const signal = new AbortController().signal
    const items = {
      resumableUpload: (path: Path, source: string) => tree.uploads.forFile(task.id, path, source),
    } as TaskItems
    await type.run({ ...fields, task, principal: principal(who), signal, resumes, items })
    return done
  }
  return { ...tree, spool, folder, type, run, content: (path: string) => text(tree.as().read(asPath(path))) }
}

void t.test('an upload task stores the received file, counts its bytes and disposes the spooled file', async (t) => {
  const { spool, run, content, type, folder } = await stage(t)
  const received = await spool.receive(sourceOf('content'), undefined, true)
  const task = taskOf(received, '/new/folder/file', { modified: new Date(5000) })
  t.strictSame(subjectOf(task), { verb: 'upload', name: 'file', to: { mount: '/', inner: '/new/folder' } })
  t.equal(await run(task), 7)
  t.equal(await content('/new/folder/file'), 'content')
  t.same(await readdir(folder), [basename(received.file)], 'until the task has ended')
  await type.dispose?.(task, async () => undefined)
  await type.dispose?.(task, async () => undefined)
  t.same(await readdir(folder), [])
  await t.rejects(run(task), { code: 'unsupported', reason: /bytes are not on the disk/ })
})

void t.test('a resumed upload task succeeds if an earlier run has already stored the file', async (t) => {
  const { as, spool, run } = await stage(t)
  await as().write(asPath('/file'), sourceOf('content'))
  const same = taskOf(await spool.receive(sourceOf('content')), '/file', { createOnly: true })
  await t.rejects(run(same), { code: 'exists' }, 'the file of another request')
  t.equal(await run(same, true), 0)
  const other = taskOf(await spool.receive(sourceOf('CONTENT')), '/file', { createOnly: true })
  await t.rejects(run(other, true), { code: 'exists' })
})

void t.test('an upload task is denied if its path is outside of the current base folder of the user', async (t) => {
  const { spool, run } = await stage(t)
  const task = taskOf(await spool.receive(sourceOf('x')), '/file', {}, { base: '/home' })
  t.strictSame(subjectOf(task), { verb: 'upload', name: 'file', to: { mount: '/', inner: '/home' } })
  await t.rejects(run(task, false, { base: '/elsewhere' }), { code: 'denied' })
})

void t.test('opening the spool deletes all files except those of pending upload tasks', async (t) => {
  const folder = t.testdir()
  const first = await Spool.open(folder, { instance })
  const needed = await first.receive(sourceOf('needed'))
  await first.receive(sourceOf('not needed'))
  await writeFile(join(folder, 'other'), 'x')
  const keep = spooledFiles([taskOf(needed, '/a'), { ...taskOf(needed, '/b'), kind: 'copy' }])
  const second = await Spool.open(folder, { instance, keep })
  t.same(await readdir(folder), [basename(needed.file)])
  const found = await second.find(basename(needed.file), { hashes: { md5: 'x' } })
  t.match(found, { size: 6, rereadable: true, hashes: { md5: 'x' } })
  t.equal(await text(found!.read({ offset: 2 })), 'eded')
  t.equal(await second.find('other'), undefined)
})

void t.test('processes that share the folder of a spool delete only what ended ones have left', async (t) => {
  const folder = t.testdir()
  const open = (name: string, keep: readonly Task[] = [], elsewhere: readonly Task[] = []) => {
    const isOver = (other: string) => (other === 'stranger' ? undefined : other === 'ended')
    const needed = { keep: spooledFiles(keep), neededElsewhere: spooledFiles(elsewhere) }
    return Spool.open(folder, { instance: { name, isOver }, ...needed, limit: () => 10 })
  }
  const names: string[] = []
  for (const name of ['ended', 'living', 'stranger']) {
    const { file } = await (await open(name)).receive(sourceOf('12'))
    names.push(basename(file))
    t.match(basename(file), new RegExp(`^${name}\\.`))
  }
  const ended = await open('ended')
  const [own, others] = [await ended.receive(sourceOf('123')), await ended.receive(sourceOf('1234'))]
  names.push(basename(own.file), basename(others.file))
  const spool = await open(
    'new',
    [taskOf(own, '/a')],
    [taskOf(others, '/b'), { ...taskOf(own, '/c'), state: 'failed' }],
  )
  t.same(await readdir(folder), names.slice(1).sort())
  t.equal(spool.room, 7, 'what others need is not counted')
  t.match(await spool.find(basename(others.file)), { size: 4 })
  t.equal(spool.room, 3, 'until this process uses it')
})

void t.test('the spool rejects files above its limit, and disposed files free their space', async (t) => {
  const folder = t.testdir()
  let limit = 10
  const spool = await Spool.open(folder, { instance, limit: () => limit })
  const full = { code: 'no_space', reason: 'too many uploads wait on the local disk (spool_size_limit)' }
  const first = await spool.receive(sourceOf('123456'))
  await t.rejects(spool.receive(sourceOf('12345')), full, 'with a declared size')
  await t.rejects(spool.receive(sourceOf('12345', { size: undefined })), full, 'without a declared size')
  t.same(await readdir(folder), [basename(first.file)], 'no part of a rejected file is left')
  await spool.receive(sourceOf('1234', { size: undefined }))
  await first.dispose()
  await spool.receive(sourceOf('12345'))
  limit = 5
  await t.rejects(spool.receive(sourceOf('1')), full)
  limit = 10
  const broken = { rereadable: false, read: () => Promise.reject(new GatewayError('aborted')) }
  await t.rejects(spool.receive(broken), { code: 'aborted' })
  await spool.receive(sourceOf('1'))
  const again = await Spool.open(folder, { instance, limit: () => 3, keep: new Set(await readdir(folder)) })
  await t.rejects(again.receive(sourceOf('1')), full, 'files of an earlier run count')
})
