/** Sessions of uploads in chunks: failures of the storage, resumption, time limits, and what remains at their end. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline, Readable, Transform } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { VirtualFs } from '../../src/tree/virtual-fs.js'
import type { AnnouncedFile, UploadSession } from '../../src/uploads/upload-session.js'
import { UploadSessions } from '../../src/uploads/upload-sessions.js'
import { principal } from '../accounts/principals.js'
import { openLocal } from '../drivers/env.js'
import { altered, newTree, openBody, text, type Over, type Test } from '../tree/tree-fixture.js'

const mebibyte = 1024 * 1024
const chunkSize = mebibyte
const content = randomBytes(20.5 * mebibyte)
const never = new AbortController().signal
const user = principal()

type Times = ConstructorParameters<typeof UploadSessions>[0]['times']

/** A folder of the local disk at `/`, and uploads into it. */
async function stage(t: Test, over: (local: Required<Driver>) => Over = () => ({}), times: Times = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-chunks-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const driverOf = async () => {
    const local = (await openLocal(folder)) as Required<Driver>
    return altered(local, over(local))
  }
  const tree = await newTree(t, { '/': { driverOf } })
  const sessions = new UploadSessions({
    as: (who) => new VirtualFs(tree.dependencies, who),
    uploads: tree.uploads,
    times,
  })
  t.teardown(() => sessions.close())
  const files = () =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map(({ parentPath, name }) => ({ name, size: statSync(join(parentPath, name)).size }))
  return { ...tree, folder, sessions, files }
}

const file: AnnouncedFile = {
  path: asPath('/file'),
  size: content.length,
  modified: new Date(1715961936000),
  headSha256: 'same',
  createOnly: false,
}

const open = (sessions: UploadSessions, changes: Partial<AnnouncedFile> = {}) =>
  sessions.open(user, { ...file, ...changes }, chunkSize, never)

function chunk(session: UploadSession, index: number, signal = never): Promise<boolean> {
  const bytes = content.subarray(index * chunkSize, Math.min((index + 1) * chunkSize, session.file.size))
  const pieces = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, number) =>
    Buffer.from(bytes.subarray(number * 65_536, (number + 1) * 65_536)),
  )
  return session.receive(index, bytes.length, async () => Readable.from(pieces, { objectMode: false }), signal)
}

/** Sends all chunks from the frontier on. */
async function send(session: UploadSession): Promise<void> {
  for (let index = session.frontier; index < session.totalChunks; index++) await chunk(session, index)
}

/** Each upload of the driver fails after so many bytes, as long as there are numbers. */
function failing(local: Required<Driver>, after: number[], code: 'unavailable' | 'denied' = 'unavailable'): Over {
  const limited = (from: Readable, limit: number) => {
    let passed = 0
    const part = new Transform({
      transform(bytes: Buffer, _encoding, done) {
        passed += bytes.length
        if (passed > limit) done(new GatewayError(code))
        else done(null, bytes)
      },
    })
    return pipeline(from, part, () => undefined)
  }
  return {
    upload: async (path, plan, options) => {
      const started = await local.upload(path, plan, options)
      const limit = after.shift()
      if (limit === undefined) return started
      return { ...started, write: (from) => started.write(limited(from, limit)) }
    },
    write: (path, source, options) => {
      const limit = after.shift()
      const read = async () => limited(await source.read(), limit ?? Infinity)
      return local.write(path, { ...source, read }, options)
    },
  }
}

void t.test('a failure of the storage costs only what it had not stored', async (t) => {
  const { sessions, folder, files, store } = await stage(t, (local) => failing(local, [10.3 * mebibyte, 4 * mebibyte]))
  const { session } = await open(sessions)
  await t.rejects(send(session), { code: 'unavailable' })
  t.equal(session.state, 'failed_retriable')
  await t.rejects(chunk(session, 0), { code: 'unavailable' }, 'until it is opened again')
  await t.rejects(session.complete(never), { code: 'unavailable' })
  t.equal((await store.uploads.orphaned()).length, 1)

  const again = await open(sessions)
  t.equal(again.session, session)
  t.ok(again.resumed)
  t.equal(session.attempt, 2)
  t.ok(session.frontier >= 9 && session.frontier <= 10, `${session.frontier} chunks are stored`)
  t.equal(session.receivedBytes, session.frontier * chunkSize)
  await t.rejects(send(session), { code: 'unavailable' })
  await open(sessions)
  t.ok(session.frontier >= 13 && session.frontier <= 14, `${session.frontier} chunks are stored`)
  t.equal(await chunk(session, 0), false, 'those before are not needed')
  await send(session)
  await session.complete(never)
  t.ok(readFileSync(join(folder, 'file')).equals(content))
  t.equal(statSync(join(folder, 'file')).mtimeMs, 1715961936000)
  t.same(files(), [{ name: 'file', size: content.length }])
  t.same(await store.uploads.orphaned(), [])
})

void t.test('a failure costs everything', async (t) => {
  for (const [title, changes, over] of [
    ['of a small file', { size: 3 * mebibyte }, {}],
    ['of a file with a digest', { hashes: { md5: '0'.repeat(32) } }, {}],
    ['on a driver without resumable uploads', {}, { upload: undefined }],
  ] as const) {
    const { sessions, files } = await stage(t, (local) => ({ ...failing(local, [2.5 * mebibyte]), ...over }))
    const { session } = await open(sessions, changes)
    await t.rejects(send(session), { code: 'unavailable' }, title)
    t.equal(session.state, 'failed_retriable')
    t.same(files(), [])
    const { resumed } = await open(sessions, changes)
    t.ok(resumed)
    t.equal(session.frontier, 0, title)
    await chunk(session, 0)
    await sessions.abort(session)
    t.same(files(), [])
  }
})

void t.test('an upload that cannot succeed is not resumed', async (t) => {
  const { sessions, files, store } = await stage(t, (local) => failing(local, [2 * mebibyte], 'denied'))
  const { session } = await open(sessions)
  await t.rejects(send(session), { code: 'denied' })
  t.equal(session.state, 'failed_permanent')
  const next = await open(sessions)
  t.not(next.session, session)
  t.notOk(next.resumed)
  await t.rejects(session.complete(never), { code: 'denied' })
  await send(next.session)
  await next.session.complete(never)
  t.same(files(), [{ name: 'file', size: content.length }])
  t.same(await store.uploads.orphaned(), [])
})

void t.test('a guest has only the upload whose id it sends', async (t) => {
  const { sessions, files } = await stage(t)
  const guest = principal({ userId: 2, username: 'guest', role: 'guest' })
  const openWith = (id?: string) => sessions.open(guest, file, chunkSize, never, id)
  const { session } = await openWith()
  await chunk(session, 0)
  t.equal(sessions.find(guest, file.path, file.size), undefined)
  const other = await openWith()
  t.not(other.session, session)
  t.notOk(other.resumed)
  t.match(await openWith(session.id), { session: { id: session.id, frontier: 1 }, resumed: true })
  const ofUser = await sessions.open(user, file, chunkSize, never, session.id)
  t.notOk(ofUser.resumed, 'nor has a user that of a guest')
  await sessions.abort(ofUser.session)
  await sessions.abort(other.session)
  await send(session)
  await session.complete(never)
  t.same(files(), [{ name: 'file', size: content.length }])
})

void t.test('a failure at the start is that of open', async (t) => {
  const { sessions } = await stage(t, () => ({ upload: () => Promise.reject(new GatewayError('no_space')) }))
  await t.rejects(open(sessions), { code: 'no_space', op: 'write', path: '/file' })
  t.equal(sessions.find(user, file.path, file.size), undefined)
})

void t.test('nothing remains of an upload that is aborted, idle or closed', async (t) => {
  for (const [title, times, end] of [
    ['aborted', {}, (sessions: UploadSessions, session: UploadSession) => sessions.abort(session)],
    ['idle', { idle: 2000 }, async () => undefined],
    ['closed', {}, (sessions: UploadSessions) => sessions.close()],
  ] as const) {
    const { sessions, files, store } = await stage(t, undefined, times)
    const { session } = await open(sessions)
    await chunk(session, 0)
    await chunk(session, 1)
    t.equal(files().length, 1)
    t.equal((await store.uploads.orphaned()).length, 1)
    await end(sessions, session)
    if (title === 'idle') while ((await store.uploads.orphaned()).length > 0) await delay(50)
    t.same(files(), [], title)
    t.same(await store.uploads.orphaned(), [], title)
    t.throws(() => sessions.get(user, session.id), { code: 'not_found' })
    await t.rejects(chunk(session, 2), { code: 'not_found' })
  }
})

void t.test('what a killed process has left is discarded when the storage starts', async (t) => {
  const { sessions, files, uploads, store } = await stage(t)
  const { session } = await open(sessions)
  await chunk(session, 0)
  const [row] = await store.uploads.orphaned()
  await uploads.discardUnused({ row: { id: row?.storageId } } as Parameters<typeof uploads.discardUnused>[0])
  t.equal(files().length, 1, 'not what is in use')
  await send(session)
  await session.complete(never)
  t.same(files(), [{ name: 'file', size: content.length }])
})

void t.test('a completed upload is known for a time', async (t) => {
  const { sessions } = await stage(t, undefined, { completed: 2000, idle: 2000 })
  const { session } = await open(sessions, { size: 10 })
  await chunk(session, 0)
  await session.complete(never)
  t.equal(sessions.get(user, session.id).state, 'completed')
  t.equal(sessions.find(user, file.path, 10), undefined)
  const isKnown = () => {
    try {
      return sessions.get(user, session.id) === session
    } catch {
      return false
    }
  }
  while (isKnown()) await delay(50)
  t.throws(() => sessions.get(user, session.id), { code: 'not_found' })
})

void t.test('a request waits for its turn as long as others make progress', async (t) => {
  const { sessions } = await stage(t, undefined, { hold: 2000, takeOver: 60_000 })
  const { session } = await open(sessions)
  const { source, body } = openBody()
  const first = session.receive(0, chunkSize, () => source.read(), never)
  const second = chunk(session, 1)
  const third = chunk(session, 2)
  for (let sent = 0; sent < chunkSize; sent += chunkSize / 4) {
    await delay(700)
    body.push(Buffer.from(content.subarray(sent, sent + chunkSize / 4)))
  }
  body.push(null)
  t.same(await Promise.all([first, second, third]), [true, true, true])

  await t.rejects(chunk(session, 4), { code: 'throttled', retryAfter: 1 }, 'nothing arrives')
  const controller = new AbortController()
  const waiting = chunk(session, 5, controller.signal)
  controller.abort()
  await t.rejects(waiting, { code: 'aborted' })
  t.equal(session.frontier, 3)
})

void t.test('a request takes over the chunk of one that is silent', async (t) => {
  const { sessions, folder } = await stage(t, undefined, { takeOver: 2000 })
  const { session } = await open(sessions)
  const { source, body } = openBody()
  const silent = session.receive(0, chunkSize, () => source.read(), never)
  body.push(Buffer.from(content.subarray(0, 5000)))
  const taken = t.rejects(silent, { code: 'busy' })
  let refusals = 0
  const retry = (): Promise<boolean> =>
    chunk(session, 0).catch(async (error: unknown) => {
      t.match(error, { code: 'busy' })
      refusals++
      await delay(100)
      return retry()
    })
  t.ok(await retry())
  t.ok(refusals > 0)
  await taken
  await send(session)
  await session.complete(never)
  t.ok(readFileSync(join(folder, 'file')).equals(content))
})

void t.test('the last bytes reach the storage when the upload is completed', async (t) => {
  let taken = 0
  async function* counted(body: AsyncIterable<Buffer>) {
    for await (const bytes of body) {
      taken += bytes.length
      yield bytes
    }
  }
  const { sessions, as } = await stage(t, (local) => ({
    upload: undefined,
    write: async (path, source, options) => {
      const read = async () => Readable.from(counted(await source.read()), { objectMode: false })
      return local.write(path, { ...source, read }, options)
    },
  }))
  const { session } = await open(sessions)
  await send(session)
  while (taken <= 20 * mebibyte) await delay(5)
  await delay(50)
  t.ok(taken < content.length, `${taken} bytes before`)
  t.ok(session.storedBytes <= taken)
  await t.rejects(text(as().read(file.path)), { code: 'not_found' })
  const gone = new AbortController()
  gone.abort()
  await t.rejects(session.complete(gone.signal), { code: 'aborted' }, 'the client has gone')
  await session.complete(never)
  t.equal(taken, content.length)
  t.equal((await as().stat(file.path)).size, content.length)
})

void t.test('a failure to publish is repaired by another attempt', async (t) => {
  let failures = 0
  const { sessions, folder, files, store } = await stage(t, (local) => ({
    upload: async (path, plan, options) => {
      const started = await local.upload(path, plan, options)
      const commit = () => {
        failures++
        return Promise.reject(new GatewayError('unavailable'))
      }
      return failures > 0 ? started : { ...started, commit }
    },
  }))
  const { session } = await open(sessions)
  await send(session)
  await t.rejects(session.complete(never), { code: 'unavailable' })
  t.equal(session.state, 'failed_retriable')
  t.notOk(files().some(({ name }) => name === 'file'))
  t.equal((await open(sessions)).session, session)
  await send(session)
  await session.complete(never)
  t.equal(session.state, 'completed')
  t.ok(readFileSync(join(folder, 'file')).equals(content))
  t.same(files(), [{ name: 'file', size: content.length }])
  t.same(await store.uploads.orphaned(), [])
})

void t.test('open uploads of many users leave some to the next one', async (t) => {
  const { as: _, dependencies, uploads } = await newTree(t, { '/': {} })
  const sessions = new UploadSessions({ as: (who) => new VirtualFs(dependencies, who), uploads, times: { open: 1 } })
  t.teardown(() => sessions.close())
  const counts = new Map<number, number>()
  for (let userId = 1; userId <= 9; userId++) {
    const who = principal({ userId })
    for (let count = 0; count < 40; count++) {
      try {
        await sessions.open(who, { ...file, path: asPath(`/${userId} ${count}`) }, chunkSize, never)
        counts.set(userId, count + 1)
      } catch (error) {
        t.match(error, { code: 'throttled' })
        break
      }
    }
  }
  t.same([...counts.values()], [32, 32, 32, 32, 32, 32, 32, 16, 8])
})
