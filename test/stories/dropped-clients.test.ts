/**
 * A client whose connection breaks during a transfer: within a second the work of the driver has ended, its signal
 * has aborted, and nothing of an upload is left. The connection breaks while the driver waits for the client, or while
 * it waits for its backend.
 */
import { once } from 'node:events'
import { readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { localType } from '../../drivers/local/index.js'
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import type { WritableDriver } from '../driver-conformance/subject.js'
import { openLocal } from '../drivers/env.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from '../protocols/sftp/packet-client.js'
import { openChannel } from '../protocols/sftp/server-fixture.js'
import { basic } from '../protocols/webdav/dav-client.js'

/** Milliseconds in which the work must end. */
const limit = 1000
/** Bytes of each file that a stalling backend transfers before it stalls. */
const passing = 128 * 1024
const large = 64 * 1024 * 1024

/** A call of the driver. A call that opens a stream or a handle ends when that is closed. */
interface Call {
  readonly method: string
  readonly signal: AbortSignal | undefined
  ended: boolean
}

interface Recorder {
  readonly calls: Call[]
  /** The backend transfers no more than `passing` bytes. */
  stalls: boolean
}

/** The local driver, with or without handles, which records its calls. */
function recorded(inner: WritableDriver, recorder: Recorder, handles: boolean): Driver {
  const { calls } = recorder
  /** For a call that opens something: it ends now if it opens nothing. */
  const opening = async <Opened>(call: Call, work: Promise<Opened> | undefined): Promise<Opened> => {
    try {
      const opened = await work
      if (opened === undefined) throw new GatewayError('unsupported')
      return opened
    } catch (error) {
      call.ended = true
      throw error
    }
  }
  const begin = (method: string, signal?: AbortSignal): Call => {
    const call = { method, signal, ended: false }
    calls.push(call)
    return call
  }
  const stall = (signal: AbortSignal | undefined) =>
    new Promise<never>((_resolve, reject) => {
      const stop = () => reject(new GatewayError('aborted'))
      if (signal?.aborted) stop()
      else signal?.addEventListener('abort', stop, { once: true })
    })
  /** The first bytes of a stream, which then stalls until the signal aborts. */
  const stalled = (stream: Readable, signal: AbortSignal | undefined): Readable => {
    const bytes = async function* () {
      let left = passing
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        yield chunk.subarray(0, left)
        left -= chunk.length
        if (left <= 0) await stall(signal)
      }
    }
    return Readable.from(bytes(), { objectMode: false, signal }).once('close', () => stream.destroy())
  }
  const file = (opened: OpenFile, call: Call): OpenFile => {
    const pass = async (end: number) => {
      if (recorder.stalls && end > passing) await stall(call.signal)
    }
    return new Proxy(opened, {
      get(target, name: keyof OpenFile) {
        if (name === 'read') {
          return async (into: Buffer, at: number) => {
            await pass(at + into.length)
            return target.read(into, at)
          }
        }
        if (name === 'write') {
          return async (from: readonly Buffer[], at: number) => {
            await pass(from.reduce((sum, { length }) => sum + length, at))
            return target.write?.(from, at)
          }
        }
        if (name === 'close') {
          return async () => {
            await target.close()
            call.ended = true
          }
        }
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value
      },
    })
  }
  const over: Partial<Driver> = {
    async read(path, range, options) {
      const call = begin('read', options?.signal)
      const stream = await opening(call, inner.read(path, range, options))
      stream.once('close', () => (call.ended = true))
      return recorder.stalls ? stalled(stream, options?.signal) : stream
    },
    async write(path, source, options) {
      const call = begin('write', options?.signal)
      const read: typeof source.read = async (range, given) => {
        const body = await source.read(range, given)
        return recorder.stalls ? stalled(body, options?.signal) : body
      }
      try {
        return await inner.write(path, { ...source, read }, options)
      } finally {
        call.ended = true
      }
    },
    async open(path, mode, options) {
      const call = begin(`open ${mode}`, options?.signal)
      return file(await opening(call, inner.open?.(path, mode, options)), call)
    },
  }
  const hidden: readonly string[] = ['upload', 'dropUpload', 'copyFiles', ...(handles ? [] : ['open'])]
  return new Proxy(inner, {
    get(target, name: keyof Driver) {
      if (hidden.includes(name)) return undefined
      if (name in over) return over[name]
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || name === 'pages' || name === 'close') {
        return typeof value === 'function' ? (value as () => unknown).bind(target) : value
      }
      return async (...words: unknown[]) => {
        const call = begin(name, (words.at(-1) as CallOptions | undefined)?.signal)
        try {
          return (await Reflect.apply(value as () => unknown, target, words)) as unknown
        } finally {
          call.ended = true
        }
      }
    },
  })
}

interface Ground {
  readonly running: RunningGateway
  readonly recorder: Recorder
  /** The folder of the storage, which contains `old` and `large`. */
  readonly folder: string
  readonly token: string
}

async function prepare(t: Test, handles: boolean): Promise<Ground> {
  const folder = t.testdir()
  await writeFile(join(folder, 'old'), 'as it was')
  await writeFile(join(folder, 'large'), '')
  await truncate(join(folder, 'large'), large)
  const recorder: Recorder = { calls: [], stalls: false }
  const type: DriverType = {
    name: 'Recorded',
    fields: {},
    ...(localType.traits && { traits: localType.traits }),
    open: async () => recorded((await openLocal(folder)) as WritableDriver, recorder, handles),
  }
  const running = await startGateway(t, { driver: { name: 'Recorded' }, driverTypes: [type] })
  const { token } = await post<{ token: string }>(running, '/api/auth/login', {
    username: 'admin',
    password: running.adminPassword,
  })
  return { running, recorder, folder, token }
}

async function post<Data>({ url }: RunningGateway, path: string, body: object, authorization = ''): Promise<Data> {
  const headers = { 'content-type': 'application/json', authorization }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return ((await response.json()) as { data: Data }).data
}

/** A started transfer; `cut` breaks the connection. */
type Cut = () => void
type Begin = (ground: Ground, path: string) => Promise<Cut>

/** Sends the beginning of a request, and does not read the response. */
async function request({ running }: Ground, lines: readonly string[], body: string | Buffer = ''): Promise<Cut> {
  const socket = connect(Number(new URL(running.url).port), '127.0.0.1')
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.pause()
  socket.write(`${lines.join('\r\n')}\r\nhost: x\r\n\r\n`)
  socket.write(body)
  return () => socket.destroy()
}

/**
 * The beginning of a file: so much more than a stalling backend accepts that the connection is not read any more, and
 * bytes wait in the socket before its end.
 */
const half = Buffer.alloc(passing + 256 * 1024, 'new ')

const put =
  (endpoint: string, type: string, body: string | Buffer): Begin =>
  (ground, path) =>
    request(
      ground,
      [
        `PUT /api/fs/${endpoint} HTTP/1.1`,
        ...[`authorization: ${ground.token}`, `file-path: ${path}`, `content-type: ${type}`, 'content-length: 9999999'],
      ],
      body,
    )

async function sftp({ running }: Ground): Promise<{ client: PacketClient; cut: Cut }> {
  const connection = new ssh2.Client()
  const ready = once(connection, 'ready')
  connection.on('error', () => undefined)
  connection.connect({
    ...{ host: '127.0.0.1', port: running.sftpPort },
    ...{ username: 'admin', password: running.adminPassword },
  })
  await ready
  const client = new PacketClient(await openChannel(connection))
  await client.start()
  return { client, cut: () => connection.destroy() }
}

const openToWrite = flags.write | flags.create | flags.truncate

const uploads: Readonly<Record<string, Begin>> = {
  'HTTP PUT': put('put', 'application/octet-stream', half),
  'HTTP form upload': put(
    'form',
    'multipart/form-data; boundary=b',
    `--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n${half.toString()}`,
  ),
  'WebDAV PUT': (ground, path) =>
    request(
      ground,
      [
        `PUT /dav${path} HTTP/1.1`,
        ...[`authorization: ${basic('admin', ground.running.adminPassword)}`, 'content-length: 9999999'],
      ],
      half,
    ),
  'SFTP WRITE': async (ground, path) => {
    const { client, cut } = await sftp(ground)
    const handle = await client.mustOpen(path, openToWrite)
    for (let at = 0; at < half.length; at += 32_768) {
      void client.ask(types.write, string(handle), uint64(at), string(half.subarray(at, at + 32_768)))
    }
    return cut
  },
}

/** The connection breaks while the client waits for the response to CLOSE. */
const closing: Begin = async (ground, path) => {
  const { client, cut } = await sftp(ground)
  const handle = await client.mustOpen(path, openToWrite)
  for (let at = 0; at < half.length; at += 32_768) {
    void client.ask(types.write, string(handle), uint64(at), string(half.subarray(at, at + 32_768)))
  }
  void client.ask(types.close, string(handle))
  return cut
}

const downloads: Readonly<Record<string, Begin>> = {
  'HTTP GET': async (ground, path) => {
    const { raw_url } = await post<{ raw_url: string }>(ground.running, '/api/fs/get', { path }, ground.token)
    const { pathname, search } = new URL(raw_url)
    return request(ground, [`GET ${pathname}${search} HTTP/1.1`])
  },
  'WebDAV GET': (ground, path) =>
    request(ground, [`GET /dav${path} HTTP/1.1`, `authorization: ${basic('admin', ground.running.adminPassword)}`]),
  'SFTP READ': async (ground, path) => {
    const { client, cut } = await sftp(ground)
    const handle = await client.mustOpen(path, flags.read)
    await client.ask(types.read, string(handle), uint64(0), uint32(32_768))
    for (let at = 32_768; at < 4 * passing; at += 32_768) {
      void client.ask(types.read, string(handle), uint64(at), uint32(32_768))
    }
    return cut
  },
}

/** Files of the storage, including staged ones, and files of the spool. */
async function filesOf({ folder, running }: Ground): Promise<readonly string[]> {
  const all = await Promise.all([folder, join(running.dataFolder, 'spool')].map(listed))
  return all.flat().sort()
}

async function listed(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** Waits at most `milliseconds` for the condition. Resolves to whether it was met. */
async function soon(what: () => boolean | Promise<boolean>, milliseconds = limit): Promise<boolean> {
  const end = Date.now() + milliseconds
  while (!(await what())) {
    if (Date.now() > end) return false
    await wait(10)
  }
  return true
}

/** Breaks the connection while calls of the driver are pending. Their signals must abort, and their work must end. */
async function breakConnection(t: Test, { recorder }: Ground, cut: Cut): Promise<void> {
  const running = () => recorder.calls.filter(({ ended }) => !ended)
  let cutOff: readonly Call[] = []
  // On a busy machine, the calls of the first part of the transfer may end before the next part arrives.
  const isWaiting = async () => {
    cutOff = running()
    await wait(200)
    return cutOff.length > 0 && cutOff.every(({ ended }) => !ended) && running().length === cutOff.length
  }
  t.ok(await soon(isWaiting, 30_000), 'calls of the driver are pending')
  cut()
  for (const { method, signal } of cutOff) {
    t.ok(await soon(() => signal?.aborted === true), `the signal of ${method} aborts`)
  }
  t.ok(await soon(() => running().length === 0), 'its work ends', { running: running().map(({ method }) => method) })
}

async function cutsOff(t: Test, ground: Ground, begin: Begin, path: string): Promise<void> {
  const { recorder, folder } = ground
  recorder.calls.length = 0
  await breakConnection(t, ground, await begin(ground, path))
  t.ok(await soon(async () => (await filesOf(ground)).join() === 'large,old'), 'nothing is left', {
    files: await filesOf(ground),
  })
  t.equal(await readFile(join(folder, 'old'), 'utf8'), 'as it was')
  const { content } = await post<{ content: { name: string }[] }>(
    ground.running,
    '/api/fs/list',
    { path: '/', refresh: true },
    ground.token,
  )
  t.same(content.map(({ name }) => name).sort(), ['large', 'old'])
  const count = recorder.calls.filter(({ method }) => method === 'read' || method === 'write').length
  await wait(100)
  t.equal(
    recorder.calls.filter(({ method }) => method === 'read' || method === 'write').length,
    count,
    'it is not retried',
  )
}

for (const handles of [true, false]) {
  void t.test(`on a storage ${handles ? 'with' : 'without'} handles`, async (t) => {
    const ground = await prepare(t, handles)
    for (const stalls of [false, true]) {
      const waiting = stalls ? 'while the backend stalls' : 'while the driver waits for the client'
      for (const [title, begin] of Object.entries(uploads)) {
        for (const path of ['/old', '/new']) {
          await t.test(`${title} of ${path}, ${waiting}`, async (t) => {
            ground.recorder.stalls = stalls
            await cutsOff(t, ground, begin, path)
          })
        }
      }
      for (const [title, begin] of Object.entries(downloads)) {
        await t.test(`${title}, ${waiting}`, async (t) => {
          ground.recorder.stalls = stalls
          await cutsOff(t, ground, begin, '/large')
        })
      }
    }
    for (const path of ['/old', '/new']) {
      await t.test(`SFTP CLOSE of ${path}, while the backend stalls`, async (t) => {
        ground.recorder.stalls = true
        await cutsOff(t, ground, closing, path)
      })
    }
    await t.test('SFTP WRITE to a second handle after CLOSE of the first, while the backend stalls', async (t) => {
      const { recorder, folder } = ground
      recorder.stalls = false
      const { client, cut } = await sftp(ground)
      const [first, second] = [await client.mustOpen('/two', openToWrite), await client.mustOpen('/two', openToWrite)]
      t.equal(await client.write(first, large - 4, 'last'), status.ok)
      // Publishes the staged file. The next WRITE opens the published one.
      t.equal(await client.close(first), status.ok)
      recorder.stalls = true
      recorder.calls.length = 0
      void client.ask(types.write, string(second), uint64(large), string('more'))
      await breakConnection(t, ground, cut)
      t.equal((await stat(join(folder, 'two'))).size, large)
      await rm(join(folder, 'two'))
    })
  })
}
