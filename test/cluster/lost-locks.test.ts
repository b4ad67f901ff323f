/** A change whose path locks are lost with the connection to the database ends: others may have the locks. */
import { once } from 'node:events'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import { untilAborted } from '../../src/base/cancellation.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { sender } from '../protocols/webdav/dav-client.js'
import { thisServer } from '../database/engines.js'
import { altered } from '../tree/tree-fixture.js'

void t.test('the driver is told, and the client gets 503', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const server = await thisServer()
  const location = await server.createDatabase()
  const calls = new EventTarget()
  let stalls = true
  const stall = async ({ signal }: CallOptions = {}) => {
    if (!stalls) return
    calls.dispatchEvent(new Event('stalled'))
    await untilAborted(new Promise<never>(() => undefined), signal)
  }
  const backend = new MemoryDriver(0)
  const stalling = altered(backend, {
    open: undefined,
    mkdir: async (path, options) => {
      await stall(options)
      await backend.mkdir(path, options)
    },
    removeTree: undefined,
    remove: async (path, options) => {
      await stall(options)
      await backend.remove(path, options)
    },
    move: async (from, to, options) => {
      await stall(options)
      await backend.move(from, to, options)
    },
    write: (path, source, options) => {
      const beforePublish = async () => {
        await options?.beforePublish?.()
        await stall(options)
      }
      return backend.write(path, source, { ...options, beforePublish })
    },
  })
  const type: AnyDriverType = { name: 'Stalling', fields: {}, open: async () => stalling }
  const [node] = await startNodes(t, location, 1, { driver: { name: 'Stalling' }, driverTypes: [type] })
  if (!node) throw new Error('no gateway')
  const send = sender(node)
  const ask = async (method: string, path: string, body?: string) =>
    (await send(method, path, { destination: '/dav/other' }, body)).status
  const cutLocks = () =>
    server.query(
      `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database =
       (select oid from pg_database where datname = '${new URL(location).pathname.slice(1)}')`,
    )

  stalls = false
  t.equal(await ask('PUT', '/file', 'old'), 201)
  const changes = [
    ['MKCOL', '/folder'],
    ['PUT', '/file', 'new'],
    ['PUT', '/new', 'x'],
    ['PUT', '/large', 'x'.repeat(300_000)],
    ['MOVE', '/file'],
    ['DELETE', '/file'],
  ] as const
  for (const [method, path, body] of changes) {
    stalls = true
    const stalled = once(calls, 'stalled')
    const answer = ask(method, path, body)
    await stalled
    await cutLocks()
    t.equal(await answer, 503, `${method} ${path}`)
    stalls = false
    t.equal(await ask('GET', '/file'), 200)
  }
  t.equal(await ask('MOVE', '/file'), 201, 'the next change has locks again')
})
