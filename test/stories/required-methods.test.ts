/**
 * Drivers with the required methods only, over every protocol: each request is done by other means or refused with a
 * reason, and what is reported as done can be seen.
 */
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { http } from '../../protocols/http/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverType } from '../../src/contract/driver-type.js'
import type { Entry } from '../../src/contract/entry.js'
import { asPath } from '../../src/base/path.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { proppatch, sender } from '../protocols/webdav/dav-client.js'
import { contents, sourceOf } from '../tree/tree-fixture.js'
import { openSftp } from './protocols.js'

const content = '0123456789'
const time = new Date('2001-02-03T04:05:06Z')
const seconds = time.getTime() / 1000

const protocols = ['http', 'webdav', 'sftp'] as const
/** What is in the folder of each protocol at first, beside an empty folder. */
const files = ['old', 'moved', 'copied', 'removed', 'dated', 'changed']

/** Files in memory, without revisions and modes, behind the methods that a driver must have. */
async function requiredMethods(isWritable: boolean): Promise<DriverType<Record<string, never>>> {
  const memory = new MemoryDriver(0)
  for (const protocol of protocols) {
    await memory.mkdir(asPath(`/${protocol}`))
    await memory.mkdir(asPath(`/${protocol}/folder`))
    for (const name of files) await memory.write(asPath(`/${protocol}/${name}`), sourceOf(content))
  }
  const bare = ({ name, kind, size, modified }: Entry): Entry => ({ name, kind, size, modified })
  const reading: Driver = {
    stat: async (path) => bare(await memory.stat(path)),
    async *pages(path) {
      for await (const page of memory.pages(path)) yield page.map(bare)
    },
    read: (path, range) => memory.read(path, range),
  }
  const writing: Driver = {
    ...reading,
    write: async (path, source, { createOnly, beforePublish, signal } = {}) =>
      bare(await memory.write(path, source, { createOnly, beforePublish, signal })),
    mkdir: (path) => memory.mkdir(path),
    remove: (path) => memory.remove(path),
  }
  return { name: 'Required', fields: {}, open: async () => (isWritable ? writing : reading) }
}

/** How each protocol refuses what a read-only storage cannot do. */
const refusals: Readonly<Record<(typeof protocols)[number], RegExp>> = {
  http: /^500 (upload )?not support(ed)?$/,
  webdav: /^403$/,
  sftp: /^8 .*the storage is read-only/,
}

/** What a protocol replied: `done`, or how it refused. */
type Reply = string

interface Change {
  readonly name: string
  readonly request: () => Promise<Reply>
  /** Content that the change leaves, by name; null: a folder; undefined: nothing. */
  readonly leaves?: Readonly<Record<string, string | null | undefined>>
  /** A file that has other attributes then. */
  readonly sets?: { readonly name: string; readonly modified?: Date; readonly mode?: number }
}

interface Client {
  readonly protocol: (typeof protocols)[number]
  /** The bytes from 2 to 4 of the file. */
  readonly part: (path: string) => Promise<string>
  readonly changes: readonly Change[]
}

async function httpClient({ url, adminPassword }: RunningGateway): Promise<Client> {
  const call = async (path: string, body: object, token = '') => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { code: number; message: string; data: { token: string; raw_url: string } }
  }
  const { token } = (await call('/api/auth/login', { username: 'admin', password: adminPassword })).data
  const replied = ({ code, message }: { readonly code: number; readonly message: string }) =>
    code === 200 ? 'done' : `${code} ${message}`
  const asked = async (path: string, body: object) => replied(await call(path, body, token))
  const put = async (name: string, body: string, more: Readonly<Record<string, string>> = {}) => {
    const headers = { Authorization: token, 'File-Path': `/http/${name}`, ...more }
    const response = await fetch(`${url}/api/fs/put`, { method: 'PUT', headers, body })
    return replied((await response.json()) as { code: number; message: string })
  }
  const dir = '/http'
  return {
    protocol: 'http',
    part: async (path) => {
      const { raw_url } = (await call('/api/fs/get', { path }, token)).data
      return (await fetch(raw_url, { headers: { Range: 'bytes=2-4' } })).text()
    },
    changes: [
      { name: 'upload', request: () => put('new', 'new'), leaves: { new: 'new' } },
      { name: 'overwrite', request: () => put('old', 'newer'), leaves: { old: 'newer' } },
      { name: 'make folder', request: () => asked('/api/fs/mkdir', { path: '/http/made' }), leaves: { made: null } },
      {
        name: 'rename',
        request: () => asked('/api/fs/rename', { path: '/http/moved', name: 'to' }),
        leaves: { moved: undefined, to: content },
      },
      {
        name: 'copy',
        request: () => asked('/api/fs/copy', { src_dir: dir, dst_dir: '/http/folder', names: ['copied'] }),
        leaves: { 'folder/copied': content },
      },
      {
        name: 'delete',
        request: () => asked('/api/fs/remove', { dir, names: ['removed'] }),
        leaves: { removed: undefined },
      },
      {
        name: 'upload with a time',
        request: () => put('dated', 'dated', { 'Last-Modified': `${time.getTime()}` }),
        leaves: { dated: 'dated' },
        sets: { name: 'dated', modified: time },
      },
    ],
  }
}

function webDavClient(running: RunningGateway): Client {
  const send = sender(running)
  const asked = async (...request: Parameters<typeof send>): Promise<Reply> => {
    const { status, body } = await send(...request)
    const refusal = /HTTP\/1\.1 ([45]\d\d)/.exec(body)?.[1]
    return status >= 200 && status < 300 && refusal === undefined ? 'done' : (refusal ?? `${status}`)
  }
  const to = (name: string) => ({ destination: `/dav/webdav/${name}` })
  const set = proppatch(`<D:getlastmodified>${time.toUTCString()}</D:getlastmodified>`)
  return {
    protocol: 'webdav',
    part: async (path) => (await send('GET', path, { range: 'bytes=2-4' })).body,
    changes: [
      { name: 'upload', request: () => asked('PUT', '/webdav/new', {}, 'new'), leaves: { new: 'new' } },
      { name: 'overwrite', request: () => asked('PUT', '/webdav/old', {}, 'newer'), leaves: { old: 'newer' } },
      { name: 'make folder', request: () => asked('MKCOL', '/webdav/made'), leaves: { made: null } },
      {
        name: 'rename',
        request: () => asked('MOVE', '/webdav/moved', to('to')),
        leaves: { moved: undefined, to: content },
      },
      { name: 'copy', request: () => asked('COPY', '/webdav/copied', to('copy')), leaves: { copy: content } },
      { name: 'delete', request: () => asked('DELETE', '/webdav/removed'), leaves: { removed: undefined } },
      {
        name: 'set a time',
        request: () => asked('PROPPATCH', '/webdav/dated', {}, set),
        sets: { name: 'dated', modified: time },
      },
    ],
  }
}

async function sftpClient(t: Test, { sftpPort, adminPassword }: RunningGateway): Promise<Client> {
  const { client, sftp } = await openSftp({ sftpPort }, { username: 'admin', password: adminPassword })
  t.teardown(() => client.end())
  type Done = (error?: Error | null) => void
  type Flags = 'r' | 'r+' | 'w' | 'w+'
  const call = <T>(work: (done: (error: Error | null | undefined, value: T) => void) => void): Promise<T> =>
    new Promise((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value))))
  const status = (work: (done: Done) => void) => call<undefined>((done) => work((error) => done(error, undefined)))
  const replied = async (work: () => Promise<unknown>): Promise<Reply> => {
    try {
      await work()
      return 'done'
    } catch (error) {
      const { code, message } = error as { code?: number; message: string }
      return `${code} ${message}`
    }
  }
  const asked = (work: (done: Done) => void) => replied(() => status(work))
  const opened = async (name: string, flags: Flags, work: (handle: Buffer) => Promise<unknown>) => {
    const handle = await call<Buffer>((done) => sftp.open(`/sftp/${name}`, flags, done))
    await work(handle).finally(() => status((done) => sftp.close(handle, done)))
  }
  const write = (handle: Buffer, text: string, position: number) =>
    status((done) => sftp.write(handle, Buffer.from(text), 0, text.length, position, done))
  const changedAt = (name: string, flags: 'r+' | 'w+') =>
    replied(() =>
      opened(name, flags, async (handle) => {
        for (const [text, position] of [['6', 6] as const, ['two', 2] as const, ['zero', 0] as const]) {
          await write(handle, text, position)
        }
      }),
    )
  return {
    protocol: 'sftp',
    part: async (path) => {
      const into = Buffer.alloc(3)
      const handle = await call<Buffer>((done) => sftp.open(path, 'r', done))
      await call<number>((done) => sftp.read(handle, into, 0, 3, 2, done))
      await status((done) => sftp.close(handle, done))
      return into.toString()
    },
    changes: [
      {
        name: 'upload',
        request: () => asked((done) => sftp.writeFile('/sftp/new', 'new', done)),
        leaves: { new: 'new' },
      },
      {
        name: 'overwrite',
        request: () => asked((done) => sftp.writeFile('/sftp/old', 'newer', done)),
        leaves: { old: 'newer' },
      },
      { name: 'make folder', request: () => asked((done) => sftp.mkdir('/sftp/made', done)), leaves: { made: null } },
      {
        name: 'rename',
        request: () => asked((done) => sftp.rename('/sftp/moved', '/sftp/to', done)),
        leaves: { moved: undefined, to: content },
      },
      {
        name: 'copy',
        request: () =>
          replied(() =>
            opened('copied', 'r', (from) =>
              opened('copy', 'w', (to) => status((done) => sftp.ext_copy_data(from, 0, 0, to, 0, done))),
            ),
          ),
        leaves: { copy: content },
      },
      {
        name: 'delete',
        request: () => asked((done) => sftp.unlink('/sftp/removed', done)),
        leaves: { removed: undefined },
      },
      {
        name: 'writes in any order into a file',
        request: () => changedAt('changed', 'r+'),
        leaves: { changed: 'zeroo56789' },
      },
      {
        name: 'writes in any order into a new file',
        request: () => changedAt('written', 'w+'),
        leaves: { written: 'zeroo\u00006' },
      },
      {
        name: 'set a time',
        request: () => asked((done) => sftp.utimes('/sftp/dated', seconds, seconds, done)),
        sets: { name: 'dated', modified: time },
      },
      {
        name: 'set a mode',
        request: () => asked((done) => sftp.chmod('/sftp/dated', 0o640, done)),
        sets: { name: 'dated', modified: time, mode: 0o640 },
      },
      {
        name: 'set a time by a handle',
        request: () =>
          replied(() =>
            opened('copied', 'r+', (handle) => status((done) => sftp.futimes(handle, seconds, seconds, done))),
          ),
        sets: { name: 'copied', modified: time },
      },
      {
        name: 'make a folder with a mode',
        request: () => asked((done) => sftp.mkdir('/sftp/private', { mode: 0o700 }, done)),
        leaves: { private: null },
        sets: { name: 'private', mode: 0o700 },
      },
    ],
  }
}

async function started(t: Test, isWritable: boolean) {
  const driverTypes = [await requiredMethods(isWritable)]
  const running = await startGateway(t, { driver: { name: 'Required' }, driverTypes })
  const { gateway, adminPassword } = running
  const admin = { username: 'admin', password: { plain: adminPassword }, address: '127.0.0.1' }
  const fs = gateway.as(await gateway.accounts.signIn.byPassword(admin, http))
  return { clients: [await httpClient(running), webDavClient(running), await sftpClient(t, running)], fs }
}

const shown = (fs: VirtualFs, protocol: string) => contents(fs, asPath(`/${protocol}`))

for (const isWritable of [true, false]) {
  void t.test(isWritable ? 'a driver that can only write whole files' : 'a driver that can only read', async (t) => {
    const { clients, fs } = await started(t, isWritable)
    for (const { protocol, part, changes } of clients) {
      await t.test(protocol, async (t) => {
        t.equal(await part(`/${protocol}/old`), '234', 'a part of a file')
        let expected: readonly (readonly [string, string | null])[] = Object.entries(await shown(fs, protocol))
        t.equal(expected.length, files.length + 1)
        for (const { name, request, leaves = {}, sets } of changes) {
          const reply = await request()
          if (!isWritable) t.match(reply, refusals[protocol], `${name} is refused`)
          else {
            t.equal(reply, 'done', name)
            const left = Object.entries(leaves).map(([below, text]) => [`/${protocol}/${below}`, text] as const)
            const unchanged = expected.filter(([path]) => !left.some(([changed]) => changed === path))
            expected = [
              ...unchanged,
              ...left.flatMap(([path, text]) => (text === undefined ? [] : [[path, text] as const])),
            ]
            if (sets) {
              const { name: below, ...attributes } = sets
              t.match(await fs.stat(asPath(`/${protocol}/${below}`)), attributes, `${name}: it is shown`)
            }
          }
          t.same(await shown(fs, protocol), Object.fromEntries(expected), `${name}: the files`)
        }
      })
    }
  })
}
