/**
 * A range near the end of a file costs that range: over every protocol, what the driver has read for it is counted,
 * with handles and without, and below Alias and Crypt.
 */
import { randomBytes } from 'node:crypto'
import { Transform } from 'node:stream'
import t, { type Test } from 'tap'
import { blockSize, headerSize, sealedBlockSize } from '../../drivers/crypt/content.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { altered, bare } from '../tree/tree-fixture.js'
import { connectWebDav, openSftp } from './protocols.js'

const content = randomBytes(40 * blockSize + 1234)
const length = 100
const offset = content.length - length
const last = content.subarray(offset)

/** Driver types whose drivers count the bytes that leave them, by stream or by handle. */
function counted(): { readonly types: readonly AnyDriverType[]; readonly take: () => number } {
  let bytes = 0
  const counting = (isStreamed: boolean) => {
    const inner = new MemoryDriver(0)
    return altered(inner, {
      read: async (path, range, options) => {
        const transform = (chunk: Buffer, _encoding: string, done: (error: null, chunk: Buffer) => void) => {
          bytes += chunk.length
          done(null, chunk)
        }
        return (await inner.read(path, range, options)).pipe(new Transform({ transform }))
      },
      open: async (path, mode, options) => {
        const file = await inner.open(path, mode, options)
        const read = async (into: Buffer, position: number) => {
          const filled = await file.read(into, position)
          bytes += filled
          return filled
        }
        return new Proxy(file, {
          get: (target, key) => {
            if (key === 'read') return read
            const value: unknown = Reflect.get(target, key)
            return typeof value === 'function' ? (value.bind(target) as unknown) : value
          },
        })
      },
      ...(isStreamed && bare),
    })
  }
  const type = (name: string, isStreamed: boolean): AnyDriverType => ({
    name,
    fields: {},
    open: async () => counting(isStreamed),
  })
  const take = () => {
    const taken = bytes
    bytes = 0
    return taken
  }
  return { types: [type('Handles', false), type('Streams', true)], take }
}

interface Client {
  readonly protocol: string
  /** The last bytes of the file. */
  readonly end: (path: string) => Promise<Buffer>
}

/** One client of each way to read a range. */
async function clients(t: Test, running: RunningGateway): Promise<readonly Client[]> {
  const { url, davUrl, sftpPort, adminPassword: password } = running
  const post = async (path: string, body: object, token = '') => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return ((await response.json()) as { data: { token: string; raw_url: string } }).data
  }
  const { token } = await post('/api/auth/login', { username: 'admin', password })
  const ranged = async (from: string, headers: Record<string, string>) => {
    const response = await fetch(from, { headers })
    t.equal(response.status, 206)
    return Buffer.from(await response.arrayBuffer())
  }
  const Authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  const { client, sftp } = await openSftp({ sftpPort }, { username: 'admin', password })
  t.teardown(() => client.end())
  const call = <T>(work: (done: (error: Error | null | undefined, value: T) => void) => void): Promise<T> =>
    new Promise((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value))))
  return [
    {
      protocol: 'HTTP, a suffix',
      end: async (path) => {
        const { raw_url: address } = await post('/api/fs/get', { path }, token)
        return ranged(address, { Range: `bytes=-${length}` })
      },
    },
    { protocol: 'WebDAV', end: (path) => ranged(davUrl + path.slice(1), { Authorization, Range: `bytes=${offset}-` }) },
    {
      protocol: 'SFTP',
      end: async (path) => {
        const into = Buffer.alloc(length)
        const handle = await call<Buffer>((done) => sftp.open(path, 'r', done))
        await call<number>((done) => sftp.read(handle, into, 0, length, offset, done))
        await call<undefined>((done) => sftp.close(handle, (error) => done(error, undefined)))
        return into
      },
    },
  ]
}

void t.test('for a range near the end, a driver reads that range', async (t) => {
  const { types, take } = counted()
  const running = await startGateway(t, { driverTypes: types })
  const { gateway, adminPassword } = running
  const mount = async (path: string, driver: string, addition: object = {}) => {
    const [first] = gateway.storages.list()
    if (!first) throw new Error('nothing is mounted')
    const { id: _id, ...like } = first
    await gateway.storages.create({ ...like, mountPath: path, driver, addition: JSON.stringify(addition) })
  }
  const dav = connectWebDav(running, { username: 'admin', password: adminPassword })
  // The end may be in two blocks of Crypt, and the header of a file is read once.
  const sealed = headerSize + 2 * sealedBlockSize
  const storages: (readonly [path: string, most: number])[] = []
  for (const name of ['Handles', 'Streams']) {
    const path = `/${name.toLowerCase()}`
    await mount(path, name)
    for (const folder of ['aliased', 'sealed']) t.equal(await dav.makeFolder(`${path}/${folder}`), 'done')
    const policy = { write_conflict_policy: 'first', put_conflict_policy: 'first' }
    await mount(`${path}-alias`, 'Alias', { paths: `${path}/aliased`, ...policy })
    await mount(`${path}-crypt`, 'Crypt', { remote_path: `${path}/sealed`, password: 'potato' })
    storages.push([path, length], [`${path}-alias`, length], [`${path}-crypt`, sealed])
  }
  const readers = await clients(t, running)
  for (const [path, most] of storages) {
    t.equal(await dav.put(`${path}/file`, content), 'done', `${path}: upload`)
    take()
    const whole = await dav.get(`${path}/file`)
    t.ok(Buffer.isBuffer(whole) && whole.equals(content), `${path}: the whole file`)
    t.ok(take() >= content.length, `${path}: the bytes of the driver are counted`)
    for (const { protocol, end } of readers) {
      t.ok((await end(`${path}/file`)).equals(last), `${path}, ${protocol}`)
      const read = take()
      t.ok(read >= length && read <= most, `${path}, ${protocol}: the driver has read ${read} bytes`)
    }
  }
})
