/** One session that is used concurrently over storages with different spellings of paths. */
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { asPath } from '../../../src/base/path.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { PacketClient, status, string, symlinkTypes } from './packet-client.js'
import { openChannel, serveProtocol } from './server-fixture.js'

/** The sizes of files in both storages, by the paths by which they are asked for. */
const sizes = { '/Folded': 1, '/FOLDED': 1, '/exact/Name': 2, '/exact/NAME': 3 }

/**
 * A session of a user whose base folder has another spelling in the case-insensitive storage that contains it than in
 * the account. A case-sensitive storage is mounted at `/exact` in it. Every path can be read as a symlink to `PATH
 * target`. `wait`: what reading one waits for.
 */
async function startSession(t: Test, wait: () => Promise<void>) {
  const open = async (caseSensitive: boolean) => {
    const readSymlink = async (path: string) => {
      await wait()
      return `${path} target`
    }
    return altered(new MemoryDriver(0, caseSensitive), { readSymlink })
  }
  const driverTypes = [
    { name: 'Folded', fields: {}, open: () => open(false) },
    { name: 'Exact', fields: {}, open: () => open(true) },
  ]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Folded' }, driverTypes })
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  // The first one decides on the spelling of `/Users` in the storage at `/`.
  for (const mountPath of ['/Users/eve', '/users/ada/exact']) {
    await gateway.storages.create({ ...like, driver: 'Exact', mountPath })
  }
  const running = await serveProtocol(t, gateway)
  const ada = gateway.accounts.users.list().find(({ username }) => username === 'ada')?.id ?? 0
  await gateway.as(gateway.accounts.principals.forTask(ada)).mkdir(asPath('/Users/Ada'), { parents: true })
  await gateway.accounts.users.update(ada, { basePath: asPath('/users/ada') })
  const client = new PacketClient(await openChannel(await running.connect()))
  await client.start()
  for (const [path, size] of Object.entries(sizes)) t.equal(await client.put(path, 'x'.repeat(size)), status.ok, path)
  const readLink = async (path: string) => {
    const { type, body } = await client.ask(symlinkTypes.readlink, string(path))
    return type === 104 ? body.subarray(8, 8 + body.readUInt32BE(4)).toString() : `status ${body.readUInt32BE(0)}`
  }
  return { client, readLink }
}

void t.test('a request is answered in the spelling of its own storage while the session has sent others', async (t) => {
  let begin: () => void = () => undefined
  let end: () => void = () => undefined
  const { client, readLink } = await startSession(t, () => {
    begin()
    return new Promise((resolve) => (end = resolve))
  })
  const pairs = [
    ['/folded', '/exact/Name'],
    ['/exact/NAME', '/FOLDED'],
    ['/FOLDED', '/exact/NAME'],
  ] as const
  for (const [slow, other] of pairs) {
    const begun = new Promise<void>((resolve) => (begin = resolve))
    const target = readLink(slow)
    await begun
    t.match(await client.stat(other), { size: sizes[other] }, other)
    end()
    t.equal(await target, slow.startsWith('/exact') ? `${slow} target` : '/Folded target', slow)
  }
})

void t.test('many requests of a session at once are answered for their own paths', async (t) => {
  const { client, readLink } = await startSession(t, async () => undefined)
  const rounds = Array.from({ length: 25 }, () => Object.entries(sizes)).flat()
  const answers = await Promise.all(
    rounds.map(async ([path]) => {
      const [entry, target] = await Promise.all([client.stat(path), readLink(path)])
      return [path, typeof entry === 'number' ? `status ${entry}` : entry.size, target]
    }),
  )
  const targetOf = (path: string) => `${path === '/FOLDED' ? '/Folded' : path} target`
  t.same(
    answers,
    rounds.map(([path, size]) => [path, size, targetOf(path)]),
  )
})
