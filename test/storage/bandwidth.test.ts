/** Speed limits of streams and handles: the rate is shared fairly, and waiting ends on abort. */
import { getEventListeners, once } from 'node:events'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { OpenFile } from '../../src/contract/capabilities.js'
import { asPath } from '../../src/base/path.js'
import { SpeedLimit } from '../../src/storage/bandwidth.js'
import { passedFile } from '../../src/storage/edge.js'
import { newTree, sourceOf } from '../tree/tree-fixture.js'

const kib = 1024

async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return (performance.now() - begin) / 1000
}

void t.test('SpeedLimit.stream() passes the bytes unchanged at the limited rate', async (t) => {
  const limit = new SpeedLimit(() => 200 * kib)
  const sent = Buffer.alloc(100 * kib, 'abc')
  const took = await secondsOf(async () => t.ok((await buffer(limit.stream(Readable.from([sent])))).equals(sent)))
  t.ok(took > 0.35, `${took} s`)
})

void t.test('streams of one SpeedLimit share its rate fairly', async (t) => {
  const limit = new SpeedLimit(() => 200 * kib)
  const arrived = [0, 0]
  const atFirstEnd: number[][] = []
  const took = await secondsOf(() =>
    Promise.all(
      [0, 1].map(async (index) => {
        for await (const chunk of limit.stream(Readable.from([Buffer.alloc(50 * kib)]))) {
          arrived[index] = (arrived[index] ?? 0) + (chunk as Buffer).length
        }
        atFirstEnd.push([...arrived])
      }),
    ),
  )
  t.ok(took > 0.35, `${took} s`)
  t.ok(
    Math.min(...(atFirstEnd[0] ?? [])) >= 20 * kib,
    `no stream waits for the end of the other: ${atFirstEnd.join(' ')}`,
  )
})

void t.test('SpeedLimit.stream() without a limit returns the stream itself', async (t) => {
  const bytes = Readable.from([])
  t.equal(new SpeedLimit(() => Infinity).stream(bytes), bytes)
})

void t.test('SpeedLimit.recalculate() resumes streams that wait when the limit is lifted', async (t) => {
  let rate = kib
  const limit = new SpeedLimit(() => rate)
  const arrived = buffer(limit.stream(Readable.from([Buffer.alloc(1000 * kib)])))
  await wait(50)
  rate = Infinity
  limit.recalculate()
  t.equal((await arrived).length, 1000 * kib)
})

void t.test('destroying a limited stream destroys its source', async (t) => {
  const behind = Readable.from([Buffer.alloc(1000 * kib)])
  const slow = new SpeedLimit(() => kib).stream(behind)
  slow.resume()
  await wait(20)
  slow.destroy()
  await once(slow, 'close')
  t.equal(behind.destroyed, true)
})

void t.test('an error of the source becomes an error of the limited stream', async (t) => {
  const behind = new Readable({
    read() {
      this.destroy(new Error('broken'))
    },
  })
  await t.rejects(buffer(new SpeedLimit(() => kib).stream(behind)), { message: 'broken' })
})

void t.test('a throttled handle stops waiting on abort and when it is closed', async (t) => {
  const limit = new SpeedLimit(() => kib)
  const entry = { name: 'x', kind: 'file', size: 0, modified: new Date(0) } as const
  const file = { entry, read: async () => 0, write: async () => undefined, close: async () => undefined }
  const session = new AbortController()
  for (const stop of [async () => session.abort(), async (handle: OpenFile) => handle.close()]) {
    const handle = passedFile(file, {
      limits: { reading: limit, writing: limit, signals: [undefined, session.signal] },
    })
    const reading = handle.read(Buffer.alloc(1000 * kib), 0)
    const writing = handle.write?.([Buffer.alloc(1000 * kib)], 0)
    const ends = Promise.all([reading, writing].map((call) => t.rejects(async () => call, { code: 'aborted' })))
    await wait(10)
    await stop(handle)
    await ends
    await handle.close()
  }
  t.same(getEventListeners(session.signal, 'abort'), [])
})

void t.test('a throttled handle of the tree stops waiting when its request or its session ends', async (t) => {
  for (const setting of ['max_client_download_speed', 'max_server_download_speed']) {
    const tree = await newTree(t, { '/': { traits: { remote: true } } })
    await tree.as().write(asPath('/file'), sourceOf(Buffer.alloc(1000 * kib)))
    await tree.settings.set(new Map([[setting, '1']]))
    for (const which of ['request', 'session'] as const) {
      // The backend receives the signal of the request only.
      if (which === 'session' && setting === 'max_server_download_speed') continue
      const [request, session] = [new AbortController(), new AbortController()]
      const fs = tree.as({ signal: session.signal })
      const handle = await fs.open(asPath('/file'), 'read', { signal: request.signal })
      const reading = handle.read(Buffer.alloc(1000 * kib), 0)
      const ends = t.rejects(reading, { code: which === 'request' ? 'aborted' : 'unauthenticated' }, setting)
      await wait(10)
      ;({ request, session })[which].abort()
      await ends
      await handle.close()
    }
  }
})

void t.test('the speed settings apply to streams and handles, of clients and of remote backends', async (t) => {
  const tree = await newTree(t, { '/near': {}, '/far': { traits: { remote: true } } })
  const fs = tree.as()
  const file = (folder: string) => asPath(`/${folder}/file`)
  const bytes = Buffer.alloc(60 * kib)
  const limited = async (key: string, folder: string, work: () => Promise<unknown>) => {
    await tree.settings.set(new Map([[key, '120']]))
    const took = await secondsOf(work)
    await tree.settings.set(new Map([[key, '-1']]))
    t.ok(took > 0.25, `${key} of /${folder}: ${took} s`)
  }
  const through = async (folder: string) => {
    const handle = await fs.open(file(folder), 'read')
    await handle.read(Buffer.alloc(bytes.length), 0)
    await handle.close()
  }
  const into = async (folder: string) => {
    const handle = await fs.open(file(folder), 'replace')
    await handle.write([bytes], 0)
    await handle.commit?.()
  }
  const get = async (folder: string) => buffer(await fs.read(file(folder)))
  const put = (folder: string) => fs.write(file(folder), sourceOf(bytes))
  for (const folder of ['near', 'far']) {
    await put(folder)
    for (const work of [get, through]) await limited('max_client_download_speed', folder, () => work(folder))
    for (const work of [put, into]) await limited('max_client_upload_speed', folder, () => work(folder))
  }
  for (const work of [get, through]) await limited('max_server_download_speed', 'far', () => work('far'))
  for (const work of [put, into]) await limited('max_server_upload_speed', 'far', () => work('far'))
  await tree.settings.set(
    new Map([
      ['max_server_download_speed', '1'],
      ['max_server_upload_speed', '1'],
    ]),
  )
  // At this rate, these would take two minutes.
  const took = await secondsOf(async () => {
    await put('near')
    await get('near')
  })
  t.ok(took < 60, 'the server limits do not apply to a local storage')
})
