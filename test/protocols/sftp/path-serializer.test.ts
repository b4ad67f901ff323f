/** Pipelined requests are executed in order only if their paths overlap. */
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { PathSerializer } from '../../../protocols/sftp/path-serializer.js'
import type { AnyDriverType } from '../../../src/contract/driver-type.js'
import { asPath } from '../../../src/base/path.js'
import { configSchema } from '../../../src/installation/config.js'
import { Gateway } from '../../../src/gateway/gateway.js'
import { createLog } from '../../../src/process/log.js'
import { altered } from '../../tree/tree-fixture.js'
import { flags, PacketClient, status } from './packet-client.js'
import { openChannel, password, serveProtocol } from './server-fixture.js'
import { protocols } from '../../../protocols/index.js'

type Request = readonly [how: 'look' | 'change', ...paths: string[]]

/** Whether the second request begins before the first has ended. */
async function runBeside(...requests: readonly [Request, Request]): Promise<boolean> {
  const order = new PathSerializer()
  let end: () => void = () => undefined
  const first = new Promise<void>((resolve) => (end = resolve))
  let begun = false
  const works = [
    () => first,
    async () => {
      begun = true
    },
  ]
  const [one, two] = requests.map(([how, ...paths], at) =>
    order.run(paths.map(asPath), how === 'change', works[at] ?? works[0]!),
  )
  await Promise.resolve()
  const beside = begun
  end()
  await Promise.all([one, two])
  t.ok(begun)
  return beside
}

void t.test('a request waits for earlier requests of overlapping paths if one of the two is a change', async (t) => {
  const rows: readonly (readonly [Request, Request])[] = [
    [
      ['change', '/a/b'],
      ['look', '/a/b'],
    ],
    [
      ['change', '/a/b'],
      ['look', '/a'],
    ],
    [
      ['change', '/a'],
      ['look', '/a/b/c'],
    ],
    [
      ['change', '/a/b/c'],
      ['change', '/a'],
    ],
    [
      ['change', '/a/b', '/x'],
      ['look', '/x/y'],
    ],
    [
      ['look', '/a'],
      ['change', '/a/b'],
    ],
    [
      ['change', '/a'],
      ['look', '/'],
    ],
  ]
  for (const [one, two] of rows) t.notOk(await runBeside(one, two), `${one.join(' ')}, then ${two.join(' ')}`)
})

void t.test('all other requests run concurrently', async (t) => {
  const rows: readonly (readonly [Request, Request])[] = [
    [
      ['look', '/a'],
      ['look', '/a'],
    ],
    [
      ['change', '/a/b'],
      ['look', '/'],
    ],
    [
      ['look', '/'],
      ['change', '/a/b'],
    ],
    [
      ['change', '/a/b'],
      ['look', '/a/bc'],
    ],
    [
      ['change', '/a/b'],
      ['change', '/a/c'],
    ],
  ]
  for (const [one, two] of rows) t.ok(await runBeside(one, two), `${one.join(' ')}, then ${two.join(' ')}`)
})

void t.test('a slow CLOSE delays only requests of the same path', async (t) => {
  const inner = new MemoryDriver(0)
  let store: () => void = () => undefined
  const stored = new Promise<void>((resolve) => (store = resolve))
  const driver = altered(inner, {
    open: async (path, mode, options) => {
      const file = await inner.open(path, mode, options)
      if (path !== '/far/away/file') return file
      return {
        ...file,
        commit: async (attributes) => {
          await stored
          return (await file.commit?.(attributes)) ?? file.entry
        },
      }
    },
  })
  const fields = { root_folder_path: { type: 'string', default: '' } } as const
  const type: AnyDriverType = { name: 'Local', fields, open: async () => driver }
  const config = { ...configSchema(protocols).parse({ sftp: 'off' }), data: join(t.testdir(), 'data') }
  const gateway = await Gateway.open({
    config,
    log: createLog('silent'),
    drivers: [type],
    protocols,
    admin: { password },
  })
  t.teardown(() => gateway.close())
  const protocol = await serveProtocol(t, gateway)
  const client = new PacketClient(await openChannel(await protocol.connect()))
  await client.start()
  await inner.mkdir(asPath('/far'))
  await inner.mkdir(asPath('/far/away'))
  await client.put('/near', 'near')

  const handle = await client.mustOpen('/far/away/file', flags.write | flags.create | flags.truncate)
  await client.write(handle, 0, 'slow')
  const closed = client.close(handle)
  const sizes = client.list('/far/away')
  t.type(await client.stat('/'), 'object')
  t.same([...(await client.list('/')).keys()].sort(), ['.', '..', 'far', 'near'])
  t.same([...(await client.list('/far')).keys()].sort(), ['.', '..', 'away'])
  t.equal(await client.get('/near'), 'near')
  t.equal(await client.put('/beside', 'beside'), status.ok)
  store()
  t.equal(await closed, status.ok)
  t.match((await sizes).get('file'), / 4 /)
})
