/**
 * What the grants do not let a user see: no answer of any protocol tells whether it exists. Each request is sent twice,
 * about a path that exists and about one that does not.
 */
import { lutimes, mkdtemp, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { asPath, nameOf, parentOf, type Path } from '../../src/base/path.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import {
  flags,
  names as sftpNames,
  noAttributes,
  permissions,
  string,
  symlinkTypes,
  types,
  uint32,
  type Answer,
  type PacketClient,
} from '../protocols/sftp/packet-client.js'
import {
  addRule,
  addUser,
  basic,
  busy,
  everyPermission,
  packets,
  send,
  signIn,
  store,
  unbound,
  type Reply,
} from './world.js'

/** Two names of the same length, which are in no text of an answer by chance. */
const [there, gone] = ['zthere', 'zabsen'] as const

const lockBody =
  '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>'
const patchBody =
  '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">1</x></D:prop></D:set></D:propertyupdate>'

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Requests about a folder that is seen, with something in it that is not. */
function requestsOfFolder(at: Path): readonly Sent[] {
  const dir = parentOf(at)
  const names = [nameOf(at)]
  const post = (endpoint: string, body: object): Sent => ({
    method: 'POST',
    path: `/api/fs/${endpoint}`,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  })
  return [
    ...['list', 'get', 'dirs', 'zip', 'zip_link'].map((each) => post(each, { path: at })),
    post('list', { path: at, page: 1, per_page: 1, contains: 'z' }),
    post('search', { parent: at, keywords: 'z' }),
    post('rename', { path: at, name: 'other' }),
    post('regex_rename', { src_dir: at, src_name_regex: '^z', new_name_regex: 'other' }),
    ...['move', 'copy'].map((each) => post(each, { src_dir: dir, dst_dir: '/mine', names })),
    post('recursive_move', { src_dir: at, dst_dir: '/mine' }),
    post('remove', { dir, names }),
    post('remove_empty_directory', { src_dir: at }),
    ...['0', '1', 'infinity'].map((depth) => ({ method: 'PROPFIND', path: `/dav${at}`, headers: { depth } })),
    ...['0', 'infinity'].map((depth) => ({ method: 'LOCK', path: `/dav${at}`, headers: { depth }, body: lockBody })),
    ...['move', 'copy'].flatMap((each) => [
      post(each, { src_dir: '/source', dst_dir: dir, names }),
      post(each, { src_dir: '/source', dst_dir: dir, names, overwrite: true }),
      post(each, { src_dir: '/source', dst_dir: dir, names, merge: true }),
    ]),
    ...['MOVE', 'COPY'].flatMap((method) => [
      { method, path: `/dav${at}`, headers: { destination: '/dav/mine/new' } },
      ...['T', 'F'].map((overwrite) => ({
        method,
        path: `/dav/source${at}`,
        headers: { destination: `/dav${at}`, overwrite },
      })),
    ]),
    { method: 'DELETE', path: `/dav${at}` },
  ]
}

/** Requests of SFTP that concern a folder as a whole. */
function sftpRequestsOfFolder(path: Path): readonly ((client: PacketClient) => Promise<Answer>)[] {
  return [
    (client) => client.ask(sftpNames.rename, string(path), string('/mine/new')),
    (client) => client.extended('posix-rename@openssh.com', string(path), string('/mine/new')),
    (client) => client.ask(sftpNames.rmdir, string(path)),
  ]
}

/** Requests of the HTTP API about a file, a folder, or a member of a folder that is not seen. */
function apiRequests(path: Path): readonly Sent[] {
  const [dir, name] = [parentOf(path), nameOf(path)]
  const post = (endpoint: string, body: object): Sent => ({
    method: 'POST',
    path: `/api/fs/${endpoint}`,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  })
  const upload = { 'file-path': encodeURIComponent(path) }
  return [
    ...['list', 'get', 'dirs', 'share_link', 'zip_link', 'zip', 'mkdir'].map((each) => post(each, { path })),
    post('list', { path, refresh: true }),
    post('zip', { path: dir, names: [name] }),
    post('zip_link', { path: dir, names: [name] }),
    post('search', { parent: path, keywords: 'z' }),
    post('rename', { path, name: 'other' }),
    post('rename', { path, name: 'other', overwrite: true }),
    post('rename', { path: '/open/file', name }),
    post('batch_rename', { src_dir: dir, rename_objects: [{ src_name: name, new_name: 'other' }] }),
    post('batch_rename', { src_dir: dir, rename_objects: [{ src_name: 'file', new_name: name }] }),
    post('regex_rename', { src_dir: dir, src_name_regex: `^${name}$`, new_name_regex: 'other' }),
    post('regex_rename', { src_dir: path, src_name_regex: '^z', new_name_regex: 'other' }),
    ...['move', 'copy'].flatMap((each) => [
      post(each, { src_dir: dir, dst_dir: '/mine', names: [name] }),
      post(each, { src_dir: '/open', dst_dir: path, names: ['file'] }),
      post(each, { src_dir: '/source', dst_dir: dir, names: [name] }),
      post(each, { src_dir: '/source', dst_dir: dir, names: [name], overwrite: true }),
      post(each, { src_dir: '/source', dst_dir: dir, names: [name], skip_existing: true }),
      post(each, { src_dir: '/source', dst_dir: dir, names: [name], merge: true }),
      post(each, { src_dir: `/source/all-${nameOf(path)}`, dst_dir: '/', names: ['open'], merge: true }),
    ]),
    post('recursive_move', { src_dir: path, dst_dir: '/mine' }),
    post('recursive_move', { src_dir: '/open/empty', dst_dir: path }),
    post('remove', { dir, names: [name] }),
    post('remove', { dir: path, names: [there, gone] }),
    post('remove_empty_directory', { src_dir: path }),
    { method: 'PUT', path: '/api/fs/put', headers: upload, body: 'x' },
    { method: 'PUT', path: '/api/fs/put', headers: { ...upload, overwrite: 'false' }, body: 'x' },
    { method: 'PUT', path: '/api/fs/put', headers: { ...upload, 'if-match': '*' }, body: 'x' },
    { method: 'PUT', path: '/api/fs/put', headers: { ...upload, 'if-none-match': '*' }, body: 'x' },
    { method: 'PUT', path: '/api/fs/put', headers: { ...upload, 'as-task': 'true' }, body: 'x' },
    { method: 'POST', path: '/api/fs/multipart/init', headers: { ...upload, 'x-file-size': '5' } },
    post('add_offline_download', { path, urls: ['http://127.0.0.1:1/x'], tool: 'SimpleHttp', delete_policy: '' }),
    ...['/d', '/p'].flatMap((prefix) => [
      { method: 'GET', path: prefix + path },
      { method: 'GET', path: `${prefix}${path}?sign=abc:0` },
      { method: 'GET', path: `${prefix}${path}?type=thumb` },
    ]),
  ]
}

function davRequests(url: string, path: Path): readonly Sent[] {
  const dav = (method: string, headers: Readonly<Record<string, string>> = {}, body = ''): Sent => ({
    method,
    path: `/dav${path}`,
    headers,
    body,
  })
  const destination = (at: string) => ({ destination: `${url}/dav${at}` })
  const about = (condition: string) => ({ if: `<${url}/dav${path}> (${condition})` })
  return [
    ...['GET', 'HEAD', 'OPTIONS', 'DELETE', 'MKCOL'].map((method) => dav(method)),
    ...['0', '1', 'infinity'].map((depth) => dav('PROPFIND', { depth })),
    dav('PUT', {}, 'x'),
    dav('PUT', { 'if-match': '*' }, 'x'),
    dav('PUT', { 'if-none-match': '*' }, 'x'),
    dav('PROPPATCH', {}, patchBody),
    dav('LOCK', { depth: '0' }, lockBody),
    dav('LOCK', { depth: 'infinity' }, lockBody),
    { ...dav('LOCK', { depth: '0' }, lockBody), path: `/dav${path}/` },
    dav('LOCK', { if: '(<urn:uuid:12345678-1234-4234-8234-123456789012>)' }),
    dav('UNLOCK', { 'lock-token': '<urn:uuid:12345678-1234-4234-8234-123456789012>' }),
    dav('GET', { 'if-none-match': '*' }),
    dav('GET', { range: 'bytes=0-1' }),
    ...['COPY', 'MOVE'].flatMap((method) => [
      dav(method, destination('/mine/new')),
      dav(method, { ...destination('/mine/new'), depth: '0' }),
      { method, path: '/dav/source/file', headers: destination(path) },
      { method, path: '/dav/source/file', headers: { ...destination(path), overwrite: 'F' } },
      { method, path: '/dav/source/file', headers: destination(`${path}/${there}`) },
    ]),
    ...['[W/"x"]', 'Not ["x"]', '["x"]', '<DAV:no-lock>', 'Not <DAV:no-lock>'].map((condition) => ({
      method: 'PROPFIND',
      path: '/dav/open/file',
      headers: { depth: '0', ...about(condition) },
    })),
    ...['[W/"x"]', 'Not ["x"]'].map((condition) => ({
      method: 'PUT',
      path: '/dav/mine/conditional',
      headers: about(condition),
      body: 'x',
    })),
  ]
}

function sftpRequests(path: Path): readonly ((client: PacketClient) => Promise<Answer>)[] {
  const ask =
    (type: number, ...fields: readonly Buffer[]) =>
    (client: PacketClient) =>
      client.ask(type, ...fields)
  const extended =
    (name: string, ...fields: readonly Buffer[]) =>
    (client: PacketClient) =>
      client.extended(name, ...fields)
  const { read, write, create, truncate, exclusive, append } = flags
  return [
    ...[
      read,
      write,
      read | write,
      write | create,
      write | append,
      write | create | truncate,
      write | create | exclusive,
      read | write | create | truncate,
    ].map((flag) => ask(types.open, string(path), uint32(flag), noAttributes)),
    ...[types.lstat, sftpNames.stat, sftpNames.opendir, sftpNames.remove, sftpNames.rmdir, symlinkTypes.readlink].map(
      (type) => ask(type, string(path)),
    ),
    ask(types.setstat, string(path), permissions(0o600)),
    ask(sftpNames.mkdir, string(path), noAttributes),
    ask(sftpNames.rename, string(path), string('/mine/new')),
    ask(sftpNames.rename, string('/source/file'), string(path)),
    extended('posix-rename@openssh.com', string(path), string('/mine/new')),
    extended('posix-rename@openssh.com', string('/source/file'), string(path)),
    extended('hardlink@openssh.com', string(path), string('/mine/new')),
    extended('hardlink@openssh.com', string('/source/file'), string(path)),
    extended('statvfs@openssh.com', string(path)),
    extended('lsetstat@openssh.com', string(path), permissions(0o600)),
    // The order of OpenSSH: the target first.
    ask(symlinkTypes.symlink, string(path), string('/mine/link')),
    ask(symlinkTypes.symlink, string(`..${path}`), string('/mine/link')),
    ask(symlinkTypes.symlink, string('/open/file'), string(path)),
  ]
}

/**
 * Sends each request about each of `paths`, which has `there`, and about the path with `gone` instead. The answers must
 * be equal. `restore` makes again what a request has moved or removed. `folders`: paths of folders, for requests about
 * those.
 */
async function assertSameAnswers(
  t: Test,
  running: RunningGateway,
  paths: readonly string[],
  restore: () => Promise<void>,
  folders: readonly string[] = [],
): Promise<void> {
  const { url } = running
  await restore()
  const token = await signIn(running, 'mallory')
  const client = await packets(t, running, 'mallory')
  const answered = ({ status, headers, text }: Reply, name: string) => {
    const { date: _date, etag: _etag, 'last-modified': _modified, ...others } = headers
    const same = text
      .replace(/(getetag|getlastmodified|creationdate)>[^<]*/g, '$1')
      .replace(/"(sign|modified|created|expires)":"[^"]*"/g, '')
      .replace(/&sign=[^"]*/g, '')
    return JSON.stringify([status, others, same])
      .replaceAll(name, '*')
      .replace(/urn:uuid:[-0-9a-f]+/g, 'a token')
  }
  for (const path of [...paths, ...folders].map(asPath)) {
    const other = asPath(path.replaceAll(there, gone))
    const isFolder = folders.includes(path)
    const sent = (at: Path) =>
      (isFolder ? requestsOfFolder(at) : [...apiRequests(at), ...davRequests(url, at)]).map((each) => ({
        ...each,
        headers: { ...each.headers, authorization: each.path.startsWith('/dav') ? basic('mallory') : token },
      }))
    const [one, two] = [sent(path), sent(other)]
    for (const [at, request] of one.entries()) {
      const twin = two[at] ?? request
      const answers: string[] = []
      for (const [each, name] of [
        [request, there],
        [twin, gone],
      ] as const) {
        answers.push(answered(await send(url, each.method, each.path, each.headers, each.body), name))
        await restore()
      }
      t.equal(
        answers[0],
        answers[1],
        `${request.method} ${request.path} ${request.body ?? ''} ${JSON.stringify(request.headers)}`,
      )
    }
    const sftp = isFolder ? sftpRequestsOfFolder : sftpRequests
    const [asked, twins] = [sftp(path), sftp(other)]
    for (const [at, ask] of asked.entries()) {
      const answers: string[] = []
      for (const each of [ask, twins[at] ?? ask]) {
        const { type, body } = await each(client)
        answers.push(`${type} ${body.toString('latin1').replaceAll(there, '*').replaceAll(gone, '*')}`)
        await restore()
      }
      t.equal(answers[0], answers[1], `SFTP ${path} ${at}`)
    }
  }
}

void t.test('no answer tells whether what is not seen exists', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const all = gateway.as(unbound())
  const userId = await addUser(running, 'mallory', everyPermission)
  await gateway.grants.replace({ userId }, [
    { path: '/open/secret', allow: [], deny: ['see'] },
    { path: '/open/hall', allow: [], deny: ['see'] },
    { path: '/open/hall/room', allow: ['see', 'read', 'write'], deny: [] },
  ])
  /** Both exist, or neither: each a file, and a folder with a file. */
  const parents = ['/open/secret', '/open/hall'] as const
  for (const parent of parents) {
    await store(all, `${parent}/${there}`, 'x')
    await store(all, `${parent}/f${there}/${there}`, 'x')
  }
  for (const path of ['/open/hall/room/x', '/open/file', '/mine/conditional']) await store(all, path, 'x')
  const ensure = async (path: string) => {
    if (!(await all.stat(asPath(path)).catch(() => undefined))) await store(all, path, 'y')
  }
  /** What the requests may have moved or removed. */
  const sources = async () => {
    for (const name of ['file', there, gone]) await ensure(`/source/${name}`)
    for (const name of [there, gone]) {
      for (const parent of parents) await ensure(`/source/all-${name}${parent}/${name}`)
      for (const parent of parents) await ensure(`/source/all-f${name}${parent}/f${name}/${name}`)
    }
    await ensure('/open/file')
    await all.mkdir(asPath('/open/empty'), { parents: true })
  }
  const paths = [...parents.flatMap((at) => [`${at}/${there}`, `${at}/f${there}`]), `/open/secret/f${there}/${there}`]
  await assertSameAnswers(t, running, paths, sources)
})

void t.test(
  'neither the path of a denial tells whether anything is there, nor the folder in which it is',
  async (t) => {
    const running = await startGateway(t)
    const { gateway, dataFolder } = running
    const all = gateway.as(unbound())
    const userId = await addUser(running, 'mallory', everyPermission)
    const boxes = ['file', 'folder', 'sibling', 'mount'] as const
    const boxOf = (kind: string, name: string) => `/${kind}-${name}`
    await gateway.grants.replace(
      { userId },
      boxes.flatMap((kind) =>
        [there, gone].map((name) => ({ path: `${boxOf(kind, name)}/closed`, allow: [], deny: ['see'] })),
      ),
    )
    const exists = (path: string) => all.stat(asPath(path)).catch(() => undefined)
    const kept = async (path: string) => {
      if (!(await exists(path))) await store(all, path, 'x')
    }
    const restore = async () => {
      for (const made of ['/mine', '/open/closed']) if (await exists(made)) await all.remove(asPath(made))
      await kept('/mine/conditional')
      for (const path of ['/open/file', '/source/file', '/source/closed', '/source/all-closed/open/x']) await kept(path)
      for (const name of [there, gone]) {
        for (const box of boxes.map((kind) => boxOf(kind, name))) {
          await all.mkdir(asPath(box), { parents: true })
          if (await exists(`${box}/x`)) await all.remove(asPath(`${box}/x`))
          await kept(`/source${box}/x`)
        }
        await kept(`${boxOf('sibling', name)}/seen`)
      }
      await kept(`${boxOf('file', there)}/closed`)
      await kept(`${boxOf('folder', there)}/closed/x`)
      await kept(`${boxOf('sibling', there)}/closed`)
      await kept(`${boxOf('mount', there)}/closed/x`)
      for (const { token } of gateway.locks.list()) await gateway.locks.break(token)
    }
    await restore()
    const [first] = gateway.storages.list()
    if (!first) throw new Error('nothing is mounted')
    const { id: _id, ...like } = first
    const addition = JSON.stringify({ root_folder_path: await mkdtemp(join(dataFolder, 'other-')) })
    await gateway.storages.create({ ...like, mountPath: `${boxOf('mount', there)}/closed`, addition })
    const folders = boxes.map((kind) => boxOf(kind, there))
    await assertSameAnswers(
      t,
      running,
      folders.map((folder) => `${folder}/closed`),
      restore,
      folders,
    )
  },
)

void t.test('a symlink on the disk does not tell whether its target exists', async (t) => {
  const running = await startGateway(t)
  const { gateway, dataFolder } = running
  const all = gateway.as(unbound())
  const userId = await addUser(running, 'mallory', busy, '/base')
  await gateway.grants.replace({ userId }, [{ path: '/base/unseen', allow: [], deny: ['see'] }])
  await addRule(running, '/base/locked', { password: 'sesame', passwordSub: true })
  const folders = { outside: '../../outside', unseen: '../unseen', locked: '../locked' }
  const kept = async (path: string) => {
    if (!(await all.stat(asPath(path)).catch(() => undefined))) await store(all, path, 'x')
  }
  const link = async (path: string, target: string) => {
    const at = join(dataFolder, 'files', path)
    if ((await readlink(at).catch(() => undefined)) === target) return
    await rm(at, { recursive: true, force: true })
    await symlink(target, at)
    await lutimes(at, 0, 0)
  }
  const restore = async () => {
    for (const made of ['open/other', 'mine/link', 'mine/new']) {
      await rm(join(dataFolder, 'files/base', made), { recursive: true, force: true })
    }
    for (const path of ['/outside', '/base/unseen', '/base/locked']) await kept(`${path}/${there}`)
    for (const path of ['/outside', '/base/unseen', '/base/locked']) await kept(`${path}/f${there}/${there}`)
    for (const name of ['file', there, gone]) await kept(`/base/source/${name}`)
    for (const path of ['/base/open/file', '/base/mine/conditional']) await kept(path)
    for (const name of [there, gone]) {
      for (const [folder, to] of Object.entries(folders)) {
        await link(`/base/open/${folder}-${name}`, `${to}/${name}`)
        await link(`/base/open/${folder}-f${name}`, `${to}/f${name}`)
      }
    }
  }
  await assertSameAnswers(
    t,
    running,
    Object.keys(folders).flatMap((folder) => [`/open/${folder}-${there}`, `/open/${folder}-f${there}`]),
    restore,
  )
})
