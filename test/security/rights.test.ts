/** Each right holds at every request that does the same thing: a matrix of requests and missing rights, at all three doors. */
import t from 'tap'
import { asPath } from '../../src/path.js'
import type { Permission } from '../../src/principal.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import {
  flags,
  links,
  names,
  noAttributes,
  string,
  types,
  uint32,
  type PacketClient,
} from '../protocols/sftp/packet-client.js'
import { addUser, basic, busy, packets, post, send, signIn, store, unbound } from './world.js'

t.setTimeout(300_000)

interface Hands {
  /** Whether the API did it. */
  readonly api: (endpoint: string, body: object) => Promise<boolean>
  readonly upload: (endpoint: 'put' | 'form', path: string) => Promise<boolean>
  readonly dav: (
    method: string,
    path: string,
    headers?: Readonly<Record<string, string>>,
    body?: string,
  ) => Promise<boolean>
  /** Undefined where the door did not open. */
  readonly sftp: PacketClient | undefined
  readonly url: string
}

interface Operation {
  readonly title: string
  readonly needs: readonly Permission[]
  readonly act: (hands: Hands) => Promise<boolean>
}

const lock =
  '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>'
const patch =
  '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">1</x></D:prop></D:set></D:propertyupdate>'

const over = (title: string, needs: readonly Permission[], endpoint: string, body: object): Operation => ({
  title: `POST /api/fs/${endpoint} ${title}`.trim(),
  needs,
  act: ({ api }) => api(endpoint, body),
})

const http: readonly Operation[] = [
  over('', [], 'list', { path: '/work' }),
  over('', [], 'get', { path: '/work/file' }),
  over('', [], 'dirs', { path: '/work' }),
  over('afresh', ['write'], 'list', { path: '/work', refresh: true }),
  over('', ['write'], 'mkdir', { path: '/work/new/deep' }),
  over('', ['rename'], 'rename', { path: '/work/file', name: 'renamed' }),
  over('over a file', ['rename', 'write'], 'rename', { path: '/work/file', name: 'other', overwrite: true }),
  over('', ['rename'], 'batch_rename', {
    src_dir: '/work',
    rename_objects: [{ src_name: 'file', new_name: 'renamed' }],
  }),
  over('', ['rename'], 'regex_rename', { src_dir: '/work', src_name_regex: '^file$', new_name_regex: 'renamed' }),
  over('', ['move'], 'move', { src_dir: '/work', dst_dir: '/work/b', names: ['file'] }),
  over('over a file', ['move', 'write'], 'move', {
    src_dir: '/work',
    dst_dir: '/work/b',
    names: ['other'],
    overwrite: true,
  }),
  over('over a folder', ['move', 'remove'], 'move', {
    src_dir: '/work',
    dst_dir: '/work/b',
    names: ['a'],
    overwrite: true,
  }),
  over('', ['move'], 'recursive_move', { src_dir: '/work/a', dst_dir: '/work/b' }),
  over('', ['copy'], 'copy', { src_dir: '/work', dst_dir: '/work/b', names: ['file'] }),
  over('over a file', ['copy', 'write'], 'copy', {
    src_dir: '/work',
    dst_dir: '/work/b',
    names: ['other'],
    overwrite: true,
  }),
  over('over a folder', ['copy', 'remove'], 'copy', {
    src_dir: '/work',
    dst_dir: '/work/b',
    names: ['a'],
    overwrite: true,
  }),
  over('', ['remove'], 'remove', { dir: '/work', names: ['file'] }),
  over('of a folder', ['remove'], 'remove', { dir: '/work', names: ['a'] }),
  over('', ['remove'], 'remove_empty_directory', { src_dir: '/work' }),
  { title: 'PUT /api/fs/put', needs: ['write'], act: ({ upload }) => upload('put', '/work/new/deep') },
  { title: 'PUT /api/fs/put over a file', needs: ['write'], act: ({ upload }) => upload('put', '/work/file') },
  { title: 'PUT /api/fs/form', needs: ['write'], act: ({ upload }) => upload('form', '/work/new/deep') },
]

const dav = (
  title: string,
  needs: readonly Permission[],
  method: string,
  path: string,
  headers: (url: string) => Record<string, string> = () => ({}),
  body?: string,
): Operation => ({
  title: `${method} ${title}`.trim(),
  needs: ['webdavRead', ...(needs.length > 0 ? (['webdavManage'] as const) : []), ...needs],
  act: (hands) => hands.dav(method, path, headers(hands.url), body),
})
const to = (path: string) => (url: string) => ({ destination: `${url}/dav${path}`, overwrite: 'T' })

const webdav: readonly Operation[] = [
  dav('', [], 'GET', '/work/file'),
  dav('', [], 'HEAD', '/work/file'),
  dav('', [], 'PROPFIND', '/work', () => ({ depth: '1' })),
  dav('', ['write'], 'PUT', '/work/new', undefined, 'x'),
  dav('over a file', ['write'], 'PUT', '/work/file', undefined, 'x'),
  dav('', ['write'], 'MKCOL', '/work/new'),
  dav('', ['write'], 'PROPPATCH', '/work/file', undefined, patch),
  dav('', ['write'], 'LOCK', '/work/file', undefined, lock),
  dav('of a new name', ['write'], 'LOCK', '/work/new', undefined, lock),
  dav('to another name', ['rename'], 'MOVE', '/work/file', to('/work/renamed')),
  dav('to another folder', ['move'], 'MOVE', '/work/file', to('/work/b/file')),
  dav('to another folder and name', ['move', 'rename'], 'MOVE', '/work/file', to('/work/b/renamed')),
  dav('over a file', ['rename', 'write'], 'MOVE', '/work/file', to('/work/other')),
  dav('over a folder', ['move', 'remove'], 'MOVE', '/work/a', to('/work/b/a')),
  dav('', ['copy'], 'COPY', '/work/file', to('/work/copied')),
  dav('over a file', ['copy', 'write'], 'COPY', '/work/file', to('/work/other')),
  dav('over a folder', ['copy', 'remove'], 'COPY', '/work/a', to('/work/b/a')),
  dav('', ['remove'], 'DELETE', '/work/file'),
  dav('of a folder', ['remove'], 'DELETE', '/work/a'),
]

const ssh = (
  title: string,
  needs: readonly Permission[],
  act: (session: PacketClient) => Promise<boolean>,
): Operation => ({
  title: `SFTP ${title}`,
  needs: ['sftpRead', ...(needs.length > 0 ? (['sftpManage'] as const) : []), ...needs],
  act: async ({ sftp }) => sftp !== undefined && act(sftp),
})
const done = async (status: Promise<number>): Promise<boolean> => (await status) === 0
const extended = async (session: PacketClient, name: string, from: string, target: string): Promise<boolean> =>
  (await session.extended(name, string(from), string(target))).body.readUInt32BE(0) === 0

const sftp: readonly Operation[] = [
  ssh('OPEN to read', [], async (session) => (await session.get('/work/file')) === 'as it was'),
  ssh('STAT', [], async (session) => typeof (await session.stat('/work/file')) !== 'number'),
  ssh('OPENDIR', [], async (session) => typeof (await session.openFolder('/work')) !== 'number'),
  ssh('OPEN to create', ['write'], async (session) => done(session.put('/work/new', 'x').catch(() => 3))),
  ssh('OPEN to replace', ['write'], async (session) => done(session.put('/work/file', 'x').catch(() => 3))),
  ssh('OPEN to update', ['write'], async (session) => {
    const handle = await session.open('/work/file', flags.write)
    return typeof handle !== 'number' && (await session.write(handle, 0, 'x')) === 0 && done(session.close(handle))
  }),
  ssh('MKDIR', ['write'], (session) => done(session.status(names.mkdir, string('/work/new'), noAttributes))),
  ssh('SETSTAT of a time', ['write'], (session) =>
    done(session.status(types.setstat, string('/work/file'), uint32(8), uint32(1), uint32(1))),
  ),
  ssh('SETSTAT of a size', ['write'], (session) =>
    done(session.status(types.setstat, string('/work/file'), uint32(1), Buffer.alloc(8))),
  ),
  ssh('SYMLINK', ['write'], (session) => done(session.status(links.symlink, string('file'), string('/work/linked')))),
  ssh('hardlink', ['write', 'copy'], (session) =>
    extended(session, 'hardlink@openssh.com', '/work/file', '/work/hard'),
  ),
  ssh('RENAME', ['rename'], (session) =>
    done(session.status(names.rename, string('/work/file'), string('/work/renamed'))),
  ),
  ssh('RENAME to another folder', ['move'], (session) =>
    done(session.status(names.rename, string('/work/file'), string('/work/b/file'))),
  ),
  ssh('posix-rename over a file', ['rename', 'write'], (session) =>
    extended(session, 'posix-rename@openssh.com', '/work/file', '/work/other'),
  ),
  ssh('REMOVE', ['remove'], (session) => done(session.status(names.remove, string('/work/file')))),
  ssh('RMDIR', ['remove'], (session) => done(session.status(names.rmdir, string('/work/empty')))),
]

async function handsOf(
  t: Parameters<typeof startGateway>[0],
  running: RunningGateway,
  username: string,
): Promise<Hands> {
  const { url } = running
  const token = await signIn(running, username)
  return {
    url,
    api: async (endpoint, body) => (await post(url, `/api/fs/${endpoint}`, body, token)).code === 200,
    async upload(endpoint, path) {
      const form = '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n--b--\r\n'
      const headers = { authorization: token, 'file-path': path, 'content-type': 'multipart/form-data; boundary=b' }
      const { text } = await send(url, 'PUT', `/api/fs/${endpoint}`, headers, endpoint === 'form' ? form : 'x')
      return (JSON.parse(text) as { code: number }).code === 200
    },
    async dav(method, path, headers = {}, body) {
      const all = { authorization: basic(username), 'content-type': 'application/xml', ...headers }
      const { status, text } = await send(url, method, `/dav${path}`, all, body)
      return status < 300 && !/HTTP\/1\.1 [45]\d\d/.test(text)
    },
    sftp: await packets(t, running, username).catch(() => undefined),
  }
}

void t.test('a right that is missing stops every request that needs it, and none that does not', async (t) => {
  const running = await startGateway(t)
  const { locks } = running.gateway
  const all = running.gateway.as(unbound())
  const ready = async () => {
    for (const { token } of locks.list()) await locks.break(token)
    await all.remove(asPath('/work')).catch(() => undefined)
    for (const path of ['/work/file', '/work/other', '/work/b/other', '/work/a/one', '/work/b/a/two']) {
      await store(all, path, 'as it was')
    }
    await all.mkdir(asPath('/work/empty'))
  }
  for (const missing of [undefined, ...busy]) {
    await t.test(missing === undefined ? 'all rights' : `without ${missing}`, async (t) => {
      const username = `without ${missing ?? 'nothing'}`
      await addUser(
        running,
        username,
        busy.filter((each) => each !== missing),
      )
      const hands = await handsOf(t, running, username)
      for (const { title, needs, act } of [...http, ...webdav, ...sftp]) {
        await ready()
        const may = missing === undefined || !needs.includes(missing)
        t.equal(await act(hands), may, `${title} ${may ? 'is done' : 'is refused'}`)
        if (!may) {
          t.equal((await all.stat(asPath('/work/file'))).size, 'as it was'.length, 'nothing is touched')
          t.equal((await all.stat(asPath('/work/b/other'))).size, 'as it was'.length)
          t.same((await all.list(asPath('/work'))).entries.map(({ name }) => name).sort(), [
            'a',
            'b',
            'empty',
            'file',
            'other',
          ])
          t.same(
            (await all.list(asPath('/work/b/a'))).entries.map(({ name }) => name),
            ['two'],
          )
        }
      }
    })
  }
})
