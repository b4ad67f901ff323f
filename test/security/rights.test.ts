/**
 * Each permission applies to every request that needs it: a matrix of requests and permissions, for all three
 * protocols.
 */
import t from 'tap'
import { endpoints } from '../../protocols/http/endpoints.js'
import type { Permission } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import {
  flags,
  symlinkTypes,
  names,
  noAttributes,
  string,
  types,
  uint32,
  type PacketClient,
} from '../protocols/sftp/packet-client.js'
import { addUser, basic, busy, packets, post, send, signIn, store, unbound } from './world.js'

interface Hands {
  /** Whether the request succeeded. */
  readonly api: (endpoint: string, body: object) => Promise<boolean>
  readonly upload: (endpoint: 'put' | 'form', path: string) => Promise<boolean>
  readonly uploadInChunks: (path: string) => Promise<boolean>
  readonly zip: (path: string) => Promise<boolean>
  readonly dav: (
    method: string,
    path: string,
    headers?: Readonly<Record<string, string>>,
    body?: string,
  ) => Promise<boolean>
  /** Undefined if the sign-in failed. */
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
  over('', [], 'list', { path: '/team' }),
  over('', [], 'get', { path: '/team/file' }),
  over('', [], 'dirs', { path: '/team' }),
  over('', [], 'history', { path: '/team/file' }),
  over('', [], 'share_link', { path: '/team/file' }),
  over('', [], 'zip_link', { path: '/team' }),
  { title: 'POST /api/fs/zip', needs: [], act: ({ zip }) => zip('/team') },
  over('afresh', ['write'], 'list', { path: '/team', refresh: true }),
  over('', ['write'], 'mkdir', { path: '/team/new/deep' }),
  over('', ['rename'], 'rename', { path: '/team/file', name: 'renamed' }),
  over('over a file', ['rename', 'write'], 'rename', { path: '/team/file', name: 'other', overwrite: true }),
  over('', ['rename'], 'batch_rename', {
    src_dir: '/team',
    rename_objects: [{ src_name: 'file', new_name: 'renamed' }],
  }),
  over('', ['rename'], 'regex_rename', { src_dir: '/team', src_name_regex: '^file$', new_name_regex: 'renamed' }),
  over('', ['move'], 'move', { src_dir: '/team', dst_dir: '/team/b', names: ['file'] }),
  over('over a file', ['move', 'write'], 'move', {
    src_dir: '/team',
    dst_dir: '/team/b',
    names: ['other'],
    overwrite: true,
  }),
  over('over a folder', ['move', 'remove'], 'move', {
    src_dir: '/team',
    dst_dir: '/team/b',
    names: ['a'],
    overwrite: true,
  }),
  over('', ['move'], 'recursive_move', { src_dir: '/team/a', dst_dir: '/team/b' }),
  over('', ['copy'], 'copy', { src_dir: '/team', dst_dir: '/team/b', names: ['file'] }),
  over('over a file', ['copy', 'write'], 'copy', {
    src_dir: '/team',
    dst_dir: '/team/b',
    names: ['other'],
    overwrite: true,
  }),
  over('over a folder', ['copy', 'remove'], 'copy', {
    src_dir: '/team',
    dst_dir: '/team/b',
    names: ['a'],
    overwrite: true,
  }),
  over('', ['remove'], 'remove', { dir: '/team', names: ['file'] }),
  over('of a folder', ['remove'], 'remove', { dir: '/team', names: ['a'] }),
  over('', ['remove'], 'remove_empty_directory', { src_dir: '/team' }),
  { title: 'PUT /api/fs/put', needs: ['write'], act: ({ upload }) => upload('put', '/team/new/deep') },
  { title: 'PUT /api/fs/put over a file', needs: ['write'], act: ({ upload }) => upload('put', '/team/file') },
  {
    title: 'POST /api/fs/multipart/init',
    needs: ['write'],
    act: ({ uploadInChunks }) => uploadInChunks('/team/new/deep'),
  },
  {
    title: 'POST /api/fs/multipart/init over a file',
    needs: ['write'],
    act: ({ uploadInChunks }) => uploadInChunks('/team/file'),
  },
  { title: 'PUT /api/fs/form', needs: ['write'], act: ({ upload }) => upload('form', '/team/new/deep') },
]

/** Endpoints of files that the matrix omits. Endpoints without files are in test/protocols/http/roles.test.ts. */
const elsewhere: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['chunk', 'complete', 'status', 'abort'].map((step) => [
      `/api/fs/multipart/${step}`,
      'is about an upload that init has started; test/protocols/http/routes/multipart.test.ts tests whose',
    ]),
  ),
  '/api/fs/search': 'needs no right; test/search/search.test.ts tests who finds what',
  '/api/fs/link': 'is for admins, as test/protocols/http/roles.test.ts tests',
  '/api/fs/add_offline_download':
    'has a right of its own, which test/protocols/http/routes/offline-download.test.ts tests',
}

void t.test('every endpoint of files is in the matrix, or tested elsewhere', (t) => {
  for (const { method, path } of endpoints.filter((each) => each.path.startsWith('/api/fs/'))) {
    const name = `${method === 'any' ? 'post' : method} `.toUpperCase() + path
    const isTried = http.some(({ title }) => title === name || title.startsWith(`${name} `))
    t.not(isTried, path in elsewhere, `${name} is in one of \`http\` and \`elsewhere\``)
  }
  t.end()
})

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
  dav('', [], 'GET', '/team/file'),
  dav('', [], 'HEAD', '/team/file'),
  dav('', [], 'PROPFIND', '/team', () => ({ depth: '1' })),
  dav('', ['write'], 'PUT', '/team/new', undefined, 'x'),
  dav('over a file', ['write'], 'PUT', '/team/file', undefined, 'x'),
  dav('', ['write'], 'MKCOL', '/team/new'),
  dav('', ['write'], 'PROPPATCH', '/team/file', undefined, patch),
  dav('', ['write'], 'LOCK', '/team/file', undefined, lock),
  dav('of a new name', ['write'], 'LOCK', '/team/new', undefined, lock),
  dav('to another name', ['rename'], 'MOVE', '/team/file', to('/team/renamed')),
  dav('to another folder', ['move'], 'MOVE', '/team/file', to('/team/b/file')),
  dav('to another folder and name', ['move', 'rename'], 'MOVE', '/team/file', to('/team/b/renamed')),
  dav('over a file', ['rename', 'write'], 'MOVE', '/team/file', to('/team/other')),
  dav('over a folder', ['move', 'remove'], 'MOVE', '/team/a', to('/team/b/a')),
  dav('', ['copy'], 'COPY', '/team/file', to('/team/copied')),
  dav('over a file', ['copy', 'write'], 'COPY', '/team/file', to('/team/other')),
  dav('over a folder', ['copy', 'remove'], 'COPY', '/team/a', to('/team/b/a')),
  dav('', ['remove'], 'DELETE', '/team/file'),
  dav('of a folder', ['remove'], 'DELETE', '/team/a'),
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
  ssh('OPEN to read', [], async (session) => (await session.get('/team/file')) === 'as it was'),
  ssh('STAT', [], async (session) => typeof (await session.stat('/team/file')) !== 'number'),
  ssh('OPENDIR', [], async (session) => typeof (await session.openFolder('/team')) !== 'number'),
  ssh('OPEN to create', ['write'], async (session) => done(session.put('/team/new', 'x').catch(() => 3))),
  ssh('OPEN to replace', ['write'], async (session) => done(session.put('/team/file', 'x').catch(() => 3))),
  ssh('OPEN to update', ['write'], async (session) => {
    const handle = await session.open('/team/file', flags.write)
    return typeof handle !== 'number' && (await session.write(handle, 0, 'x')) === 0 && done(session.close(handle))
  }),
  ssh('MKDIR', ['write'], (session) => done(session.status(names.mkdir, string('/team/new'), noAttributes))),
  ssh('SETSTAT of a time', ['write'], (session) =>
    done(session.status(types.setstat, string('/team/file'), uint32(8), uint32(1), uint32(1))),
  ),
  ssh('SETSTAT of a size', ['write'], (session) =>
    done(session.status(types.setstat, string('/team/file'), uint32(1), Buffer.alloc(8))),
  ),
  ssh('SYMLINK', ['write'], (session) =>
    done(session.status(symlinkTypes.symlink, string('file'), string('/team/linked'))),
  ),
  ssh('hardlink', ['write', 'copy'], (session) =>
    extended(session, 'hardlink@openssh.com', '/team/file', '/team/hard'),
  ),
  ssh('RENAME', ['rename'], (session) =>
    done(session.status(names.rename, string('/team/file'), string('/team/renamed'))),
  ),
  ssh('RENAME to another folder', ['move'], (session) =>
    done(session.status(names.rename, string('/team/file'), string('/team/b/file'))),
  ),
  ssh('posix-rename over a file', ['rename', 'write'], (session) =>
    extended(session, 'posix-rename@openssh.com', '/team/file', '/team/other'),
  ),
  ssh('REMOVE', ['remove'], (session) => done(session.status(names.remove, string('/team/file')))),
  ssh('RMDIR', ['remove'], (session) => done(session.status(names.rmdir, string('/team/empty')))),
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
    async zip(path) {
      const { status } = await send(url, 'POST', '/api/fs/zip', { authorization: token }, JSON.stringify({ path }))
      return status === 200
    },
    async uploadInChunks(path) {
      const ask = async (method: string, step: string, headers: Record<string, string>, body = '') => {
        const { text } = await send(
          url,
          method,
          `/api/fs/multipart/${step}`,
          { authorization: token, ...headers },
          body,
        )
        return JSON.parse(text) as { code: number; data: { upload_id: string } | null }
      }
      const { data } = await ask('POST', 'init', { 'file-path': path, 'x-file-size': '1' })
      const headers = { 'x-upload-id': data?.upload_id ?? '' }
      await ask('PUT', 'chunk', { ...headers, 'x-chunk-index': '0' }, 'x')
      return (await ask('POST', 'complete', headers)).code === 200
    },
    async dav(method, path, headers = {}, body) {
      const all = { authorization: basic(username), 'content-type': 'application/xml', ...headers }
      const { status, text } = await send(url, method, `/dav${path}`, all, body)
      return status < 300 && !/HTTP\/1\.1 [45]\d\d/.test(text)
    },
    sftp: await packets(t, running, username).catch(() => undefined),
  }
}

void t.test('every permission for files is required by a request', (t) => {
  const needed = new Set([...http, ...webdav, ...sftp].flatMap(({ needs }) => needs))
  for (const permission of busy) t.ok(needed.has(permission), `an operation needs ${permission}`)
  t.end()
})

void t.test('each request requires exactly its permissions', async (t) => {
  const running = await startGateway(t)
  const { locks } = running.gateway
  const all = running.gateway.as(unbound())
  const ready = async () => {
    for (const { token } of locks.list()) await locks.break(token)
    await all.remove(asPath('/team')).catch(() => undefined)
    for (const path of ['/team/file', '/team/other', '/team/b/other', '/team/a/one', '/team/b/a/two']) {
      await store(all, path, 'as it was')
    }
    await all.mkdir(asPath('/team/empty'))
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
        t.equal(await act(hands), may, `${title} ${may ? 'succeeds' : 'is rejected'}`)
        if (!may) {
          t.equal((await all.stat(asPath('/team/file'))).size, 'as it was'.length, 'nothing is changed')
          t.equal((await all.stat(asPath('/team/b/other'))).size, 'as it was'.length)
          t.same((await all.list(asPath('/team'))).entries.map(({ name }) => name).sort(), [
            'a',
            'b',
            'empty',
            'file',
            'other',
          ])
          t.same(
            (await all.list(asPath('/team/b/a'))).entries.map(({ name }) => name),
            ['two'],
          )
        }
      }
    })
  }
})
